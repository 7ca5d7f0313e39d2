"""Compile the SQL stored in a table to conditions that `where` or DuckDB evaluate."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable, UsageError, install_command
from deltacli.core.typing import ArrowArray
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.schema.to_arrow import build_arrow_schema
from deltacli.delta.schema.types import DataType, StructField, StructType
from deltacli.delta.sql.translation.translate import GIVEN, Translation, translate_condition, translate_generated
from deltacli.delta.sql.translation.values import NotTranslated
from deltacli.work.rows.duckdb_evaluation import (
    NotEvaluated,
    convert_for_duckdb,
    evaluate_sql,
    is_duckdb_installed,
    select_query_columns,
)

__all__ = ["Condition", "Expression", "NotEvaluated", "Unchecked", "compile_condition", "compile_expression"]


@dataclass(frozen=True)
class Unchecked:
    """An SQL text that is not evaluated. `reason` is the end of a sentence."""

    reason: str


@dataclass(frozen=True)
class Condition:
    """A condition for every row. `assumes_utc`: it depends on the writer's time zone, and is evaluated for UTC."""

    text: str
    translation: Translation
    predicate: Predicate | None

    @property
    def assumes_utc(self) -> bool:
        return self.translation.assumes_utc

    def violations(self, batch: pa.RecordBatch, zone: str | None = None) -> pa.BooleanArray:
        """Return true for rows where the condition is false or null; never null.

        The batch has the columns under their logical names, in the table's Arrow types. Times become those of the
        clocks of `zone` (None: UTC). Raises NotEvaluated.
        """
        if self.predicate is not None:
            return pc.invert(self.predicate.matches(batch))
        columns = select_query_columns(batch, self.translation.asked, zone)
        answer = evaluate_sql(self.translation.sql, columns)
        return pc.invert(pc.fill_null(answer, False))


@dataclass(frozen=True)
class Expression:
    """The expression of a generated column. `assumes_utc` is as for a condition."""

    text: str
    translation: Translation

    @property
    def assumes_utc(self) -> bool:
        return self.translation.assumes_utc

    def differences(self, batch: pa.RecordBatch, column_name: str, zone: str | None = None) -> pa.BooleanArray:
        """Return true for rows where a column differs from the expression; two nulls are equal. Raises NotEvaluated."""
        columns = select_query_columns(batch, self.translation.asked, zone)
        given = batch.column(batch.schema.get_field_index(column_name))
        answer = evaluate_sql(self.translation.sql, {**columns, GIVEN: convert_for_duckdb(given, zone)})
        return pc.invert(pc.fill_null(answer, False))


def compile_condition(text: str, schema: StructType, *, has_zone: bool = False) -> Condition | Unchecked:
    """Compile a constraint or an invariant for a table schema, to be evaluated for UTC, or with `has_zone` for others,
    which `where` does not know.
    """
    try:
        translation = translate_condition(text, schema)
    except NotTranslated as fault:
        return Unchecked(str(fault))
    is_for_where = translation.is_plain and not (has_zone and translation.assumes_utc)
    predicate = _parse_predicate(text, schema) if is_for_where else None
    if predicate is None:
        reason = _find_refusal(translation, schema, {})
        if reason is not None:
            return Unchecked(reason)
    return Condition(text, translation, predicate)


def compile_expression(text: str, schema: StructType, data_type: DataType) -> Expression | Unchecked:
    """Compile the expression of a generated column with the given type, for comparison with the column."""
    try:
        translation = translate_generated(text, schema, data_type)
    except NotTranslated as fault:
        return Unchecked(str(fault))
    reason = _find_refusal(translation, schema, {GIVEN: data_type})
    return Expression(text, translation) if reason is None else Unchecked(reason)


def _parse_predicate(text: str, schema: StructType) -> Predicate | None:
    """Return the text as a predicate of `where`; None if that language does not support it."""
    try:
        return parse_predicate(text, schema)
    except UsageError:
        return None


def _find_refusal(translation: Translation, schema: StructType, others: dict[str, DataType]) -> str | None:
    """Return why DuckDB rejects a query on an empty batch; None if DuckDB accepts it."""
    if not is_duckdb_installed():
        return f"DuckDB, which evaluates it, is not installed: {install_command('constraints')}"
    try:
        names = {asked.column.path[0] for asked in translation.asked}
        empty = build_arrow_schema(field for field in schema.fields if field.name in names).empty_table()
        given = {name: _make_empty_column(name, data_type) for name, data_type in others.items()}
        evaluate_sql(translation.sql, {**select_query_columns(empty, translation.asked), **given})
    except (NotEvaluated, Unreadable) as fault:
        return str(fault)
    return None


def _make_empty_column(name: str, data_type: DataType) -> ArrowArray:
    empty = build_arrow_schema([StructField(name, data_type, True, {})]).empty_table()
    return convert_for_duckdb(empty.column(0))
