"""Rows of any reader in a form that can be counted and compared: by value, not by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tests.support.small_types import plain

Rows = Counter[tuple[object, ...]]


def count_rows(tables: Iterable[Any], names: Sequence[str]) -> Rows:  # Any: tables or batches of Arrow
    """The multiset of the rows of tables or batches, their columns in the order of `names`.

    Instants are whole numbers of microseconds, whatever the unit and the zone they are shown in: so those that Python
    has no date for can be compared, too.
    """
    found: Rows = Counter()
    for table in tables:
        columns = [_comparable(table.column(name)).to_pylist() for name in names]
        found.update(plain(row) for row in zip(*columns, strict=True)) if columns else found.update(
            [()] * table.num_rows
        )
    return found


def same_rows(one: Any, other: Any) -> bool:  # Any: tables of Arrow
    """Whether two tables with the same columns have the same rows. Most that have are found out without making each row
    a value of Python, which takes seconds for a million of them.
    """
    return _in_order(one).equals(_in_order(other)) or count_rows([one], one.schema.names) == count_rows(
        [other], one.schema.names
    )


def _in_order(rows: Any) -> Any:  # Any: tables of Arrow
    """Sort the rows by all columns where they can be sorted by them."""
    if not rows.schema.names or any(map(pa.types.is_nested, rows.schema.types)):
        return rows
    return rows.sort_by([(name, "ascending") for name in rows.schema.names])


def _comparable(values: Any) -> Any:  # Any: pyarrow has no types
    kind = comparable_type(values.type)
    if kind.equals(values.type):
        return values
    micros = values.cast(_with_micros(values.type), safe=False)
    return micros.cast(kind)


def comparable_type(kind: Any) -> Any:  # Any: pyarrow has no types
    """The type in which values of an Arrow type are compared."""
    return _mapped(kind, pa.int64())


def _with_micros(kind: Any) -> Any:
    return _mapped(kind, pa.timestamp("us"))


def _mapped(kind: Any, instants: Any) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if not types.is_int64(instants) else instants
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _mapped(field.type, instants)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_mapped(kind.key_type, instants), _mapped(kind.item_type, instants))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_mapped(kind.value_type, instants))
    return kind
