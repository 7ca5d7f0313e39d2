"""Lines of JSON parsed by Arrow in columns: only named fields, and only if the text is plain and flat enough."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow

MAX_DEPTH = 256
"""Levels of a JSON value that are parsed: a schema has 200 at most. Measured: type inference of Arrow 26.0.1 overflows
a stack of 512 KiB (a thread on macOS) between 1,000 and 2,000 levels, Python's recursion limit is 1,000 calls.
"""
_KINDS = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRING = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def is_nested_deeply(texts: bytes, levels: int = MAX_DEPTH) -> bool:
    """Return True if one of several JSON texts has more than so many nested objects and arrays, or if its brackets do
    not match. Costs 5 ns per byte, a sixteenth of Arrow's parsing time; strings are removed only if they contain
    brackets.
    """
    return _has_levels_left(texts, levels) and _has_levels_left(re.sub(_STRING, b"", texts), levels)


def _has_levels_left(texts: bytes, levels: int) -> bool:
    """Remove the innermost pairs of brackets once per level; True if any bracket is left."""
    brackets = texts.translate(_KINDS, _NO_BRACKETS)
    for _ in range(levels):
        if not brackets:
            return False
        rest = brackets.replace(b"{}", b"")
        if len(rest) == len(brackets):
            break
        brackets = rest
    return bool(brackets)


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
    if not lines.lstrip().startswith(b"{"):
        return None
    if matches(lines, _TOP_LEVEL_NULL) or not is_utf8(lines):
        return None
    return read_lines(lines, fields, infer=infer, only=only)


def is_utf8(texts: bytes) -> bool:
    """Return whether texts are UTF-8. Arrow's reader looks only at the fields it keeps."""
    import pyarrow

    try:
        pc.cast(_as_one_value(texts), pyarrow.large_string())
    except pyarrow.ArrowInvalid:
        return False
    return True


def matches(texts: bytes, pattern: str | bytes) -> bool:
    """Return whether a pattern of RE2, of bytes, matches somewhere in texts."""
    return bool(pc.match_substring_regex(_as_one_value(texts), pattern)[0].as_py())


def _as_one_value(texts: bytes) -> pyarrow.LargeBinaryArray:
    import pyarrow

    offsets = pyarrow.py_buffer(memoryview(bytearray(len(texts).to_bytes(8, "little").rjust(16, b"\0"))))
    buffers = [None, offsets, pyarrow.py_buffer(texts)]
    return pyarrow.LargeBinaryArray.from_buffers(pyarrow.large_binary(), 1, buffers)


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
