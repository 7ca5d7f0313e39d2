"""Files that commits name: adds, removes and change data, in columns; and those that no later commit removes. A version
that lacks one of these was rebuilt from a wrong checkpoint.

Files are compared by 64-bit hashes of their keys, as in `deltacli.delta.listing`. Spec: Actions; Action
Reconciliation; Add File and Remove File; Add CDC File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import CommitCorrupt, command
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.data_files import fault_of, unique_id
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.storage import ReadStorage
from deltacli.table.replay import read_contents
from deltacli.work.commits.reading import is_large, read_commit, stream_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.paths.keys import PathKeys
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- files that commits name -------------------------------------------------------------------------------------------

_ROWS_A_BATCH = 65_536
_KINDS = ("add", "remove", "cdc")


class FileReferences(NamedTuple):
    """Files that commits name, one row each.

    `path` and `vector` (the unique id of the deletion vector, `""` without one) are strings as in the log. `version` is
    the version of the commit. `size` (bytes) and `deletion_timestamp` (epoch milliseconds) are null if the action has
    none.
    """

    kind: str
    path: pyarrow.Array
    vector: pyarrow.Array
    version: pyarrow.Array
    size: pyarrow.Array
    deletion_timestamp: pyarrow.Array


class NamedFiles:
    """Collects the files that commits name, in the order in which they are added."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in _KINDS}  # Any: JSON values, checked
        self.metadata: list[Action] = []
        """The metaData actions of the commits."""

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def take(self, actions: Iterable[tuple[str, Action]], file: LogFile) -> Iterator[FileReferences]:
        """Append the actions of a commit, and yield full batches. Raises CommitCorrupt for one of an unknown file."""
        for count, (kind, action) in enumerate(actions, 1):
            if kind == "metaData":
                self.metadata.append(action)
            if count % _ROWS_A_BATCH == 0:
                yield from self.flush()
            if kind not in _KINDS:
                continue
            path, vector = action.get("path"), action.get("deletionVector")
            if not isinstance(path, str):
                raise _unnamed(file, f"{kind}.path is missing or not a string", "action.missing-required")
            if vector is not None and (fault := fault_of(vector)):
                code, reason = fault
                raise _unnamed(file, f"{kind}: {reason}", code)
            self._rows[kind].append(
                (
                    path,
                    unique_id(vector),
                    file.version,
                    _long(action.get("size")),
                    _long(action.get("deletionTimestamp")),
                )
            )

    def flush(self) -> Iterator[FileReferences]:
        """Yield the collected rows, one batch per kind, and clear them."""
        whole = pa.int64()
        types = (pa.string(), pa.string(), whole, whole, whole)
        for kind, rows in self._rows.items():
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [_column(values, one) for values, one in zip(columns, types, strict=True)]
                yield FileReferences(kind, *arrays)
        self._rows = {kind: [] for kind in _KINDS}


def commit_actions(storage: ReadStorage, file: LogFile, content: bytes | None) -> Iterator[tuple[str, Action]]:
    """Yield the actions of a commit from the given bytes, or read it. Raises CommitCorrupt."""
    data = read_commit(storage, file) if content is None and not is_large(file) else content
    yield from stream_commit(storage, file) if data is None else read_actions(data, file.name)


def _column(values: tuple[Any, ...], data_type: Any) -> Any:  # Any: JSON values; pyarrow has no types
    try:
        return pa.array(values, data_type)
    except UnicodeEncodeError:  # an unpaired surrogate: no file has such a name
        return pa.array([text.encode("utf-8", "replace").decode() for text in values], data_type)


def _long(value: Json) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _unnamed(file: LogFile, what: str, code: str) -> CommitCorrupt:
    return CommitCorrupt(
        f"{file.name}: {what}",
        file=file.name,
        code=code,
        facts={"version": str(file.version)},
        hint=command("validate"),
    )


# -- files that no later commit removes --------------------------------------------------------------------------------

RULE = "checkpoint.missing-add"
"""The rule of `validate` that reports such a version."""
_ROWS_HELD = 65_536


class NamedKeys(NamedTuple):
    """Files named by actions, one row each (int64 arrays).

    `files` are hashes of paths: of a data file, or of the file that holds its deletion vector. `keys` identify the
    logical file: path and deletion vector. `versions` are those of the commits, the newest first.
    """

    files: pyarrow.Array
    keys: pyarrow.Array
    versions: pyarrow.Array

    def where(self, mask: ArrowArray) -> NamedKeys:
        return NamedKeys(*(pc.filter(column, mask) for column in self))


def logical_keys(paths: pyarrow.Array, vectors: pyarrow.Array) -> pyarrow.Array:
    """Return the keys (int64) of logical files from hashes of their paths and the ids of their deletion vectors."""
    encoded = pc.dictionary_encode(vectors)
    ids = [hash(one) if one else 0 for one in encoded.dictionary.to_pylist()]
    if not any(ids):
        return paths
    return pc.bit_wise_xor(paths, pc.take(pa.array(ids, pa.int64()), encoded.indices))


def logical_keys_of(
    keys: PathKeys, paths: pyarrow.Array, hashes: pyarrow.Array, vectors: pyarrow.Array
) -> pyarrow.Array:
    """Return the keys (int64) of logical files, also of files outside the table whose vector may be in it.

    Args:
        keys: The keys of the paths of the table.
        paths: Raw paths of the log. Outside the table they are compared as text, so that a vector is not taken for
            removed by an action that some engine relates to another file.
        hashes: Their hashes by `keys`; null outside the table.
        vectors: The ids of their deletion vectors, "" for none.

    Returns:
        Null for files outside the table without a vector.
    """
    if hashes.null_count:
        is_outside = pc.and_(pc.is_null(hashes), pc.not_equal(vectors, ""))
        outside = keys.of_listing(pc.cast(pc.filter(paths, is_outside), pa.binary()))
        hashes = pc.replace_with_mask(hashes, is_outside, outside)
    return logical_keys(hashes, vectors)


class _Rows:
    """Collects named files into one table of columns."""

    def __init__(self) -> None:
        self._parts: list[NamedKeys] = []

    def add(self, rows: NamedKeys) -> None:
        if len(rows.files):
            self._parts.append(rows)

    def whole(self) -> NamedKeys:
        """Return every row, in the order in which they were added."""
        self._parts = [NamedKeys(*(_whole([part[index] for part in self._parts]) for index in range(3)))]
        return self._parts[0]


class FileHistory:
    """Collects the files that actions add and remove, commits newest first; `unremoved` evaluates them.

    `last_run` is the first version of the commits that reach the newest version without a gap. Tombstones count only
    for files added before it; for later files the commits are the more reliable source.
    """

    def __init__(self, last_run: int = 0) -> None:
        self.last_run = last_run
        self._adds, self._vectors, self._removes = _Rows(), _Rows(), _Rows()
        self._tombstones: list[ArrowArray] = []
        self._other_adds: list[ArrowArray] = []
        self._other_removes: list[ArrowArray] = []

    def take_adds(self, rows: NamedKeys) -> None:
        """Add data files; the hash of a file outside the table is null."""
        self._adds.add(rows.where(pc.is_valid(rows.files)))

    def take_vectors(self, rows: NamedKeys) -> None:
        """Add the files of deletion vectors that belong to added data files."""
        self._vectors.add(rows.where(pc.is_valid(rows.files)))

    def take_removes(self, rows: NamedKeys) -> None:
        """Remove data files. Of those outside the table, only the ones with vectors have keys."""
        self._removes.add(rows.where(pc.is_valid(rows.keys)))

    def take_tombstones(self, keys: ArrowArray) -> None:
        """Remove data files in an unknown version."""
        self._tombstones.append(pc.drop_null(keys))

    def take_other_spellings(self, hashes: ArrowArray, *, are_added: bool) -> None:
        """Add or remove the files that paths name for a reader with other decoding rules."""
        if len(hashes):
            (self._other_adds if are_added else self._other_removes).append(hashes)

    def adds(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return which files (hashes) an action adds."""
        return pc.or_(*(pc.is_in(files, value_set=rows.whole().files) for rows in (self._adds, self._vectors)))

    def first_adds(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return the first version that adds each of these files (hashes); null where no commit does."""
        parts = [rows.whole() for rows in (self._adds, self._vectors)]
        adds = pa.table({name: _whole([getattr(part, name) for part in parts]) for name in ("files", "versions")})
        adds = pc.filter(adds, pc.is_in(adds.column("files"), value_set=files))
        firsts = aggregate_rows(adds, ["files"], [("versions", "min")])
        places = pc.index_in(files, value_set=firsts.column("files").combine_chunks())
        return pc.take(firsts.column("versions_min").combine_chunks(), places)

    def unremoved(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return which files (hashes) an add names whose logical file no later action removes."""
        others = _whole(self._other_adds)
        others = pc.filter(others, pc.is_in(others, value_set=files))
        others = pc.filter(others, pc.invert(pc.is_in(others, value_set=_whole(self._other_removes))))
        return pc.is_in(files, value_set=_whole([self.unremoved_adds(files).files, others]))

    def unremoved_adds(self, files: pyarrow.Array) -> NamedKeys:
        """Return the adds that name these files (hashes) and that no later action removes."""
        found = []
        for added in (self._adds.whole(), self._vectors.whole()):
            rows = added.where(pc.is_in(added.files, value_set=files))
            found.append(rows.where(self._is_last(rows)))
        return NamedKeys(*(_whole([part[index] for part in found]) for index in range(3)))

    def unremoved_count(self, live: pyarrow.Array) -> int:
        """Return the number of logical files that are added, not removed later and not live (keys)."""
        rows = self._adds.whole()
        keys = pc.filter(rows.keys, self._is_last(rows))
        return len(pc.unique(pc.filter(keys, pc.invert(pc.is_in(keys, value_set=live)))))

    def _is_last(self, rows: NamedKeys) -> pyarrow.Array:
        """Return which added rows no later action removes."""
        removes = self._removes.whole()
        removes = removes.where(pc.is_in(removes.keys, value_set=rows.keys))
        removed_at = pc.take(removes.versions, pc.index_in(rows.keys, value_set=removes.keys))
        is_last = pc.fill_null(pc.greater(rows.versions, removed_at), True)
        if not self.last_run or not self._tombstones:
            return is_last
        is_older = pc.less(rows.versions, pa.scalar(self.last_run, pa.int64()))
        return pc.and_not(is_last, pc.and_(is_older, pc.is_in(rows.keys, value_set=_whole(self._tombstones))))


def _whole(arrays: list[ArrowArray]) -> ArrowArray:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays([pa.array([], pa.int64()), *arrays])


def count_lost_files(state: Snapshot, listing: LogListing) -> int:
    """Return the number of logical files that the commits of a listing add and do not remove, but a state lacks."""
    from deltacli.delta.paths.keys import PathKeys

    table = state.table
    keys, history = PathKeys((table.uri, *table.storage.aliases)), FileHistory()
    faults: list[CommitCorrupt] = []
    for rows in named_files(table, listing, faults, []):
        paths = keys.of_log(rows.path).hashes
        named = NamedKeys(paths, logical_keys(paths, rows.vector), rows.version)
        match rows.kind:
            case "add":
                history.take_adds(named)
            case "remove":
                history.take_removes(named)
    for fault in faults:
        raise fault
    return history.unremoved_count(live_keys(state, keys))


def live_keys(state: Snapshot, keys: PathKeys) -> pyarrow.Array:
    """Return the keys (int64) of the live logical files of a version."""
    found = []
    for batch in state.file_actions.narrow():
        if batch.adds is not None and batch.adds.num_rows:
            hashes = keys.of_log(batch.adds.column("path")).hashes
            found.append(logical_keys(hashes, batch.adds.column("dv_id")))
    return _whole(found)


def named_files(
    table: TableHandle, listing: LogListing, faults: list[CommitCorrupt], metadata: list[Action]
) -> Iterator[FileReferences]:
    """Yield the files named by the commits of the log, newest first; unreadable commits are added to `faults`."""
    commits = [listing.commits[version] for version in sorted(listing.commits)]
    sound = [file for file in commits if file.size_bytes]
    for empty in (file for file in commits if not file.size_bytes):
        faults.append(_empty(empty))
    held = NamedFiles()
    yield from read_references(table, sound, held, faults=faults)
    metadata.extend(held.metadata)


def read_references(
    table: TableHandle,
    commits: Sequence[LogFile],
    held: NamedFiles,
    *,
    kinds: Collection[str] | None = None,
    faults: list[CommitCorrupt] | None = None,
) -> Iterator[FileReferences]:
    """Yield the files that commits name, in batches of bounded size.

    Args:
        table: The table of the commits.
        commits: The commits, in any order.
        held: Collects the files until they fill a batch, and the metaData actions.
        kinds: The kinds of actions to look at, None for all. Faults of others are not reported.
        faults: Takes the errors of commits that cannot be read. None to raise the first one.

    Raises:
        CommitCorrupt: Without `faults`, if a commit is damaged.
        StorageFailed: If a commit cannot be read.
    """
    for file, content in read_contents(table.storage, table.engine, commits, table.progress):
        actions = commit_actions(table.storage, file, content)
        try:
            yield from held.take((pair for pair in actions if kinds is None or pair[0] in kinds), file)
        except CommitCorrupt as fault:
            if faults is None:
                raise
            faults.append(fault)
        if len(held) >= _ROWS_HELD or is_large(file):
            yield from held.flush()
    yield from held.flush()


def _empty(file: LogFile) -> CommitCorrupt:
    return CommitCorrupt(
        f"commit {file.version} is empty, which indicates an interrupted write; repair it first",
        code="commit.empty",
        facts={"file": file.name},
        hint=command("validate"),
    )
