"""`--format markdown`: GitHub tables, for job summaries and pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.formats.csv import gathered
from deltacli.cli.render.columns import exact
from deltacli.cli.results import EncodedItems
from deltacli.cli.terminal.term import CONTROL, Terminal, encoded, visible

if TYPE_CHECKING:
    import pyarrow

    from deltacli.cli.render.sections import Section
    from deltacli.cli.results import Result

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
_PIPE = Terminal(is_terminal=False, width=None, colour=False)


def write_markdown(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write the sections of a result as a table of two columns, then its rows where it is a list."""
    sections = [section for section in result.sections(_PIPE) if section.lines]
    blocks: Iterable[bytes | memoryview] = _section_rows(sections) if sections else ()
    if result.lists or not sections:
        blocks = chain(blocks, [b"\n"] if sections else [], result.grid().written(MarkdownForm()))
    for block in gathered(blocks):
        sink.write(block)


def _section_rows(sections: Sequence[Section]) -> Iterator[bytes]:
    """Yield the sections as a label and its lines; the first one is the table's header, which Markdown requires."""
    for number, section in enumerate(sections):
        yield encoded(f"| {cell(section.label)} | {cell(chr(10).join(section.lines))} |\n")
        if number == 0:
            yield b"| --- | --- |\n"


class MarkdownForm:
    """Rows as lines of a GitHub table."""

    is_for_eyes = True

    def header(self, names: Sequence[str], right: Sequence[bool] = ()) -> bytes:
        rules = ["---:" if number < len(right) and right[number] else "---" for number in range(len(names))]
        return self.row(names) + encoded(f"| {' | '.join(rules)} |\n")

    def row(self, values: Sequence[object]) -> bytes:
        return encoded(f"| {' | '.join(cell(exact(value)) for value in values)} |\n")

    def block(self, columns: Sequence[pyarrow.Array], rows: int, null: str = "") -> EncodedItems:
        import pyarrow as pa

        from deltacli.arrow import compute as pc
        from deltacli.cli.render.data.values import text_column
        from deltacli.cli.results import block_of

        missing = pa.scalar(null)
        cells = [pc.coalesce(_cells(text_column(column)), missing) for column in columns]
        if not cells:
            return block_of(pa.repeat("|\n", rows))
        inner = pc.binary_join_element_wise(*cells, " | ")
        return block_of(pc.binary_join_element_wise("| ", inner, " |\n", ""))


def cell(text: str) -> str:
    """Return a text for a cell: on one line, with everything escaped that Markdown or HTML would interpret."""
    lines = (visible(line) for line in _LINE_END.split(text))
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], "\n".join(lines))


def _cells(texts: pyarrow.StringArray) -> pyarrow.StringArray:
    """Return a column of texts as cells, by Arrow functions where it has no control characters."""
    import pyarrow as pa

    from deltacli.arrow import compute as pc
    from deltacli.delta.encoding.arrow_json import characters

    raw = characters(texts)
    if CONTROL.search(raw):
        return pa.array([None if text is None else cell(text) for text in texts.to_pylist()], pa.string())
    for special, escape in _ESCAPES.items():
        if special in raw:
            texts = pc.replace_substring(texts, special, escape)
    return texts
