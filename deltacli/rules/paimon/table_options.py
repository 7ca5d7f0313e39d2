"""Rules about the options of a table: the checks of Paimon's own validation, and what options conflict.

`TableFacts` is a schema as Java looks at it there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from deltacli.paimon.file_formats import (
    CHANGELOG_FORMAT,
    DATA_FORMATS,
    FILE_FORMAT,
    FORMAT_PER_LEVEL,
    MANIFEST_FORMAT,
    MANIFEST_FORMATS,
    VECTOR_FORMAT,
    BadLevels,
    parse_formats_per_level,
)
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import DataType, ListType, MapType, Root, RowType
from deltacli.rules.framework.base import Area, Finding, Fix, Rule
from deltacli.rules.paimon.catalogue import SchemaFileView
from deltacli.rules.paimon.schema_files import NO_KEY_TYPES, is_blob

# -- what options of a table need --------------------------------------------------------------------------------------

BOOLEANS = frozenset(
    {
        *("chain-table.enabled", "clustering.incremental", "data-evolution.enabled", "deletion-vectors.enabled"),
        *("deletion-vectors.merge-on-read", "ignore-delete", "partial-update.remove-record-on-delete"),
        *("pk-clustering-override", "primary-key.nullable", "row-tracking.enabled", "streaming-read-overwrite"),
        "table-read.sequence-number.enabled",
    }
)
"""The options that Java's validation reads as booleans."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_GROUP = re.compile(r"fields\.(.*)\.sequence-group")
_DEFAULT_FUNCTION = "fields.default-aggregate-function"


class TableFacts:
    """The columns, keys and options of a schema. An option whose value Java cannot parse has its default here."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.options = schema.options
        self.columns: dict[str, DataType] = {field.name: field.type for field in schema.fields}
        self.has_key = bool(schema.primary_keys)
        self.crosses_partitions = self.has_key and not set(schema.partition_keys) <= set(schema.primary_keys)
        self.bucket = self.number("bucket", -1)

    def word(self, key: str, default: str) -> str:
        """Return an option that is one of several words."""
        return self.options.get(key, default).lower()

    def number(self, key: str, default: int) -> int:
        """Return a whole number."""
        value = self.options.get(key)
        return default if value is None or not is_number(value) else int(value)

    def is_set(self, *keys: str) -> bool:
        """Return True if one of the options has a value; a boolean one, if it is true."""
        return any(self.word(key, "") == "true" if key in BOOLEANS else self.options.get(key) for key in keys)

    def merges_by(self, *engines: str) -> bool:
        """Return True for a table with a primary key and one of these merge engines."""
        return self.has_key and self.word("merge-engine", "deduplicate") in engines

    def groups(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield each option of a sequence group, the columns in its key, and those in its value."""
        for key, value in self.options.items():
            if match := _GROUP.fullmatch(key):
                yield key, split_names(match[1]), split_names(value)

    def functions(self) -> Iterator[tuple[str, str, str]]:
        """Yield each column that is aggregated, the option with its function, and the function."""
        for name in self.columns:
            key = function_key(name)
            key = key if key in self.options else _DEFAULT_FUNCTION
            if key in self.options:
                yield name, key, self.options[key]


def split_names(value: str) -> list[str]:
    """Return the parts between commas without empty ones at the end, as Java splits a text."""
    return value.rstrip(",").split(",")


def function_key(column: str) -> str:
    """Return the option that names the aggregate function of a column."""
    return f"fields.{column}.aggregate-function"


def is_number(value: str) -> bool:
    """Return True for a text that Java parses as an int."""
    return _NUMBER.fullmatch(value) is not None and -(1 << 31) <= int(value) < 1 << 31


class Conflict(NamedTuple):
    """A condition, and another one that it needs or excludes. Conditions are joined by `with`.

    A condition is an option that is set or true, an option with one of some values, or a state in `_STATES`.
    """

    subject: str
    verb: str
    other: str

    @property
    def sentence(self) -> str:
        """The conflict in words."""
        return f"{self.subject} {self.verb} {self.other}"

    @property
    def key(self) -> str:
        """The first option that is named."""
        return self.subject.split()[0]

    def is_in(self, table: TableFacts) -> bool:
        """Return True for a table that has the conflict."""
        applies = all(_holds(table, condition) for condition in self.subject.split(" with "))
        return applies and _holds(table, self.other) is (self.verb == _EXCLUDES)


def _holds(table: TableFacts, condition: str) -> bool:
    key, _, words = condition.partition(" ")
    if condition in _STATES:
        return _STATES[condition](table)
    if words:
        return table.word(key, _DEFAULTS[key]) in words.split(" or ")
    return table.is_set(key)


def _is_end_of_partition_keys(table: TableFacts) -> bool:
    keys = tuple(table.options["chain-table.chain-partition-keys"].split(","))
    return table.schema.partition_keys[-len(keys) :] == keys


_STATES: Mapping[str, Callable[[TableFacts], bool]] = {
    "a primary key": lambda table: table.has_key,
    "partition keys": lambda table: bool(table.schema.partition_keys),
    "all partition keys in the primary key": lambda table: not table.crosses_partitions,
    "partial updates": lambda table: table.merges_by("partial-update"),
    "sequence groups": lambda table: any(table.groups()),
    "buckets": lambda table: table.bucket != -1,
    "a positive bucket": lambda table: table.bucket > 0,
    "a column that is not a VECTOR": lambda table: any(one.root is not Root.VECTOR for one in table.columns.values()),
    "the last of the partition keys": _is_end_of_partition_keys,
}
_DEFAULTS: Mapping[str, str] = {
    "bucket": "-1",
    "bucket-append-ordered": "true",
    "changelog-producer": "none",
    "merge-engine": "deduplicate",
    "partition.expiration-strategy": "values-time",
}
_NEEDS, _EXCLUDES = "needs", "cannot be used with"

CONFLICTS: tuple[Conflict, ...] = (
    Conflict("changelog-producer input or full-compaction or lookup", _NEEDS, "a primary key"),
    Conflict("streaming-read-overwrite", _NEEDS, "a primary key"),
    Conflict("streaming-read-overwrite", _EXCLUDES, "changelog-producer full-compaction or lookup"),
    Conflict("merge-engine first-row", _NEEDS, "changelog-producer none or lookup"),
    Conflict("sequence.field", _EXCLUDES, "merge-engine first-row"),
    Conflict("sequence.field", _NEEDS, "all partition keys in the primary key"),
    Conflict("primary-key.nullable", _NEEDS, "a primary key"),
    Conflict("upsert-key", _EXCLUDES, "a primary key"),
    Conflict("table-read.sequence-number.enabled", _NEEDS, "a primary key"),
    Conflict("full-compaction.delta-commits with bucket -1", _NEEDS, "a primary key"),
    Conflict("deletion-vectors.merge-on-read", _NEEDS, "deletion-vectors.enabled"),
    Conflict("deletion-vectors.enabled with merge-engine first-row", _NEEDS, "pk-clustering-override"),
    Conflict("deletion-vectors.enabled", _EXCLUDES, "changelog-producer full-compaction"),
    Conflict("row-tracking.enabled", _EXCLUDES, "a primary key"),
    Conflict("row-tracking.enabled", _NEEDS, "bucket -1"),
    Conflict("data-evolution.enabled", _NEEDS, "row-tracking.enabled"),
    Conflict("data-evolution.enabled", _EXCLUDES, "deletion-vectors.enabled"),
    Conflict("data-evolution.enabled", _EXCLUDES, "clustering.incremental"),
    Conflict("vector.file.format", _NEEDS, "data-evolution.enabled"),
    Conflict("vector.file.format", _NEEDS, "a column that is not a VECTOR"),
    Conflict("blob-external-storage-field", _NEEDS, "blob-external-storage-path"),
    Conflict("clustering.incremental", _EXCLUDES, "a primary key"),
    Conflict("clustering.incremental with buckets", _NEEDS, "bucket-append-ordered false"),
    Conflict("clustering.incremental with buckets", _EXCLUDES, "deletion-vectors.enabled"),
    Conflict("ignore-delete with partial updates", _EXCLUDES, "partial-update.remove-record-on-delete"),
    Conflict("ignore-delete with partial updates", _EXCLUDES, "partial-update.remove-record-on-sequence-group"),
    Conflict("partial-update.remove-record-on-delete with partial updates", _EXCLUDES, "sequence groups"),
    Conflict("pk-clustering-override", _NEEDS, "clustering.columns"),
    Conflict("pk-clustering-override", _NEEDS, "merge-engine deduplicate or first-row"),
    Conflict("pk-clustering-override with merge-engine deduplicate", _NEEDS, "deletion-vectors.enabled"),
    Conflict("pk-clustering-override", _NEEDS, "changelog-producer none or input"),
    Conflict("pk-clustering-override", _EXCLUDES, "sequence.field"),
    Conflict("pk-clustering-override", _EXCLUDES, "record-level.expire-time"),
    Conflict("chain-table.enabled", _NEEDS, "a primary key"),
    Conflict("chain-table.enabled", _NEEDS, "partition keys"),
    Conflict("chain-table.enabled", _NEEDS, "a positive bucket"),
    Conflict("chain-table.enabled", _NEEDS, "sequence.field"),
    Conflict("chain-table.enabled", _NEEDS, "changelog-producer none or input"),
    Conflict("chain-table.enabled", _EXCLUDES, "deletion-vectors.enabled"),
    Conflict("chain-table.enabled", _NEEDS, "partition.timestamp-pattern"),
    Conflict("chain-table.enabled", _NEEDS, "partition.timestamp-formatter"),
    Conflict("partition.expiration-time with chain-table.enabled", _NEEDS, "partition.expiration-strategy values-time"),
    Conflict("chain-table.chain-partition-keys with chain-table.enabled", _NEEDS, "the last of the partition keys"),
)


# -- rules about the options of a table --------------------------------------------------------------------------------

AREA = Area("Options", spec="Java: SchemaValidation")


_REFUSED = Fix("Paimon refuses to open or alter the table", "set the option to a valid value, or remove it")

BUCKET = AREA.error(
    "paimon.bucket",
    "`bucket` is positive, -1, or -2 with a primary key, and fits bucket-key.",
    *_REFUSED,
    example='"bucket": "0"',
)
BUCKET_KEY = AREA.error(
    "paimon.bucket-key",
    "`bucket-key` names columns that are not partition keys and are part of the primary key, without blanks.",
    *_REFUSED,
    example='"bucket-key": "a, b"',
)
OPTION_VALUE = AREA.error(
    "paimon.option-value", "Options have values that Paimon knows.", *_REFUSED, example='"file.format": "xlsx"'
)
OPTION_COLUMN = AREA.error(
    "paimon.option-column",
    "Columns that options name exist and have a suitable type.",
    *_REFUSED,
    example='"sequence.field": "nope"',
)
OPTION_CONFLICT = AREA.error(
    "paimon.option-conflict",
    "Options are compatible with each other, and with the keys.",
    *_REFUSED,
    example='"changelog-producer": "input" without a primary key',
)


class OptionFault(NamedTuple):
    """What breaks a check: the option, why, and the value that is wrong if it is not the whole option."""

    key: str
    reason: str
    seen: object = None


class OptionCheck(NamedTuple):
    """A check of Java's validation: the rule that reports it, what Java demands in words, and what breaks it."""

    rule: Rule
    sentences: tuple[str, ...]
    faults: Callable[[TableFacts], Iterator[OptionFault]]


# --- values ---

_WORDS: Mapping[str, frozenset[str]] = {
    "merge-engine": frozenset({"deduplicate", "partial-update", "aggregation", "first-row"}),
    "changelog-producer": frozenset({"none", "input", "full-compaction", "lookup"}),
    FILE_FORMAT: DATA_FORMATS,
    CHANGELOG_FORMAT: DATA_FORMATS,
    VECTOR_FORMAT: DATA_FORMATS,
    MANIFEST_FORMAT: MANIFEST_FORMATS,
    "scan.mode": frozenset(
        {
            *("default", "latest-full", "full", "latest", "compacted-full", "incremental"),
            *("from-timestamp", "from-creation-timestamp", "from-file-creation-time"),
            *("from-snapshot", "from-snapshot-full"),
        }
    ),
}
_NUMBERS = (
    *("snapshot.num-retained.min", "snapshot.num-retained.max", "changelog.num-retained.min"),
    "changelog.num-retained.max",
)
_FUNCTIONS = frozenset(
    {
        *("avg", "bool_and", "bool_or", "collect", "first_non_null_value", "first_not_null_value", "first_value"),
        *("hll_sketch", "last_non_null_value", "last_value", "listagg", "max", "merge_map", "merge_map_with_keytime"),
        *("min", "nested_partial_update", "nested_update", "primary-key", "product", "rbm32", "rbm64", "sum"),
        "theta_sketch",
    }
)
_LEAST_RETAINED, _MOST_RETAINED = 10, (1 << 31) - 1
"""Java's defaults for snapshots; the options of changelogs default to those of snapshots."""


def _bad_words(table: TableFacts) -> Iterator[OptionFault]:
    for key, known in _WORDS.items():
        if key in table.options and table.options[key].lower() not in known:
            yield OptionFault(key, f"{key} is {table.options[key]!r} (expected: {', '.join(sorted(known))})")


def _bad_levels(table: TableFacts) -> Iterator[OptionFault]:
    """Yield what is wrong with the formats of levels, which Paimon reads only for a table with a primary key."""
    if not table.has_key or FORMAT_PER_LEVEL not in table.options:
        return
    try:
        formats = parse_formats_per_level(table.options[FORMAT_PER_LEVEL])
    except BadLevels as error:
        yield OptionFault(FORMAT_PER_LEVEL, f"{FORMAT_PER_LEVEL}: {error} (expected: 0:avro,5:parquet)")
        return
    for level, name in formats.items():
        if name not in DATA_FORMATS:
            expected = ", ".join(sorted(DATA_FORMATS))
            yield OptionFault(FORMAT_PER_LEVEL, f"{FORMAT_PER_LEVEL}: level {level} is {name!r} (expected: {expected})")


def _bad_booleans(table: TableFacts) -> Iterator[OptionFault]:
    read = {"ignore-delete": table.has_key, "partial-update.remove-record-on-delete": table.merges_by("partial-update")}
    for key in sorted(BOOLEANS):
        if read.get(key, True) and table.word(key, "true") not in ("true", "false"):
            yield OptionFault(key, f"{key} is {table.options[key]!r} (expected: true or false)")


def _bad_numbers(table: TableFacts) -> Iterator[OptionFault]:
    for key in _NUMBERS:
        if key in table.options and not is_number(table.options[key]):
            yield OptionFault(key, f"{key} is {table.options[key]!r} (expected: a whole number)")


def _bad_retention(table: TableFacts) -> Iterator[OptionFault]:
    least, most = _LEAST_RETAINED, _MOST_RETAINED
    for what in ("snapshot", "changelog"):
        low, high = f"{what}.num-retained.min", f"{what}.num-retained.max"
        least, most = table.number(low, least), table.number(high, most)
        if table.is_set(low) and least < 1:
            yield OptionFault(low, f"{low} is {least} (expected: 1 or more)")
        elif table.is_set(low, high) and least > most:
            yield OptionFault(
                low if table.is_set(low) else high, f"{low} is {least}, which is greater than {high}, {most}", least
            )


_NUMERIC = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_NEEDED: Mapping[str, tuple[tuple[Root, ...], str]] = {
    **dict.fromkeys(("sum", "product"), (_NUMERIC, "a number")),
    **dict.fromkeys(("bool_and", "bool_or"), ((Root.BOOLEAN,), "BOOLEAN")),
    "listagg": ((Root.VARCHAR,), "STRING"),
}
"""The types of which a function has values; Java looks when it merges rows, so that every scan fails."""


def _bad_functions(table: TableFacts) -> Iterator[OptionFault]:
    if table.merges_by("partial-update", "aggregation"):
        for key, function in {key: function for _, key, function in table.functions()}.items():
            if function not in _FUNCTIONS:
                yield OptionFault(key, f"{function!r} is not an aggregate function of Paimon")


def _bad_types_of_functions(table: TableFacts) -> Iterator[OptionFault]:
    """Yield columns whose function has no values of their type. A key column is never aggregated."""
    if not table.merges_by("partial-update", "aggregation"):
        return
    ordering = {*_of_sequence(table.options.get("sequence.field", "")), *table.schema.primary_keys}
    for name, key, function in table.functions():
        roots, needed = _NEEDED.get(function, ((), ""))
        if roots and name not in ordering and table.columns[name].root not in roots:
            yield OptionFault(
                key, f"{function} needs {needed}, but {name} has the type {table.columns[name].root}", name
            )


# --- columns ---


class _Naming(NamedTuple):
    """An option that names columns: how its value is taken apart, and which types are suitable."""

    key: str
    split: Callable[[str], list[str]]
    suits: Callable[[DataType], bool] = lambda _: True
    needed: str = ""


def _of_sequence(value: str) -> list[str]:
    return [name.strip() for name in split_names(value)] if value else []


def _trimmed(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


_TIMES = (Root.INT, Root.BIGINT, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_OF_BLOBS = ("blob-field", "blob-descriptor-field", "blob-view-field", "blob-external-storage-field")
_NAMINGS = (
    _Naming("sequence.field", _of_sequence),
    _Naming("rowkind.field", lambda value: [value]),
    _Naming(
        "record-level.time-field", lambda value: [value], lambda found: found.root in _TIMES, "INT, BIGINT or TIMESTAMP"
    ),
    _Naming("vector-field", _trimmed, lambda found: found.root is Root.VECTOR, "VECTOR"),
    _Naming("upsert-key", _trimmed, lambda found: found.root not in NO_KEY_TYPES, "one that can be compared"),
    *(_Naming(key, _trimmed, is_blob, "BLOB") for key in _OF_BLOBS),
)


def _bad_columns(table: TableFacts) -> Iterator[OptionFault]:
    for key, split, suits, needed in _NAMINGS:
        for name in split(table.options[key]) if key in table.options else ():
            found = table.columns.get(name)
            if found is None:
                yield _unknown(table, key, name)
            elif not suits(found):
                yield OptionFault(
                    key, f"{key} names {name}, which has the type {found.root} (expected: {needed})", name
                )


def _unknown(table: TableFacts, key: str, name: str) -> OptionFault:
    blank = ": a blank beside the comma is part of the name" if name.strip() in table.columns else ""
    return OptionFault(key, f"{key} names {name.strip() or repr(name)}, which is not a column{blank}", name)


def _bad_fields(table: TableFacts) -> Iterator[OptionFault]:
    for key in table.options:
        if key.startswith("fields.") and key.count(".") > 1:
            names = split_names(key.split(".")[1])
            yield from (_unknown(table, key, name) for name in names if name not in table.columns)
    if table.merges_by("partial-update"):
        for key, _, names in table.groups():
            yield from (_unknown(table, key, name) for name in names if name not in table.columns)


_NESTED = ("nested_update", "nested_partial_update")


def _bad_nested(table: TableFacts) -> Iterator[OptionFault]:
    if not table.merges_by("partial-update", "aggregation"):
        return
    for name, function_option, function in table.functions():
        if function not in _NESTED:
            continue
        match table.columns[name]:
            case ListType(Root.ARRAY, RowType(fields)):
                yield from _bad_nested_names(table, name, {field.name for field in fields}, function)
            case other:
                reason = f"{function} needs an ARRAY of ROW, but {name} has the type {other.root}"
                yield OptionFault(function_option, reason, name)


def _bad_nested_names(table: TableFacts, column: str, present: set[str], function: str) -> Iterator[OptionFault]:
    key, sequence = f"fields.{column}.nested-key", f"fields.{column}.nested-sequence-field"
    for option in (key, sequence) if function == "nested_update" else (key,):
        for name in split_names(table.options[option]) if option in table.options else ():
            if name not in present:
                yield OptionFault(
                    option, f"{option} names {name!r}, which is not a field of the rows in {column}", name
                )
    if function == "nested_update" and sequence in table.options and key not in table.options:
        yield OptionFault(sequence, f"{sequence} needs {key}")
    if function == "nested_partial_update" and key not in table.options:
        yield OptionFault(function_key(column), f"nested_partial_update needs {key}")


def _bad_indexes(table: TableFacts) -> Iterator[OptionFault]:
    for key, value in table.options.items():
        if not (key.startswith("file-index.") and key.endswith(".columns")):
            continue
        for name in split_names(value):
            column, bracket, _ = name.strip().partition("[")
            found = table.columns.get(column)
            if found is None:
                yield _unknown(table, key, name)
            elif bracket and not (isinstance(found, MapType) and found.key.root in (Root.CHAR, Root.VARCHAR)):
                yield OptionFault(key, f"{key} names {name.strip()}, but {column} is not a MAP with text as keys", name)


# --- buckets ---


def _bad_bucket(table: TableFacts) -> Iterator[OptionFault]:
    value, bucket, has_key = table.options.get("bucket", "-1"), table.bucket, "bucket-key" in table.options
    is_old = table.schema.version <= 1 and bucket == 1
    if not is_number(value):
        yield OptionFault("bucket", "bucket is not a number")
    elif bucket == 0 or bucket < -2:
        yield OptionFault("bucket", f"bucket is {bucket}")
    elif bucket == -2 and not table.has_key:
        yield OptionFault("bucket", "bucket is -2, but the table has no primary key")
    elif bucket == -1 and has_key:
        yield OptionFault("bucket", "bucket is -1, but there is a bucket-key")
    elif bucket > 0 and not table.has_key and not table.options.get("bucket-key", "").strip() and not is_old:
        yield OptionFault("bucket", f"bucket is {bucket}, but the table has neither a primary key nor a bucket-key")


def _bad_bucket_key(table: TableFacts) -> Iterator[OptionFault]:
    value = table.options.get("bucket-key", "")
    for name in split_names(value) if value.strip() else ():
        reason, found = None, table.columns.get(name)
        if found is None:
            reason = f"{name!r} has a blank" if name.strip() in table.columns else f"{name} is not a column"
        elif name in table.schema.partition_keys:
            reason = f"{name} is a partition key"
        elif table.has_key and name not in table.schema.primary_keys:
            reason = f"{name} is not part of the primary key"
        elif found.root in (Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW):
            reason = f"{name} has the type {found.root}"
        if reason is not None:
            yield OptionFault("bucket-key", reason)


# --- where a scan begins ---

_BY_TIME = ("scan.timestamp-millis", "scan.timestamp")
_BY_FILE = ("scan.file-creation-time-millis",)
_BY_RANGE = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_BY_SNAPSHOT = ("scan.snapshot-id", "scan.tag-name", "scan.watermark")
_SCANS: Mapping[str, tuple[str, ...]] = {
    "from-timestamp": _BY_TIME,
    "from-snapshot": _BY_SNAPSHOT,
    "from-file-creation-time": _BY_FILE,
    "incremental": _BY_RANGE,
    "from-snapshot-full": ("scan.snapshot-id",),
}
"""Mode of a scan -> the options of which it needs exactly one. Without a mode, Java takes the first that has one."""


def _bad_scan(table: TableFacts) -> Iterator[OptionFault]:
    mode = table.word("scan.mode", "default")
    if mode == "default":
        mode = next((name for name, keys in _SCANS.items() if table.is_set(*keys)), mode)
    needed = _SCANS.get(mode, ())
    present = [key for key in needed if key in table.options]
    if needed and len(present) != 1:
        found = " and ".join(present) or "none"
        yield OptionFault(
            "scan.mode", f"scan.mode {mode} needs exactly one of {', '.join(needed)} (found: {found})", mode
        )
    ignored = ("scan.watermark", *(("scan.timestamp",) if needed == _BY_FILE else ()))
    for key in (*_BY_TIME, *_BY_SNAPSHOT, *_BY_FILE, *_BY_RANGE):
        if key in table.options and key not in needed and key not in ignored:
            yield OptionFault(key, f"{key} cannot be used with scan.mode {mode}")


# --- conflicts ---


def _bad_pairs(table: TableFacts) -> Iterator[OptionFault]:
    for conflict in CONFLICTS:
        if conflict.is_in(table):
            yield OptionFault(conflict.key, conflict.sentence)


def _bad_sequence(table: TableFacts) -> Iterator[OptionFault]:
    for name, count in Counter(_of_sequence(table.options.get("sequence.field", ""))).items():
        if count > 1:
            yield OptionFault("sequence.field", f"sequence.field names {name} {count} times", name)
        if function_key(name) in table.options:
            yield OptionFault(function_key(name), f"{name} is a sequence.field, which cannot be aggregated", name)


def _bad_groups(table: TableFacts) -> Iterator[OptionFault]:
    if not table.merges_by("partial-update"):
        return
    heads, ordered = (set[str](), set[str]())
    for key, names, members in table.groups():
        heads.update(names)
        for name in members:
            if name in ordered:
                yield OptionFault(key, f"{name} is in more than one sequence group", name)
            ordered.add(name)
    key = "partial-update.remove-record-on-sequence-group"
    for name in split_names(table.options[key]) if key in table.options else ():
        if name not in heads:
            yield OptionFault(key, f"{key} names {name}, which orders no sequence group", name)
    for name, key, function in table.functions():
        if name not in {*heads, *ordered, *table.schema.primary_keys} and function != "last_non_null_value":
            yield OptionFault(key, f"{name} has an aggregate function, but is in no sequence group", name)


def _bad_blob_options(table: TableFacts) -> Iterator[OptionFault]:
    found = {key: set(_trimmed(table.options.get(key, ""))) for key in _OF_BLOBS}
    descriptors = found["blob-descriptor-field"]
    for name in sorted(found["blob-view-field"] & descriptors):
        yield OptionFault("blob-view-field", f"{name} is in both blob-view-field and blob-descriptor-field", name)
    for name in sorted(found["blob-external-storage-field"] - descriptors):
        reason = f"blob-external-storage-field names {name}, which is not in blob-descriptor-field"
        yield OptionFault("blob-external-storage-field", reason, name)


CHECKS: tuple[OptionCheck, ...] = (
    OptionCheck(BUCKET, ("bucket fits the primary key and bucket-key",), _bad_bucket),
    OptionCheck(BUCKET_KEY, ("bucket-key names suitable columns",), _bad_bucket_key),
    OptionCheck(OPTION_VALUE, (f"{', '.join(_WORDS)}: one of the known values",), _bad_words),
    OptionCheck(OPTION_VALUE, (f"{FORMAT_PER_LEVEL}: pairs of a level and a known format",), _bad_levels),
    OptionCheck(OPTION_VALUE, (f"{', '.join(sorted(BOOLEANS))}: true or false",), _bad_booleans),
    OptionCheck(OPTION_VALUE, (f"{', '.join(_NUMBERS)}: a whole number",), _bad_numbers),
    OptionCheck(
        OPTION_VALUE,
        ("snapshots and changelogs: the minimum retained is at least 1 and at most the maximum",),
        _bad_retention,
    ),
    OptionCheck(
        OPTION_VALUE,
        ("with merge-engine partial-update or aggregation, aggregate functions are known",),
        _bad_functions,
    ),
    OptionCheck(
        OPTION_COLUMN,
        tuple(f"{function} aggregates a column of the type {needed}" for function, (_, needed) in _NEEDED.items()),
        _bad_types_of_functions,
    ),
    OptionCheck(
        OPTION_COLUMN,
        tuple(f"{one.key} names columns{one.needed and f' (type: {one.needed})'}" for one in _NAMINGS),
        _bad_columns,
    ),
    OptionCheck(
        OPTION_COLUMN, ("fields.COLUMN.* names columns, and so does a sequence group of partial updates",), _bad_fields
    ),
    OptionCheck(
        OPTION_COLUMN,
        (
            "with nested_update or nested_partial_update, a column is an ARRAY of ROW",
            "fields.COLUMN.nested-key and fields.COLUMN.nested-sequence-field name fields of its rows",
        ),
        _bad_nested,
    ),
    OptionCheck(
        OPTION_COLUMN, ("file-index.*.columns names columns, or keys of a MAP with text as keys",), _bad_indexes
    ),
    OptionCheck(
        OPTION_CONFLICT, ("sequence.field names each column once, and none that is aggregated",), _bad_sequence
    ),
    OptionCheck(
        OPTION_CONFLICT,
        (
            "with partial updates, a column is in one sequence group at most, and in one if it is aggregated",
            "partial-update.remove-record-on-sequence-group names columns that order a sequence group",
        ),
        _bad_groups,
    ),
    OptionCheck(OPTION_CONFLICT, ("scan.mode has exactly the options that it needs",), _bad_scan),
    OptionCheck(
        OPTION_CONFLICT,
        (
            "a column is not in both blob-view-field and blob-descriptor-field",
            "columns in blob-external-storage-field are in blob-descriptor-field",
        ),
        _bad_blob_options,
    ),
    OptionCheck(OPTION_CONFLICT, tuple(conflict.sentence for conflict in CONFLICTS), _bad_pairs),
)
"""The checks of options in Java's validation of a schema, each once: `validate` and `alter` run them all."""


@AREA.check(SchemaFileView, *dict.fromkeys(check.rule for check in CHECKS))
def check_options(view: SchemaFileView) -> Iterator[Finding]:
    """Report the options that Java would refuse."""
    if view.schema is None:
        return
    table = TableFacts(view.schema)
    for check in CHECKS:
        for key, reason, seen in check.faults(table):
            found = table.options.get(key) if seen is None else seen
            yield check.rule.at(view.place(f"options.{key}"), reason, seen=found)
