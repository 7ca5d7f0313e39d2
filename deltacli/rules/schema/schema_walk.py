"""A schemaString in parts: every type within it, even if others are faulty.

`parse_schema` stops at the first fault, but here all parts are visible. Spec: Schema Serialization Format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from deltacli.core.patterns import pattern
from deltacli.delta.schema.kinds import PLAIN_TYPES, interval_name
from deltacli.delta.schema.type_changes import canonical_name
from deltacli.delta.schema.types import MAX_DEPTH
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.views import MetadataView, TableConfigurationView

PRIMITIVES = PLAIN_TYPES | {"decimal", "void", "variant"}

_DECIMAL = pattern(r"decimal\(\s*(-?\d{1,9})\s*,\s*(-?\d{1,9})\s*\)", re.ASCII)
_CHAR = pattern(r"(?:char|varchar)\(\s*\d+\s*\)", re.ASCII)
_OTHER = pattern(
    r"(?:geometry|geography)(?:\(.*\))?|timestamp(?:_ntz|_ltz)?\(\s*\d\s*\)|"
    r"timestamp_(?:ltz|nanos|ntz_nanos|nanos_ntz)|string collate \S+",
    re.ASCII,
)
"Types of newer proposals and their engines. Other rules check which feature they need."


class TypePart(NamedTuple):
    """A type within a schema: of the root, of a struct's field, or of a part of an array or a map."""

    path: str
    value: object
    role: str
    """`root`, `field`, `element`, `key` or `value`."""
    is_too_deep: bool = False
    "True if the walk ends because types are nested too deeply."


class NotASchema(NamedTuple):
    """Text that is not a JSON value, and why."""

    reason: str


def decode(view: MetadataView) -> object:
    """Return the JSON value of a metadata's schemaString, NotASchema, or None if it has none or it is not text.

    The last one is cached for several checks.
    """
    text = view.raw.get("schemaString")
    if not isinstance(text, str):
        return None
    known = view.memory.get("schema.decoded")
    if known is not None and known[0] == text:
        value: object = known[1]
        return value
    decoded = _decode(text)
    view.memory["schema.decoded"] = (text, decoded)
    return decoded


def _decode(text: str) -> object:
    try:
        value: object = json.loads(text)
        return NotASchema("it is null") if value is None else value
    except RecursionError:
        return NotASchema("it is nested too deeply")
    except ValueError as fault:
        return NotASchema(f"it is not JSON: {str(fault)[:200]}")


def walk_parts(root: object) -> Iterator[TypePart]:
    """Yield every type of `root`, parents first, in the order of the text. Missing types are skipped, because checks of
    the parent report them.
    """
    waiting = [(TypePart("", root, "root"), 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            yield part._replace(is_too_deep=True)
            continue
        yield part
        waiting.extend((child, depth + 1) for child in reversed(list(_children(part))))


def _children(part: TypePart) -> Iterator[TypePart]:
    value = part.value
    if not isinstance(value, dict):
        return
    match value.get("type"):
        case "struct":
            for position, field in enumerate(fields_of(value)):
                if isinstance(field, dict) and field.get("type") is not None:
                    yield TypePart(field_path(part.path, field, position), field["type"], "field")
        case "array":
            if value.get("elementType") is not None:
                yield TypePart(joined(part.path, "element"), value["elementType"], "element")
        case "map":
            for role in ("key", "value"):
                if value.get(f"{role}Type") is not None:
                    yield TypePart(joined(part.path, role), value[f"{role}Type"], role)


def fields_of(struct: Mapping[str, Any]) -> list[Any]:
    """Return the raw fields of a struct, or none if they are not a list."""
    fields = struct.get("fields")
    return fields if isinstance(fields, list) else []


def field_path(parent: str, field: object, position: int) -> str:
    """Return the place of a field: its name, or its position if it has no name."""
    name = field.get("name") if isinstance(field, dict) else None
    return joined(parent, name if isinstance(name, str) and name else f"fields[{position}]")


def joined(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def shown_path(path: str) -> str:
    """Return a path for a message, shortened to its innermost names if it is long."""
    return (path if len(path) <= 120 else f"…{path[-120:]}") or "the root of the schema"


# -- names of types --------------------------------------------------------------------------------------------------


def is_type_name(name: str) -> bool:
    """Return True if a primitive type has exactly that name in a schema."""
    return (
        name in PRIMITIVES
        or name == "null"  # written by Spark 2 for void
        or _DECIMAL.fullmatch(name) is not None
        or is_char(name)
        or interval_name(name) is not None
        or _OTHER.fullmatch(name) is not None
    )


def is_char(name: str) -> bool:
    """Return True for `char(n)` and `varchar(n)`."""
    return _CHAR.fullmatch(name) is not None


def is_void(value: object) -> bool:
    return value in ("void", "null") if isinstance(value, str) else False


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type as written, valid or not."""
    match = _DECIMAL.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def same_name(name: str) -> str:
    """Return one name for all spellings of a type, so that two schemas can be compared."""
    if name == "null":
        return "void"
    return interval_name(name) or canonical_name(name)


# -- findings over versions ------------------------------------------------------------------------------------------


def fresh(view: MetadataView | TableConfigurationView, name: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the findings that the previous metadata did not have. A fault is reported when it begins, and again when
    it returns.
    """
    before = view.memory.get(name, frozenset())
    now = []
    for finding in findings:
        key = (finding.rule.id, finding.place.key, finding.message)
        now.append(key)
        if key not in before:
            yield finding
    view.memory[name] = frozenset(now)
