"""Facts of one table as rows of Arrow: what runs on an executor for `deltacli.spark.care.facts`.

The schema of a frame and its documentation follow.

Imports nothing that only the driver needs.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.core.typing import ArrowArray, ArrowType, RecordBatch
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.worker import open_context
from deltacli.spark.executor_rows import searchable
from deltacli.storage.secrets import mask_secrets
from deltacli.table.handle import TableHandle
from deltacli.table.time_travel import find_snapshot
from deltacli.work.task import TaskContext

# -- the columns of the frames of facts --------------------------------------------------------------------------------


class FactColumn(NamedTuple):
    """A column of a frame: its name, its type in the words of Spark, and what it means."""

    name: str
    kind: str
    meaning: str


TABLE = FactColumn("table", "string", "URI of the table, the same in all frames")
_VECTOR = "struct<storageType:string,pathOrInlineDv:string,offset:int,sizeInBytes:int,cardinality:bigint>"
_VERSION = FactColumn("version", "bigint", "version of the table")
_PARTITION_VALUES = FactColumn("partitionValues", "map<string,string>", "values of the partition columns, as texts")
_VECTORS = FactColumn("deletionVector", _VECTOR, "the deletion vector, null where there is none")
ERROR = FactColumn("error", "string", "code and message where the table could not be read, else null")

HISTORY = (
    _VERSION,
    FactColumn("timestamp", "timestamp", "when it was committed"),
    FactColumn("timestampSource", "string", "`inCommitTimestamp`, `fileModificationTime` or …`Adjusted`"),
    FactColumn("operation", "string", "operation, as the writer named it"),
    FactColumn("operationParameters", "map<string,string>", "its parameters; values that are not texts as JSON"),
    FactColumn("operationMetrics", "map<string,string>", "its metrics, as texts"),
    FactColumn("userId", "string", "id of the user"),
    FactColumn("userName", "string", "name of the user"),
    FactColumn("engineInfo", "string", "engine that wrote the commit"),
    FactColumn("readVersion", "bigint", "version that the writer had read"),
    FactColumn("isolationLevel", "string", "isolation level"),
    FactColumn("isBlindAppend", "boolean", "whether the commit only adds files and depends on none"),
    FactColumn("userMetadata", "string", "metadata of the user"),
    FactColumn("txnId", "string", "id of the commit"),
    FactColumn("problem", "string", "rule id where the commit cannot be read, else null"),
)
FILES = (
    _VERSION,
    FactColumn("path", "string", "path as in the log, percent-encoded"),
    _PARTITION_VALUES,
    FactColumn("size", "bigint", "bytes"),
    FactColumn("modificationTime", "timestamp", "when the file was written"),
    FactColumn("dataChange", "boolean", "whether the commit changed rows"),
    FactColumn("numRecords", "bigint", "rows by the statistics, deleted ones included; null where unknown"),
    FactColumn("deletedRows", "bigint", "rows that the deletion vector deletes"),
    FactColumn("stats", "string", "statistics as JSON"),
    FactColumn("tags", "map<string,string>", "tags of the writer"),
    _VECTORS,
    FactColumn("baseRowId", "bigint", "first row id of the file"),
    FactColumn("defaultRowCommitVersion", "bigint", "commit version of rows without one of their own"),
    FactColumn("clusteringProvider", "string", "engine that clustered the file"),
)
TOMBSTONES = (
    _VERSION,
    FactColumn("path", "string", "path as in the log, percent-encoded"),
    FactColumn("deletionTimestamp", "timestamp", "when the file was removed; null in logs without it"),
    FactColumn("expired", "boolean", "whether the retention of the table has passed since"),
    FactColumn("dataChange", "boolean", "whether the commit changed rows"),
    _PARTITION_VALUES,
    FactColumn("size", "bigint", "bytes; null where the log has no size"),
    _VECTORS,
)
DETAIL = (
    _VERSION,
    FactColumn("timestamp", "timestamp", "when the version was committed"),
    FactColumn("id", "string", "id of the table"),
    FactColumn("name", "string", "name in the metadata"),
    FactColumn("description", "string", "description in the metadata"),
    FactColumn("format", "string", "format of the data files"),
    FactColumn("createdAt", "timestamp", "creation time in the metadata"),
    FactColumn("partitionColumns", "array<string>", "partition columns"),
    FactColumn("clusteringColumns", "array<string>", "clustering columns, nested ones with dots"),
    FactColumn("minReaderVersion", "int", "protocol for readers"),
    FactColumn("minWriterVersion", "int", "protocol for writers"),
    FactColumn("readerFeatures", "array<string>", "features that readers need, sorted; null in older protocols"),
    FactColumn("writerFeatures", "array<string>", "features that writers need, sorted; null in older protocols"),
    FactColumn("properties", "map<string,string>", "table properties"),
    FactColumn("schemaString", "string", "schema as in the log"),
    FactColumn("numFiles", "bigint", "live files"),
    FactColumn("sizeInBytes", "bigint", "bytes of the live files"),
    FactColumn("numRows", "bigint", "rows, without deleted ones; null where a file has no statistics"),
    FactColumn("numDeletionVectors", "bigint", "files with a deletion vector"),
    FactColumn("deletedRows", "bigint", "rows that deletion vectors delete"),
    FactColumn("numTombstones", "bigint", "removed files that the log names"),
    FactColumn("expiredTombstones", "bigint", "those whose retention has passed"),
    FactColumn("checkpointVersion", "bigint", "version of the checkpoint that was used; null without one"),
    FactColumn("commitsSinceCheckpoint", "int", "commits that are replayed after it"),
    FactColumn("bytesSinceCheckpoint", "bigint", "bytes of these commits"),
    ERROR,
)
FINDINGS = (
    _VERSION,
    FactColumn("rule", "string", "id of the rule"),
    FactColumn("severity", "string", "`error`, `warning` or `info`"),
    FactColumn("message", "string", "what is wrong"),
    FactColumn("path", "string", "file, relative to the table"),
    FactColumn("line", "bigint", "line of a commit"),
    FactColumn("locationVersion", "bigint", "version of the commit or checkpoint"),
    FactColumn("key", "string", "column, property or other key"),
    FactColumn("seen", "string", "value that was found"),
    FactColumn("expected", "string", "value that was expected"),
    FactColumn("spec", "string", "section of the protocol"),
    FactColumn("repair", "string", "what to do"),
    FactColumn("loss", "string", "what that loses"),
)
CANDIDATES = (
    _VERSION,
    FactColumn("path", "string", "path on the store, relative to the table, decoded"),
    FactColumn("size", "bigint", "bytes"),
    FactColumn("modificationTime", "timestamp", "when the file was written; with the mode `lite`, when it was removed"),
    FactColumn("reason", "string", "why it may be deleted, as in the document of `vacuum`"),
    FactColumn("removedAtVersion", "bigint", "version that removed it; null where unknown"),
    FactColumn("refusals", "array<string>", "codes for which `vacuum` would not run; empty where it would"),
)
STREAMS = (
    FactColumn("query", "string", "last name of the checkpoint directory"),
    FactColumn("id", "string", "id of the query; null where it cannot be read"),
    FactColumn("checkpoint", "string", "URI of the directory"),
    FactColumn("batch", "bigint", "last finished batch; null before"),
    FactColumn("queryVerdict", "string", "`ok`, `at-risk`, `unknown` or `dead`: the worst of its sources"),
    FactColumn("name", "string", "position or name of the source"),
    FactColumn("kind", "string", "`delta`, `deltacli`, `delta-sharing` or `other`"),
    FactColumn("tableId", "string", "id of the table in the offset"),
    FactColumn("version", "bigint", "version at which a restart continues"),
    FactColumn("index", "bigint", "files of it that are delivered; null where Delta states none"),
    FactColumn("initialSnapshot", "boolean", "the source still delivers its first snapshot"),
    FactColumn("lagVersions", "bigint", "versions that are not delivered"),
    FactColumn("lagSeconds", "bigint", "time since the first of them with files"),
    FactColumn("lagBytes", "bigint", "bytes to deliver"),
    FactColumn("needsFirst", "bigint", "first commit that it needs; null: none"),
    FactColumn("needsFiles", "bigint", "removed files that it needs"),
    FactColumn("needsBytes", "bigint", "their bytes, and those of change files"),
    FactColumn("needsChangeData", "bigint", "change files that it needs for the change feed"),
    FactColumn("safeUntil", "timestamp", "when the first of them may be deleted"),
    FactColumn("verdict", "string", "of the source, if it reads rows"),
    FactColumn("because", "string", "why it is not `ok`"),
    FactColumn("verdictOfFeed", "string", "of the source, if it reads the change feed, where that differs"),
)
LOG_FACTS = (
    FactColumn("group", "string", "group of the policy file"),
    FactColumn("policy", "string", "policy of the group"),
    _VERSION,
    FactColumn("committed", "timestamp", "modification time of the newest commit"),
    FactColumn("logFiles", "bigint", "files of the log"),
    FactColumn("logBytes", "bigint", "their bytes"),
    FactColumn("checkpointVersion", "bigint", "version of the newest complete checkpoint; null without one"),
    FactColumn("commitsBehind", "bigint", "commits after it"),
    FactColumn("bytesBehind", "bigint", "bytes of these commits"),
    FactColumn("hintVersion", "bigint", "version in `_last_checkpoint`; null without one"),
    FactColumn("expirableFiles", "bigint", "log files that `log expire` may delete, by the retention of the policy"),
    FactColumn("expirableBytes", "bigint", "their bytes"),
    ERROR,
)


@cache
def arrow_type(kind: str) -> ArrowType:
    """Return the Arrow type of a type of Spark."""
    known = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        "array<string>": pa.list_(pa.string()),
    }
    if kind in known:
        return known[kind]
    parts = [part.partition(":") for part in kind.removeprefix("struct<").removesuffix(">").split(",")]
    return pa.struct([(name, arrow_type(part)) for name, _, part in parts])


def arrow_schema(columns: Sequence[FactColumn]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.kind)) for column in columns])


# -- facts of one table as rows of Arrow -------------------------------------------------------------------------------

Values = Mapping[str, Any]
"""The row of the frame of tables, or the arguments of a fact."""


class Fact(NamedTuple):
    """A kind of frame: how the rows of a table are read, without the column `table`, as tables of Arrow or one by one.

    `is_long`: the rows of a table are streamed, because they can be millions. `keeps_faults`: a table that cannot be
    read is a row with its `error`; elsewhere it ends the job, or is skipped.
    """

    columns: tuple[FactColumn, ...]
    read: Callable[[TableHandle, Values, Values], Iterable[pa.Table | Values]]
    is_long: bool = False
    keeps_faults: bool = False


def _moment(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


def _moments(column: ArrowArray) -> ArrowArray:
    return column.cast(pa.timestamp("ms", "UTC")).cast(arrow_type("timestamp"))


def _texts(values: object) -> list[tuple[str, str | None]] | None:
    """Return an object of commitInfo as the entries of a map of texts."""
    if not isinstance(values, dict):
        return None
    return [
        (name, value if value is None or isinstance(value, str) else json.dumps(value))
        for name, value in values.items()
    ]


def _typed(value: object, kind: str) -> Any:  # Any: a value of the type, null where a writer wrote another one
    match kind:
        case "string":
            return value if value is None or isinstance(value, str) else json.dumps(value)
        case "map<string,string>":
            return _texts(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "bigint":
            return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None
    return value


def _table_of(rows: Iterable[Values], columns: Sequence[FactColumn]) -> pa.Table:
    given = list(rows)
    arrays = [pa.array([row.get(name) for row in given], arrow_type(kind)) for name, kind, _ in columns]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _with_columns(batch: Any, known: Values, columns: Sequence[FactColumn]) -> pa.Table:
    """Return the columns by name: from `known` (arrays, or one value for all rows), from the batch, or null."""
    arrays, names = [], set(batch.schema.names)
    for name, kind, _ in columns:
        expected = arrow_type(kind)
        value = known[name] if name in known else batch.column(name) if name in names else None
        if not isinstance(value, (pa.Array, pa.ChunkedArray)):
            value = pa.repeat(pa.scalar(value, expected), batch.num_rows)
        arrays.append(value if value.type.equals(expected) else value.cast(expected))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _history(table: TableHandle, arguments: Values, _: Values) -> Iterator[pa.Table]:
    from deltacli.operations.read.history import read_history

    rows = []
    for item in read_history(table.storage, table.engine, limit=arguments["limit"]).items:
        info = item.commit_info or {}
        row = {name: _typed(info.get(name), kind) for name, kind, _ in HISTORY}
        row |= {"version": item.version, "problem": item.problem}
        if item.time is not None:
            row |= {"timestamp": _moment(item.time.timestamp_ms), "timestampSource": item.time.source.value}
        rows.append(row)
    yield _table_of(rows, HISTORY)


def _files(table: TableHandle, arguments: Values, _: Values) -> Iterator[pa.Table]:
    snapshot = find_snapshot(table, version=arguments["version"])
    for batch in snapshot.files():
        known = {
            "version": snapshot.version,
            "modificationTime": _moments(batch.column("modificationTime")),
            "numRecords": extract_num_records_column(batch.column("stats")),
            "deletedRows": pc.fill_null(pc.struct_field(batch.column("deletionVector"), "cardinality"), 0),
        }
        yield _with_columns(batch, known, FILES)


def _tombstones(table: TableHandle, arguments: Values, _: Values) -> Iterator[pa.Table]:
    snapshot = find_snapshot(table, version=arguments["version"])
    cutoff = table.clock() - deleted_file_retention_ms(snapshot.properties)
    for batch in snapshot.tombstones():
        times = batch.column("deletionTimestamp")
        expired = pc.less_equal(pc.fill_null(times, 0), cutoff)
        known = {"version": snapshot.version, "deletionTimestamp": _moments(times), "expired": expired}
        yield _with_columns(batch, known, TOMBSTONES)


def _detail(table: TableHandle, _: Values, __: Values) -> Iterator[Values]:
    from deltacli.operations.read.snapshot import summarize

    summary = summarize(table)
    snapshot, files = summary.snapshot, summary.files
    protocol, metadata, segment = snapshot.protocol, snapshot.metadata, snapshot.segment
    described = metadata.as_json()
    created, time = described.get("createdTime"), snapshot.time
    yield {
        "version": snapshot.version,
        "timestamp": _moment(time.timestamp_ms) if time else None,
        "id": described.get("id"),
        "name": described.get("name"),
        "description": described.get("description"),
        "format": (described.get("format") or {}).get("provider"),
        "createdAt": _moment(created) if isinstance(created, int) else None,
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": _clustering_columns(snapshot),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": None if protocol.reader_features is None else sorted(protocol.reader_features),
        "writerFeatures": None if protocol.writer_features is None else sorted(protocol.writer_features),
        "properties": sorted(snapshot.properties.items()),
        "schemaString": described.get("schemaString"),
        "numFiles": files.count,
        "sizeInBytes": files.size_bytes,
        "numRows": files.rows,
        "numDeletionVectors": files.deletion_vectors,
        "deletedRows": files.deleted_rows,
        "numTombstones": summary.tombstones.count,
        "expiredTombstones": summary.tombstones.expired,
        "checkpointVersion": segment.checkpoint.version if segment.checkpoint else None,
        "commitsSinceCheckpoint": len(segment.commits),
        "bytesSinceCheckpoint": sum(file.size_bytes for file in segment.commits),
    }


def _clustering_columns(snapshot: Any) -> list[str]:  # Any: a Snapshot
    from deltacli.delta.clustering.clustering_columns import DOMAIN, find_column, read_clustering_columns

    domain = next((domain for domain in snapshot.domains if domain.domain == DOMAIN), None)
    paths = read_clustering_columns(domain.configuration) if domain is not None else None
    found = [find_column(snapshot.config, snapshot.schema, path) for path in paths or ()]
    return [".".join(field.name for field in column.fields) if column.fields else column.name for column in found]


def _findings(table: TableHandle, arguments: Values, _: Values) -> Iterator[pa.Table]:
    from deltacli.operations.validate.findings import ValidateRequest
    from deltacli.operations.validate.validate import validate_table

    found = validate_table(table, ValidateRequest(**arguments))
    rows = []
    for finding in found.findings:
        row = finding.as_json()
        place, fix = row["location"], row["fix"]
        rows.append(
            {
                **row,
                **{name: place.get(name) for name in ("path", "line", "key")},
                "version": found.version,
                "locationVersion": place.get("version"),
                "repair": fix["repair"],
                "loss": fix["loss"],
            }
        )
    yield _table_of(rows, FINDINGS)


def _candidates(table: TableHandle, arguments: Values, _: Values) -> Iterator[pa.Table]:
    from deltacli.operations.vacuum.full_plan import plan_vacuum
    from deltacli.operations.vacuum.plan import VacuumRequest

    plan = plan_vacuum(table, VacuumRequest(**arguments, dry_run=True))
    candidates = plan.candidates
    times = candidates.column("modificationTimeMs")
    known = {
        "version": plan.snapshot_version,
        "path": candidates.column("path").cast(pa.string()),
        "size": candidates.column("sizeBytes"),
        "modificationTime": _moments(times),
        "refusals": [refusal.code for refusal in plan.refusals],
    }
    for start in range(0, candidates.num_rows, _ROWS_AT_ONCE):
        part = candidates.slice(start, _ROWS_AT_ONCE)
        sliced = {
            name: value.slice(start, _ROWS_AT_ONCE) if isinstance(value, (pa.Array, pa.ChunkedArray)) else value
            for name, value in known.items()
        }
        yield _with_columns(part, sliced, CANDIDATES)


_ROWS_AT_ONCE = 65_536
_ROWS_OF_TABLES = 1_024


def _log_facts(table: TableHandle, _: Values, row: Values) -> Iterator[Values]:
    from deltacli.fleet.planning.due import read_facts

    facts = read_facts(table.storage, row["at"], row["cutoffMs"])
    yield {
        "group": row["group"],
        "policy": row["policy"],
        "version": facts.version,
        "committed": _moment(facts.committed_ms),
        "logFiles": facts.log_files,
        "logBytes": facts.log_bytes,
        "checkpointVersion": facts.checkpoint if facts.checkpoint >= 0 else None,
        "commitsBehind": facts.commits_behind,
        "bytesBehind": facts.bytes_behind,
        "hintVersion": facts.hint if facts.hint >= 0 else None,
        "expirableFiles": facts.expirable_files,
        "expirableBytes": facts.expirable_bytes,
    }


def _streams(table: TableHandle, arguments: Values, _: Values) -> Iterator[pa.Table]:
    from deltacli.operations.streams.streams import StreamsRequest, find_streams

    report = find_streams(StreamsRequest(**arguments), [table], table.open_other, table.engine, is_one_table=True)
    rows = [{**row, "safeUntil": _moment(row["safeUntilMs"])} for row in report.rows()]
    yield _table_of(rows, STREAMS)


FACTS: Mapping[str, Fact] = {
    "history": Fact(HISTORY, _history),
    "files": Fact(FILES, _files, is_long=True),
    "tombstones": Fact(TOMBSTONES, _tombstones, is_long=True),
    "detail": Fact(DETAIL, _detail, keeps_faults=True),
    "findings": Fact(FINDINGS, _findings, keeps_faults=True),
    "vacuum_plan": Fact(CANDIDATES, _candidates, is_long=True),
    "streams": Fact(STREAMS, _streams),
    "fleet_facts": Fact(LOG_FACTS, _log_facts, keeps_faults=True),
}


NAME, ARGUMENTS, NOW_MS, SKIPS = "name", "arguments", "now_ms", "skips"
"""Names of the shared values: of the fact, its arguments, the clock, and whether unreadable tables are skipped."""


def read_fact(row: Values, context: TaskContext) -> Iterator[pa.Table | Values]:
    """Yield the facts of the table of a row. Raises what the operation raises, but for faults to keep or to skip."""
    fact = FACTS[context.shared(NAME)]
    uri = row["table"]
    try:
        place = row.get("base") or _absolute(uri)
        storage = context.stores.open_output(place) if "base" in row else context.stores.open_other(place)
        uri = uri if "base" in row else storage.uri
        name = uri if "base" in row else mask_secrets(uri)  # the driver has masked the names of a fleet
        table = TableHandle(
            storage,
            clock=fixed_clock(context.shared(NOW_MS)),
            open_other=context.stores.open_other,
            allowed=context.stores.allowed,
            name=name,
        )
        for found in fact.read(table, context.shared(ARGUMENTS), row):
            if isinstance(found, Mapping):
                yield {TABLE.name: name, **found}
            else:
                yield found.add_column(0, TABLE.name, pa.repeat(pa.scalar(name), found.num_rows))
    except DeltacliError as fault:
        if isinstance(fault, UsageError) and not fact.keeps_faults:
            raise
        if fact.keeps_faults:
            yield _fault_row(fault, mask_secrets(uri), row, fact)
        elif not context.shared(SKIPS):
            fault.facts = {"table": mask_secrets(uri), **fault.facts}
            raise


def _fault_row(fault: DeltacliError, uri: str, row: Values, fact: Fact) -> Values:
    if ERROR in fact.columns:
        text = mask_secrets(f"{fault.code}: {fault.message}")
        return {"table": uri, "group": row.get("group"), "policy": row.get("policy"), "error": text}
    message = mask_secrets(fault.message)
    return {"table": uri, "rule": fault.code, "severity": "error", "message": message, "repair": fault.hint}


def _absolute(uri: str) -> str:
    """Return the place of a table. Raises UsageError for a relative path, which each process would take for another."""
    if uri is None or not ("://" in uri or uri.startswith(("/", "file:"))):
        raise UsageError(
            f"the path {uri!r} is not absolute", code="usage.relative-path", hint="pass absolute paths, or URIs"
        )
    return uri


def rows_of_tables(job: bytes, rows: Iterable[Values]) -> Iterator[RecordBatch]:
    """Yield the facts of tables as batches. Raises RuntimeError, whose text begins with the code of the error."""
    try:
        described = pickle.loads(job)
        context = open_context(described)
        fact = FACTS[context.shared(NAME)]
        found: Iterable[Iterable[Any]]
        if fact.is_long:
            found = (described.task(row, context) for row in rows)
        else:
            read = partial(_read_whole, described.task, context)
            found = EmbeddedEngine().run(read, rows, at_once=min(16, context.storage.capabilities.parallel_reads))
        for table in _as_tables(chain.from_iterable(found), (TABLE, *fact.columns)):
            yield from table.combine_chunks().to_batches()
    except DeltacliError as fault:
        raise searchable(fault) from None


def _as_tables(found: Iterable[Any], columns: Sequence[FactColumn]) -> Iterator[pa.Table]:
    """Yield tables and rows in their order, with up to a thousand rows in a table: one of each costs six times more."""
    rows: list[Values] = []
    for one in found:
        is_row = isinstance(one, Mapping)
        if rows and (not is_row or len(rows) == _ROWS_OF_TABLES):
            yield _table_of(rows, columns)
            rows = []
        if is_row:
            rows.append(one)
        else:
            yield one
    if rows:
        yield _table_of(rows, columns)


def _read_whole(task: Callable[..., Iterable[Any]], context: TaskContext, row: Values) -> list[Any]:
    return list(task(row, context))
