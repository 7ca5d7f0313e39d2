"""Count the nulls of a data file in the places that must not be null."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructField, StructType


class NotNull(NamedTuple):
    """A place that must not be null: its path, and the steps to it from the top-level column (the number of a field, or
    the part of a list or map). `fields` are the struct fields along the path.
    """

    name: str
    column: str
    steps: tuple[int | str, ...]
    fields: tuple[StructField, ...]

    @property
    def is_of_structs(self) -> bool:
        """Return whether no list or map is above it."""
        return not any(isinstance(step, str) for step in self.steps)

    @property
    def above_lists(self) -> tuple[StructField, ...]:
        """Return the fields down to the first list or map of the path."""
        first = next((number for number, step in enumerate(self.steps) if isinstance(step, str)), len(self.steps))
        return self.fields[: first + 1]


def find_not_null_places(columns: Sequence[StructField]) -> list[NotNull]:
    """Return everything in these columns that must not be null. Keys of maps never are."""
    return [demand for column in columns for demand in _find_in_field(column, column.name, column.name, (), ())]


def _find_in_field(
    field: StructField, name: str, column: str, steps: tuple[int | str, ...], above: tuple[StructField, ...]
) -> Iterator[NotNull]:
    fields = (*above, field)
    if not field.nullable:
        yield NotNull(name, column, steps, fields)
    yield from _find_in_type(field.data_type, name, column, steps, fields)


def _find_in_type(
    kind: DataType, name: str, column: str, steps: tuple[int | str, ...], fields: tuple[StructField, ...]
) -> Iterator[NotNull]:
    """Yield the places within a value of a type that must not be null."""
    match kind:
        case StructType(inside):
            for position, field in enumerate(inside):
                yield from _find_in_field(field, f"{name}.{field.name}", column, (*steps, position), fields)
        case ArrayType(element, contains_null):
            inner_steps = (*steps, "element")
            if not contains_null:
                yield NotNull(f"{name}.element", column, inner_steps, fields)
            yield from _find_in_type(element, f"{name}.element", column, inner_steps, fields)
        case MapType(_, value, value_contains_null):
            inner_steps = (*steps, "value")
            if not value_contains_null:
                yield NotNull(f"{name}.value", column, inner_steps, fields)
            yield from _find_in_type(value, f"{name}.value", column, inner_steps, fields)


class NullCounts:
    """Counts the nulls of one file at the places of some demands."""

    def __init__(self, demands: Sequence[NotNull]) -> None:
        self._demands = demands
        self._found: Counter[str] = Counter()

    def take(self, batch: pa.RecordBatch) -> None:
        """Count the nulls of some rows."""
        for demand in self._demands:
            nulls = _select_values(batch.column(demand.column), demand.steps).null_count
            if nulls:
                self._found[demand.name] += nulls

    def answer(self) -> Mapping[str, int]:
        """Return path -> nulls, for the places that have any."""
        return dict(self._found)


def _select_values(values: ArrowArray, steps: Sequence[int | str]) -> ArrowArray:
    """Return the values at a place, without those below a null."""
    for step in steps:
        if isinstance(step, int):
            values = (pc.drop_null(values) if values.null_count else values).field(step)
        elif pa.types.is_map(values.type):
            values = pc.list_flatten(pa.ListArray.from_arrays(values.offsets, values.items))
        else:
            values = pc.list_flatten(values)
    return values
