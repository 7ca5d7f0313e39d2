"""Checkpoints that unpack to far more than they take on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import birth
from tests.support.builder import LOG
from tests.support.checkpoints import Shape, checkpoint_schema

_SHAPE = Shape()


def write(place: Path, adds: dict[str, Any], *, rows: int, **options: Any) -> Path:  # Any: pyarrow has no types
    """A table of one classic checkpoint: its small actions, and a row group of `rows` adds in the given columns."""
    add = pa.StructArray.from_arrays(list(adds.values()), names=list(adds))
    types = checkpoint_schema(_SHAPE)
    small = {
        kind: pa.array([_pairs(line.get(kind)) for line in birth()], types[kind]) for kind in ("protocol", "metaData")
    }
    (place / LOG).mkdir(parents=True, exist_ok=True)
    schema = pa.schema([*((kind, types[kind]) for kind in small), ("add", add.type)])
    with pq.ParquetWriter(place / LOG / f"{0:020d}.checkpoint.parquet", schema, **options) as writer:
        writer.write_table(pa.table({**small, "add": pa.nulls(2, add.type)}, schema=schema))
        writer.write_table(
            pa.table({**{kind: pa.nulls(rows, types[kind]) for kind in small}, "add": add}, schema=schema),
            row_group_size=rows,
        )
    return place


def repeated(text: str, rows: int) -> Any:  # Any: pyarrow has no types
    """One text in every row, kept once."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([text]))


def _pairs(action: dict[str, Any] | None) -> dict[str, Any] | None:  # Any: JSON values
    """Maps as pyarrow takes them; those of a new table are empty."""
    if action is None:
        return None
    return {name: [] if name == "configuration" else value for name, value in action.items() if name != "format"}
