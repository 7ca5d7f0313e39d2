"""Absolute paths of data files, spelled as Hadoop's `Path` spells them.

Delta for Spark compares two texts when a DELETE, UPDATE or MERGE writes deletion vectors: the absolute path in the log,
and the path under which Spark has opened the file. Spark leaves an absolute path of the log as it is, and spells the
other one by `java.net.URI`. A path in another spelling can be read, but these statements fail with "Encountered a non
matched file path". So deltacli writes absolute paths in the spelling of Java:

    /data/a b/ä=1        file:/data/a%20b/ä=1        not file:///data/a%20b/%C3%A4%3D1

Spec: Add File and Remove File; Deletion Vector Descriptor Schema.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.paths.spelling import decode
from deltacli.delta.paths.spelling_columns import are_absolute

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<authority>//[^/]*)?(?P<path>/.*)", re.DOTALL)

# Java leaves letters that are not ASCII unescaped, but not spaces and control characters among them. Bytes that are
# not UTF-8 are surrogates after decoding; Java cannot spell them, and they get their escapes back.
_ESCAPED_BY_JAVA = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*;/:@&=+$,\u0080-\U0010ffff]"
    r"|[\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]"
)

# A path in which only these characters follow `file:/` is spelled as Hadoop spells it. In the dialect of Arrow.
_PLAIN_FILE_URI = r"^file:/[A-Za-z0-9_\-!.~'()*;:@&=+$,][A-Za-z0-9_\-!.~'()*;/:@&=+$,]*$"


def spell_as_hadoop(path: str) -> str:
    """Return an absolute path of the log as Hadoop spells it; a path without a scheme is returned unchanged.

    Args:
        path: A percent-encoded URI.
    """
    parts = _URI.fullmatch(path)
    if parts is None:
        return path

    scheme = parts["scheme"]
    authority = parts["authority"] or ""
    if scheme.lower() == "file" and authority in ("", "//", "//localhost"):
        # `Path` has no authority for local files, and prints no slashes for it.
        scheme = "file"
        authority = ""
    return f"{scheme}:{authority}{_quote_as_java(decode(parts['path']))}"


def spell_root_as_hadoop(uri: str) -> str:
    """Return the URI of a table's directory, with a slash at its end, as absolute paths of its files begin.

    Args:
        uri: The URI of a store. That of a local directory is percent-encoded; the name of an object is plain.
    """
    scheme, separator, rest = uri.rstrip("/").partition("://")
    if scheme == "file":
        return spell_as_hadoop(f"{uri.rstrip('/')}/")
    authority, _, path = rest.partition("/")
    inner = f"/{path}" if path else ""
    return f"{scheme}{separator}{authority}{_quote_as_java(inner)}/"


def print_root(uri: str) -> bytes:
    """Return the URI of a table as Hadoop prints a path: decoded, `file:/lake/a b`.

    Args:
        uri: The URI of a store, see `spell_root_as_hadoop`.
    """
    if not uri.startswith("file://"):
        return uri.encode()
    return b"file:" + unquote_to_bytes(uri.removeprefix("file://"))


def print_absolute(paths: ArrowArray) -> ArrowArray:
    """Return decoded absolute paths as Hadoop prints them: without the empty authority of `file:///`."""
    return pc.replace_substring_regex(paths, "^file:///", "file:/")


def make_absolute(paths: ArrowArray, uri: str) -> ArrowArray:
    """Return paths of a table's log as absolute paths that Hadoop would write.

    Args:
        paths: Paths of the log, relative or absolute (string array without nulls).
        uri: The URI of the table.
    """
    absolute = are_absolute(paths)
    return respell(pc.if_else(absolute, paths, pc.binary_join_element_wise(spell_root_as_hadoop(uri), paths, "")))


def respell(paths: ArrowArray) -> ArrowArray:
    """Return paths of a log with the absolute ones as Hadoop spells them (string arrays without nulls)."""
    mask = are_spelled_otherwise(paths)
    if not pc.any(mask).as_py():
        return paths
    distinct = pc.dictionary_encode(pc.filter(paths, mask))
    spelled = [spell_as_hadoop(path) for path in distinct.dictionary.to_pylist()]
    return pc.replace_with_mask(paths, mask, pc.take(pa.array(spelled, paths.type), distinct.indices))


def are_spelled_otherwise(paths: ArrowArray) -> ArrowArray:
    """Return which paths are absolute URIs that Hadoop spells otherwise (boolean array, never null)."""
    may_differ = pc.and_(are_absolute(paths), pc.invert(pc.match_substring_regex(paths, _PLAIN_FILE_URI)))
    if not pc.any(may_differ).as_py():
        return may_differ
    candidates = pc.unique(pc.filter(paths, may_differ)).to_pylist()
    misspelled = [path for path in candidates if spell_as_hadoop(path) != path]
    return pc.is_in(paths, value_set=pa.array(misspelled, paths.type))


def _quote_as_java(path: str) -> str:
    if _ESCAPED_BY_JAVA.search(path) is None:
        return path
    return _ESCAPED_BY_JAVA.sub(lambda match: quote(match[0], safe="", errors="surrogateescape"), path)
