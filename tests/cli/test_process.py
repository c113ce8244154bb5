"""How `ogsql` behaves as a process: exit codes, streams and signals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph_sql
from tests.cli.graphs import done, jsonl
from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql

LINT = ("lint", "ports.pg", "misspelt.gq")


# Versions and help ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments: list[str]) -> None:
    result = ogsql(*arguments)

    assert (result.status, result.out, result.err) == (0, f"ogsql {omnigraph_sql.__version__}\n", "")


def test_version_as_json() -> None:
    document = ogsql("version", "--json").document

    assert set(document) == {"version", "python", "pylance", "datafusion"}
    assert document["version"] == omnigraph_sql.__version__
    assert document["datafusion"].startswith("54.")


@pytest.mark.parametrize("command", [[], ["lint"], ["fmt"], ["schema"], ["schema", "plan"], ["compile"], ["completion"]])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_goes_to_standard_output(command: list[str], option: str) -> None:
    result = ogsql(*command, option)

    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(f"Usage: {' '.join(['ogsql', *command])} ")


@pytest.mark.parametrize("command", [[], ["schema"]])
def test_a_group_without_a_command_shows_its_help_and_fails(command: list[str]) -> None:
    result = ogsql(*command)

    assert (result.status, result.out) == (2, "")
    assert result.err == ogsql(*command, "--help").out


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["lint"], ["lint", "a.pg"], ["lnit"], ["--json"], ["version", "extra"], ["compile", "a", "b", "--emit", "nothing"]],
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    result = ogsql(*arguments)

    assert result.status == 2
    if "--json" in arguments:
        assert set(result.document) == {"error", "hint", "diagnostics"}
    else:
        assert result.out == ""
        assert result.err.startswith("Usage: ogsql")
        assert "\nerror: " in result.err
        assert "\nhint: run `ogsql" in result.err


def test_a_usage_error_as_json() -> None:
    result = ogsql("lint", "--json")

    assert (result.status, result.err) == (2, "")
    assert result.document == {
        "error": "Missing argument 'SCHEMA': give it, or name it in a file omnigraph.yaml.",
        "hint": "run `ogsql lint --help`",
        "diagnostics": [],
    }


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        pytest.param("missing.gq", "does not exist", id="missing"),
        pytest.param("folder.gq", "is a directory", id="directory"),
        pytest.param("ports.gq/inner.gq", "cannot be read: Not a directory", id="below a file"),
        pytest.param("loop.gq", "cannot be read: Too many levels of symbolic links", id="loop"),
        pytest.param("n" * 300 + ".gq", "cannot be read: File name too long", id="long name"),
        pytest.param("dangling.gq", "does not exist", id="dangling link"),
    ],
)
@pytest.mark.parametrize("command", ["lint", "compile"])
def test_a_file_that_cannot_be_read(folder: Path, command: str, name: str, fragment: str) -> None:
    (folder / "folder.gq").mkdir()
    (folder / "loop.gq").symlink_to("loop.gq")
    (folder / "dangling.gq").symlink_to("nowhere.gq")
    result = ogsql(command, "ports.pg", name, cwd=folder)
    as_json = ogsql(command, "--json", "ports.pg", name, cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"error: {'the file ' * ('directory' not in fragment or 'Not a' in fragment)}`{name}` ")
    assert fragment in result.err
    assert (as_json.status, as_json.err) == (1, "")
    assert fragment in as_json.document["error"]
    assert as_json.document["diagnostics"] == []


def test_a_file_without_permission(folder: Path) -> None:
    (folder / "ports.gq").chmod(0)
    if os.access(folder / "ports.gq", os.R_OK):
        pytest.skip("this user may read everything")
    result = ogsql("lint", "ports.pg", "ports.gq", cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert "cannot be read: Permission denied" in result.err


def test_a_missing_file_is_compared_with_its_neighbours(folder: Path) -> None:
    result = ogsql("lint", "port.pg", "ports.gq", cwd=folder)

    assert result.err == "error: the file `port.pg` does not exist\nhint: did you mean `ports.pg`?\n"


def test_a_name_that_is_no_text(folder: Path) -> None:
    name = os.fsdecode(b"odd-\xff.gq")
    (folder / name).write_bytes(b"query q( {")
    result = ogsql("lint", "ports.pg", name, cwd=folder)
    as_json = ogsql("lint", "--json", "ports.pg", name, cwd=folder)

    assert result.status == 1
    assert r"odd-\udcff.gq:1:10" in result.out
    assert as_json.document["query_path"] == name


def test_a_terminal_of_another_alphabet(folder: Path) -> None:
    (folder / "odd.gq").write_text('query q() { match { $p: Port { code: "é⚓" } } return { $p.cod } }', encoding="utf-8")
    ascii_only = {"PYTHONIOENCODING": "ascii"}

    assert r'"\xe9\u2693"' in ogsql("lint", "ports.pg", "odd.gq", cwd=folder, env=ascii_only).out
    document = ogsql("lint", "--json", "ports.pg", "odd.gq", cwd=folder, env=ascii_only).document
    assert '"é⚓"' in document["diagnostics"][0]["source_line"]


# Defects -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(folder: Path) -> dict[str, str]:
    """An environment in which a library fails in a way nobody planned for."""
    library = folder / "damaged" / "lark"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("raise RuntimeError('the library is damaged')")
    return {"PYTHONPATH": str(library.parent)}


def test_a_defect_is_reported_without_a_traceback(folder: Path, damaged: dict[str, str]) -> None:
    result = ogsql(*LINT, cwd=folder, env=damaged)

    assert (result.status, result.out) == (1, "")
    first, second = result.err.splitlines()
    assert first == "internal error: RuntimeError: the library is damaged"
    assert second.startswith("hint: ")
    assert "report" in second
    assert "OMNIGRAPH_TRACEBACK=1" in second


def test_a_defect_as_json(folder: Path, damaged: dict[str, str]) -> None:
    result = ogsql(*LINT, "--json", cwd=folder, env=damaged)

    assert (result.status, result.err) == (1, "")
    assert result.document["error"] == "internal error: RuntimeError: the library is damaged"


def test_the_traceback_of_a_defect_on_request(folder: Path, damaged: dict[str, str]) -> None:
    result = subprocess.run(
        [OGSQL, *LINT],
        cwd=folder,
        env=environment(**damaged, OMNIGRAPH_TRACEBACK="1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )

    assert result.returncode == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "internal error: RuntimeError: the library is damaged" in result.stderr


# Signals and pipes ---------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_with_130_and_says_nothing(folder: Path) -> None:
    os.mkfifo(folder / "slow.gq")
    # A shell that runs the tests in the background makes its children ignore interrupts; this one must not.
    listen = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", listen, OGSQL, "lint", "ports.pg", "slow.gq"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process, open(folder / "slow.gq", "wb"):  # opens when ogsql does: from now on it waits for text
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)

    assert (process.returncode, out, err) == (130, b"", b"")


def test_an_interrupt_stops_a_query(graph: Path, folder: Path) -> None:
    ports = [{"type": "Port", "data": {"code": f"P{number}"}} for number in range(60)]
    lanes = [{"edge": "Lane", "from": f"P{a}", "to": f"P{b}"} for a in range(60) for b in range(60)]
    (folder / "more.jsonl").write_text(jsonl(ports + lanes))
    done(ogsql("load", graph, "--data", "more.jsonl", "--mode", "append", "--quiet", cwd=folder))
    endless = "query q() { match { $a: Port $a lane $b $b lane $c $c lane $d } return { $d.depth } }"
    command = [str(OGSQL), "query", str(graph), "-e", endless, "--format", "jsonl", "--memory", "1GB", "--timeout", "60s"]
    listen = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", listen, *map(str, command)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process:
        for _ in range(3):
            assert process.stdout.readline()  # it is at work
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)

    assert (process.returncode, err) == (130, b"")


def test_a_reader_that_has_seen_enough_ends_a_query_quietly(graph: Path) -> None:
    ports = "query q() { match { $p: Port } return { $p.code } }"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [str(OGSQL), "query", str(graph), "-e", ports, "--format", "csv"]
        result = subprocess.run(
            command, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False, timeout=TIMEOUT
        )
    finally:
        os.close(writer)

    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.parametrize(
    "arguments",
    [LINT, (*LINT, "--json"), ("--help",), ("version",), ("completion", "zsh"), ("compile", "ports.pg", "ports.gq")],
    ids=" ".join,
)
def test_a_reader_that_went_away_is_no_error_message(folder: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [OGSQL, *arguments],
            cwd=folder,
            env=environment(),
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            timeout=TIMEOUT,
        )
    finally:
        os.close(writer)

    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [LINT, ("--help",), ("version", "--json")], ids=" ".join)
def test_output_that_cannot_be_written_is_an_error(folder: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [OGSQL, *arguments],
            cwd=folder,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

    assert (result.returncode, result.stderr) == (1, "error: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_are_no_defect(folder: Path, redirection: str) -> None:
    result = subprocess.run(
        ["bash", "-c", f"'{OGSQL}' lint ports.pg ports.gq {redirection}"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("command", [("lint", "/dev/zero", "ports.gq"), ("compile", "ports.pg", "/dev/zero")])
def test_a_file_that_never_ends(folder: Path, command: tuple[str, ...]) -> None:
    done = ogsql(*command, cwd=folder)

    assert done.status == 8
    assert "`/dev/zero` is larger than 64 MiB" in done.err


MEMORY = """
import resource, sys
from omnigraph_compiler import compile_schema, decode_source
from omnigraph_sql.cli import projects
from omnigraph_sql.cli.actions import lint as action
from omnigraph_sql.cli.commands import lint
from omnigraph_sql.cli.main import run
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (30 << 20), resource.RLIM_INFINITY))
sys.exit(run(sys.argv[1:]))
"""


def test_memory_that_ran_out_is_no_defect(folder: Path) -> None:
    with (folder / "large.pg").open("wb") as file:
        file.truncate(60 << 20)
    words = [sys.executable, "-c", MEMORY, "lint", "large.pg", "ports.gq", "--json"]
    done = subprocess.run(words, cwd=folder, capture_output=True, env=environment(), check=False, timeout=TIMEOUT)
    document = json.loads(done.stdout)

    assert done.returncode == 8, done.stderr
    assert document["error"] == "there is not enough memory"
    assert "report" not in document["hint"]


def test_messages_do_not_drive_the_terminal(folder: Path) -> None:
    done = ogsql("lint", "\x1b]0;owned\x07.pg", "ports.gq", cwd=folder)

    assert "\x1b" not in done.err
    assert "\\x1b]0;owned\\x07.pg" in done.err


LEAVING = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import ogsql
def work():
    time.sleep(0.2)
    print("thread", flush=True)
pool = ThreadPoolExecutor(1)
pool.submit(work)
threading.Thread(target=work).start()
atexit.register(print, "hook")
sys.argv = ["ogsql", "version"]
ogsql.main()
"""


def test_the_process_waits_for_threads_and_runs_exit_hooks() -> None:
    command = [sys.executable, "-c", LEAVING]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT)

    assert (result.returncode, result.stderr) == (0, "")
    version, *rest = result.stdout.splitlines()
    assert version.startswith("ogsql ")
    assert rest == ["thread", "thread", "hook"]
