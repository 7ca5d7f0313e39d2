"""Which versions can be read: their log, data files, deletion vectors and change data, and until when.

Every file that the log names is looked for once. The versions that need a missing file are those from the commit that
adds it to the one that removes it, which is found in columns, by keys in the order of their versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.arrow.rows import grouped
from deltacli.core.errors import FileMissing, PathExternal
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.operations.reach.replayed import Step
from deltacli.table.keyed_files import key_digests
from deltacli.table.needed import FileKind, look_for, needed_files, whole

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.walk import KeptWalk
    from deltacli.work.commits.file_references import FileReferences

NEVER = 1 << 62


class Part(StrEnum):
    """Whether what a version needs is there."""

    THERE = "there"
    MISSING = "missing"
    UNKNOWN = "unknown"


class VersionFiles(NamedTuple):
    """What of the files of a version is there, and when the first may be deleted (`NEVER`: all are live)."""

    data_files: Part = Part.UNKNOWN
    vectors: Part = Part.UNKNOWN
    change_data: Part = Part.UNKNOWN
    needed_until_ms: int = NEVER


class _Events:
    """The files that versions add and remove, one row each."""

    def __init__(self) -> None:
        self._parts: dict[str, list[ArrowArray]] = {
            name: [] for name in ("path", "vector", "key", "run", "place", "is_add", "removed_ms")
        }

    def take(self, rows: RecordBatch, run: int, place: int, commit_ms: int | None, *, is_add: bool) -> None:
        """Add the narrow rows of a commit or a checkpoint, whose version has this place among all."""
        import pyarrow as pa

        count = rows.num_rows
        removed = pa.nulls(count, pa.int64())
        if not is_add:
            stated = pc.fill_null(rows.column("deletion_timestamp"), 0)
            removed = stated if commit_ms is None else pc.max_element_wise(stated, pa.scalar(commit_ms, pa.int64()))
        columns = (
            rows.column("path"),
            rows.column("dv_id"),
            key_digests(rows.column("path"), rows.column("dv_id")),
            pa.repeat(pa.scalar(run, pa.int64()), count),
            pa.repeat(pa.scalar(place, pa.int64()), count),
            pa.repeat(is_add, count),
            removed,
        )
        for name, column in zip(self._parts, columns, strict=True):
            self._parts[name].append(column)

    def table(self) -> ArrowTable:
        """Return all rows."""
        import pyarrow as pa

        if not self._parts["path"]:
            empty = (pa.string(), pa.string(), pa.binary(16), pa.int64(), pa.int64(), pa.bool_(), pa.int64())
            return pa.table([pa.array([], kind) for kind in empty], names=list(self._parts))
        return pa.table({name: pa.concat_arrays(list(map(whole, parts))) for name, parts in self._parts.items()})


def version_files(
    table: TableHandle,
    steps: Sequence[Step],
    times: Mapping[int, int],
    retention_ms: int,
    walk: KeptWalk | None = None,
) -> list[VersionFiles]:
    """Return what is there of the files of each version. `times` are those of the commits, `walk` lists the table.

    Raises StorageFailed.
    """
    import pyarrow as pa

    events = _events_of(steps, times)
    changes = [one for step in steps if step.commit is not None for one in step.commit.change_data]
    paths = [*events["path"].chunks, *(one.path for one in changes)]
    ids = [*events["vector"].chunks, *(one.vector for one in changes)]
    names = pa.chunked_array(paths, pa.string()), pa.chunked_array(ids, pa.string())
    lost, unseen = _looked_for(table, *names, None if walk is None else walk.find)
    spans = _spans(events, steps, retention_ms)
    kinds = []
    for name, of_kind in (("path", 0), ("vector", 1)):
        is_lost, is_unseen = (pc.is_in(spans[name], value_set=one[of_kind]) for one in (lost, unseen))
        found = _covered(spans.filter(is_lost), len(steps)), _covered(spans.filter(is_unseen), len(steps))
        kinds.append([_part(*flags) for flags in zip(*found, strict=True)])
    recorded = _recorded(changes, lost, unseen)
    until = _earliest(spans, len(steps))
    return [
        VersionFiles(
            kinds[0][place] if _is_known(step) else Part.UNKNOWN,
            kinds[1][place] if _is_known(step) else Part.UNKNOWN,
            Part.MISSING if step.commit is None else _change_data(step, recorded),
            until[place],
        )
        for place, step in enumerate(steps)
    ]


def _is_known(step: Step) -> bool:
    return step.run is not None


def _change_data(step: Step, recorded: Mapping[int, Part]) -> Part:
    assert step.commit is not None
    return Part.UNKNOWN if step.commit.fault is not None else recorded.get(step.version, Part.THERE)


def _part(is_lost: bool, is_unseen: bool) -> Part:
    return Part.MISSING if is_lost else Part.UNKNOWN if is_unseen else Part.THERE


def _events_of(steps: Sequence[Step], times: Mapping[int, int]) -> ArrowTable:
    events = _Events()
    for place, step in enumerate(steps):
        if step.run is None:
            continue
        if step.base is not None:
            for rows in step.base:
                events.take(rows, step.run, place, None, is_add=True)
        elif step.commit is not None:
            for rows in step.commit.removes:
                events.take(rows, step.run, place, times.get(step.version), is_add=False)
            for rows in step.commit.adds:
                events.take(rows, step.run, place, None, is_add=True)
    return events.table()


def _spans(events: ArrowTable, steps: Sequence[Step], retention_ms: int) -> ArrowTable:
    """Return each added file with its first `place` and its `last` one, and `until_ms`, when it may be deleted."""
    import pyarrow as pa

    ends = {step.run: place for place, step in enumerate(steps) if step.run is not None}
    order = [(name, "ascending") for name in ("run", "key", "place")]
    rows = events.take(pc.sort_indices(events, order))
    count = rows.num_rows
    columns = {name: whole(rows[name]) for name in rows.column_names}
    run_ends = pa.array([ends[run] for run in columns["run"].to_pylist()], pa.int64())
    last, is_open = run_ends, pa.repeat(True, count)
    if count > 1:
        same = [pc.equal(columns[name].slice(0, count - 1), columns[name].slice(1)) for name in ("run", "key")]
        follows = pa.concat_arrays([pc.and_(*same), pa.array([False])])
        following = pa.concat_arrays([columns["place"].slice(1), pa.array([0], pa.int64())])
        last, is_open = pc.if_else(follows, pc.subtract(following, 1), run_ends), pc.invert(follows)
    rows = rows.append_column("last", last)
    is_live = pc.and_(rows["is_add"], pc.and_(is_open, pc.equal(last, len(steps) - 1)))
    adds = rows.filter(rows["is_add"])
    until = [_until(rows, adds, rows.filter(is_live), name, retention_ms) for name in ("path", "vector")]
    return adds.append_column("until_ms", pc.min_element_wise(*until))


def _until(rows: ArrowTable, adds: ArrowTable, live: ArrowTable, name: str, retention_ms: int) -> ArrowArray:
    """Return when the files of a column may be deleted: the retention after the last removal of those not live."""
    import pyarrow as pa

    removed = grouped(pc.filter(rows, pc.is_valid(rows["removed_ms"])), [name], [("removed_ms", "max")])
    gone = pc.take(whole(removed["removed_ms_max"]), pc.index_in(whole(adds[name]), value_set=whole(removed[name])))
    stays = pc.or_(pc.is_in(whole(adds[name]), value_set=whole(live[name])), pc.equal(whole(adds[name]), ""))
    until = pc.fill_null(pc.add(gone, retention_ms), NEVER)
    return pc.if_else(stays, pa.scalar(NEVER, pa.int64()), until)


def _covered(spans: ArrowTable, versions: int) -> list[bool]:
    """Return for each version whether one of the spans has it."""
    deltas = [0] * (versions + 1)
    for column, change in (("place", 1), ("last", -1)):
        for entry in pc.value_counts(whole(spans[column])).to_pylist():
            deltas[entry["values"] + (change < 0)] += change * entry["counts"]
    found, depth = [], 0
    for delta in deltas[:-1]:
        depth += delta
        found.append(depth > 0)
    return found


def _earliest(spans: ArrowTable, versions: int) -> list[int]:
    """Return for each version when the first of its files may be deleted."""
    from heapq import heappop, heappush

    ending = spans.filter(pc.less(spans["until_ms"], NEVER))
    pairs = sorted(grouped(ending, ["place", "last"], [("until_ms", "min")]).to_pylist(), key=itemgetter("place"))
    heap: list[tuple[int, int]] = []
    found, taken = [], 0
    for version in range(versions):
        while taken < len(pairs) and pairs[taken]["place"] <= version:
            heappush(heap, (pairs[taken]["until_ms_min"], pairs[taken]["last"]))
            taken += 1
        while heap and heap[0][1] < version:
            heappop(heap)
        found.append(heap[0][0] if heap else NEVER)
    return found


_Names = tuple[ArrowArray, ArrowArray]
"""Paths of data files, and ids of vectors, as in the log."""


def _looked_for(
    table: TableHandle, paths: ArrowArray, ids: ArrowArray, listed: Callable[[ArrowArray], ArrowArray] | None
) -> tuple[_Names, _Names]:
    """Return the files that are missing, and those that may not be looked at."""
    import pyarrow as pa

    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    paths, ids = pc.unique(paths), pc.unique(ids)
    of_paths, of_ids = keys.of_log(paths), keys.of_vectors(ids)
    parts = [
        _needed(of_paths.keys, of_paths.written, FileKind.DATA),
        _needed(of_ids.keys, of_ids.keys, FileKind.VECTOR),
    ]
    nothing = needed_files((table.uri,), *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))
    needed = nothing._replace(files=pa.concat_tables(parts))
    _, sizes = look_for(table.storage, needed, table.engine, table.progress, listed)
    count = parts[0].num_rows
    lost, unseen = [], []
    here = ((paths, of_paths.keys, whole(sizes).slice(0, count)), (ids, of_ids.keys, whole(sizes).slice(count)))
    for names, places, found in here:
        absent = pc.filter(pc.filter(names, pc.is_valid(places)), pc.is_null(found))
        gone, refused = _elsewhere(table, pc.filter(names, pc.is_null(places)), are_vectors=names is ids)
        lost.append(pa.concat_arrays([whole(absent), gone]))
        unseen.append(refused)
    return (lost[0], lost[1]), (unseen[0], unseen[1])


def _needed(places: ArrowArray, written: ArrowArray, kind: FileKind) -> ArrowTable:
    import pyarrow as pa

    is_here = pc.is_valid(places)
    places, written = pc.filter(places, is_here), pc.filter(written, is_here)
    differs = pc.fill_null(pc.not_equal(places, written), False)
    unknown = pa.nulls(len(places), pa.int64())
    return pa.table(
        {
            "path": places,
            "written": pc.if_else(differs, written, pa.scalar(None, pa.binary())),
            "kind": pa.repeat(kind.value, len(places)),
            "sizeBytes": unknown,
            "rows": unknown,
        }
    )


def _elsewhere(table: TableHandle, names: ArrowArray, *, are_vectors: bool) -> _Names:
    """Return which files outside of the table are missing, and which may not be looked at."""
    import pyarrow as pa

    files = table.files()

    def look(name: str) -> Part:
        try:
            storage, inner = files.locate(name)
            storage.stat(inner)
        except FileMissing:
            return Part.MISSING
        except PathExternal:
            return Part.UNKNOWN
        return Part.THERE

    every = [name for name in names.to_pylist() if not are_vectors or name[:1] == "p"]
    places = [name[1:].rpartition("@")[0] or name[1:] for name in every] if are_vectors else every
    parts = list(zip(every, table.engine.run(look, places), strict=True))
    told = [[name for name, part in parts if part is one] for one in (Part.MISSING, Part.UNKNOWN)]
    return pa.array(told[0], pa.string()), pa.array(told[1], pa.string())


def _recorded(changes: Sequence[FileReferences], lost: _Names, unseen: _Names) -> dict[int, Part]:
    """Return by version what is there of the change data that its commit recorded."""
    found: dict[int, Part] = {}
    for names, part in ((unseen, Part.UNKNOWN), (lost, Part.MISSING)):
        for one in changes:
            is_of = pc.or_(pc.is_in(one.path, value_set=names[0]), pc.is_in(one.vector, value_set=names[1]))
            found.update(dict.fromkeys(pc.unique(pc.filter(one.version, is_of)).to_pylist(), part))
    return found
