"""The columns of the frames of facts: names, types and meanings. The schema of a frame and its documentation follow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.typing import ArrowType

if TYPE_CHECKING:
    import pyarrow


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
    import pyarrow as pa

    match kind:
        case "string":
            return pa.string()
        case "bigint":
            return pa.int64()
        case "int":
            return pa.int32()
        case "boolean":
            return pa.bool_()
        case "timestamp":
            return pa.timestamp("us", "UTC")
        case "map<string,string>":
            return pa.map_(pa.string(), pa.string())
        case "array<string>":
            return pa.list_(pa.string())
    parts = [part.partition(":") for part in kind.removeprefix("struct<").removesuffix(">").split(",")]
    return pa.struct([(name, arrow_type(part)) for name, _, part in parts])


def arrow_schema(columns: Sequence[FactColumn]) -> pyarrow.Schema:
    """Return columns as a schema of Arrow."""
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.kind)) for column in columns])
