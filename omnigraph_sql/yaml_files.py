"""YAML files: reading them within limits, and checking them key by key."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from omnigraph_sql.errors import Configuration, NotFound

_VARIABLE = re.compile(r"\$(\$)?\{([^}]*)\}")
_LARGEST = 1 << 20
"""The maximum size of a file in bytes."""
_MAX_VALUES = 100_000
"""The maximum number of values of a file, with those that aliases repeat."""


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file. Raises `NotFound`, or `Configuration` with the line of a syntax error."""
    return parse_yaml(_text(path), str(path))


def parse_yaml(text: str, path: str) -> Any:
    """Return the content of a YAML text. `path` names its source in errors; they are those of `read_yaml`."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses duplicate keys, of which YAML would keep only the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                try:
                    if key in seen:
                        raise yaml.constructor.ConstructorError(None, None, f"`{key}` is given twice", node.start_mark)
                    seen.add(key)
                except TypeError:
                    break  # the loader refuses a key that is not hashable
            return super().construct_mapping(node, deep)

    loader = None
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _is_overgrown(node):
            hint = "write out what its aliases stand for, or split the file"
            raise Configuration(f"{path} holds more than {_MAX_VALUES} values", what=path, hint=hint)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        message = f"{path}:{line} is not YAML: {error.problem}"
        raise Configuration(message, what=path, hint="look at indents, colons and quotes there") from None
    except RecursionError:
        raise Configuration(f"{path} is nested too deeply", what=path, hint="write it with fewer levels") from None
    except (yaml.YAMLError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        # Characters that YAML forbids, and invalid dates and numbers.
        reason = str(error).partition("\n")[0]
        raise Configuration(f"{path} is not YAML: {reason}", what=path, hint="put quotes around texts") from None
    finally:
        if loader is not None:
            loader.dispose()


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        hint = "give the path of a file that can be read"
        raise NotFound(f"{path} cannot be read: {error.strerror}", what="file", name=str(path), hint=hint) from None
    except ValueError:
        hint = "give the path of a file"
        raise NotFound(f"{path} cannot be the name of a file", what="file", name=str(path), hint=hint) from None
    if len(data) > _LARGEST:
        raise Configuration(f"{path} is larger than {_LARGEST} bytes", what=str(path), hint="split it, or name another file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Configuration(f"{path} is not UTF-8", what=str(path), hint="save it as UTF-8") from None


def _is_overgrown(root: Any) -> bool:
    """True if a document has too many values with its aliases expanded, or contains itself."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        inner = (
            [child for pair in node.value for child in (pair if isinstance(pair, tuple) else (pair,))]
            if not isinstance(node.value, str)
            else []
        )
        if is_done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in inner)
            if sizes[id(node)] > _MAX_VALUES:
                return True
        elif id(node) in open_nodes:
            return True
        elif id(node) not in sizes:
            open_nodes.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in inner]
    return False


def default(value: Any, absent: Any) -> Any:
    """Return a value, or `absent` for a missing or empty one."""
    return absent if value is None else value


class YamlChecker:
    """Checks the values of a file. Every error names the file and the key, and has a hint."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mapping(self, value: Any, key: str, allowed: Collection[str] | None) -> dict[str, Any]:
        """Check that a value is a mapping, with the allowed keys only; None allows all."""
        if not isinstance(value, dict):
            self.refuse(key, "is not a mapping", "write KEY: VALUE lines")
        for name in value:
            if not isinstance(name, str):
                self.refuse(f"{key}.{name}" if key else str(name), "is not a text", "put quotes around the key")
            if allowed is not None and name not in allowed:
                from omnigraph_compiler.diagnostics import did_you_mean, listing

                hint = did_you_mean(name, allowed) or f"there are {listing(allowed)}"
                self.refuse(f"{key}.{name}" if key else name, "is not known", hint)
        return value

    def filled(self, key: str, value: Any) -> Any:
        """Return a value with environment variables substituted in its texts."""
        if isinstance(value, dict):
            return {name: self.filled(f"{key}.{name}" if key else str(name), inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(f"{key}[{at}]", inner) for at, inner in enumerate(value)]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            if match[1]:
                return match[0][1:]
            if match[2] not in os.environ:
                hint = "set it, or write $${ for a plain ${"
                self.refuse(key, f"needs the environment variable `{match[2]}`, which is not set", hint)
            return os.environ[match[2]]

        return _VARIABLE.sub(variable, value)

    def refuse(self, key: str, wrong: str, hint: str | None) -> NoReturn:
        """Raise `Configuration` for a key, with a hint."""
        what = f"`{key}`" if key else "the file"
        raise Configuration(f"{self.path}: {what} {wrong}", what=key or str(self.path), hint=hint)
