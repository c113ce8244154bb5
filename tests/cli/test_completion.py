"""`ogsql completion`: the scripts, and what they get when they ask."""

import shutil
import subprocess

import pytest

from tests.cli.ogsql import TIMEOUT, environment, ogsql


def complete(*words: str) -> list[str]:
    """What the executable proposes for the last word of a command line, as `type,value`."""
    variables = {"_OGSQL_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    result = ogsql(env=variables)
    assert (result.status, result.err) == (0, "")
    return result.out.split()


@pytest.mark.parametrize(
    ("words", "proposals"),
    [
        (("ogsql", "sch"), ["plain,schema"]),
        (("ogsql", "co"), ["plain,commit", "plain,compile", "plain,completion", "plain,copy"]),
        (("ogsql", "schema", ""), ["plain,plan"]),
        (("ogsql", "completion", ""), ["plain,bash", "plain,zsh", "plain,fish"]),
        (("ogsql", "compile", "a.pg", "b.gq", "--emit", "d"), ["plain,descriptor"]),
        (("ogsql", "branch", ""), ["plain,create", "plain,delete", "plain,list", "plain,merge"]),
        (("ogsql", "load", "graph", "--mode", "m"), ["plain,merge"]),
        (("ogsql", "export", "gr"), ["file,gr"]),
        (("ogsql", "mutate", "graph", "--query", "po"), ["file,po"]),
        (("ogsql", "lint", "--js"), ["plain,--json"]),
        (("ogsql", "lint", "po"), ["file,po"]),
        (("ogsql", "lint", "ports.pg", "po"), ["file,po"]),
        (("ogsql", "fmt", "a.pg", "b"), ["file,b"]),
        (("ogsql", "schema", "plan", "--from", "o"), ["file,o"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_proposals(words: tuple[str, ...], proposals: list[str]) -> None:
    assert complete(*words) == proposals


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    result = ogsql("completion", shell)

    assert (result.status, result.err) == (0, "")
    assert f"_OGSQL_COMPLETE={shell}_complete" in result.out
    if shutil.which(shell):
        check = subprocess.run([shell, "-n"], input=result.out, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        assert (check.returncode, check.stderr) == (0, "")


def test_bash_completes_with_the_script() -> None:
    script = """
        eval "$(ogsql completion bash)"
        COMP_WORDS=(ogsql ver) COMP_CWORD=1
        _ogsql_completion ogsql
        echo "${COMPREPLY[@]}"
    """
    result = subprocess.run(
        ["bash", "-c", script], env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT
    )

    assert (result.stdout, result.stderr) == ("version\n", "")


def test_an_unknown_shell_is_a_usage_error() -> None:
    assert ogsql("completion", "tcsh").status == 2
