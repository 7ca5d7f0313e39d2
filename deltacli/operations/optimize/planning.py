"""Making the plan of an optimization: which files become how many. It reads, and changes nothing.

Files that every run would refuse are left out, so that a plan has nothing to do where nothing else is left. Storage
shows which are missing, and only their content which cannot be kept exactly. Files are read until it is known that the
first bin is worth its work, or each bin that is partly sorted: two of most tables, all of them only where all are
refused. Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from deltacli.arrow import compute as pc
from deltacli.changing.acts import Act
from deltacli.changing.basis import basis_of
from deltacli.changing.commit import require_possible
from deltacli.changing.preflight import errors_of_row_ids, reason_of
from deltacli.core.typing import JsonObject, RecordBatch
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.schema.type_changes import require_readable_rows
from deltacli.operations.optimize.live_files import LiveFiles, live_files
from deltacli.operations.optimize.plan import OptimizePlan
from deltacli.operations.optimize.request import OptimizeRequest, target_of
from deltacli.operations.optimize.select import Bin, Rules, Selection, select, select_ordered
from deltacli.table.keyed_files import Mask, PartitionCondition, chosen_actions
from deltacli.table.rebuild import read_snapshot
from deltacli.work.rewrite.exactness import SPEC, UNREAD
from deltacli.work.rewrite.outdated_columns import CONFIG, find_dropped_columns
from deltacli.work.rewrite.pieces import RefusedFile, RewritePiece, SourceFile
from deltacli.work.rewrite.sources import FindRefused
from deltacli.work.rows.data_files import DataFile
from deltacli.work.task import Task

if TYPE_CHECKING:
    from deltacli.operations.optimize.row_order import RowOrder
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

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
    data files, and with `purge` the footers of all. `find` says what a purge is for besides deleted rows; dropped
    columns without it.

    Raises what `read_snapshot` raises; Refused where the table cannot be written; Unreadable for a schema whose files
    deltacli does not write; UsageError for a condition or an order that does not fit this table; DataUnreadable
    (`partition.*`).
    """
    require_free(request.commit_metadata)
    snapshot = now or read_snapshot(table)
    _require_writable(snapshot)
    order = None
    if request.cluster or request.zorder or request.where is not None:
        from deltacli.operations.optimize.row_order import row_order

        order = row_order(snapshot, request)
    condition = None if request.where is None else PartitionCondition(snapshot.config, request.where)
    live = live_files(snapshot, condition)
    if request.purge:
        live = with_named_files(snapshot, live, condition, find or find_dropped_columns)
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
    require_possible(snapshot, CommitRequest("OPTIMIZE", new_rows=1), Act.ADD)


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
    plan = OptimizePlan(basis_of(snapshot), request, snapshot, rules, condition, live, choose(live), order)
    if not open_files or (plan.is_noop and not doubted):
        return plan
    if doubted:
        plan = replace(plan, damaged=tuple(_doubted(plan, doubted)))
    if live.row_ids is not None and not plan.is_noop:
        plan = replace(plan, refusals=tuple(errors_of_row_ids(snapshot, live.row_ids)))
    from deltacli.operations.optimize.lost_files import without_lost

    return without_inexact(without_lost(plan, choose), choose)


def _doubted(plan: OptimizePlan, rules: Mapping[int, str]) -> Iterator[RefusedFile]:
    """Yield the files at some places with the rule that each breaks."""
    import pyarrow as pa

    keys, order = plan.live.keys, sorted(rules)
    chosen = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(order, pa.int64()))
    adds = chosen_actions(plan.snapshot, keys, chosen, plan.condition, ("path", "deletionVector"))
    paths = (path for batch in adds for path in batch.column("path").to_pylist())
    for place, path in zip(order, paths, strict=True):
        yield RefusedFile(path, rules[place], reason_of(rules[place]))


def _chosen(rules: Rules, order: RowOrder | None, live: LiveFiles) -> Selection:
    if order is None:
        return select(live.columns, rules)
    return select_ordered(live.columns, rules, partial(order.choose, live))


def rules_of(request: OptimizeRequest, properties: Mapping[str, str]) -> Rules:
    """Return the sizes and shares of a request, else those of the table's properties."""
    target = _bytes(request.target_size) or target_of(properties)
    return Rules(
        target_bytes=target,
        min_bytes=_bytes(request.min_size) or -(-target // 2),
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
    import pyarrow as pa

    table, keys = plan.table, plan.live.keys
    is_wanted = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(places, pa.int64()))
    pieces = (
        RewritePiece(0, (_source(add),), dict(add["partitionValues"] or ()))
        for adds in chosen_actions(plan.snapshot, keys, is_wanted, plan.condition, _FIELDS)
        for add in adds.to_pylist()
    )
    for refused in table.engine.spread(
        FindRefused(), pieces, table.stores, shared={SPEC: plan.spec}, weigh=attrgetter("weight")
    ):
        yield refused[0] if refused else None


def _source(add: JsonObject) -> SourceFile:
    file = DataFile(add["path"], add["size"], {}, add["deletionVector"])
    return SourceFile(file, add["baseRowId"], add["defaultRowCommitVersion"])


def with_named_files(snapshot: Snapshot, live: LiveFiles, condition: Mask | None, find: Find) -> LiveFiles:
    """Return the files with those marked that hold what is to be purged, as `find` says from their footers."""
    import pyarrow as pa

    columns, table = live.columns, snapshot.table
    unknown = pc.invert(pc.or_(columns.has_vector, columns.is_excluded))
    places = pc.indices_nonzero(unknown)
    adds = chosen_actions(snapshot, live.keys, unknown, condition, ("path", "size", "deletionVector"))
    pieces = chain.from_iterable(map(_pieces, adds))
    found: list[bool] = []
    with table.progress.step("reading footers", unit="files", total=len(places)) as step:
        for answers in table.engine.spread(find, pieces, table.stores, shared={CONFIG: snapshot.config}, weigh=len):
            found += answers
            step.advance(len(answers))
    named = pc.take(places, pc.indices_nonzero(pa.array(found, pa.bool_())))
    every = pa.array(range(len(live.keys)), pa.uint64())
    return live.naming(pc.is_in(every, value_set=pc.cast(named, pa.uint64())))


def _pieces(adds: RecordBatch) -> Iterator[list[DataFile]]:
    paths, sizes = adds.column("path").to_pylist(), adds.column("size").to_pylist()
    files = [DataFile(path, size) for path, size in zip(paths, sizes, strict=True)]
    yield from (files[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(files), _FILES_PER_PIECE))
