"""Rules about clustering: its domain and columns, and the statistics of these.

Spec: Clustered Table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import LazyText, command
from deltacli.core.typing import ArrowArray
from deltacli.delta.clustering.clustering_columns import (
    DOMAIN,
    FEATURE,
    ClusteringColumn,
    find_column,
    is_skippable,
    read_clustering_columns,
)
from deltacli.delta.schema.types import PrimitiveType, simple_name
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import FilesView, StateView, TableConfigurationView, stats_of
from deltacli.rules.schema.schema import fresh

AREA = Area("clustering", spec="Clustered Table: Writer Requirements for Clustered Table")

DOMAIN_MISSING = AREA.warning(
    "clustering.domain-missing",
    "The table supports clustering, but no domain names its clustering columns.",
    broken="engines do not know by which columns to cluster files",
    repair=LazyText("set the clustering columns, or none: {}", partial(command, "alter", "cluster", "COLUMNS")),
    example='{"protocol":{…,"writerFeatures":["clustering","domainMetadata"]}} without a domain delta.clustering',
)
BAD_CONFIG = AREA.error(
    "clustering.bad-config",
    "The clustering domain is malformed, or names a column that does not exist in the table under that name.",
    broken="engines refuse to cluster the table or to read its description",
    repair=LazyText("set the clustering columns again: {}", partial(command, "alter", "cluster", "COLUMNS")),
    example='{"domainMetadata":{"domain":"delta.clustering","configuration":"{\\"clusteringColumns\\":[[\\"gone\\"]]}",…}}',
)
PARTITIONED = AREA.error(
    "clustering.partitioned",
    "The table supports clustering and has partition columns.",
    broken="engines refuse to write to a table that is both clustered and partitioned",
    repair="copy the rows into a table that is only clustered or only partitioned",
    loss="the history of the table",
    example='"partitionColumns":["p"] with the writer feature clustering',
)
TYPE = AREA.warning(
    "clustering.type",
    "A clustering column has a type for which files keep no minimum and maximum.",
    broken="clustering by the column lets no reader skip a file, and some engines refuse it",
    repair=LazyText("choose other clustering columns: {}", partial(command, "alter", "cluster", "COLUMNS")),
    example='"clusteringColumns":[["tags"]], and tags is a map',
)
VARIANT = AREA.error(
    "variant.partition-or-cluster",
    "A partition column or a clustering column is of type variant.",
    spec="Variant Data Type",
    broken="variants have no order and no text form, so engines cannot lay out files by them",
    repair="use another column: for clustering with an engine, for partitions by rewriting the table",
    example='"partitionColumns":["v"], and v is a variant',
)


@AREA.check(StateView, DOMAIN_MISSING, BAD_CONFIG, TYPE, VARIANT)
def clustering_columns(view: StateView) -> Iterator[Finding]:
    """Compare the domain of the newest state with its schema."""
    configuration = view.domains.get(DOMAIN)
    if configuration is None:
        if FEATURE in view.config.features:
            message = f"the table supports clustering, but no domain {DOMAIN} names its columns"
            yield DOMAIN_MISSING.at(view.place(DOMAIN), message)
        return
    paths = read_clustering_columns(configuration)
    if paths is None:
        message = f"the domain {DOMAIN} does not have a list of columns"
        expected = '{"clusteringColumns":[["column"]]}'
        yield BAD_CONFIG.at(view.place(DOMAIN), message, seen=configuration, expected=expected)
        return
    if view.config.schema is None:
        return
    for path in paths:
        yield from _judge(view, find_column(view.config, view.config.schema, path))


def _judge(view: StateView, column: ClusteringColumn) -> Iterator[Finding]:
    if column.data_type is None:
        message = f"the clustering column {column.name} is not in the schema"
        yield BAD_CONFIG.at(view.place(DOMAIN), message, seen=column.name, expected="the physical name of a column")
    elif column.is_logical:
        message = f"the clustering column {column.name} has its logical name, but files use its physical name"
        yield BAD_CONFIG.at(view.place(DOMAIN), message, seen=column.name, expected="the physical name of the column")
    elif column.data_type == PrimitiveType("variant"):
        message = f"the clustering column {column.name} is of type variant"
        yield VARIANT.at(view.place(column.name), message, seen="variant")
    elif not is_skippable(column.data_type):
        message = f"files keep no minimum and maximum for the clustering column {column.name}"
        yield TYPE.at(view.place(column.name), message, seen=simple_name(column.data_type))


@AREA.check(TableConfigurationView, PARTITIONED, VARIANT)
def partition_columns(view: TableConfigurationView) -> Iterator[Finding]:
    """Report partition columns of clustered tables and partition columns that are variants, with the version that
    introduces them.
    """
    yield from fresh(view, "clustering.partitions", _partition_findings(view))


def _partition_findings(view: TableConfigurationView) -> Iterator[Finding]:
    metadata = view.config.metadata
    if metadata is None or not metadata.partition_columns:
        return
    if FEATURE in view.config.features:
        named = ", ".join(metadata.partition_columns)
        message = f"the table supports clustering but is partitioned by {named}"
        yield PARTITIONED.at(view.place, message, seen=named, expected="no partition columns")
    for column in view.config.partition_columns.values():
        if column is not None and column.data_type == PrimitiveType("variant"):
            message = f"the partition column {column.name} is of type variant"
            yield VARIANT.at(view.place, message, key=column.name, seen="variant")


# -- the rule about statistics of clustering columns -------------------------------------------------------------------

STATISTICS_AREA = Area("statistics")


CLUSTERING_MISSING = STATISTICS_AREA.error(
    "stats.clustering-missing",
    "A file of a clustered table has no statistics for a clustering column.",
    spec="Writer Requirements for Clustered Table",
    broken="engines that use statistics to place files skip this one, or fail on it",
    repair="commit the same add again with complete statistics and dataChange=false, or rewrite the file",
    example='{"add":{"path":"part-0.parquet","stats":"{\\"numRecords\\":5}",…}} in a table clustered by id',
)


@STATISTICS_AREA.check(FilesView, CLUSTERING_MISSING)
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
