"""Write results as CSV (`--format csv`).

The format follows RFC 4180, with LF as line end. Null is an empty field, and an empty text is `""`:

    id,name
    1,"Miller, Ann"
    2,

Rows of Python objects are written by the module `csv`. Rows in Arrow columns may be millions of rows of a table; they
are encoded column by column with Arrow functions, which is many times faster.
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
    """Join blocks to blocks of at least 64 KiB.

    A block may be a single row. Each write to stdout is a system call, so few large writes are faster.
    """
    buffer: list[bytes | memoryview] = []
    size = 0
    for block in blocks:
        buffer.append(block)
        size += len(block)
        if size > _BYTES_PER_WRITE:
            yield b"".join(buffer) if len(buffer) > 1 else block
            buffer = []
            size = 0
    yield b"".join(buffer)


class _LineReceiver:
    """A file for `csv.writer` that returns lines instead of storing them.

    `writerow` of a CSV writer returns the result of the `write` method of its file.
    """

    def write(self, line: str) -> str:
        return line


class CsvEncoder:
    """Encodes rows as lines of CSV.

    If there is only one column, null is encoded as `""`: readers skip empty lines.
    """

    is_for_people = False

    def __init__(self) -> None:
        self._writer = csv.writer(_LineReceiver(), lineterminator="\n")

    def encode_header(self, names: Sequence[str], _align_right: Sequence[bool] = ()) -> bytes:
        """Return the header line."""
        return encode_utf8(",".join(map(_quote_name, names)) + "\n")

    def encode_row(self, values: Sequence[object]) -> bytes:
        """Return the line of a row."""
        # The module `csv` writes None and strings in the right way. Convert other values to strings.
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
    """The fields of a column. Each field is `prefix`, followed by its element of `texts`, followed by `suffix`.

    For example, the fields `"{""id"":1}"` and `"{""id"":2}"` have the prefix `"{`, the texts `""id"":1` and
    `""id"":2`, and the suffix `}"`.

    Attributes:
        prefix: The common beginning of all fields.
        texts: One text per row; null for a null value.
        suffix: The common end of all fields.
    """

    prefix: str
    texts: pa.Array
    suffix: str


def encode_csv_block(columns: Sequence[pa.Array], rows: int) -> EncodedItems:
    """Return one line of CSV per row, concatenated.

    `pc.binary_join_element_wise` concatenates arrays and constants row by row. The fewer parts, the faster, so adjacent
    constants (commas, common prefixes and suffixes, columns of nulls) are concatenated first:

        columns     [1, 2]   [null, null]   ["a", "b"]
        parts       [1, 2]   ",,"           ["a", "b"]   "\\n"

    Args:
        columns: The columns, of the same length.
        rows: The number of rows. There may be no columns.
    """
    null = pa.scalar('""' if len(columns) == 1 else "")
    parts: list[pa.Array | str] = []
    # The constant text between the previous array and the next one.
    separator = ""
    for column in columns:
        has_only_nulls = column.null_count == len(column)
        if len(columns) > 1 and has_only_nulls:
            separator += ","
            continue
        field = _encode_field(column)
        texts = field.texts
        if texts.null_count > 0:
            texts = pc.coalesce(texts, null)
        parts.append(separator + field.prefix)
        parts.append(texts)
        separator = field.suffix + ","

    line_end = separator.removesuffix(",") + "\n" if columns else "\n"
    if not parts:
        return encode_texts(pa.repeat(line_end, rows))
    return encode_texts(pc.binary_join_element_wise(*parts, line_end, ""))


def _encode_field(column: pa.Array) -> _FieldTexts:
    """Convert a column to fields. A field is quoted if it is empty or contains a comma, quote or line end."""
    from deltacli.cli.render.data.rows import text_column

    if pa.types.is_map(column.type) and column.null_count == 0:
        field = _encode_maps_of_one_key(column)
        if field is not None:
            return field

    texts = text_column(column)
    needs_quotes = _find_texts_to_quote(texts) if _can_need_quotes(column.type) else None
    if needs_quotes is None:
        return _FieldTexts("", texts, "")
    if texts.null_count == 0 and pc.all(needs_quotes).as_py():
        return _quote_all_texts(texts)
    quoted_texts = pc.binary_join_element_wise('"', _double_quotes(texts), '"', "")
    return _FieldTexts("", pc.if_else(needs_quotes, quoted_texts, texts), "")


def _quote_all_texts(texts: pa.Array) -> _FieldTexts:
    """Quote texts. If all of them are JSON objects, the braces are part of the prefix and the suffix."""
    members = escaped_objects(texts, by=_double_quotes_of_text) if _has_only_quotes_to_escape(texts) else None
    if members is not None:
        return _FieldTexts('"{', members, '}"')
    return _FieldTexts('"', _double_quotes(texts), '"')


def _encode_maps_of_one_key(column: pa.MapArray) -> _FieldTexts | None:
    """Encode maps that all have the same single key, such as the partition values of most tables.

    Returns:
        The fields, with the key in the prefix. None if the maps have different keys.
    """
    opening, texts, closing = map_parts(column)
    if isinstance(texts, str) or '"' not in opening:
        return None
    prefix = opening.replace('"', '""')
    suffix = closing.replace('"', '""')
    return _FieldTexts(f'"{prefix}', _double_quotes(texts), f'{suffix}"')


def _find_texts_to_quote(texts: pa.Array) -> pa.Array | None:
    """Determine which texts must be quoted.

    Returns:
        A boolean per text, null for null. None if no text must be quoted.
    """
    # Searching the characters of all texts at once is faster than a regular expression per text.
    all_characters = characters(texts)
    has_special_character = any(character in all_characters for character in '",\r\n')
    has_empty_text = pc.min(pc.binary_length(texts)).as_py() == 0
    if not has_special_character:
        return pc.equal(texts, "") if has_empty_text else None

    contains_special_character = pc.match_substring_regex(texts, _NEEDS_QUOTES)
    if not has_empty_text:
        return contains_special_character
    is_empty = pc.equal(texts, "")
    return pc.or_(contains_special_character, is_empty)


def _double_quotes(texts: pa.Array) -> pa.Array:
    """Double every quote in texts: `a"b` becomes `a""b`."""
    if '"' not in characters(texts):
        return texts
    if not _has_only_quotes_to_escape(texts):
        return pc.replace_substring(texts, '"', '""')
    return escaped(texts, by=_double_quotes_of_text)


def _double_quotes_of_text(raw: str) -> bytes:
    r"""Quote a text, and double every quote in it, three times faster than Arrow.

    The text is encoded as JSON, and each backslash is replaced by a quote: `a"b` becomes `"a\"b"` and then `"a""b"`.
    This is correct only for texts in which JSON escapes no other character.
    """
    return orjson.dumps(raw).translate(_BACKSLASH_AS_QUOTE)


def _has_only_quotes_to_escape(texts: pa.Array) -> bool:
    """Return True if quotes are the only characters in texts that JSON escapes.

    JSON also escapes backslashes and control characters, which are the bytes below the space.
    """
    # View the bytes of all texts as one array of integers, to compute their minimum.
    _, offsets_buffer, data = texts.buffers()
    offsets = memoryview(offsets_buffer).cast("i")
    start = offsets[texts.offset]
    end = offsets[texts.offset + len(texts)]
    if start == end:
        return True
    byte_values = pa.Array.from_buffers(pa.uint8(), end - start, [None, data], offset=start)
    return pc.min(byte_values).as_py() >= _FIRST_PRINTABLE_BYTE and "\\" not in characters(texts)


def _can_need_quotes(arrow_type: ArrowType) -> bool:
    """Return False for numbers, booleans and times. Their texts are not empty and contain no special characters."""
    types = pa.types
    is_number = types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type)
    return not (is_number or types.is_boolean(arrow_type) or types.is_temporal(arrow_type) or types.is_null(arrow_type))
