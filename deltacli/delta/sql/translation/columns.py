"""The columns that a translated expression requests."""

from __future__ import annotations

import re
from typing import NamedTuple

from deltacli.delta.predicate.columns import Column, PredicateColumns
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType
from deltacli.delta.sql.translation.values import BOOLEAN, NotTranslated, Value, duck_type
from deltacli.errors import UsageError

_PADDED = re.compile(r"(?<!var)char\(")
_CHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"


class Asked(NamedTuple):
    """A requested column; `is_presence`: only whether it is null, as TRUE for a value that exists."""

    column: Column
    is_presence: bool = False


class ColumnNames:
    """Gives the columns of an expression unambiguous names for DuckDB: c0, c1, …"""

    def __init__(self, text: str, schema: StructType) -> None:
        self._schema = schema
        self._finder = PredicateColumns(text, schema)
        self.asked: list[Asked] = []

    def value(self, path: tuple[str, ...], position: int) -> Value:
        """Return the values of a column. Raises NotTranslated."""
        column = self._column(path, position)
        if column.kind is Kind.TEXT:
            try:
                self._finder.require_comparable(column, position)
            except UsageError:
                raise NotTranslated(f"the column {column.name} has a collation") from None
            if self._is_padded(column):
                raise NotTranslated(f"the column {column.name} is padded with spaces")
        if not isinstance(column.data_type, PrimitiveType):
            _require_plain(column)
        elif column.data_type.name != "void":
            duck_type(column.data_type)
        return Value(self._name(Asked(column)), column.data_type)

    def presence(self, path: tuple[str, ...], position: int) -> Value:
        """Return a value that is null where the column is. Raises NotTranslated."""
        return Value(self._name(Asked(self._column(path, position), is_presence=True)), BOOLEAN)

    def _column(self, path: tuple[str, ...], position: int) -> Column:
        try:
            return self._finder.find(path, position)
        except UsageError:
            raise NotTranslated(f"{'.'.join(path)[:120]} is not a column or is ambiguous") from None

    def _name(self, asked: Asked) -> str:
        if asked not in self.asked:
            self.asked.append(asked)
        return f"c{self.asked.index(asked)}"

    def _is_padded(self, column: Column) -> bool:
        """Return True for CHAR(n), at the column or around it."""
        if _PADDED.match(column.type_name):
            return True
        data_type: DataType = self._schema
        for name in column.path:
            assert isinstance(data_type, StructType)
            field = next(field for field in data_type.fields if field.name == name)
            if _PADDED.search(str(field.metadata.get(_CHAR_KEY, ""))):
                return True
            data_type = field.data_type
        return False


def _require_plain(column: Column) -> None:
    """Raises NotTranslated for arrays and maps of anything but plain values."""
    match column.data_type:
        case ArrayType(element):
            parts = [element]
        case MapType(key, value):
            parts = [key, value]
        case _:
            parts = []
    is_plain = all(isinstance(part, PrimitiveType) and part.name not in ("timestamp", "void") for part in parts)
    if not parts or not is_plain:
        raise NotTranslated(f"the column {column.name} has the unsupported type {column.type_name}")
    for part in parts:
        duck_type(part)
