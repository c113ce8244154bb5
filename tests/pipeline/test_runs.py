"""A run publishes everything it declares in one commit, or nothing, and says what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from omnigraph_sql import errors, failpoints
from omnigraph_sql.graph import resumption
from omnigraph_sql.pipeline import make_plan, run_pipeline, validate
from omnigraph_sql.pipeline.engines import Progress
from tests.pipeline.world import KNOWS, PEOPLE, World

TEST = {"name": "no Ann", "sql": """select name, age from "Person" where name = 'Ann' """}


def dirty(world: World) -> None:
    """People of whom one is too old, and friendships of whom one is with nobody."""
    world.lines("people.jsonl", [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 300}, {"name": "Cem", "age": 5}])
    world.write("knows.csv", "a,b,since\nAnn,Cem,2020-01-01\nAnn,Bob,\nZoe,Ann,\n")
    world.pipeline(**with_knows())


def with_knows(**given: Any) -> dict[str, Any]:
    sources = {"people": {"format": "jsonl", "path": "people.jsonl"}, "knows": {"format": "csv", "path": "knows.csv"}}
    return {"sources": sources, "edges": [KNOWS], "rejects": {"to": "rejects.jsonl", "max": 3}} | given


def test_a_run_is_one_commit_and_reports_what_became_of_the_rows(world: World) -> None:
    dirty(world)
    before = len(world.graph.commits())
    told: list[Progress] = []
    report = world.run(actor="ada", progress=told.append)

    found = report.to_dict()
    assert len(world.graph.commits()) == before + 1
    assert world.graph.commits()[0].graph_commit_id == found["commit"]["graph_commit_id"]
    assert world.graph.commits()[0].actor_id == "ada"
    assert (found["rows"], found["rejected"], found["staged"], found["published"]) == (6, 3, 3, 3)
    assert found["tables"] == [
        {"table_key": "node:Person", "rows": 3, "rejected": 1, "staged": 2, "published": 2},
        {"table_key": "edge:Knows", "rows": 3, "rejected": 2, "staged": 1, "published": 1},
    ]
    assert {(each["type"], each["rule"], each["source"], each["line"]) for each in world.rejects()} == {
        ("Person", "range", "people.jsonl", 2),
        ("Knows", "endpoint", "knows.csv", 2),
        ("Knows", "endpoint", "knows.csv", 3),
    }
    assert list(dict.fromkeys(each.stage for each in told)) == ["read", "validate", "stage", "publish"]
    assert set(found["seconds"]) == {"read", "validate", "stage", "publish", "total"}
    assert "node:Person     3         1       2          2" in report.to_text()
    assert json.loads(json.dumps(found)) == found
    assert world.leftovers() == []


def test_without_an_engine_the_run_is_local(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SPARK_REMOTE", "MASTER", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(variable, raising=False)
    world.lines("people.jsonl", [{"name": "Ann"}])

    assert run_pipeline(world.pipeline(), engine=None).engine == "local"


def test_without_rejects_the_first_faulty_row_fails_the_run(world: World) -> None:
    dirty(world)
    world.pipeline(**with_knows(rejects=None))

    with pytest.raises(errors.ValidationFailed, match=r"^people.jsonl, line 2: ") as raised:
        world.run()

    assert raised.value.rule == "range"
    assert world.people() == {}
    assert world.leftovers() == []


@pytest.mark.parametrize(("limit", "fits"), [(2, False), (3, True), ("49.9%", False), ("50%", True), ("100%", True)])
def test_the_budget_of_rejects_is_a_number_or_a_share(world: World, limit: int | str, fits: bool) -> None:
    dirty(world)
    world.pipeline(**with_knows(rejects={"to": "rejects.jsonl", "max": limit}))

    if fits:
        assert world.run().rejected == 3
    else:
        with pytest.raises(errors.ValidationFailed, match="3 records are rejected, 2 allowed") as raised:
            world.run()
        assert "allow as many with rejects.max;" in (raised.value.hint or "")
        assert world.people() == {}
    assert len(world.rejects()) == 3


def test_rejects_can_be_a_parquet_file(world: World) -> None:
    dirty(world)
    world.pipeline(**with_knows(rejects={"to": "rejects.parquet", "max": 3}))
    world.run()

    found = pq.read_table(world.path / "rejects.parquet").to_pylist()
    assert [each["rule"] for each in found] == ["range", "endpoint", "endpoint"]
    assert set(found[0]) == {"line", "source", "type", "table_key", "id", "rule", "property", "value", "message"}


@pytest.mark.parametrize(
    ("dedupe", "left"),
    [
        ({"by": ["name"]}, {"Ann": 2, "Bob": 9}),
        ({"by": "name", "keep": "first"}, {"Ann": 3, "Bob": 9}),
        ({"by": ["name"], "order": "cast(age as integer)"}, {"Ann": 3, "Bob": 9}),
        ({"by": ["name"], "order": "cast(age as integer)", "keep": "first"}, {"Ann": 1, "Bob": 9}),
    ],
)
def test_of_rows_with_one_key_one_stays(world: World, dedupe: dict[str, Any], left: dict[str, int]) -> None:
    rows = [("Ann", 3), ("Bob", 9), ("Ann", 1), ("Ann", None), ("Ann", 2), (None, 7), (None, 8)]
    world.lines("people.jsonl", [{"name": name, "age": age} for name, age in rows])
    world.pipeline(nodes=[PEOPLE | {"dedupe": dedupe}], rejects={"to": "rejects.jsonl", "max": 2})
    world.run()

    assert world.people() == left
    assert [(each["line"], each["rule"]) for each in world.rejects()] == [(6, "required"), (7, "required")]


def test_where_leaves_rows_out_that_are_no_rejects(world: World) -> None:
    world.write("people.jsonl", '{"name": "Ann", "age": 1}\nbad\n{"name": "Bob"}\n{"name": "Cem", "age": 700}\n')
    world.pipeline(nodes=[PEOPLE | {"where": "age is null or age <> '700'"}], rejects={"to": "rejects.jsonl", "max": 1})

    assert world.run().rejected == 1
    assert world.people() == {"Ann": 1, "Bob": None}


def test_several_targets_can_fill_one_type(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "friend": "Bob"}, {"name": "Bob", "friend": "Cem"}])
    friends = {"type": "Person", "from": "people", "columns": {"name": "friend"}}
    world.pipeline(nodes=[PEOPLE, friends], rejects={"to": "rejects.jsonl", "max": 1})
    report = world.run()

    assert world.people() == {"Ann": None, "Bob": None, "Cem": None}
    assert report.to_dict()["tables"] == [
        {"table_key": "node:Person", "rows": 4, "rejected": 1, "staged": 3, "published": 3}
    ]
    assert [(each["line"], each["id"]) for each in world.rejects()] == [(1, "Bob")]


@pytest.mark.parametrize(
    ("mode", "left"), [("merge", {"Ann": 31, "Bob": 1, "Old": 99}), ("overwrite", {"Ann": 31, "Bob": 1})]
)
def test_modes(world: World, mode: str, left: dict[str, int]) -> None:
    world.graph.load(
        '{"type": "Person", "data": {"name": "Ann", "age": 30}}\n{"type": "Person", "data": {"name": "Old", "age": 99}}',
        mode="append",
    )
    world.lines("people.jsonl", [{"name": "Ann", "age": 31}, {"name": "Bob", "age": 1}])
    world.pipeline(mode=mode, tests=[{"name": "none is young", "sql": 'select * from "Person" where age < 1'}])
    world.run()

    assert world.people() == left
    assert world.leftovers() == []


def test_append_does_not_replace(world: World) -> None:
    world.graph.load('{"type": "Person", "data": {"name": "Ann"}}', mode="append")
    world.lines("people.jsonl", [{"name": "Ann", "age": 31}])
    world.pipeline()

    with pytest.raises(errors.KeyConflict):
        world.run()


def test_a_second_run_of_the_same_inputs_does_nothing(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline()
    first, again = world.run(), world.run()

    assert (first.replayed, again.replayed) == (False, True)
    assert again.commit == first.commit
    assert "was published before" in again.to_text()

    world.lines("people.jsonl", [{"name": "Bob"}])
    assert not world.run().replayed
    assert world.people() == {"Ann": None, "Bob": None}


def test_the_key_can_be_given(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline(key="monday")
    assert world.run().key == "monday"

    world.lines("people.jsonl", [{"name": "Bob"}])
    assert world.run().replayed
    assert not world.run(key="tuesday").replayed
    assert world.people() == {"Ann": None, "Bob": None}


def test_the_key_depends_on_what_is_loaded_alone(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    others: list[dict[str, Any]] = [{"message": "x"}, {"tests": [TEST]}, {"rejects": {"max": 1}}, {"mode": "merge"}]
    keys = [make_plan(world.pipeline(**given), engine="local").key for given in ({}, *others)]

    assert len(set(keys[:4])) == 1
    assert keys[4] != keys[0]


def test_a_table_that_moves_meanwhile_is_a_conflict_that_leaves_nothing(world: World) -> None:
    world.graph.load('{"type": "Person", "data": {"name": "Ann", "age": 1}}', mode="append")
    world.lines("people.jsonl", [{"name": "Ann", "age": 2}])
    world.pipeline(mode="merge")
    with failpoints.pause("pipeline.post_stage") as held, ThreadPoolExecutor() as threads:
        run = threads.submit(world.run)
        assert held.reached.wait(60)
        world.graph.load('{"type": "Person", "data": {"name": "Bob", "age": 3}}', mode="append")
        held.resume.set()
        with pytest.raises(errors.ExpectedVersionMismatch):
            run.result(60)

    assert world.people() == {"Ann": 1, "Bob": 3}
    assert world.leftovers() == []
    assert not world.run().replayed
    assert world.people() == {"Ann": 2, "Bob": 3}


# Tests of the staged result


def test_tests_see_the_graph_as_it_will_be(world: World) -> None:
    world.graph.load('{"type": "Person", "data": {"name": "Old", "age": 99}}', mode="append")
    dirty(world)
    counts = 'select * from (select count(*) n from "Person") where n <> 3'
    joined = 'select * from (select count(*) n from "Knows" k join "Person" p on p.id = k.dst) where n <> 1'
    world.pipeline(**with_knows(tests=[{"name": "three people", "sql": counts}, {"name": "one edge", "sql": joined}]))
    report = world.run()

    assert report.tests == ("three people", "one edge")
    assert "passed 2 tests" in report.to_text()
    assert world.leftovers() == []


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_failing_test_publishes_nothing_and_leaves_nothing(world: World, branch: str) -> None:
    world.graph.load('{"type": "Person", "data": {"name": "Old"}}', mode="append")
    commit = world.graph.snapshot().commit_id
    world.lines("people.jsonl", [{"name": "Ann", "age": 3}, {"name": "Bob"}])
    world.pipeline(branch=branch, base="main", tests=[TEST])

    with pytest.raises(errors.DataTestFailed, match="the test `no Ann` found 1 row") as raised:
        world.run()

    assert (raised.value.test, raised.value.count, raised.value.rows) == ("no Ann", 1, ({"name": "Ann", "age": 3},))
    assert world.graph.snapshot().commit_id == commit
    assert world.graph.branches() == ["main"]
    assert world.leftovers() == []


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_tests_on_a_branch_that_was_not_written_to_see_its_rows_and_the_new_ones(world: World, mode: str) -> None:
    world.graph.load('{"type": "Person", "data": {"name": "Old"}}', mode="append")
    world.graph.create_branch("draft")
    world.lines("people.jsonl", [{"name": "Ann"}])
    left = 1 if mode == "overwrite" else 2
    count = f'select * from (select count(*) n from "Person") where n <> {left}'
    main = 'select * from (select count(*) n from "main"."Person") where n <> 1'
    world.pipeline(
        branch="draft", mode=mode, tests=[{"name": "all", "sql": count}, {"name": "main is as it was", "sql": main}]
    )
    world.run()

    assert len(world.people("draft")) == left
    assert world.people() == {"Old": None}
    assert world.leftovers() == []


def test_a_test_that_cannot_be_understood_is_found_before_anything_is_read(world: World) -> None:
    world.lines("people.jsonl", [{"name": None}])
    world.pipeline(tests=[{"name": "wrong", "sql": 'select * from "Persn"'}])

    with pytest.raises(errors.Configuration, match=r"`tests\[0\].sql`: there is no table `Persn`") as raised:
        world.run()

    assert raised.value.hint == "did you mean `Person`?"


def test_a_test_that_fails_in_itself_is_named_and_publishes_nothing(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "age": 0}])
    world.pipeline(tests=[{"name": "odd", "sql": 'select 1 / age from "Person" where 1 / age > 1'}])

    with pytest.raises(errors.OmnigraphError, match="the test `odd` cannot run: "):
        world.run()

    assert world.people() == {}
    assert world.leftovers() == []


def test_a_missing_branch_is_created_from_its_base(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline(branch="draft", base="main")
    report = world.run()

    assert report.branch_created
    assert world.people("draft") == {"Ann": None}
    assert world.people() == {}
    assert world.run().replayed
    assert not world.run(branch="main").replayed


def test_a_created_branch_goes_away_if_the_run_fails(world: World) -> None:
    world.lines("people.jsonl", [{"name": None}])
    world.pipeline(branch="draft", base="main")

    with pytest.raises(errors.ValidationFailed):
        world.run()

    assert world.graph.branches() == ["main"]


def test_an_interrupt_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline(tests=[TEST])
    monkeypatch.setenv("OMNIGRAPH_FAILPOINTS", "pipeline.during_tests=interrupt")

    with pytest.raises(KeyboardInterrupt):
        world.run()

    assert world.leftovers() == []


# Death


def killed(world: World, point: str) -> None:
    """Run the pipeline in a process that dies at a point."""
    code = "import sys; from omnigraph_sql.pipeline import run_pipeline; run_pipeline(sys.argv[1], engine='local')"
    done = subprocess.run(
        [sys.executable, "-c", code, world.path / "pipeline.yaml"],
        env=os.environ | {"OMNIGRAPH_FAILPOINTS": f"{point}=exit", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 86, done.stderr


@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize("point", ["pipeline.post_stage", "pipeline.during_tests", "pipeline.post_tests_pre_publish"])
def test_a_run_that_was_killed_before_it_published_is_repeated_cleanly(world: World, point: str, branch: str) -> None:
    world.graph.load('{"type": "Person", "data": {"name": "Ann", "age": 1}}', mode="append")
    world.lines("people.jsonl", [{"name": "Ann", "age": 2}, {"name": "Bob"}])
    world.pipeline(
        branch=branch, base="main", mode="merge", tests=[{"name": "fine", "sql": 'select * from "Person" where age = 1'}]
    )
    killed(world, point)
    assert world.people() == {"Ann": 1}
    assert world.leftovers() != []

    stages: list[str] = []
    report = world.run(progress=lambda step: stages.append(step.stage))

    assert (report.resumed, report.replayed, set(stages)) == (True, False, {"test", "publish"})
    assert [(each.rows, each.staged, each.published) for each in report.tables] == [(2, 2, 2)]
    assert [each.rows for each in report.sources] == [2]
    assert world.people(branch) == {"Ann": 2, "Bob": None}
    assert world.leftovers() == []


def test_a_run_that_is_killed_again_and_again(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}, {"name": "Bob", "age": 900}])
    world.pipeline(rejects={"to": "rejects.jsonl", "max": 1}, tests=[{"name": "fine", "sql": "select 1 where false"}])
    for _ in range(3):
        killed(world, "pipeline.during_tests")

    report = world.run()

    assert (report.resumed, report.rejected, world.people()) == (True, 1, {"Ann": None})
    assert [each["rule"] for each in world.rejects()] == ["range"]
    assert world.leftovers() == []


def test_a_test_that_fails_after_a_run_was_killed_publishes_nothing(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "age": 5}])
    world.pipeline(tests=[{"name": "no children", "sql": 'select * from "Person" where age < 18'}])
    killed(world, "pipeline.post_stage")

    with pytest.raises(errors.DataTestFailed, match="no children"):
        world.run()

    assert (world.people(), world.leftovers()) == ({}, [])


def test_other_inputs_under_the_same_key_are_read(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline(key="night")
    killed(world, "pipeline.post_stage")
    world.lines("people.jsonl", [{"name": "Zoe"}, {"name": "Bob"}])

    assert not world.run().resumed
    assert world.people() == {"Bob": None, "Zoe": None}
    assert world.leftovers() == []


def test_what_was_staged_on_an_older_state_is_staged_again(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline()
    killed(world, "pipeline.post_stage")
    world.graph.load('{"type": "Person", "data": {"name": "Zoe"}}', mode="append")

    assert not world.run().resumed
    assert world.people() == {"Ann": None, "Zoe": None}
    assert world.leftovers() == []


@pytest.mark.parametrize("point", ["publish.after_merge", "write.before_sidecar_delete", "write.post_effects_pre_publish"])
def test_a_run_that_was_killed_while_it_published_is_not_done_again(world: World, point: str) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline()
    killed(world, point)

    assert world.run().replayed
    assert world.people() == {"Ann": None}
    assert [each for each in world.leftovers() if "_staged" in each] == []


def test_the_staged_files_of_a_living_run_are_left_alone(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline(key="shared")
    with world.graph as graph:
        staged = graph.stage(
            [json.dumps({"type": "Person", "data": {"name": "Zoe"}})], mode="append", idempotency_key="shared"
        )
        assert resumption.discard_abandoned(graph, "shared") == 0
        graph.publish(staged)

    assert world.run().replayed
    assert world.people() == {"Zoe": None}


def test_what_was_staged_for_a_branch_that_is_gone_is_removed(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])
    world.pipeline(branch="draft", base="main")
    killed(world, "pipeline.post_stage")
    world.graph.delete_branch("draft")

    assert world.run().branch_created
    assert world.leftovers() == []


def test_of_two_loads_with_one_key_the_second_leaves_nothing(world: World) -> None:
    with world.graph as graph:
        first, second = (
            graph.stage([json.dumps({"type": "Person", "data": {"name": name}})], mode="append", idempotency_key="k")
            for name in ("Ann", "Bob")
        )
        commit = graph.publish(first)
        assert graph.publish(second) == commit

    assert world.people() == {"Ann": None}
    assert world.leftovers() == []


# The command


def ogsql(world: World, *arguments: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ogsql", *arguments],
        cwd=world.path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_the_command_runs_validates_and_plans(world: World) -> None:
    dirty(world)

    assert (
        ogsql(world, "pipeline", "validate", "pipeline.yaml", "--engine", "local")[0]
        == "valid: 2 sources, 2 targets, 0 tests\n"
    )
    assert ogsql(world, "pipeline", "validate", "pipeline.yaml")[0] == "valid: 2 sources, 2 targets, 0 tests\n"
    plan = json.loads(ogsql(world, "pipeline", "plan", "pipeline.yaml", "--format", "json")[0])
    assert (plan["engine"], [each["table_key"] for each in plan["targets"]]) == ("local", ["node:Person", "edge:Knows"])
    out, err = ogsql(world, "pipeline", "run", "pipeline.yaml", "--engine", "local", "--branch", "main", "--as", "ada")
    assert "left out 3 rows" in out
    assert [line for line in err.splitlines() if line.startswith("stage: ")][-1] == "stage: publish"
    again = json.loads(ogsql(world, "pipeline", "run", "pipeline.yaml", "--engine", "local", "--json", "-q")[0])
    assert again["replayed"]


def test_the_command_says_what_only_spark_could_check(world: World) -> None:
    world.pipeline(sources={"people": {"format": "delta", "path": "people"}})

    out, _ = ogsql(world, "pipeline", "validate", "pipeline.yaml")
    assert out.splitlines()[1:] == ["not checked: the source people (delta), its columns, and the expressions that read it"]
    assert json.loads(ogsql(world, "pipeline", "validate", "pipeline.yaml", "--json")[0])["unchecked"] == ["people"]


def test_the_command_says_what_is_wrong(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "age": 3}])
    world.pipeline(tests=[TEST])

    _, err = ogsql(world, "pipeline", "run", "pipeline.yaml", "--engine", "local", code=1)
    assert "error: the test `no Ann` found 1 row" in err
    assert "{'name': 'Ann', 'age': 3}" in err
    _, err = ogsql(world, "pipeline", "run", "pipeline.yaml", "--engine", "local", "--master", "local[2]", code=2)
    assert "--master is for the engine spark" in err
    _, err = ogsql(world, "pipeline", "run", "nothing.yaml", code=1)
    assert "cannot be read" in err


def test_a_pipeline_can_be_given_as_it_was_read(world: World) -> None:
    from omnigraph_sql.pipeline import load_pipeline

    world.lines("people.jsonl", [{"name": "Ann"}])

    assert run_pipeline(load_pipeline(Path(world.pipeline())), engine="local").commit is not None


def test_a_merge_that_makes_parallel_edges_is_warned_of(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 31}])
    world.write("knows.csv", "a,b,since\nAnn,Bob,\n")
    path = world.pipeline(**with_knows(mode="merge", rejects=None))
    (text,) = validate(path, engine="local").warnings
    assert "`edges[0]`" in text
    assert "map `id`, or declare @unique(src, dst) on Knows" in text
    with pytest.warns(errors.ParallelEdgesWarning, match="Knows"):
        report = world.run(key="1")
    assert len(report.warnings) == 1
    assert report.to_dict()["warnings"] == list(report.warnings)
    named = with_knows(mode="merge", rejects=None)
    named["edges"] = [KNOWS | {"columns": {"since": "since", "id": "a || '-' || b"}}]
    path = world.pipeline(**named)
    assert validate(path, engine="local").warnings == ()
    for key in ("2", "3"):
        assert world.run(key=key).warnings == ()
    with world.graph as graph:
        assert graph.sql('select count(*) as n from "Knows"').to_pylist() == [{"n": 2}]
