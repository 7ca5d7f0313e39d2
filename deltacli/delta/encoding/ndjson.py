"""Lines of JSON parsed by Arrow, in columns: only named fields, only where the text is plain enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.json_depth import is_nested_deeply

if TYPE_CHECKING:
    import pyarrow

_TOP_LEVEL_NULL = r"\}[ \t\r\n]*null"
"""Arrow's reader (26.0.1) ends the process on a `null` between objects; inside an object one never follows a brace."""


def parse_ndjson(lines: bytes, fields: pyarrow.Schema, *, infer: bool = False) -> pyarrow.Table | None:
    """Return the named fields of every object, null where an object lacks one; fields nobody named are passed over, or
    with `infer` stand beside them.

    None where Arrow can't take the text (a duplicate key, a value of another type, no JSON) or must not be trusted with
    it: the caller then parses line by line. Two objects on one line count as two.
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
    return read_lines(lines, fields, infer=infer)


def read_lines(lines: bytes, fields: pyarrow.Schema, *, infer: bool) -> pyarrow.Table | None:
    """Call Arrow's reader of JSON on lines that were looked at; None where it can't take one of them.

    Fields nobody named: inferred with `infer`, else passed over. Inference calls itself for each level of a value and
    ends the process where the stack does, so it gets no text that is nested deeply.
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
                explicit_schema=fields, unexpected_field_behavior="infer" if infer else "ignore"
            ),
        )
    except MemoryError:
        raise
    except pyarrow.ArrowException:
        return None
