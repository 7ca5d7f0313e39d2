"""Compare the fields of an action with their types, for `action.missing-required` and `action.wrong-type`. Spec:
Actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.delta.log.action_fields import FIELDS, PARTS, Field, FieldType
from deltacli.delta.log.commit_lines import Action
from deltacli.typing import Json

_PLAIN = {
    FieldType.TEXT: str,
    FieldType.BOOLEAN: bool,
    FieldType.OBJECT: dict,
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
                yield FieldFault(prefix + name, None, field.type.value)
        elif not _is_plain(field.type, value):
            yield from _faults_inside(field, value, prefix + name)


def _is_plain(field_type: FieldType, value: object) -> bool:
    """Return True if a value has the right type, False if it has not or needs a closer look."""
    plain = _PLAIN.get(field_type)
    if plain is not None:
        return type(value) is plain
    if field_type is FieldType.LONG:
        return type(value) is int and -(2**63) <= value < 2**63
    if field_type is FieldType.INT:
        return type(value) is int and -(2**31) <= value < 2**31
    return False


def _faults_inside(field: Field, value: Json, name: str) -> Iterator[FieldFault]:
    match field.type:
        case FieldType.VECTOR | FieldType.FORMAT if type(value) is dict:
            yield from _faults(PARTS[field.type], value, f"{name}.")
        case FieldType.TEXTS if type(value) is list:
            odd = [item for item in value if type(item) is not str]
            if odd:
                yield FieldFault(name, f"an array with {shown(odd[0])}", field.type.value)
        case FieldType.TEXT_MAP | FieldType.VALUES if type(value) is dict:
            for key, item in value.items():
                if type(item) is not str and not (item is None and field.type is FieldType.VALUES):
                    yield FieldFault(f"{name}.{key}", shown(item), "a string")
        case _:
            yield FieldFault(name, shown(value), field.type.value)


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
