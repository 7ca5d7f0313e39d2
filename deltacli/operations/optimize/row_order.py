"""The order that an optimization gives to rows: a z-order of columns, or the clustering of the table.

Spec: Clustered Table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Refused, UsageError, command, parameter
from deltacli.core.machine import Machine
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.clustering import clustering_columns
from deltacli.delta.clustering.order_columns import OrderColumn, column_text, order_columns
from deltacli.delta.clustering.sorting import (
    CUBE_COLUMNS,
    CUBE_ID,
    PROVIDER,
    Z_ORDER_TAG,
    ChosenFiles,
    files_to_cluster,
    files_to_z_order,
    z_order_tag,
)
from deltacli.delta.log.actions import Action
from deltacli.delta.schema.types import StructType
from deltacli.work.curve_sort import CurveOrder

if TYPE_CHECKING:
    from deltacli.operations.optimize.live_files import LiveFiles
    from deltacli.operations.optimize.request import OptimizeRequest
    from deltacli.table.version import Snapshot

NOT_CLUSTERED, CLUSTERED = "optimize.not-clustered", "optimize.clustered"


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that rows are sorted by, and which files are sorted together."""

    columns: tuple[OrderColumn, ...]
    is_clustering: bool

    @property
    def recorded(self) -> list[str]:
        """Return the names of the columns, as commitInfo and tags have them."""
        return [column.recorded for column in self.columns]

    def choose(self, live: LiveFiles, live_bytes: ArrowArray) -> ChosenFiles:
        """Return the files to sort."""
        is_excluded, tags = live.columns.is_excluded, live.tags
        if self.is_clustering:
            return files_to_cluster(live_bytes, tags[CUBE_ID], tags[CUBE_COLUMNS], self.recorded, is_excluded)
        return files_to_z_order(live.of_partition, live_bytes, tags[Z_ORDER_TAG], self._tag, is_excluded)

    def unsorted(self, live: LiveFiles, places: Sequence[int]) -> list[int]:
        """Return those of some places whose files are not in this order; none where they are of several cubes."""
        tags = live.tags[CUBE_ID if self.is_clustering else Z_ORDER_TAG]
        found = pc.take(tags, pa.array(places, pa.int64())).to_pylist()
        if self.is_clustering:
            return (
                [] if len({*found} - {None}) > 1 else [at for at, cube in zip(places, found, strict=True) if not cube]
            )
        return [at for at, tag in zip(places, found, strict=True) if tag != self._tag]

    def curve(self, temp_dir: str | None) -> CurveOrder:
        """Return how rows are sorted: clustering by two columns or more follows a Hilbert curve."""
        return CurveOrder(tuple(column.path for column in self.columns), self.is_clustering, temp_dir)

    def fields_of_a_bin(self, machine: Machine) -> Action:
        """Return what the adds of files that are sorted together say about their order."""
        if not self.is_clustering:
            return {"tags": {Z_ORDER_TAG: self._tag}}
        columns = json.dumps(self.recorded, ensure_ascii=False, separators=(",", ":"))
        return {"tags": {CUBE_ID: machine.new_uuid(), CUBE_COLUMNS: columns}, "clusteringProvider": PROVIDER}

    def is_new_for(self, adds: RecordBatch) -> bool:
        """Return whether the rows of some files are not in this order together yet."""
        tags = [dict(one or ()) for one in adds.column("tags").to_pylist()]
        if self.is_clustering:
            cubes = {one.get(CUBE_ID) for one in tags}
            return len(cubes) > 1 or None in cubes
        return any(one.get(Z_ORDER_TAG) != self._tag for one in tags)

    @property
    def _tag(self) -> str:
        return z_order_tag([column.path for column in self.columns])


def row_order(snapshot: Snapshot, request: OptimizeRequest) -> RowOrder | None:
    """Return the order that a request asks for, if any. Raises UsageError, Refused for unusable clustering columns."""
    config = snapshot.config
    if request.cluster:
        return RowOrder(_clustering_columns(snapshot), is_clustering=True)
    if (
        clustering_columns.FEATURE in config.features
    ):  # as in the reference implementation, also without clustering columns
        if request.zorder:
            raise UsageError(
                f"the table supports clustering, so {parameter('optimize.zorder')} cannot be used",
                code=CLUSTERED,
                hint=command("optimize", cluster=True),
            )
        if request.where is not None:
            raise UsageError(
                f"the table supports clustering, so {parameter('optimize.where')} cannot be used",
                code=CLUSTERED,
                hint=command("optimize"),
            )
    return RowOrder(order_columns(config, request.zorder), is_clustering=False) if request.zorder else None


def _clustering_columns(snapshot: Snapshot) -> tuple[OrderColumn, ...]:
    """Return the clustering columns of a table, whose schema has them all."""
    config = snapshot.config
    found = list(_found_columns(snapshot)) if clustering_columns.FEATURE in config.features else []
    if not found:
        raise UsageError(
            "the table has no clustering columns", code=NOT_CLUSTERED, hint=command("alter", "cluster", "COLUMN")
        )
    if len(found) > clustering_columns.MOST_CLUSTERING_COLUMNS:
        raise _refused(
            f"the table has {len(found)} clustering columns, more than {clustering_columns.MOST_CLUSTERING_COLUMNS}"
        )
    try:
        paths = clustering_columns.clustering_paths(config, snapshot.domains)
        return order_columns(config, [column_text(column) for column in found], paths)
    except UsageError as fault:
        raise _refused(fault.message) from fault


def _found_columns(snapshot: Snapshot) -> Iterator[clustering_columns.ClusteringColumn]:
    domain = next((one for one in snapshot.domains if one.domain == clustering_columns.DOMAIN), None)
    if domain is None:
        return
    paths = clustering_columns.read_clustering_columns(domain.configuration)
    if paths is None:
        raise _refused(f"the domain {clustering_columns.DOMAIN} does not have a list of columns")
    schema = snapshot.config.schema or StructType(())
    for path in paths:
        column = clustering_columns.find_column(snapshot.config, schema, path)
        if not column.fields:
            raise _refused(f"the clustering column {column.name} is not in the schema")
        yield column


def _refused(message: str) -> Refused:
    return Refused(message, code="optimize.clustering-columns", hint=command("validate", select="clustering.*"))
