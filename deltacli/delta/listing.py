"""Files of a listing: keys that are equal if paths may name one file, and what names show about files.

A key is the path below the table, decoded, in one Unicode form, and without case if the store ignores case. 64-bit
hashes of keys are compared: two keys with the same hash can only cause a file to be kept.

Files are never opened. Paths are those of a listing: below the table, binary, not percent-encoded.

Spec: Add File and Remove File; Data Files; Change Data Files; Deletion Vectors.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.arrow import pa
from deltacli.core.made_once import NamedTuple, pattern
from deltacli.core.typing import ArrowArray
from deltacli.delta import data_files
from deltacli.delta.schema.types import PHYSICAL_NAME

if TYPE_CHECKING:
    from deltacli.delta.log.state import TableConfiguration

_LONGEST_SUFFIX = 32
_ROWS_LOOKED_UP = 2_000_000
_ROWS_HASHED = 65_536
"Per step, because Python's own bytes are hashed."
_EMPTY_SEGMENT, _EMPTY_SEGMENT_OF_TEXT = re.compile(b"/[/]"), re.compile("/[/]")
"""Found faster than the substring."""

_HASH_ALIKE = hash("part-0.parquet") == hash(b"part-0.parquet")
"ASCII text hashes as its bytes do in the Python version in use."

_OFFSET = pattern(r"@\d+\Z")


class LogKeys(NamedTuple):
    """The files that paths of a log name. `hashes` has one row per path, null if it is outside the table; `keys` are
    the paths themselves (binary), and `written` the same without decoding, for writers that do not encode. `spare` are
    more hashes to be protected with them: those of `written` if that differs, and the possible local meanings of
    absolute paths to other places. `escaping` is a path that leaves the table with `..`, if there is one. `outside` are
    the absolute paths to other places, as the log has them.
    """

    keys: pa.Array
    written: pa.Array
    hashes: pa.Array
    spare: pa.Array
    escaping: str | None
    outside: pa.Array


class VectorKeys(NamedTuple):
    """The files of deletion vectors. `keys` (paths, binary) and `hashes` have one row per vector, null for one that is
    inline or elsewhere; `spare` are more hashes to be protected with them. `unknown` is the id of one whose file is
    unknown, if there is one. `outside` are the absolute paths of those elsewhere.
    """

    keys: pa.Array
    hashes: pa.Array
    spare: pa.Array
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

    def of_listing(self, paths: pa.Array) -> pa.Array:
        """Return the hashes (int64) of paths below the root as in a listing: binary array in."""
        hashes = array("q")
        digest = _portable_hash() if self._is_portable else hash
        for start in range(0, len(paths), _ROWS_HASHED):
            hashes.extend(map(digest, self._folded(paths.slice(start, _ROWS_HASHED))))
        return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])

    def of_names(self, names: Sequence[str], *, is_plain: bool = False) -> pa.Array:
        """Return the same for paths as text: ASCII needs no bytes. `is_plain`: no path has an empty segment."""
        is_ascii = all(map(str.isascii, names))
        is_plain = is_plain or _EMPTY_SEGMENT_OF_TEXT.search("\n".join(names)) is None
        if not (_HASH_ALIKE and is_ascii and is_plain) or self._folds_case or self._is_portable:
            return self.of_listing(binary_paths(names))
        hashes = array("q", map(hash, names))
        return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])

    def of_log(self, paths: pa.Array) -> LogKeys:
        """Return the keys of raw paths in a log: string array in."""
        keys = self._below(paths)
        hashes = self.of_listing(keys)
        written, spare = self._as_written(paths, keys)
        escaping = None
        outside = paths.slice(0, 0)
        if keys.null_count:
            hashes = pc.if_else(pc.is_valid(keys), hashes, pa.scalar(None, pa.int64()))
            lost = pc.filter(paths, pc.invert(pc.is_valid(keys)))
            is_absolute = data_files.are_absolute(lost)
            outside = pc.filter(lost, is_absolute)
            spare += self._suffixes(outside)
            relative = pc.filter(lost, pc.invert(is_absolute))
            resolved = data_files.without_dots_column(data_files.canonical_column(relative))
            dotted = pc.filter(relative, pc.match_substring_regex(resolved, r"^\.\.(/|$)"))
            escaping = dotted[0].as_py() if len(dotted) else None
        return LogKeys(keys, written, hashes, pa.concat_arrays([pa.array([], pa.int64()), *spare]), escaping, outside)

    def of_vectors(self, ids: pa.Array) -> VectorKeys:
        """Return the keys of the files of deletion vectors, by their ids (string array; `""` for none)."""
        encoded = pc.dictionary_encode(ids)
        places = [_vector_places(one or "") for one in encoded.dictionary.to_pylist()]
        unknown = next((one.unknown for one in places if one.unknown is not None), None)
        direct = pa.array([one.name for one in places], pa.binary())
        hashes = pc.if_else(pc.is_valid(direct), self.of_listing(direct), pa.scalar(None, pa.int64()))
        spare = [self.of_listing(pa.array([name for one in places for name in one.spare], pa.binary()))]
        outside = pa.array([], pa.string())
        if any(one.path is not None for one in places):
            of_paths = self.of_log(pa.array([one.path for one in places], pa.string()))
            direct, hashes = pc.coalesce(direct, of_paths.keys), pc.coalesce(hashes, of_paths.hashes)
            of_spare = self.of_log(pa.array([path for one in places for path in one.spare_paths], pa.string()))
            spare += [of_paths.spare, pc.drop_null(of_spare.hashes), of_spare.spare]
            unknown = unknown or of_paths.escaping
            outside = pa.concat_arrays([of_paths.outside, of_spare.outside])
        rows = encoded.indices
        return VectorKeys(pc.take(direct, rows), pc.take(hashes, rows), pa.concat_arrays(spare), unknown, outside)

    def _below(self, paths: pa.Array) -> pa.Array:
        """Return the paths below the root (binary array), null if they are outside."""
        keys = data_files.locate(paths, self._uris[0])[0]
        for uri in self._uris[1:]:
            keys = pc.coalesce(keys, data_files.locate(paths, uri)[0])
        return keys

    def _as_written(self, paths: pa.Array, keys: pa.Array) -> tuple[ArrowArray, list[ArrowArray]]:
        """Return undecoded paths below the root, and the hashes of those, and of whole paths, that differ."""
        whole = pc.cast(paths, pa.binary())
        differs = pc.fill_null(pc.not_equal(whole, keys), False)
        if not pc.any(differs).as_py():
            return keys, []
        odd, whole = pc.filter(paths, differs), pc.filter(whole, differs)
        below = pc.coalesce(self._below(pc.replace_substring(odd, "%", "%25")), whole)
        literal = pc.filter(below, pc.not_equal(below, pc.filter(keys, differs)))
        others = pc.filter(whole, pc.not_equal(whole, below))
        return pc.replace_with_mask(keys, differs, below), [self.of_listing(literal), self.of_listing(others)]

    def _suffixes(self, paths: pa.Array) -> list[pa.Array]:
        """Return hashes of the last components of absolute paths, decoded and not: the table may have another name."""
        found: list[ArrowArray] = []
        for length in range(_LONGEST_SUFFIX):
            cut = pc.struct_field(pc.extract_regex(paths, f"(?P<end>(?:[^/]+/+){{{length}}}[^/]+)$"), ["end"])
            ends = pc.filter(cut, pc.is_valid(cut))
            if not len(ends):
                break
            keys = self._below(ends)
            found += [self.of_listing(pc.drop_null(keys)), *self._as_written(ends, keys)[1]]
        return found

    def _folded(self, paths: pa.Array) -> Sequence[bytes | None]:
        keys: list[bytes | None] = paths.to_pylist()
        if _EMPTY_SEGMENT.search(content_of(paths)):
            keys = [key if key is None or b"//" not in key else re.sub(b"//+", b"/", key) for key in keys]
        if not all(map(bytes.isascii, filter(None, keys))):
            keys = [key if key is None or key.isascii() else _composed(key) for key in keys]
        if self._folds_case:
            keys = [None if key is None else _caseless(key) for key in keys]
        return keys


def _portable_hash() -> Callable[[bytes | None], int]:
    from hashlib import blake2b  # with OpenSSL, which a plan of one process does without

    return lambda key: int.from_bytes(blake2b(key or b"", digest_size=8).digest(), "little", signed=True)


def binary_paths(paths: Sequence[str]) -> ArrowArray:
    """Return names as in a listing, as bytes."""
    try:
        return pa.array(paths, pa.binary())
    except UnicodeEncodeError:
        return pa.array([path.encode("utf-8", "surrogateescape") for path in paths], pa.binary())


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
            names = [name.encode() for reading in readings if (name := data_files.vector_file(reading)) is not None]
            return _VectorPlace(names[0], tuple(names[1:])) if names else _VectorPlace(unknown=unique_id)
        case "p":
            return _VectorPlace(path=readings[0], spare_paths=readings[1:])
        case _:
            names = [reading.encode("utf-8", "replace") for reading in readings]
            return _VectorPlace(names[0], tuple(names[1:]), unknown=None if kind == "r" else unique_id)


def _composed(key: bytes) -> bytes:
    """Return a name in one Unicode form, because some file systems change the form of names."""
    try:
        return unicodedata.normalize("NFC", key.decode()).encode()
    except UnicodeDecodeError:
        return key


def _caseless(key: bytes) -> bytes:
    if key.isascii():
        return key.lower()
    try:
        return unicodedata.normalize("NFC", key.decode().casefold()).encode()
    except UnicodeDecodeError:
        return key.lower()


def directories_of(paths: pa.BinaryArray) -> pa.DictionaryArray:
    """Return the directory of each path, without the trailing slash: '' for a file at the root, null for null."""
    parts = pc.split_pattern(paths, pattern="/", max_splits=1, reverse=True)  # 70 ms per million, a regex takes 300
    is_below = pc.equal(pc.list_value_length(parts), 2)
    directories = pc.if_else(is_below, pc.list_element(parts, 0), pa.scalar(b"", pa.binary()))
    return pc.dictionary_encode(directories)


def content_of(paths: pa.BinaryArray) -> bytes:
    """Return the bytes of all paths, one after the other. A byte that does not occur in them is in no path."""
    data = paths.buffers()[2]
    if data is None or not len(paths):
        return b""
    offsets = memoryview(paths.buffers()[1]).cast("i")
    return bytes(memoryview(data)[offsets[paths.offset] : offsets[paths.offset + len(paths)]])


def partition_of(paths: pa.BinaryArray) -> pa.StringArray:
    """Return the unmodified directories `key=value` of each path for display, joined by `/`; null without any."""
    directories = directories_of(paths)
    texts = []
    for path in directories.dictionary.to_pylist():
        parts = b"/".join(part for part in path.split(b"/") if part.find(b"=") > 0)
        texts.append(parts.decode("utf-8", "replace") if parts else None)
    return pc.take(pa.array(texts, pa.string()), directories.indices)


# -- what names show ---------------------------------------------------------------------------------------------------

_MARKS = (b"_", b".")
_SEEN = (b"_delta_index", b"_change_data")
"Directories that begin with `_` and hold files of the table anyway."
_METADATA = "metadata"
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class HiddenNames:
    """Decides which names a vacuum ignores: those that begin with `.` or `_`.

    Not hidden are `_delta_index…`, `_change_data…` and `column=…` for the `partition_columns`: logical, physical and
    historical names, each compared unmodified and with the escapes of the directory decoded. With `hides_metadata` the
    root's own `metadata` is hidden too, which holds the Iceberg metadata of the table.
    """

    def __init__(self, partition_columns: Iterable[str], *, hides_metadata: bool = False) -> None:
        columns = (column.encode("utf-8", "surrogatepass") for column in partition_columns)
        self._columns = frozenset(column for column in columns if column.startswith(_MARKS))
        self._starts = tuple(column + b"=" for column in sorted(self._columns))
        self._hides_metadata = hides_metadata

    def hides_name(self, name: str) -> bool:
        """Return True for a single component of a path that is hidden wherever it occurs."""
        return self._hides(name.encode("utf-8", "surrogateescape"))

    def hides_directory(self, path: str) -> bool:
        """Return True for a directory, by its path below the root, whose own name is hidden."""
        return self.hides_name(path.rpartition("/")[2]) or (self._hides_metadata and path == _METADATA)

    def hides_path(self, path: str) -> bool:
        """Return True if a directory of a path below the root or the name of its file is hidden."""
        is_odd = path.startswith(("_", ".")) or "/_" in path or "/." in path
        return is_odd and any(map(self.hides_name, path.split("/")))

    def mask(self, paths: pa.BinaryArray) -> pa.BooleanArray:
        """Return True if a directory of the path or the name of the file is hidden, and for null; never null."""
        odd = pc.is_null(paths)
        if _may_hide(paths):
            odd = pc.or_(odd, _matches(paths, "(?:^|/)[._]"))
        if self._hides_metadata:
            odd = pc.or_(odd, _matches(paths, f"^{_METADATA}/"))
        if not _any(odd):
            return odd
        found = pc.filter(paths, odd)
        directories = directories_of(found)
        below = [path is None or self._hides_path(path) for path in directories.dictionary.to_pylist()]
        hidden = pc.or_(
            pc.fill_null(pc.take(pa.array(below, pa.bool_()), directories.indices), True), self._names(found)
        )
        return pc.replace_with_mask(odd, odd, hidden)

    def _names(self, paths: Any) -> Any:  # Any: pyarrow has no types
        """Return the same for the names of the files alone."""
        hidden = pc.fill_null(pc.match_substring_regex(paths, "(?:^|/)[._][^/]*$"), True)
        hidden = pc.and_(hidden, pc.invert(_matches(paths, "(?:^|/)(?:_delta_index|_change_data)[^/]*$")))
        if not self._columns:
            return hidden
        doubted = pc.and_(hidden, _matches(paths, "=[^/]*$"))
        if not _any(doubted):
            return hidden
        names = [path.rpartition(b"/")[2] for path in pc.filter(paths, doubted).to_pylist()]
        return pc.replace_with_mask(hidden, doubted, pa.array(map(self._hides, names), pa.bool_()))

    def _hides_path(self, directories: bytes) -> bool:
        parts = directories.split(b"/")
        return any(map(self._hides, parts)) or (self._hides_metadata and parts[0] == _METADATA.encode())

    def _hides(self, name: bytes) -> bool:
        if not name.startswith(_MARKS) or name.startswith(_SEEN):
            return False
        column, equals, _ = name.partition(b"=")
        return not (name.startswith(self._starts) or (equals and data_files.decode_hive(column) in self._columns))


def partition_names(config: TableConfiguration) -> set[str]:
    """Return the names by which directories of partitions begin: logical and physical ones."""
    logical = config.metadata.partition_columns if config.metadata else ()
    fields = {column.name: column for column in (config.schema.fields if config.schema else ())}
    physical = (fields[name].metadata.get(PHYSICAL_NAME) for name in logical if name in fields)
    return {*logical, *(name for name in physical if isinstance(name, str))}


_ODD_START = b"/[._]"


def _may_hide(paths: ArrowArray) -> bool:
    """Return False if no component begins with `.` or `_`, as usual: bytes are checked faster than by a regex."""
    if re.search(_ODD_START, content_of(paths)):
        return True
    return any(_any(pc.starts_with(paths, start)) for start in ("_", "."))


class FileKind(IntEnum):
    """The kind of a file, by its name alone."""

    FOREIGN = 0
    DATA = 1
    VECTOR = 2
    CHANGE_DATA = 3
    INDEX = 4


_KINDS = (
    (FileKind.DATA, r"(?i)\.parquet$"),
    (FileKind.VECTOR, rf"(?:^|/)deletion_vector_{_UUID}\.bin$"),
    (FileKind.CHANGE_DATA, "^_change_data/"),
    (FileKind.INDEX, "^_delta_index/"),
)
"The last matching kind applies."


def kinds(paths: pa.BinaryArray) -> pa.Int8Array:
    """Return the `FileKind` of each path. Unrecognized names are FOREIGN."""
    found = pa.repeat(pa.scalar(int(FileKind.FOREIGN), pa.int8()), len(paths))
    for kind, names in _KINDS:
        found = pc.if_else(_matches(paths, names), pa.scalar(int(kind), pa.int8()), found)
    return found


_ROOT = "(?s)^(?P<root>(?:.*?/)?)"
"Up to the first match of the following pattern, so that the outermost of nested tables is found."
_OWN_LOG = b"_delta_log/"
_TABLES = (
    ("Delta", b"_delta_log/", "_delta_log/"),
    ("Iceberg", b"metadata/", r"metadata/(?:[^/]*\.metadata\.json(?:\.gz)?|snap-[^/]*\.avro)$"),
    ("Hudi", b".hoodie/", r"\.hoodie/"),
    ("Paimon", b"schema/schema-", "schema/schema-[0-9]+$"),
    ("Lance", b"_versions/", r"_versions/[^/]*\.manifest$"),
)
"Kind of table, a substring of every listing that has one, and the pattern of its paths below its root."
_ORDER = {kind: place for place, (kind, _, _) in enumerate(_TABLES)}
"The first kind applies to a directory that several indicate."
_PAIMON_FILES = "(?:snapshot|manifest)/[^/]+$"
_DIRECTORIES = {"_delta_log": "Delta", ".hoodie": "Hudi", "_versions": "Lance"}


def find_table_roots(paths: pa.BinaryArray) -> dict[str, str]:
    """Return directory -> kind, for the tables that files at these paths indicate; '' if the root itself is of another
    format. The table's own log is ignored. For a listing in batches use `TableRoots`, because the parts of a Paimon
    table may be in two of them.
    """
    roots = TableRoots()
    roots.take(paths)
    return roots.found


class TableRoots:
    """Finds other tables in a listing that comes in batches, whose order does not matter."""

    def __init__(self) -> None:
        self.kinds: dict[bytes, str] = {}
        self.schemas: set[bytes] = set()
        self.snapshots: set[bytes] = set()

    def take(self, paths: pa.BinaryArray) -> None:
        """Add some files."""
        content = content_of(paths)
        for kind, part, names in _TABLES:
            roots = _roots(paths, names) if part in content else set()
            if kind == "Delta":
                roots.discard(b"")
            if kind == "Paimon":
                self.schemas |= roots
                continue
            self._add(dict.fromkeys(roots, kind))
        if b"snapshot/" in content or b"manifest/" in content:
            self.snapshots |= _roots(paths, _PAIMON_FILES)

    def merge(self, other: TableRoots) -> None:
        """Add what other batches indicate."""
        self._add(other.kinds)
        self.schemas |= other.schemas
        self.snapshots |= other.snapshots

    def _add(self, kinds: Mapping[bytes, str]) -> None:
        for root, kind in kinds.items():
            self.kinds[root] = min(kind, self.kinds.get(root, kind), key=_ORDER.__getitem__)

    @property
    def found(self) -> dict[str, str]:
        """Return directory -> kind, in the order of the directories."""
        paimon = dict.fromkeys(self.schemas & self.snapshots, "Paimon")
        found = {**paimon, **self.kinds}
        return {root.decode("utf-8", "surrogateescape"): found[root] for root in sorted(found)}


def kind_of_directories(names: Sequence[str]) -> str | None:
    """Return the kind of table that the names of the directories directly in a directory indicate, or None."""
    return next((kind for name, kind in _DIRECTORIES.items() if name in names), None)


def _roots(paths: Any, pattern: str) -> set[bytes]:
    some = _matches(paths, f"(?:^|/){pattern}")
    if not _any(some):
        return set()
    found = pc.extract_regex(pc.filter(paths, some), pattern=_ROOT + pattern)
    roots = pc.unique(pc.struct_field(found, [0])).to_pylist()
    return {root.removesuffix(b"/") for root in roots if not root.startswith(_OWN_LOG)}


def _any(mask: ArrowArray) -> bool:
    return bool(pc.any(mask).as_py())


def _matches(paths: ArrowArray, pattern: str) -> ArrowArray:
    return pc.fill_null(pc.match_substring_regex(paths, pattern), False)
