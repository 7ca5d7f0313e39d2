"""The fields of every action, declared once: a new optional field is one line here.

Derived from them are the types that `validate` checks in commits and in the columns of checkpoints, the Arrow schemas
of file actions and of checkpoint rows, and the fields by which two states are compared. Spec: Actions; Checkpoint
Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import CommitCorrupt
from deltacli.core.hints import command
from deltacli.core.typing import ArrowType, Json

if TYPE_CHECKING:
    import pyarrow


class FieldType(Enum):
    """The possible types of a field. The value describes them in JSON."""

    TEXT = "a string"
    LONG = "an integer of 64 bits"
    INT = "an integer of 32 bits"
    BOOLEAN = "true or false"
    TEXTS = "an array of strings"
    TEXT_MAP = "an object of strings"
    VALUES = "an object of strings and nulls"
    OBJECT = "an object"
    FORMAT = "an object with a provider and options"
    VECTOR = "a deletion vector"


class Field(NamedTuple):
    type: FieldType
    required: bool = False


PARTS: Mapping[FieldType, Mapping[str, Field]] = {
    # `dv.bad-descriptor` reports fields that are missing from a descriptor.
    FieldType.VECTOR: {
        "storageType": Field(FieldType.TEXT),
        "pathOrInlineDv": Field(FieldType.TEXT),
        "offset": Field(FieldType.INT),
        "sizeInBytes": Field(FieldType.INT),
        "cardinality": Field(FieldType.LONG),
    },
    FieldType.FORMAT: {"provider": Field(FieldType.TEXT, True), "options": Field(FieldType.TEXT_MAP)},
}
"""The fields inside a field that is a struct."""

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "txn": {
        "appId": Field(FieldType.TEXT, True),
        "version": Field(FieldType.LONG, True),
        "lastUpdated": Field(FieldType.LONG),
    },
    "add": {
        "path": Field(FieldType.TEXT, True),
        "partitionValues": Field(FieldType.VALUES, True),
        "size": Field(FieldType.LONG, True),
        "modificationTime": Field(FieldType.LONG, True),
        "dataChange": Field(FieldType.BOOLEAN, True),
        "stats": Field(FieldType.TEXT),
        "tags": Field(FieldType.OBJECT),
        "deletionVector": Field(FieldType.VECTOR),
        "baseRowId": Field(FieldType.LONG),
        "defaultRowCommitVersion": Field(FieldType.LONG),
        "clusteringProvider": Field(FieldType.TEXT),
    },
    "remove": {
        "path": Field(FieldType.TEXT, True),
        "deletionTimestamp": Field(FieldType.LONG),
        "dataChange": Field(FieldType.BOOLEAN, True),
        "extendedFileMetadata": Field(FieldType.BOOLEAN),
        "partitionValues": Field(FieldType.VALUES),
        "size": Field(FieldType.LONG),
        "stats": Field(FieldType.TEXT),
        "tags": Field(FieldType.OBJECT),
        "deletionVector": Field(FieldType.VECTOR),
        "baseRowId": Field(FieldType.LONG),
        "defaultRowCommitVersion": Field(FieldType.LONG),
    },
    "cdc": {
        "path": Field(FieldType.TEXT, True),
        "partitionValues": Field(FieldType.VALUES, True),
        "size": Field(FieldType.LONG, True),
        "dataChange": Field(FieldType.BOOLEAN, True),
        "tags": Field(FieldType.OBJECT),
    },
    "metaData": {
        "id": Field(FieldType.TEXT, True),
        "name": Field(FieldType.TEXT),
        "description": Field(FieldType.TEXT),
        "format": Field(FieldType.FORMAT, True),
        "schemaString": Field(FieldType.TEXT, True),
        "partitionColumns": Field(FieldType.TEXTS, True),
        "configuration": Field(FieldType.TEXT_MAP, True),
        "createdTime": Field(FieldType.LONG),
    },
    "protocol": {
        "minReaderVersion": Field(FieldType.INT, True),
        "minWriterVersion": Field(FieldType.INT, True),
        "readerFeatures": Field(FieldType.TEXTS),
        "writerFeatures": Field(FieldType.TEXTS),
    },
    "domainMetadata": {
        "domain": Field(FieldType.TEXT, True),
        "configuration": Field(FieldType.TEXT, True),
        "removed": Field(FieldType.BOOLEAN, True),
    },
    "sidecar": {
        "path": Field(FieldType.TEXT, True),
        "sizeInBytes": Field(FieldType.LONG, True),
        "modificationTime": Field(FieldType.LONG, True),
        "tags": Field(FieldType.OBJECT),
    },
    "checkpointMetadata": {"version": Field(FieldType.LONG, True), "tags": Field(FieldType.OBJECT)},
}
"""Fields of every action whose fields the protocol defines, in the order of columns. `commitInfo` may have any."""


_WHOLE = {FieldType.LONG, FieldType.INT}
_INFO = ("timestamp", "inCommitTimestamp", "readVersion")
"""Fields of `commitInfo` that are integers wherever they occur."""


@lru_cache(maxsize=1)
def integer_fields() -> Mapping[str, tuple[str, ...]]:
    """Return the fields of each kind of action that are integers, and those of a deletion vector."""
    found = {kind: _integers_of(fields) for kind, fields in FIELDS.items()}
    return {**found, "commitInfo": _INFO, "deletionVector": _integers_of(PARTS[FieldType.VECTOR])}


def _integers_of(fields: Mapping[str, Field]) -> tuple[str, ...]:
    return tuple(name for name, field in fields.items() if field.type in _WHOLE)


def respelled_integers(kind: str, action: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """Return the places of integers of an action that JSON parsers return as floats: `486.0` and `4.86e2`, which are
    the number 486 as JSON has it, and numbers with a fraction. Readers and `validate` ask this function.
    """
    whole = integer_fields()
    found: list[tuple[str, ...]] = [(name,) for name in whole.get(kind, ()) if type(action.get(name)) is float]
    vector = action.get("deletionVector")
    if type(vector) is dict:
        found += [("deletionVector", name) for name in whole["deletionVector"] if type(vector.get(name)) is float]
    return found


@lru_cache(maxsize=16)
def arrow_schema(action: str) -> pyarrow.Schema:
    """Return the fields of an action as columns. pyarrow is imported only here."""
    import pyarrow as pa

    return pa.schema([(name, _arrow_type(field.type)) for name, field in FIELDS[action].items()])


def _arrow_type(field_type: FieldType) -> ArrowType:
    import pyarrow as pa

    text = pa.string()
    match field_type:
        case FieldType.TEXT:
            return text
        case FieldType.LONG:
            return pa.int64()
        case FieldType.INT:
            return pa.int32()
        case FieldType.BOOLEAN:
            return pa.bool_()
        case FieldType.TEXTS:
            return pa.list_(text)
        case FieldType.TEXT_MAP | FieldType.VALUES | FieldType.OBJECT:
            return pa.map_(text, text)
        case FieldType.FORMAT | FieldType.VECTOR:
            return pa.struct([(name, _arrow_type(part.type)) for name, part in PARTS[field_type].items()])


def missing(what: str, source: str) -> CommitCorrupt:
    """Return the error for a missing required field: `what` is `add.size`, `source` the file."""
    return CommitCorrupt(
        f"{source}: {what} is missing", file=source, code="action.missing-required", hint=command("history")
    )


def wrong_type(what: str, actual: str, source: str) -> CommitCorrupt:
    """Return the error for a field whose value has a different type than in the protocol."""
    return CommitCorrupt(
        f"{source}: {what} has the wrong type",
        file=source,
        code="action.wrong-type",
        facts={"found": actual[:120]},
        hint=command("history"),
    )


def too_deep(what: str, source: str) -> CommitCorrupt:
    """Return the error for a value that was read but is nested too deeply to be written."""
    return wrong_type(what, "a value nested too deeply to be written", source)


def shown(value: object) -> str:
    """Return a value of the log for a message. `repr` is recursive and fails on deeply nested values."""
    try:
        return repr(value)
    except RecursionError:
        return "a value nested too deeply to be shown"
