"""Rows that Spark's own scan cannot read right, read by our own scan on executors.

The rows go through Python, which is several times slower than Spark's scan, and right for every file that `Scan` reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from deltacli.core.errors import Unreadable
from deltacli.core.typing import RecordBatch, SparkFrame, SparkSession
from deltacli.delta.schema.types import PrimitiveType, StructField, holds
from deltacli.engine.spark.engine import SparkEngine
from deltacli.engine.spark.tasks import group, spread_frame
from deltacli.spark.executor_rows import SPEC, read_piece
from deltacli.work.outputs.rows import plan_pieces
from deltacli.work.rows.data_files import DataFile, ReadSpec

if TYPE_CHECKING:
    from deltacli.work.task import TableStores

_VARIANT = PrimitiveType("variant")
_engines: WeakKeyDictionary[Any, SparkEngine] = WeakKeyDictionary()


def engine_of(session: SparkSession) -> SparkEngine:
    """Return the engine of a session, one for all plans, because its first job takes a second."""
    engine = _engines.get(session)
    if engine is None:
        engine = _engines[session] = SparkEngine(session)
    return engine


def rows_through_python(
    session: Any, stores: TableStores, spec: ReadSpec, files: Iterable[DataFile], schema: Any
) -> SparkFrame:
    """Return the rows of files as a frame of a schema of Spark, as `read_rows` reads them.

    Raises what `SparkEngine.prepare` raises. An action raises an error of Spark whose text begins with the code of
    our own: `[data.file-missing] …`.
    """
    import pyarrow as pa

    require_no_nested_variant(spec.columns)
    pieces = list(plan_pieces(files))
    if not pieces:
        return session.createDataFrame([], schema)
    engine = engine_of(session)
    shared: Mapping[str, Any] = {SPEC: spec}
    job = pickle.dumps(engine.prepare(read_piece, shared, stores))
    parts = group([piece.weight for piece in pieces], engine.slots)
    pickled = pa.array([pickle.dumps(piece, pickle.HIGHEST_PROTOCOL) for piece in pieces], pa.binary())
    spread = spread_frame(session, parts, piece=(pickled, "binary"))
    return spread.mapInArrow(_task(job), schema)


def require_no_nested_variant(columns: Iterable[StructField]) -> None:
    """Raise Unreadable for a variant within another type, which Spark would take in another order of its parts."""
    for column in columns:
        if column.data_type != _VARIANT and holds(column.data_type, _VARIANT):
            raise Unreadable(
                f"column {column.name} has a variant within another type, which deltacli does not read on executors",
                code="schema.unknown-type",
                facts={"column": column.name},
                hint="read the other columns: columns=[…]",
            )


def _task(job: bytes) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function of a Spark task. It is sent by value."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from deltacli.spark.executor_rows import rows_of_pieces

        for batch in batches:
            yield from rows_of_pieces(job, batch.column("piece").to_pylist())

    return run
