"""Executes the code blocks of a page the way its reader would, in one directory, from top to bottom.

| Block | What happens |
|---|---|
| `python` | runs, in one namespace per page |
| `console` | each `$ ` line runs in bash and must print exactly the lines below it; a line `...` stands for any lines, a last line `[exit N]` for the exit status when it is not 0; a command ending in a backslash goes on in the next line |
| `pycon` | runs as a doctest in the namespace of the page; the example of a public docstring is only shown: `test_docstrings.py` runs it |
| `session` | the first line `$ ogsql shell …` is run, and reads the lines that stand behind a prompt (`graph main> `, `...> `); it must print exactly the others |
| `pg` | compiles, and is the schema for the `gq` blocks below it |
| `gq` | lints without an error against that schema; with the flag `fragment` it is not a whole file and is not checked |
| `pg error [WHAT]`, `gq error [WHAT]` | must be rejected, with the code or error class WHAT where it is given |
| `json`, `toml`, `yaml` | parses |
| `bash` | shown, not run: set-up commands only (`make`, `git clone`, `pip install`, `cd`) |
| `text`, `ebnf` | shown, not run |

A block with `title="FILE"` is also written to FILE in the page's directory. Any other language, no language and unknown
flags are failures, so that no block is passed over in silence.
"""  # noqa: E501 (a table row cannot be broken)

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from omnigraph_compiler import CompileError, compile_query, compile_schema, lint
from tests import public_surface as surface
from tests.docs.blocks import Block
from tests.warm import warm_ogsql

SHOWN_ONLY = ("make ", "git clone ", "pip install ", "cd ")
_EXIT = re.compile(r"\[exit (\d+)\]")
_PROMPT = re.compile(r"(?:\w+ [^ ]+|\s*\.\.\.)>(?: (.*))?")


class BlockFailed(AssertionError):
    """A block does not do what its page says."""


class PageRun:
    """The state a page builds up: a directory, a namespace and the latest schema."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.schema: str | None = None

    def run(self, block: Block) -> None:
        """Executes one block; raises `BlockFailed`, which names the place, if it does not hold."""
        handler = _HANDLERS.get(block.language)
        if handler is None:
            raise BlockFailed(f"{block.place}: no rule for a code block in {block.language or 'no language'!r}")
        if block.flags and block.language not in ("pg", "gq"):
            raise BlockFailed(f"{block.place}: unknown flags {block.flags}")
        if block.title is not None:
            self._write(block, block.title)
        try:
            handler(self, block)
        except BlockFailed as error:
            raise BlockFailed(f"{block.place}: {error}") from error
        except Exception as error:
            raise BlockFailed(f"{block.place}: {type(error).__name__}: {error}") from error

    def _write(self, block: Block, title: str) -> None:
        path = (self.directory / title).resolve()
        if not path.is_relative_to(self.directory.resolve()):
            raise BlockFailed(f"{block.place}: {title!r} lies outside the page's directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def python(self, block: Block) -> None:
        # The leading newlines make the line numbers of a traceback those of the page.
        exec(compile("\n" * block.line + block.text, str(block.page), "exec"), self.namespace)  # the page's own code

    def console(self, block: Block) -> None:
        for command, below in _commands(block.text):
            wanted, expected = _split_exit(below)
            status, printed = _bash(command, self.directory)
            if status != wanted:
                raise BlockFailed(_difference(command, f"exit {wanted}", f"exit {status}", printed))
            if not lines_match(expected, printed):
                raise BlockFailed(_difference(command, "\n".join(expected), "this", printed))

    def pycon(self, block: Block) -> None:
        if block.text.strip("\n") in surface.examples():
            return
        example = doctest.DocTestParser().get_doctest(block.text, self.namespace, block.place, str(block.page), block.line)
        report: list[str] = []
        outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append, clear_globs=False)
        self.namespace |= example.globs
        if outcome.failed or not outcome.attempted:
            raise BlockFailed("".join(report) or "a block without an example")

    def session(self, block: Block) -> None:
        first, *lines = block.text.splitlines()
        if not first.startswith("$ ogsql shell "):
            raise BlockFailed("a session starts with a line `$ ogsql shell …`")
        typed = [found[1] or "" for line in lines if (found := _PROMPT.fullmatch(line))]
        expected = _strip_blank_end([line.rstrip() for line in lines if not _PROMPT.fullmatch(line)])
        # In a terminal an error does not end a session, and does not speak of standard input.
        status, printed = _bash(f"{first[2:]} --keep-going", self.directory, "".join(f"{line}\n" for line in typed))
        printed = [line.replace("<stdin>", "<shell>") for line in printed]
        if status not in (0, 1) or not lines_match(expected, printed):
            raise BlockFailed(_difference(first, "\n".join(expected), f"exit {status}", printed))

    def pg(self, block: Block) -> None:
        match block.flags:
            case ():
                compile_schema(block.text)
                self.schema = block.text
            case ("error", *what) if len(what) <= 1:
                try:
                    compile_schema(block.text)
                except CompileError as error:
                    _check_reasons(what, {error.code, error.error_class})
                else:
                    raise BlockFailed("the schema compiles, but the page says that it is rejected")
            case _:
                raise BlockFailed(f"unknown flags {block.flags}")

    def gq(self, block: Block) -> None:
        match block.flags:
            case ("fragment",):
                return
            case ():
                if reasons := self._rejections(block.text):
                    raise BlockFailed("; ".join(reasons.values()))
            case ("error", *what) if len(what) <= 1:
                reasons = self._rejections(block.text)
                if not reasons:
                    raise BlockFailed("the queries lint without an error, but the page says that they are rejected")
                _check_reasons(what, set(reasons))
            case _:
                raise BlockFailed(f"unknown flags {block.flags}")

    def _rejections(self, text: str) -> dict[str, str]:
        """Codes and error classes of what is wrong with a query file, each with its message."""
        if self.schema is None:
            raise BlockFailed("no `pg` block stands above this `gq` block")
        catalog = compile_schema(self.schema)
        report: dict[str, Any] = lint(catalog, text).to_dict()
        reasons = {finding["code"]: finding["message"] for finding in report["findings"] if finding["severity"] == "error"}
        failed = [result["name"] for result in report["results"] if "error" in result]
        for name in failed or ([None] if report["status"] == "error" else []):
            try:
                compile_query(catalog, text, name)
            except CompileError as error:
                for reason in (error.code, error.error_class):
                    if reason is not None:
                        reasons[reason] = str(error)
        if bool(reasons) != (report["status"] == "error"):
            raise BlockFailed(f"the report and the compiler disagree: {report} / {reasons}")
        return reasons

    def data(self, block: Block) -> None:
        _PARSERS[block.language](block.text)

    def setup(self, block: Block) -> None:
        for line in block.text.splitlines():
            if line.strip() and not line.startswith(SHOWN_ONLY):
                raise BlockFailed(f"{line!r} is not a set-up command; a command that can run belongs in `console`")

    def shown(self, block: Block) -> None:
        """Nothing to do: the block is for the reader's eyes."""


_PARSERS: dict[str, Callable[[str], object]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
_HANDLERS: dict[str, Callable[[PageRun, Block], None]] = {
    "python": PageRun.python,
    "console": PageRun.console,
    "pycon": PageRun.pycon,
    "session": PageRun.session,
    "pg": PageRun.pg,
    "gq": PageRun.gq,
    "json": PageRun.data,
    "toml": PageRun.data,
    "yaml": PageRun.data,
    "bash": PageRun.setup,
    "text": PageRun.shown,
    "ebnf": PageRun.shown,
}


def lines_match(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines are the expected ones, where `...` stands for any number of lines.

    >>> lines_match(["a", "...", "d"], ["a", "b", "c", "d"])
    True
    >>> lines_match(["a", "...", "d"], ["a", "b", "c"])
    False
    """
    reachable = {0}  # how many printed lines can have been accounted for so far
    for line in expected:
        if line.strip() == "...":
            reachable = set(range(min(reachable), len(printed) + 1))
        else:
            reachable = {at + 1 for at in reachable if at < len(printed) and printed[at] == line}
        if not reachable:
            return False
    return len(printed) in reachable


def _check_reasons(wanted: list[str], found: set[str | None] | set[str]) -> None:
    if wanted and wanted[0] not in found:
        reasons = ", ".join(sorted(reason for reason in found if reason))
        raise BlockFailed(f"rejected for {reasons}, but the page says {wanted[0]}")


def _commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines it must print."""
    commands: list[tuple[str, list[str]]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines, "")
            commands.append((command, []))
        elif commands:
            commands[-1][1].append(line.rstrip())
        elif line.strip():
            raise BlockFailed("a console block starts with a line `$ command`")
    if not commands:
        raise BlockFailed("a console block without a command")
    return [(command, _strip_blank_end(expected)) for command, expected in commands]


def _split_exit(lines: list[str]) -> tuple[int, list[str]]:
    """The exit status a command must end with, and the lines it must print."""
    if lines and (mark := _EXIT.fullmatch(lines[-1])):
        return int(mark[1]), _strip_blank_end(lines[:-1])
    return 0, lines


def _bash(command: str, directory: Path, typed: str = "") -> tuple[int, list[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "FORCE_COLOR"))}
    environment |= {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}
    commands = [str(warm_ogsql().parent), os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    environment["PATH"] = os.pathsep.join(commands)
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    return result.returncode, _strip_blank_end([line.rstrip() for line in result.stdout.split("\n")])


def _strip_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def _difference(command: str, expected: str, found: str, printed: list[str]) -> str:
    return f"`{command}`\n--- the page says\n{expected}\n--- it gave {found}\n" + "\n".join(printed)
