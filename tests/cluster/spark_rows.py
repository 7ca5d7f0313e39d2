"""Rows of a Spark frame in the form in which rows of our own scan are compared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.support.row_counts import Rows, count_rows


def counts_of(frame: Any) -> Rows:  # Any: a pyspark.sql.DataFrame
    """Run a frame and return its rows."""
    rows: pa.Table = frame.toArrow()
    return count_rows([_with_variants_as_stored(rows)], rows.schema.names)


def _with_variants_as_stored(rows: pa.Table) -> pa.Table:
    """Return the rows with the two parts of variants in the order of our own scan."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_struct(field.type) and [part.name for part in field.type] == ["value", "metadata"]:
            column = rows.column(position).combine_chunks()
            parts = [column.field("metadata"), column.field("value")]
            swapped = pa.StructArray.from_arrays(parts, ["metadata", "value"], mask=column.is_null())
            rows = rows.set_column(position, field.name, swapped)
    return rows
