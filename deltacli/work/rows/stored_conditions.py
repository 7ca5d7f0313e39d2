"""Evaluate the SQL stored in a table over its rows: constraints, invariants, generated columns.

Comparisons of columns are evaluated by the engine of `where`. Everything else is evaluated by DuckDB, if it certainly
means the same there as in Spark; otherwise the result is Unchecked, a value with a reason. An error at run time, such
as an overflow, raises NotEvaluated, because the result in Spark (null or an error) depends on its settings. Results are
never guessed.

Spec: CHECK Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import DataType, StructField, StructType
from deltacli.delta.sql.translation.translate import (
    GIVEN,
    Translation,
    translate_condition,
    translate_generated,
)
from deltacli.delta.sql.translation.values import NotTranslated
from deltacli.errors import Unreadable, UsageError
from deltacli.typing import ArrowArray, ArrowTable
from deltacli.work.rows import duckdb_session
from deltacli.work.rows.duckdb_session import NotEvaluated

if TYPE_CHECKING:
    import pyarrow

INSTALL = "pip install 'deltacli[constraints]'"

__all__ = ["Condition", "Expression", "NotEvaluated", "Unchecked", "compile_condition", "compile_expression"]


@dataclass(frozen=True)
class Unchecked:
    """An SQL text that is not evaluated. `reason` is the end of a sentence."""

    reason: str


@dataclass(frozen=True)
class Condition:
    """A condition that every row has to satisfy.

    `assumes_utc`: it depends on the time zone of the writer's session, and is evaluated for UTC.
    """

    text: str
    translation: Translation
    predicate: Predicate | None

    @property
    def assumes_utc(self) -> bool:
        return self.translation.assumes_utc

    def violations(self, batch: pyarrow.RecordBatch) -> pyarrow.BooleanArray:
        """Return true for rows where the condition is false or null; never null.

        The batch has the columns under their logical names, in the table's Arrow types. Raises NotEvaluated.
        """
        if self.predicate is not None:
            return pc.invert(self.predicate.matches(batch))
        answer = duckdb_session.ask(self.translation.sql, duckdb_session.columns_of(batch, self.translation.asked))
        return pc.invert(pc.fill_null(answer, False))


@dataclass(frozen=True)
class Expression:
    """The expression of a generated column. `assumes_utc` is as for a condition."""

    text: str
    translation: Translation

    @property
    def assumes_utc(self) -> bool:
        return self.translation.assumes_utc

    def differences(self, batch: pyarrow.RecordBatch, column_name: str) -> pyarrow.BooleanArray:
        """Return true for rows where a column differs from the expression; two nulls are equal. Raises NotEvaluated."""
        columns = duckdb_session.columns_of(batch, self.translation.asked)
        given = batch.column(batch.schema.get_field_index(column_name))
        answer = duckdb_session.ask(self.translation.sql, {**columns, GIVEN: duckdb_session.handed_over(given)})
        return pc.invert(pc.fill_null(answer, False))


def compile_condition(text: str, schema: StructType) -> Condition | Unchecked:
    """Compile a constraint or an invariant for a table schema."""
    try:
        translation = translate_condition(text, schema)
    except NotTranslated as fault:
        return Unchecked(str(fault))
    predicate = _predicate(text, schema) if translation.is_plain else None
    if predicate is None:
        reason = _refusal(translation, schema, {})
        if reason is not None:
            return Unchecked(reason)
    return Condition(text, translation, predicate)


def compile_expression(text: str, schema: StructType, data_type: DataType) -> Expression | Unchecked:
    """Compile the expression of a generated column with the given type, for comparison with the column."""
    try:
        translation = translate_generated(text, schema, data_type)
    except NotTranslated as fault:
        return Unchecked(str(fault))
    reason = _refusal(translation, schema, {GIVEN: data_type})
    return Expression(text, translation) if reason is None else Unchecked(reason)


def _predicate(text: str, schema: StructType) -> Predicate | None:
    """Return the text as a predicate of `where`; None if that language does not support it."""
    try:
        return parse_predicate(text, schema)
    except UsageError:
        return None


def _refusal(translation: Translation, schema: StructType, others: dict[str, DataType]) -> str | None:
    """Return why DuckDB rejects a query on an empty batch; None if DuckDB accepts it."""
    if not duckdb_session.is_installed():
        return f"DuckDB, which evaluates it, is not installed: {INSTALL}"
    try:
        empty = _empty_batch(schema, translation)
        given = {name: _empty_column(name, data_type) for name, data_type in others.items()}
        duckdb_session.ask(translation.sql, {**duckdb_session.columns_of(empty, translation.asked), **given})
    except (NotEvaluated, Unreadable) as fault:
        return str(fault)
    return None


def _empty_batch(schema: StructType, translation: Translation) -> ArrowTable:
    """Return the columns that a query needs, with no rows."""
    names = {asked.column.path[0] for asked in translation.asked}
    return arrow_schema(field for field in schema.fields if field.name in names).empty_table()


def _empty_column(name: str, data_type: DataType) -> ArrowArray:
    empty = arrow_schema([StructField(name, data_type, True, {})]).empty_table()
    return duckdb_session.handed_over(empty.column(0))
