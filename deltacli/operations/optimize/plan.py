"""The plan of an optimization: which files become how many, making it, which changes nothing, and its bins.

Files outside the table are not looked for.

Files that every run would refuse are left out, so that a plan has nothing to do where nothing else is left. Storage
shows which are missing, and only their content which cannot be kept exactly. Files are read until it is known that the
first bin is worth its work, or each bin that is partly sorted: two of most tables, all of them only where all are
refused.

Spec: Add File and Remove File; Column Mapping (new files need not be in directories of partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.preflight import explain_exclusion, find_row_id_errors, is_excluded_from_rewrite
from deltacli.changing.request_checks import require_committable_change
from deltacli.core.errors import FileMissing, Refusal, Refused, command
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import Machine
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import ArrowArray, Json, JsonObject, RecordBatch
from deltacli.core.units import format_size, plural
from deltacli.delta.clustering.clustering_columns import clustering_paths
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.log.actions import Action, require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.random_prefixes import LETTERS, prefix_length, uses_random_prefixes
from deltacli.delta.log.row_ids import mark_of
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import best_spelling, format_partition_directory, is_text, with_spelled_keys
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.delta.schema.to_arrow import iceberg_compat
from deltacli.delta.schema.type_changes import require_readable_rows
from deltacli.delta.schema.types import PrimitiveType
from deltacli.operations.optimize.live_files import (
    ORDER_TAGS,
    PACKED_TAG,
    Bin,
    LiveFiles,
    Rules,
    Selection,
    live_files,
    select,
    select_ordered,
)
from deltacli.operations.optimize.request import COMMIT_BINS, COMMIT_BYTES, OptimizeRequest, target_of
from deltacli.table.ambiguous_files import find_damaged_commit_refusal
from deltacli.table.file_keys import read_adds_with_mask, read_selected_adds
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.needed_files import build_needed_files, join_needed_files, locate_files
from deltacli.table.older_metadata import read_column_names_for_tasks
from deltacli.table.partition_condition import Mask, PartitionCondition
from deltacli.table.rebuild import read_snapshot
from deltacli.work.rewrite.exactness import UNREAD
from deltacli.work.rewrite.outdated_columns import CONFIG, find_files_to_purge
from deltacli.work.rewrite.pieces import SPEC, NewFile, RefusedFile, RewritePiece, RewriteSpec
from deltacli.work.rewrite.sources import FindRefused
from deltacli.work.rows.data_files import DataFile
from deltacli.work.task import Task

if TYPE_CHECKING:
    from deltacli.operations.optimize.row_order import RowOrder
    from deltacli.table.version import Snapshot

# -- the plan of an optimization ---------------------------------------------------------------------------------------

_NEAR, _FAR = (1e-3, 2e-8), (8e-3, 3e-8)
"""Seconds per file and per byte of one thread: measured on a disk with 1,000 files of 3 kB to 90 kB and 20 of 4 MB, of
eight columns, the new files read back. Remote stores are estimated, with two requests per file and eight files at a
time.
"""
_THREADS = 2
_VERIFYING = 1.5
"""What `verify` adds: it reads the old and the new files once more."""
_SORTING = 2.5
"""What sorting adds: rows are written to temporary files twice."""


def breaks_rule(file: RefusedFile) -> bool:
    """Return True for a file that breaks a rule of `validate`, so that its rows are not trusted."""
    return is_excluded_from_rewrite(file.code) or file.code.startswith("mapping.")


def is_unreadable(file: RefusedFile) -> bool:
    """Return True for a file that could not be read; the other ones are left alone for what they are."""
    return not (file.code.startswith("optimize.") or breaks_rule(file))


@short_repr("version=snapshot.version", "bins=selection.bins", "small_files", "is_noop", "damaged")
@dataclass(frozen=True, eq=False, repr=False)
class OptimizePlan:
    """What an optimization would do. Nothing has been done."""

    base_version: BaseVersion
    request: OptimizeRequest
    snapshot: Snapshot
    rules: Rules
    condition: Mask | None
    live: LiveFiles
    selection: Selection
    order: RowOrder | None = None
    """The order that rows get; None if they keep that of their files."""
    damaged: tuple[RefusedFile, ...] = ()
    """Files that are left alone: they could not be read when the plan was made, may be in the table twice, or have
    columns of types that are not read.
    """
    refusals: tuple[Refusal, ...] = ()
    """Errors of the table that forbid to rewrite anything."""

    @property
    def table(self) -> TableHandle:
        return self.base_version.table

    @property
    def is_noop(self) -> bool:
        return not self.selection.bins

    @property
    def unreadable(self) -> Sequence[RefusedFile]:
        return [one for one in self.damaged if is_unreadable(one)]

    @property
    def way_out(self) -> str | None:
        return self.way_out_for(self.unreadable)

    def way_out_for(self, files: Sequence[RefusedFile]) -> str | None:
        """Return the command after which the first of these files that has one can be rewritten; None without one.
        Nothing repairs a table that a catalog manages.
        """
        from deltacli.rules.framework.repairs import get_repair_row

        for one in files:
            if one.column is not None:
                return command("alter", "nullable", one.column, dry_run=True)
            if get_repair_row(one.code).steps and not self.snapshot.protocol.is_catalog_managed:
                return command("repair", dry_run=True)
        return None

    def build_refusal(self) -> Refused | None:
        """Return the error of the refusals, None without one; a file that cannot be rewritten is left out instead."""
        return Refused.from_refusals(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        chosen = self.selection
        yield f"rewrite {plural(chosen.files, 'file')} ({format_size(chosen.size_bytes)}) as {chosen.outputs:,}"

    @cached_property
    def spec(self) -> RewriteSpec:
        """Return how new files are written. Raises Unreadable for a schema whose files deltacli does not write."""
        order = None if self.order is None else self.order.curve(self.request.temp_dir)
        read_column_names_for_tasks(self.snapshot)
        config = self.snapshot.config
        clustering = clustering_paths(config, self.snapshot.domains)
        made = RewriteSpec.make(config, target_bytes=self.rules.target_bytes, order=order, clustering=clustering)
        return replace(made, row_id_mark=mark_of(self.snapshot.domains))

    @property
    def z_order_by(self) -> list[str]:
        """Return the columns of a z-order, as they are recorded."""
        return [] if self.order is None or self.order.is_clustering else self.order.recorded

    @property
    def cluster_by(self) -> list[str]:
        """Return the clustering columns that rows are sorted by, as they are recorded."""
        return self.order.recorded if self.order is not None and self.order.is_clustering else []

    @cached_property
    def groups(self) -> Sequence[Sequence[Bin]]:
        """Return the bins of each commit."""
        return list(_groups(self.selection.bins))

    @property
    def small_files(self) -> int:
        """Return how many files are small enough to be rewritten."""
        return int(pc.sum(pc.less(self.live.columns.packed, self.rules.min_bytes)).as_py() or 0)

    @property
    def skipped(self) -> Mapping[str, int]:
        return {**self.live.excluded, **self.selection.skipped}

    @property
    def estimate(self) -> dict[str, Json]:
        """The mean number of files of a partition, which a query of one partition opens, now and afterwards, in sorted
        files with a narrow condition on one of the columns; the bytes to read; and about how many seconds two threads
        take, null on a cluster.
        """
        files, partitions, chosen = len(self.live.keys), max(self.live.partitions, 1), self.selection
        columns = 0 if self.order is None else len(self.order.columns)
        # Of n files that are sorted by two columns, each has a range of one in √n in both.
        opened_share = 1 - 1 / columns if columns else 1.0
        after = files - chosen.files + sum(one.outputs**opened_share for one in chosen.bins)
        return {
            "filesPerQueryBefore": round(files / partitions, 2),
            "filesPerQueryAfter": round(after / partitions, 2),
            "bytes": chosen.size_bytes,
            "seconds": None if self.table.engine.may_repeat else round(self._seconds, 1),
        }

    @property
    def _seconds(self) -> float:
        per_file, per_byte = _costs(self.table)
        one_thread = self.selection.files * per_file + self.selection.size_bytes * per_byte
        more = (_VERIFYING if self.request.verify else 1) * (1 if self.order is None else _SORTING)
        return one_thread / max(min(len(self.selection.bins), _THREADS), 1) * more

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.optimize`."""
        chosen = self.selection
        return {
            "version": self.snapshot.version,
            "where": self.request.where,
            "zOrderBy": list[Json](self.z_order_by),
            "clusterBy": list[Json](self.cluster_by),
            "targetBytes": self.rules.target_bytes,
            "minBytes": self.rules.min_bytes,
            "committedVersions": [],
            "groups": {"planned": len(self.groups), "done": 0, "dropped": 0, "failed": 0},
            "files": {"removed": chosen.files, "added": chosen.outputs, "skipped": sum(self.skipped.values())},
            "bytes": {"removed": chosen.size_bytes, "added": None},
            "rows": chosen.rows,
            "vectorsPurged": chosen.vectors,
            "skipped": dict(self.skipped),
            "refused": [one._asdict() for one in self.damaged],
            "leftBehind": [],
            "verified": None,
            "estimate": self.estimate,
            "refusals": [one.as_json("wayOut") for one in self.refusals],
            **self.base_version.warnings_json,
            "dryRun": True,
        }


def _groups(bins: Sequence[Bin]) -> Iterator[Sequence[Bin]]:
    begin = size = 0
    for place, one in enumerate(bins):
        if place > begin and (size + one.size_bytes > COMMIT_BYTES or place - begin >= COMMIT_BINS):
            yield bins[begin:place]
            begin, size = place, 0
        size += one.size_bytes
    if begin < len(bins):
        yield bins[begin:]


def weight_of(table: TableHandle, one: Bin) -> int:
    """Return the share of a bin in the time, in bytes."""
    per_file, per_byte = _costs(table)
    return one.size_bytes + round(one.files * per_file / per_byte)


def _costs(table: TableHandle) -> tuple[float, float]:
    return _NEAR if table.storage.capabilities.has_cheap_requests else _FAR


# -- files that are left out -------------------------------------------------------------------------------------------

_ENDS = (b"PAR1", b"PARE")
_SIZE_FIELDS = ("path", "size", "deletionVector")


def without_lost(plan: OptimizePlan, choose: Callable[[LiveFiles], Selection]) -> OptimizePlan:
    """Return the plan without files that are missing, cut short or without their vector. Raises StorageFailed."""
    every = pa.array(range(len(plan.live.keys)), pa.int64())
    unknown = pa.repeat(pa.scalar(True), len(every))
    while True:
        chosen = pc.is_in(every, value_set=pa.array(plan.selection.places(plan.selection.bins), pa.int64()))
        chosen, unknown = pc.and_(chosen, unknown), pc.and_not(unknown, chosen)
        lost = dict(_lost(plan, chosen)) if pc.any(chosen).as_py() else {}
        if not lost:
            return plan
        live = plan.live.excluding({place: one.code for place, one in lost.items()})
        plan = replace(plan, live=live, selection=choose(live), damaged=(*plan.damaged, *lost.values()))


def _lost(plan: OptimizePlan, chosen: ArrowArray) -> Iterator[tuple[int, RefusedFile]]:
    """Yield the places of the chosen files that are missing or cut short."""
    table, places = plan.table, pc.indices_nonzero(chosen)
    marked = read_adds_with_mask(plan.snapshot, plan.live.keys, chosen, plan.condition, _SIZE_FIELDS)
    adds = pa.Table.from_batches([pc.filter(rows, mask) for rows, mask in marked]).combine_chunks()
    uris = (table.storage.uri, *table.storage.aliases)
    paths, vectors = (adds[name].combine_chunks() for name in ("path", "deletionVector"))
    needed = build_needed_files(uris, paths, adds["size"], pa.nulls(len(paths), pa.int64()), vectors)
    found, sizes = locate_files(table.storage, join_needed_files([needed]), table.engine, table.progress)
    missing = pc.filter(found.files["path"], pc.is_null(sizes))
    is_smaller = pc.less(sizes, found.files["sizeBytes"])
    seen = zip(*(pc.filter(one, is_smaller).to_pylist() for one in (found.files["path"], sizes)), strict=True)
    cut = pa.array(_cut_short(table, [*seen]), pa.binary())
    if not (len(missing) or len(cut)):
        return
    keys = PathKeys(uris)
    of_vectors, of_data = keys.compute_vector_keys(unique_id_column(vectors)).keys, keys.compute_keys(paths).keys
    for code, files, faulty, what in (
        ("dv.file-missing", of_vectors, missing, "does not exist"),
        ("data.file-missing", of_data, missing, "does not exist"),
        ("data.not-parquet", of_data, cut, "is cut short"),
    ):
        for row in pc.indices_nonzero(pc.is_in(files, value_set=faulty)).to_pylist():
            name = decode_path_bytes(files[row].as_py())
            yield places[row].as_py(), RefusedFile(paths[row].as_py(), code, f"{name} {what}")


def _cut_short(table: TableHandle, files: Sequence[tuple[bytes, int]]) -> list[bytes]:
    """Return the files, given with their sizes, that do not end as Parquet files."""

    def look(file: tuple[bytes, int]) -> bool:
        path, size = decode_path_bytes(file[0]), file[1]
        length = len(_ENDS[0])
        try:  # an empty file has no range to ask for
            return size < length or table.storage.read_range(path, size - length, length) not in _ENDS
        except FileMissing:  # what happens to it is up to the run
            return False

    found = table.engine.run(look, files, at_once=table.storage.capabilities.parallel_reads)
    return [path for (path, _), is_cut in zip(files, found, strict=True) if is_cut]


# -- making the plan of an optimization --------------------------------------------------------------------------------

_FIRST, _GROWTH = 2, 4
"""Files that are opened first, and how many times more each time that all were refused: each time, the log is replayed
and the bins are chosen again.
"""
_FIELDS = ("path", "size", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_FILES_PER_PIECE = 32


Find: TypeAlias = Task[Sequence[DataFile], list[bool]]
"""Says of each file whether it holds what is to be purged; the shared value `CONFIG` is the table's configuration."""


def plan_optimize(
    table: TableHandle, request: OptimizeRequest, now: Snapshot | None = None, *, find: Find | None = None
) -> OptimizePlan:
    """Choose the files to rewrite of the newest version, or of one that was rebuilt already. Reads the log and a few
    data files, and with `purge` the footers of all. `find` says what a purge is for besides deleted rows; without it:
    dropped columns, bounds in footers that leave NaN out, and times that engines misread as INT96.

    Raises what `read_snapshot` raises; Refused where the table cannot be written; Unreadable for a schema whose files
    deltacli does not write; UsageError for a condition or an order that does not fit this table; DataUnreadable
    (`partition.*`).
    """
    require_unreserved_keys(request.commit_metadata)
    snapshot = now or read_snapshot(table)
    _require_writable(snapshot)
    order = None
    if request.cluster or request.zorder or request.where is not None:
        from deltacli.operations.optimize.row_order import row_order

        order = row_order(snapshot, request)
    condition = None if request.where is None else PartitionCondition(snapshot.config, request.where)
    live = live_files(snapshot, condition)
    if request.purge:
        live = with_named_files(snapshot, live, condition, find or find_files_to_purge)
    return _plan(snapshot, request, live, condition, order)


def plan_of_files(
    snapshot: Snapshot, request: OptimizeRequest, live: LiveFiles, *, open_files: bool = True
) -> OptimizePlan:
    """Choose among all live files of a version, which were read before. A purge is for deleted rows only: footers are
    not read. Without `open_files`, the plan may have files that the run refuses.

    Raises what `plan_optimize` raises, but for a condition and an order, which the request does not have.
    """
    _require_writable(snapshot)
    return _plan(snapshot, request, live, None, None, open_files=open_files)


def _require_writable(snapshot: Snapshot) -> None:
    require_readable_rows(snapshot.config, snapshot.version)
    require_committable_change(snapshot, CommitRequest("OPTIMIZE", new_rows=1), ChangeKind.ADD_FILES)
    if (managed := managed_store(snapshot.table.storage)) is not None:
        managed.require_permission("DATA_REORGANIZATION", "rewrite files", asks=False)


def _plan(
    snapshot: Snapshot,
    request: OptimizeRequest,
    live: LiveFiles,
    condition: PartitionCondition | None,
    order: RowOrder | None,
    *,
    open_files: bool = True,
) -> OptimizePlan:
    rules = rules_of(request, snapshot.properties)
    choose = partial(_chosen, rules, order)
    doubted = live.doubted
    live = live.excluding(doubted) if doubted else live
    base_version = build_base_version(snapshot)
    base_version.warnings.extend(snapshot.decisions)
    plan = OptimizePlan(base_version, request, snapshot, rules, condition, live, choose(live), order)
    if not open_files or (plan.is_noop and not doubted):
        return plan
    if doubted:
        plan = replace(plan, damaged=tuple(_doubted(plan, doubted)))
    if not plan.is_noop:
        disputed = find_damaged_commit_refusal(snapshot, "rewriting files")
        of_row_ids = () if live.row_ids is None else find_row_id_errors(snapshot, live.row_ids)
        plan = replace(plan, refusals=(*filter(None, [disputed]), *of_row_ids))

    return without_inexact(without_lost(plan, choose), choose)


def _doubted(plan: OptimizePlan, rules: Mapping[int, str]) -> Iterator[RefusedFile]:
    """Yield the files at some places with the rule that each breaks."""
    keys, order = plan.live.keys, sorted(rules)
    chosen = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(order, pa.int64()))
    adds = read_selected_adds(plan.snapshot, keys, chosen, plan.condition, ("path", "deletionVector"))
    paths = (path for batch in adds for path in batch.column("path").to_pylist())
    for place, path in zip(order, paths, strict=True):
        yield RefusedFile(path, rules[place], explain_exclusion(rules[place]))


def _chosen(rules: Rules, order: RowOrder | None, live: LiveFiles) -> Selection:
    if order is None:
        return select(live.columns, rules)
    return select_ordered(live.columns, rules, partial(order.choose, live))


_MOST_BYTES = 1 << 60
"""More than any file has, and little enough for sums of 64 bits."""


def rules_of(request: OptimizeRequest, properties: Mapping[str, str]) -> Rules:
    """Return the sizes and shares of a request, else those of the table's properties."""
    target = min(_bytes(request.target_size) or target_of(properties), _MOST_BYTES)
    return Rules(
        target_bytes=target,
        min_bytes=min(_bytes(request.min_size) or -(-target // 2), _MOST_BYTES),
        min_files=request.min_files,
        purge_ratio=request.purge_ratio,
        purge=request.purge,
        max_bytes=_bytes(request.max_bytes),
    )


def _bytes(size: str | int | None) -> int | None:
    assert not isinstance(size, str)  # requests settle them
    return size


def without_inexact(plan: OptimizePlan, choose: Callable[[LiveFiles], Selection]) -> OptimizePlan:
    """Return the plan without files that are refused. Raises StorageFailed."""
    looked_at = set[int]()
    count = _FIRST if plan.order is None else 1
    while places := sorted(_next(plan, looked_at, count)):
        found = dict(zip(places, _look(plan, places), strict=True))
        looked_at.update(places)
        count *= _GROWTH
        if refused := {place: one for place, one in found.items() if one is not None}:
            live = plan.live.excluding({place: one.code for place, one in refused.items()})
            damaged = tuple(
                one for one in refused.values() if one.code == UNREAD or not one.code.startswith("optimize.")
            )
            plan = replace(plan, live=live, selection=choose(live), damaged=(*plan.damaged, *damaged))
    return plan


def _next(plan: OptimizePlan, looked_at: set[int], count: int) -> Iterator[int]:
    """Return so many files whose refusal could change what is done, none once it is certain that work is left.

    A bin to sort is worth it for files that are not in the order yet. So an exact one is looked for in the first bin,
    and in each that is partly in the order: the rest of it may have been refused by the run before.
    """
    bins, selection = plan.selection.bins, plan.selection
    if plan.order is not None:
        return chain.from_iterable(_next_to_sort(plan, one, looked_at, count) for one in bins)
    if not bins or _is_certain(plan, looked_at):
        return iter(())
    unknown = (place for one in bins for place in selection.places([one]))
    return islice((place for place in unknown if place not in looked_at), count)


def _next_to_sort(plan: OptimizePlan, one: Bin, looked_at: set[int], count: int) -> Iterator[int]:
    assert plan.order is not None
    unsorted = plan.order.unsorted(plan.live, plan.selection.places([one]))
    is_certain = any(place in looked_at for place in unsorted)  # refused ones are not in the selection any more
    if is_certain or (len(unsorted) == one.files and one is not plan.selection.bins[0]):
        return iter(())
    return islice(unsorted, count)


def _is_certain(plan: OptimizePlan, looked_at: set[int]) -> bool:
    """Return whether enough files of the first bin are known not to be refused."""
    first = plan.selection.bins[0]
    exact = sum(place in looked_at for place in plan.selection.places([first]))
    return exact >= min(plan.rules.min_files, first.files)


def _look(plan: OptimizePlan, places: Sequence[int]) -> Iterator[RefusedFile | None]:
    table, keys = plan.table, plan.live.keys
    is_wanted = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(places, pa.int64()))
    pieces = (
        RewritePiece(0, (_source(add),), dict(add["partitionValues"] or ()))
        for adds in read_selected_adds(plan.snapshot, keys, is_wanted, plan.condition, _FIELDS)
        for add in adds.to_pylist()
    )
    for refused in table.engine.run_tasks(
        FindRefused(), pieces, table.stores, shared={SPEC: plan.spec}, weigh=attrgetter("weight")
    ):
        yield refused[0] if refused else None


def _source(add: JsonObject) -> DataFile:
    ids, version = add["baseRowId"], add["defaultRowCommitVersion"]
    return DataFile(add["path"], add["size"], {}, add["deletionVector"], base_row_id=ids, row_commit_version=version)


def with_named_files(snapshot: Snapshot, live: LiveFiles, condition: Mask | None, find: Find) -> LiveFiles:
    """Return the files with those marked that hold what is to be purged, as `find` says from their footers."""
    columns, table = live.columns, snapshot.table
    unknown = pc.invert(pc.or_(columns.has_vector, columns.is_excluded))
    places = pc.indices_nonzero(unknown)
    adds = read_selected_adds(snapshot, live.keys, unknown, condition, ("path", "size", "deletionVector", "stats"))
    pieces = chain.from_iterable(map(_pieces, adds))
    found: list[bool] = []
    with table.progress.step("reading footers", unit="files", total=len(places)) as step:
        for answers in table.engine.run_tasks(find, pieces, table.stores, shared={CONFIG: snapshot.config}, weigh=len):
            found += answers
            step.advance(len(answers))
    named = pc.take(places, pc.indices_nonzero(pa.array(found, pa.bool_())))
    every = pa.array(range(len(live.keys)), pa.uint64())
    return live.naming(pc.is_in(every, value_set=pc.cast(named, pa.uint64())))


def _pieces(adds: RecordBatch) -> Iterator[list[DataFile]]:
    columns = (adds.column(name).to_pylist() for name in ("path", "size", "stats"))
    files = [DataFile(path, size, stats=stats) for path, size, stats in zip(*columns, strict=True)]
    yield from (files[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(files), _FILES_PER_PIECE))


# -- bins as pieces of work --------------------------------------------------------------------------------------------

_FILES_AT_ONCE = 50_000
"""Files whose actions are in memory, apart from those of one larger group of bins."""

_LONGEST_NAME = 255


class OpenBin(NamedTuple):
    """A bin with the actions of its files, in the order of the new file's rows."""

    bin: Bin
    piece: RewritePiece
    adds: RecordBatch
    own_fields: Action
    """What the adds of new files say about the order of their rows."""

    @property
    def paths(self) -> list[str]:
        """Return the paths of the files, as in the log."""
        found: list[str] = self.adds.column("path").to_pylist()
        return found


def open_groups(plan: OptimizePlan, groups: Iterable[Sequence[Bin]]) -> Iterator[list[OpenBin]]:
    """Yield the bins of each group with their actions, reading those of several groups at once."""
    number = 0
    for together in _rounds(groups):
        opened = _opened(plan, [one for group in together for one in group], number)
        for group in together:
            yield [next(opened) for _ in group]
        number += sum(map(len, together))


def _rounds(groups: Iterable[Sequence[Bin]]) -> Iterator[list[Sequence[Bin]]]:
    together, files = list[Sequence[Bin]](), 0
    for group in groups:
        count = sum(one.files for one in group)
        if together and files + count > _FILES_AT_ONCE:
            yield together
            together, files = [], 0
        together.append(group)
        files += count
    if together:
        yield together


def _opened(plan: OptimizePlan, bins: Sequence[Bin], number: int) -> Iterator[OpenBin]:
    """Yield bins with their actions. The version is read once."""
    places = plan.selection.places(bins)
    keys = plan.live.keys
    is_wanted = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(places, pa.int64()))
    batches = list(read_selected_adds(plan.snapshot, keys, is_wanted, plan.condition))
    adds = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    rank = {place: row for row, place in enumerate(sorted(places))}
    begin = 0
    for count, one in enumerate(bins, number):
        rows = pa.array([rank[place] for place in places[begin : begin + one.files]], pa.int64())
        begin += one.files
        yield _open(plan, one, count, pc.take(adds, rows))


def _open(plan: OptimizePlan, one: Bin, number: int, adds: RecordBatch) -> OpenBin:
    config, machine = plan.snapshot.config, plan.table.machine
    values = _partition_values(config, adds)
    paths, sizes = adds.column("path").to_pylist(), adds.column("size").to_pylist()
    vectors = adds.column("deletionVector").to_pylist()
    ids, versions = (adds.column(name).to_pylist() for name in ("baseRowId", "defaultRowCommitVersion"))
    sources = tuple(
        DataFile(path, sizes[row], {}, vectors[row], base_row_id=ids[row], row_commit_version=versions[row])
        for row, path in enumerate(paths)
    )
    piece = RewritePiece(number, sources, values, new_directory(config, values, machine))
    return OpenBin(one, piece, adds, own_fields(adds) if plan.order is None else plan.order.fields_of_a_bin(machine))


def _partition_values(config: TableConfiguration, adds: RecordBatch) -> Mapping[str, str | None]:
    """Return the values of files of one partition, each in its best spelling, with the table's spelling of the columns;
    empty text is null, but of text, which some readers see as empty.
    """
    maps = with_spelled_keys(adds.column("partitionValues"), list(config.partition_columns))
    found: dict[str, str | None] = {}
    for name, column in config.partition_columns.items():
        kind = column.data_type.name if column and isinstance(column.data_type, PrimitiveType) else ""
        texts = pc.unique(pc.map_lookup(maps, query_key=pa.scalar(name), occurrence="first")).to_pylist()
        text = best_spelling(kind, texts)
        found[name] = text if is_text(kind) else text or None
    return found


def own_fields(adds: RecordBatch) -> Action:
    """Return the fields that all files of a bin have in common because they are grouped by them."""
    tags = dict(adds.column("tags")[0].as_py() or ())
    kept = {name: tags[name] for name in ORDER_TAGS if tags.get(name) is not None}
    provider = adds.column("clusteringProvider")[0].as_py()
    return {**({"tags": kept} if kept else {}), **({} if provider is None else {"clusteringProvider": provider})}


def new_directory(config: TableConfiguration, values: Mapping[str, str | None], machine: Machine) -> str:
    """Return the directory of new files: that of their partition, or a random one, as the reference implementation
    does with column mapping and for `delta.randomizeFilePrefixes`.
    """
    directory = format_partition_directory(values)
    is_too_long = any(len(part.encode()) > _LONGEST_NAME for part in directory.split("/"))
    if not uses_random_prefixes(config) and not is_too_long:
        return directory
    number = int.from_bytes(machine.random_bytes(64), "big")  # so long that each letter is as likely
    return "".join(LETTERS[number // len(LETTERS) ** at % len(LETTERS)] for at in range(prefix_length(config)))


def parameters_of(plan: OptimizePlan) -> tuple[str, Mapping[str, object]]:
    """Return the operation and its parameters."""
    predicate = [] if plan.request.where is None else [plan.request.where]
    if plan.rules.purge:
        return "REORG", {"predicate": predicate, "applyPurge": True}
    by = {"zOrderBy": plan.z_order_by, "clusterBy": plan.cluster_by}
    full = {"isFull": False} if plan.cluster_by else {}
    return "OPTIMIZE", {"predicate": predicate, **by, "auto": False, **full}


def size_metrics(removed: Sequence[RecordBatch], added: Sequence[NewFile]) -> dict[str, int | str]:
    """Return the metrics of a commit."""
    sizes = sorted(file.size_bytes for file in added)
    quartiles = {f"p{25 * part}FileSize": sizes[len(sizes) * part // 4] for part in (1, 2, 3)} if sizes else {}
    bounds = {"minFileSize": sizes[0], "maxFileSize": sizes[-1]} if sizes else {}
    return {
        "numRemovedFiles": sum(adds.num_rows for adds in removed),
        "numRemovedBytes": sum(pc.sum(adds.column("size")).as_py() or 0 for adds in removed),
        "numAddedFiles": len(sizes),
        "numAddedBytes": sum(sizes),
        **bounds,
        **quartiles,
        "numDeletionVectorsRemoved": sum(adds.num_rows - adds.column("deletionVector").null_count for adds in removed),
    }


def _tags(own: Action, file: NewFile, written_from: int) -> Action:
    """Return the tags with the bytes that a file was written from, where it has become smaller."""
    if written_from <= file.size_bytes:
        return {}
    return {"tags": {**own.get("tags", {}), PACKED_TAG: str(written_from)}}


def added_files(plan: OptimizePlan, opened: OpenBin, files: Sequence[NewFile], used_bytes: int) -> RecordBatch:
    """Return the adds of the new files of a bin. They get row ids when they are committed."""
    compat = iceberg_compat(plan.snapshot.config)
    own = dict(opened.own_fields)
    if compat >= 2:
        own["tags"] = {**own.get("tags", {}), "ICEBERG_COMPAT_VERSION": str(compat)}
    written_from = opened.bin.packed_bytes * used_bytes // max(opened.bin.size_bytes, 1)
    if len(files) > 1:
        written_from = max(written_from, plan.rules.target_bytes)
    actions = [
        {
            "path": file.path,
            "partitionValues": dict(opened.piece.partition_values),
            "size": file.size_bytes,
            "modificationTime": file.modification_ms,
            "dataChange": False,
            "stats": file.stats,
            **own,
            **_tags(own, file, written_from),
        }
        for file in files
    ]
    return build_action_batch(actions, action_schemas().add, "")
