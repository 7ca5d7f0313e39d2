"""What the fields of actions must be: data for `action.missing-required` and `action.wrong-type`. Spec: Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from deltacli.delta.log.commit_lines import Action


class Kind(Enum):
    """What a JSON value may be."""

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
    kind: Kind
    required: bool = False


_VECTOR: Mapping[str, Field] = {
    "storageType": Field(Kind.TEXT),
    "pathOrInlineDv": Field(Kind.TEXT),
    "offset": Field(Kind.INT),
    "sizeInBytes": Field(Kind.INT),
    "cardinality": Field(Kind.LONG),
}
"""What such a descriptor lacks is a matter of `dv.bad-descriptor`."""

_FORMAT: Mapping[str, Field] = {"provider": Field(Kind.TEXT, True), "options": Field(Kind.TEXT_MAP)}

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "add": {
        "path": Field(Kind.TEXT, True),
        "partitionValues": Field(Kind.VALUES, True),
        "size": Field(Kind.LONG, True),
        "modificationTime": Field(Kind.LONG, True),
        "dataChange": Field(Kind.BOOLEAN, True),
        "stats": Field(Kind.TEXT),
        "tags": Field(Kind.OBJECT),
        "deletionVector": Field(Kind.VECTOR),
        "baseRowId": Field(Kind.LONG),
        "defaultRowCommitVersion": Field(Kind.LONG),
        "clusteringProvider": Field(Kind.TEXT),
    },
    "remove": {
        "path": Field(Kind.TEXT, True),
        "deletionTimestamp": Field(Kind.LONG),
        "dataChange": Field(Kind.BOOLEAN, True),
        "extendedFileMetadata": Field(Kind.BOOLEAN),
        "partitionValues": Field(Kind.VALUES),
        "size": Field(Kind.LONG),
        "stats": Field(Kind.TEXT),
        "tags": Field(Kind.OBJECT),
        "deletionVector": Field(Kind.VECTOR),
        "baseRowId": Field(Kind.LONG),
        "defaultRowCommitVersion": Field(Kind.LONG),
    },
    "cdc": {
        "path": Field(Kind.TEXT, True),
        "partitionValues": Field(Kind.VALUES, True),
        "size": Field(Kind.LONG, True),
        "dataChange": Field(Kind.BOOLEAN, True),
        "tags": Field(Kind.OBJECT),
    },
    "metaData": {
        "id": Field(Kind.TEXT, True),
        "name": Field(Kind.TEXT),
        "description": Field(Kind.TEXT),
        "format": Field(Kind.FORMAT, True),
        "schemaString": Field(Kind.TEXT, True),
        "partitionColumns": Field(Kind.TEXTS, True),
        "configuration": Field(Kind.TEXT_MAP, True),
        "createdTime": Field(Kind.LONG),
    },
    "protocol": {
        "minReaderVersion": Field(Kind.INT, True),
        "minWriterVersion": Field(Kind.INT, True),
        "readerFeatures": Field(Kind.TEXTS),
        "writerFeatures": Field(Kind.TEXTS),
    },
    "txn": {
        "appId": Field(Kind.TEXT, True),
        "version": Field(Kind.LONG, True),
        "lastUpdated": Field(Kind.LONG),
    },
    "domainMetadata": {
        "domain": Field(Kind.TEXT, True),
        "configuration": Field(Kind.TEXT, True),
        "removed": Field(Kind.BOOLEAN, True),
    },
    "sidecar": {
        "path": Field(Kind.TEXT, True),
        "sizeInBytes": Field(Kind.LONG, True),
        "modificationTime": Field(Kind.LONG, True),
        "tags": Field(Kind.OBJECT),
    },
    "checkpointMetadata": {"version": Field(Kind.LONG, True), "tags": Field(Kind.OBJECT)},
}
"""Fields of every action whose fields the protocol fixes; `commitInfo` may hold anything."""

_PLAIN = {
    Kind.TEXT: str,
    Kind.BOOLEAN: bool,
    Kind.OBJECT: dict,
}


class FieldFault(NamedTuple):
    """A field that is missing (`found` None) or of another type than `expected`."""

    name: str
    found: str | None
    expected: str


def faults_of(kind: str, action: Action) -> Iterator[FieldFault]:
    """Yield what is wrong with the fields of an action, all of it; nothing for kinds whose fields are free."""
    yield from _faults(FIELDS.get(kind, {}), action, "")


def unknown_fields(kind: str, action: Action) -> list[str]:
    """The fields that nobody here knows: readers ignore them."""
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


def _is_plain(kind: Kind, value: object) -> bool:
    """True where a value is what it must be; False where it is not, or has to be looked into."""
    plain = _PLAIN.get(kind)
    if plain is not None:
        return type(value) is plain
    if kind is Kind.LONG:
        return type(value) is int and -(2**63) <= value < 2**63
    if kind is Kind.INT:
        return type(value) is int and -(2**31) <= value < 2**31
    return False


def _faults_inside(field: Field, value: Any, name: str) -> Iterator[FieldFault]:  # Any: a JSON value
    match field.kind:
        case Kind.VECTOR if type(value) is dict:
            yield from _faults(_VECTOR, value, f"{name}.")
        case Kind.FORMAT if type(value) is dict:
            yield from _faults(_FORMAT, value, f"{name}.")
        case Kind.TEXTS if type(value) is list:
            odd = [item for item in value if type(item) is not str]
            if odd:
                yield FieldFault(name, f"an array with {shown(odd[0])}", field.kind.value)
        case Kind.TEXT_MAP | Kind.VALUES if type(value) is dict:
            for key, item in value.items():
                if type(item) is not str and not (item is None and field.kind is Kind.VALUES):
                    yield FieldFault(f"{name}.{key}", shown(item), "a string")
        case _:
            yield FieldFault(name, shown(value), field.kind.value)


def shown(value: object) -> str:
    """A JSON value in a few words."""
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
