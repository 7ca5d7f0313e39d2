"""Conditions on every column of a table, in the SQL that Spark and `--where` share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.judges.spark_reads.exact_values import list_leaves, list_values

MICROSECONDS_PER_DAY = 86_400_000_000

SQL_NUMBERS = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}


def list_conditions(rows: pa.Table) -> dict[str, str]:
    """Return conditions by the question they ask: nulls, the least and the greatest value, and those around the middle.

    Types whose values cannot be compared are asked for their nulls only.

    Args:
        rows: All rows of the table. The literals of the conditions are taken from them.
    """
    conditions: dict[str, str] = {}
    for name, kind in list_leaves(rows.schema):
        conditions[f"{name} IS NULL"] = f"{name} IS NULL"
        values = _sorted_values(rows, name, kind)
        if not values:
            continue
        least, middle, greatest = (write_literal(values[at], kind) for at in (0, len(values) // 2, -1))
        conditions |= {
            f"{name} = least": f"{name} = {least}",
            f"{name} >= greatest": f"{name} >= {greatest}",
            f"{name} < middle": f"{name} < {middle}",
            f"{name} > middle": f"{name} > {middle}",
        }
    return conditions


def _sorted_values(rows: pa.Table, name: str, kind: pa.DataType) -> list[Any]:
    """Return the distinct values of a column or field in order, none if SQL cannot compare them."""
    if not _is_comparable(kind):
        return []
    column = rows
    for part in name.strip("`").split("`.`"):
        column = column.column(part.replace("``", "`")) if column is rows else _take_field(column, part)
    values = {value for value in list_values(column) if value is not None}
    if pa.types.is_floating(kind):
        # Spark puts NaN above all numbers.
        return sorted(values, key=lambda text: (text == "nan", float(text)))
    return sorted(values)


def _take_field(column: pa.ChunkedArray, part: str) -> pa.ChunkedArray:
    chunks = [chunk.flatten()[chunk.type.get_field_index(part.replace("``", "`"))] for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type.field(part.replace("``", "`")).type)


def _is_comparable(kind: pa.DataType) -> bool:
    others = (pa.types.is_boolean, pa.types.is_string, pa.types.is_binary, pa.types.is_decimal, pa.types.is_temporal)
    return kind in SQL_NUMBERS or any(belongs(kind) for belongs in others)


def write_literal(value: Any, kind: pa.DataType) -> str:
    """Return the literal of an exact value of `exact_values`."""
    if kind in SQL_NUMBERS:
        return f"CAST('{value}' AS {SQL_NUMBERS[kind]})"
    if pa.types.is_decimal(kind):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pa.types.is_boolean(kind):
        return str(value).upper()
    if pa.types.is_binary(kind):
        return f"X'{value.hex()}'"
    if pa.types.is_date(kind):
        return f"DATE '{write_date(value)}'"
    if pa.types.is_timestamp(kind):
        days, microseconds = divmod(value, MICROSECONDS_PER_DAY)
        seconds, fraction = divmod(microseconds, 1_000_000)
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
        text = f"{write_date(days)} {time}"
        return f"TIMESTAMP_NTZ '{text}'" if kind.tz is None else f"TIMESTAMP '{text}Z'"
    return f"'{''.join(_escape(character) for character in value)}'"


def _escape(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    return f"\\U{ord(character):08x}"


def write_date(days: int) -> str:
    """Return the date of a number of days since 1970-01-01, in the proleptic Gregorian calendar, for any year."""
    # Eras of 400 years have the same number of days. Years begin in March, so that leap days are their last ones.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    months_since_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * months_since_march + 2) // 5 + 1
    month = (months_since_march + 2) % 12 + 1
    year = era * 400 + year_of_era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"
