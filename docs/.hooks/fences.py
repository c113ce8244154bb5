"""A MkDocs hook: takes the flags that only the tests read (`error`, `fragment`) off the code fences of a page.

The Markdown renderer does not know them and would not see a code block at all.
"""

import re
from typing import Any

_FLAGGED = re.compile(
    r"""^([ \t]*(?:`{3,}|~{3,})[ \t]*(?:pg|gq))  # the fence and its language
        (?:[ \t]+(?:error(?:[ \t]+[\w-]+(?![\w=-]))?|fragment))
        (?=[ \t]|$)""",
    re.MULTILINE | re.VERBOSE,
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the source of each page."""
    return _FLAGGED.sub(r"\1", markdown)
