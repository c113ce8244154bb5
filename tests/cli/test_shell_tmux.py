"""`ogsql shell` in a real terminal, as a person uses it."""

import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.cli.graphs import DREDGE, done
from tests.cli.ogsql import OGSQL, ogsql
from tests.cli.terminal import Terminal, terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux, the terminal of these tests, is not installed")

PROMPT = r"^graph main> ?$"
LONG = "select sum(sqrt(value)) from generate_series(1, 100000000000);"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def shell(graph: Path, home: Path, *options: str, **variables: str) -> AbstractContextManager[Terminal]:
    return _shell(graph, home, options, variables)


@contextmanager
def _shell(graph: Path, home: Path, options: tuple[str, ...], variables: dict[str, str]) -> Iterator[Terminal]:
    command: list[str | Path] = [OGSQL, "shell", graph, *options]
    with terminal(command, graph.parent, OMNIGRAPH_HOME=str(home), **variables) as pane:
        pane.wait(PROMPT)
        yield pane


def test_both_languages_in_one_line_and_in_many(graph: Path, home: Path) -> None:
    with shell(graph, home) as pane:
        pane.enter("")
        pane.enter("select count(*) as ports from Port;")
        pane.wait(r"^\s+2\s*\n\n1 row\s*\n.*graph main>")

        pane.enter("query deep($least: F64) {")
        pane.wait(r"^\s+\.\.\.>")
        pane.enter("match { $p: Port  $p.depth > $least }")
        pane.enter("return { $p.code, $p.depth }")
        pane.enter("")  # an empty line runs nothing
        pane.enter("}")
        pane.wait(r"parameter 'least' not provided")

        pane.enter("\\set least 10")
        pane.wait(r"least 10\n" + PROMPT)
        pane.press("Up", "Up")
        pane.wait(r"least 10\n(?:.*\n)+.*\.\.\.> \}$")
        pane.press("Enter")
        pane.wait(r"^BEANR\s+16\.0\s*\n\n1 row")

        pane.enter("select code")
        pane.enter("from Port")
        pane.enter("where code = 'a;b';")
        pane.wait(r"^0 rows")


def test_errors_are_shown_and_the_next_statement_runs(graph: Path, home: Path) -> None:
    with shell(graph, home) as pane:
        pane.enter("select * from Prot;")
        pane.wait(r"error: there is no table `Prot`\nhint: did you mean `Port`\?\ngraph main>")
        pane.enter("query q() { match { $p: Prot } return { $p } }")
        pane.wait(r"--> <shell>:1:25\n\s+\|\n1 \| query q\(\) .*\n\s+\|\s+\^{4}\n\s+= help: did you mean `Port`\?")
        pane.enter("\\nonsense")
        pane.wait(r"there is no command `\\nonsense`")
        pane.enter("select 40 + 2 as answer;")
        pane.wait(r"^\s+42\s*$")
        pane.press("C-d")
        pane.wait(r"^ended with 0$")


def test_tab_completes_properties_branches_and_commands(graph: Path, home: Path) -> None:
    done(ogsql("branch", "create", graph, "feature/x", "--quiet"))
    with shell(graph, home) as pane:
        pane.type("select code from Port p where p.dep")
        pane.press("Tab")
        pane.wait(r"where p\.depth$")
        pane.enter(" > 10;")
        pane.wait(r"^BEANR\s*\n\n1 row\n" + PROMPT)

        pane.type("query q() { match { $p: Port } return { $p.dep")
        pane.press("Tab")
        pane.wait(r"\$p\.depth$")
        pane.type(" } }")
        pane.press("Enter")
        pane.wait(r"^\s+16\.0$")

        pane.type('select count(*) as there from "fea')
        pane.press("Tab")
        pane.wait(r'from "feature/x"$')
        pane.type('."Por')
        pane.press("Tab")
        pane.wait(r'"feature/x"\."Port"$')
        pane.enter(";")
        pane.wait(r"^there\s*\n[ ─━]+\n\s+2$")

        pane.type("\\bra")
        pane.press("Tab")
        pane.wait(r"\\branch$")
        pane.type(" fe")
        pane.press("Tab")
        pane.wait(r"\\branch feature/x$")
        pane.press("Enter")
        pane.wait(r"^graph feature/x> ?$")


def test_branches_states_times_and_types(graph: Path, home: Path) -> None:
    done(ogsql("branch", "create", graph, "draft", "--quiet"))
    done(ogsql("mutate", graph, "-e", DREDGE, "--params", '{"code": "NLRTM", "depth": 24}', "--branch", "draft", "--quiet"))
    with shell(graph, home) as pane:
        pane.enter("\\branch drafd")
        pane.wait(r"there is no branch `drafd`\nhint: did you mean `draft`\?")
        pane.enter("\\branch draft")
        pane.wait(r"^graph draft> ?$")
        pane.enter("select depth from Port where code = 'NLRTM';")
        pane.wait(r"^\s+24\.0$")
        pane.enter("\\branch main")
        pane.enter("\\at 1")
        pane.wait(r"^graph main@1> ?$")
        pane.enter("select code from Port;")
        pane.wait(r"^0 rows$")
        pane.enter("\\at now")
        pane.wait(PROMPT)
        pane.enter("\\timing")
        pane.enter("select 1;")
        pane.wait(r"^time: \d+\.\d ms$")
        pane.enter("\\d")
        pane.wait(r"^\s*node\s+Port\s+2$")
        pane.enter("\\d Port")
        pane.wait(r"^\s*code\s+String\s+key, index$")


def test_history_survives_the_session(graph: Path, home: Path) -> None:
    with shell(graph, home) as pane:
        pane.enter("select 41 + 1 as answer;")
        pane.wait(r"^\s+42$")
        pane.enter("\\q")
        pane.wait(r"^ended with 0$")
    with shell(graph, home) as pane:
        pane.press("Up", "Up")
        pane.wait(r"> select 41 \+ 1 as answer;$")
        pane.press("Enter")
        pane.wait(r"^\s+42$")
        pane.enter("\\history 2")
        pane.wait(r"^select 41 \+ 1 as answer;\n\\history 2$")

    assert stat.S_IMODE((home / "shell_history").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_control_c_clears_the_input_and_cancels_a_statement(graph: Path, home: Path) -> None:
    with shell(graph, home) as pane:
        pane.type("select nonsense")
        pane.wait("select nonsense$")
        pane.press("C-c")
        pane.wait(r"^graph main> select nonsense\n" + PROMPT)
        pane.enter("\\timing")
        pane.wait(r"timing is on\n" + PROMPT)
        pane.enter(LONG)
        pane.wait(r"100000000000\);$")
        pane.wait_for_work()
        pane.interrupt(r"^cancelled\n")
        pane.wait(PROMPT)
        pane.enter("select 40 + 2 as answer;")
        pane.wait(r"^\s+42$")


@pytest.mark.skipif(shutil.which("less") is None, reason="less, the pager, is not installed")
def test_long_results_are_paged(graph: Path, home: Path) -> None:
    with shell(graph, home) as pane:
        pane.enter("select value from generate_series(1, 500) order by value;")
        assert "500 rows" not in pane.wait(r"^:$")
        pane.press("q")
        pane.wait(PROMPT)
        pane.enter("select value from generate_series(1, 3) order by value;")
        pane.wait(r"^3 rows\n" + PROMPT)
        pane.enter("\\pager off")
        pane.enter("select value from generate_series(1, 500) order by value;")
        pane.wait(r"^500 rows\n" + PROMPT)


def test_what_is_typed_while_a_statement_runs_comes_next(graph: Path, home: Path) -> None:
    with shell(graph, home, NO_COLOR="1") as pane:
        pane.enter("select count(*) as first from generate_series(1, 10000000) where value % 3 = 1;")
        pane.enter("select 2 as second;")
        pane.wait(r"^3333334\n\n1 row\ngraph main> select 2 as second;\nsecond\n     2\n\n1 row\n" + PROMPT)


def test_a_terminal_without_colours(graph: Path, home: Path) -> None:
    with shell(graph, home, NO_COLOR="1") as pane:
        pane.enter("select 40 + 2 as answer;")
        pane.wait(r"^answer\n    42\n\n1 row\n" + PROMPT)
