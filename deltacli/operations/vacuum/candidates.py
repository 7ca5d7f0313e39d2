"""The files that a table needs, and the comparison of a listing with them: which to delete, which to keep and why.

Spec: Add File and Remove File; Add CDC File; Deletion Vectors; Metadata Cleanup; Data Files (hidden names).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import CommitCorrupt, Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.listing import FileKind, HiddenNames, TableRoots, kinds, partition_of
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import FileBatch
from deltacli.delta.log.segment import LogListing
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.delta.paths.keys import LogKeys, PathKeys, is_among
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes, encoded_root
from deltacli.delta.paths.spelling_columns import drop_first_bytes, made_absolute
from deltacli.operations.vacuum.misnamed import LookalikeCollector, Lookalikes, MisnamedFiles
from deltacli.operations.vacuum.plan import Kept, Reason, of_protected
from deltacli.storage import ReadStorage, resolve_links
from deltacli.table.file_history import FileHistory, FileKeys, compute_keys_with_external
from deltacli.table.file_references import FileReferenceReader, FileReferences
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import find_last_commit_before
from deltacli.table.walk import TableWalk
from deltacli.work.files.classifying import ClassifiedFiles, KnownFiles, classify_files
from deltacli.work.files.walking import ListedFiles

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.partitions.directories import PartitionSelector
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- the files that a table needs --------------------------------------------------------------------------------------

_SOME = 20


class Window(NamedTuple):
    """The retained commits. `last_before` is the newest one committed before the cutoff, None where the log has none;
    `reaches_back`: every retained commit is still in the log.
    """

    cutoff_ms: int
    last_before: int | None
    reaches_back: bool

    def retains(self, version: int) -> bool:
        return self.last_before is None or version > self.last_before


class Keys(NamedTuple):
    """Hashes of paths, with one more column of the same length."""

    hashes: pyarrow.Array
    other: pyarrow.Array


class References(NamedTuple):
    """The files named by the log of a table, as hashes of keys (int64 arrays).

    `live`: the data files of the newest version below the root, with `live_written`, their hashes as the log writes
    them where that differs (else the same), and `live_sizes` (bytes). `protected`: all other files to keep: vectors,
    unexpired tombstones, retained commits, versions to keep, other tables. `removed`: files removed by commits, newest
    first, with their versions (null where known from a checkpoint only). `changes`: change data of commits that are
    not retained, with their versions. `named`: all other files the log names.
    """

    live: pyarrow.Array
    live_written: pyarrow.Array
    live_sizes: pyarrow.Array
    live_vectors: pyarrow.Array
    protected: pyarrow.Array
    retained: pyarrow.Array
    """Those of `protected` that must be there by these names: of retained versions, of versions to keep, of other
    tables, and live ones outside of the scope. Other readings of their paths are not among them.
    """
    removed: Keys
    changes: Keys
    named: pyarrow.Array
    vectors: pyarrow.Array
    """The files of deletion vectors, of any age."""
    window: Window
    listing: LogListing
    metadata: tuple[Action, ...]
    """The metaData actions of all commits."""
    faults: tuple[CommitCorrupt, ...]
    """Commits that could not be read; a vacuum must not rely on the others alone."""
    unknown_vector: str | None
    escaping: str | None
    removals: pyarrow.Table
    """If requested: files removed by commits that are not retained, newest first, see `removal_schema`."""
    some_live: tuple[tuple[str, str], ...]
    """The paths of a few live files, decoded and as the log writes them."""
    unlisted: pyarrow.Array
    """Files that were added after the listing was made."""
    history: FileHistory
    """The adds and removes of the commits, to find files that the newest version lost."""
    live_count: FileTotals
    """The number of all live files, wherever they are, and their bytes by the log."""
    lookalikes: Lookalikes
    """What other names of needed files would have in common with them."""
    viewed: pyarrow.Array = None
    """Those of `protected` that nothing but a symlink manifest needs; None without one."""
    streamed: pyarrow.Array = None
    """Those of `protected` that nothing but a query of Spark needs; None where no query is to be protected."""

    @property
    def needed(self) -> list[pyarrow.Array]:
        """The files that must be there by these names, in several arrays."""
        streamed = [] if self.streamed is None else [self.streamed]
        return [self.live, self.retained, self.live_vectors, *streamed]

    def with_viewed(self, hashes: pyarrow.Array) -> References:
        """Protect the files that manifests name."""
        alone = self._unprotected(hashes)
        return self._replace(protected=pa.concat_arrays([self.protected, alone]), viewed=alone)

    def with_streamed(self, hashes: pyarrow.Array) -> References:
        """Protect the files that queries need."""
        alone = self._unprotected(hashes)
        return self._replace(protected=pa.concat_arrays([self.protected, alone]), streamed=alone)

    def _unprotected(self, hashes: pyarrow.Array) -> pyarrow.Array:
        for others in (self.live, self.live_written, self.protected):
            hashes = pc.filter(hashes, pc.invert(pc.is_in(hashes, value_set=others)))
        return hashes


def removal_schema() -> pyarrow.Schema:
    """Return the columns of removals: `path` (binary, the key), `sizeBytes` (null where unknown), `modificationTimeMs`
    (that of the removal, 0 where unknown), `reason`, `removedAtVersion`, `hash`.
    """
    whole = pa.int64()
    return pa.schema(
        [
            ("path", pa.binary()),
            ("sizeBytes", whole),
            ("modificationTimeMs", whole),
            ("reason", pa.string()),
            ("removedAtVersion", whole),
            ("hash", whole),
        ]
    )


class _Batches:
    """Collects arrays into one."""

    def __init__(self) -> None:
        self.parts: list[Any] = []  # Any: pyarrow has no types

    def add(self, *arrays: Any) -> None:
        self.parts.extend(array for array in arrays if len(array))

    def whole(self) -> Any:
        hashes = pa.concat_arrays(self.parts) if self.parts else pa.array([], pa.int64())
        self.parts = [hashes]
        return hashes


Scope = Callable[[Any], Any]
"""Keys (binary array) -> which of them are considered (boolean array); Any: pyarrow has no types."""


class ReferenceCollector:
    """Collects files to keep and other named files, source by source."""

    def __init__(
        self,
        keys: PathKeys,
        window: Window,
        removals_since: int | None = None,
        unlisted_since: int | None = None,
        last_run: int = 0,
        *,
        with_lookalikes: bool = False,
    ) -> None:
        self._keys, self._window = keys, window
        self._lookalikes = LookalikeCollector(keys, is_listed=not with_lookalikes)
        self.history = FileHistory(last_run)
        self.live_count = FileTotals()
        self._removals_since, self._unlisted_since = removals_since, unlisted_since
        self.unlisted = _Batches()
        self.removals: list[RecordBatch] = []
        self.some_live: list[tuple[str, str]] = []
        self.is_decoded = True
        """True as long as the log spells every live file as the store does."""
        self.live, self.written, self.sizes, self.live_vectors = _Batches(), _Batches(), _Batches(), _Batches()
        self.protected, self.named, self.vectors = _Batches(), _Batches(), _Batches()
        self.retained = _Batches()
        self.removed, self.removed_versions = _Batches(), _Batches()
        self.changes, self.change_versions = _Batches(), _Batches()
        self.unknown_vector: str | None = None
        self.escaping: str | None = None

    def take_live(self, adds: pyarrow.RecordBatch, scope: Scope | None = None) -> None:
        """Add the live files of the newest version, in narrow columns. Those outside of `scope` need not be found."""
        keys = self._of_log(adds.column("path"))
        self._lookalikes.add(keys, adds.column("size"), adds.column("dv_id"))
        is_here = pc.is_valid(keys.hashes)
        if scope is not None:
            is_here = pc.and_(is_here, pc.fill_null(scope(keys.keys), False))
        hashes = pc.filter(keys.hashes, is_here)
        if len(self.some_live) < _SOME:
            paths = (pc.filter(one, is_here) for one in (keys.keys, keys.undecoded))
            some = (one.slice(0, _SOME - len(self.some_live)).to_pylist() for one in paths)
            self.some_live += [
                (decode_path_bytes(key), decode_path_bytes(written)) for key, written in zip(*some, strict=True)
            ]
        self.live.add(hashes)
        self.retained.add(pc.filter(keys.hashes, pc.and_(pc.is_valid(keys.hashes), pc.invert(is_here))))
        every = self.live_count
        size_bytes = pc.sum(adds.column("size")).as_py() or 0
        self.live_count = FileTotals(every.files + adds.num_rows, every.size_bytes + size_bytes)
        sizes = pc.filter(adds.column("size"), is_here)
        self.sizes.add(pc.if_else(pc.less(sizes, 0), 0, sizes))
        self.protected.add(keys.alternative_hashes)
        is_same = keys.undecoded is keys.keys
        self.is_decoded = self.is_decoded and is_same
        self.written.add(hashes if is_same else self._keys.hash_listed_paths(pc.filter(keys.undecoded, is_here)))
        self.live_vectors.add(self._take_vectors(adds.column("dv_id")))

    def take_tombstones(self, removes: pyarrow.RecordBatch) -> None:
        """Add the tombstones of the newest version: unexpired ones protect their files."""
        moments = pc.fill_null(removes.column("deletion_timestamp"), 0)
        protects = pc.greater_equal(moments, pa.scalar(self._window.cutoff_ms, pa.int64()))
        for rows, is_protected in ((pc.filter(removes, protects), True), (_others(removes, protects), False)):
            if rows.num_rows:
                self._take_removed(rows.column("path"), rows.column("dv_id"), None, None, is_protected=is_protected)

    def take_commits(self, rows: FileReferences) -> None:
        """Add the files that commits name. Files of retained commits are protected, and files removed within the
        retention by the time of the remove, so that a checkpoint without its tombstone does not change the result.
        """
        before = self._window.last_before
        is_protected = is_retained = pc.greater(rows.version, pa.scalar(-1 if before is None else before, pa.int64()))
        if self._removals_since is not None and rows.kind != "add":
            self._take_removals(_some(rows, pc.invert(is_retained)), self._removals_since)
        if rows.kind == "remove":
            is_late = pc.greater_equal(rows.deletion_timestamp, pa.scalar(self._window.cutoff_ms, pa.int64()))
            is_protected = pc.or_(is_retained, pc.fill_null(is_late, False))
        self._take_named(_some(rows, is_protected), is_protected=True)
        self._take_named(_some(rows, pc.invert(is_protected)), is_protected=False)

    def _take_named(self, part: FileReferences, *, is_protected: bool) -> None:
        if not len(part.path):
            return
        if part.kind == "remove":
            self._take_removed(part.path, part.vector, part.version, part.size, is_protected=is_protected)
            return
        keys = self._of_log(part.path)
        if is_protected:
            self._lookalikes.add(keys, part.size, part.vector)
        if self._unlisted_since is not None and part.kind == "add":
            is_new = pc.greater_equal(part.version, self._unlisted_since)
            self.unlisted.add(pc.drop_null(pc.filter(keys.hashes, is_new)))
        hashes = pc.drop_null(keys.hashes)
        if part.kind == "add":
            vectors = self._take_added(part, keys)
            if is_protected:
                self.retained.add(hashes, vectors)
                self.protected.add(keys.alternative_hashes)
            else:
                self.named.add(hashes, keys.alternative_hashes, vectors)
        elif is_protected:
            self.retained.add(hashes, self._take_vectors(part.vector))
            self.protected.add(keys.alternative_hashes)
        else:
            self.changes.add(hashes)
            self.change_versions.add(pc.filter(part.version, pc.is_valid(keys.hashes)))

    def _take_added(self, part: FileReferences, keys: LogKeys) -> ArrowArray:
        """Record added files in the history, and return the hashes of the files of their deletion vectors."""
        rows = FileKeys(
            keys.hashes, compute_keys_with_external(self._keys, part.path, keys.hashes, part.vector), part.version
        )
        self.history.record_adds(rows)
        self.history.record_alternative_paths(keys.alternative_hashes, are_added=True)
        has_vector = pc.not_equal(part.vector, "")
        if not pc.any(has_vector).as_py():
            return rows.files.slice(0, 0)
        vectors = self._vector_files(pc.filter(part.vector, has_vector))
        self.history.record_vectors(rows.where(has_vector)._replace(files=vectors))
        return pc.drop_null(vectors)

    def _take_removals(self, rows: FileReferences, since: int) -> None:
        """Collect the files that later commits removed, with their paths: data files and vectors, or change data."""
        rows = _some(rows, pc.greater_equal(rows.version, since))
        if not len(rows.path):
            return
        files, vectors = self._keys.compute_keys(_flat(rows.path)), self._keys.compute_vector_keys(_flat(rows.vector))
        moments = pc.fill_null(rows.deletion_timestamp, 0)
        unknown = pa.nulls(len(rows.path), pa.int64())
        reason = Reason.CHANGE_DATA if rows.kind == "cdc" else Reason.TOMBSTONE
        for keys, sizes, why, hashes in (
            (files.keys, rows.size, reason, files.hashes),
            (vectors.keys, unknown, Reason.VECTOR, vectors.hashes),
        ):
            reasons = pa.repeat(why.value, len(keys))
            columns = [keys, sizes, moments, reasons, rows.version, hashes]
            batch = pa.RecordBatch.from_arrays(columns, schema=removal_schema())
            self.removals.append(pc.filter(batch, pc.is_valid(hashes)))

    def take_needed(self, batch: pyarrow.RecordBatch) -> None:
        """Add files to keep for another reason, in narrow columns."""
        keys = self._of_log(batch.column("path"))
        sizes = batch.column("size") if "size" in batch.schema.names else None
        self._lookalikes.add(keys, sizes, batch.column("dv_id"))
        self.retained.add(pc.drop_null(keys.hashes), self._take_vectors(batch.column("dv_id")))
        self.protected.add(keys.alternative_hashes)

    def finish(self, listing: LogListing, metadata: Sequence[Action], faults: Sequence[CommitCorrupt]) -> References:
        """Return everything that was added."""
        live, retained = self.live.whole(), self.retained.whole()
        return References(
            live=live,
            live_written=live if self.is_decoded else self.written.whole(),
            live_sizes=self.sizes.whole(),
            live_vectors=self.live_vectors.whole(),
            protected=pa.concat_arrays([self.protected.whole(), retained, self.live_vectors.whole()]),
            retained=retained,
            removed=Keys(self.removed.whole(), self.removed_versions.whole()),
            changes=Keys(self.changes.whole(), self.change_versions.whole()),
            named=self.named.whole(),
            vectors=self.vectors.whole(),
            window=self._window,
            listing=listing,
            metadata=tuple(metadata),
            faults=tuple(faults),
            unknown_vector=self.unknown_vector,
            escaping=self.escaping,
            removals=pa.Table.from_batches(self.removals, removal_schema()),
            some_live=tuple(self.some_live),
            unlisted=self.unlisted.whole(),
            history=self.history,
            live_count=self.live_count,
            lookalikes=self._lookalikes.finish(),
        )

    def _take_removed(self, paths: Any, vectors: Any, versions: Any, sizes: Any, *, is_protected: bool) -> None:
        removed_keys = self._of_log(paths)
        if is_protected:
            self._lookalikes.add(removed_keys, sizes, vectors)
        keys = compute_keys_with_external(self._keys, _flat(paths), removed_keys.hashes, _flat(vectors))
        if versions is None:
            self.history.record_tombstones(keys)
        else:
            self.history.record_removes(FileKeys(removed_keys.hashes, keys, versions))
        self.history.record_alternative_paths(removed_keys.alternative_hashes, are_added=False)
        is_here = pc.is_valid(removed_keys.hashes)
        hashes = pc.filter(removed_keys.hashes, is_here)
        known = pa.nulls(len(paths), pa.int64()) if versions is None else versions
        self.removed.add(hashes)
        self.removed_versions.add(pc.filter(known, is_here))
        if is_protected:
            self.retained.add(hashes)
            self.protected.add(removed_keys.alternative_hashes)
        else:
            self.named.add(removed_keys.alternative_hashes)
        if pc.any(pc.not_equal(vectors, "")).as_py():
            files = self._vector_files(vectors)
            self.removed.add(pc.drop_null(files))
            self.removed_versions.add(pc.filter(known, pc.is_valid(files)))
            if is_protected:
                self.retained.add(pc.drop_null(files))

    def _take_vectors(self, ids: Any) -> Any:  # Any: pyarrow has no types
        return pc.drop_null(self._vector_files(pc.filter(ids, pc.not_equal(ids, ""))))

    def _vector_files(self, ids: Any) -> Any:  # Any: pyarrow has no types
        """Return the hashes of the files of vectors, one row each; other readings of their paths are protected."""
        if not len(ids):
            return pa.array([], pa.int64())
        keys = self._keys.compute_vector_keys(_flat(ids))
        self.unknown_vector = self.unknown_vector or keys.unknown
        self.vectors.add(pc.drop_null(keys.hashes), keys.alternative_hashes)
        self.protected.add(keys.alternative_hashes)
        return keys.hashes

    def _of_log(self, paths: ArrowArray) -> LogKeys:
        keys = self._keys.compute_keys(_flat(paths))
        self.escaping = self.escaping or keys.escaping
        return keys


def find_window(table: TableHandle, listing: LogListing, cutoff_ms: int, snapshot: Snapshot) -> Window:
    """Return which commits are retained. `listing` is the whole log, `snapshot` the newest version."""
    last_before = (
        find_last_commit_before(table, listing, cutoff_ms, loaded_snapshot=snapshot) if listing.commits else None
    )
    first = listing.commit_runs[-1][0] if listing.commits else listing.newest_version + 1
    reaches_back = first == 0 or (last_before is not None and first <= last_before + 1)
    return Window(cutoff_ms, last_before, reaches_back)


def collect_references(
    snapshot: Snapshot,
    keys: PathKeys,
    window: Window,
    *,
    keep_versions: Sequence[int] = (),
    protect: Sequence[Snapshot] = (),
    scope: Scope | None = None,
    removals_since: int | None = None,
    unlisted_since: int | None = None,
    with_lookalikes: bool = False,
) -> References:
    """Read the log of the newest version, and of other tables, for every file to keep. With `removals_since` also
    collect the paths of files removed from that version on; with `unlisted_since` files added from that version on need
    not be listed. `with_lookalikes`: not the whole table is listed.

    Raises what `read_snapshot` raises, also for the versions to keep.
    """
    table = snapshot.table
    listing = list_log(table.storage, progress=table.progress)
    runs = listing.commit_runs
    last_run = runs[-1][0] if runs else 0
    collector = ReferenceCollector(
        keys, window, removals_since, unlisted_since, last_run, with_lookalikes=with_lookalikes
    )
    reader = FileReferenceReader(table, listing)
    for rows in reader.read():
        collector.take_commits(rows)
    for newest in snapshot.file_actions.read_narrow_batches():
        if newest.adds is not None and newest.adds.num_rows:
            collector.take_live(newest.adds, scope)
        if newest.removes is not None and newest.removes.num_rows:
            collector.take_tombstones(newest.removes)
    for version in keep_versions:
        for batch in read_snapshot(table, version=version).file_actions.read_narrow_batches():
            if batch.adds is not None and batch.adds.num_rows:
                collector.take_needed(batch.adds)
    for other in protect:
        with of_protected(other.table.uri):
            _protect_table(other, collector, window.cutoff_ms)
    return collector.finish(listing, reader.metadata, reader.errors)


def _protect_table(other: Snapshot, collector: ReferenceCollector, cutoff_ms: int) -> None:
    """Add the files that another table needs, which may retain removed files for longer, by absolute paths."""
    root = encoded_root(other.table.uri)
    cutoff_ms = min(cutoff_ms, other.table.clock() - deleted_file_retention_ms(other.properties))
    listing = list_log(other.table.storage, progress=other.table.progress)
    window = find_window(other.table, listing, cutoff_ms, other)
    reader = FileReferenceReader(other.table, listing)

    for rows in reader.read():
        needed = pc.greater(rows.version, pa.scalar(-1 if window.last_before is None else window.last_before))
        part = _some(rows, needed)
        if len(part.path):
            collector.take_needed(_narrow(made_absolute(part.path, root), part.vector, part.size))
    if reader.errors:
        raise reader.errors[0]
    for batch in other.file_actions.read_narrow_batches():
        for found in _needed_of(batch, cutoff_ms):
            paths = made_absolute(found.column("path"), root)
            sizes = found.column("size") if "size" in found.schema.names else pa.nulls(len(paths), pa.int64())
            collector.take_needed(_narrow(paths, found.column("dv_id"), sizes))


def _needed_of(batch: FileBatch, cutoff_ms: int) -> Iterator[Any]:  # Any: pyarrow has no types
    if batch.adds is not None and batch.adds.num_rows:
        yield batch.adds
    if batch.removes is not None and batch.removes.num_rows:
        moments = pc.fill_null(batch.removes.column("deletion_timestamp"), 0)
        kept = pc.filter(batch.removes, pc.greater_equal(moments, cutoff_ms))
        if kept.num_rows:
            yield kept


def _narrow(paths: Any, vectors: Any, sizes: Any) -> Any:  # Any: pyarrow has no types
    return pa.RecordBatch.from_arrays([_flat(paths), _flat(vectors), _flat(sizes)], ["path", "dv_id", "size"])


def _some(rows: FileReferences, mask: ArrowArray) -> FileReferences:
    return FileReferences(rows.kind, *(pc.filter(column, mask) for column in rows[1:]))


def _others(rows: RecordBatch, mask: ArrowArray) -> RecordBatch:
    return pc.filter(rows, pc.invert(mask))


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


# -- the comparison with a listing -------------------------------------------------------------------------------------

_LEAST_ROWS, _MOST_ROWS = 524_288, 1_000_000
_EXAMPLES = 5
_MOST_LINKS = 8
"""Maximum number of links in the path of one file."""
_MOST_NAMES = 4_000_000
"""Maximum number of names of files through links, which may form cycles; with more names the files are kept."""


class Doubts(NamedTuple):
    """Files (boolean arrays) that are kept because the log is inconsistent or partly unreadable."""

    lost: Any
    """The log adds and does not remove them, but the newest version lacks them."""
    unread: Any
    """No readable part of the log names them, but a damaged older checkpoint may."""
    fault: Unreadable | None = None
    """The fault of the damaged checkpoint; None where everything could be read."""


def rows_at_once(references: References) -> int:
    """Number of listed files compared at a time: each lookup builds a hash table of all needed files."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, (len(references.live) + len(references.protected)) // 4))


@dataclass(eq=False, repr=False)
class CandidateClassifier:
    """Collects classified files; `choose` returns the candidates."""

    storage: ReadStorage
    references: References
    keys: PathKeys
    names: HiddenNames
    cutoff_ms: int
    may_repeat: bool = False
    """The listing may contain a file more than once, as an inventory does."""
    hits: list[Any] = field(default_factory=list)  # Any: pyarrow has no types
    """Hashes of listed files that are needed."""
    lost: ArrowArray = None
    """Hashes of listed files that are kept because the log is inconsistent; None before `choose`."""
    young: list[Any] = field(default_factory=list)
    hidden: int = 0
    listed: int = 0
    _roots: TableRoots = field(default_factory=TableRoots)
    _old: list[Any] = field(default_factory=list)
    _live_hits: int = 0

    @cached_property
    def known(self) -> KnownFiles:
        """What files are compared with."""
        found = self.references
        others = [found.protected, *([] if found.live_written is found.live else [found.live_written])]
        return KnownFiles(self.keys, self.names, self.cutoff_ms, found.live, pa.concat_arrays(others))

    def take(self, files: ListedFiles) -> None:
        """Classify listed files."""
        self.merge(classify_files(files, self.known, self.storage))

    def merge(self, part: ClassifiedFiles) -> None:
        """Add classified files."""
        self.listed += part.listed
        self.hidden += part.hidden
        self._live_hits += part.live
        self.hits += part.hits
        self.young += part.young
        self._old += part.old
        self._roots.merge(part.roots)

    def is_needed(self, hashes: pyarrow.Array) -> pyarrow.Array:
        return pc.or_(self.known.find_live(hashes), self.known.find_others(hashes))

    def old_files(self) -> pyarrow.Table:
        """Return every file that is not needed and old enough: path, sizeBytes, modificationTimeMs, hash."""
        names = ["path", "sizeBytes", "modificationTimeMs", "hash"]
        types = [pa.binary(), pa.int64(), pa.int64(), pa.int64()]
        found = pa.Table.from_batches(self._old, pa.schema(list(zip(names, types, strict=True))))
        if not self.may_repeat:
            return found
        paths = found.column("path").combine_chunks()
        return found.take(pc.index_in(pc.unique(paths), value_set=paths))

    @cached_property
    def needed(self) -> pyarrow.Array:
        found = pa.concat_arrays([*self.hits, pa.array([], pa.int64())])
        return pc.unique(found) if self.may_repeat else found

    @property
    def young_files(self) -> int:
        if self.may_repeat:
            return len(pc.unique(pa.concat_arrays([*self.young, pa.array([], pa.int64())])))
        return sum(map(len, self.young))

    @cached_property
    def live_found(self) -> tuple[FileTotals, FileTotals]:
        """Return the expected and the found number of live files in the listing, with their bytes by the log."""
        live, written, sizes = self.references.live, self.references.live_written, self.references.live_sizes
        if (
            self._live_hits == len(live) and not self.may_repeat
        ):  # the usual case: all were found, and no lookup is needed
            every = FileTotals(len(live), pc.sum(sizes).as_py() or 0)
            return every, every
        is_found = is_among(live, self.needed)
        if written is not live:
            is_found = pc.or_(is_found, is_among(written, self.needed))
        found = pc.filter(sizes, is_found)
        if len(self.references.unlisted):
            is_new = pc.is_in(live, value_set=self.references.unlisted)
            sizes = pc.filter(sizes, pc.or_(is_found, pc.invert(is_new)))
        return FileTotals(len(sizes), pc.sum(sizes).as_py() or 0), FileTotals(len(found), pc.sum(found).as_py() or 0)

    def find_unlisted(self) -> pyarrow.Array:
        """Return the hashes of needed files that were not listed under their names."""
        references, listed = self.references, self.needed
        live, *others = references.needed
        parts = [pc.filter(hashes, pc.invert(is_among(hashes, listed))) for hashes in others if len(hashes)]
        if self._live_hits != len(live) or self.may_repeat:  # else every live file was listed
            is_listed = is_among(live, listed)
            if references.live_written is not live:
                is_listed = pc.or_(is_listed, is_among(references.live_written, listed))
            parts.append(pc.filter(live, pc.invert(is_listed)))
        return pa.concat_arrays([pa.array([], pa.int64()), *parts])

    @cached_property
    def removed_stays(self) -> pyarrow.Array:
        """Return for each removal in the log whether the file was listed and is kept."""
        survivors = pa.concat_arrays([self.needed, *self.young, *([] if self.lost is None else [self.lost])])
        return is_among(self.references.removed.hashes, survivors)

    @property
    def tables(self) -> dict[str, str]:
        """Directories that are tables of their own by the listed files, '' for the root -> the format."""
        return self._roots.found


class Walk(Protocol):
    """Other entries found by the listing."""

    links: list[str]
    hidden_directories: list[str]


class CandidateChoice(NamedTuple):
    """What limits the candidates."""

    include_foreign: bool = False
    selector: PartitionSelector | None = None
    proven_only: bool = False
    """The log lacks removals within the retention: only files that it proves to be old enough are deleted."""
    find_doubts: Callable[[ArrowArray], Doubts] | None = None
    """Finds the files that the newest version may have lost."""
    find_misnamed: Callable[[ArrowTable], MisnamedFiles] | None = None
    """Finds the files that may be needed ones which are missing under their names."""
    without_logical_names: Callable[[pyarrow.Table], tuple[pyarrow.Table, pyarrow.Table]] | None = None
    """Takes out the files that have columns under logical names, and returns them as the second table."""


class Candidates(NamedTuple):
    """The files to delete, as in `VacuumPlan.candidates`, with their hashes; and the old files that are kept."""

    rows: pyarrow.Table
    hashes: pyarrow.Array
    foreign: FileTotals
    foreign_examples: tuple[str, ...]
    unproven: int
    outside_selection: int
    in_nested: int
    lost: pyarrow.Table
    """The files that are kept because the log is inconsistent, a part of `unproven`; columns as in `choose`.
    """
    unread: pyarrow.Table
    """The same for files that a damaged checkpoint may name."""
    misnamed: pyarrow.Table
    """The same for files that may be missing ones; columns as in `MisnamedFiles.table_of`."""
    fault: Unreadable | None
    """The reason why it cannot be read."""
    with_logical_names: pyarrow.Table
    """The files that are kept because they have columns under logical names, a part of `unproven`; `why` says which."""


def choose(old: pyarrow.Table, nested: Sequence[str], references: References, choice: CandidateChoice) -> Candidates:
    """Return the reason to delete each old unneeded file, without the files that are kept for another reason."""
    rows = _with_reasons(outside_of(old, nested), references)
    in_nested = old.num_rows - rows.num_rows
    foreign, examples = FileTotals(), ()
    if not choice.include_foreign:
        is_foreign = pc.equal(rows.column("reason"), Reason.FOREIGN.value)
        found = pc.filter(rows, is_foreign)
        foreign = FileTotals(found.num_rows, pc.sum(found.column("sizeBytes")).as_py() or 0)
        examples = tuple(
            path.decode("utf-8", "surrogateescape") for path in found.column("path").slice(0, _EXAMPLES).to_pylist()
        )
        rows = pc.filter(rows, pc.invert(is_foreign))
    before = rows.num_rows
    rows, lost, unread, fault = _without_doubtful(rows, choice)
    rows, misnamed = _without_misnamed(rows, choice)
    if choice.proven_only:
        rows = pc.filter(rows, rows.column("isKnown"))
    if references.unknown_vector is not None:
        for reason in (Reason.VECTOR, Reason.FOREIGN):  # the name of such a file is not known
            rows = pc.filter(rows, pc.not_equal(rows.column("reason"), reason.value))
    unproven, before = before - rows.num_rows, rows.num_rows
    if choice.selector is not None and rows.num_rows:
        rows = pc.filter(rows, choice.selector.mask(rows.column("path").combine_chunks()))
    outside = before - rows.num_rows
    with_logical_names = rows.slice(0, 0)
    if choice.without_logical_names is not None:
        rows, with_logical_names = choice.without_logical_names(rows)
    unproven += with_logical_names.num_rows
    rows = rows.combine_chunks()
    rows = pc.take(rows, pc.sort_indices(rows.column("path").combine_chunks()))
    hashes = rows.column("hash").combine_chunks()
    paths = rows.column("path").combine_chunks()
    rows = rows.select(["path", "sizeBytes", "modificationTimeMs", "reason", "removedAtVersion"])
    rows = rows.append_column("partition", partition_of(paths))
    return Candidates(
        rows, hashes, foreign, examples, unproven, outside, in_nested, lost, unread, misnamed, fault, with_logical_names
    )


def _without_doubtful(
    rows: pyarrow.Table, choice: CandidateChoice
) -> tuple[pyarrow.Table, pyarrow.Table, pyarrow.Table, Unreadable | None]:
    """Return the rows that the newest version may lack: those it lost, and unknown ones with the reason."""
    if choice.find_doubts is None or not rows.num_rows:
        return rows, rows.slice(0, 0), rows.slice(0, 0), None
    found = choice.find_doubts(rows.column("hash").combine_chunks())
    is_unread = pc.and_not(found.unread, pc.equal(rows.column("reason"), Reason.CHANGE_DATA.value))
    is_unread = pc.and_not(is_unread, found.lost)
    stays = pc.or_(found.lost, is_unread)
    return pc.filter(rows, pc.invert(stays)), pc.filter(rows, found.lost), pc.filter(rows, is_unread), found.fault


def _without_misnamed(rows: pyarrow.Table, choice: CandidateChoice) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Return the rows that are not in doubt because of their names, and those that are, as in `Candidates`."""
    doubts = MisnamedFiles.none_of(rows.num_rows) if choice.find_misnamed is None else choice.find_misnamed(rows)
    return pc.filter(rows, pc.invert(doubts.is_doubtful)), doubts.table_of(rows)


def outside_of(rows: pyarrow.Table, directories: Sequence[str]) -> pyarrow.Table:
    """Return the rows whose paths are none of the directories, or files, and in none of them."""
    for directory in directories:
        name, paths = encode_path_bytes(directory), rows.column("path")
        is_inside = pc.or_(pc.starts_with(paths, pattern=name + b"/"), pc.equal(paths, name))
        rows = pc.filter(rows, pc.invert(is_inside))
    return rows


def _with_reasons(rows: pyarrow.Table, references: References) -> pyarrow.Table:
    """Add `reason`, `removedAtVersion`, and whether the log proves that it was removed (`isKnown`)."""
    hashes = rows.column("hash").combine_chunks()
    of_removed = pc.index_in(hashes, value_set=references.removed.hashes)
    of_changes = pc.index_in(hashes, value_set=references.changes.hashes)
    is_removed = pc.or_(pc.is_valid(of_removed), pc.is_valid(of_changes))
    versions = pc.coalesce(pc.take(references.removed.other, of_removed), pc.take(references.changes.other, of_changes))
    kind = kinds(rows.column("path").combine_chunks())
    is_vector = pc.or_(pc.equal(kind, FileKind.VECTOR), pc.is_in(hashes, value_set=references.vectors))
    is_change_data = pc.equal(kind, FileKind.CHANGE_DATA)
    is_known_kind = pc.or_(pc.not_equal(kind, FileKind.FOREIGN), pc.is_in(hashes, value_set=references.named))
    reason = pc.if_else(
        is_vector,
        Reason.VECTOR.value,
        pc.if_else(
            is_change_data,
            Reason.CHANGE_DATA.value,
            pc.if_else(
                is_removed,
                Reason.TOMBSTONE.value,
                pc.if_else(is_known_kind, Reason.UNCOMMITTED.value, Reason.FOREIGN.value),
            ),
        ),
    )
    # Before a gap in the log the later history of a file is unknown.
    runs = references.listing.commit_runs
    is_sure = pc.greater_equal(versions, runs[-1][0]) if runs else pc.is_null(versions)
    is_known = pc.or_(pc.and_(is_removed, pc.fill_null(is_sure, True)), is_change_data)
    return (
        rows.append_column("reason", pc.cast(reason, pa.string()))
        .append_column("removedAtVersion", versions)
        .append_column("isKnown", is_known)
    )


def kept_files(judge: CandidateClassifier, found: Candidates, walk: Walk, nested: Sequence[str]) -> Kept:
    """The listed files that are kept."""
    _, live = judge.live_found
    vectors = judge.references.live_vectors
    of_vectors = pc.sum(pc.is_in(judge.needed, value_set=vectors)).as_py() or 0 if len(vectors) else 0
    return Kept(
        live=FileTotals(live.files + of_vectors, live.size_bytes),
        retained=max(0, len(judge.needed) - live.files - of_vectors),
        young=judge.young_files,
        foreign=found.foreign,
        hidden=judge.hidden + len(walk.hidden_directories),
        links=len(walk.links),
        unproven=found.unproven,
        outside_selection=found.outside_selection,
        nested_tables=tuple(sorted(nested)),
        foreign_examples=found.foreign_examples,
    )


def batches_of(listed: Iterator[ListedFiles], rows: int) -> Iterator[ListedFiles]:
    """Join batches of a listing until each has so many rows."""
    held: list[ListedFiles] = []
    count = 0
    for files in listed:
        held.append(files)
        count += len(files.paths)
        if count >= rows:
            yield _joined(held)
            held, count = [], 0
    if held:
        yield _joined(held)


def _joined(held: list[ListedFiles]) -> ListedFiles:
    if len(held) == 1:
        return held[0]

    def whole(columns: list[Any]) -> Any:  # Any: pyarrow has no types
        return None if any(column is None for column in columns) else pa.concat_arrays(columns)

    paths: list[Any] = [files.paths for files in held]
    joined = list(chain.from_iterable(paths)) if isinstance(paths[0], list) else pa.concat_arrays(paths)
    sizes = whole([files.sizes for files in held])
    times = whole([files.modified_ms for files in held])
    archived = tuple(chain.from_iterable(files.archived for files in held))
    return ListedFiles(joined, sizes, times, all(files.is_plain for files in held), archived)


def spare_linked(judge: CandidateClassifier, walk: TableWalk | None, *, names_hidden: bool) -> pyarrow.Table:
    """Return the old files without those that the log needs by another name, which are passed to the judge.

    `walk` has listed the whole table, None if nothing has; with `names_hidden` the log names files in hidden
    directories, so that links in these count, too.
    """
    old, storage = judge.old_files(), judge.storage
    if not old.num_rows or not storage.capabilities.has_directories:
        return old
    if walk is None:
        walk = TableWalk(storage, judge.names)
        for _ in walk.files():
            pass
    links = [*walk.links, *(walk.hidden_links if names_hidden else ())]
    ways = [(encode_path_bytes(target), encode_path_bytes(link)) for target, link in resolve_links(storage, links)]
    if not ways:
        return old

    def is_needed(names: pyarrow.Array) -> pyarrow.Array:
        hashes = judge.keys.hash_listed_paths(names)
        found = judge.is_needed(hashes)
        judge.hits.append(pc.filter(hashes, found))
        return found

    return pc.filter(old, pc.invert(_has_needed_name(old, ways, is_needed)))


def is_live_by_links(
    rows: pyarrow.Table,
    storage: ReadStorage,
    directories: Iterable[str],
    is_live: Callable[[pyarrow.Array], pyarrow.Array],
) -> pyarrow.Array:
    """Return which files are live by another name, because the path of one of these directories contains a link."""
    names = [name for name in directories if "\0" not in name]
    found = resolve_links(storage, names)
    ways = [(encode_path_bytes(target), encode_path_bytes(name)) for target, name in found if target != name]
    return _has_needed_name(rows, ways, is_live)


def _has_needed_name(
    old: pyarrow.Table, ways: Sequence[tuple[bytes, bytes]], is_wanted: Callable[[pyarrow.Array], pyarrow.Array]
) -> pyarrow.Array:
    """Return which files have a wanted name through these links (target, link)."""
    numbers = rows = pa.array(range(old.num_rows), pa.int64())
    names = old.column("path").combine_chunks()
    is_needed = pa.repeat(pa.scalar(False), old.num_rows)
    for _ in range(_MOST_LINKS if ways else 0):
        rows, names = _by_other_names(rows, names, ways)
        if len(rows) > _MOST_NAMES:
            return pc.or_(is_needed, pc.is_in(numbers, value_set=rows))
        if not len(rows):
            break
        is_needed = pc.or_(is_needed, pc.is_in(numbers, value_set=pc.filter(rows, is_wanted(names))))
    return is_needed


def _by_other_names(
    rows: pyarrow.Array, names: pyarrow.Array, ways: Sequence[tuple[bytes, bytes]]
) -> tuple[pyarrow.Array, pyarrow.Array]:
    """Return the names of files through one more link, with the indices of their rows."""
    found_rows, found_names = [pa.array([], pa.int64())], [pa.array([], pa.binary())]
    for target, link in ways:
        below, start = (target + b"/", len(target) + 1) if target else (b"", 0)
        is_below = pc.starts_with(names, pattern=below)
        is_target = pc.equal(names, pa.scalar(target, pa.binary()))
        inner = drop_first_bytes(pc.filter(names, is_below), start)
        found_names += [
            pc.binary_join_element_wise(pa.scalar(link), inner, b"/"),
            pa.array([link] * is_target.true_count, pa.binary()),
        ]
        found_rows += [pc.filter(rows, is_below), pc.filter(rows, is_target)]
    return pa.concat_arrays(found_rows), pa.concat_arrays(found_names)
