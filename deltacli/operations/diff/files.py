"""The live files of two versions as columns, and which of them differ.

Two versions of a table that can be rebuilt from one checkpoint are compared by the commits after it: what neither
version's commits have decided is the same file in both, and only counted. So one checkpoint is read instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.plan import Amount
from deltacli.core.cached import cached_property
from deltacli.core.errors import Unreadable
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.file_actions import FileBatch
from deltacli.operations.restore.difference import Difference, LiveFiles, amount_of, difference_of, joined_files
from deltacli.storage.base import StoreOfVersions
from deltacli.table.api_arguments import errors_about
from deltacli.table.find_log import Log, list_log
from deltacli.table.keyed_files import Spelling, narrow_keys
from deltacli.table.rebuild import rebuild

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_BYTES_A_ROW = 100
"""The bytes of a checkpoint by its rows: the sizes of sidecars are not listed with the log."""
Batches = Callable[[], Iterator[RecordBatch]]
"""Yields narrow batches of live files, in the same order each time."""


class _Side(NamedTuple):
    """The files of a version that may differ from those of the other."""

    batches: Batches
    files: LiveFiles


class Revectored(NamedTuple):
    """The files that have another deletion vector: which they are in each version, and before and after."""

    in_before: ArrowArray
    in_after: ArrowArray
    before: Amount
    after: Amount


@dataclass(frozen=True, eq=False)
class FileDiff:
    """The live files of two versions, without those that are `shared` by both and were only counted."""

    before: _Side
    after: _Side
    shared: Amount
    spelling: Spelling | None

    @cached_property
    def found(self) -> Difference:
        """Which files differ."""
        return difference_of(self.before.files, self.after.files)

    @cached_property
    def totals(self) -> tuple[Amount, Amount]:
        """All live files of both versions."""
        before, after = (amount_of(side.files, None) + self.shared for side in (self.before, self.after))
        return before, after

    @cached_property
    def revectored(self) -> Revectored:
        """The files with another deletion vector. Files are read once more only if one that differs has a vector."""
        found = self.found
        with_vectors = (pc.and_(found.removed, found.now.has_vector), pc.and_(found.added, found.target.has_vector))
        if not any(pc.any(one).as_py() for one in with_vectors):
            none = Amount(0, 0, 0)
            return Revectored(_nothing(found.removed), _nothing(found.added), none, none)
        old, new = self._path_keys(self.before, found.removed), self._path_keys(self.after, found.added)
        in_before = pc.replace_with_mask(found.removed, found.removed, pc.is_in(old, value_set=new))
        in_after = pc.replace_with_mask(found.added, found.added, pc.is_in(new, value_set=old))
        return Revectored(in_before, in_after, amount_of(found.now, in_before), amount_of(found.target, in_after))

    @cached_property
    def added(self) -> Amount:
        """The files that only the second version has."""
        return amount_of(self.found.target, pc.and_not(self.found.added, self.revectored.in_after))

    @cached_property
    def removed(self) -> Amount:
        """The files that only the first version has."""
        return amount_of(self.found.now, pc.and_not(self.found.removed, self.revectored.in_before))

    def changes(self) -> Iterator[tuple[str, RecordBatch]]:
        """Yield the files that differ, `add`, `remove` or `change`, as narrow batches."""
        found, changed = self.found, self.revectored
        yield from (("add", adds) for adds in self._chosen(self.after, pc.and_not(found.added, changed.in_after)))
        yield from (("remove", one) for one in self._chosen(self.before, pc.and_not(found.removed, changed.in_before)))
        yield from (("change", adds) for adds in self._chosen(self.after, changed.in_after))

    def _path_keys(self, side: _Side, chosen: ArrowArray) -> ArrowArray:
        """Return keys of the paths alone of chosen files, in their order."""
        import pyarrow as pa

        parts = [narrow_keys(adds, self.spelling, with_vectors=False) for adds in self._chosen(side, chosen)]
        return pa.concat_arrays([pa.array([], side.files.keys.type), *parts])

    def _chosen(self, side: _Side, chosen: ArrowArray) -> Iterator[RecordBatch]:
        if not pc.any(chosen).as_py():
            return
        begin = 0
        for adds in side.batches():
            mask = chosen.slice(begin, adds.num_rows)
            if pc.any(mask).as_py():
                if not narrow_keys(adds, self.spelling).equals(side.files.keys.slice(begin, adds.num_rows)):
                    raise AssertionError("the files of a version came in another order")
                yield pc.filter(adds, mask)
            begin += adds.num_rows


def compare_files(before: Snapshot, after: Snapshot, spelling: Spelling | None) -> FileDiff:
    """Return which live files differ. `spelling` makes the paths of two tables comparable; None for one table.

    Raises CommitCorrupt, CheckpointUnreadable, StorageFailed.
    """
    if spelling is None and (pair := _of_one_checkpoint(before, after)) is not None:
        return _compare_commits(*pair)
    sides = [_Side(batches, _collected(batches(), spelling)) for batches in map(_all_of, (before, after))]
    return FileDiff(sides[0], sides[1], Amount(0, 0, 0), spelling)


def _all_of(side: Snapshot) -> Batches:
    def batches() -> Iterator[RecordBatch]:
        with errors_about(side.table.name):
            yield from _of_tail(side)
            yield from side.file_actions.map_narrow_adds(lambda adds: adds)

    return batches


def _of_one_checkpoint(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot] | None:
    """Return both versions rebuilt from one checkpoint; None where they have none, or where the commits between are
    larger than the other checkpoint.
    """
    if isinstance(before.table.storage, StoreOfVersions):
        return None
    older, newer = sorted((before, after), key=lambda side: side.version)
    start = older.segment.checkpoint
    if start is None or not older.file_actions.pieces:
        return None
    if newer.segment.checkpoint == start:
        return before, after
    listing = older.log.listing
    if listing.newest_version < newer.version or listing.start_version > start.version:
        listing = list_log(older.table.storage)
    between = range(start.version + 1, newer.version + 1)
    other = newer.segment.checkpoint
    if other is None or any(version not in listing.commits for version in between):
        return None
    in_sidecars = _BYTES_A_ROW * sum(piece.group.rows for piece in newer.file_actions.pieces)
    checkpoint_bytes = max(sum(one.size_bytes for one in other.files), in_sidecars)
    if sum(listing.commits[version].size_bytes for version in between) > checkpoint_bytes:
        return None
    later = {one: "" for one in listing.checkpoints if one.preference > start.preference}
    try:
        rebuilt = rebuild(newer.table, Log(listing), newer.version, unusable=later)
    except Unreadable:
        return None
    if rebuilt.segment.checkpoint != start:
        return None
    return (before, rebuilt) if newer is after else (rebuilt, after)


def _compare_commits(before: Snapshot, after: Snapshot) -> FileDiff:
    """Return which files differ of two versions that start from one checkpoint."""
    older, newer = sorted((before, after), key=lambda side: side.version)
    parts: list[Amount] = []

    def split(adds: RecordBatch) -> RecordBatch:
        """Count the files of a batch that are in both versions, and return the others."""
        kept = newer.file_actions.touched.untouched(adds.column("path"), adds.column("dv_id"))
        parts.append(_amount(adds if kept is None else pc.filter(adds, kept)))
        return adds.slice(0, 0) if kept is None else pc.filter(adds, pc.invert(kept))

    def of_older() -> Iterator[RecordBatch]:
        yield from _of_tail(older)
        yield from older.file_actions.map_narrow_adds(split)

    def of_newer() -> Iterator[RecordBatch]:
        yield from _of_tail(newer)

    sides = {
        side: _Side(batches, _collected(batches(), None)) for side, batches in ((older, of_older), (newer, of_newer))
    }
    return FileDiff(sides[before], sides[after], sum(parts, Amount(0, 0, 0)), None)


def _of_tail(side: Snapshot) -> Iterator[RecordBatch]:
    return _adds(side.file_actions.tail_batches())


def _adds(batches: Iterator[FileBatch]) -> Iterator[RecordBatch]:
    return (batch.adds for batch in batches if batch.adds is not None)


def _collected(batches: Iterator[RecordBatch], spelling: Spelling | None) -> LiveFiles:
    """Return live files in columns, without what is known of their row ids."""
    import pyarrow as pa

    parts = []
    for adds in batches:
        if adds.num_rows:
            has_vector = pc.not_equal(adds.column("dv_id"), "")
            no_row_ids = pa.repeat(pa.scalar(False), adds.num_rows)
            columns = adds.column("size"), _rows(adds), adds.column("num_records")
            parts.append((narrow_keys(adds, spelling), *columns, has_vector, no_row_ids))
    return joined_files(parts, are_keys_narrow=True)


def _rows(adds: RecordBatch) -> ArrowArray:
    return pc.subtract(adds.column("num_records"), pc.fill_null(adds.column("dv_cardinality"), 0))


def _amount(adds: RecordBatch) -> Amount:
    rows = _rows(adds)
    return Amount(
        adds.num_rows, pc.sum(adds.column("size")).as_py() or 0, None if rows.null_count else pc.sum(rows).as_py() or 0
    )


def _nothing(like: ArrowArray) -> ArrowArray:
    import pyarrow as pa

    return pa.repeat(pa.scalar(False), len(like))
