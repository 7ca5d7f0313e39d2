"""Planning an optimization, which changes nothing: which files become how many, and what stands against it.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.schema.readable_rows import require_readable_rows
from deltacli.operations.change.commit import require_possible
from deltacli.operations.optimize.estimate import estimate
from deltacli.operations.optimize.inexact import without_inexact
from deltacli.operations.optimize.live import LiveFiles, live_files
from deltacli.operations.optimize.purge import Find, with_named_files
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.optimize.row_order import RowOrder, row_order
from deltacli.operations.optimize.select import Bin, Rules, Selection, select, select_ordered
from deltacli.operations.table.keyed_files import Mask
from deltacli.operations.table.partition_condition import PartitionCondition
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.typing import Json
from deltacli.units import parse_size
from deltacli.work.rewrite.dropped_columns import FindDroppedColumns
from deltacli.work.rewrite.spec import RewriteSpec

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot

TARGET_SIZE = "delta.targetFileSize"
_DEFAULT_TARGET = 128 << 20
_GROUP_BYTES, _GROUP_BINS = 1 << 30, 64
"""A commit has the bins of so many bytes, or so many bins."""


@dataclass(frozen=True, eq=False)
class OptimizePlan:
    """What an optimization would do. Nothing has been done."""

    table: TableHandle
    request: OptimizeRequest
    snapshot: Snapshot
    rules: Rules
    condition: Mask | None
    live: LiveFiles
    selection: Selection
    order: RowOrder | None = None
    """The order that rows get; None if they keep that of their files."""

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do."""
        return not self.selection.bins

    @cached_property
    def spec(self) -> RewriteSpec:
        """Return how new files are written. Raises Unreadable for a schema whose files deltacli does not write."""
        order = None if self.order is None else self.order.curve(self.request.temp_dir)
        return RewriteSpec.make(self.snapshot.config, target_bytes=self.rules.target_bytes, order=order)

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
        """Return how many files are left alone, by reason."""
        return {**self.live.excluded, **self.selection.skipped}

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
            "refused": [],
            "leftBehind": [],
            "verified": None,
            "estimate": estimate(self),
            "refusals": [],
            "dryRun": True,
        }


def plan_optimize(table: TableHandle, request: OptimizeRequest, *, find: Find | None = None) -> OptimizePlan:
    """Choose the files to rewrite. Reads the log and a few data files, and with `purge` the footers of all. `find` says
    what a purge is for besides deleted rows; dropped columns without it.

    Raises what `read_snapshot` raises; Refused where the table cannot be written; Unreadable for a schema whose files
    deltacli does not write; UsageError for a condition or an order that does not fit this table; DataUnreadable
    (`partition.*`).
    """
    require_free(request.commit_metadata)
    snapshot = read_snapshot(table)
    require_possible(snapshot, CommitRequest("OPTIMIZE"))
    require_readable_rows(snapshot.config, snapshot.version)
    order = row_order(snapshot, request)
    rules = rules_of(request, snapshot.properties)
    condition = None if request.where is None else PartitionCondition(snapshot.config, request.where)
    live = live_files(snapshot, condition)
    if request.purge:
        live = with_named_files(snapshot, live, condition, find or FindDroppedColumns())
    choose = partial(_chosen, rules, order)
    plan = OptimizePlan(table, request, snapshot, rules, condition, live, choose(live), order)
    return plan if plan.is_noop else without_inexact(plan, choose)


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


def _groups(bins: Sequence[Bin]) -> Iterator[Sequence[Bin]]:
    begin = size = 0
    for place, one in enumerate(bins):
        if place > begin and (size + one.size_bytes > _GROUP_BYTES or place - begin >= _GROUP_BINS):
            yield bins[begin:place]
            begin, size = place, 0
        size += one.size_bytes
    if begin < len(bins):
        yield bins[begin:]
