"""The rule about statistics of clustering columns. Spec: Clustered Table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray
from deltacli.delta.clustering.clustering_columns import find_column, is_skippable, read_clustering_columns
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.view_lookups import stats_of
from deltacli.rules.framework.views import FilesView

AREA = Area("statistics")


CLUSTERING_MISSING = AREA.error(
    "stats.clustering-missing",
    "A file of a clustered table has no statistics for a clustering column.",
    spec="Writer Requirements for Clustered Table",
    broken="engines that use statistics to place files skip this one, or fail on it",
    repair="commit the same add again with complete statistics and dataChange=false, or rewrite the file",
    example='{"add":{"path":"part-0.parquet","stats":"{\\"numRecords\\":5}",…}} in a table clustered by id',
)


@AREA.check(FilesView, CLUSTERING_MISSING)
def clustering_columns_without_statistics(view: FilesView) -> Iterator[Finding]:
    """Report adds without a null count and without a minimum of a clustering column."""
    columns = read_clustering_columns(view.clustering) if view.clustering else None
    stats = view.adds.column("stats")
    if not columns or (view.versions is None and stats.null_count == len(stats)):
        return  # a checkpoint may have its statistics only in columns
    for column in columns:
        field = find_column(view.config, view.config.schema, column) if view.config.schema else None
        if field is None or field.is_logical or field.data_type is None or not is_skippable(field.data_type):
            continue  # `clustering.bad-config` and `clustering.type` report it
        name = field.name
        for row in view.rows(pc.invert(_have_statistics(view, name.lower().split(".")))):
            place = view.place(row)
            message = f"{place.key} has no statistics for {name}, by which the table is clustered"
            yield CLUSTERING_MISSING.at(place, message, expected=f"nullCount and bounds of {name}")


def _have_statistics(view: FilesView, column: Sequence[str]) -> ArrowArray:
    import pyarrow as pa

    rows = pc.cast(pc.cumulative_sum(pa.repeat(1, view.adds.num_rows)), pa.int64())
    have: Any = pa.repeat(False, view.adds.num_rows)
    for block in stats_of(view).blocks:
        for leaf in (*block.leaves.get("nullCount", ()), *block.leaves.get("minValues", ())):
            if ".".join(leaf.path).lower().split(".") != column:
                continue
            given = pc.is_valid(leaf.values)
            if block.rows is not None:
                there = block.rows if isinstance(block.rows, pa.Array) else pa.array(block.rows, pa.int64())
                given = pc.is_in(pc.subtract(rows, 1), value_set=pc.filter(pc.cast(there, pa.int64()), given))
            have = pc.or_(have, given)
    return have
