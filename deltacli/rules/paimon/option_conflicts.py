"""What options of a table need, and what they cannot be used with, as Paimon's Java demands: one line each.

`TableFacts` is a schema as Java looks at it there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from deltacli.paimon.schema import Schema
from deltacli.paimon.types import DataType, Root

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
