"""Evaluate a condition on rows with DuckDB, shut off from files and the network."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.sql.translation.values import ABSENT, Asked

_SETTINGS: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "temp_directory": "",
    "threads": "1",
}
_AFTERWARDS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    # An optimizer may rewrite `a + 1 > 5` to `a > 4`, which cannot overflow. With wrapping sums, the results differ.
    "PRAGMA disable_optimizer",
    "SET lock_configuration = true",
)
_FIRST_DAY = -719_162
_LAST_DAY = 2_932_896
"""0001-01-01 and 9999-12-31 in days since the epoch. Engines differ beyond, and on DuckDB's infinite dates."""
_MICROSECONDS_A_DAY = 86_400_000_000
_local = threading.local()


class NotEvaluated(Exception):
    """The value of a condition is uncertain for a row. The message is the reason, as the end of a sentence."""


def is_duckdb_installed() -> bool:
    """Return whether DuckDB can be imported."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return False
    return True


def evaluate_sql(sql: str, columns: Mapping[str, Any]) -> pa.BooleanArray:
    """Return the value of a condition for each row of some columns; null for unknown. Raises NotEvaluated."""
    import duckdb

    session = _get_session()
    session.register("rows_of_batch", pa.table(dict(columns)))
    try:
        answer = session.sql(f"SELECT {sql} AS answer FROM rows_of_batch").to_arrow_table()
    except (duckdb.Error, RecursionError) as fault:
        text = " ".join(str(fault).partition("LINE 1:")[0].split())
        raise NotEvaluated(text.partition(": ")[2][:200] or text[:200] or type(fault).__name__) from None
    finally:
        session.unregister("rows_of_batch")
    column = answer.column(0)
    if not pa.types.is_boolean(column.type):
        raise NotEvaluated(f"its value is of type {column.type}")
    return column.combine_chunks()


def select_query_columns(
    batch: pa.RecordBatch, asked: Iterable[Asked], zone: str | None = None
) -> dict[str, ArrowArray]:
    """Return the columns that a query needs, under its names. Raises NotEvaluated for values it cannot handle.

    For a query that needs no columns, the number of rows is preserved.
    """
    columns: dict[str, Any] = {ABSENT: pa.nulls(batch.num_rows, pa.bool_())}
    for number, (column, is_presence) in enumerate(asked):
        values = batch.column(batch.schema.get_field_index(column.path[0]))
        for name in column.path[1:]:
            values = pc.struct_field(values, [values.type.get_field_index(name)])
        if is_presence:
            values = pc.if_else(pc.is_valid(values), pa.scalar(True), pa.scalar(None, pa.bool_()))
        columns[f"c{number}"] = convert_for_duckdb(values, zone)
    return columns


def convert_for_duckdb(values: ArrowArray, zone: str | None = None) -> ArrowArray:
    """Return values as passed to a query: times by the clocks of `zone` (None: UTC). Raises NotEvaluated."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return convert_for_duckdb(pc.cast(values, kind.value_type), zone)
    if pa.types.is_timestamp(kind):
        if zone is not None and kind.tz is not None:
            values = _convert_to_local_times(values, zone)
        values = pc.cast(values, pa.timestamp("us"))
        _require_years(
            pc.cast(values, pa.int64()), _FIRST_DAY * _MICROSECONDS_A_DAY, _LAST_DAY + 1, _MICROSECONDS_A_DAY
        )
    elif zone is not None and pa.types.is_nested(kind) and "tz=" in str(kind):
        raise NotEvaluated(f"it depends on times within a column in the zone {zone}")
    elif pa.types.is_date(kind):
        _require_years(pc.cast(values, pa.int32()), _FIRST_DAY, _LAST_DAY + 1, 1)
    try:
        # Strings in Parquet files are not always valid UTF-8.
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise NotEvaluated("a string is not UTF-8") from None
    return values


_OFFSET = re.compile("^(GMT|UTC)(?=[+-])")


def _convert_to_local_times(values: ArrowArray, zone: str) -> ArrowArray:
    try:
        return pc.local_timestamp(pc.cast(values, pa.timestamp("us", _OFFSET.sub("", zone))))
    except pa.ArrowInvalid as fault:
        raise NotEvaluated(f"times cannot be converted to the zone {zone}: {' '.join(str(fault).split())}") from fault


def _require_years(numbers: Any, first: int, end: int, unit: int) -> None:
    limits = pc.min_max(numbers)
    least = limits["min"].as_py()
    most = limits["max"].as_py()
    if least is not None and (least < first or most >= end * unit):
        raise NotEvaluated("a date is outside the years 1 to 9999")


def _get_session() -> Any:  # Any: a connection
    """Return the in-memory database of this thread."""
    session = getattr(_local, "session", None)
    if session is None or _local.process != os.getpid():
        import duckdb

        session = duckdb.connect(":memory:", config=dict(_SETTINGS))
        for statement in _AFTERWARDS:
            session.execute(statement)
        _local.session = session
        _local.process = os.getpid()
    return session
