"""The plan of an optimization: which files become how many, how long that takes, and what a query gains by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.changing.basis import Basis
from deltacli.changing.preflight import REMOVED_OTHERWISE, TWICE
from deltacli.core.cached import cached_property
from deltacli.core.errors import Refusal, Refused
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.core.units import format_size, plural
from deltacli.delta.clustering.clustering_columns import clustering_paths
from deltacli.delta.log.row_ids import mark_of
from deltacli.operations.optimize.live_files import LiveFiles
from deltacli.operations.optimize.request import COMMIT_BINS, COMMIT_BYTES, OptimizeRequest
from deltacli.operations.optimize.select import Bin, Rules, Selection
from deltacli.table.keyed_files import Mask
from deltacli.work.rewrite.pieces import RefusedFile, RewriteSpec

if TYPE_CHECKING:
    from deltacli.operations.optimize.row_order import RowOrder
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

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
    return file.code in (REMOVED_OTHERWISE, TWICE) or file.code.startswith("mapping.")


def is_unreadable(file: RefusedFile) -> bool:
    """Return True for a file that could not be read; the other ones are left alone for what they are."""
    return not (file.code.startswith("optimize.") or breaks_rule(file))


def way_out(files: Sequence[RefusedFile]) -> str | None:
    """Return the command after which the first of these files that has one can be rewritten; None without one."""
    from deltacli.rules.framework.repairs import row_of

    for one in files:
        if one.column is not None:
            return command("alter", "nullable", one.column, dry_run=True)
        if row_of(one.code).steps:
            return command("repair", dry_run=True)
    return None


@short_repr("version=snapshot.version", "bins=selection.bins", "small_files", "is_noop", "damaged")
@dataclass(frozen=True, eq=False, repr=False)
class OptimizePlan:
    """What an optimization would do. Nothing has been done."""

    basis: Basis
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
        """The table."""
        return self.basis.table

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do."""
        return not self.selection.bins

    @property
    def unreadable(self) -> Sequence[RefusedFile]:
        """Return the files that could not be read."""
        return [one for one in self.damaged if is_unreadable(one)]

    @property
    def way_out(self) -> str | None:
        """Return `way_out` of the files that could not be read."""
        return way_out(self.unreadable)

    def objection(self) -> Refused | None:
        """Return the error of the refusals, None without one; a file that cannot be rewritten is left out instead."""
        return Refused.by(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        """Yield how many files become how many."""
        chosen = self.selection
        yield f"rewrite {plural(chosen.files, 'file')} ({format_size(chosen.size_bytes)}) as {chosen.outputs:,}"

    @cached_property
    def spec(self) -> RewriteSpec:
        """Return how new files are written. Raises Unreadable for a schema whose files deltacli does not write."""
        order = None if self.order is None else self.order.curve(self.request.temp_dir)
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
        """Return how many files are left alone, by reason."""
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
            **self.basis.cautions_json,
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
    return _NEAR if table.storage.capabilities.cheap_listing else _FAR
