"""The columns that a predicate names, and how the values of each are ordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deltacli.core.hints import in_backticks
from deltacli.core.typing import ArrowType
from deltacli.delta.checkpoint.parsed_columns import typed
from deltacli.delta.predicate.refusals import refuse, refuse_column, refuse_value
from deltacli.delta.schema.kinds import Kind, decimal_parts, value_kind
from deltacli.delta.schema.names import NameIndex
from deltacli.delta.schema.to_arrow import unread_type
from deltacli.delta.schema.types import DataType, StructField, StructType, simple_name
from deltacli.delta.schema.unread_columns import Judge

ColumnPath = tuple[str, ...]
"""Names from the root to a column."""

COLLATIONS = "__COLLATIONS"
"The key of a field's metadata that names the collation of its strings."


NUMBERS = frozenset({Kind.WHOLE, Kind.DECIMAL, Kind.FLOAT})
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.NTZ})


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct. `path`: logical names, as the schema spells them."""

    path: ColumnPath
    data_type: DataType = field(compare=False)  # a struct has no hash

    @property
    def kind(self) -> Kind:
        return value_kind(self.data_type)

    @property
    def is_nested(self) -> bool:
        return len(self.path) > 1

    @property
    def name(self) -> str:
        """The name as SQL takes it."""
        return ".".join(part if part.isidentifier() else in_backticks(part) for part in self.path)

    @property
    def type_name(self) -> str:
        return simple_name(self.data_type)

    @property
    def scale(self) -> int:
        """The digits behind the point of a decimal; 0 for any other type."""
        parts = decimal_parts(self.type_name)
        return parts[1] if parts else 0

    @property
    def arrow_type(self) -> ArrowType:
        return typed(self.data_type)


class PredicateColumns:
    """Finds the columns of a schema by the names of a predicate, and remembers which were asked for."""

    def __init__(self, text: str, schema: StructType, judge: Judge = unread_type) -> None:
        self._text = text
        self._judge = judge
        self._schema = schema
        self.found: dict[ColumnPath, Column] = {}
        self._collated: set[ColumnPath] = set()
        self._indexes: dict[ColumnPath, NameIndex] = {}

    def find(self, names: Sequence[str], position: int) -> Column:
        """Return the column at a path of names. Raises UsageError if there is none, more than one, or one whose type is
        not read.
        """
        fields, field = self._schema.fields, None
        path: list[str] = []
        for depth, name in enumerate(names):
            if field is not None:
                fields = self._fields_below(field, ".".join(names[:depth]), name, position)
            field = self._field(fields, name, tuple(path), position)
            if not path and (unread := self._judge(field.data_type)) is not None:
                reason = f"column {field.name} has type {unread}, which this version of deltacli does not read"
                fault = refuse_value(self._text, position, reason)
                fault.facts |= {"column": field.name, "type": unread}
                raise fault
            path.append(field.name)
        assert field is not None
        column = Column(tuple(path), field.data_type)
        self.found[column.path] = column
        if COLLATIONS in field.metadata:
            self._collated.add(column.path)
        return column

    def require_comparable(self, column: Column, position: int) -> None:
        """Raise UsageError for a column whose values cannot be compared here."""
        if column.path in self._collated:
            reason = f"{column.name} has a collation, so only IS [NOT] NULL is supported"
            raise refuse(self._text, position, reason)
        if column.kind is Kind.OTHER:
            reason = f"{column.name} is of type {column.type_name}, so only IS [NOT] NULL is supported"
            hint = f"name a field of it: {column.name}.field" if isinstance(column.data_type, StructType) else None
            raise refuse(self._text, position, reason, hint=hint)

    def _fields_below(self, parent: StructField, above: str, name: str, position: int) -> tuple[StructField, ...]:
        if not isinstance(parent.data_type, StructType):
            type_name = simple_name(parent.data_type)
            reason = f"{above} is of type {type_name} and has no field {name}"
            raise refuse_column(self._text, position, reason, (column.name for column in self._schema.fields))
        return parent.data_type.fields

    def _field(self, fields: tuple[StructField, ...], name: str, above: ColumnPath, position: int) -> StructField:
        index = self._indexes.get(above)
        if index is None:
            index = self._indexes[above] = NameIndex(one.name for one in fields)
        alike = [fields[place] for place in index.places_of(name)]
        if len(alike) == 1:
            return alike[0]
        place = f" in {'.'.join(above)}" if above else ""
        reason = f"there is no column {name}{place}"
        if alike:
            reason = f"{name}{place} may be any of the columns {', '.join(one.name for one in alike)}"
        near = "" if alike else name
        nested = () if above else _nested(StructType(fields))
        compared = next(reversed(self.found.values()), None)
        is_text = compared is not None and compared.kind is Kind.TEXT
        raise refuse_column(self._text, position, reason, (one.name for one in fields), near, nested, is_text=is_text)


def _nested(struct: StructType, above: ColumnPath = ()) -> Iterator[ColumnPath]:
    """Yield the paths of fields within columns that are structs."""
    for one in struct.fields:
        if above:
            yield (*above, one.name)
        if isinstance(one.data_type, StructType):
            yield from _nested(one.data_type, (*above, one.name))
