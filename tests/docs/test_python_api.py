"""The page of the Python API says what the docstrings say, about everything that is public."""

from __future__ import annotations

import re

import pytest

from tests import public_surface as surface
from tests.docs import python_api


def test_the_page_is_up_to_date() -> None:
    assert python_api.PAGE.read_text("utf-8") == python_api.page(), "run `make reference`"


def test_everything_public_has_one_entry() -> None:
    headings = re.findall(r"^###+ (\S+) \{ #\1 \}$", python_api.page(), re.MULTILINE)
    classes = [class_.__name__ for class_ in (*surface.classes(), *surface.records())]
    functions = [function.name for function in surface.all_functions()]

    assert sorted(headings) == sorted([*classes, *functions])


@pytest.mark.parametrize("name", [name for name in surface.exported() if name.removeprefix("og.") in surface.choice_docs()])
def test_every_option_type_is_listed(name: str) -> None:
    assert f"| `{name.removeprefix('og.')}` |" in python_api.page()
