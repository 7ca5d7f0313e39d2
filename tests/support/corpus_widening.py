"""Wider types for the columns of real tables: which to take, and what schema and rows must come of it.

What may become what stands here once more, so that the tests do not believe the product.
"""

from __future__ import annotations

import copy
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from tests.support.row_counts import Rows

Json = Any  # Any: JSON values
Address = tuple[str | int, ...]
Change = Callable[[Any], Any]  # Any: a value of any type

TARGETS: dict[str, tuple[str, pa.DataType]] = {
    "byte": ("double", pa.float64()),
    "short": ("integer", pa.int32()),
    "integer": ("long", pa.int64()),
    "long": ("decimal(20,0)", pa.decimal128(20, 0)),
    "float": ("double", pa.float64()),
    "date": ("timestamp_ntz", pa.timestamp("us")),
}
"""Type -> a wider one, and what it is in Arrow. Of decimals see `wider_type`."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_INSIDE = {"elementType": "element", "keyType": "key", "valueType": "value"}
_MICROS_A_DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Candidate:
    """A part of a column that can have a wider type.

    `steps` are its names from the top, `path` is what people write; `field` leads to the nearest field in the JSON of
    the schema, `inside` from there into arrays and maps.
    """

    steps: tuple[str, ...]
    path: str
    from_type: str
    to_type: str
    arrow_type: pa.DataType
    is_partition: bool
    field: Address
    inside: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The type without its digits."""
        return self.from_type.split("(")[0]

    @property
    def place(self) -> str:
        """Where it stands."""
        return "partition" if self.is_partition else "nested" if len(self.steps) > 1 else "top"

    @property
    def change(self) -> tuple[str, str]:
        """As `widen_type` takes it."""
        return self.path, self.to_type


def candidates(schema: Json, partition_columns: Sequence[str]) -> list[Candidate]:
    """The first part of each kind and place that has a wider type."""
    found: dict[tuple[str, str], Candidate] = {}
    for steps, path, field, inside, type_name in _leaves(schema, (), "", (), ()):
        wider = wider_type(type_name)
        if wider is not None:
            is_partition = len(steps) == 1 and steps[0] in partition_columns
            candidate = Candidate(steps, path, type_name, *wider, is_partition, field, inside)
            found.setdefault((candidate.kind, candidate.place), candidate)
    return list(found.values())


def wider_type(type_name: str) -> tuple[str, pa.DataType] | None:
    """A wider type, and what it is in Arrow; None where there is none. Decimals get two digits on each side."""
    match = _DECIMAL.fullmatch(type_name)
    if match is None:
        return TARGETS.get(type_name)
    precision, scale = int(match[1]), int(match[2])
    more = min(2, (38 - precision) // 2)
    if more == 0:
        return None
    return f"decimal({precision + 2 * more},{scale + more})", pa.decimal128(precision + 2 * more, scale + more)


def _leaves(
    kind: Json, steps: tuple[str, ...], path: str, field: Address, inside: tuple[str, ...], at: Address = ()
) -> Iterator[tuple[tuple[str, ...], str, Address, tuple[str, ...], str]]:
    if isinstance(kind, str):
        yield steps, path, field, inside, kind
    elif kind["type"] == "struct":
        for number, child in enumerate(kind["fields"]):
            name, place = child["name"], (*at, "fields", number)
            word = name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"
            yield from _leaves(child["type"], (*steps, name), f"{path}.{word}".lstrip("."), place, (), (*place, "type"))
    else:
        for key, word in _INSIDE.items():
            if key in kind:
                yield from _leaves(kind[key], (*steps, word), f"{path}.{word}", field, (*inside, word), (*at, key))


def widened_schema(schema: Json, chosen: Iterable[Candidate], table_version: int | None) -> Json:
    """The schema with the wider types, and the changes in the metadata of their fields."""
    after = copy.deepcopy(schema)
    for candidate in chosen:
        field: Json = after
        for step in candidate.field:
            field = field[step]
        holder, key = field, "type"
        for word in candidate.inside:
            holder, key = holder[key], next(name for name, inside in _INSIDE.items() if inside == word)
        assert candidate.from_type == holder[key]
        holder[key] = candidate.to_type
        entry: Json = {"fromType": candidate.from_type, "toType": candidate.to_type}
        if candidate.inside:
            entry["fieldPath"] = ".".join(candidate.inside)
        if table_version is not None:
            entry["tableVersion"] = table_version
        field.setdefault("metadata", {}).setdefault("delta.typeChanges", []).append(entry)
    return after


def arrow_type_at(schema: pa.Schema, steps: Sequence[str]) -> pa.DataType:
    """The type of a part of a column."""
    kind = schema.field(steps[0]).type
    for step in steps[1:]:
        if pa.types.is_struct(kind):
            kind = kind.field(step).type
        elif pa.types.is_map(kind):
            kind = kind.key_type if step == "key" else kind.item_type
        else:
            kind = kind.value_type
    return kind


def widened_rows(rows: Rows, schema: pa.Schema, chosen: Iterable[Candidate]) -> Rows:
    """The rows, counted in the older types, with the values that they have in the wider ones."""
    for one in chosen:
        place = schema.names.index(one.steps[0])
        change = _within(schema.field(place).type, one.steps[1:], _widener(one))
        found = Rows()
        for row, count in rows.items():
            found[(*row[:place], change(row[place]), *row[place + 1 :])] += count
        rows = found
    return rows


def _within(kind: pa.DataType, steps: Sequence[str], change: Change) -> Change:
    """A change of a part of a value, as one of the value: in the form that rows are counted in."""
    if not steps:
        return lambda value: None if value is None else change(value)
    if pa.types.is_struct(kind):
        place = kind.get_field_index(steps[0])
        inner = _within(kind.field(place).type, steps[1:], change)
        return lambda value: None if value is None else (*value[:place], inner(value[place]), *value[place + 1 :])
    if pa.types.is_map(kind):
        is_key = steps[0] == "key"
        inner = _within(kind.key_type if is_key else kind.item_type, steps[1:], change)
        pair: Change = (
            (lambda found: (inner(found[0]), found[1])) if is_key else (lambda found: (found[0], inner(found[1])))
        )
    else:
        pair = _within(kind.value_type, steps[1:], change)
    return lambda value: None if value is None else ("list", *map(pair, value[1:]))


def _widener(one: Candidate) -> Change:
    """Numbers that are equal count as equal, whatever their types: only doubles and instants look different."""
    if one.from_type == "date":
        return lambda day: (day - _EPOCH).days * _MICROS_A_DAY
    if one.from_type == "float":
        return _text_as_double if one.is_partition else lambda number: number
    return (lambda number: float(number).hex()) if one.to_type == "double" else lambda number: number


def _text_as_double(number: str) -> str:
    """A float out of a text, read as a double: the shortest text that leads to it is what the log has."""
    if number == "nan":
        return number
    value = float.fromhex(number)
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return next(float(text).hex() for text in texts if struct.pack("f", float(text)) == struct.pack("f", value))
