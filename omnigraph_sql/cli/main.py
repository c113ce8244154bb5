"""The boundary between `ogsql` and the process: exit codes, errors and signals."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from omnigraph_sql.cli import errors, output
from omnigraph_sql.cli.app import app
from omnigraph_sql.errors import OmnigraphError, writable

_READER_GONE = 141  # 128 + SIGPIPE, as shells count
_PROGRAM = "ogsql"
_COMPLETION_VARIABLE = "_OGSQL_COMPLETE"


def run(arguments: Sequence[str]) -> int:
    """Run one command and report its error, if any; the result is the exit status."""
    output.prepare_streams()
    try:
        return _report(arguments)
    except OSError as error:
        output.silence(sys.stdout, sys.stderr)
        return _READER_GONE if isinstance(error, BrokenPipeError) else 1


def _report(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments[: _index(arguments, "--")]
    try:
        return _invoke(arguments)
    except OmnigraphError as error:
        return _report_typed(error, as_json=as_json)
    except click.ClickException as error:
        _report_usage(error, as_json=as_json)
        return error.exit_code
    except BrokenPipeError:
        raise
    except Exception as error:
        known = errors.typed(error)
        if known is not None:
            return _report_typed(known, as_json=as_json)
        if isinstance(error, OSError) and error.filename is None:
            _report_lost_output(error)
        else:
            _report_defect(error, as_json=as_json)
        return 1


def _invoke(arguments: Sequence[str]) -> int:
    # Not `app.main`: it has its own views on broken pipes and interrupts.
    if instruction := os.environ.get(_COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(app, {}, _PROGRAM, _COMPLETION_VARIABLE, instruction)
    try:
        with app.make_context(_PROGRAM, list(arguments)) as context:
            status = app.invoke(context)
    except click.exceptions.Exit as finished:
        status = finished.exit_code
    sys.stdout.flush()
    return int(status or 0)


def _report_typed(error: OmnigraphError, *, as_json: bool) -> int:
    if as_json:
        output.write_json(errors.error_document(error))
    else:
        output.write_styled(errors.error_lines(error), sys.stderr)
    return error.exit_code


def _report_usage(error: click.ClickException, *, as_json: bool) -> None:
    message = writable(error.format_message())
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"run `{context.command_path} --help`" if context else None
    if as_json:
        output.write_json(errors.document(message, hint=hint))
        return
    usage = f"{context.get_usage()}\n" if context else ""
    output.write(usage, sys.stderr)
    output.write_styled(errors.plain_lines(message, hint), sys.stderr)


def _report_lost_output(error: OSError) -> None:
    """A full disk, for example. Reading and writing files is not meant: the modules that do it report it themselves."""
    output.silence(sys.stdout)
    output.write_styled(errors.plain_lines(f"the output cannot be written: {error.strerror}"), sys.stderr)


def _report_defect(error: Exception, *, as_json: bool) -> None:
    message, hint = errors.defect(error)
    if as_json:
        output.write_json(errors.document(message, hint=hint))
        return
    output.write_styled([[("error", message)], [("help", "hint"), ("source", f": {hint}")]], sys.stderr)


def _index(arguments: Sequence[str], word: str) -> int:
    return arguments.index(word) if word in arguments else len(arguments)
