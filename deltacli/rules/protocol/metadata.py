"""Rules about metaData actions: the id, the format, and the partition columns. Spec: Change Metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.core.times import format_timestamp
from deltacli.core.units import plural
from deltacli.delta.log.operations import states_table_replaced
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.schema.to_arrow import stray_partitions
from deltacli.delta.schema.types import DataType, PrimitiveType, simple_name
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.framework.views import CommitView, HistoryView, MetadataView

AREA = Area("metadata", spec="Change Metadata")

_RESTORE = partial(command, "restore", version=..., table="TABLE")
_REWRITE = "rewrite the table as a new one"
ID_NOT_GUID = AREA.warning(
    "metadata.id-not-guid",
    "The table id is not a GUID.",
    broken="engines that parse the id fail, and two tables may have the same id",
    repair="commit a metaData action with a GUID before streams and shares refer to the table",
    loss="streams that identify the table by its old id",
    example='{"metaData":{"id":"my-table",…}}',
)
ID_CHANGED = AREA.error(
    "metadata.id-changed",
    "The table id differs from that of the previous metaData action, and the commit does not state that it replaces, "
    "clones or restores the table.",
    broken="another table was written over this one, or an engine created a new id; streams and caches stop",
    repair=LazyText("nothing, if the change was intended; otherwise restore the version before: {}", _RESTORE),
    loss="later commits, if the previous version is restored",
    example='version 0: {"metaData":{"id":"8e1a6ad6-…"}}, version 4: {"metaData":{"id":"0c5d2f44-…"}} by a WRITE',
)
FORMAT_NOT_PARQUET = AREA.error(
    "metadata.format-not-parquet",
    "The format of the files is not parquet, or has options.",
    spec="Format Specification",
    broken="no engine reads data files other than Parquet, and none recognizes options",
    repair='commit a metaData action with {"provider":"parquet","options":{}} if the files are Parquet',
    example='"format":{"provider":"orc","options":{}}',
)
CREATED_TIME = AREA.info(
    "metadata.created-time",
    "The metaData action has no createdTime, or a different one than the previous action.",
    broken="engines show it as the creation time of the table",
    repair="commit a metaData action with the time of version 0",
    example='version 0: "createdTime":1767981600000, version 4: "createdTime":1767981840000',
)
PARTITION_COLUMN_UNKNOWN = AREA.error(
    "metadata.partition-column-unknown",
    "A partition column is not in the schema.",
    broken="the type of its values is unknown, so engines refuse the table",
    repair="commit a metaData action whose schema has the column, spelled as in partitionColumns",
    example='"partitionColumns":["day"] and no column day',
)
PARTITION_COLUMN_DUPLICATE = AREA.error(
    "metadata.partition-column-duplicate",
    "A partition column is named twice, ignoring case.",
    broken="engines refuse the table or build paths with the column twice",
    repair="commit a metaData action that names the column once",
    example='"partitionColumns":["day","Day"]',
)
PARTITION_COLUMN_TYPE = AREA.error(
    "metadata.partition-column-type",
    "A partition column has a type whose values cannot be written as text: array, map, struct or void.",
    spec="Partition Value Serialization",
    broken="its values in partitionValues have no meaning for readers",
    repair=_REWRITE,
    loss="the history",
    example='"partitionColumns":["tags"] with tags of type array<string>',
)
PARTITION_COLUMN_NESTED = AREA.error(
    "metadata.partition-column-nested",
    "A partition column is a field inside another column.",
    broken="only top-level columns can be partition columns; engines refuse the table",
    repair=_REWRITE,
    loss="the history",
    example='"partitionColumns":["address.country"]',
)
ALL_COLUMNS_PARTITIONED = AREA.warning(
    "metadata.all-columns-partitioned",
    "Every column is a partition column.",
    spec="Delta-Spark: no table may be partitioned by all of its columns",
    broken="the data files would have no column, and Delta-Spark refuses to write them",
    repair=_REWRITE,
    loss="the history",
    example='"partitionColumns":["p"] and p is the only column',
)
PARTITIONING_CHANGED = AREA.warning(
    "metadata.partitioning-changed",
    "The partition columns changed while files with the old partitioning stayed in the table.",
    spec="Consistency Between Table Metadata and Data Files",
    broken="these files have no values for the new columns, so readers fail or return nulls",
    repair=LazyText("replace all files, or restore the version before: {}", _RESTORE),
    loss="later commits, if the previous version is restored",
    example='version 0: "partitionColumns":["p"], version 4: "partitionColumns":["p","q"] and no remove',
)


_GUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def _before(view: MetadataView) -> Metadata | None:
    """Return the metadata before this action, if it could be read."""
    return view.previous.metadata if view.previous else None


@AREA.check(MetadataView, ID_NOT_GUID, ID_CHANGED)
def id_is_odd(view: MetadataView) -> Iterator[Finding]:
    """Report an invalid id once, when it is introduced."""
    table_id, before = view.raw.get("id"), _before(view)
    if not isinstance(table_id, str):
        return
    is_fresh = before is None or before.id != table_id
    if is_fresh and not _GUID.fullmatch(table_id):
        yield ID_NOT_GUID.at(view.place, f"table id {table_id!r} is not a GUID", seen=table_id)
    if is_fresh and before is not None and before.id and not _is_table_replaced(view):
        yield _changed_id(view, before.id, table_id)


def _changed_id(view: MetadataView, id_before: str, table_id: str) -> Finding:
    """Return the finding about another id: an error, but for a copy by deltacli, which needs an id of its own."""
    info = (None if view.commit is None else view.commit.commit_info) or {}
    is_copy = info.get("operation") == "COPY" and str(info.get("engineInfo")).startswith("deltacli/")
    reason = "another table was written over this one, or an engine created a new id"
    if is_copy:
        reason = "this table is a copy, which has an id of its own"
    message = f"the table id changes from {id_before} to {table_id}: {reason}"
    severity = Severity.INFO if is_copy else None
    return ID_CHANGED.at(view.place, message, seen=table_id, expected=id_before, severity=severity)


def _is_table_replaced(view: MetadataView) -> bool:
    """Return True if the commit of a metaData action states that it replaces the table."""
    return view.commit is not None and states_table_replaced(view.commit.commit_info)


@AREA.check(MetadataView, FORMAT_NOT_PARQUET)
def format_is_not_parquet(view: MetadataView) -> Iterator[Finding]:
    """Spec: Format Specification."""
    metadata, before = view.config.metadata, _before(view)
    if metadata is None:
        return
    if metadata.provider != "parquet" and (before is None or before.provider != metadata.provider):
        message = f"the format of the data files is {metadata.provider}, not parquet"
        yield FORMAT_NOT_PARQUET.at(view.place, message, seen=metadata.provider, expected="parquet")
    options = metadata.format_options
    if options and (before is None or before.format_options != options):
        message = f"the format has the options {', '.join(sorted(options))}, which no known engine recognizes"
        yield FORMAT_NOT_PARQUET.at(view.place, message, seen=dict(options), expected="no options")


@AREA.check(MetadataView, CREATED_TIME)
def created_time_is_odd(view: MetadataView) -> Iterator[Finding]:
    """`metadata.id-changed` reports changes that come with a new id. A table that is replaced begins anew."""
    metadata, before = view.config.metadata, _before(view)
    if metadata is None:
        return
    created_time = metadata.created_time
    if created_time is None:
        if view.raw.get("createdTime") is None and (before is None or before.created_time is not None):
            yield CREATED_TIME.at(view.place, "the metaData action has no createdTime")
        return
    if before is None or before.created_time is None or before.id != metadata.id or _is_table_replaced(view):
        return
    if before.created_time != created_time:
        old, new = format_timestamp(before.created_time), format_timestamp(created_time)
        message = f"createdTime changes from {old} to {new}, although the table is the same"
        yield CREATED_TIME.at(view.place, message, seen=created_time, expected=before.created_time)


@AREA.check(MetadataView, PARTITION_COLUMN_DUPLICATE)
def partition_column_comes_twice(view: MetadataView) -> Iterator[Finding]:
    """Spec: Schema Serialization Format (names must differ in more than case)."""
    if not _is_news(view):
        return
    metadata = view.config.metadata
    columns = metadata.partition_columns if metadata else ()
    for name, count in Counter(name.casefold() for name in columns).items():
        if count > 1:
            spellings = [column for column in columns if column.casefold() == name]
            message = f"partitionColumns names the column {' and '.join(spellings)} {count} times"
            yield PARTITION_COLUMN_DUPLICATE.at(view.place, message, key=spellings[0], seen=", ".join(columns))


@AREA.check(
    MetadataView, PARTITION_COLUMN_UNKNOWN, PARTITION_COLUMN_NESTED, PARTITION_COLUMN_TYPE, ALL_COLUMNS_PARTITIONED
)
def partition_columns_do_not_fit_the_schema(view: MetadataView) -> Iterator[Finding]:
    """Spec: Change Metadata; Partition Value Serialization. `variant.partition-or-cluster` reports variants."""
    metadata, schema = view.config.metadata, view.config.schema
    if metadata is None or schema is None or not metadata.partition_columns or not _is_news(view):
        return
    columns = {field.name: field.data_type for field in schema.fields}
    for stray in stray_partitions(view.config):
        rule = PARTITION_COLUMN_NESTED if stray.rule == PARTITION_COLUMN_NESTED.id else PARTITION_COLUMN_UNKNOWN
        yield rule.at(view.place, stray.reason, key=stray.name, seen=stray.seen, expected=stray.expected)
    for name in dict.fromkeys(metadata.partition_columns):
        if name in columns and not _has_text(columns[name]):
            type_name = simple_name(columns[name])
            message = f"partition column {name} is of type {type_name}, whose values cannot be written as text"
            yield PARTITION_COLUMN_TYPE.at(view.place, message, key=name, seen=type_name, expected="a primitive type")
    if columns.keys() <= set(metadata.partition_columns):
        named = (
            "the only column is a partition column"
            if len(columns) == 1
            else f"all {len(columns)} columns are partition columns"
        )
        message = f"{named}, so data files have no columns"
        yield ALL_COLUMNS_PARTITIONED.at(view.place, message, seen=", ".join(columns))


def _is_news(view: MetadataView) -> bool:
    """Return True if schema or partition columns differ from the previous action, which was checked then."""
    metadata, before = view.config.metadata, _before(view)
    if metadata is None or before is None:
        return True
    return (before.partition_columns, before.schema_string) != (metadata.partition_columns, metadata.schema_string)


def _has_text(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name not in ("void", "null")


@AREA.check(HistoryView, PARTITIONING_CHANGED)
def partitioning_changes_under_files(view: HistoryView) -> Iterator[Finding]:
    """The number of live files is known from counts of actions only if all commits from 0 on can be read."""
    live = 0
    for number, commit in enumerate(view.commits):
        if commit.version != number or not commit.is_readable:
            return
        counts = view.counts.get(commit.version, {})
        if counts.get("remove", 0) < live and commit.after is not commit.before:
            yield from _changed_partitioning(commit, live - counts.get("remove", 0))
        live += counts.get("add", 0) - counts.get("remove", 0)


def _changed_partitioning(commit: CommitView, staying: int) -> Iterator[Finding]:
    """Names are compared as they are in the files, so renaming a column changes nothing."""
    before, after = _partitioning(commit.before), _partitioning(commit.after)
    if before is None or after is None or set(before) == set(after):
        return
    old, new = ", ".join(before) or "none", ", ".join(after) or "none"
    message = f"the partition columns change from {old} to {new}, but {plural(staying, 'older file')} stay live"
    place = commit.after.metadata_place or commit.place()
    yield PARTITIONING_CHANGED.at(place, message, seen=new, expected=old)


def _partitioning(config: TableConfiguration) -> tuple[str, ...] | None:
    """Return None if the names in the files are unknown: under mapping, only the schema has them."""
    is_known = config.schema is not None or config.mapping_mode == "none"
    return tuple(config.partition_columns) if config.metadata is not None and is_known else None
