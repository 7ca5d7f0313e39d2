"""Rules about the files of a table: what its log names against what is in its directory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import LazyText, Refused, command
from deltacli.core.lock_free_property import cached_property
from deltacli.core.texts import add_article
from deltacli.core.times import CLOCK_SKEW_MS, format_moment, format_timestamp
from deltacli.core.typing import ArrowArray
from deltacli.core.units import count_with_verb, format_size, plural
from deltacli.delta.data_files import MANIFESTS, VECTOR_FILE
from deltacli.delta.listing import find_table_roots
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.delta.paths.lookalikes import common_spelling, other_readings
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.delta.paths.spelling_columns import are_absolute, locate, locate_all
from deltacli.delta.protocol.features import require_writable
from deltacli.rules.framework.base import LOST_BY_VACUUM, Area, Finding, Level, by_repair
from deltacli.rules.framework.views import (
    StateView,
    StorageView,
    hidden_names,
    newest_removals,
    place_of_live_file,
    rows_where,
)
from deltacli.rules.log.log_files import is_copied

if TYPE_CHECKING:
    from deltacli.delta.listing import FileKind

AREA = Area("storage", Level.STORAGE, spec="Add File and Remove File")

FILE_MISSING = AREA.error(
    "data.file-missing",
    "A live file is missing.",
    broken="readers of the newest version fail, or lose the rows of the file",
    repair=by_repair("it"),
    loss="the rows of the file, if there is no backup",
    example="an add of part-00001.parquet, and no part-00001.parquet",
)
FILE_MISSING_TOMBSTONED = AREA.info(
    "data.file-missing-tombstoned",
    "A removed file is missing although its retention has not ended.",
    spec="Overview; Add File and Remove File",
    broken="versions that still had the file cannot be read; running readers of them fail",
    repair="restore the file from a backup, if there is one",
    loss="time travel to these versions",
    example="a remove of yesterday, a retention of 7 days, and no such file",
)
SIZE_MISMATCH = AREA.error(
    "data.size-mismatch",
    "The size of a live file differs from the size in its add.",
    broken="the file was overwritten or cut off; readers look for its footer in the wrong place",
    repair=by_repair("it"),
    loss="the rows of the file, if it was cut off",
    example='{"add":{"path":"part-00001.parquet","size":1001,…}} and a file of 1000 bytes',
)
MODIFIED_AFTER_ADD = AREA.warning(
    "data.modified-after-add",
    "A live file was modified after the commit that added it.",
    spec="Data Files",
    broken="data files are never overwritten: statistics may be wrong, and readers may have seen two contents",
    repair="restore the older version of the object",
    loss="the rows of one of the two contents",
    example="a file of 12:00, added by a commit of 11:00",
)
ORPHAN = AREA.info(
    "data.orphan",
    "A file that the log does not name is older than the retention of removed files.",
    spec="Overview",
    broken="nothing: it takes space; a writer failed before its commit, or the log that named it was cleaned up",
    repair="vacuum the table",
    loss=LOST_BY_VACUUM,
    example="part-00009.parquet of last month, named by no commit",
)
ORPHAN_YOUNG = AREA.info(
    "data.orphan-young",
    "A file that the log does not name is younger than the retention of removed files.",
    spec="Overview",
    broken="nothing: a writer may be about to commit it",
    repair="no repair needed; a later vacuum deletes it if it is not committed",
    loss="nothing from the table",
    example="part-00009.parquet of today, named by no commit",
)
EXPIRED_TOMBSTONE_PRESENT = AREA.info(
    "data.expired-tombstone-present",
    "A removed file still exists although its retention has ended, counted from its deletion time.",
    spec="Overview; Add File and Remove File",
    broken="nothing: it takes space",
    repair="vacuum the table; it also keeps files of commits whose own time is within the retention, as after a copy",
    loss="time travel to versions that still had the file",
    example="a remove of last month, a retention of 7 days, and the file",
)
SMALL_FILES = AREA.info(
    "data.small-files",
    "Most of the live files, and at least a hundred, have less than 16 MiB.",
    spec="Delta-Spark: OPTIMIZE",
    broken="nothing: reading needs a request and a file open for each file",
    repair="compact the table; where partitions have one file each, partition it less finely",
    example="5,000 files of 20 KiB",
)
MANIFEST_STALE = AREA.warning(
    "data.manifest-stale",
    "The symlink manifests name other data files than the newest version has.",
    spec="Delta-Spark: GENERATE symlink_format_manifest",
    broken="Athena, Redshift and Presto read the files of an earlier version, and fail once one of them is deleted",
    repair=LazyText("write them again: {}", partial(command, "manifest")),
    example="_symlink_format_manifest/p=a/manifest names part-00001.parquet, which was removed",
)
UNREACHABLE = AREA.warning(
    "data.unreachable",
    "Live files are on a store that was not checked.",
    broken="nothing known: whether these files exist was not checked",
    repair="check them from a machine that can reach that store",
    example='{"add":{"path":"s3://other-bucket/part-00001.parquet",…}}',
)
SHARED_FILE = AREA.warning(
    "data.shared-file",
    "Live files are outside the table's directory, as in a shallow clone.",
    spec="Delta-Spark: shallow clones",
    broken="a vacuum of the table they belong to does not consider this one, so it may delete them",
    repair="none for a shallow clone that deltacli made: it is noted in the other table, where its vacuum keeps these "
    "files; else copy the rows (a deep clone), and until then vacuum the other table with a long retention",
    loss="the rows of these files, after a vacuum of the other table",
    example='{"add":{"path":"file:///lake/source/part-00001.parquet",…}}',
    level=Level.LOG,
)


MANY_SMALL_FILES = 100

_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_ICEBERG = re.compile(r"metadata/(?:.*\.metadata\.json|snap-.*\.avro)", re.DOTALL)


_ICEBERG_FEATURES = frozenset({"icebergCompatV1", "icebergCompatV2", "icebergCompatV3"})
_UNIVERSAL = "delta.universalFormat.enabledFormats"
_MISSING_SHARE = 0.1
"""The share of missing live files above which a vacuum takes a listing for incomplete."""


class Compared:
    """The live files of the newest version against the files of the listing, in columns."""

    def __init__(self, view: StorageView) -> None:
        self.view = view

    @cached_property
    def names(self) -> pa.Array:
        """The paths of the listing, as bytes, in its order."""
        return pa.array([encode_path_bytes(path) for path in self.view.files], pa.binary())

    @cached_property
    def _located(self) -> tuple[pa.ChunkedArray, list[int]]:
        keys: list[ArrowArray] = []
        outside: list[int] = []
        start = 0
        for chunk in self.view.live_adds.column("path").chunks:
            found, elsewhere = locate(chunk, self.view.uri)
            keys.append(found)
            outside.extend(start + row for row in elsewhere)
            start += len(chunk)
        return pa.chunked_array(keys, pa.binary()), outside

    @property
    def keys(self) -> pa.ChunkedArray:
        """Path of each live file relative to the table; null where it is elsewhere."""
        return self._located[0]

    @property
    def outside(self) -> list[int]:
        """Rows of live files at absolute paths that are elsewhere."""
        return self._located[1]

    @cached_property
    def positions(self) -> pa.ChunkedArray:
        """Position in the listing of each live file; null where it is not there."""
        return pc.index_in(self.keys, value_set=self.names)

    def stored(self, values: Iterable[int]) -> pa.ChunkedArray:
        """For each live file its value of those given for the files of the listing."""
        return pc.take(pa.array(values, pa.int64()), self.positions)

    @cached_property
    def _absent(self) -> list[tuple[int, str, str]]:
        """Live files that should be in the listing and are not: row, name, and the other name by which one is there:
        its path left encoded, or decoded twice, which `path.double-encoded` reports.
        """
        rows = rows_where(pc.and_(pc.is_valid(self.keys), pc.is_null(self.positions)))
        raw = pc.take(self.view.live_adds.column("path"), rows).to_pylist() if rows else []
        names = [decode_path_bytes(key) for key in pc.take(self.keys, rows).to_pylist()] if rows else []
        absent = []
        for row, path, name in zip(rows, raw, names, strict=True):
            other = next((other for other in other_readings(path) if other in self.view.files), "")
            absent.append((row, name, other))
        return absent

    @cached_property
    def absent_rows(self) -> list[int]:
        """Rows of live files that should be in the listing and are not, under no name."""
        return [row for row, name, other in self._absent if not other and not self.view.may_be_there(name)]

    @cached_property
    def vacuum_obstacle(self) -> str | None:
        """Return why a vacuum of the table deletes nothing, as far as a listing and the protocol tell; None for one
        that is not known to be refused.
        """
        view = self.view
        protocol = view.state.config.protocol
        if protocol is not None:
            try:
                require_writable(protocol, view.state.version)
            except Refused as refused:
                return refused.reason

        others = {path.rstrip("/"): "Delta" for path in view.nested_logs} | find_table_roots(self.names)
        if view.state.config.properties.get(_UNIVERSAL) or not _ICEBERG_FEATURES.isdisjoint(view.state.config.features):
            others.pop("", None)  # the table itself is kept readable as Iceberg
        for path, kind in sorted(others.items()):
            if not any(part.startswith(("_", ".")) for part in path.split("/")):
                return f"{path or 'its directory'} is {'' if path else 'also '}{add_article(kind)} table"

        live, absent = view.live_adds.num_rows, len(self.absent_rows)
        if absent > _MISSING_SHARE * live:
            return f"{absent:,} of {count_with_verb(live, 'live file', 'are')} missing"
        return None

    def may_be_missing(self, path: str, size_bytes: int) -> bool:
        """Return whether a vacuum keeps a file that the log does not name, because a missing live file may be it."""
        spellings, sizes = self._lookalikes
        return size_bytes in sizes or common_spelling(encode_path_bytes(path)) in spellings

    @cached_property
    def _lookalikes(self) -> tuple[set[bytes], set[int]]:
        """The common spellings of the names of missing live files, and their bytes."""
        rows = self.absent_rows
        keys = pc.take(self.keys, rows).to_pylist() if rows else []
        sizes = pc.take(self.view.live_adds.column("size"), rows).to_pylist() if rows else []
        return set(map(common_spelling, keys)), set(sizes)

    @cached_property
    def absent_names(self) -> set[str]:
        return {name for _, name, _ in self._absent}

    @cached_property
    def other_spellings(self) -> set[str]:
        """Names by which live files are there although their paths say otherwise."""
        return {other for _, _, other in self._absent if other}

    @cached_property
    def vector_names(self) -> set[str]:
        """Files of deletion vectors that are named by their paths, as few are."""
        live = self.view.live_adds
        paths = pc.filter(live.column("dv_path"), pc.fill_null(pc.equal(live.column("dv_storage"), "p"), False))
        return {path for path in locate_all(pc.unique(paths).to_pylist(), self.view.uri) if path}

    def at(self, rows: list[int]) -> Iterator[tuple[Place, dict[str, Any]]]:  # Any: values of the columns
        """The place of each of the rows, and its values."""
        live = self.view.live_adds
        for start in range(0, len(rows), 10_000):
            for found in pc.take(live, rows[start : start + 10_000]).to_pylist():
                yield place_of_live_file(found), found


@AREA.check(
    StorageView,
    FILE_MISSING,
    SIZE_MISMATCH,
    MODIFIED_AFTER_ADD,
    UNREACHABLE,
    ORPHAN,
    ORPHAN_YOUNG,
    EXPIRED_TOMBSTONE_PRESENT,
    FILE_MISSING_TOMBSTONED,
)
def log_against_listing(view: StorageView) -> Iterator[Finding]:
    """One comparison for all of them: both sides may be a million."""
    compared = Compared(view)
    for place, _ in compared.at(compared.absent_rows):
        yield file_missing(place)
    yield from _elsewhere(compared)
    yield from _of_other_size(compared)
    yield from _overwritten(compared)
    yield from _removed_and_unknown(compared)


def file_missing(place: Place) -> Finding:
    """Return the finding for a live file that is not there."""
    message = f"the live file {place.key} is missing: readers of the newest version fail"
    return FILE_MISSING.at(place, message, seen="no such file")


def _elsewhere(compared: Compared) -> Iterator[Finding]:
    """Absolute paths outside the table: some can be asked for, of the others only their number is told."""
    unknown: Counter[str] = Counter()
    first: dict[str, Place] = {}
    for place, found in compared.at(compared.outside):
        is_there = compared.view.exists(found["path"])
        if is_there is None:
            store = match[0] if (match := _STORE.match(found["path"])) else "/"
            unknown[store] += 1
            first.setdefault(store, place)
        elif not is_there:
            yield file_missing(place)
    for store, count in unknown.items():
        files = "1 live file lies" if count == 1 else f"{count:,} live files lie"
        message = f"{files} on {store}, which was not checked"
        yield UNREACHABLE.at(first[store], message, seen=count)


def _of_other_size(compared: Compared) -> Iterator[Finding]:
    """Spec: Add File (size). A negative size is reported by another rule."""
    stored = compared.stored(file.size_bytes for file in compared.view.files.values())
    told = compared.view.live_adds.column("size")
    found = rows_where(pc.and_(pc.not_equal(stored, told), pc.greater_equal(told, 0)))
    sizes = pc.take(stored, found).to_pylist() if found else []
    for (place, add), size in zip(compared.at(found), sizes, strict=True):
        message = f"{place.key} has {size:,} bytes, but the log records {add['size']:,}"
        yield SIZE_MISMATCH.at(place, message, seen=size, expected=add["size"])


def _overwritten(compared: Compared) -> Iterator[Finding]:
    """Files newer than the commit that added them. Of a copied log, or one that is gone, nothing is known."""
    commits = [commit for commit in compared.view.commits if not is_copied(commit)]
    if not commits:
        return
    versions = pa.array([commit.version for commit in commits], pa.int64())
    latest = pa.array([commit.modified_ms + CLOCK_SKEW_MS for commit in commits], pa.int64())
    bounds = pc.take(latest, pc.index_in(compared.view.live_adds.column("version"), value_set=versions))
    times = compared.stored(file.modified_ms for file in compared.view.files.values())
    # What is of the future, `log.mtime-future` reports.
    odd = pc.and_(pc.greater(times, bounds), pc.less_equal(times, compared.view.now_ms + CLOCK_SKEW_MS))
    found = rows_where(odd)
    by_version = {commit.version: commit.modified_ms for commit in commits}
    modified = pc.take(times, found).to_pylist() if found else []
    for (place, _), time in zip(compared.at(found), modified, strict=True):
        message = f"{place.key} was modified after version {place.version} had added it: it was overwritten"
        expected = f"<= {format_timestamp(by_version[place.version or 0])}"
        yield MODIFIED_AFTER_ADD.at(place, message, seen=format_timestamp(time), expected=expected)


def _removed_and_unknown(compared: Compared) -> Iterator[Finding]:
    """Tombstones against the listing, and what is in the listing for no known reason. Spec: Add File (expiry)."""
    view = compared.view
    removed = newest_removals(view.tombstones, view.uri)
    retention_ms = deleted_file_retention_ms(view.state.config.properties)
    threshold = view.now_ms - retention_ms
    copied_ms = _copied_at(view)
    for path, removed_ms in removed.items():
        # A vacuum compares in the same way: at the very end of its retention a file is still protected.
        if not view.may_be_there(path) and path not in compared.absent_names and removed_ms >= threshold:
            message = (
                f"the removed file {path} is missing before the end of its retention: older versions cannot be read"
            )
            seen = f"removed {format_timestamp(removed_ms)}"
            yield FILE_MISSING_TOMBSTONED.at(Place(path, key=path), message, seen=seen)
    from deltacli.delta.listing import FileKind

    for path, kind in _not_live(compared):
        if path not in removed:
            if kind is not FileKind.FOREIGN:  # which a vacuum keeps
                yield _orphan(compared, path, threshold)
        elif removed[path] < threshold:
            message = f"{path} was removed, and by its deletion time its retention has ended"
            if copied_ms is not None and copied_ms >= threshold:
                until = format_moment(copied_ms + retention_ms)
                message += f"; a vacuum keeps it until {until} UTC, because the log was copied and has new times"
            seen, expected = f"removed {format_timestamp(removed[path])}", f">= {format_timestamp(threshold)}"
            yield EXPIRED_TOMBSTONE_PRESENT.at(Place(path), message, seen=seen, expected=expected)


def _copied_at(view: StorageView) -> int | None:
    """Return the newest file time of a log that was copied, None for another log and where commits have their times."""
    if any(commit.in_commit_timestamp is not None for commit in view.commits):
        return None
    return max((commit.modified_ms for commit in view.commits if is_copied(commit)), default=None)


def _orphan(compared: Compared, path: str, threshold: int) -> Finding:
    view = compared.view
    file = view.files[path]
    size, seen = format_size(file.size_bytes), format_timestamp(file.modified_ms)
    if file.modified_ms < threshold and compared.may_be_missing(path, file.size_bytes):
        message = f"the log does not name {path} ({size}): it may be a live file that is missing, so a vacuum keeps it"
        return ORPHAN.at(Place(path), message, seen=seen)
    if file.modified_ms < threshold:
        unless = ", unless a shallow clone needs it" if view.has_clones() else ""
        obstacle = compared.vacuum_obstacle
        would = f"a vacuum would delete it{unless}" if obstacle is None else f"a vacuum is refused, because {obstacle}"
        message = f"the log does not name {path} ({size}): {would}"
        return ORPHAN.at(Place(path), message, seen=seen)
    message = f"the log does not name {path} ({size}): it is in flight, or was left behind"
    return ORPHAN_YOUNG.at(Place(path), message, seen=seen)


def _not_live(compared: Compared) -> Iterator[tuple[str, FileKind]]:
    """Yield the files of the listing that are no live files and that a vacuum would look at, with their kinds: nothing
    hidden, no deletion vectors, no markers of directories, nothing that a manifest names, nothing of Iceberg or of a
    table inside this one.
    """
    from deltacli.delta.listing import FileKind, find_table_roots, kinds

    view = compared.view
    is_live = pc.is_in(compared.names, value_set=compared.keys.combine_chunks())
    others = pc.filter(compared.names, pc.invert(is_live))
    names = [decode_path_bytes(name) for name in others.to_pylist()]
    named = {path for path in locate_all((placed.action.get("path") for placed, _ in view.cdc), view.uri) if path}
    named |= compared.other_spellings | compared.vector_names
    named.update(path for lines in view.manifests.values() for paths in lines for path in paths)
    roots = (directory.strip("/").removesuffix("_delta_log").rstrip("/") for directory in view.nested_logs)
    nested = tuple(f"{root}/" for root in {*roots, *find_table_roots(others)} if root)
    has_iceberg = any(name.startswith("metadata/") and _ICEBERG.fullmatch(name) for name in names)
    hidden = hidden_names(view)
    for name, kind in zip(names, map(FileKind, kinds(others).to_pylist()), strict=True):
        if name in named or hidden.hides_path(name) or name.startswith(nested) or name.endswith(("/", "_$folder$")):
            continue
        if not VECTOR_FILE.fullmatch(name) and not (has_iceberg and name.startswith("metadata/")):
            yield name, kind


@AREA.check(StorageView, MANIFEST_STALE)
def manifests_against_the_newest_version(view: StorageView) -> Iterator[Finding]:
    """The files that all manifests name together, against the live ones."""
    if not view.manifests:
        return
    live = {decode_path_bytes(key) for chunk in Compared(view).keys.chunks for key in chunk.drop_null().to_pylist()}
    dead = list[str]()
    missing = set(live)
    for place, lines in view.manifests.items():
        for paths in lines:
            missing -= paths
            if not paths & live:
                dead.append(place)
    if not dead and not missing:
        return
    parts = [f"name {plural(len(dead), 'file')} that {'is' if len(dead) == 1 else 'are'} not live"] if dead else []
    parts += [f"lack {plural(len(missing), 'live file')}"] if missing else []
    message = f"the manifests in {MANIFESTS} {' and '.join(parts)}"
    yield MANIFEST_STALE.at(
        Place(dead[0] if dead else next(iter(view.manifests))), message, seen=min(missing, default=None)
    )


@AREA.check(StateView, SHARED_FILE)
def files_of_another_table(view: StateView) -> Iterator[Finding]:
    """Live files at absolute paths outside the table, as in a shallow clone."""
    if not view.uri:
        return
    absolute = [pc.filter(chunk, are_absolute(chunk)) for chunk in view.live.column("path").chunks]
    outside = [paths[row].as_py() for paths in absolute if len(paths) for row in locate(paths, view.uri)[1]]
    if outside:
        files = plural(len(outside), "live file")
        message = f"{files} outside the table's directory: a vacuum of the table they belong to may delete them"
        yield SHARED_FILE.at(view.place(outside[0]), message, seen=outside[0])


@AREA.check(StateView, SMALL_FILES)
def many_small_files(view: StateView) -> Iterator[Finding]:
    """Each file costs a reader a request and an opening."""
    sizes = view.live.column("size")
    small = pc.sum(pc.less(sizes, SMALL_FILE_BYTES)).as_py() or 0
    if small >= MANY_SMALL_FILES and 2 * small > len(sizes):
        message = f"{small:,} of {len(sizes):,} live files have less than {format_size(SMALL_FILE_BYTES)}"
        yield SMALL_FILES.at(view.place(), message, seen=small, expected=f"< {MANY_SMALL_FILES}")
