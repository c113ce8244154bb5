"""The rules for code blocks: each of them can fail."""

from pathlib import Path

import pytest

from tests.docs.blocks import BadPage, Block, read_blocks
from tests.docs.page_run import BlockFailed, PageRun, lines_match

SCHEMA = "```pg\nnode Port { code: String @key }\n```\n"
GOOD_QUERY = "query q() { match { $p: Port } return { $p.code } }"
BAD_QUERY = "query q() { match { $p: Prot } return { $p.code } }"


def blocks_of(directory: Path, markdown: str) -> list[Block]:
    page = directory / "page.md"
    page.write_text(markdown, encoding="utf-8")
    return read_blocks(page)


def run_page(directory: Path, markdown: str) -> PageRun:
    run = PageRun(directory)
    for block in blocks_of(directory, markdown):
        run.run(block)
    return run


def test_a_block_knows_its_language_flags_and_title(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, 'intro\n\n```gq error T1 title="a b.gq"\nx\n  y\n```\n')

    assert (block.language, block.flags, block.title, block.line) == ("gq", ("error", "T1"), "a b.gq", 3)
    assert block.text == "x\n  y\n"


def test_a_block_in_a_list_is_dedented(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, "- item\n\n    ```python\n    if 1:\n        pass\n    ```\n")

    assert block.text == "if 1:\n    pass\n"


def test_a_fence_inside_a_longer_fence_is_text(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, "````text\n```python\n1 / 0\n```\n````\n")

    assert block.language == "text"


def test_an_open_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPage, match="never closed"):
        blocks_of(tmp_path, "```python\npass\n")


def test_python_blocks_share_a_namespace(tmp_path: Path) -> None:
    run = run_page(tmp_path, "```python\nx = 1\n```\ntext\n```python\ny = x + 1\n```\n")

    assert run.namespace["y"] == 2


def test_a_titled_block_is_a_file_for_the_commands_below(tmp_path: Path) -> None:
    run_page(tmp_path, '```json title="in/data.json"\n[1]\n```\n```console\n$ cat in/data.json\n[1]\n```\n')


def test_a_command_may_fail_if_the_page_says_so(tmp_path: Path) -> None:
    run_page(tmp_path, "```console\n$ echo no; exit 3\nno\n[exit 3]\n$ echo a; echo b \\\n    >&2\na\nb\n$ true\n```\n")


def test_commands_find_the_tools_beside_the_interpreter(tmp_path: Path) -> None:
    run_page(
        tmp_path,
        '```console\n$ dirname "$(command -v python)" | xargs basename; echo $NO_COLOR $COLUMNS\nbin\n1 100\n```\n',
    )


def test_a_session_reads_what_stands_behind_its_prompts(tmp_path: Path) -> None:
    run_page(
        tmp_path,
        '```pg title="s.pg"\nnode Port { code: String @key }\n```\n'
        "```console\n$ ogsql init ports --schema s.pg --quiet\n...\n```\n"
        "```session\n$ ogsql shell ports --format csv\nports main> select\n      ...> 1 as one;\none\n1\n"
        "ports main> select * from Prot;\nerror: there is no table `Prot`\n...\nports main> \\q\n```\n",
    )


def test_schemas_and_queries_are_compiled(tmp_path: Path) -> None:
    run_page(tmp_path, f"{SCHEMA}```gq\n{GOOD_QUERY}\n```\n```gq fragment\n$p.code\n```\n")


@pytest.mark.parametrize("what", ["", " T1", " type"])
def test_a_rejected_query_is_rejected(tmp_path: Path, what: str) -> None:
    run_page(tmp_path, f"{SCHEMA}```gq error{what}\n{BAD_QUERY}\n```\n")


@pytest.mark.parametrize("what", ["", " parse", " Q000"])
def test_a_query_that_does_not_parse_is_rejected(tmp_path: Path, what: str) -> None:
    run_page(tmp_path, f"{SCHEMA}```gq error{what}\nquery (\n```\n")


@pytest.mark.parametrize("what", ["", " parse"])
def test_a_rejected_schema_is_rejected(tmp_path: Path, what: str) -> None:
    run_page(tmp_path, f"```pg error{what}\nnode {{\n```\n")


@pytest.mark.parametrize(
    ("markdown", "complaint"),
    [
        ("```\nx\n```\n", "no language"),
        ("```ruby\nx\n```\n", "ruby"),
        ("```python error\nx\n```\n", "unknown flags"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```pycon\nx\n```\n", "without an example"),
        ("```console\nls\n```\n", "starts with a line"),
        ("```console\n```\n", "without a command"),
        ("```console\n$ echo a\nb\n```\n", "the page says"),
        ("```console\n$ echo a\n```\n", "the page says"),
        ("```console\n$ false\n```\n", "exit 1"),
        ("```console\n$ true\n[exit 1]\n```\n", "exit 0"),
        ("```session\n$ ls\n```\n", "a session starts with"),
        ("```session\n$ ogsql shell nowhere\ngraph main> select 1;\n1\n```\n", "the page says"),
        ("```json\n{\n```\n", "JSONDecodeError"),
        ("```toml\nx\n```\n", "TOMLDecodeError"),
        ("```yaml\n[\n```\n", "ParserError"),
        ("```bash\nrm -r x\n```\n", "set-up command"),
        ('```text title="../x"\nx\n```\n', "outside"),
        ("```pg\nnode {\n```\n", "CompileError"),
        ("```pg error\nnode Port { code: String @key }\n```\n", "compiles"),
        ("```pg error catalog\nnode {\n```\n", "the page says catalog"),
        ("```pg fragment\nx\n```\n", "unknown flags"),
        (f"```gq\n{GOOD_QUERY}\n```\n", "no `pg` block"),
        (f"{SCHEMA}```gq\n{BAD_QUERY}\n```\n", "Prot"),
        (f"{SCHEMA}```gq error\n{GOOD_QUERY}\n```\n", "without an error"),
        (f"{SCHEMA}```gq error T2\n{BAD_QUERY}\n```\n", "the page says T2"),
        (f"{SCHEMA}```gq wrong\n{BAD_QUERY}\n```\n", "unknown flags"),
    ],
)
def test_a_block_that_does_not_hold_fails(tmp_path: Path, markdown: str, complaint: str) -> None:
    with pytest.raises(BlockFailed, match=complaint) as caught:
        run_page(tmp_path, markdown)
    assert "page.md:" in str(caught.value)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["..."], [], True),
        (["..."], ["a", "b"], True),
        (["a", "..."], ["a"], True),
        (["...", "b", "...", "b"], ["b", "b"], True),
        (["...", "b", "...", "b"], ["a", "b"], False),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
    ],
)
def test_an_ellipsis_stands_for_any_lines(expected: list[str], printed: list[str], same: bool) -> None:
    assert lines_match(expected, printed) is same
