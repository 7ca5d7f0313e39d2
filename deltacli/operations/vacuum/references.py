"""The files that a table needs, and what its log contains about all others.

Spec: Add File and Remove File; Add CDC File; Deletion Vectors; Metadata Cleanup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.plan import Amount
from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import FileBatch
from deltacli.delta.log.segment import LogListing
from deltacli.delta.paths import text_of
from deltacli.delta.protocol.property_values import deleted_file_retention_ms
from deltacli.delta.vacuum.keys import LogKeys, PathKeys
from deltacli.operations.vacuum.plan import Reason
from deltacli.table.file_history import FileHistory, NamedKeys, logical_keys, named_files
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import last_commit_before
from deltacli.work.commits.file_references import FileReferences

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_SOME = 20


class Window(NamedTuple):
    """The retained commits. `last_before` is the newest one committed before the cutoff, None where the log has none;
    `reaches_back`: every retained commit is still in the log.
    """

    cutoff_ms: int
    last_before: int | None
    reaches_back: bool

    def retains(self, version: int) -> bool:
        """Return True if the commit of a version is retained."""
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
    live_count: Amount
    """The number of all live files, wherever they are, and their bytes by the log."""
    viewed: pyarrow.Array = None
    """Those of `protected` that nothing but a symlink manifest needs; None without one."""

    def with_viewed(self, hashes: pyarrow.Array) -> References:
        """Protect the files that manifests name."""
        import pyarrow as pa

        known = (self.live, self.live_written, self.protected)
        for others in known:
            hashes = pc.filter(hashes, pc.invert(pc.is_in(hashes, value_set=others)))
        return self._replace(protected=pa.concat_arrays([self.protected, hashes]), viewed=hashes)


def removal_schema() -> pyarrow.Schema:
    """Return the columns of removals: `path` (binary, the key), `sizeBytes` (null where unknown), `modificationTimeMs`
    (that of the removal, 0 where unknown), `reason`, `removedAtVersion`, `hash`.
    """
    import pyarrow as pa

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
        import pyarrow as pa

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
    ) -> None:
        self._keys, self._window = keys, window
        self.history = FileHistory(last_run)
        self.live_count = Amount()
        self._removals_since, self._unlisted_since = removals_since, unlisted_since
        self.unlisted = _Batches()
        self.removals: list[RecordBatch] = []
        self.some_live: list[tuple[str, str]] = []
        self.is_decoded = True
        """True as long as the log spells every live file as the store does."""
        self.live, self.written, self.sizes, self.live_vectors = _Batches(), _Batches(), _Batches(), _Batches()
        self.protected, self.named, self.vectors = _Batches(), _Batches(), _Batches()
        self.removed, self.removed_versions = _Batches(), _Batches()
        self.changes, self.change_versions = _Batches(), _Batches()
        self.unknown_vector: str | None = None
        self.escaping: str | None = None

    def take_live(self, adds: pyarrow.RecordBatch, scope: Scope | None = None) -> None:
        """Add the live files of the newest version, in narrow columns. Those outside of `scope` need not be found."""
        keys = self._of_log(adds.column("path"))
        is_here = pc.is_valid(keys.hashes)
        if scope is not None:
            is_here = pc.and_(is_here, pc.fill_null(scope(keys.keys), False))
        hashes = pc.filter(keys.hashes, is_here)
        if len(self.some_live) < _SOME:
            paths = (pc.filter(one, is_here) for one in (keys.keys, keys.written))
            some = (one.slice(0, _SOME - len(self.some_live)).to_pylist() for one in paths)
            self.some_live += [(text_of(key), text_of(written)) for key, written in zip(*some, strict=True)]
        self.live.add(hashes)
        self.protected.add(pc.filter(keys.hashes, pc.and_(pc.is_valid(keys.hashes), pc.invert(is_here))))
        every = self.live_count
        size_bytes = pc.sum(adds.column("size")).as_py() or 0
        self.live_count = Amount(every.files + adds.num_rows, every.size_bytes + size_bytes)
        sizes = pc.filter(adds.column("size"), is_here)
        self.sizes.add(pc.if_else(pc.less(sizes, 0), 0, sizes))
        self.protected.add(keys.spare)
        is_same = keys.written is keys.keys
        self.is_decoded = self.is_decoded and is_same
        self.written.add(hashes if is_same else self._keys.of_listing(pc.filter(keys.written, is_here)))
        self.live_vectors.add(self._take_vectors(adds.column("dv_id")))

    def take_tombstones(self, removes: pyarrow.RecordBatch) -> None:
        """Add the tombstones of the newest version: unexpired ones protect their files."""
        import pyarrow as pa

        moments = pc.fill_null(removes.column("deletion_timestamp"), 0)
        protects = pc.greater_equal(moments, pa.scalar(self._window.cutoff_ms, pa.int64()))
        for rows, is_protected in ((pc.filter(removes, protects), True), (_others(removes, protects), False)):
            if rows.num_rows:
                self._take_removed(rows.column("path"), rows.column("dv_id"), None, is_protected=is_protected)

    def take_commits(self, rows: FileReferences) -> None:
        """Add the files that commits name. Files of retained commits are protected, and files removed within the
        retention by the time of the remove, so that a checkpoint without its tombstone does not change the result.
        """
        import pyarrow as pa

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
            self._take_removed(part.path, part.vector, part.version, is_protected=is_protected)
            return
        keys = self._of_log(part.path)
        if self._unlisted_since is not None and part.kind == "add":
            is_new = pc.greater_equal(part.version, self._unlisted_since)
            self.unlisted.add(pc.drop_null(pc.filter(keys.hashes, is_new)))
        hashes = pc.drop_null(keys.hashes)
        if part.kind == "add":
            vectors = self._take_added(part, keys)
            (self.protected if is_protected else self.named).add(hashes, keys.spare, vectors)
        elif is_protected:
            self.protected.add(hashes, keys.spare, self._take_vectors(part.vector))
        else:
            self.changes.add(hashes)
            self.change_versions.add(pc.filter(part.version, pc.is_valid(keys.hashes)))

    def _take_added(self, part: FileReferences, keys: LogKeys) -> ArrowArray:
        """Record added files in the history, and return the hashes of the files of their deletion vectors."""
        rows = NamedKeys(keys.hashes, logical_keys(keys.hashes, part.vector), part.version)
        self.history.take_adds(rows)
        self.history.take_other_spellings(keys.spare, are_added=True)
        has_vector = pc.not_equal(part.vector, "")
        if not pc.any(has_vector).as_py():
            return rows.files.slice(0, 0)
        vectors = self._vector_files(pc.filter(part.vector, has_vector))
        self.history.take_vectors(rows.where(has_vector)._replace(files=vectors))
        return pc.drop_null(vectors)

    def _take_removals(self, rows: FileReferences, since: int) -> None:
        """Collect the files removed by commits from a version on, with their paths: data files and vectors, or change
        data.
        """
        import pyarrow as pa

        rows = _some(rows, pc.greater_equal(rows.version, since))
        if not len(rows.path):
            return
        files, vectors = self._keys.of_log(_flat(rows.path)), self._keys.of_vectors(_flat(rows.vector))
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
        self.protected.add(pc.drop_null(keys.hashes), keys.spare, self._take_vectors(batch.column("dv_id")))

    def finish(self, listing: LogListing, metadata: Sequence[Action], faults: Sequence[CommitCorrupt]) -> References:
        """Return everything that was added."""
        import pyarrow as pa

        live = self.live.whole()
        return References(
            live=live,
            live_written=live if self.is_decoded else self.written.whole(),
            live_sizes=self.sizes.whole(),
            live_vectors=self.live_vectors.whole(),
            protected=_joined(self.protected, self.live_vectors),
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
        )

    def _take_removed(self, paths: Any, vectors: Any, versions: Any, *, is_protected: bool) -> None:
        import pyarrow as pa

        removed_keys = self._of_log(paths)
        keys = logical_keys(removed_keys.hashes, _flat(vectors))
        if versions is None:
            self.history.take_tombstones(keys)
        else:
            self.history.take_removes(NamedKeys(removed_keys.hashes, keys, versions))
        self.history.take_other_spellings(removed_keys.spare, are_added=False)
        is_here = pc.is_valid(removed_keys.hashes)
        hashes = pc.filter(removed_keys.hashes, is_here)
        known = pa.nulls(len(paths), pa.int64()) if versions is None else versions
        self.removed.add(hashes)
        self.removed_versions.add(pc.filter(known, is_here))
        if is_protected:
            self.protected.add(hashes, removed_keys.spare)
        else:
            self.named.add(removed_keys.spare)
        if pc.any(pc.not_equal(vectors, "")).as_py():
            files = self._vector_files(vectors)
            self.removed.add(pc.drop_null(files))
            self.removed_versions.add(pc.filter(known, pc.is_valid(files)))
            if is_protected:
                self.protected.add(pc.drop_null(files))

    def _take_vectors(self, ids: Any) -> Any:  # Any: pyarrow has no types
        """Return the hashes of the files of deletion vectors, if there are any."""
        return pc.drop_null(self._vector_files(pc.filter(ids, pc.not_equal(ids, ""))))

    def _vector_files(self, ids: Any) -> Any:  # Any: pyarrow has no types
        """Return the hashes of the files that contain vectors, one row per vector; other readings of their paths are
        protected.
        """
        import pyarrow as pa

        if not len(ids):
            return pa.array([], pa.int64())
        keys = self._keys.of_vectors(_flat(ids))
        self.unknown_vector = self.unknown_vector or keys.unknown
        self.vectors.add(pc.drop_null(keys.hashes), keys.spare)
        self.protected.add(keys.spare)
        return keys.hashes

    def _of_log(self, paths: ArrowArray) -> LogKeys:
        keys = self._keys.of_log(_flat(paths))
        self.escaping = self.escaping or keys.escaping
        return keys


def find_window(table: TableHandle, listing: LogListing, cutoff_ms: int) -> Window:
    """Return which commits are retained. `listing` is the whole log."""
    last_before = last_commit_before(table, listing, cutoff_ms) if listing.commits else None
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
) -> References:
    """Read the log of the newest version, and of other tables, for every file to keep. With `removals_since` also
    collect the paths of files removed from that version on; with `unlisted_since` files added from that version on need
    not be listed.

    Raises what `read_snapshot` raises, also for the versions to keep.
    """
    table = snapshot.table
    listing = list_log(table.storage, progress=table.progress)
    runs = listing.commit_runs
    collector = ReferenceCollector(keys, window, removals_since, unlisted_since, runs[-1][0] if runs else 0)
    faults: list[CommitCorrupt] = []
    metadata: list[Action] = []
    for rows in named_files(table, listing, faults, metadata):
        collector.take_commits(rows)
    _take_newest(collector, snapshot, scope)
    for version in keep_versions:
        _take_version(collector, read_snapshot(table, version=version))
    for other in protect:
        from deltacli.operations.vacuum.rechecking import of_protected

        with of_protected(other.table.uri):
            _protect_table(other, collector, window.cutoff_ms)
    return collector.finish(listing, metadata, faults)


def _take_newest(collector: ReferenceCollector, snapshot: Snapshot, scope: Scope | None) -> None:
    """Add the live files and the tombstones of the newest version."""
    for batch in snapshot.file_actions.narrow():
        if batch.adds is not None and batch.adds.num_rows:
            collector.take_live(batch.adds, scope)
        if batch.removes is not None and batch.removes.num_rows:
            collector.take_tombstones(batch.removes)


def _take_version(collector: ReferenceCollector, snapshot: Snapshot) -> None:
    """Add the live files of a version to keep readable."""
    for batch in snapshot.file_actions.narrow():
        if batch.adds is not None and batch.adds.num_rows:
            collector.take_needed(batch.adds)


def _protect_table(other: Snapshot, collector: ReferenceCollector, cutoff_ms: int) -> None:
    """Add the files that another table needs, with its relative paths made absolute. A clone may retain removed files
    for longer than its source.
    """
    import pyarrow as pa

    from deltacli.operations.vacuum.rechecking import made_absolute
    from deltacli.table.find_log import list_log

    uri = other.table.uri
    cutoff_ms = min(cutoff_ms, other.table.clock() - deleted_file_retention_ms(other.properties))
    listing = list_log(other.table.storage, progress=other.table.progress)
    window = find_window(other.table, listing, cutoff_ms)
    faults: list[CommitCorrupt] = []

    for rows in named_files(other.table, listing, faults, []):
        needed = pc.greater(rows.version, pa.scalar(-1 if window.last_before is None else window.last_before))
        part = _some(rows, needed)
        if len(part.path):
            collector.take_needed(_narrow(made_absolute(part.path, uri), part.vector))
    if faults:
        raise faults[0]
    for batch in other.file_actions.narrow():
        for found in _needed_of(batch, cutoff_ms):
            collector.take_needed(_narrow(made_absolute(found.column("path"), uri), found.column("dv_id")))


def _needed_of(batch: FileBatch, cutoff_ms: int) -> Iterator[Any]:  # Any: pyarrow has no types
    """Yield live files and unexpired tombstones."""
    if batch.adds is not None and batch.adds.num_rows:
        yield batch.adds
    if batch.removes is not None and batch.removes.num_rows:
        moments = pc.fill_null(batch.removes.column("deletion_timestamp"), 0)
        kept = pc.filter(batch.removes, pc.greater_equal(moments, cutoff_ms))
        if kept.num_rows:
            yield kept


def _narrow(paths: Any, vectors: Any) -> Any:  # Any: pyarrow has no types
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([_flat(paths), _flat(vectors)], ["path", "dv_id"])


def _some(rows: FileReferences, mask: ArrowArray) -> FileReferences:
    return FileReferences(rows.kind, *(pc.filter(column, mask) for column in rows[1:]))


def _others(rows: RecordBatch, mask: ArrowArray) -> RecordBatch:
    return pc.filter(rows, pc.invert(mask))


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _joined(*parts: _Batches) -> ArrowArray:
    import pyarrow as pa

    return pa.concat_arrays([part.whole() for part in parts])
