"""Groups of commands whose modules are imported when one of their commands is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """The place of a command and its summary in the help of its group."""

    place: str
    """A module of `cli.commands` and a name in it, as `load:ingest`."""
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        module, _, name = self.place.partition(":")
        command = getattr(import_module(f"omnigraph_sql.cli.commands.{module}"), name)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """A group that shows its help without importing its commands."""

    def __init__(self, name: str | None = None, *, declared: Mapping[str, LazyCommand], **attributes: Any) -> None:
        super().__init__(name, _Commands(declared), **attributes)
        self._declared = declared

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        rows = [(name, click.Command(name, help=self._declared[name].summary).get_short_help_str(limit)) for name in names]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported on first access."""

    def __init__(self, declared: Mapping[str, LazyCommand]) -> None:
        self._declared = dict(declared)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self._declared[name].load()
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared or name in self._loaded

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared | self._loaded)

    def __len__(self) -> int:
        return len(self._declared | self._loaded)
