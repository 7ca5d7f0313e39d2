"""Write results as tables in GitHub Flavored Markdown, for comments of pull requests (`--format markdown`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.cli.output.columns import format_exact
from deltacli.cli.output.csv_rows import join_small_blocks
from deltacli.cli.output.grids import EncodedItems, encode_texts
from deltacli.cli.output.results import Result
from deltacli.cli.output.sections import Section
from deltacli.cli.terminal.capabilities import PLAIN_TEXT, Terminal
from deltacli.cli.terminal.characters import CONTROL_CHARACTERS, encode_utf8, escape_control
from deltacli.delta.encoding.value_text import characters

_ESCAPES = {
    "\\": "\\\\",  # must be the first, because other replacements contain backslashes
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "\\|",
    "`": "\\`",
    "*": "\\*",
    "_": "\\_",
    "~": "\\~",
    "[": "\\[",
    "]": "\\]",
    "$": "\\$",
    "@": "@<!-- -->",
    "://": ":<!-- -->//",
    "www.": "www<!-- -->.",
    "\n": "<br>",
}
"""Maps character sequences with a meaning in GitHub Flavored Markdown to replacements that show them literally.

They begin HTML, table cells, code, emphasis, links, formulas and mentions. The comments `<!-- -->` prevent GitHub from
converting addresses to links.
"""
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPES)))
_LINE_END = re.compile(r"\r\n|\r|\n")


def write_markdown(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write the sections of a result as a table of two columns, followed by a table of its rows if it is a list."""
    sections = [section for section in result.sections(PLAIN_TEXT) if section.lines]
    blocks: Iterable[bytes | memoryview] = _encode_sections(sections)
    if result.has_requested_rows or not sections:
        separator = [b"\n"] if sections else []
        blocks = chain(blocks, separator, result.grid().encode(MarkdownEncoder()))
    for block in join_small_blocks(blocks):
        sink.write(block)


def _encode_sections(sections: Sequence[Section]) -> Iterator[bytes]:
    """Encode sections as rows of a label and a text. Markdown requires a header, so the first section is the header."""
    for number, section in enumerate(sections):
        lines = "\n".join(section.lines)
        yield encode_utf8(f"| {escape_cell(section.label)} | {escape_cell(lines)} |\n")
        if number == 0:
            yield b"| --- | --- |\n"


class MarkdownEncoder:
    """Encodes rows as lines of a Markdown table."""

    is_for_people = True

    def encode_header(self, names: Sequence[str], align_right: Sequence[bool] = ()) -> bytes:
        """Return the line with the names, and the delimiter line, which contains the alignment of the columns."""
        rules = ["---:" if number < len(align_right) and align_right[number] else "---" for number in range(len(names))]
        return self.encode_row(names) + encode_utf8(f"| {' | '.join(rules)} |\n")

    def encode_row(self, values: Sequence[object]) -> bytes:
        """Return the line of a row."""
        cells = [escape_cell(format_exact(value)) for value in values]
        return encode_utf8(f"| {' | '.join(cells)} |\n")

    def encode_columns(self, columns: Sequence[pa.Array], rows: int, null: str = "") -> EncodedItems:
        """Return the lines of rows in Arrow columns."""
        from deltacli.cli.render.data.rows import text_column

        null_cell = pa.scalar(null)
        cells = [pc.coalesce(_escape_cells(text_column(column)), null_cell) for column in columns]
        if not cells:
            return encode_texts(pa.repeat("|\n", rows))
        joined_cells = pc.binary_join_element_wise(*cells, " | ")
        return encode_texts(pc.binary_join_element_wise("| ", joined_cells, " |\n", ""))


def escape_cell(text: str) -> str:
    """Escape a text for a cell. Line ends become `<br>`, and Markdown and HTML syntax is shown literally."""
    lines = [escape_control(line) for line in _LINE_END.split(text)]
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], "\n".join(lines))


def _escape_cells(texts: pa.StringArray) -> pa.StringArray:
    """Escape a column of texts for cells.

    Arrow functions are used unless a text contains control characters, which are rare.
    """
    all_characters = characters(texts)
    if CONTROL_CHARACTERS.search(all_characters):
        return pa.array([None if text is None else escape_cell(text) for text in texts.to_pylist()], pa.string())
    for special, escape in _ESCAPES.items():
        if special in all_characters:
            texts = pc.replace_substring(texts, special, escape)
    return texts
