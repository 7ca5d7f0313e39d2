"""Hashes of the files that a log and a listing name, equal if two paths may name one file.

A key is the path below the table, decoded, in one Unicode form, and without case if the store ignores case. 64-bit
hashes of keys are compared: two keys with the same hash can only cause a file to be kept. For the same reason every
other reading of a path of the log has a hash, too (`alternative_hashes`): the path without decoding it, and what an
absolute path to another place may mean here.

Spec: Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.data_files import vector_file
from deltacli.delta.paths.lookalikes import compose_letters, fold_letters
from deltacli.delta.paths.spelling import encode_path_bytes
from deltacli.delta.paths.spelling_columns import (
    are_absolute,
    canonicalize_paths,
    content_of,
    encode_percent_signs_column,
    locate,
    without_dots_column,
)

_LONGEST_SUFFIX = 32
_ROWS_LOOKED_UP = 2_000_000
_ROWS_HASHED = 65_536
"Per step, because Python's own bytes are hashed."
_EMPTY_SEGMENT, _EMPTY_SEGMENT_OF_TEXT = re.compile(b"/[/]"), re.compile("/[/]")
"""Found faster than the substring."""

_HASH_ALIKE = hash("part-0.parquet") == hash(b"part-0.parquet")
"ASCII text hashes as its bytes do in the Python version in use."

_OFFSET = re.compile(r"@\d+\Z")


class LogKeys(NamedTuple):
    """The files that paths of a log refer to.

    Attributes:
        keys: Paths inside the table directory, decoded (binary), one row per path of the log. Null for files outside
            the table directory.
        undecoded: The same paths without decoding, for writers that do not percent-encode.
        hashes: Hashes of `keys` (int64). Null for files outside the table directory.
        alternative_hashes: More hashes whose files must be protected: those of `undecoded` where decoding changes the
            path, and the possible local meanings of absolute paths to other directories.
        escaping: A path that leaves the table directory with `..`; None if there is none.
        outside: Absolute paths to files outside the table directory, as in the log.
    """

    keys: pa.Array
    undecoded: pa.Array
    hashes: pa.Array
    alternative_hashes: pa.Array
    escaping: str | None
    outside: pa.Array


class VectorKeys(NamedTuple):
    """The files that contain deletion vectors.

    Attributes:
        keys: Paths inside the table directory, decoded (binary), one row per vector. Null for inline vectors, and for
            vectors in files outside the table directory.
        hashes: Hashes of `keys` (int64), null like them.
        alternative_hashes: More hashes whose files must be protected (see `LogKeys`).
        unknown: The id of a vector whose file is unknown; None if there is none.
        outside: Absolute paths to files outside the table directory.
    """

    keys: pa.Array
    hashes: pa.Array
    alternative_hashes: pa.Array
    unknown: str | None
    outside: pa.Array


class PathKeys:
    """Computes keys of the paths of one table, whose root has these URIs. Python's own hashes, the default, are equal
    in one process only; portable ones, which take eight times as long, in all processes.
    """

    def __init__(self, uris: Sequence[str], *, folds_case: bool = False, is_portable: bool = False) -> None:
        self._uris = tuple(dict.fromkeys(uris))
        self._folds_case = folds_case
        self._is_portable = is_portable

    def hash_listed_paths(self, paths: pa.Array) -> pa.Array:
        """Return the hashes (int64) of paths below the root as in a listing: binary array in."""
        hashes = array("q")
        digest = _portable_hash() if self._is_portable else hash
        for start in range(0, len(paths), _ROWS_HASHED):
            hashes.extend(map(digest, self._folded(paths.slice(start, _ROWS_HASHED))))
        return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])

    def hash_listed_names(self, names: Sequence[str], *, is_plain: bool = False) -> pa.Array:
        """Return the same for paths as text: ASCII needs no bytes. `is_plain`: no path has an empty segment."""
        is_ascii = all(map(str.isascii, names))
        is_plain = is_plain or _EMPTY_SEGMENT_OF_TEXT.search("\n".join(names)) is None
        if not (_HASH_ALIKE and is_ascii and is_plain) or self._folds_case or self._is_portable:
            return self.hash_listed_paths(encode_paths_as_binary(names))
        hashes = array("q", map(hash, names))
        return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])

    def compute_keys(self, paths: pa.Array) -> LogKeys:
        """Return the keys of raw paths in a log: string array in."""
        keys = self._below(paths)
        hashes = self.hash_listed_paths(keys)
        written, spare = self._as_written(paths, keys)
        escaping = None
        outside = paths.slice(0, 0)
        if keys.null_count:
            hashes = pc.if_else(pc.is_valid(keys), hashes, pa.scalar(None, pa.int64()))
            lost = pc.filter(paths, pc.invert(pc.is_valid(keys)))
            is_absolute = are_absolute(lost)
            outside = pc.filter(lost, is_absolute)
            spare += self._suffixes(outside)
            relative = pc.filter(lost, pc.invert(is_absolute))
            resolved = without_dots_column(canonicalize_paths(relative))
            dotted = pc.filter(relative, pc.match_substring_regex(resolved, r"^/*\.\.(/|$)"))
            escaping = dotted[0].as_py() if len(dotted) else None
        return LogKeys(keys, written, hashes, pa.concat_arrays([pa.array([], pa.int64()), *spare]), escaping, outside)

    def compute_vector_keys(self, ids: pa.Array) -> VectorKeys:
        """Return the keys of the files of deletion vectors, by their ids (string array; `""` for none)."""
        encoded = pc.dictionary_encode(ids)
        places = [_vector_places(one or "") for one in encoded.dictionary.to_pylist()]
        unknown = next((one.unknown for one in places if one.unknown is not None), None)
        direct = pa.array([one.name for one in places], pa.binary())
        hashes = pc.if_else(pc.is_valid(direct), self.hash_listed_paths(direct), pa.scalar(None, pa.int64()))
        spare = [self.hash_listed_paths(pa.array([name for one in places for name in one.spare], pa.binary()))]
        outside = pa.array([], pa.string())
        if any(one.path is not None for one in places):
            of_paths = self.compute_keys(pa.array([one.path for one in places], pa.string()))
            direct, hashes = pc.coalesce(direct, of_paths.keys), pc.coalesce(hashes, of_paths.hashes)
            of_spare = self.compute_keys(pa.array([path for one in places for path in one.spare_paths], pa.string()))
            spare += [of_paths.alternative_hashes, pc.drop_null(of_spare.hashes), of_spare.alternative_hashes]
            unknown = unknown or of_paths.escaping
            outside = pa.concat_arrays([of_paths.outside, of_spare.outside])
        rows = encoded.indices
        return VectorKeys(pc.take(direct, rows), pc.take(hashes, rows), pa.concat_arrays(spare), unknown, outside)

    def _below(self, paths: pa.Array) -> pa.Array:
        """Return the paths that may be below the root (binary array), null if they are outside."""
        keys = locate(paths, self._uris[0], in_doubt_inside=True)[0]
        for uri in self._uris[1:]:
            keys = pc.coalesce(keys, locate(paths, uri, in_doubt_inside=True)[0])
        return keys

    def _as_written(self, paths: pa.Array, keys: pa.Array) -> tuple[ArrowArray, list[ArrowArray]]:
        """Return undecoded paths below the root, and the hashes of those, and of whole paths, that differ."""
        whole = pc.cast(paths, pa.binary())
        differs = pc.fill_null(pc.not_equal(whole, keys), False)
        if not pc.any(differs).as_py():
            return keys, []
        odd, whole = pc.filter(paths, differs), pc.filter(whole, differs)
        below = pc.coalesce(self._below(encode_percent_signs_column(odd)), whole)
        literal = pc.filter(below, pc.not_equal(below, pc.filter(keys, differs)))
        others = pc.filter(whole, pc.not_equal(whole, below))
        return pc.replace_with_mask(keys, differs, below), [
            self.hash_listed_paths(literal),
            self.hash_listed_paths(others),
        ]

    def _suffixes(self, paths: pa.Array) -> list[pa.Array]:
        """Return hashes of the last components of absolute paths, decoded and not: the table may have another name."""
        found: list[ArrowArray] = []
        for length in range(_LONGEST_SUFFIX):
            cut = pc.struct_field(pc.extract_regex(paths, f"(?P<end>(?:[^/]+/+){{{length}}}[^/]+)$"), ["end"])
            ends = pc.filter(cut, pc.is_valid(cut))
            if not len(ends):
                break
            keys = self._below(ends)
            found += [self.hash_listed_paths(pc.drop_null(keys)), *self._as_written(ends, keys)[1]]
        return found

    def _folded(self, paths: pa.Array) -> Sequence[bytes | None]:
        keys: list[bytes | None] = paths.to_pylist()
        if _EMPTY_SEGMENT.search(content_of(paths)):
            keys = [key if key is None or b"//" not in key else re.sub(b"//+", b"/", key) for key in keys]
        if not all(map(bytes.isascii, filter(None, keys))):
            keys = [key if key is None or key.isascii() else compose_letters(key) for key in keys]
        if self._folds_case:
            keys = [None if key is None else fold_letters(key) for key in keys]
        return keys


def _portable_hash() -> Callable[[bytes | None], int]:
    from hashlib import blake2b  # with OpenSSL, which a plan of one process does without

    return lambda key: int.from_bytes(blake2b(key or b"", digest_size=8).digest(), "little", signed=True)


def encode_paths_as_binary(paths: Sequence[str]) -> ArrowArray:
    """Return names as in a listing, as bytes."""
    try:
        return pa.array(paths, pa.binary())
    except UnicodeEncodeError:
        return pa.array([encode_path_bytes(path) for path in paths], pa.binary())


def is_among(hashes: pa.Array, known: pa.Array) -> pa.Array:
    """Return which hashes are among the known ones, looked up in parts to limit the size of hash tables."""
    found = pc.is_in(hashes, value_set=known.slice(0, _ROWS_LOOKED_UP))
    for start in range(_ROWS_LOOKED_UP, len(known), _ROWS_LOOKED_UP):
        found = pc.or_(found, pc.is_in(hashes, value_set=known.slice(start, _ROWS_LOOKED_UP)))
    return found


class _VectorPlace(NamedTuple):
    """Where a vector is: a name below the table, or a path as the log writes paths; and its other possible meaning."""

    name: bytes | None = None
    spare: tuple[bytes, ...] = ()
    path: str | None = None
    spare_paths: tuple[str, ...] = ()
    unknown: str | None = None


def _vector_places(unique_id: str) -> _VectorPlace:
    """Parse the id of a vector. Z85 may end like an offset; then both meanings apply."""
    kind, text = unique_id[:1], unique_id[1:]
    readings = tuple(dict.fromkeys((_OFFSET.sub("", text), text)))
    match kind:
        case "" | "i":
            return _VectorPlace()
        case "u":
            names = [name.encode() for reading in readings if (name := vector_file(reading)) is not None]
            return _VectorPlace(names[0], tuple(names[1:])) if names else _VectorPlace(unknown=unique_id)
        case "p":
            return _VectorPlace(path=readings[0], spare_paths=readings[1:])
        case _:
            names = [reading.encode("utf-8", "replace") for reading in readings]
            return _VectorPlace(names[0], tuple(names[1:]), unknown=None if kind == "r" else unique_id)
