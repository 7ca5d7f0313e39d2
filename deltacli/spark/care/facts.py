"""Facts of many tables as DataFrames, computed on executors: histories, files, details, findings, plans, and the rows
that differ between two versions.

Each task opens the tables of its rows, one process for many tables, and returns rows of Arrow. No table is read before
an action, and no row about one passes through the driver.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import date, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from deltacli.api.table import open_table
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.machine import system_clock
from deltacli.core.typing import RecordBatch, SparkFrame, SparkSchema
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.engine.spark.engine import require_sendable_location
from deltacli.engine.spark.jobs import assign_tasks, make_partitioned_frame
from deltacli.operations.diff import DIFFERENCE_COLUMNS, DiffRequest, RowDiff
from deltacli.spark.care.fact_rows import ARGUMENTS, FACTS, NAME, NOW_MS, SKIPS, TABLE, read_fact, rows_of_tables
from deltacli.spark.executor_rows import MergedRows, engine_of
from deltacli.spark.parquet_scan import require_session
from deltacli.spark.parquet_schema import spark_schema
from deltacli.storage import open_storage
from deltacli.storage.secrets import mask_secrets_of_all
from deltacli.table.api_arguments import (
    require_count,
    require_optional_version,
    require_path_text,
    require_timestamp_ms,
)
from deltacli.table.api_errors import api_function
from deltacli.table.discover import find_tables
from deltacli.work.rows.row_comparison import CompareRows
from deltacli.work.table_stores import TableStores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Unreadable = Literal["raise", "skip"]

_MAGIC = re.compile(r"[*?\[]")
_KINDS = ("string", "long", "long", "string")
"""The types of `DIFFERENCE_COLUMNS`."""


@api_function
def history(
    spark: SparkSession,
    paths: Any,
    *,
    limit: int = 0,
    unreadable: Unreadable = "raise",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the newest `limit` commits (0: all) of each table, one row per commit, as `deltacli history` shows them.

    `paths`: a path, URI or glob, several of them, or a frame with a column `table`. `unreadable`: what to do with a
    table that cannot be read: `raise` ends the job with its error, `skip` leaves it out.

    Raises UsageError for arguments and sessions that cannot be used, and what `SparkEngine` raises. An action raises an
    error of Spark whose text begins with the code of ours.
    """
    arguments = {"limit": require_count(limit, "limit")}
    return _facts(spark, paths, "history", arguments, unreadable=unreadable, storage_options=storage_options)


@api_function
def files(
    spark: SparkSession,
    paths: Any,
    *,
    version: int | None = None,
    unreadable: Unreadable = "raise",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the live files of the newest version of each table, or of `version`: one row per file.

    The arguments are those of `history`. A table is read by one task, in batches, so its files need not fit in memory.
    Spec: Add File and Remove File.
    """
    arguments = {"version": require_optional_version(version, "version")}
    return _facts(spark, paths, "files", arguments, unreadable=unreadable, storage_options=storage_options)


@api_function
def tombstones(
    spark: SparkSession,
    paths: Any,
    *,
    version: int | None = None,
    now: datetime | None = None,
    unreadable: Unreadable = "raise",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the removes of the newest version of each table, or of `version`: one row per removed file.

    `now` is the time by which `expired` is judged (default: the clock of the driver). The other arguments are those of
    `history`. Spec: Add File and Remove File.
    """
    arguments = {"version": require_optional_version(version, "version")}
    return _facts(
        spark, paths, "tombstones", arguments, now=now, unreadable=unreadable, storage_options=storage_options
    )


@api_function
def detail(
    spark: SparkSession, paths: Any, *, now: datetime | None = None, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return one row per table: version, protocol, features, properties, rows, files, bytes, tombstones and the
    distance of the checkpoint. A table that cannot be read is a row with its `error`.

    The arguments are those of `tombstones`.
    """
    return _facts(spark, paths, "detail", {}, now=now, storage_options=storage_options)


@api_function
def findings(
    spark: SparkSession,
    paths: Any,
    *,
    level: str = "log",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    max_findings: int = 0,
    now: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return what `validate` finds in each table, one row per finding; a sound table has none.

    `level`, `select`, `ignore` and `max_findings` are those of `Table.validate`, the others those of `tombstones`. A
    directory that is no table is a finding, too.
    """
    from deltacli.operations.validate.findings import ValidateRequest

    ValidateRequest(level=level, select=tuple(select), ignore=tuple(ignore), max_findings=max_findings)  # refuses here
    arguments = {"level": level, "select": tuple(select), "ignore": tuple(ignore), "max_findings": max_findings}
    return _facts(spark, paths, "findings", arguments, now=now, storage_options=storage_options)


@api_function
def vacuum_plan(
    spark: SparkSession,
    paths: Any,
    *,
    now: datetime | None = None,
    unreadable: Unreadable = "raise",
    storage_options: Mapping[str, str] | None = None,
    **request: Any,  # Any: the fields of VacuumRequest
) -> DataFrame:
    """Return the files that `vacuum` would delete, one row per file. Nothing is deleted.

    The arguments are those of `tombstones`; any other one is a field of `VacuumRequest`, such as `retention_ms` or
    `mode`, as `Table.vacuum` takes it. `refusals` has the codes for which `vacuum` would not run.
    """
    from deltacli.operations.vacuum.plan import VacuumRequest

    _require_fields(request, VacuumRequest, "vacuum_plan")
    return _facts(spark, paths, "vacuum_plan", request, now=now, unreadable=unreadable, storage_options=storage_options)


@api_function
def streams(
    spark: SparkSession,
    paths: Any,
    *,
    checkpoints: Sequence[str],
    now: datetime | None = None,
    unreadable: Unreadable = "raise",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the sources of the streaming queries that read each table, one row per source, as `deltacli streams` shows
    them: whether they can continue, and what they need.

    `checkpoints` are the checkpoint directories of the queries, or patterns of them; executors read them. The other
    arguments are those of `tombstones`.
    """
    from deltacli.operations.streams.streams import StreamsRequest

    names = [require_path_text(one) for one in checkpoints]
    absolute = [one if "://" in one or one.startswith("file:") else str(Path(one).absolute()) for one in names]
    arguments = {"checkpoints": StreamsRequest(checkpoints=absolute).checkpoints}
    return _facts(spark, paths, "streams", arguments, now=now, unreadable=unreadable, storage_options=storage_options)


def fleet_facts(
    spark: SparkSession,
    policy: str | os.PathLike[str],
    *,
    now: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return one row per table of a policy file with the facts by which `fleet plan` decides: two requests per table.

    The driver looks for the tables, executors read their logs' listings. A table that cannot be read is a row with its
    `error`. Raises UsageError for a policy file with errors.
    """
    from deltacli.fleet.planning.discovery import discover
    from deltacli.fleet.planning.due import expiry_cutoff_ms
    from deltacli.fleet.policy_file.reading import require_fleet_file

    require_session(spark)
    now_ms = _now_ms(now)
    engine = engine_of(spark)
    groups = require_fleet_file(require_path_text(policy, "the policy file")).groups
    found = discover(groups, partial(open_storage, options=storage_options), engine).tables
    names = list(mask_secrets_of_all(_uri(one.base, one.at) for one in found))
    rows = {
        "table": (pa.array(names, pa.string()), "string"),
        "base": (pa.array([one.base for one in found], pa.string()), "string"),
        "at": (pa.array([one.at for one in found], pa.string()), "string"),
        "group": (pa.array([one.group.name for one in found], pa.string()), "string"),
        "policy": (pa.array([one.group.policy.name for one in found], pa.string()), "string"),
        "cutoffMs": (pa.array([expiry_cutoff_ms(one.group.policy, now_ms) for one in found], pa.int64()), "bigint"),
    }
    places = [_uri(one.base, one.at) for one in found]
    return _computed(spark, places, rows, "fleet_facts", {}, now_ms, storage_options, skips=False)


def _uri(base: str, at: str) -> str:
    return f"{base.rstrip('/')}/{at}" if at else base


def _require_fields(given: Mapping[str, Any], request: type, method: str) -> None:
    names = {one.name for one in fields(request)} - {"dry_run"}
    for name in given:
        if name not in names:
            raise UsageError(
                f"{method} has no parameter {name!r}",
                code="usage.parameter",
                facts={"expected": ", ".join(sorted(names))},
            )


def _now_ms(now: datetime | None) -> int:
    return system_clock() if now is None else require_timestamp_ms(now, "now")


def _facts(
    spark: SparkSession,
    paths: Any,
    name: str,
    arguments: Mapping[str, Any],
    *,
    now: datetime | None = None,
    unreadable: str = "raise",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    require_session(spark)
    if unreadable not in ("raise", "skip"):
        raise UsageError(f"invalid unreadable {unreadable!r}", facts={"expected": "raise or skip"})
    now_ms = _now_ms(now)
    if hasattr(paths, "mapInArrow"):
        frame, names = _frame_of_paths(paths)
        return _computed(spark, names, frame, name, arguments, now_ms, storage_options, skips=unreadable == "skip")
    names = list(_listed(paths, storage_options))
    rows = {"table": (pa.array(names, pa.string()), "string")}
    return _computed(spark, names, rows, name, arguments, now_ms, storage_options, skips=unreadable == "skip")


def _listed(paths: Any, storage_options: Mapping[str, str] | None) -> Iterator[str]:
    """Yield absolute paths and URIs; a glob is replaced by the tables at and below what it matches.

    Raises UsageError for anything else, and what a glob raises that matches no table.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)):
        raise UsageError(
            f"paths are {type(paths).__name__}",
            facts={"expected": "a path, a glob, a list of them, or a DataFrame with a column `table`"},
        )
    for path in given:
        text = require_path_text(path)
        if _MAGIC.search(text) and ("://" in text or not os.path.lexists(text)):
            targets = find_tables([text], partial(open_storage, options=storage_options))
            for _, fault in targets.failures:
                raise fault
            yield from (target.storage.uri for target in targets.tables)
        else:
            yield text if "://" in text or text.startswith("file:") else str(Path(text).absolute())


def _frame_of_paths(paths: SparkFrame) -> tuple[SparkFrame, list[str]]:
    """Return a frame of paths with a column `table`, and the first of them. Raises UsageError where none is it."""
    columns = paths.columns
    column = TABLE.name if TABLE.name in columns else columns[0] if len(columns) == 1 else None
    if column is None:
        raise UsageError(
            "the frame of paths has no column `table`",
            facts={"columns": ", ".join(columns)},
            hint='frame.withColumnRenamed("…", "table")',
        )
    named = paths.select(paths[column].alias(TABLE.name))
    return named, [row[0] for row in named.take(1) if row[0]]


def _computed(
    spark: Any,
    names: Sequence[str],
    tables: Any,
    name: str,
    arguments: Mapping[str, Any],
    now_ms: int,
    storage_options: Mapping[str, str] | None,
    *,
    skips: bool,
) -> Any:  # Any: of PySpark; `tables` is a frame, or columns for `make_local_frame`
    """Return the frame that executors compute from a frame, or from columns, with a row per table."""
    schema = _spark_schema(name)
    if not names:
        return spark.createDataFrame([], schema)
    engine = engine_of(spark)
    shared = {NAME: name, ARGUMENTS: dict(arguments), NOW_MS: now_ms, SKIPS: skips}
    job = pickle.dumps(engine.prepare(read_fact, shared, _anchor(names, storage_options)))
    if isinstance(tables, Mapping):
        frame = make_partitioned_frame(spark, assign_tasks([1] * len(names), engine.slots), **tables)
    else:
        frame = tables.repartition(engine.slots * 3)
    return frame.mapInArrow(_task(job), schema)


def _anchor(names: Sequence[str], storage_options: Mapping[str, str] | None) -> TableStores:
    """Return the stores of the first table whose log can be listed, which executors must see too; else of the first.

    Raises what `open_table` raises, and UsageError for options that are not sent to executors.
    """
    first: TableStores | None = None
    for name in islice(names, 8):
        table = open_table(name, storage_options=storage_options)
        require_sendable_location(table.stores.location)
        first = first or table.stores
        with suppress(DeltacliError):
            list(islice(table.storage.list_from(LOG_DIRECTORY), 1))
            return table.stores
    assert first is not None
    return first


def _task(job: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from rows_of_tables(job, batch.to_pylist())

    return run


def _spark_schema(name: str) -> SparkSchema:
    """Return the schema of the frame of a fact, each column with its meaning as a comment."""
    from pyspark.sql import types

    simple = {
        "string": types.StringType,
        "bigint": types.LongType,
        "int": types.IntegerType,
        "boolean": types.BooleanType,
        "timestamp": types.TimestampType,
    }

    def type_of(kind: str) -> Any:
        if kind in simple:
            return simple[kind]()
        if kind == "map<string,string>":
            return types.MapType(types.StringType(), types.StringType(), True)
        if kind == "array<string>":
            return types.ArrayType(types.StringType(), True)
        parts = [part.partition(":") for part in kind.removeprefix("struct<").removesuffix(">").split(",")]
        return types.StructType([types.StructField(part, type_of(of), True) for part, _, of in parts])

    return types.StructType(
        [
            types.StructField(column.name, type_of(column.kind), True, {"comment": column.meaning})
            for column in (TABLE, *FACTS[name].columns)
        ]
    )


@api_function
def diff(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    key: Sequence[str],
    other: str | os.PathLike[str] | None = None,
    from_timestamp: datetime | date | None = None,
    to_timestamp: datetime | date | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_external: Sequence[str] = (),
) -> DataFrame:
    """Return the keys whose rows differ between two versions, as `deltacli diff --rows --format csv` lists them.

    The frame has the columns `change` (`add`, `remove` or `change`), `rowsFrom` and `rowsTo`, the number of rows with
    the key in each version, `columns`, the names of those that differ where each version has one row, and the columns
    of the key. The versions are those of `Table.diff` (None: the newest), the second one of the table `other` where
    that is given; `storage_options` and `allow_external` are as in `open_table`, of both tables.

    Both versions are read by deltacli on executors, and compared there; nothing is read before an action. Values are
    equal as for `Table.diff`. Raises UsageError for arguments and sessions that cannot be used, what `Table.snapshot`
    raises, and what `SparkEngine` raises. An action raises an error of Spark whose text begins with the code of ours.
    """
    require_session(spark)
    opened = partial(open_table, storage_options=storage_options, allow_external=allow_external)
    table = opened(uri)
    second = table if other is None else opened(other)
    request = DiffRequest(
        from_version=from_version,
        to_version=to_version,
        from_timestamp=from_timestamp,
        to_timestamp=to_timestamp,
        other=None if other is None else second,
        rows=True,
        key=key,
    )
    before = table.snapshot(version=request.begin[0], timestamp=from_timestamp)
    after = second.snapshot(version=request.end[0], timestamp=to_timestamp)
    found = RowDiff(before, after, request.key)
    if taken := next((name for name in found.key if name.lower() in map(str.lower, DIFFERENCE_COLUMNS)), None):
        raise UsageError(
            f"the frame has a column {taken} of its own, so that it cannot be a key here",
            code="usage.column",
            hint="compare in one process: open_table(…).diff(…, rows=True, key=[…])",
        )
    columns = zip(DIFFERENCE_COLUMNS, _KINDS, strict=True)
    fixed = [StructField(name, PrimitiveType(kind), True, {}) for name, kind in columns]
    schema = spark_schema([*fixed, *found.fields[: len(found.key)]])
    merged = MergedRows(CompareRows(found.columns, lists=True), found.columns.fingerprint_schema)
    return engine_of(spark).make_grouped_frame(found.readings(), merged, found.kept_bytes(), schema)
