"""`ogsql changes` and `ogsql commit changes`: what commits changed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from omnigraph_sql.cli import output
from omnigraph_sql.cli.atomic_write import replace_content, replacement
from omnigraph_sql.cli.byte_streams import packed
from omnigraph_sql.cli.source_files import read_bytes
from omnigraph_sql.cli.tables import count
from omnigraph_sql.cli.target import graph_and_word, graph_uri, reading, usage_error
from omnigraph_sql.errors import CursorRejected

if TYPE_CHECKING:
    from omnigraph_sql.cli.commands.changes import ChangesBaselineOptions, ChangesPollOptions
    from omnigraph_sql.cli.commands.commit import CommitChangesOptions
    from omnigraph_sql.history.branch_changes import ChangeFeedPage

_PAGE = 1000
"""Changes that are in memory at a time."""


def of_commit(options: CommitChangesOptions) -> int:
    """Print what a commit changed, or a page of it."""
    uri, commit_id = graph_and_word(options.words, options.store, "ID")
    with reading(uri) as graph:
        page = graph.commit_changes(commit_id, limit=options.limit, page_token=options.page_token, **_filter(options))
    if options.as_json:
        output.write_json(page.to_dict())
        return 0
    from omnigraph_sql.cli.change_lines import change_lines, commit_line

    output.write_styled([commit_line(page), *change_lines(page.changes)])
    if page.next_page_token is not None:
        output.write(f"\nmore: --page-token {page.next_page_token}\n")
    return 0


def poll(options: ChangesPollOptions) -> int:
    """Print the commits after a cursor, up to the head of the branch."""
    if options.cursor is not None and (options.cursor_file is not None or options.start is not None):
        raise usage_error("--cursor says where to go on, and excludes --cursor-file and --start")
    cursor = options.cursor if options.cursor_file is None else _read_cursor(options.cursor_file)
    with reading(graph_uri(options.uri, options.store)) as graph:
        request: dict[str, Any] = {"cursor": cursor} if cursor is not None else {"start": options.start}
        while True:
            page = graph.changes(options.branch, limit=_PAGE, **request, **_filter(options))
            _write_page(page, as_json=options.as_json)
            if options.cursor_file is not None and page.cursor != cursor:
                replace_content(options.cursor_file, f"{page.cursor}\n".encode())
            cursor = page.cursor
            if page.next_page_token is None:
                break
            request = {"page_token": page.next_page_token}
    if options.as_json:
        output.write(json.dumps({"cursor": cursor, "head_commit_id": page.head_commit_id}) + "\n")
    elif options.cursor_file is None:
        output.write_styled([[("help", "cursor"), ("source", f" {cursor}")]])
    return 0


def baseline(options: ChangesBaselineOptions) -> int:
    """Print the records of a branch and the cursor from which its changes go on."""
    with reading(graph_uri(options.uri, options.store)) as graph:
        records = _Baseline(graph.baseline(options.branch, **_filter(options)))
        if options.out is None:
            records.write(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            with replacement(options.out) as file, packed(file, options.out) as stream:
                records.write(stream)
    if options.cursor_file is not None:
        replace_content(options.cursor_file, f"{records.last['resume_cursor']}\n".encode())
    if options.out is not None and options.as_json:
        document = {"uri": graph.uri, "branch": options.branch, "out": options.out, "records": records.number}
        output.write_json(document | {"baseline": records.last})
    elif options.out is not None:
        output.write(f"wrote {count(records.number, 'record')} to {options.out}\n")
    return 0


class _Baseline:
    """The records of a baseline on their way to a stream."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.number = 0
        """Records, without the last one."""
        self.last: dict[str, str] = {}
        """What the last record says."""

    def write(self, stream: IO[bytes]) -> None:
        line = ""
        for line in self._lines:
            stream.write(line.encode() + b"\n")
            self.number += 1
        self.number -= 1
        self.last = json.loads(line)["baseline"]


def _filter(options: CommitChangesOptions | ChangesPollOptions | ChangesBaselineOptions) -> dict[str, Any]:
    return {"kinds": options.kinds or None, "types": options.types or None, "ops": options.ops or None}


def _read_cursor(path: str) -> str | None:
    """The cursor in a file; None if there is no file yet."""
    if not os.path.lexists(path):
        return None
    try:
        return read_bytes(path).decode("ascii").strip()
    except UnicodeDecodeError:
        text = f"the file `{path}` holds no cursor"
        hint = "name the file of an earlier poll, or one that does not exist yet"
        raise CursorRejected(text, reason="malformed", hint=hint) from None


def _write_page(page: ChangeFeedPage, *, as_json: bool) -> None:
    if as_json:
        output.write("".join(json.dumps(block.to_dict()) + "\n" for block in page.blocks))
        return
    output.write_styled(line for block in page.blocks for line in _block_lines(block))


def _block_lines(block: Any) -> Iterator[output.StyledLine]:
    from omnigraph_sql.cli.change_lines import change_lines, commit_line

    yield commit_line(block)
    yield from change_lines(block.changes)
    yield []
