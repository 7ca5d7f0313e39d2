"""The types of the fields of actions: data for `action.missing-required` and `action.wrong-type`. Spec: Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from deltacli.delta.log.commit_lines import Action


class ActionKind(Enum):
    """The possible types of a JSON value."""

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
    kind: ActionKind
    required: bool = False


_VECTOR: Mapping[str, Field] = {
    "storageType": Field(ActionKind.TEXT),
    "pathOrInlineDv": Field(ActionKind.TEXT),
    "offset": Field(ActionKind.INT),
    "sizeInBytes": Field(ActionKind.INT),
    "cardinality": Field(ActionKind.LONG),
}
"`dv.bad-descriptor` reports fields that are missing from a descriptor."

_FORMAT: Mapping[str, Field] = {"provider": Field(ActionKind.TEXT, True), "options": Field(ActionKind.TEXT_MAP)}

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "add": {
        "path": Field(ActionKind.TEXT, True),
        "partitionValues": Field(ActionKind.VALUES, True),
        "size": Field(ActionKind.LONG, True),
        "modificationTime": Field(ActionKind.LONG, True),
        "dataChange": Field(ActionKind.BOOLEAN, True),
        "stats": Field(ActionKind.TEXT),
        "tags": Field(ActionKind.OBJECT),
        "deletionVector": Field(ActionKind.VECTOR),
        "baseRowId": Field(ActionKind.LONG),
        "defaultRowCommitVersion": Field(ActionKind.LONG),
        "clusteringProvider": Field(ActionKind.TEXT),
    },
    "remove": {
        "path": Field(ActionKind.TEXT, True),
        "deletionTimestamp": Field(ActionKind.LONG),
        "dataChange": Field(ActionKind.BOOLEAN, True),
        "extendedFileMetadata": Field(ActionKind.BOOLEAN),
        "partitionValues": Field(ActionKind.VALUES),
        "size": Field(ActionKind.LONG),
        "stats": Field(ActionKind.TEXT),
        "tags": Field(ActionKind.OBJECT),
        "deletionVector": Field(ActionKind.VECTOR),
        "baseRowId": Field(ActionKind.LONG),
        "defaultRowCommitVersion": Field(ActionKind.LONG),
    },
    "cdc": {
        "path": Field(ActionKind.TEXT, True),
        "partitionValues": Field(ActionKind.VALUES, True),
        "size": Field(ActionKind.LONG, True),
        "dataChange": Field(ActionKind.BOOLEAN, True),
        "tags": Field(ActionKind.OBJECT),
    },
    "metaData": {
        "id": Field(ActionKind.TEXT, True),
        "name": Field(ActionKind.TEXT),
        "description": Field(ActionKind.TEXT),
        "format": Field(ActionKind.FORMAT, True),
        "schemaString": Field(ActionKind.TEXT, True),
        "partitionColumns": Field(ActionKind.TEXTS, True),
        "configuration": Field(ActionKind.TEXT_MAP, True),
        "createdTime": Field(ActionKind.LONG),
    },
    "protocol": {
        "minReaderVersion": Field(ActionKind.INT, True),
        "minWriterVersion": Field(ActionKind.INT, True),
        "readerFeatures": Field(ActionKind.TEXTS),
        "writerFeatures": Field(ActionKind.TEXTS),
    },
    "txn": {
        "appId": Field(ActionKind.TEXT, True),
        "version": Field(ActionKind.LONG, True),
        "lastUpdated": Field(ActionKind.LONG),
    },
    "domainMetadata": {
        "domain": Field(ActionKind.TEXT, True),
        "configuration": Field(ActionKind.TEXT, True),
        "removed": Field(ActionKind.BOOLEAN, True),
    },
    "sidecar": {
        "path": Field(ActionKind.TEXT, True),
        "sizeInBytes": Field(ActionKind.LONG, True),
        "modificationTime": Field(ActionKind.LONG, True),
        "tags": Field(ActionKind.OBJECT),
    },
    "checkpointMetadata": {"version": Field(ActionKind.LONG, True), "tags": Field(ActionKind.OBJECT)},
}
"Fields of every action whose fields the protocol defines. `commitInfo` may have any fields."

_PLAIN = {
    ActionKind.TEXT: str,
    ActionKind.BOOLEAN: bool,
    ActionKind.OBJECT: dict,
}


class FieldFault(NamedTuple):
    """A field that is missing (`found` None) or of another type than `expected`."""

    name: str
    found: str | None
    expected: str


def faults_of(kind: str, action: Action) -> Iterator[FieldFault]:
    """Yield every fault of the fields of an action. Kinds with free fields have no faults."""
    yield from _faults(FIELDS.get(kind, {}), action, "")


def unknown_fields(kind: str, action: Action) -> list[str]:
    """Return the unrecognized fields, which readers ignore."""
    known = FIELDS.get(kind)
    return [] if known is None else sorted(name for name in action if name not in known)


def _faults(fields: Mapping[str, Field], action: Action, prefix: str) -> Iterator[FieldFault]:
    for name, field in fields.items():
        value = action.get(name)
        if value is None:
            if field.required:
                yield FieldFault(prefix + name, None, field.kind.value)
        elif not _is_plain(field.kind, value):
            yield from _faults_inside(field, value, prefix + name)


def _is_plain(kind: ActionKind, value: object) -> bool:
    """Return True if a value has the right type, False if it has not or needs a closer look."""
    plain = _PLAIN.get(kind)
    if plain is not None:
        return type(value) is plain
    if kind is ActionKind.LONG:
        return type(value) is int and -(2**63) <= value < 2**63
    if kind is ActionKind.INT:
        return type(value) is int and -(2**31) <= value < 2**31
    return False


def _faults_inside(field: Field, value: Any, name: str) -> Iterator[FieldFault]:  # Any: a JSON value
    match field.kind:
        case ActionKind.VECTOR if type(value) is dict:
            yield from _faults(_VECTOR, value, f"{name}.")
        case ActionKind.FORMAT if type(value) is dict:
            yield from _faults(_FORMAT, value, f"{name}.")
        case ActionKind.TEXTS if type(value) is list:
            odd = [item for item in value if type(item) is not str]
            if odd:
                yield FieldFault(name, f"an array with {shown(odd[0])}", field.kind.value)
        case ActionKind.TEXT_MAP | ActionKind.VALUES if type(value) is dict:
            for key, item in value.items():
                if type(item) is not str and not (item is None and field.kind is ActionKind.VALUES):
                    yield FieldFault(f"{name}.{key}", shown(item), "a string")
        case _:
            yield FieldFault(name, shown(value), field.kind.value)


def shown(value: object) -> str:
    """Describe a JSON value in a few words."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'the string "{value[:60]}"'
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return f"the number {value}"[:80]
