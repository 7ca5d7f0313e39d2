"""What queries of Paimon 1.x miss in tables with `data-evolution.enabled` after a column has got another type.

Paimon keeps the least and the greatest value of each column of a file as bytes, in the type that the column had then.
Before it skips a file, it has to convert them. For tables with data evolution Paimon 1.x reads the bytes as if they had
the new type (apache/paimon #7803 and #8843, fixed in 2.0.0). With a condition on the column it skips files that have
matching rows, or fails. Rows that are read without a condition are right.

    INT -> BIGINT                     4 bytes are read as 8: -1 becomes 4294967295, numbers from 0 on are right
    DECIMAL(10, 2) -> DECIMAL(14, 4)  100 hundredths, which is 1.00, becomes 0.0100
    VARCHAR(3) -> STRING              the same bytes, so that nothing is missed
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from deltacli.core.errors import format_sql_name
from deltacli.paimon.engines import read_min_paimon
from deltacli.paimon.schema import Schema, is_true
from deltacli.paimon.schema_changes import Change, ChangeKind, Loss, judge_cast
from deltacli.paimon.types import AtomicType, DataType, Root, is_same_but_for_nullability, parse_type, with_nullability

DATA_EVOLUTION = "data-evolution.enabled"
MISSED_ROWS = "missed-rows"
"""Code of the warnings."""

FIXED_IN_VERSION = 2
"""The major version of Paimon that converts the values of old files."""

_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_TEXTS_AND_BYTES = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_MAX_COMPACT_DIGITS = 18
"""Decimals of up to so many digits are stored as one number of 8 bytes, longer ones as bytes elsewhere."""

_MAX_COMPACT_FRACTION = 3
"""Timestamps with up to so many digits of the second are stored as milliseconds, others in two parts."""

_ROWS = "rows"
_NEGATIVE = "negative values"


def find_missed_rows(before: DataType, after: DataType) -> str | None:
    """Return which rows of old files queries with a condition miss after a change of type, in words.

    Measured with Paimon 1.4.2 for lossless changes between all kinds of types. What was not measured, and every lossy
    change, counts as missed.

    Returns:
        The rows, as the object of a sentence; None if Paimon finds all of them.
    """
    if is_same_but_for_nullability(before, after):
        return None
    if not isinstance(before, AtomicType) or not isinstance(after, AtomicType):
        # Files have no bounds of rows, arrays and maps, so that conditions inside them skip no file.
        return None if before.root is after.root else _ROWS
    if judge_cast(with_nullability(before, True), with_nullability(after, True)).loss is not Loss.LOSSLESS:
        return _ROWS

    if before.root in _TEXTS_AND_BYTES:
        return None
    if before.root in _INTEGERS and _has_integer_layout(after):
        return _NEGATIVE
    has_same_layout = before.root is after.root and _layout(before) == _layout(after)
    return None if has_same_layout else _ROWS


def _has_integer_layout(data_type: AtomicType) -> bool:
    if data_type.root in _INTEGERS:
        return True
    return data_type.root is Root.DECIMAL and _layout(data_type) == (True, 0)


def _layout(data_type: AtomicType) -> tuple[bool, int]:
    """Return whether values are stored as one number, and the digits after the point of that number."""
    digits = int(data_type.arguments[0]) if data_type.arguments else 0
    if data_type.root is Root.DECIMAL:
        return digits <= _MAX_COMPACT_DIGITS, int(data_type.arguments[1])
    return digits <= _MAX_COMPACT_FRACTION, 0


def describe_missed_rows(change: Change, options: Mapping[str, str], *, min_paimon: int | None = None) -> str | None:
    """Return what queries miss after a change of a table that has rows; None if they miss nothing.

    Args:
        change: The change. Conditions on nested fields skip no files.
        options: The options of the table.
        min_paimon: The oldest major version of Paimon among the engines; None if the option of the table states it.
    """
    if change.kind is not ChangeKind.TYPE or len(change.path) > 1:
        return None
    if not _is_concerned(options, min_paimon):
        return None
    missed = find_missed_rows(parse_type(change.before), parse_type(change.after))
    return None if missed is None else _message(change.path[0], missed, "of existing files")


class MissedRows(NamedTuple):
    """What queries with a condition on a column miss in the files of a table.

    Attributes:
        column: The name of the column.
        schema_id: Files that were written before this schema are concerned.
        message: The whole fact, in words.
    """

    column: str
    schema_id: int
    message: str


def find_columns_with_missed_rows(schemas: Mapping[int, Schema]) -> list[MissedRows]:
    """Return the columns of the newest schema with conditions on which Paimon 1.x misses rows of older files.

    Args:
        schemas: The schemas of a branch by id, ascending.
    """
    if not schemas:
        return []
    newest = schemas[max(schemas)]
    if not _is_concerned(newest.options, None):
        return []
    columns = {field.id: field for field in newest.fields}
    missed_rows: dict[int, MissedRows] = {}

    # The last schema in which a column had another layout decides, so later ones replace what earlier ones say. What
    # is missed of any of them is missed of the files before it.
    worst: dict[int, str] = {}
    for schema_id, next_id in pairwise(schemas):
        for old in schemas[schema_id].fields:
            column = columns.get(old.id)
            missed = None if column is None else find_missed_rows(old.type, column.type)
            if column is None or missed is None:
                continue
            worst[column.id] = missed if worst.get(column.id) != _ROWS else _ROWS
            message = _message(column.name, worst[column.id], f"of files written before schema {next_id}")
            missed_rows[column.id] = MissedRows(column.name, next_id, message)
    return [missed_rows[column.id] for column in newest.fields if column.id in missed_rows]


def _is_concerned(options: Mapping[str, str], min_paimon: int | None) -> bool:
    oldest = read_min_paimon(options) if min_paimon is None else min_paimon
    return is_true(options, DATA_EVOLUTION) and oldest < FIXED_IN_VERSION


def _message(column: str, missed: str, files: str) -> str:
    return (
        f"because of {DATA_EVOLUTION}, queries of Paimon before {FIXED_IN_VERSION}.0 with a condition on "
        f"{format_sql_name(column)} miss {missed} {files}, or fail"
    )
