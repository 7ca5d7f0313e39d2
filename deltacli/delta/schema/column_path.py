"""Paths to columns and their parts as users write them: `a.b`, `m.key`, `xs.element`, names with dots in backticks.

`element`, `key` and `value` lead into an array or a map. The type before a step determines its meaning, so a field with
one of these names needs no quotes, but the returned path has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.errors import UsageError, command, nearest_path, quote_identifier
from deltacli.core.texts import summarize_names
from deltacli.delta.schema import types

CODE = "usage.column"
_SHOWN_NAMES = 40
_STEP = re.compile(r"`(?P<quoted>(?:[^`]|``)*)`(?=\.|\Z)|(?P<plain>[^.`]+)(?=\.|\Z)")

_ESCAPING = "utf-8", "backslashreplace"


class PathPart(StrEnum):
    """The kind of a step. All except fields are named in a fieldPath."""

    FIELD = "field"
    ELEMENT = "element"
    KEY = "key"
    VALUE = "value"


class Step(NamedTuple):
    """One name of a path, as the schema spells it."""

    name: str
    part: PathPart = PathPart.FIELD


class ColumnPlace(NamedTuple):
    """The place of a type in a schema.

    `fields`: the struct fields along the path, from the top-level column to the nearest one. `address` leads to the
    type in the JSON of the schema, `field_address` to the nearest field.
    """

    steps: tuple[Step, ...]
    fields: tuple[types.StructField, ...]
    data_type: types.DataType
    address: tuple[str | int, ...] = ()
    field_address: tuple[str | int, ...] = ()

    @property
    def column(self) -> types.StructField:
        return self.fields[0]

    @property
    def nearest(self) -> types.StructField:
        """Return the field that keeps the history of the type."""
        return self.fields[-1]

    @property
    def field_path(self) -> str | None:
        """Return the path from the nearest field into arrays and maps, as `element.value`; None for the field."""
        names: list[str] = []
        for step in reversed(self.steps):
            if step.part is PathPart.FIELD:
                break
            names.append(step.part.value)
        return ".".join(reversed(names)) or None

    @property
    def text(self) -> str:
        """Return the path as a user can write it, for any names."""
        return ".".join(_step_text(step) for step in self.steps)


def _step_text(step: Step) -> str:
    is_plain = step.name.isidentifier() and step.name.lower() not in _PARTS
    return step.name if is_plain or step.part is not PathPart.FIELD else quote_identifier(step.name)


_PARTS = frozenset({PathPart.ELEMENT.value, PathPart.KEY.value, PathPart.VALUE.value})


@dataclass(frozen=True, slots=True)
class ColumnFinder:
    """Finds many columns of one schema. The names of each struct are indexed once, not once per column."""

    schema: types.StructType
    _indexes: dict[int, types.NameIndex] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By the identity of a struct, which the schema keeps alive."""

    def find(self, text: str) -> ColumnPlace:
        """Return the place of a column, field, element, key or value.

        Names may differ in case if no name matches exactly. Raises UsageError (`usage.column`) that names the existing
        columns.
        """
        place = _root(self.schema)
        for name, is_quoted in _names_of(text):
            place = self._step(place, name, text, is_quoted=is_quoted)
        return place

    def find_parent(self, text: str) -> tuple[ColumnPlace, str]:
        """Return the place of the struct that a new field belongs to, the root without steps, and the field's name.

        Raises UsageError (`usage.column`) where the path leads to no struct.
        """
        *above, (name, _) = _names_of(text)
        place = _root(self.schema)
        for step, is_quoted in above:
            place = self._step(place, step, text, is_quoted=is_quoted, new=(name,))
        if not isinstance(place.data_type, types.StructType):
            parts = [part.steps[-1].name for part in _parts_of(place)]
            reason = f"{place.text} is of type {types.simple_name(place.data_type)}, not a struct"
            raise _refused(text, _unusable(text, reason), parts)
        return place, name

    def _step(
        self, place: ColumnPlace, name: str, text: str, *, is_quoted: bool, new: tuple[str, ...] = ()
    ) -> ColumnPlace:
        if isinstance(place.data_type, types.StructType):
            fields = place.data_type.fields
            places = self._index_of(place.data_type).places_of(name)
            if not places and "\\" in name:  # half a surrogate pair, which no argument holds, as messages write it
                places = [index for index, one in enumerate(fields) if one.name.encode(*_ESCAPING).decode() == name]
            if len(places) == 1:
                return _field(place, places[0], fields[places[0]])
            message = _no_field(place, name, text)
            if places:
                listed = ", ".join(_step_text(Step(fields[index].name)) for index in places)
                message = _unusable(text, f"{name} may be any of {listed}")
            near = None if places else self._near(text, new)
            raise _refused(text, message, [_step_text(Step(field.name)) for field in fields], near)
        for part in _parts_of(place):
            if not is_quoted and part.steps[-1].name == name.lower():
                return part
        parts = [part.steps[-1].name for part in _parts_of(place)]
        raise _refused(text, _no_field(place, name, text), parts, self._near(text, new))

    def _near(self, text: str, new: tuple[str, ...]) -> str | None:
        """Return the path that was meant, which ends with the name of a new field where there is one."""
        names = names_in(text)
        near = find_nearest_column(self.schema, names[: len(names) - len(new)])
        if near is None or (new and not isinstance(near.data_type, types.StructType)):
            return None
        return ".".join([near.text, *(_step_text(Step(name)) for name in new)])

    def _index_of(self, struct: types.StructType) -> types.NameIndex:
        index = self._indexes.get(id(struct))
        if index is None:
            index = self._indexes[id(struct)] = types.NameIndex(field.name for field in struct.fields)
        return index


def places(schema: types.StructType) -> Iterator[ColumnPlace]:
    """Yield every place of a schema, parents first."""
    waiting = [_root(schema)]
    while waiting:
        place = waiting.pop()
        if place.steps:
            yield place
        waiting.extend(reversed(_parts_of(place)))


def find_nearest_column(schema: types.StructType, names: Sequence[str]) -> ColumnPlace | None:
    """Return the place, nested or not, that was probably meant by names that lead nowhere; None without one."""
    if names[-1].lower() in _PARTS:
        return None
    known = {tuple(step.name for step in place.steps): place for place in places(schema)}
    near = nearest_path(names, known)
    return None if near is None else known[tuple(near)]


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a path without looking them up. Raises UsageError (`usage.column`)."""
    return tuple(name for name, _ in _names_of(text))


def _root(schema: types.StructType) -> ColumnPlace:
    return ColumnPlace((), (), schema)


def _names_of(text: str) -> Iterator[tuple[str, bool]]:
    """Return the names of a path, and whether each was in backticks."""
    position = 0
    while True:
        match = _STEP.match(text, position)
        if match is None:
            raise UsageError(
                f"the column {text!r} cannot be used: a name is missing, or a backtick is not closed",
                code=CODE,
                facts={"at": f"character {position + 1}"},
                hint="names with dots must be in backticks, and backticks doubled: `a.b`.c",
            )
        is_quoted = match["quoted"] is not None
        yield (match["quoted"].replace("``", "`") if is_quoted else match["plain"]), is_quoted
        position = match.end() + 1
        if match.end() == len(text):
            return


def _parts_of(place: ColumnPlace) -> list[ColumnPlace]:
    match place.data_type:
        case types.StructType(fields):
            return [_field(place, index, field) for index, field in enumerate(fields)]
        case types.ArrayType() | types.MapType():
            return [_part(place, PathPart(part.name), part.data_type) for part in types.parts_of(place.data_type)]
    return []


def _field(place: ColumnPlace, index: int, field: types.StructField) -> ColumnPlace:
    address = (*place.address, "fields", index)
    return ColumnPlace(
        (*place.steps, Step(field.name)), (*place.fields, field), field.data_type, (*address, "type"), address
    )


def _part(place: ColumnPlace, part: PathPart, data_type: types.DataType) -> ColumnPlace:
    steps = (*place.steps, Step(part.value, part))
    return ColumnPlace(steps, place.fields, data_type, (*place.address, f"{part.value}Type"), place.field_address)


def _no_field(place: ColumnPlace, name: str, text: str) -> str:
    if place.steps:
        return _unusable(text, f"{place.text} is of type {types.simple_name(place.data_type)} and has no {name}")
    absent = f"there is no column {name}"
    return absent if name == text else _unusable(text, absent)


def _unusable(text: str, reason: str) -> str:
    return f"the column {text} cannot be used: {reason}"


def _refused(text: str, message: str, names: Sequence[str], near: str | None = None) -> UsageError:
    return UsageError(
        message,
        code=CODE,
        facts={"possible": summarize_names(names, _SHOWN_NAMES) or "nothing: it has no parts"},
        hint=command("snapshot", schema=True),
    ).suggest(text, near)
