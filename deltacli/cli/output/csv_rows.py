"""`--format csv`, by RFC 4180: a header line, LF line ends; null is an empty field, an empty text is `""`.

Rows that are Python objects are written by the module `csv`. Rows in Arrow columns are written column by column by
Arrow's functions, which is many times faster.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.cli.output.columns import format_exact
from deltacli.cli.output.grids import EncodedItems, encode_texts
from deltacli.cli.output.results import Result
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import encode_utf8
from deltacli.core.typing import ArrowType
from deltacli.delta.encoding.value_text import characters, escaped, escaped_objects, map_parts

_NEEDS_QUOTES = '[",\\r\\n]'
_BACKSLASH_AS_QUOTE = bytes(ord('"') if byte == ord("\\") else byte for byte in range(256))
_FIRST_PRINTABLE_BYTE = ord(" ")
_BYTES_PER_WRITE = 1 << 16


def write_csv(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write the header and the rows of a result."""
    for block in join_small_blocks(result.grid().encode(CsvEncoder())):
        sink.write(block)


def join_small_blocks(blocks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield blocks of at least 64 KiB: a block may be a single row, and each write is a system call."""
    waiting: list[bytes | memoryview] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size > _BYTES_PER_WRITE:
            yield b"".join(waiting) if len(waiting) > 1 else block
            waiting = []
            size = 0
    yield b"".join(waiting)


class _LineReceiver:
    """A file for `csv.writer`, whose `writerow` returns what `write` of its file returns: the line."""

    def write(self, line: str) -> str:
        return line


class CsvEncoder:
    """Encodes rows as lines of CSV. With a single column null is `""` as well, because readers skip empty lines."""

    is_for_people = False

    def __init__(self) -> None:
        self._writer = csv.writer(_LineReceiver(), lineterminator="\n")

    def encode_header(self, names: Sequence[str], _align_right: Sequence[bool] = ()) -> bytes:
        """Return the line with the names."""
        return encode_utf8(",".join(map(_quote_name, names)) + "\n")

    def encode_row(self, values: Sequence[object]) -> bytes:
        """Return the line of a row. `csv` writes None and texts by itself."""
        fields = [value if value is None or type(value) is str else format_exact(value) for value in values]
        line: str = self._writer.writerow(fields)
        return encode_utf8(line)

    def encode_columns(self, columns: Sequence[pa.Array], rows: int, _null: str = "") -> EncodedItems:
        """Return the lines of rows in Arrow columns."""
        return encode_csv_block(columns, rows)


def _quote_name(name: str) -> str:
    if name and not re.search(_NEEDS_QUOTES, name):
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


class _FieldTexts(NamedTuple):
    """The values of a column as fields of CSV.

    Attributes:
        prefix: What every field begins with.
        texts: The different part of each field; null for a null value.
        suffix: What every field ends with.
    """

    prefix: str
    texts: pa.Array
    suffix: str


def encode_csv_block(columns: Sequence[pa.Array], rows: int) -> EncodedItems:
    """Return one line per row of columns, end to end.

    Texts that are the same in all rows (commas, common prefixes, columns of nulls only) are joined to each other
    first, so that Arrow joins as few parts per row as possible.
    """
    null = pa.scalar('""' if len(columns) == 1 else "")
    parts: list[pa.Array | str] = []
    constant = ""
    for column in columns:
        if len(columns) > 1 and column.null_count == len(column):
            constant += ","  # a column of nulls is an empty field in every row
            continue
        field = _encode_field(column)
        parts.append(constant + field.prefix)
        parts.append(field.texts if field.texts.null_count == 0 else pc.coalesce(field.texts, null))
        constant = field.suffix + ","

    line_end = constant.removesuffix(",") + "\n" if columns else "\n"
    if not parts:
        return encode_texts(pa.repeat(line_end, rows))
    return encode_texts(pc.binary_join_element_wise(*parts, line_end, ""))


def _encode_field(column: pa.Array) -> _FieldTexts:
    """Return the values of a column as fields, quoted where a reader needs that."""
    from deltacli.cli.render.data.rows import text_column

    if pa.types.is_map(column.type) and column.null_count == 0:
        field = _encode_maps_of_one_key(column)
        if field is not None:
            return field

    texts = text_column(column)
    needs_quotes = _find_texts_to_quote(texts) if _may_hold_text(column.type) else None
    if needs_quotes is None:
        return _FieldTexts("", texts, "")
    if texts.null_count == 0 and pc.all(needs_quotes).as_py():
        return _encode_quoted_texts(texts)
    quoted = pc.binary_join_element_wise('"', _double_quotes(texts), '"', "")
    return _FieldTexts("", pc.if_else(needs_quotes, quoted, texts), "")


def _encode_quoted_texts(texts: pa.Array) -> _FieldTexts:
    """Return texts that are all quoted. JSON objects have their braces in common, too."""
    inner = escaped_objects(texts, by=_double_quotes_of_text) if _has_only_quotes_to_escape(texts) else None
    if inner is not None:
        return _FieldTexts('"{', inner, '}"')
    return _FieldTexts('"', _double_quotes(texts), '"')


def _encode_maps_of_one_key(column: pa.MapArray) -> _FieldTexts | None:
    """Return maps of texts as fields if all have the same single key, as most partition values do; else None."""
    opening, texts, closing = map_parts(column)
    if isinstance(texts, str) or '"' not in opening:
        return None
    prefix = opening.replace('"', '""')
    suffix = closing.replace('"', '""')
    return _FieldTexts(f'"{prefix}', _double_quotes(texts), f'{suffix}"')


def _find_texts_to_quote(texts: pa.Array) -> pa.Array | None:
    """Return which texts need quotes, null where they are null; None if no text does."""
    raw = characters(texts)
    has_special = any(character in raw for character in '",\r\n')
    has_empty = pc.min(pc.binary_length(texts)).as_py() == 0
    if not has_special:
        return pc.equal(texts, "") if has_empty else None
    needs_quotes = pc.match_substring_regex(texts, _NEEDS_QUOTES)
    return pc.or_(needs_quotes, pc.equal(texts, "")) if has_empty else needs_quotes


def _double_quotes(texts: pa.Array) -> pa.Array:
    """Return texts in which every quote is doubled."""
    if '"' not in characters(texts):
        return texts
    if not _has_only_quotes_to_escape(texts):
        return pc.replace_substring(texts, '"', '""')
    return escaped(texts, by=_double_quotes_of_text)


def _double_quotes_of_text(raw: str) -> bytes:
    """Return a quoted text in which every quote is doubled, in a third of the time of Arrow.

    JSON escapes a quote by a backslash; every backslash of its text is made a quote. That is right only for texts in
    which JSON escapes nothing but quotes.
    """
    return orjson.dumps(raw).translate(_BACKSLASH_AS_QUOTE)


def _has_only_quotes_to_escape(texts: pa.Array) -> bool:
    """Return True if JSON would escape no character of the texts but quotes: neither control characters nor `\\`."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("i")
    first = ends[texts.offset]
    last = ends[texts.offset + len(texts)]
    if first == last:
        return True
    codes = pa.Array.from_buffers(pa.uint8(), last - first, [None, data], offset=first)
    return pc.min(codes).as_py() >= _FIRST_PRINTABLE_BYTE and "\\" not in characters(texts)


def _may_hold_text(arrow_type: ArrowType) -> bool:
    """Return False for types whose values are never empty and contain no quotes, commas or line ends."""
    types = pa.types
    is_number = types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type)
    return not (is_number or types.is_boolean(arrow_type) or types.is_temporal(arrow_type) or types.is_null(arrow_type))
