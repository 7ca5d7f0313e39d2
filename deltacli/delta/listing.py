"""What the names of a listing show about files: hidden ones, kinds of files, other tables.

Files are never opened. Paths are those of a listing: below the table, binary, not percent-encoded. Which of them the
paths of a log name is known by `deltacli.delta.paths`.

Spec: Add File and Remove File; Data Files; Change Data Files; Deletion Vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.paths.spelling import decode_hive
from deltacli.delta.paths.spelling_columns import content_of
from deltacli.delta.schema.types import PHYSICAL_NAME

if TYPE_CHECKING:
    from deltacli.delta.log.state import TableConfiguration


def directories_of(paths: pa.BinaryArray) -> pa.DictionaryArray:
    """Return the directory of each path, without the trailing slash: '' for a file at the root, null for null."""
    parts = pc.split_pattern(paths, pattern="/", max_splits=1, reverse=True)  # 70 ms per million, a regex takes 300
    is_below = pc.equal(pc.list_value_length(parts), 2)
    directories = pc.if_else(is_below, pc.list_element(parts, 0), pa.scalar(b"", pa.binary()))
    return pc.dictionary_encode(directories)


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
        return not (name.startswith(self._starts) or (equals and decode_hive(column) in self._columns))


def list_partition_directory_names(config: TableConfiguration) -> set[str]:
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


def identify_table_format(names: Sequence[str]) -> str | None:
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
