"""`--format markdown`: tables in the Markdown of GitHub, for comments of pull requests."""

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
    "\\": "\\\\",  # first, because the others add some
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
"""Replacements for what Markdown or GitHub interprets: HTML, cells, code, emphasis, links, formulas, mentions and
addresses that become links.
"""
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPES)))
_LINE_END = re.compile(r"\r\n|\r|\n")


def write_markdown(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write the sections of a result as a table of two columns, then its rows if it is a list."""
    sections = [section for section in result.sections(PLAIN_TEXT) if section.lines]
    blocks: Iterable[bytes | memoryview] = _encode_sections(sections)
    if result.has_requested_rows or not sections:
        separator = [b"\n"] if sections else []
        blocks = chain(blocks, separator, result.grid().encode(MarkdownEncoder()))
    for block in join_small_blocks(blocks):
        sink.write(block)


def _encode_sections(sections: Sequence[Section]) -> Iterator[bytes]:
    """Yield the sections as a label and its lines; the first one is the table's header, which Markdown requires."""
    for number, section in enumerate(sections):
        lines = "\n".join(section.lines)
        yield encode_utf8(f"| {escape_cell(section.label)} | {escape_cell(lines)} |\n")
        if number == 0:
            yield b"| --- | --- |\n"


class MarkdownEncoder:
    """Encodes rows as lines of a GitHub table."""

    is_for_people = True

    def encode_header(self, names: Sequence[str], align_right: Sequence[bool] = ()) -> bytes:
        """Return the line with the names, and the line that says how the columns are aligned."""
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
        inner = pc.binary_join_element_wise(*cells, " | ")
        return encode_texts(pc.binary_join_element_wise("| ", inner, " |\n", ""))


def escape_cell(text: str) -> str:
    """Return a text for a cell: on one line, with everything escaped that Markdown or HTML would interpret."""
    lines = [escape_control(line) for line in _LINE_END.split(text)]
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], "\n".join(lines))


def _escape_cells(texts: pa.StringArray) -> pa.StringArray:
    """Return a column of texts as cells, by Arrow functions if it has no control characters."""
    raw = characters(texts)
    if CONTROL_CHARACTERS.search(raw):
        return pa.array([None if text is None else escape_cell(text) for text in texts.to_pylist()], pa.string())
    for special, escape in _ESCAPES.items():
        if special in raw:
            texts = pc.replace_substring(texts, special, escape)
    return texts
