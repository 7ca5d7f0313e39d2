"""Lines of JSON parsed by Arrow in columns: only named fields, and only if the text is plain enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.json_depth import is_nested_deeply

if TYPE_CHECKING:
    import pyarrow

_TOP_LEVEL_NULL = r"\}[ \t\r\n]*null"
"""Arrow's reader (26.0.1) ends the process on a `null` between objects; inside an object one never follows a brace."""


def parse_ndjson(
    lines: bytes, fields: pyarrow.Schema, *, infer: bool = False, only: bool = False
) -> pyarrow.Table | None:
    """Return the named fields of every object, null if an object lacks one.

    Other fields are ignored, with `infer` added, and with `only` not accepted. Return None if Arrow cannot parse the
    text (a duplicate key, a value of another type, no JSON) or must not be given it; the caller then parses line by
    line. Two objects on one line count as two.
    """
    import pyarrow

    if not lines.lstrip().startswith(b"{"):
        return None
    buffer = pyarrow.py_buffer(lines)
    offsets = pyarrow.py_buffer(memoryview(bytearray(len(lines).to_bytes(8, "little").rjust(16, b"\0"))))
    whole = pyarrow.LargeBinaryArray.from_buffers(pyarrow.large_binary(), 1, [None, offsets, buffer])
    if pc.match_substring_regex(whole, _TOP_LEVEL_NULL)[0].as_py():
        return None
    try:
        pc.cast(whole, pyarrow.large_string())  # checks that it is UTF-8; the reader looks only at the fields it keeps
    except pyarrow.ArrowInvalid:
        return None
    return read_lines(lines, fields, infer=infer, only=only)


def read_lines(lines: bytes, fields: pyarrow.Schema, *, infer: bool, only: bool = False) -> pyarrow.Table | None:
    """Call Arrow's JSON reader on checked lines.

    Return None if it cannot parse one of them. Other fields are inferred with `infer`, else ignored. Inference is
    recursive and ends the process when the stack overflows, so it never gets deeply nested text.
    """
    import pyarrow
    import pyarrow.json

    if infer and is_nested_deeply(lines):
        return None
    try:
        return pyarrow.json.read_json(
            pyarrow.BufferReader(lines),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=fields,
                unexpected_field_behavior="infer" if infer else "error" if only else "ignore",
            ),
        )
    except MemoryError:
        raise
    except pyarrow.ArrowException:
        return None
