"""Answers in lines, in either format, as values that do not depend on the format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltacli.core.cached import cached_property
from deltacli.core.typing import JsonObject
from deltacli.sharing.conformance.wire import WireAnswer

VERSION_HEADER = "delta-table-version"
PARQUET, DELTA = "parquet", "delta"

_FIRST_MOMENT, _LAST_MOMENT = -62_135_596_800_000, 253_402_300_799_999
ACTIONS = {"file": "add", "add": "add", "remove": "remove", "cdf": "cdc"}
"""Wrapper of the parquet format -> action of the delta format."""


@dataclass(frozen=True)
class Line:
    """A line that is a JSON object with one field, `kind`."""

    number: int
    kind: str
    fields: JsonObject
    raw: bytes


@dataclass(frozen=True)
class FileLine:
    """A file: `fields` are those of the wrapper, `action` those of the action (in parquet format the same)."""

    line: Line
    kind: str
    fields: JsonObject
    action: JsonObject

    @property
    def id(self) -> str:
        return str(self.fields.get("id"))

    @property
    def url(self) -> str:
        return str(self.action.get("url") or self.action.get("path") or "")

    @property
    def size(self) -> int | None:
        return _whole(self.action.get("size"))

    @property
    def version(self) -> int | None:
        return _whole(self.fields.get("version"))

    @property
    def timestamp(self) -> int | None:
        """Return the time of the commit, None where there is none or it is not of the years 1 to 9999."""
        found = _whole(self.fields.get("timestamp"))
        return found if found is not None and _FIRST_MOMENT <= found <= _LAST_MOMENT else None

    @property
    def expires_ms(self) -> int | None:
        return _whole(self.fields.get("expirationTimestamp"))

    @property
    def partition_values(self) -> Mapping[str, str | None]:
        return object_of(self.action.get("partitionValues"))

    @cached_property
    def vector(self) -> JsonObject | None:
        found = self.action.get("deletionVector")
        return found if isinstance(found, dict) else None

    @cached_property
    def stats(self) -> JsonObject | None:
        """Return the statistics, None where there are none or they are not an object."""
        text = self.action.get("stats")
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def records(self) -> int | None:
        """Return `numRecords` of the statistics."""
        return _whole((self.stats or {}).get("numRecords"))

    @property
    def rows(self) -> int | None:
        """Return the records less those that the deletion vector marks; None if unknown."""
        deleted = 0 if self.vector is None else _whole(self.vector.get("cardinality"))
        return None if self.records is None or deleted is None else self.records - deleted


@dataclass(frozen=True)
class Lines:
    """An answer in lines that is sound enough to be compared."""

    answer: WireAnswer
    form: str
    protocol: JsonObject
    metadata: JsonObject
    head: bytes
    rest: tuple[Line, ...]
    end: JsonObject | None = None
    files: tuple[FileLine, ...] = field(default=())

    @property
    def version(self) -> int | None:
        return version_of(self.answer)

    @property
    def meta(self) -> JsonObject:
        """Return the fields that the formats have in common."""
        return object_of(self.metadata if self.form == PARQUET else self.metadata.get("deltaMetadata"))

    @property
    def partition_columns(self) -> list[str]:
        return _texts(self.meta.get("partitionColumns"))

    @property
    def reader_features(self) -> list[str]:
        return _texts(self.delta_protocol.get("readerFeatures"))

    @property
    def configuration(self) -> JsonObject:
        return object_of(self.meta.get("configuration"))

    @cached_property
    def columns(self) -> list[JsonObject]:
        """Return the columns of the schema, none where it cannot be read."""
        try:
            schema = json.loads(self.meta.get("schemaString") or "")
        except (ValueError, TypeError, RecursionError):
            return []
        fields = schema.get("fields") if isinstance(schema, dict) else None
        return [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []

    @property
    def delta_protocol(self) -> JsonObject:
        return object_of(self.protocol.get("deltaProtocol"))

    @cached_property
    def by_id(self) -> dict[str, FileLine]:
        return {file.id: file for file in self.files}

    @property
    def has_vectors(self) -> bool:
        return any(file.vector is not None for file in self.files)

    @property
    def maps_columns(self) -> bool:
        return str(self.configuration.get("delta.columnMapping.mode", "none")).lower() != "none"


def version_of(answer: WireAnswer) -> int | None:
    """Return the version in the header, None where it is missing or not a whole number."""
    text = answer.headers.get(VERSION_HEADER, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def raw_lines(body: bytes) -> list[bytes]:
    """Return the lines of a body; the last one may lack its line end."""
    lines = body.split(b"\n")
    return lines[:-1] if lines and not lines[-1] else lines


def file_of(line: Line, form: str) -> FileLine | None:
    """Return a line as a file, None where it is something else."""
    if form == PARQUET:
        kind = ACTIONS.get(line.kind)
        return None if kind is None else FileLine(line, kind, line.fields, line.fields)
    action = line.fields.get("deltaSingleAction") if line.kind == "file" else None
    if not isinstance(action, dict) or len(action) != 1:
        return None
    kind, fields = next(iter(action.items()))
    return FileLine(line, kind, line.fields, fields) if isinstance(fields, dict) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def object_of(value: object) -> JsonObject:
    """Return a JSON object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def stored_name(column: JsonObject, *, is_mapped: bool = True) -> str:
    """Return the name that a column has in files and statistics: with column mapping the physical one."""
    physical = object_of(column.get("metadata")).get("delta.columnMapping.physicalName")
    return str(physical if is_mapped and physical else column.get("name"))
