"""The columns of a table that are left out because deltacli does not read a type in them.

What a type is judged by is `to_arrow.unread_type`. Spec: Schema Serialization Format; Primitive Types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from deltacli.core.errors import Refused
from deltacli.core.typing import Json
from deltacli.core.units import some_of
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.to_arrow import unread_type
from deltacli.delta.schema.types import DataType, StructField, StructType

UNSUPPORTED = "type.unsupported"
_NAMED = 5
Judge: TypeAlias = Callable[[DataType], str | None]
"""Returns the name of a type that cannot be read, as `unread_type` does."""


class UnreadColumn(NamedTuple):
    """A top-level column, and the type in it that is not read."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} ({self.type})"

    def as_json(self) -> Json:
        """Return what documents have in `omittedColumns`."""
        return {"name": self.name, "type": self.type}


def unread_columns(fields: Iterable[StructField], judge: Judge = unread_type) -> tuple[UnreadColumn, ...]:
    """Return the columns that are left out, in their order."""
    found = ((field.name, judge(field.data_type)) for field in fields)
    return tuple(UnreadColumn(name, unread) for name, unread in found if unread is not None)


def read_columns(fields: Iterable[StructField], judge: Judge = unread_type) -> tuple[StructField, ...]:
    """Return the columns that are not left out."""
    return tuple(field for field in fields if judge(field.data_type) is None)


def with_read_columns(config: TableConfiguration) -> TableConfiguration:
    """Return a configuration without the columns that are left out: partition columns among them are unknown."""
    schema = config.schema
    if schema is None or not unread_columns(schema.fields):
        return config
    return replace(config, schema=StructType(read_columns(schema.fields)))


def unsupported(left_out: Sequence[UnreadColumn], others: Sequence[StructField] = ()) -> Refused:
    """Return the error for columns that were asked for, or have to be there. `others` are those that can be read."""
    first = left_out[0]
    names = [column.name for column in others]
    facts = {"column": first.name, "type": first.type}
    if left_out[1:]:
        facts["also"] = some_of(list(map(str, left_out[1:])), _NAMED)
    return Refused(
        f"column {first.name} has type {first.type}, which this version of deltacli does not read",
        code=UNSUPPORTED,
        facts=facts | ({"columns that are read": some_of(names, _NAMED)} if names else {}),
    )


def note_of(left_out: Sequence[UnreadColumn]) -> str:
    """Return the note on columns that are left out."""
    shown = some_of(list(map(str, left_out)), _NAMED)
    what = "column {} is left out: its type is" if len(left_out) == 1 else "columns {} are left out: their types are"
    return f"{what.format(shown)} not read by this version of deltacli"
