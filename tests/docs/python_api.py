"""Writes `docs/reference/python-api.md` from the docstrings of the public surface: `make reference`.

The examples on the page are those of the docstrings, which `test_docstrings.py` runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from omnigraph_sql import errors
from tests import public_surface as surface
from tests.public_surface import Docstring, PublicFunction

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python-api.md"
INTRODUCTION = '''\
# Python API

This page lists everything that `omnigraph_sql` exports, with the classes that its functions return. `make reference`
writes it from the docstrings.

The examples share a graph of two ports and a lane between them, and `import omnigraph_sql as og`:

```python
import omnigraph_sql as og

schema = "node Port { code: String @key  name: String?  depth: F64? }  edge Lane: Port -> Port"
records = """
{"type": "Port", "data": {"code": "NLRTM", "name": "Rotterdam", "depth": 24}}
{"type": "Port", "data": {"code": "DEDUI", "name": "Duisburg"}}
{"edge": "Lane", "from": "NLRTM", "to": "DEDUI"}
"""
graph = og.init("harbour", schema)
graph.load(records, mode="append", message="first ports")
```

Examples of pipelines use a file `pipeline.yaml` beside the graph, with one port in `ports.csv`:

```yaml
graph: harbour
mode: merge
sources:
  ports: {format: csv, path: ports.csv}
nodes:
  - {type: Port, from: ports, columns: {code: locode, name: title}}
```
'''
GROUPS = {
    "Graph": ["Graph", "Preview"],
    "Results": ["Result", "Explanation", "Step"],
    "Writes": ["LoadResult", "MutationResult", "ExecuteResult", "StagedLoad", "RelationalWriter", "Embedder"],
    "States and history": [
        "Commit",
        "Tag",
        "Snapshot",
        "ChangeSet",
        "ChangeStats",
        "EntityChange",
        "CommitChanges",
        "ChangeFeedPage",
    ],
    "SQL sessions": ["ForeignTable", "ProjectSettings", "GraphContext"],
    "Upkeep": ["PendingIndex", "CleanupStat"],
}
"""Sections and their classes. Classes that stand nowhere else are records, in the last section."""

ALIASES = (
    "| `RejectTarget` | a path, or a function of a mapping | A `.jsonl` or `.parquet` file, or a callback. |",
    '| `RejectLimit` | `int`, or a text such as `"0.5%"` | The number or share of records that a load may leave out. |',
    "| `Uri` | a text or a path | The address of a graph: a directory, or `s3://BUCKET/PREFIX`. |",
)
"""Types in signatures that stand for unions."""


def page() -> str:
    """The text of the page."""
    classes = {class_.__name__: class_ for class_ in surface.classes()}
    functions = {function.name: function for function in surface.functions()}
    parts = [INTRODUCTION, _contents()]
    parts += ["## Opening a graph { #opening }", *_functions(functions, "og.")]
    for title, names in GROUPS.items():
        parts += [f"## {title} {{ #{_anchor(title)} }}"]
        parts += [part for name in names for part in _class(classes.pop(name))]
    for prefix, title in (("og.pipeline.", "Pipelines"), ("og.spark.", "Spark")):
        named = [name for name in surface.exported() if name.startswith(prefix)]
        parts += [f"## {title} {{ #{_anchor(title)} }}", *_functions(functions, prefix)]
        parts += [
            part for name in named if name.split(".")[-1] in classes for part in _class(classes.pop(name.split(".")[-1]))
        ]
    parts += ["## Options { #options }", *_choices(), "## Errors { #errors }", *_errors(classes)]
    parts += ["## Records { #records }", "Values of the fields and methods above."]
    rest = [*(class_ for name, class_ in classes.items() if name not in errors.__all__), *surface.records()]
    parts += [part for class_ in sorted(rest, key=lambda class_: class_.__name__) for part in _class(class_)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _contents() -> str:
    titles = [("Opening a graph", "opening"), *((title, _anchor(title)) for title in GROUPS)]
    titles += [(title, _anchor(title)) for title in ("Pipelines", "Spark", "Options", "Errors", "Records")]
    return "\n".join(f"- [{title}](#{anchor})" for title, anchor in titles)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-").replace(".", "-")


def _functions(functions: dict[str, PublicFunction], prefix: str) -> Iterator[str]:
    for name, function in functions.items():
        if name.startswith(prefix) and "." not in name.removeprefix(prefix):
            yield from _function(function, "###")


def _class(class_: type) -> Iterator[str]:
    """A class with its fields, properties and methods."""
    name, doc = class_.__name__, Docstring.of(class_)
    yield f"### {name} {{ #{name} }}"
    if "Args" in doc.sections:
        constructor = PublicFunction(f"og.spark.{name}", vars(class_)["__init__"], owner=class_)
        yield f"```text\n{_signature(constructor)}\n```"
    yield from _described(doc)
    fields = surface.fields(class_)
    if fields:
        described = surface.field_docs(class_)
        rows = [
            f"| `{field.name}` | {_type(_annotation(field.type))} | {described.get(field.name, '')} |" for field in fields
        ]
        yield "\n".join(["| Field | Type | |", "|---|---|---|", *rows])
    for member in surface.members(class_):
        if class_ not in surface.records():
            yield from _function(member, "####")


def _function(function: PublicFunction, level: str) -> Iterator[str]:
    """A function, method or property."""
    yield f"{level} {function.name} {{ #{function.name} }}"
    yield f"```text\n{_signature(function)}\n```"
    yield from _described(function.docstring)


def _described(doc: Docstring) -> Iterator[str]:
    """The sections of a docstring."""
    if doc.text:
        yield _paragraphs(doc.text)
    yield from _table("Argument", {f"`{name}`": text for name, text in doc.entries("Args").items()})
    for section in ("Returns", "Yields"):
        if section in doc.sections:
            yield f"{section}: {_one_line(doc.sections[section])}"
    yield from _table("Raises", {_error(name): text for name, text in doc.entries("Raises").items()})
    if "Example" in doc.sections:
        yield f"```pycon\n{doc.sections['Example']}\n```"


def _table(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    if entries:
        rows = [f"| {name} | {_cell(text)} |" for name, text in entries.items()]
        yield "\n".join([f"| {title} | |", "|---|---|", *rows])


def _error(name: str) -> str:
    return f"[`{name}`](#{name})" if name in errors.__all__ else f"`{name}`"


def _choices() -> Iterator[str]:
    rows = [
        f"| `{name}` | {', '.join(f'`{value}`' for value in get_args(choice))} | {_cell(surface.choice_docs()[name])} |"
        for name, choice in ((name.removeprefix("og."), value) for name, value in surface.exported().items())
        if name in surface.choice_docs()
    ]
    yield "\n".join(["| Type | Values | |", "|---|---|---|", *rows, *ALIASES])


def _errors(classes: dict[str, type]) -> Iterator[str]:
    yield (
        "All are in `omnigraph_sql.errors`, and all but the warnings derive from `OmnigraphError`. The [index of error"
        " codes](errors.md) has the codes of the compiler, each with an example and a fix."
    )
    for name in errors.__all__:
        class_ = classes[name]
        base = class_.__bases__[0].__name__
        yield f"### {name} {{ #{name} }}"
        if base in errors.__all__:
            yield f"Base: [`{base}`](#{base})."
        yield from _described(Docstring.of(class_))
        if issubclass(class_, errors.OmnigraphError):
            taken = [name for name in inspect.signature(class_).parameters if name != "message"]
            fields = ", ".join(f"`{name}`" for name in taken)
            yield f"Fields: {fields}. Exit code {class_.exit_code}, HTTP status {class_.http_status}."
        for member in surface.members(class_):
            yield from _function(member, "####")


def _signature(function: PublicFunction) -> str:
    """A signature as in the source, over several lines if it is long."""
    returned = _annotation(function.returns)
    if function.is_property:
        return f"{function.name}: {returned}"
    end = "" if returned == "None" else f" -> {returned}"
    parameters = list(_parameters(function.parameters))
    line = f"{function.name}({', '.join(parameters)}){end}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{function.name}(", *(f"    {parameter}," for parameter in parameters), f"){end}"])


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    is_keyword = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not is_keyword:
            yield "*"
        is_keyword |= parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        text = f"{surface.stars(parameter)}{parameter.name}: {_annotation(parameter.annotation)}"
        default = parameter.default
        if default is not inspect.Parameter.empty:
            text += f" = {'…' if callable(default) else _quoted(default)}"
        yield text


def _quoted(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _annotation(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.removeprefix("og.")


def _type(annotation: str) -> str:
    """A type for a table, with a link to its class."""
    text = annotation.replace("|", r"\|")
    public = {class_.__name__ for class_ in (*surface.classes(), *surface.records())}
    if not any(name in public for name in re.findall(r"\w+", text)):
        return f"`{annotation}`" if "|" not in annotation else f"<code>{text}</code>"
    linked = re.sub(r"\w+", lambda match: f"[{match[0]}](#{match[0]})" if match[0] in public else match[0], text)
    return f"<code>{linked}</code>"


def _paragraphs(text: str) -> str:
    """The text before the sections, one line per paragraph."""
    return "\n\n".join(_one_line(paragraph) for paragraph in text.split("\n\n"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
