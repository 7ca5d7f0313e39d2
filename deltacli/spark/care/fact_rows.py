"""Facts of one table as rows of Arrow: what runs on an executor for `deltacli.spark.care.facts`.

Imports nothing that only the driver needs.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.clock import fixed_clock
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.worker import context_of
from deltacli.spark.care.fact_columns import (
    CANDIDATES,
    DETAIL,
    ERROR,
    FILES,
    FINDINGS,
    HISTORY,
    LOG_FACTS,
    TABLE,
    TOMBSTONES,
    FactColumn,
    arrow_schema,
    arrow_type,
)
from deltacli.spark.executor_rows import searchable
from deltacli.storage.secrets import without_secrets
from deltacli.table.handle import TableHandle
from deltacli.table.time_travel import find_snapshot

if TYPE_CHECKING:
    import pyarrow

    from deltacli.work.task import TaskContext

Values = Mapping[str, Any]
"""The row of the frame of tables, or the arguments of a fact."""


class Fact(NamedTuple):
    """A kind of frame: how the rows of a table are read, without the column `table`, as tables of Arrow or one by one.

    `is_long`: the rows of a table are streamed, because they can be millions. `keeps_faults`: a table that cannot be
    read is a row with its `error`; elsewhere it ends the job, or is skipped.
    """

    columns: tuple[FactColumn, ...]
    read: Callable[[TableHandle, Values, Values], Iterable[pyarrow.Table | Values]]
    is_long: bool = False
    keeps_faults: bool = False


def _moment(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


def _moments(column: ArrowArray) -> ArrowArray:
    import pyarrow as pa

    return column.cast(pa.timestamp("ms", "UTC")).cast(arrow_type("timestamp"))


def _texts(values: object) -> list[tuple[str, str | None]] | None:
    """Return an object of commitInfo as the entries of a map of texts."""
    if not isinstance(values, dict):
        return None
    return [
        (name, value if value is None or isinstance(value, str) else json.dumps(value))
        for name, value in values.items()
    ]


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _typed(value: object, kind: str) -> Any:  # Any: a value of the type, null where a writer wrote another one
    match kind:
        case "string":
            return _text(value)
        case "map<string,string>":
            return _texts(value)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "bigint":
            return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None
    return value


def _table_of(rows: Iterable[Values], columns: Sequence[FactColumn]) -> pyarrow.Table:
    """Return rows with some of the columns as a table; what a row lacks is null."""
    import pyarrow as pa

    given = list(rows)
    arrays = [pa.array([row.get(name) for row in given], arrow_type(kind)) for name, kind, _ in columns]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _with_columns(batch: Any, known: Values, columns: Sequence[FactColumn]) -> pyarrow.Table:
    """Return the columns by name: from `known` (arrays, or one value for all rows), from the batch, or null."""
    import pyarrow as pa

    arrays, names = [], set(batch.schema.names)
    for name, kind, _ in columns:
        expected = arrow_type(kind)
        value = known[name] if name in known else batch.column(name) if name in names else None
        if not isinstance(value, (pa.Array, pa.ChunkedArray)):
            value = pa.repeat(pa.scalar(value, expected), batch.num_rows)
        arrays.append(value if value.type.equals(expected) else value.cast(expected))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


# -- facts ------------------------------------------------------------------------------------------------------------


def _history(table: TableHandle, arguments: Values, _: Values) -> Iterator[pyarrow.Table]:
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


def _files(table: TableHandle, arguments: Values, _: Values) -> Iterator[pyarrow.Table]:
    from deltacli.arrow import compute as pc
    from deltacli.delta.stats.record_counts import num_records_column

    snapshot = find_snapshot(table, version=arguments["version"])
    for batch in snapshot.files():
        known = {
            "version": snapshot.version,
            "modificationTime": _moments(batch.column("modificationTime")),
            "numRecords": num_records_column(batch.column("stats")),
            "deletedRows": pc.fill_null(pc.struct_field(batch.column("deletionVector"), "cardinality"), 0),
        }
        yield _with_columns(batch, known, FILES)


def _tombstones(table: TableHandle, arguments: Values, _: Values) -> Iterator[pyarrow.Table]:
    from deltacli.arrow import compute as pc
    from deltacli.delta.protocol.property_values import deleted_file_retention_ms

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


def _findings(table: TableHandle, arguments: Values, _: Values) -> Iterator[pyarrow.Table]:
    from deltacli.operations.validate.request import ValidateRequest
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


def _candidates(table: TableHandle, arguments: Values, _: Values) -> Iterator[pyarrow.Table]:
    import pyarrow as pa

    from deltacli.operations.vacuum.full_plan import plan_vacuum
    from deltacli.operations.vacuum.request import VacuumRequest

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


FACTS: Mapping[str, Fact] = {
    "history": Fact(HISTORY, _history),
    "files": Fact(FILES, _files, is_long=True),
    "tombstones": Fact(TOMBSTONES, _tombstones, is_long=True),
    "detail": Fact(DETAIL, _detail, keeps_faults=True),
    "findings": Fact(FINDINGS, _findings, keeps_faults=True),
    "vacuum_plan": Fact(CANDIDATES, _candidates, is_long=True),
    "fleet_facts": Fact(LOG_FACTS, _log_facts, keeps_faults=True),
}


# -- tables -----------------------------------------------------------------------------------------------------------

NAME, ARGUMENTS, NOW_MS, SKIPS = "name", "arguments", "now_ms", "skips"
"""Names of the shared values: of the fact, its arguments, the clock, and whether unreadable tables are skipped."""


def read_fact(row: Values, context: TaskContext) -> Iterator[pyarrow.Table | Values]:
    """Yield the facts of the table of a row, with its URI, as tables of Arrow, or as a row where a table has one.

    Raises what the operation raises, unless the fact keeps faults or the caller skips unreadable tables.
    """
    import pyarrow as pa

    fact = FACTS[context.shared(NAME)]
    uri = row["table"]
    try:
        place = row.get("base") or _absolute(uri)
        storage = context.stores.other(place) if "base" in row else context.stores.open_other(place)
        uri = uri if "base" in row else storage.uri
        name = uri if "base" in row else without_secrets(uri)  # the driver has masked the names of a fleet
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
            yield _fault_row(fault, without_secrets(uri), row, fact)
        elif not context.shared(SKIPS):
            fault.facts = {"table": without_secrets(uri), **fault.facts}
            raise


def _fault_row(fault: DeltacliError, uri: str, row: Values, fact: Fact) -> Values:
    if ERROR in fact.columns:
        text = without_secrets(f"{fault.code}: {fault.message}")
        return {"table": uri, "group": row.get("group"), "policy": row.get("policy"), "error": text}
    message = without_secrets(fault.message)
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
        context = context_of(described)
        fact = FACTS[context.shared(NAME)]
        found: Iterable[Iterable[Any]]
        if fact.is_long:
            found = (described.task(row, context) for row in rows)
        else:
            read = partial(_read_whole, described.task, context)
            found = EmbeddedEngine().run(read, rows, at_once=_tables_at_once(context))
        for table in _as_tables(chain.from_iterable(found), (TABLE, *fact.columns)):
            yield from table.combine_chunks().to_batches()
    except DeltacliError as fault:
        raise searchable(fault) from None


def _as_tables(found: Iterable[Any], columns: Sequence[FactColumn]) -> Iterator[pyarrow.Table]:
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


def _tables_at_once(context: TaskContext) -> int:
    """Return how many tables to read at once: several where the store answers slowly."""
    return min(16, context.storage.capabilities.parallel_reads)
