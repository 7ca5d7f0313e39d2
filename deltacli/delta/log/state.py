"""The small part of a state, as values: protocol, metadata, transactions, domains, and properties in effect; and the
form of version checksums, which repeat it.

Spec: Table Properties; interval text as the reference implementation reads it; Actions; Action Reconciliation; Table
Features; Column Mapping; Version Checksum File Schema; File Size Histogram Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.times import DAY_MS, LONGEST_DURATION_MS, UNITS_MS
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.log.actions import FIELDS, Action, format_json_value, missing_field_error, wrong_type_error
from deltacli.delta.protocol.features import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION, Protocol
from deltacli.delta.schema.types import (
    MAX_COLUMN_ID,
    NO_COLUMNS,
    StructField,
    StructType,
    parse_schema,
    physical_name,
)

if TYPE_CHECKING:
    from deltacli.delta.log.segment import Place
    from deltacli.delta.schema.assigned_names import AssignedNames

# -- table properties that deltacli itself acts on ---------------------------------------------------------------------

DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"
TRUNCATION_RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"

DEFAULT_LOG_RETENTION_MS = 30 * DAY_MS
DEFAULT_DELETED_FILE_RETENTION_MS = 7 * DAY_MS
DEFAULT_RETENTIONS = {LOG_RETENTION: "interval 30 days", DELETED_FILE_RETENTION: "interval 1 week"}
"""The two defaults as values of their properties."""
SHORTEST_SAFE_RETENTION_MS = DAY_MS
"""Running readers and writers may still need files that were removed later."""


def deleted_file_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long a tombstone is kept: the property if it is valid, at most a thousand years, else one week.

    Spec: Add File and Remove File.
    """
    text = configuration.get(DELETED_FILE_RETENTION)
    parsed = parse_interval(text) if text else None
    return DEFAULT_DELETED_FILE_RETENTION_MS if parsed is None else min(parsed, LONGEST_DURATION_MS)


def portable_file_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long every engine keeps a tombstone. Some read only one integer and one lower-case unit, and use one
    week or the first part of anything else.
    """
    own_ms = deleted_file_retention_ms(configuration)
    text = (configuration.get(DELETED_FILE_RETENTION) or "").strip()
    if not text or re.fullmatch(r"interval\s+\d+\s+[a-z]+", text):
        return own_ms
    first = re.match(r"interval\s+\d+\s+[a-z]+", text)
    return min(own_ms, DEFAULT_DELETED_FILE_RETENTION_MS, (parse_interval(first[0]) or 0) if first else own_ms)


def log_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long commits are kept: the property if it is valid, else 30 days. Spec: Metadata Cleanup."""
    text = configuration.get(LOG_RETENTION)
    parsed = parse_interval(text) if text else None
    return DEFAULT_LOG_RETENTION_MS if parsed is None else parsed


def log_cutoff_ms(now_ms: int, retention_ms: int, cut_ms: int = DAY_MS) -> int:
    """Return up to when commits may expire: a midnight UTC, or a multiple of `cut_ms`. Spec: Metadata Cleanup."""
    return (now_ms - retention_ms) // cut_ms * cut_ms


def log_expires_at_ms(time_ms: int, retention_ms: int) -> int:
    """Return when that cutoff reaches a time."""
    return -(-time_ms // DAY_MS) * DAY_MS + retention_ms


def truncation_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long a dropped feature keeps versions: by the property if valid, else a day, as in `MEANINGS`."""
    text = configuration.get(TRUNCATION_RETENTION)
    parsed = parse_interval(text) if text else None
    return DAY_MS if parsed is None else min(parsed, LONGEST_DURATION_MS)


def retentions_out_of_order(configuration: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return the retentions of the log and of deleted files where the first is shorter, so that files are kept which no
    version names any more. Spec: Delta-Spark (it refuses any later change of such a table).
    """
    if log_retention_ms(configuration) >= deleted_file_retention_ms(configuration):
        return None
    log, files = (configuration.get(key) or default for key, default in DEFAULT_RETENTIONS.items())
    return log, files


PORTABLE_INTERVAL = re.compile(r"\s*interval\s+[0-9]+\s+(?:week|day|hour|minute|second|millisecond|microsecond)s?\s*")
"The form of an interval that every engine reads the same."

_UNIT_MICROSECONDS = {unit: length * 1_000 for unit, length in UNITS_MS.items()} | {
    "millisecond": 1_000,
    "microsecond": 1,
}
_PAIR = re.compile(r"([+-]?)\s*(\d{1,30})(?:\.(\d{1,9}))?\s+([a-z]+?)s?(?=\s|$)")


def parse_interval(text: str) -> int | None:
    """Return the milliseconds of an interval (`interval 1 week`, `30 days 12 hours`), or None if it is invalid.

    Case is ignored, units add up, only seconds may have a fraction, months and years have no fixed length, a day has 24
    hours.
    """
    rest = text.strip().lower()
    rest = re.sub(r"^interval(\s+|$)", "", rest)
    total, seen, position = 0, False, 0
    while position < len(rest):
        match = _PAIR.match(rest, position)
        if match is None or match[4] not in _UNIT_MICROSECONDS or (match[3] and match[4] != "second"):
            return None
        amount = int(match[2]) * _UNIT_MICROSECONDS[match[4]] + (int(match[3].ljust(9, "0")) // 1000 if match[3] else 0)
        total += -amount if match[1] == "-" else amount
        seen = True
        position = match.end()
        while position < len(rest) and rest[position].isspace():
            position += 1
    return total // 1000 if seen and total >= 0 else None


IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
ICT_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ICT_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


class InCommitKeys(NamedTuple):
    """The properties of in-commit timestamps: the switch, and the version and the time from which they apply."""

    switch: str
    version: str
    timestamp: str


IN_COMMIT_KEYS: Mapping[str, InCommitKeys] = {
    "inCommitTimestamp": InCommitKeys(IN_COMMIT_TIMESTAMPS, ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP),
    "inCommitTimestamp-preview": InCommitKeys(
        f"{IN_COMMIT_TIMESTAMPS}-preview", f"{ICT_ENABLEMENT_VERSION}-preview", f"{ICT_ENABLEMENT_TIMESTAMP}-preview"
    ),
}
"Feature -> its own properties. Writers of the preview (Delta 3.2) ignore those of the final feature, and vice versa."

APPEND_ONLY = "delta.appendOnly"
CHANGE_FEED = "delta.enableChangeDataFeed"
TYPE_WIDENING_ENABLED = "delta.enableTypeWidening"
LOG_CLEANUP = "delta.enableExpiredLogCleanup"
CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"
STATS_AS_JSON = "delta.checkpoint.writeStatsAsJson"
STATS_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"
DEFAULT_CHECKPOINT_INTERVAL = 10


def is_false(configuration: Mapping[str, str | None], key: str) -> bool:
    """Return a boolean property whose default is true."""
    return str(configuration.get(key) or "").strip().lower() == "false"


def is_true(configuration: Mapping[str, str | None], key: str) -> bool:
    """Return a boolean property; absent is false."""
    return str(configuration.get(key) or "").strip().lower() == "true"


def get_in_commit_timestamp_keys(features: Set[str], configuration: Mapping[str, str | None]) -> InCommitKeys | None:
    """Return the properties of in-commit timestamps if they are supported and on, else None."""
    supported = (keys for feature, keys in IN_COMMIT_KEYS.items() if feature in features)
    return next((keys for keys in supported if is_true(configuration, keys.switch)), None)


def parse_integer_property(configuration: Mapping[str, str | None], key: str) -> int | None:
    """Return an integer property, or None if it is absent or not an integer."""
    text = configuration.get(key)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


# -- the small part of a state -----------------------------------------------------------------------------------------


class Metadata(NamedTuple):
    """The metaData action of a version. `schema_string` is verbatim, None if the action has none (seen in practice)."""

    id: str
    name: str | None
    description: str | None
    provider: str
    format_options: Mapping[str, str]
    schema_string: str | None
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None

    def as_json(self) -> dict[str, Any]:
        """Return the action as in the log, without absent values."""
        document: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": self.provider, "options": dict(self.format_options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created_time,
        }
        return {key: value for key, value in document.items() if value is not None}


class SetTransaction(NamedTuple):
    """The newest version that an application has committed. `last_updated` is epoch milliseconds."""

    app_id: str
    version: int
    last_updated: int | None = None

    def as_json(self) -> JsonObject:
        """Return the action as in the log, without absent values."""
        updated = {} if self.last_updated is None else {"lastUpdated": self.last_updated}
        return {"appId": self.app_id, "version": self.version, **updated}


class DomainMetadata(NamedTuple):
    """A configuration that belongs to one named domain."""

    domain: str
    configuration: str

    def as_json(self) -> JsonObject:
        """Return the action as in the log, of a domain that is not removed."""
        return {"domain": self.domain, "configuration": self.configuration}


class StateBuilder:
    """Collects the small actions newest first: the first value of each is kept.

    Transactions are decided by commit, not by version; removed domains hide older ones.
    """

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata | None] = {}
        self.raw_protocol: Action | None = None
        self.raw_metadata: Action | None = None
        "The two actions as found, with unrecognized fields."

    def add_actions(self, actions: Iterable[tuple[str, Action]], source: str) -> None:
        """Add the small actions of one file. Within a file the last of a kind applies (their order is undefined)."""
        fresh = StateBuilder()
        for kind, action in actions:
            match kind:
                case "protocol":
                    fresh.protocol, fresh.raw_protocol = read_protocol(action, source), action
                case "metaData":
                    fresh.metadata, fresh.raw_metadata = read_metadata(action, source), action
                case "txn":
                    transaction = _read_transaction(action, source)
                    fresh.transactions[transaction.app_id] = transaction
                case "domainMetadata":
                    domain = _text(action, "domain", "domainMetadata", source)
                    removed = action.get("removed") is True
                    fresh.domains[domain] = (
                        None
                        if removed
                        else DomainMetadata(
                            domain, _as_text(action.get("configuration") or "", "domainMetadata.configuration", source)
                        )
                    )
        self.protocol = self.protocol or fresh.protocol
        self.metadata = self.metadata or fresh.metadata
        self.raw_protocol = self.raw_protocol or fresh.raw_protocol
        self.raw_metadata = self.raw_metadata or fresh.raw_metadata
        self.transactions = {**fresh.transactions, **self.transactions}
        self.domains = {**fresh.domains, **self.domains}

    @property
    def live_domains(self) -> tuple[DomainMetadata, ...]:
        return tuple(domain for _, domain in sorted(self.domains.items()) if domain is not None)

    def to_actions(self) -> Iterator[tuple[str, Action]]:
        """Yield the protocol, the metadata and the live domains as actions that `add_actions` accepts."""
        for kind, action in (("protocol", self.raw_protocol), ("metaData", self.raw_metadata)):
            if action is not None:
                yield kind, drop_null_fields(action)
        for one in self.live_domains:
            yield "domainMetadata", {**one.as_json(), "removed": False}

    @property
    def live_transactions(self) -> tuple[SetTransaction, ...]:
        """Return the newest transaction of every application, including expired ones, by application."""
        return tuple(transaction for _, transaction in sorted(self.transactions.items()))


def has_in_commit_timestamps(protocol: Protocol, metadata: Metadata) -> bool:
    """Return True if this version's commit time is `commitInfo.inCommitTimestamp`. Spec: In-Commit Timestamps."""
    return get_in_commit_timestamp_keys(protocol.supported_features, metadata.configuration) is not None


def read_protocol(action: Action, source: str) -> Protocol:
    """Read a protocol action. Raises CommitCorrupt (`action.missing-required`, `action.wrong-type`)."""
    return Protocol(
        _number(action, "minReaderVersion", "protocol", source),
        _number(action, "minWriterVersion", "protocol", source),
        _features(action, "readerFeatures", source),
        _features(action, "writerFeatures", source),
    )


def read_metadata(action: Action, source: str) -> Metadata:
    """Read a metaData action. A missing schemaString is None. Raises CommitCorrupt."""
    form = _mapping(action.get("format"), "metaData.format", source)
    schema = action.get("schemaString")
    created = action.get("createdTime")
    if schema is not None and not isinstance(schema, str):
        raise wrong_type_error("metaData.schemaString", format_json_value(schema), source)
    return Metadata(
        id=_as_text(action.get("id") or "", "metaData.id", source),
        name=_optional_text(action, "name", source),
        description=_optional_text(action, "description", source),
        provider=_as_text(form.get("provider") or "parquet", "metaData.format.provider", source),
        format_options=_strings(form.get("options"), "metaData.format.options", source),
        schema_string=schema,
        partition_columns=_texts(action.get("partitionColumns") or [], "metaData.partitionColumns", source),
        configuration=_strings(action.get("configuration"), "metaData.configuration", source),
        created_time=created if type(created) is int and -(2**63) <= created < 2**63 else None,
    )


def drop_null_fields(action: Action) -> Action:
    """Return a protocol or metaData action as in a commit: absent fields, also of a format, are null in checkpoints."""
    plain = {key: value for key, value in action.items() if value is not None}
    if isinstance(plain.get("format"), dict):
        plain["format"] = {key: value for key, value in plain["format"].items() if value is not None}
    return plain


def plain_metadata(metadata: Action) -> Action:
    """Return a metaData action as in a commit. In a checkpoint, maps are lists of pairs, too."""
    action = drop_null_fields(metadata)
    if "configuration" in action:
        action["configuration"] = _object(action["configuration"])
    if isinstance(action.get("format"), Mapping):
        action["format"] = {**action["format"], "options": _object(action["format"].get("options") or {})}
    return action


def complete_metadata(metadata: Action) -> Action:
    """Return a metaData action with every required field but a schema, and each field of its type.

    Old writers left fields out, or the quotes of a text. Strict readers (deltalake, Delta Kernel) refuse a table whose
    log has such an action, so it is never written again as it was: each field is written as `read_metadata` reads it,
    which leaves out a createdTime that is not an integer. A schema is not assumed: without one, no column could be
    read. Fields that the protocol does not define are kept.

    Raises:
        CommitCorrupt: If a field has a type that cannot be read.
    """
    as_read = read_metadata(metadata, "the metadata").as_json()
    found = plain_metadata(metadata)
    complete = {name: value for name, value in found.items() if name in as_read or name not in FIELDS["metaData"]}
    complete |= as_read
    complete["format"] = (found.get("format") or {}) | as_read["format"]
    return complete


def _object(value: Json) -> Json:
    return dict(value) if isinstance(value, list | Mapping) else value


def _read_transaction(action: Action, source: str) -> SetTransaction:
    updated = action.get("lastUpdated")
    return SetTransaction(
        _text(action, "appId", "txn", source),
        _number(action, "version", "txn", source),
        updated if type(updated) is int else None,
    )


def _features(action: Action, field_name: str, source: str) -> tuple[str, ...] | None:
    names = action.get(field_name)
    if names is None:
        return None
    return tuple(sorted(_texts(names, f"protocol.{field_name}", source)))


def _number(action: Action, field_name: str, kind: str, source: str) -> int:
    value = action.get(field_name)
    if value is None:
        raise missing_field_error(f"{kind}.{field_name}", source)
    if type(value) is not int:
        raise wrong_type_error(f"{kind}.{field_name}", format_json_value(value), source)
    return value


def _text(action: Action, field_name: str, kind: str, source: str) -> str:
    value = action.get(field_name)
    if value is None:
        raise missing_field_error(f"{kind}.{field_name}", source)
    if not isinstance(value, str):
        raise wrong_type_error(f"{kind}.{field_name}", format_json_value(value), source)
    return value


def _optional_text(action: Action, field_name: str, source: str) -> str | None:
    value = action.get(field_name)
    return None if value is None else _as_text(value, f"metaData.{field_name}", source)


def _texts(value: object, what: str, source: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise wrong_type_error(what, format_json_value(value), source)
    return tuple(_as_text(item, what, source) for item in value)


def _as_text(value: object, what: str, source: str) -> str:
    """Return a scalar as text, because some writers omit the quotes."""
    if isinstance(value, dict | list):
        raise wrong_type_error(what, format_json_value(value), source)
    return str(value)


def _mapping(value: object, what: str, source: str) -> JsonObject:
    """Return a map of the log: an object in JSON, a list of pairs in Parquet, empty if absent."""
    if value is None:
        return {}
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if not isinstance(value, dict):
        raise wrong_type_error(what, format_json_value(value), source)
    return value


def _strings(value: object, what: str, source: str) -> dict[str, str]:
    pairs = _mapping(value, what, source).items()
    return {str(key): "" if item is None else _as_text(item, what, source) for key, item in pairs}


class MetadataOfVersion(NamedTuple):
    """A metaData action as found, and the version from which on it applies; later than that if an old log was cut."""

    version: int
    action: Action


class OlderMetadata(NamedTuple):
    """The metaData actions of a table up to a version, oldest first.

    Attributes:
        found: The actions that the log has.
        reaches_back: True if these are all since the table was created.
    """

    found: tuple[MetadataOfVersion, ...]
    reaches_back: bool


@dataclass(frozen=True)
class TableConfiguration:
    """The protocol and the metadata in effect. Parts that could not be read are None; the raw actions are kept."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    schema: StructType | None = None
    raw_protocol: Action | None = None
    raw_metadata: Action | None = None
    protocol_place: Place | None = None
    metadata_place: Place | None = None
    protocol_version: int = -1
    "The version whose commit (or checkpoint) has the protocol, or -1."
    metadata_version: int = -1
    older_metadata: Callable[[], OlderMetadata] | None = field(default=None, compare=False, repr=False)
    """Returns the metadata of other versions, which may read the log; None if they are unknown."""

    @cached_property
    def features(self) -> frozenset[str]:
        """Return every supported feature: listed, or implied by version numbers."""
        return self.protocol.supported_features if self.protocol else frozenset()

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Return the table properties, empty without a metadata."""
        return self.metadata.configuration if self.metadata else {}

    def is_on(self, key: str) -> bool:
        """Return True if a boolean property is true (whether or not its feature is supported)."""
        return is_true(self.properties, key)

    def is_inert(self, feature: str) -> bool:
        """Return True if the protocol does not support a writer feature, so that its column metadata has no effect.

        Old writers left generated and identity columns in such tables. Spec: Generated Columns; Identity Columns.
        """
        if self.protocol is None or feature in self.features:
            return False
        needs_list = self.protocol.min_writer_version >= WRITER_FEATURES_VERSION
        return not (needs_list and self.protocol.writer_features is None)

    @cached_property
    def mapping_mode(self) -> str:
        """Return `delta.columnMapping.mode` if column mapping is supported, else `none`."""
        mode = str(self.properties.get("delta.columnMapping.mode") or "none").lower()
        return mode if "columnMapping" in self.features else "none"

    @cached_property
    def has_ict(self) -> bool:
        """Return True if in-commit timestamps are supported and on."""
        return self.in_commit_timestamp_keys is not None

    @cached_property
    def in_commit_timestamp_keys(self) -> InCommitKeys | None:
        """Return the properties used by in-commit timestamps, or None if they are not supported or not on."""
        return get_in_commit_timestamp_keys(self.features, self.properties)

    @cached_property
    def columns(self) -> dict[str, StructField]:
        """Return top-level columns by their name in files and statistics (physical under mapping)."""
        fields = self.schema.fields if self.schema else ()
        return {self.physical_name(column): column for column in fields}

    def physical_name(self, column: StructField) -> str:
        """Return the name of a column or nested field in files, statistics and partition values."""
        return physical_name(column, self.mapping_mode)

    @property
    def max_column_id(self) -> int | None:
        """Return the highest column id that was assigned under column mapping; None if missing or invalid."""
        return parse_integer_property(self.properties, MAX_COLUMN_ID)

    @cached_property
    def assigned_names(self) -> AssignedNames:
        """Return the names that the fields of the table have under column mapping, and those that they had before.

        The first call reads the log where `older_metadata` does. Metadata whose schema cannot be read is left out.
        """
        from deltacli.delta.schema.assigned_names import MappedSchema, collect_assigned_names

        older = OlderMetadata((), reaches_back=False) if self.older_metadata is None else self.older_metadata()
        schemas: list[MappedSchema] = []
        are_all_read = True
        for stored in older.found:
            try:
                metadata = read_metadata(stored.action, "an older version")
                schema = parse_schema(metadata.schema_string or NO_COLUMNS)
            except Unreadable:
                are_all_read = False
            else:
                schemas.append(MappedSchema(schema, parse_integer_property(metadata.configuration, MAX_COLUMN_ID)))
        current = MappedSchema(self.schema or StructType(()), self.max_column_id)
        return collect_assigned_names(current, schemas, reaches_back=older.reaches_back and are_all_read)

    @cached_property
    def partition_columns(self) -> dict[str, StructField | None]:
        """Return partition columns by physical name, or None if the schema lacks one."""
        by_name = {column.name: column for column in (self.schema.fields if self.schema else ())}
        fields: dict[str, StructField | None] = {}
        for name in self.metadata.partition_columns if self.metadata else ():
            column = by_name.get(name)
            fields[self.physical_name(column) if column else name] = column
        return fields


def configuration_of(metadata: Action, protocol: Action, schema: StructType | None = None) -> TableConfiguration:
    """Return what two actions say; `schema`: the parsed one. Raises CommitCorrupt, and what `parse_schema` raises."""
    read = read_protocol(protocol, "the protocol"), read_metadata(metadata, "the metadata")
    schema = schema or parse_schema(str(metadata.get("schemaString") or NO_COLUMNS))
    return TableConfiguration(*read, schema, raw_protocol=protocol, raw_metadata=metadata)


# -- version checksums -------------------------------------------------------------------------------------------------

REQUIRED_CHECKSUM_FIELDS: Mapping[str, type] = {
    **dict.fromkeys(("tableSizeBytes", "numFiles", "numMetadata", "numProtocol"), int),
    **dict.fromkeys(("metadata", "protocol"), dict),
}
"""The fields that every version checksum has, with their types."""
HISTOGRAM_LISTS = ("sortedBinBoundaries", "fileCounts", "totalBytes")


@lru_cache(maxsize=1)
def read_checksum(data: bytes) -> JsonObject | None:
    """Return the object in a checksum, or None without one; the last is cached for the next check."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def get_action_list(listed: object) -> list[Action] | None:
    """Return a list of objects unchanged, or None if it is anything else."""
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        return None
    return listed


def get_file_size_histogram(checksum: JsonObject) -> tuple[str, object]:
    """Return the histogram of file sizes, None without one, and its name: Spark wrote the same one as `histogramOpt`
    before the field had its current name.
    """
    name = "fileSizeHistogram" if checksum.get("fileSizeHistogram") is not None else "histogramOpt"
    return name, checksum.get(name)


def get_histogram_list(histogram: object, name: str) -> list[int] | None:
    """Return a list of integers of a histogram, or None."""
    numbers = histogram.get(name) if isinstance(histogram, dict) else None
    if not isinstance(numbers, list) or not all(type(number) is int and abs(number) < 2**63 for number in numbers):
        return None
    return numbers


def find_histogram_fault(
    boundaries: Sequence[int] | None, counts: Sequence[int] | None, sizes: Sequence[int] | None
) -> str:
    """Return the fault in the form of a histogram, in words, or an empty string."""
    if boundaries is None or counts is None or sizes is None:
        return "lacks one of its three lists of integers"
    if not len(boundaries) == len(counts) == len(sizes):
        return f"has lists of {len(boundaries)}, {len(counts)} and {len(sizes)} numbers"
    if not boundaries or boundaries[0] != 0:
        return f"begins at {boundaries[0] if boundaries else 'no boundary'}, not at 0"
    if any(one >= other for one, other in pairwise(boundaries)):
        return "has boundaries that are not in ascending order"
    return ""


# -- whether two spellings are equivalent ------------------------------------------------------------------------------


def find_metadata_differences(actual: Metadata, expected: Metadata) -> list[str]:
    """Return the names of fields that differ; the order of properties and the spelling of a schema do not count."""
    names = []
    for name in Metadata._fields:
        one, other = getattr(actual, name), getattr(expected, name)
        same = _same_schema(one, other) if name == "schema_string" else one == other
        if not same:
            names.append(_WORDS.get(name, name))
    return names


def find_protocol_differences(actual: Protocol, expected: Protocol, *, with_null_lists: bool = True) -> list[str]:
    """Return the names of the fields that differ. An empty list equals a missing one. Without `with_null_lists`, a list
    that is null or not null contrary to its versions is also equal, because another rule reports it.
    """
    names = []
    if actual.min_reader_version != expected.min_reader_version:
        names.append("minReaderVersion")
    if actual.min_writer_version != expected.min_writer_version:
        names.append("minWriterVersion")
    faulty = () if with_null_lists else misplaced_feature_lists(actual)
    if set(actual.reader_features or ()) != set(expected.reader_features or ()) and "readerFeatures" not in faulty:
        names.append("readerFeatures")
    if set(actual.writer_features or ()) != set(expected.writer_features or ()) and "writerFeatures" not in faulty:
        names.append("writerFeatures")
    return names


def misplaced_feature_lists(protocol: Protocol) -> Collection[str]:
    """Return the feature lists that are null although the versions require one, or present although they allow none."""
    lists = {
        "readerFeatures": (protocol.reader_features, protocol.min_reader_version >= READER_FEATURES_VERSION),
        "writerFeatures": (protocol.writer_features, protocol.min_writer_version >= WRITER_FEATURES_VERSION),
    }
    return [name for name, (features, is_due) in lists.items() if (features is not None) is not is_due]


def _same_schema(one: str | None, other: str | None) -> bool:
    """Return True if two texts are the same JSON. Texts that are not JSON must be identical."""
    if one == other:
        return True
    if one is None or other is None:
        return False
    try:
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


_WORDS = {
    "schema_string": "schemaString",
    "partition_columns": "partitionColumns",
    "created_time": "createdTime",
    "provider": "format.provider",
    "format_options": "format.options",
}
