"""Dates and times as ISO 8601 texts, column by column, in a calendar without end.

Arrow's own text (26.0.1) of times outside the years -32768 to 32767 wraps around: 294247-01-10 becomes 32103-01-10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.value_text import date_text, moment_text
from deltacli.typing import ArrowType

if TYPE_CHECKING:
    import pyarrow

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Year 1 to year 9999: beyond, dates need a sign."""
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def date_texts(column: pyarrow.Array) -> pyarrow.Array:
    """Return days as texts: date32 array in, string array out, null where the value is null."""
    import pyarrow as pa

    return _texts(column, pa.int32(), _FIRST_DAY, _LAST_DAY, date_text)


def moment_texts(column: pyarrow.Array) -> pyarrow.Array:
    """Return timestamps as texts with a blank before the time, without a zone, those of a time zone in UTC.

    The fraction has the digits of the unit; beyond four digits of a year it has six where it is not zero, and there is
    a `T` for the blank.
    """
    import pyarrow as pa

    unit = column.type.unit
    a_second = _UNITS_A_SECOND[unit]
    a_day = 86_400 * a_second
    return _texts(
        column.view(pa.timestamp(unit)),
        pa.int64(),
        _FIRST_DAY * a_day,
        (_LAST_DAY + 1) * a_day - 1,
        lambda number: moment_text(number * 1_000_000 // a_second),
    )


def _texts(
    column: pyarrow.Array,
    integer: ArrowType,
    first: int,
    last: int,
    written: Callable[[int], str],
) -> pyarrow.Array:
    """Return Arrow's text of dates or times between two values, and a computed text of those outside."""
    import pyarrow as pa

    numbers = column.view(integer)
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (first <= ends["min"] and ends["max"] <= last):
        return pc.cast(column, pa.string())
    is_beyond = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
    distinct = pc.unique(pc.filter(numbers, is_beyond))
    texts = pa.array([written(number) for number in distinct.to_pylist()], pa.string())
    beyond = pc.take(texts, pc.index_in(numbers, value_set=distinct))
    near = pc.if_else(is_beyond, pa.scalar(None, column.type), column)
    return pc.coalesce(beyond, pc.cast(near, pa.string()))
