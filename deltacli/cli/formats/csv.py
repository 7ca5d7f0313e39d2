"""`--format csv`, by RFC 4180: a header line, LF line ends; null is an empty field, an empty text is `""`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.cli.render.columns import Section, exact
from deltacli.cli.results import EncodedItems, Result, block_of
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import CONTROL_CHARACTERS, encode_utf8, escape_control
from deltacli.core.typing import ArrowType
from deltacli.delta.encoding.value_text import characters, escaped, escaped_objects, map_parts

_MUST_BE_QUOTED = '[",\\r\\n]'
_BACKSLASH_AS_QUOTE = bytes(ord('"') if byte == ord("\\") else byte for byte in range(256))
_FIRST_PRINTED = ord(" ")
_BYTES_PER_WRITE = 1 << 16


def write_csv(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    for block in gathered(result.grid().written(CsvForm())):
        sink.write(block)


def gathered(blocks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield small blocks joined together: a block may be a single row."""
    held: list[bytes | memoryview] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size > _BYTES_PER_WRITE:
            yield b"".join(held) if len(held) > 1 else block
            held, size = [], 0
    yield b"".join(held)


class _Line:
    """What `csv` writes a line to: its writer returns what this returns."""

    def write(self, line: str) -> str:
        return line


class CsvForm:
    """Rows as lines of CSV. With a single column, null is `""` as well, because readers skip an empty line."""

    is_for_eyes = False

    def __init__(self) -> None:
        self._writer = csv.writer(_Line(), lineterminator="\n")

    def header(self, names: Sequence[str], _right: Sequence[bool] = ()) -> bytes:
        return encode_utf8(",".join(map(_quoted_name, names)) + "\n")

    def row(self, values: Sequence[object]) -> bytes:
        line: str = self._writer.writerow([one if one is None or type(one) is str else exact(one) for one in values])
        return encode_utf8(line)

    def block(self, columns: Sequence[pa.Array], rows: int, _null: str = "") -> EncodedItems:
        return csv_block(columns, rows)


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if not name or re.search(_MUST_BE_QUOTED, name) else name


def csv_block(columns: Sequence[pa.Array], rows: int) -> EncodedItems:
    """Return one line per row of columns, end to end."""
    nothing = pa.scalar('""' if len(columns) == 1 else "")
    parts: list[Any] = []  # Any: texts shared by all rows, and columns
    shared = ""
    for column in columns:
        if len(columns) > 1 and column.null_count == len(column):
            shared += ","
            continue
        opening, text, closing = _field(column)
        parts += [shared + opening, text if text.null_count == 0 else pc.coalesce(text, nothing)]
        shared = closing + ","
    ending = (shared[:-1] if columns else "") + "\n"
    if not parts:
        return block_of(pa.repeat(ending, rows))
    return block_of(pc.binary_join_element_wise(*parts, ending, ""))


def _field(column: pa.Array) -> tuple[str, pa.Array, str]:
    """Return values as fields of CSV in three parts: the common prefix, the values, the common suffix."""
    from deltacli.cli.render.data.rows import text_column

    if pa.types.is_map(column.type) and column.null_count == 0 and (field := _map_of_one_key(column)):
        return field
    text = text_column(column)
    if not _may_hold_text(column.type):
        return "", text, ""
    must_be_quoted = _must_be_quoted(text)
    if must_be_quoted is None:
        return "", text, ""
    if text.null_count == 0 and pc.all(must_be_quoted).as_py():
        inner = escaped_objects(text, by=_double_quotes) if _has_only_quotes_to_escape(text) else None
        return ('"', _doubled(text), '"') if inner is None else ('"{', inner, '}"')
    quoted = pc.binary_join_element_wise('"', _doubled(text), '"', "")
    return "", pc.if_else(must_be_quoted, quoted, text), ""


def _map_of_one_key(column: pa.MapArray) -> tuple[str, pa.Array, str] | None:
    """Return maps of texts as fields in three parts where all have the same single key, as most partition values do."""
    opening, text, closing = map_parts(column)
    if isinstance(text, str) or '"' not in opening:
        return None
    return '"' + opening.replace('"', '""'), _doubled(text), closing.replace('"', '""') + '"'


def _must_be_quoted(text: pa.Array) -> pa.Array | None:
    """Return which texts need quotes, null where they are null; None where no text does."""
    raw = characters(text)
    has_mark = any(mark in raw for mark in '",\r\n')
    has_empty = pc.min(pc.binary_length(text)).as_py() == 0
    if not has_mark:
        return pc.equal(text, "") if has_empty else None
    mask = pc.match_substring_regex(text, _MUST_BE_QUOTED)
    return pc.or_(mask, pc.equal(text, "")) if has_empty else mask


def _doubled(text: pa.Array) -> pa.Array:
    if '"' not in characters(text):
        return text
    if not _has_only_quotes_to_escape(text):
        return pc.replace_substring(text, '"', '""')
    return escaped(text, by=_double_quotes)


def _double_quotes(raw: str) -> bytes:
    """Return a text whose quotes are escaped by JSON as a field of CSV, in a third of the time of Arrow."""
    return orjson.dumps(raw).translate(_BACKSLASH_AS_QUOTE)


def _has_only_quotes_to_escape(text: pa.Array) -> bool:
    ends = memoryview(text.buffers()[1]).cast("i")
    first, last = ends[text.offset], ends[text.offset + len(text)]
    if first == last:
        return True
    codes = pa.Array.from_buffers(pa.uint8(), last - first, [None, text.buffers()[2]], offset=first)
    return pc.min(codes).as_py() >= _FIRST_PRINTED and "\\" not in characters(text)


def _may_hold_text(kind: ArrowType) -> bool:
    """Return False for types whose values are never empty and contain no quotes, commas or line ends."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return not (is_number or pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind))


# -- `--format markdown` -----------------------------------------------------------------------------------------------

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
        yield encode_utf8(f"| {cell(section.label)} | {cell(chr(10).join(section.lines))} |\n")
        if number == 0:
            yield b"| --- | --- |\n"


class MarkdownForm:
    """Rows as lines of a GitHub table."""

    is_for_eyes = True

    def header(self, names: Sequence[str], right: Sequence[bool] = ()) -> bytes:
        rules = ["---:" if number < len(right) and right[number] else "---" for number in range(len(names))]
        return self.row(names) + encode_utf8(f"| {' | '.join(rules)} |\n")

    def row(self, values: Sequence[object]) -> bytes:
        return encode_utf8(f"| {' | '.join(cell(exact(value)) for value in values)} |\n")

    def block(self, columns: Sequence[pa.Array], rows: int, null: str = "") -> EncodedItems:
        from deltacli.cli.render.data.rows import text_column

        missing = pa.scalar(null)
        cells = [pc.coalesce(_cells(text_column(column)), missing) for column in columns]
        if not cells:
            return block_of(pa.repeat("|\n", rows))
        inner = pc.binary_join_element_wise(*cells, " | ")
        return block_of(pc.binary_join_element_wise("| ", inner, " |\n", ""))


def cell(text: str) -> str:
    """Return a text for a cell: on one line, with everything escaped that Markdown or HTML would interpret."""
    lines = (escape_control(line) for line in _LINE_END.split(text))
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], "\n".join(lines))


def _cells(texts: pa.StringArray) -> pa.StringArray:
    """Return a column of texts as cells, by Arrow functions where it has no control characters."""
    raw = characters(texts)
    if CONTROL_CHARACTERS.search(raw):
        return pa.array([None if text is None else cell(text) for text in texts.to_pylist()], pa.string())
    for special, escape in _ESCAPES.items():
        if special in raw:
            texts = pc.replace_substring(texts, special, escape)
    return texts
