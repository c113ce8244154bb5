"""How statements end: with the process, by another thread, and what they leave on its output."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_sql as og

# A join by equality is left where it is when nobody wants its rows. A product of tables is not: it is made in one go.
ENDLESS = 'select count(*) as n from "P" a join "P" b on a.n % 5 = b.n % 5 join "P" c on b.n % 5 = c.n % 5'
MANY = 'select a.n + b.n as n from "P" a, "P" b'


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("endings") / "graph"
    with og.init(path, "node P { k: String @key\n n: I64? }") as graph:
        graph.create_branch("small")
        graph.load({"P": pa.table({"k": ["a"], "n": [1]})}, mode="append", branch="small")
        numbers = list(range(20_000))
        graph.load({"P": pa.table({"k": [str(each) for each in numbers], "n": numbers})}, mode="append")
    return str(path)


def comes_to_rest() -> bool:
    """Whether this process stops working within a while."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        before = time.process_time()
        time.sleep(0.2)
        if time.process_time() - before < 0.02:
            return True
    return False


def run(uri: str, *lines: str) -> subprocess.CompletedProcess[str]:
    text = "\n".join(["import omnigraph_sql as og", f"graph = og.connect({uri!r}, read_only=True)", *lines])
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)


BEGUN = (f"rows = iter(graph.sql({MANY!r}))", "next(rows)")
READING = (
    "import threading, time",
    f"result = graph.sql({MANY!r})",
    "def read():",
    "    for batch in result: pass",
    "threading.Thread(target=read, daemon=True).start()",
    "time.sleep(0.3)",
)
WAITING = (
    "import threading, time",
    f"threading.Thread(target=lambda: graph.sql({ENDLESS!r}), daemon=True).start()",
    "time.sleep(0.5)",
)


@pytest.mark.parametrize("lines", [(f"result = graph.sql({MANY!r})",), BEGUN, READING, WAITING])
def test_a_process_ends_in_peace_whatever_is_left(uri: str, lines: tuple[str, ...]) -> None:
    done = run(uri, *lines)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "panicked" not in done.stderr


@pytest.mark.hangs_after(60)
def test_a_statement_is_stopped_from_another_thread(uri: str) -> None:
    with og.connect(uri, read_only=True) as graph:
        result = graph.sql(f'select n from "P" union all ({ENDLESS})')
        timer = threading.Timer(0.3, result.cancel)
        timer.start()
        with pytest.raises(og.errors.BadRequest, match="cancelled") as kept:
            result.to_arrow()
        timer.join()
        assert comes_to_rest(), f"it goes on after {kept.value}"
        assert graph.sql("select 1 as one").to_pylist() == [{"one": 1}]


def test_a_statement_that_takes_too_long_comes_to_rest(uri: str) -> None:
    with og.connect(uri, read_only=True) as graph:
        with pytest.raises(og.errors.ResourceLimit) as kept:
            graph.sql(ENDLESS, timeout=0.3)
        assert comes_to_rest(), f"it goes on after {kept.value}"


def test_a_result_that_is_run_again_shows_what_it_showed(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", "node P { k: String @key }") as graph:
        graph.load({"P": pa.table({"k": [f"{each:06}" for each in range(200_000)]})}, mode="append")
        result = graph.sql('select k from "P"')
        first = sum(batch.num_rows for batch in result)
        graph.load(['{"type": "P", "data": {"k": "later"}}'], mode="append")
        assert (first, sum(batch.num_rows for batch in result)) == (200_000, 200_000)
        assert graph.sql('select count(*) as n from "P"').to_pylist() == [{"n": 200_001}]


def test_duckdb_draws_no_bar(uri: str) -> None:
    done = run(uri, "print(graph.sql(\"select current_setting('enable_progress_bar') as b\", engine='duckdb').to_pylist())")
    assert done.stdout.strip() == "[{'b': False}]"


# Short on one branch, known to be so, and endless on the other.
ALTERNATING = f"""
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background lets it be ignored
def ask(branch, **limits):
    return graph.sql({ENDLESS!r}, branch=branch, engine="duckdb", **limits).to_pylist()
graph.sql('select count(*) from "P"', engine="duckdb")
for _ in range(4):
    ask("small")
"""
TIMED = """
try:
    ask("main", timeout=1.5)
except og.errors.ResourceLimit as error:
    print(error.resource)
"""
INTERRUPT = """
threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    ask("main")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("end", "said"), [(TIMED, "time"), (INTERRUPT, "interrupted")])
def test_a_statement_that_is_short_elsewhere_can_be_stopped_here(uri: str, end: str, said: str) -> None:
    ended = run(uri, ALTERNATING, end, 'print(ask("small"))')

    assert (ended.stdout, ended.stderr) == (f"{said}\n[{{'n': 1}}]\n", "")


# The same text over the same tables, for a moment and then for ever.
BY_THE_CLOCK = """
import time
text = f"select count(*) as n from range(case when epoch(now()) < {time.time() + 3} then 1 else 1000000000000000 end)"
while True:
    graph.sql(text, engine="duckdb", timeout=1.5)
"""


def test_a_statement_that_depends_on_the_time_can_be_stopped(uri: str) -> None:
    ended = run(uri, BY_THE_CLOCK)

    assert "did not finish within 1.5 seconds" in ended.stderr


# Interrupts come while statements run, at any moment; those that come in between are not looked at.
MANY_INTERRUPTS = """
import collections, random, signal, threading, time
asking = False
def handle(number, frame):
    if asking:
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, handle)
def interrupt():
    for _ in range(80):
        time.sleep(random.random() * 0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
def warm():
    for _ in range(3):
        ask()
warm()
thread = threading.Thread(target=interrupt)
thread.start()
ended = collections.Counter()
while thread.is_alive():
    try:
        asking = True
        rows = len(ask())
        asking = False
        ended[rows] += 1
    except BaseException as error:
        asking = False
        ended[f"{type(error).__name__}: {error}"] += 1
        if random.random() < 0.7:
            warm()
print(len(ask()), sorted(map(str, ended)))
"""


@pytest.mark.parametrize(
    "ask",
    [
        """lambda: graph.sql('select k from "P"', engine="duckdb").to_arrow()""",
        """lambda: graph.sql('select k, n from "P" order by n % 77', engine="duckdb").to_arrow()""",
        """lambda: graph.query('query q() { match { $p: P } return { $p.n } }', engine="duckdb").to_arrow()""",
    ],
)
def test_an_interrupt_is_a_keyboard_interrupt(uri: str, ask: str) -> None:
    ended = run(uri, f"ask = {ask}", MANY_INTERRUPTS)

    assert ended.stdout == "20000 ['20000', 'KeyboardInterrupt: ']\n"


# The signal comes when the package has been loaded, and its import is not over.
INTERRUPTED = """
import importlib.util, os, signal, sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name != PART:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            os.kill(os.getpid(), signal.SIGINT)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Interrupting())
try:
    ask()
    print("not interrupted")
except KeyboardInterrupt:
    print(ask().to_pylist())
"""


@pytest.mark.parametrize(
    "ask",
    [
        "lambda: graph.sql('select count(*) as n from \"P\"')",
        "lambda: graph.query('query q() { match { $p: P } return { count($p) as n } }')",
    ],
)
def test_an_interrupt_during_the_first_statement_does_not_break_the_next(uri: str, ask: str) -> None:
    ended = run(uri, f"ask = {ask}; PART = 'datafusion._internal'", INTERRUPTED)

    assert (ended.stdout, ended.stderr) == ("[{'n': 20000}]\n", "")


def test_an_interrupt_while_a_graph_is_opened_does_not_break_the_next(uri: str) -> None:
    text = f"""
import omnigraph_sql as og
PART = "lance.lance"
def ask():
    return og.connect({uri!r}, read_only=True).sql('select count(*) as n from "P"')
{INTERRUPTED}"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)

    assert (ended.stdout, ended.stderr) == ("[{'n': 20000}]\n", "")


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_an_interrupt_wakes_a_statement_also_when_postgres_was_asked(uri: str, engine: str) -> None:
    ended = run(
        uri,
        "import os, signal, threading",
        "try:",
        "    graph.register('t', 'postgresql://127.0.0.1:1/none?connect_timeout=2', table='t')",
        "except og.errors.SourceFailed:",
        "    print('it is down')",
        "threading.Timer(1, os.kill, [os.getpid(), signal.SIGINT]).start()",
        "try:",
        f"    graph.sql({ENDLESS!r}, engine={engine!r})",
        "except KeyboardInterrupt:",
        "    print('interrupted')",
        "    os._exit(0)",
    )

    assert (ended.stdout, ended.stderr) == ("it is down\ninterrupted\n", "")
