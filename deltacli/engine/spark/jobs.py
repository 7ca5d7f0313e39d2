"""One job: a table of pieces in, a table of results out. Classic and Connect sessions take the same calls."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.engine.base import never
from deltacli.engine.spark.grouping import group
from deltacli.engine.spark.watching import TaskWatch
from deltacli.errors import ClusterFailed
from deltacli.progress import SILENT, Progress

if TYPE_CHECKING:
    from deltacli.engine.spark.cluster import Cluster
    from deltacli.engine.spark.worker import Job, Row

RESULT = "number long, status string, content binary"
PROBLEM = "problem"
"""Status of a row that tells why an executor could not even begin."""


def run_job(
    cluster: Cluster,
    job: Job,
    pieces: Sequence[bytes],
    weights: Sequence[int],
    slots: int,
    is_cancelled: Callable[[], bool] = never,
    progress: Progress = SILENT,
) -> list[Row]:
    """Run pickled pieces on executors and return their rows, ascending by number.

    Raises JobFailedError, CancelledError, and ClusterFailed unless each piece has one row.
    """
    from deltacli.engine.spark.worker import Row

    parts = group(weights, slots)
    tasks = max(parts) + 1
    with progress.step("on the cluster", unit="tasks", total=tasks) as step:
        watch = None if progress is SILENT else TaskWatch(tasks, step.advance)
        answers = cluster.run(_action(cluster, pickle.dumps(job), pieces, parts), is_cancelled, watch)
    columns = (answers.column(name).to_pylist() for name in ("number", "status", "content"))
    rows = sorted((Row(*row) for row in zip(*columns, strict=True)), key=lambda row: row.number)
    if [row.number for row in rows] != list(range(len(pieces))):
        raise ClusterFailed(
            f"the cluster returned {len(rows)} results for {len(pieces)} pieces", hint="run the same command again"
        )
    return rows


def _action(
    cluster: Cluster, job: bytes, pieces: Sequence[bytes], parts: Sequence[int]
) -> Callable[[], Any]:  # Any: a pyarrow.Table
    import pyarrow as pa

    from deltacli.engine.spark.worker import BEAT

    rows = pa.table(
        {
            "part": pa.array(parts, pa.int64()),
            "number": pa.array(range(len(pieces)), pa.int64()),
            "piece": pa.array(pieces, pa.binary()),
        }
    )

    def act() -> Any:  # Any: a pyarrow.Table
        frame = cluster.session.createDataFrame(rows)
        spread = frame.repartitionByRange(max(parts) + 1, "part")
        return spread.mapInArrow(_task(job), RESULT).where(f"status <> '{BEAT}'").toArrow()

    return act


def _task(job: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:  # Any: pyarrow.RecordBatch
    """Return the function of a Spark task. It is sent by value, so it also runs where deltacli is missing."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:  # Any: as above
        import pickle

        import pyarrow as pa

        def answer(rows: Sequence[tuple[int, str, bytes]]) -> Any:  # Any: as above
            numbers, statuses, contents = zip(*rows, strict=True)
            columns = [pa.array(numbers, pa.int64()), pa.array(statuses, pa.string()), pa.array(contents, pa.binary())]
            return pa.RecordBatch.from_arrays(columns, names=["number", "status", "content"])

        for batch in batches:
            pieces = list(zip(batch.column("number").to_pylist(), batch.column("piece").to_pylist(), strict=True))
            left = {number for number, _ in pieces}
            try:
                from deltacli.engine.spark.worker import run_pieces

                for row in run_pieces(pickle.loads(job), pieces):
                    left.discard(row.number)
                    yield answer([row])
            except ImportError as missing:
                text = f"{missing.name or ''}\n{missing}".encode()
                yield answer([(number, "problem", text) for number in sorted(left)])

    return run
