"""Branches are listed while others come and go."""

import threading
from pathlib import Path

import omnigraph_sql as og


def test_a_branch_that_goes_while_branches_are_listed_is_no_fault(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Port { code: String @key }")
    for number in range(12):
        graph.create_branch(f"b{number}")
    graph.create_branch("stays")
    done = threading.Event()
    failures: list[BaseException] = []

    def list_them() -> None:
        reader = og.connect(graph.uri)
        while not done.is_set():
            try:
                assert {"main", "stays"} <= set(reader.branches())
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=list_them) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(12):
        graph.delete_branch(f"b{number}")
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert graph.branches() == ["main", "stays"]
