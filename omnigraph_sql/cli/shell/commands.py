"""The backslash commands of the shell."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.cli import output
from omnigraph_sql.cli.options import TEXT_FORMATS
from omnigraph_sql.cli.shell import describe
from omnigraph_sql.cli.shell.session import ENGINES, ShellExit, ShellSession, ShellTarget
from omnigraph_sql.cli.shell.statements import ShellStatement, kind_at
from omnigraph_sql.errors import BadRequest, NotFound

_PARAMETER = re.compile(r"\$?(?P<name>[A-Za-z_]\w*)(?:\s+(?P<value>.+))?\Z", re.DOTALL)
_ANALYZE = re.compile(r"analyze\b\s*", re.IGNORECASE)
_COMMIT_PREFIX = 4
_HISTORY = 20
_RULES = "\nSQL ends with a semicolon, a .gq query with the brace that closes it. In both, $name is a parameter.\n"


@dataclass(frozen=True)
class Command:
    """A backslash command and its help."""

    name: str
    usage: str
    about: str
    takes: str
    """The kind of completions for its argument; see `completion.Names`."""
    run: Callable[[ShellSession, str], None]


def run_command(session: ShellSession, text: str) -> None:
    """Run a line that begins with a backslash."""
    name, *rest = text.split(maxsplit=1)
    command = COMMANDS.get(name)
    if command is None:
        hint = (
            did_you_mean(name[1:], [command_name[1:] for command_name in COMMANDS], prefix="\\") or "\\? lists the commands"
        )
        raise BadRequest(f"there is no command `{name}`", hint=hint)
    command.run(session, "".join(rest).strip())


def _explain(session: ShellSession, argument: str) -> None:
    match = _ANALYZE.match(argument)
    text = argument[match.end() :] if match else argument
    if not text:
        raise BadRequest("there is nothing to explain", hint="\\explain [analyze] STATEMENT, in either language")
    session.explain(ShellStatement(kind_at(text), text), "<\\explain>", analyze=match is not None)


# The state that is asked ---------------------------------------------------------------------------------------------


def _branch(session: ShellSession, name: str) -> None:
    names = session.graph.branches()
    if not name:
        output.write("".join(f"{'*' if branch == session.place.branch else ' '} {branch}\n" for branch in names))
        return
    if name not in names:
        hint = did_you_mean(name, names) or "\\branch lists them"
        raise NotFound(f"there is no branch `{name}`", what="branch", name=name, hint=hint)
    session.go_to(ShellTarget(name))


def _at(session: ShellSession, argument: str) -> None:
    place = session.place
    if not argument:
        snapshot = session.snapshot()
        output.write(f"{place}: version {snapshot.manifest_version} of {snapshot.branch}, commit {snapshot.commit_id}\n")
        return
    if argument == "now":
        session.go_to(ShellTarget(place.branch))
        return
    if argument.isascii() and argument.isdigit():
        wanted = replace(place, version=int(argument), commit=None)
    elif argument in session.graph.branches():
        raise BadRequest(
            f"`{argument}` is a branch, not a version, a commit or a tag", hint=f"\\branch {argument} goes to it"
        )
    else:
        wanted = replace(place, version=None, commit=_whole_commit(session, argument))
    session.graph.snapshot(branch=wanted.branch, version=wanted.version, commit=wanted.commit)
    session.go_to(wanted)


def _whole_commit(session: ShellSession, text: str) -> str:
    """The commit of a branch with this unique prefix; a tag is written in full."""
    if len(text) < _COMMIT_PREFIX or any(tag.name == text for tag in session.graph.tags()):
        return text
    known = [commit.graph_commit_id for commit in session.graph.commits(session.place.branch)]
    close = [commit for commit in known if commit.startswith(text.upper())]
    if len(close) > 1:
        raise BadRequest(f"`{text}` is the beginning of {len(close)} commits", hint="write more of it")
    return close[0] if close else text


# What there is -------------------------------------------------------------------------------------------------------


def _describe(session: ShellSession, name: str) -> None:
    with session.screen.showing():
        if name:
            describe.describe(name.strip('"'), session.graph.catalog, session.snapshot())
        else:
            describe.describe_all(session.graph.catalog, session.snapshot())


def _set(session: ShellSession, argument: str) -> None:
    if not argument:
        shown = {name: json.dumps(value, ensure_ascii=False) for name, value in session.params.items()}
        output.write("".join(f"{name} = {value}\n" for name, value in shown.items()))
        return
    match = _PARAMETER.match(argument)
    if match is None or match["value"] is None:
        raise BadRequest(f"`{argument}` is no name with a value", hint='\\set NAME VALUE, for example \\set code "NLRTM"')
    try:
        session.params[match["name"]] = json.loads(match["value"])
    except ValueError:
        hint = f"texts stand in quotes: \\set {match['name']} {json.dumps(match['value'], ensure_ascii=False)}"
        raise BadRequest(f"`{match['value']}` is not a JSON value", hint=hint) from None


def _unset(session: ShellSession, argument: str) -> None:
    name = argument.removeprefix("$")
    if name not in session.params:
        hint = did_you_mean(name, session.params) or "\\set lists them"
        raise NotFound(f"there is no parameter `{name}`", what="parameter", name=name, hint=hint)
    del session.params[name]


def _history(session: ShellSession, argument: str) -> None:
    if argument and not argument.isdigit():
        raise BadRequest(f"`{argument}` is not a number of entries", hint="\\history [N]")
    entries = session.history()
    number = int(argument or _HISTORY)
    with session.screen.showing():
        output.write("".join(f"{entry}\n" for entry in entries[max(0, len(entries) - number) :]))


# How results look ----------------------------------------------------------------------------------------------------


def _timing(session: ShellSession, argument: str) -> None:
    session.times = not session.times if not argument else _is_on(argument)
    output.write(f"timing is {_on(session.times)}\n")


def _pager(session: ShellSession, argument: str) -> None:
    if argument:
        session.screen.pages = _is_on(argument)
    output.write(f"the pager is {_on(session.screen.pages)}\n")


def _format(session: ShellSession, name: str) -> None:
    if name and name not in TEXT_FORMATS:
        hint = did_you_mean(name, TEXT_FORMATS) or f"there are {', '.join(TEXT_FORMATS)}"
        raise BadRequest(f"there is no format `{name}`", hint=hint)
    session.form = name or session.form
    output.write(f"rows are written as {session.form}\n")


def _engine(session: ShellSession, name: str) -> None:
    if name and name not in ENGINES:
        hint = did_you_mean(name, ENGINES) or f"there are {', '.join(ENGINES)}"
        raise BadRequest(f"there is no engine `{name}`", hint=hint)
    session.engine = name or session.engine
    output.write(f"statements run on {session.engine}\n")


def _out(session: ShellSession, path: str) -> None:
    if path:
        session.screen.send_to(path)
    else:
        session.screen.close()


def _is_on(word: str) -> bool:
    if word not in ("on", "off"):
        raise BadRequest(f"`{word}` is neither on nor off")
    return word == "on"


def _on(state: bool) -> str:
    return "on" if state else "off"


# The session ---------------------------------------------------------------------------------------------------------


def _include(session: ShellSession, path: str) -> None:
    if not path:
        raise BadRequest("there is no file to run", hint="\\i FILE")
    session.run_file(os.path.expanduser(path))


def _help(session: ShellSession, name: str) -> None:
    wanted = f"\\{name.removeprefix(chr(92))}" if name else ""
    if wanted and wanted not in COMMANDS:
        raise BadRequest(f"there is no command `{wanted}`", hint="\\? lists the commands")
    shown = [COMMANDS[wanted]] if wanted else [command for name, command in COMMANDS.items() if name == command.name]
    width = max(len(command.usage) for command in shown)
    with session.screen.showing():
        output.write("".join(f"{command.usage:<{width}}  {command.about}\n" for command in shown))
        if not wanted:
            output.write(_RULES)


def _leave(_session: ShellSession, _argument: str) -> None:
    raise ShellExit


_ALL = (
    Command("\\branch", "\\branch [NAME]", "list the branches, or go to one", "branch", _branch),
    Command("\\at", "\\at [VERSION|COMMIT|TAG|now]", "show the state that is asked, or go to another", "state", _at),
    Command("\\d", "\\d [TYPE]", "list the types with their rows, or describe one", "type", _describe),
    Command("\\explain", "\\explain [analyze] STATEMENT", "show how a statement runs", "statement", _explain),
    Command("\\set", "\\set [NAME VALUE]", "list the parameters, or give one a JSON value", "param", _set),
    Command("\\unset", "\\unset NAME", "forget a parameter", "param", _unset),
    Command("\\format", f"\\format [{'|'.join(TEXT_FORMATS)}]", "how rows are written", "|".join(TEXT_FORMATS), _format),
    Command("\\engine", f"\\engine [{'|'.join(ENGINES)}]", "what runs statements", "|".join(ENGINES), _engine),
    Command("\\timing", "\\timing [on|off]", "show how long statements take, or stop doing so", "on|off", _timing),
    Command("\\pager", "\\pager [on|off]", "whether results longer than the screen are paged", "on|off", _pager),
    Command("\\o", "\\o [FILE]", "write results to a file, or to the screen again", "file", _out),
    Command("\\i", "\\i FILE", "run the statements of a file", "file", _include),
    Command("\\history", "\\history [N]", f"show the last N entries, {_HISTORY} by default", "", _history),
    Command("\\?", "\\? [COMMAND]", "show the commands; also help", "", _help),
    Command("\\q", "\\q", "leave; also exit, quit and Ctrl-D", "", _leave),
)
COMMANDS = {command.name: command for command in _ALL}
COMMANDS |= {"\\help": COMMANDS["\\?"], "\\exit": COMMANDS["\\q"], "\\quit": COMMANDS["\\q"]}
