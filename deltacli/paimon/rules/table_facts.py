"""A schema as Paimon's Java looks at it when it validates options."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.paimon.schema import Schema
from deltacli.paimon.types import DataType

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
