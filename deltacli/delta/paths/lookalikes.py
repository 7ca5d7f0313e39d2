"""The spellings of one path that writers, readers and copies confuse.

A path in the log is percent-encoded once, and is the name of the file when it is decoded once. Writers encode a value
once too often or not at all, readers decode twice, and tools that copy files change letter case or the composition of
accented letters:

    in the log              on disk                 what happened
    c=13:00/a.parquet       c=13%3A00/a.parquet     the name of the directory was written without encoding it
    c=a%2520b/a.parquet     c=a b/a.parquet         the value was encoded twice
    c=X/a.parquet           c=x/a.parquet           a file system or a tool folded the case
    c=a%20b/a.parquet       c=a+b/a.parquet         the blank was encoded as in a form

`common_spelling` is equal for all of them. It never says that two paths are one file, only that they may be: whoever
deletes or gives up a file asks it, and keeps the file in doubt.

Spec: Add File and Remove File; Partition Value Serialization.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.paths.spelling import decode, encode_path_bytes, without_dots
from deltacli.delta.paths.spelling_columns import content_of

_MOST_LEVELS = 8
"""Levels of encoding that are taken off. A writer in a chain adds one; more are no accident but an attack."""
_ODD = rb"[%+\\]|^/|/$|//|(?:^|/)\.|[ .](?:/|$)|[^\x00-\x7F]"
"""What makes a name differ from its common spelling in more than the case of ASCII letters."""
_NOT_ASCII = rb"[^\x00-\x7F]"
_ODD_BYTES = (b"%", b"+", b"\\", b"//", b"/.", b"./", b" ")
_SEGMENT_END = re.compile(r"[ .]+(?=/|\Z)")


def common_spelling(name: bytes) -> bytes:
    """Return the form that all confusable spellings of a name have in common.

    All levels of percent-encoding are decoded, `+` is a blank and a backslash a slash, dot segments and empty segments
    are resolved, blanks and dots at the end of a segment (which Windows drops) are cut, and letters are composed and
    folded.

    Args:
        name: A path below the root of a table, as it is in the log or in a listing. Bytes that are not UTF-8 are kept.
    """
    for _ in range(_MOST_LEVELS):
        decoded = unquote_to_bytes(name)
        if decoded == name:
            break
        name = decoded

    text = name.decode("utf-8", "surrogateescape").replace("\\", "/").replace("+", " ")
    text = _SEGMENT_END.sub("", without_dots(text))
    text = re.sub("//+", "/", text).strip("/")
    return encode_path_bytes(_fold_text(text))


def compose_letters(name: bytes) -> bytes:
    """Return a name in one Unicode form, because some file systems change the form of names."""
    try:
        return unicodedata.normalize("NFC", name.decode()).encode()
    except UnicodeDecodeError:
        return name


def fold_letters(name: bytes) -> bytes:
    """Return a name without the case of its letters, as a file system compares names that ignores case."""
    if name.isascii():
        return name.lower()
    return encode_path_bytes(_fold_text(name.decode("utf-8", "surrogateescape")))


def fold_letters_column(names: ArrowArray) -> ArrowArray:
    """Return `fold_letters` of a column: binary array in, binary array out. Names in ASCII are folded in Arrow."""
    is_ascii = pc.invert(pc.match_substring_regex(names, _NOT_ASCII))
    folded = pc.cast(pc.ascii_lower(pc.cast(pc.filter(names, is_ascii), pa.string())), pa.binary())
    if len(folded) == len(names):
        return folded
    others = [fold_letters(name) for name in pc.filter(names, pc.invert(is_ascii)).to_pylist()]
    names = pc.replace_with_mask(names, is_ascii, folded)
    return pc.replace_with_mask(names, pc.invert(is_ascii), pa.array(others, pa.binary()))


def _fold_text(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def common_spellings(names: ArrowArray) -> ArrowArray:
    """Return `common_spelling` of a column: binary array in, binary array out; null for null.

    Names of lower-case ASCII letters, the usual ones, are returned as they are, after one look at their bytes. Other
    ASCII letters are folded in Arrow, and only rows with anything else are taken one by one.
    """
    content = content_of(names)
    is_usual = content.isascii() and not any(odd in content for odd in _ODD_BYTES) and not _begins_odd(names)
    if is_usual and content.lower() == content:
        return names

    folded = pc.cast(pc.ascii_lower(pc.cast(names, pa.string())), pa.binary()) if content.isascii() else names
    if is_usual:
        return folded
    is_odd = pc.fill_null(pc.match_substring_regex(names, _ODD), False)
    if not content.isascii():
        is_plain = pc.invert(is_odd)
        lowered = pc.ascii_lower(pc.cast(pc.filter(names, is_plain), pa.string()))
        folded = pc.replace_with_mask(names, is_plain, pc.cast(lowered, pa.binary()))
    if not pc.any(is_odd).as_py():
        return folded
    distinct = pc.dictionary_encode(pc.filter(names, is_odd))
    spelled = pa.array([common_spelling(name) for name in distinct.dictionary.to_pylist()], pa.binary())
    return pc.replace_with_mask(folded, is_odd, pc.take(spelled, distinct.indices))


def file_names(paths: ArrowArray) -> ArrowArray:
    """Return the last component of each path in its common spelling: binary array in, binary array out."""
    spellings = pc.cast(common_spellings(paths), pa.binary())
    return pc.replace_substring_regex(spellings, pattern="(?s)^.*/", replacement="")


def _begins_odd(names: ArrowArray) -> bool:
    """Return whether a name begins or ends with a dot or a slash, which the joined bytes do not show."""
    return bool(pc.any(pc.match_substring_regex(names, "^[./]|[./]$")).as_py())


def other_readings(path: str) -> Sequence[str]:
    """Return the names that a path of the log has for readers that decode it twice, or not at all.

    Args:
        path: A relative path as the log has it.

    Returns:
        The names that differ from the right one, the path as it is written first. None for a path without an escape.
    """
    if "%" not in path:
        return ()
    name = decode(path)
    return tuple(other for other in dict.fromkeys((path, decode(name))) if other != name)


def decodings_of(name: str) -> Sequence[str]:
    """Return what an encoded name may stand for: decoded as in a URI, and as in an HTML form, where `+` is a space."""
    decodings = (decode(name), decode(name.replace("+", " ")))
    return [decoded for decoded in dict.fromkeys(decodings) if decoded != name and "\0" not in decoded]
