"""What runs on an executor: read the rows of pieces of a table. Imports nothing that only the driver needs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.engine.spark.worker import context_of
from deltacli.errors import DeltacliError
from deltacli.work.outputs.rows import rows_of_piece

if TYPE_CHECKING:
    import pyarrow

    from deltacli.work.task import TaskContext

SPEC = "spec"
"""The name of the shared `ReadSpec`."""


def read_piece(piece: Any, context: TaskContext) -> Iterator[pyarrow.RecordBatch]:  # Any: a RowsPiece
    """Yield the rows of a piece as the shared `ReadSpec` describes them."""
    return rows_of_piece(context.files, context.shared(SPEC), piece)


def rows_of_pieces(job: bytes, pieces: Sequence[bytes]) -> Iterator[Any]:  # Any: pyarrow.RecordBatch
    """Yield the rows of pickled pieces as the job reads them.

    Raises RuntimeError, whose text begins with the code of the error: Spark shows it within a traceback.
    """
    try:
        described = pickle.loads(job)
        context = context_of(described)
        for piece in pieces:
            yield from described.task(pickle.loads(piece), context)
    except DeltacliError as fault:
        facts = "".join(f"; {name}: {value}" for name, value in fault.facts.items())
        raise RuntimeError(f"[{fault.code}] {fault.message}{facts}") from None
