"""Data files as the log names them: their paths, their deletion vectors, and symlink manifests.

Engines write a file per partition below `_symlink_format_manifest`, with the URI of a data file per line.

Spec: Add File and Remove File (RFC 2396); Deletion Vectors; Deletion Vector Descriptor Schema (derived fields).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes
from uuid import UUID
from zlib import crc32

from deltacli.arrow import compute as pc
from deltacli.arrow import pa
from deltacli.core.made_once import pattern
from deltacli.core.typing import ArrowArray, Json
from deltacli.core.units import has_bytes
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"
IS_ABSOLUTE = pattern(_ABSOLUTE)
"""Matches paths with a scheme, and those that begin with `/`."""
_NOT_IN_TABLE = r"^(\.\.(/|$)|_delta_log(/|$)|$)"


def are_absolute(paths: pa.Array) -> pa.Array:
    """Return which paths have a scheme or begin with `/`."""
    if not pc.any(pc.starts_with(paths, "/")).as_py() and not _may_have_scheme(paths):
        return pa.repeat(pa.scalar(False), len(paths))
    return pc.match_substring_regex(paths, _ABSOLUTE)


def encoded_root(uri: str) -> str:
    """Return the URI of a table as the beginning of paths in a log, which are percent-encoded. That of a local
    directory is already; a name of an object store is plain.
    """
    scheme, _, rest = uri.partition("://")
    return (uri if scheme == "file" else f"{scheme}://{quote(rest, safe='/@:!$&()*+,;=~')}").rstrip("/") + "/"


def made_absolute(paths: ArrowArray, root: str) -> ArrowArray:
    """Return paths of the log of a table, which do not depend on where that log is. `root`: `encoded_root` of it."""
    return pc.if_else(are_absolute(paths), paths, pc.binary_join_element_wise(root, paths, ""))


def locate(paths: pa.Array, uri: str) -> tuple[pa.Array, list[int]]:
    """Return where raw paths of the log point: keys, paths relative to the table at `uri`, decoded, as bytes, and the
    rows of absolute paths that point elsewhere.

    A key is null outside of the table, and where other rules report the path (empty, leaving the table by `..`, inside
    the log). Dots that appear only after decoding are resolved as in a file system.
    """
    keys = without_dots_column(canonical_column(paths))
    absolute = are_absolute(paths)
    rows = pc.indices_nonzero(absolute).to_pylist()
    outside: list[int] = []
    if rows:
        spellings = {canonical(uri), canonical(uri.replace("%", "%25"))}
        roots = tuple(spelling.rstrip("/").encode("utf-8", "surrogateescape") + b"/" for spelling in spellings)
        inside = [_below(key, roots) for key in pc.filter(keys, absolute).to_pylist()]
        outside = [row for row, key in zip(rows, inside, strict=True) if key is None]
        keys = pc.replace_with_mask(keys, absolute, pa.array(inside, pa.binary()))
    if not any(pc.any(pc.starts_with(keys, start)).as_py() for start in ("..", LOG_DIRECTORY)) and not _has_empty(keys):
        return keys, outside
    elsewhere = pc.match_substring_regex(keys, _NOT_IN_TABLE)
    return pc.if_else(elsewhere, pa.scalar(None, pa.binary()), keys), outside


_LONGEST_BINARY_VALUE = 2**31 - 1
"""Bytes: the most that one value of an Arrow column with 32-bit offsets can have."""


def drop_first_bytes(values: ArrowArray, count: int) -> ArrowArray:
    """Return binary values without their first `count` bytes. A shorter value becomes empty.

    The slice has an end although it means "up to the end": without one, pyarrow 26.0.1 multiplies its default end by
    the number of values, which overflows, and fails with "Negative buffer resize" for every even number of values.
    """
    return pc.binary_slice(values, count, _LONGEST_BINARY_VALUE)


def _may_have_scheme(paths: ArrowArray) -> bool:
    data = paths.buffers()[2]
    return data is not None and b":" in data.to_pybytes()


def _has_empty(keys: ArrowArray) -> bool:
    return bool(pc.any(pc.equal(pc.binary_length(keys), 0)).as_py())


def locate_all(paths: Iterable[object], uri: str) -> list[str | None]:
    """Return the same for paths of any type, as text, or None if it is not a path of this table."""
    texts = [path if isinstance(path, str) and has_bytes(path) else None for path in paths]
    keys: list[bytes | None] = locate(pa.array(texts, pa.string()), uri)[0].to_pylist()
    return [None if key is None else key_text(key) for key in keys]


def key_text(key: bytes) -> str:
    """Return a key as the name of a file in a listing."""
    return key.decode("utf-8", "surrogateescape")


def _below(key: bytes, roots: tuple[bytes, ...]) -> bytes | None:
    return next((key[len(root) :] for root in roots if key.startswith(root)), None)


_ESCAPE = rb"%[0-9A-Fa-f]{2}"
_STRAY_PERCENT = r"%([^0-9A-Fa-f]|[0-9A-Fa-f]([^0-9A-Fa-f]|$)|$)"  # in the dialect of Arrow
_ODD_PATTERN = r"^[A-Za-z][A-Za-z0-9+.-]*:|//|(^|/)[.][.]?(/|$)"
"""A scheme, an empty segment or a dot segment: the paths that have more than one spelling."""
_ODD = pattern(_ODD_PATTERN.replace("$", r"\Z"))  # Arrow's `$` is Python's `\Z`
_DOT_PATTERN = r"(^|/)[.][.]?(/|$)"
_DOT_SEGMENT = pattern(_DOT_PATTERN.replace("$", r"\Z"))
_ODD_SEGMENT = rb"/[/.]"
_CHECKED_AT_ONCE = 65_536
"""Rows whose bytes are copied to be searched."""
"The start of an empty segment, or of a dot segment that is not the first; faster to find than two substrings."
_FILE_SCHEME = r"(?i)file:(?://(?:localhost)?(?=/))?"
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):(//?[^/]*)?"
_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}


def decode(path: str) -> str:
    """Percent-decode exactly once. `+` and malformed escapes stay; bytes that are not UTF-8 become surrogates."""
    if "%" not in path:
        return path
    return unquote_to_bytes(path.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")


def sidecar_location(action: Mapping[str, object]) -> str:
    """Return the location of a sidecar that a checkpoint names, which is always in `_delta_log/_sidecars`.

    Only the last segment of the path is used. Spec: Sidecar File Information.
    """
    name = unquote(str(action.get("path"))).rstrip("/").rsplit("/", 1)[-1]
    return f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{name}"


def decode_hive(name: bytes) -> bytes:
    """Return a part of a partition directory's name without the escapes of Hive, which the directory itself has."""
    return unquote_to_bytes(name)


def canonical(path: str) -> str:
    """Return the spelling by which replay compares paths.

    It is decoded once, without `file:`, with lower-case schemes without Hadoop's aliases, and without `.` and empty
    segments. A relative and an absolute spelling of one file remain different, as in the reference implementation.
    """
    if "/." not in path and ":" not in path and "//" not in path and not path.startswith("."):
        return decode(path)  # nearly every path
    if not _ODD.search(path):
        return decode(path)
    scheme, rest = "", path
    if re.match(_FILE_SCHEME, path):
        rest = re.sub(r"^/+", "/", re.sub(_FILE_SCHEME, "", path, count=1))
    elif (match := re.match(_SCHEME, path)) and match[2]:
        name = match[1].lower()
        scheme, rest = f"{_ALIASES.get(name, name)}:{match[2]}", path[match.end() :]
    is_plain = "//" not in rest and "./" not in rest and not rest.endswith("/.")
    return scheme + decode(rest if is_plain else _resolved(rest))


def canonical_all(paths: Sequence[str]) -> Sequence[str]:
    """Return `canonical` of each path, with one check of all of them together if none is unusual."""
    together = "\n".join(("", *paths))
    if "%" in together or ":" in together or "//" in together or "/." in together or "\n." in together:
        return [canonical(path) for path in paths]
    return paths


def _resolved(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return ("/" if path.startswith("/") else "") + "/".join(kept)


def without_dots(path: str) -> str:
    """Remove the `.` segments and `x/..` pairs of a decoded path, also those with `%2E`. A leading `..` is kept."""
    return _resolved(path) if _DOT_SEGMENT.search(path) else path


def without_dots_column(paths: pa.Array) -> pa.Array:
    """`without_dots` for a column: binary array in, binary array out."""
    content = _content(paths)
    if b"/." not in content and not pc.any(pc.starts_with(paths, ".")).as_py():
        return paths
    rows = pc.fill_null(pc.match_substring_regex(paths, _DOT_PATTERN), False)
    if not pc.any(rows).as_py():
        return paths
    texts = (path.decode("utf-8", "surrogateescape") for path in pc.filter(paths, rows).to_pylist())
    spelled = [_resolved(text).encode("utf-8", "surrogateescape") for text in texts]
    return pc.replace_with_mask(paths, rows, pa.array(spelled, pa.binary()))


def decode_column(paths: pa.Array) -> pa.Array:
    """`decode` for a column: string array in, binary array out.

    One vectorised pass per escape that occurs, `%25` last, so that nothing is decoded twice. That holds only where
    every `%` begins an escape; the rare rows where one does not are taken one by one.
    """
    column = pc.cast(paths, pa.binary())
    content = _content(column)
    if b"%" not in content:
        return column
    malformed = pc.match_substring_regex(paths, _STRAY_PERCENT)
    decoded = column
    for escape in sorted(set(re.findall(_ESCAPE, content)), key=lambda found: found == b"%25"):
        decoded = pc.replace_substring(decoded, escape, bytes([int(escape[1:], 16)]))
    return _replace_rows(decoded, paths, malformed, decode)


def canonical_column(paths: pa.Array) -> pa.Array:
    """Return `canonical` for a column: string array in, binary array out.

    Plain relative paths, the usual case, need one check of the bytes. Only rows with a scheme, a dot segment or a
    double slash are processed one by one.
    """
    parts = [paths.slice(begin, _CHECKED_AT_ONCE) for begin in range(0, len(paths), _CHECKED_AT_ONCE)]
    odd = pc.match_substring_regex(paths, _ODD_PATTERN) if any(map(_may_be_odd, parts)) else None
    is_plain = not any(b"%" in _content(part) for part in parts)
    column = pc.cast(paths, pa.binary()) if is_plain else decode_column(paths)
    return column if odd is None else _replace_rows(column, paths, odd, canonical)


def _may_be_odd(paths: pa.Array) -> bool:
    content = _content(paths)
    has_odd = b":" in content or re.search(_ODD_SEGMENT, content) is not None
    return has_odd or bool(pc.any(pc.starts_with(paths, ".")).as_py())


def _replace_rows(column: pa.Array, paths: pa.Array, rows: pa.Array, spell: Callable[[str], str]) -> pa.Array:
    """Replace the marked rows by the result of `spell` for each distinct path."""
    if not pc.any(rows).as_py():
        return column
    distinct = pc.dictionary_encode(pc.filter(paths, rows))
    spelled = [spell(path).encode("utf-8", "surrogateescape") for path in distinct.dictionary.to_pylist()]
    return pc.replace_with_mask(column, rows, pc.take(pa.array(spelled, pa.binary()), distinct.indices))


def _content(column: pa.Array) -> bytes:
    """The bytes of a string or binary column, one value after the other."""
    data = column.buffers()[2]
    if data is None or len(column) == 0:
        return b""
    offsets = memoryview(column.buffers()[1]).cast("i")
    return bytes(memoryview(data)[offsets[column.offset] : offsets[column.offset + len(column)]])


# -- deletion vector descriptors ---------------------------------------------------------------------------------------


def fault_of(descriptor: object) -> tuple[str, str] | None:
    """Return the fault of a raw descriptor that prevents an id, as a rule id and the message; or None."""
    if not isinstance(descriptor, dict):
        return ("action.wrong-type", "deletionVector has the wrong type")
    for name in ("storageType", "pathOrInlineDv"):
        value = descriptor.get(name)
        if value is None:
            return ("action.missing-required", f"deletionVector.{name} is missing")
        if not isinstance(value, str):
            return ("action.wrong-type", f"deletionVector.{name} has the wrong type")
    if not isinstance(descriptor.get("offset"), int | None):
        return ("action.wrong-type", "deletionVector.offset has the wrong type")
    return None


def unique_id(descriptor: dict[str, Json] | None) -> str:
    """Return the id that is part of a logical file's key, empty without a vector. `offset: 0` and no offset differ."""
    if not descriptor:
        return ""
    offset = descriptor.get("offset")
    name = f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}"
    return name if offset is None else f"{name}@{offset}"


def no_vector_ids(count: int) -> pa.Array:
    """Return the ids of `count` files without a vector. Those of few files share their memory."""
    return _few_texts().slice(0, count) if count <= FEW_FILES else pa.repeat(pa.scalar(""), count)


FEW_FILES = 1 << 15
"""More than in a block of a commit."""


@lru_cache(maxsize=1)
def _few_texts() -> Any:  # Any: pyarrow has no types
    return pa.repeat(pa.scalar(""), FEW_FILES)


def unique_id_column(descriptors: pa.StructArray) -> pa.Array:
    """Return `unique_id` for a column of descriptors: struct array in, string array out, `""` if there is none."""
    if descriptors.null_count == len(descriptors):
        return no_vector_ids(len(descriptors))
    kind, place = (
        pc.cast(pc.struct_field(descriptors, [part]), pa.string()) for part in ("storageType", "pathOrInlineDv")
    )
    name = pc.binary_join_element_wise(kind, place, "")
    suffix = pa.scalar("")
    if descriptors.type.get_field_index("offset") >= 0:
        offset = pc.cast(pc.struct_field(descriptors, ["offset"]), pa.string())
        suffix = pc.coalesce(pc.binary_join_element_wise("@", offset, ""), pa.scalar(""))
    return pc.coalesce(pc.binary_join_element_wise(name, suffix, ""), pa.scalar(""))


def name_nothing(descriptors: pa.StructArray) -> pa.Array:
    """Return which descriptors of a checkpoint stand for none: some writers fill the struct of a file without a vector
    with nulls, or with empty texts and zeros. The Rust kernel reads the first as no vector, and refuses the second.
    """
    found = pc.is_valid(descriptors)
    for part, nothing in (("cardinality", 0), ("storageType", ""), ("pathOrInlineDv", "")):
        if found.true_count and descriptors.type.get_field_index(part) >= 0:
            found = pc.and_(found, pc.equal(pc.coalesce(pc.struct_field(descriptors, [part]), nothing), nothing))
    return found


def without_empty(descriptors: pa.StructArray) -> pa.StructArray:
    """Return a column of descriptors with null for those that name nothing."""
    if descriptors.null_count == len(descriptors) or not (is_empty := name_nothing(descriptors)).true_count:
        return descriptors
    return pc.if_else(is_empty, pa.scalar(None, descriptors.type), descriptors)


def without_empty_vectors(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return file actions of a checkpoint with null for descriptors of vectors that name nothing."""
    index, vectors = rows.schema.get_field_index("deletionVector"), rows.column("deletionVector")
    found = without_empty(vectors)
    return rows if found is vectors else rows.set_column(index, rows.schema.field(index), found)


ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(ALPHABET)}
UUID_LENGTH = 20

VECTOR_FILE = pattern(r"(?:.*/)?deletion_vector_[^/]*\.bin", re.DOTALL)
"""Paths of files of deletion vectors."""


def decode_z85(text: str) -> bytes | None:
    """Return the bytes, four for every five characters, or None if the text is invalid."""
    if len(text) % 5:
        return None
    decoded = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            value = _VALUES.get(character)
            if value is None:
                return None
            number = number * 85 + value
        if number >= 1 << 32:
            return None
        decoded += number.to_bytes(4, "big")
    return bytes(decoded)


def encode_z85(data: bytes) -> str:
    """Return the text of bytes, whose number is a multiple of four."""
    digits = []
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        digits += [ALPHABET[number // 85**power % 85] for power in range(4, -1, -1)]
    return "".join(digits)


def inline_bytes(text: str) -> bytes | None:
    """Return the bytes of the text of an inline vector, or None if it is invalid. Readers and rules ask this function.

    Z85 has only groups for four bytes. A library of the Rust kernel writes `##093` for two bytes at the end: as many
    `#` as bytes are missing, and the rest in base 85. No other text can begin a group with `#`, which would not fit
    into 32 bits.
    """
    head, tail = text[:-5], text[-5:]
    missing = len(tail) - len(tail.lstrip("#"))
    if not 1 <= missing <= 3:
        return decode_z85(text) or None
    start, number = decode_z85(head), 0
    for character in tail[missing:]:
        number = number * 85 + _VALUES.get(character, 1 << 32)
    left = 4 - missing
    return None if start is None or number >> (8 * left) else start + number.to_bytes(left, "big")


EMPTY_VECTOR_DIRECTORY = "deltacli_no_rows"
"""Below the table: the directory of the vectors that delete no row. By it they are recognized in the log."""
_EMPTY_BITMAP = (1681511377).to_bytes(4, "little") + bytes(8)
"""The magic number of the format, and zero bitmaps."""


def describe_empty_vector(uuid: UUID) -> dict[str, Json]:
    """Return a descriptor of a vector that deletes no row. With it a file has another key than without a vector.

    The vector is in a file, which has to be there (`empty_vector_bytes`). An inline one would need none, but VACUUM of
    Delta for Spark 4.4.0 fails if the log has a remove with an inline vector.

    Args:
        uuid: The id in the name of the file.
    """
    return {
        "storageType": "u",
        "pathOrInlineDv": EMPTY_VECTOR_DIRECTORY + encode_z85(uuid.bytes),
        "offset": 1,
        "sizeInBytes": len(_EMPTY_BITMAP),
        "cardinality": 0,
    }


def empty_vector_bytes() -> bytes:
    """Return the content of a file with a vector that deletes no row. Spec: Deletion Vector File Storage Format."""
    size, checksum = len(_EMPTY_BITMAP).to_bytes(4, "big"), crc32(_EMPTY_BITMAP).to_bytes(4, "big")
    return b"\x01" + size + _EMPTY_BITMAP + checksum


def vector_file(path_or_inline: str) -> str | None:
    """Return the path, relative to the table, of the file that a `u` descriptor names; None for an invalid one."""
    if len(path_or_inline) < UUID_LENGTH:
        return None
    prefix, encoded = path_or_inline[:-UUID_LENGTH], path_or_inline[-UUID_LENGTH:]
    data = decode_z85(encoded)
    if data is None:
        return None
    name = f"deletion_vector_{UUID(bytes=data)}.bin"
    return f"{prefix}/{name}" if prefix else name


# -- symlink manifests -------------------------------------------------------------------------------------------------

MANIFESTS = "_symlink_format_manifest"


def is_manifest(path: str) -> bool:
    """Return True for a path below a table that engines read as a symlink manifest.

    Engines skip hidden names. One of them is `.manifest.crc`, the checksum that Hadoop writes beside each manifest on a
    local path. A directory may begin with `_` or `.`, because the name of a partition column may.
    """
    return path.startswith(f"{MANIFESTS}/") and not path.rpartition("/")[2].startswith(("_", "."))


def named_by(manifest: bytes, uris: Iterable[str]) -> Sequence[set[str]]:
    """Return for each line of a manifest the paths below the table, which has these URIs, that it may mean. One with
    another root, such as that of a mount, may mean any file whose path it ends with.
    """
    lines = _lines_of(manifest)
    return [paths or _ends_of(line) for line, paths in zip(lines, located_by(manifest, uris), strict=True)]


def located_by(manifest: bytes, uris: Iterable[str]) -> Sequence[set[str]]:
    """Return for each line of a manifest the paths below these URIs that it may mean: engines write it decoded or
    percent-encoded. A line with another root has none.
    """
    lines = _lines_of(manifest)
    found = [set[str]() for _ in lines]
    for uri in uris:
        for spelled in ([line.replace("%", "%25") for line in lines], lines):
            for paths, path in zip(found, locate_all(spelled, uri), strict=True):
                if path is not None:
                    paths.add(path)
    return found


def _lines_of(manifest: bytes) -> list[str]:
    text = manifest.decode("utf-8", "surrogateescape").replace("\r", "\n")
    return [line for line in text.split("\n") if line]


def _ends_of(line: str) -> set[str]:
    parts = [part for part in line.split("/") if part]
    return {"/".join(parts[start:]) for start in range(len(parts))}
