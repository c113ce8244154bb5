"""The commands of `ogsql`, found in the tree that click keeps, with arguments that each of them takes."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from omnigraph_sql.cli.app import app
from omnigraph_sql.cli.main import run
from tests.surface.targets import Exclusion
from tests.surface.world import READ, WRITE, World

EXCLUSIONS = (
    Exclusion("*.message", "texts of provenance"),
    Exclusion("*.actor", "texts of provenance"),
    Exclusion("*.idempotency_key", "texts of provenance"),
    Exclusion("*.key", "texts of provenance"),
    Exclusion("*.branch", "states of the graph"),
    Exclusion("*.base", "states of the graph"),
    Exclusion("*.snapshot", "states of the graph"),
    Exclusion("*.version", "states of the graph"),
    Exclusion("*.commit", "states of the graph"),
    Exclusion("*.if_commit", "states of the graph"),
    Exclusion("ogsql branch *.words", "states of the graph"),
    Exclusion("ogsql commit *.words", "states of the graph"),
    Exclusion("ogsql tag *.words", "states of the graph"),
    Exclusion("*.data", "records and rejects"),
    Exclusion("*.rejects", "records and rejects"),
    Exclusion("*.max_rejects", "records and rejects"),
    Exclusion("ogsql mutate.text", "query texts and parameters"),
    Exclusion("ogsql query.text", "query texts and parameters"),
    Exclusion("ogsql explain.text", "query texts and parameters"),
    Exclusion("*.params", "query texts and parameters"),
    Exclusion("ogsql sql.text", "SQL texts"),
)
WORDS: dict[str, str] = {
    "empty": "",
    "blank": " \t\n",
    "text": "x",
    "dash": "-",
    "dashes": "--",
    "option": "--nothing",
    "minus_one": "-1",
    "zero": "0",
    "two_to_70": str(2**70),
    "digits": "9" * 6000,
    "nan": "nan",
    "infinity": "inf",
    "long_duration": f"{'9' * 400}w",
    "size_overflow": f"{'9' * 400}TB",
    "undecoded_bytes": "caf\udce9",
    "undecoded_lead": "\udcff\udcfe",
    "long_text": "x" * 70_000,
    "long_path": "/".join(["x" * 200] * 100),
    "quotes": "'\"`;--\\{}%s${",
    "brackets": "[" * 20_000,
    "json_depth": "[" * 20_000 + "]" * 20_000,
    "control": "\x01\x1b[31m\u202e",
    "dot": ".",
    "dots": "..",
    # Nothing here may lead outside of the directory of the test: `--out` writes to what it is given, through links too.
    "nowhere": "ports.csv/x",
    "home": "~nobody-of-this-name/x",
    "equals": "=",
    "typed": "Port=x",
    "colons": ":::=",
    "address": "ftp://[::1",
    "server": "http://127.0.0.1:1",
    "bucket": "s3://",
    "graph": "../../../graph",
}
_Words = Callable[[World], list[str]]
_FILES = ["ports.pg", "ports.gq"]
BASELINES: dict[str, _Words] = {
    "ogsql branch create": lambda world: [str(world.uri), world.name()],
    "ogsql branch delete": lambda world: [str(world.uri), _branch(world)],
    "ogsql branch list": lambda world: [str(world.uri)],
    "ogsql branch merge": lambda world: [str(world.uri), _branch(world)],
    "ogsql cherry-pick": lambda world: [str(world.uri), _written(world)],
    "ogsql changes baseline": lambda world: [str(world.uri)],
    "ogsql changes poll": lambda world: [str(world.uri)],
    "ogsql cleanup": lambda world: [str(world.uri), "--keep", "5"],
    "ogsql commit changes": lambda world: [str(world.uri), world.graph.snapshot().commit_id],
    "ogsql commit list": lambda world: [str(world.uri)],
    "ogsql commit show": lambda world: [str(world.uri), world.graph.snapshot().commit_id],
    "ogsql compile": lambda world: _FILES,
    "ogsql completion": lambda world: ["bash"],
    "ogsql copy": lambda world: [str(world.uri), str(world.root / world.name())],
    "ogsql diff": lambda world: [str(world.uri), "main", "main"],
    "ogsql embed": lambda world: ["ports.jsonl", "--schema", "ports.pg", "--clean"],
    "ogsql ensure-indices": lambda world: [str(world.uri)],
    "ogsql explain": lambda world: [str(world.uri), "--query", "ports.gq"],
    "ogsql export": lambda world: [str(world.uri)],
    "ogsql fmt": lambda world: ["ports.gq"],
    "ogsql ingest": lambda world: [str(world.uri), "--data", "ports.jsonl", "--mode", "merge"],
    "ogsql init": lambda world: [str(world.root / world.name()), "--schema", "ports.pg"],
    "ogsql lint": lambda world: _FILES,
    "ogsql load": lambda world: [str(world.uri), "--data", "ports.jsonl", "--mode", "merge"],
    "ogsql mutate": lambda world: [str(world.uri), "-e", WRITE],
    "ogsql pipeline plan": lambda world: ["pipeline.yaml", "--engine", "local"],
    "ogsql pipeline run": lambda world: ["pipeline.yaml", "--engine", "local"],
    "ogsql pipeline validate": lambda world: ["pipeline.yaml", "--engine", "local"],
    "ogsql query": lambda world: [str(world.uri), "-e", READ],
    "ogsql recovery list": lambda world: [str(world.uri)],
    "ogsql restore": lambda world: [str(world.uri), "main"],
    "ogsql revert": lambda world: [str(world.uri), _written(world)],
    "ogsql schema plan": lambda world: ["ports.pg", "--from", "ports.pg"],
    "ogsql shell": lambda world: [str(world.uri)],
    "ogsql snapshot": lambda world: [str(world.uri)],
    "ogsql sql": lambda world: [str(world.uri), "select 1 as x"],
    "ogsql tag create": lambda world: [str(world.uri), world.name()],
    "ogsql tag delete": lambda world: [str(world.uri), _tag(world)],
    "ogsql tag list": lambda world: [str(world.uri)],
    "ogsql version": lambda world: [],
}
"""The words after each command with which it succeeds. Whoever adds a command adds it here."""
CHANGING = {
    *("branch create", "branch delete", "cleanup", "ensure-indices", "ingest", "init", "load", "mutate"),
    *("pipeline run", "shell", "tag create", "tag delete"),
    *("branch merge", "cherry-pick", "copy", "restore", "revert"),
}
_STATUSES = {0, 1, 2, 4, 5, 6, 7, 8, 141}
_DRAINED = b"select 1;\n"


def _branch(world: World) -> str:
    name = world.name()
    world.graph.create_branch(name)
    return name


def _written(world: World) -> str:
    """A commit that can be taken back."""
    commit = world.graph.load(world.record(), mode="merge").commit
    assert commit is not None
    return commit.graph_commit_id


def _tag(world: World) -> str:
    name = world.name()
    world.graph.tag(name)
    return name


def tree(command: click.Command = app, name: str = "ogsql") -> Iterator[tuple[str, click.Command]]:
    """All commands that do something, with their names."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for word, inner in command.commands.items():
        yield from tree(inner, f"{name} {word}")


def cases() -> list[str]:
    """`COMMAND.PARAMETER=WORD` for everything that is to be tried."""
    places = [f"{name}.{parameter.name}" for name, command in tree() for parameter in command.params if _takes(parameter)]
    kept = [place for place in places if not any(fnmatchcase(place, each.parameters) for each in EXCLUSIONS)]
    return [f"{place}={word}" for place in kept for word in WORDS]


def _takes(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument) or not getattr(parameter, "is_flag", False)


def attempt(world: World, name: str, parameter: str, word: str) -> str:
    """What comes of a command: how it ended, and whether it said so in its own words."""
    command = dict(tree())[name]
    declared = next((each for each in command.params if each.name == parameter), None)
    words = BASELINES[name](world)
    if declared is None:
        pass  # the usual arguments
    elif isinstance(declared, click.Option):
        words = [*words, declared.opts[0], WORDS[word]]
    else:
        at = [each.name for each in command.params if isinstance(each, click.Argument)].index(parameter)
        words = [*words[:at], WORDS[word], *words[at + 1 :]]
    before = dict.fromkeys(os.listdir())
    status, out, err = captured([*name.split()[1:], *words])
    for made in os.listdir():
        if made not in before:
            shutil.rmtree(made) if Path(made).is_dir() else Path(made).unlink()
    if "internal error" in out + err or "Traceback" in out + err:
        return f"raw {next(line for line in (out + err).splitlines() if 'rror' in line)[:300]}"
    if status not in _STATUSES:
        return f"raw status {status}: {err[:200]}"
    if status and not (out + err).strip():
        return f"raw silence with status {status}"
    if len(err) > 20_000:
        return f"raw message: {len(err)} characters"
    return "ok" if status == 0 else f"typed {status}: {err[:200]}"


def captured(arguments: Sequence[str], stdin: bytes = _DRAINED) -> tuple[Any, str, str]:
    """Run a command in this process; its status and what it wrote."""
    kept = sys.stdin, sys.stdout, sys.stderr
    source: Any = io.BufferedReader(io.BytesIO(stdin))
    sys.stdin = io.TextIOWrapper(source, encoding="utf-8")
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    try:
        status: Any = run(arguments)
    except BaseException as error:
        status = f"{type(error).__name__}: {error}"[:300]
    finally:
        written = sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = kept
    out, err = (_content(each) for each in written)
    return status, out, err


def _content(stream: Any) -> str:
    stream.flush()
    content: bytes = stream.buffer.getvalue()
    return content.decode("utf-8", "replace")
