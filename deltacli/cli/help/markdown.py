"""Read parts of a page of Markdown as blocks of plain text, which help shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from deltacli.cli.help.text import Definitions, ExampleLines, TopicBlock

_BLOCKS = re.compile(
    r"""
    ^```[^\n]*\n (?P<code>.*?) ^```
    | ^(?P<comment><!--[^\n]*)
    | (?P<table>(?:^[|][^\n]*\n?)+)
    | (?P<prose>(?:^(?![|]|```|<!--)[^\n]+\n?)+)
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
"""The blocks of a page of Markdown."""


def find_section(page: str, heading: str) -> str:
    """Return the text of a section of a page, up to the next heading of its level.

    Raises:
        LookupError: If the page has no such section.
    """
    match = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{2,3}} |\Z)", page, re.MULTILINE | re.DOTALL)
    if match is None:
        raise LookupError(f"no section {heading!r} in the documentation")
    return match[2]


def parse_blocks(text: str) -> Iterator[TopicBlock]:
    """Yield the paragraphs, tables and examples of a text of Markdown."""
    for block in _BLOCKS.finditer(text):
        if block["comment"]:
            continue
        if block["table"]:
            heading, *rows = parse_table(block["table"])
            labels = heading[1:]
            yield Definitions(tuple((first, _label_cells(labels, cells)) for first, *cells in rows))
        elif block["prose"]:
            for paragraph in re.split(r"\n(?=- )", block["prose"]):
                yield remove_marks(" ".join(paragraph.split()))
        else:
            # `# ->` introduces the output of a command, which help does not show.
            lines = [line for line in block["code"].splitlines() if line.strip() and line[:4] != "# ->"]
            yield ExampleLines(tuple(lines))


def _label_cells(labels: Sequence[str], cells: Sequence[str]) -> str:
    """Return the cells of a row, one a line, each behind the heading of its column; a single one is alone."""
    if len(labels) == 1:
        return cells[0]
    return "\n".join(f"{label}: {cell}" for label, cell in zip(labels, cells, strict=True) if cell)


def parse_table(table: str) -> list[list[str]]:
    """Return the cells of the table in a text of Markdown, its heading first."""
    rows = []
    for line in table.splitlines():
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            rows.append([remove_marks(cell.strip()) for cell in cells])
    heading, _dashes, *others = rows
    return [heading, *others]


def remove_marks(text: str) -> str:
    """Return a text of Markdown without its marks."""
    text = re.sub(r"<a id=[^>]*></a>|\[([^]]+)\]\([^)]*\)", r"\1", text).replace("\\|", "|")
    text = re.sub(r"(?<![\w.*`])\*([A-Za-z][A-Za-z ]*)\*(?![\w*`])", r"\1", text)
    return re.sub(r"`([^`]+)`|\*\*([^*]+)\*\*", r"\1\2", text)
