"""Making the plan of an optimization: which files become how many. It reads, and changes nothing.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.schema.type_changes import require_readable_rows
from deltacli.operations.change.commit import require_possible
from deltacli.operations.optimize.inexact import without_inexact
from deltacli.operations.optimize.live import LiveFiles, live_files
from deltacli.operations.optimize.plan import OptimizePlan
from deltacli.operations.optimize.purge import Find, with_named_files
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.optimize.row_order import RowOrder, row_order
from deltacli.operations.optimize.select import Rules, Selection, select, select_ordered
from deltacli.operations.table.partition_condition import PartitionCondition
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.units import parse_size
from deltacli.work.rewrite.outdated_columns import find_dropped_columns

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot

TARGET_SIZE = "delta.targetFileSize"
_DEFAULT_TARGET = 128 << 20


def plan_optimize(table: TableHandle, request: OptimizeRequest, *, find: Find | None = None) -> OptimizePlan:
    """Choose the files to rewrite. Reads the log and a few data files, and with `purge` the footers of all. `find` says
    what a purge is for besides deleted rows; dropped columns without it.

    Raises what `read_snapshot` raises; Refused where the table cannot be written; Unreadable for a schema whose files
    deltacli does not write; UsageError for a condition or an order that does not fit this table; DataUnreadable
    (`partition.*`).
    """
    require_free(request.commit_metadata)
    snapshot = read_snapshot(table)
    _require_writable(snapshot)
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
    require_possible(snapshot, CommitRequest("OPTIMIZE"))
    require_readable_rows(snapshot.config, snapshot.version)


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
    plan = OptimizePlan(snapshot.table, request, snapshot, rules, condition, live, choose(live), order)
    return without_inexact(plan, choose) if open_files and not plan.is_noop else plan


def _chosen(rules: Rules, order: RowOrder | None, live: LiveFiles) -> Selection:
    if order is None:
        return select(live.columns, rules)
    return select_ordered(live.columns, rules, partial(order.choose, live))


def rules_of(request: OptimizeRequest, properties: Mapping[str, str]) -> Rules:
    """Return the sizes and shares of a request, else those of the table's properties."""
    target = _bytes(request.target_size) or _target_of(properties) or _DEFAULT_TARGET
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


def _target_of(properties: Mapping[str, str]) -> int | None:
    """Return the property, which is bytes or has a binary unit as in `128mb`; None where it is absent or invalid."""
    from deltacli.delta.protocol.known_properties import SIZE

    text = str(properties.get(TARGET_SIZE) or "").strip()
    if not SIZE.fullmatch(text):
        return None
    digits = text.rstrip("bBkKmMgGtTpPiI ")
    unit = text[len(digits) :].strip().lower().removesuffix("b").removesuffix("i")
    return parse_size(f"{digits}{unit}iB" if unit else digits) or None
