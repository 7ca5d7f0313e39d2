"""Real checkpoint directories of the installed PySpark, of queries that read no table.

`python spark_checkpoints.py FILE` adds them to a JSON file: version of PySpark -> name of the query -> `files` (path ->
content, bytes as Latin-1), `batch` (the last finished one by Spark's own report). It runs in an environment without
deltacli.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

KEPT = ("metadata", "offsets", "commits", "sources/0/0")
V2 = "spark.sql.streaming.offsetLog.formatVersion"


def main(target: str) -> None:
    import pyspark
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "1")
    with tempfile.TemporaryDirectory() as place:
        found = dict(_all(session, Path(place)))
    path = Path(target)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | {pyspark.__version__: found}, indent=0, sort_keys=True) + "\n")


def _all(session: Any, place: Path) -> Iterator[tuple[str, Any]]:
    """Yield each query, stopped after a batch, and without the end of its last batch, as it is killed in it."""
    for log_format in (1, 2):
        session.conf.set(V2, str(log_format))
        for name, frame in _frames(session, place).items():
            for runs in (1, 3):
                title = f"{name}, {runs} runs, format {log_format}"
                checkpoint = place / "checkpoints" / title
                batch = _run(frame, place, checkpoint, runs)
                if log_format == 2 and not _is_v2(checkpoint):
                    continue  # this Spark has no second format
                yield title, {"files": _files(checkpoint), "batch": batch}
                if batch is None or runs == 1:
                    continue
                for path in (checkpoint / "commits" / str(batch), checkpoint / "commits" / f".{batch}.crc"):
                    path.unlink()
                yield f"{title}, killed", {"files": _files(checkpoint), "batch": batch - 1}


def _frames(session: Any, place: Path) -> dict[str, Callable[[], Any]]:
    def files(name: str) -> Any:
        (place / name).mkdir(exist_ok=True)
        return session.readStream.schema("value string").text(str(place / name))

    def rate() -> Any:
        return session.readStream.format("rate").load().selectExpr("cast(value as string) value")

    def counted() -> Any:
        options = {"rowsPerBatch": "5", "advanceMillisPerBatch": "1000", "startTimestamp": "0"}
        return session.readStream.format("rate-micro-batch").options(**options).load().selectExpr("string(value) value")

    return {
        "files": lambda: files("in"),
        "rate": rate,
        "batches of rows": counted,
        "files + batches of rows": lambda: files("in").union(counted()),
        "no files yet + batches of rows": lambda: files("none").union(counted()),
        "with a state": lambda: counted().dropDuplicates(["value"]),
        "no files yet": lambda: files("none"),
    }


def _run(frame: Callable[[], Any], place: Path, checkpoint: Path, runs: int) -> int | None:
    """Run a query so many times to the end of what is there, and return the last batch that Spark reports."""
    last = None
    for _ in range(runs):
        (place / "in").mkdir(exist_ok=True)
        (place / "in" / f"{len(list((place / 'in').iterdir()))}.txt").write_text("a\n")
        writer = frame().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(once=True).start()
        query.awaitTermination()
        done = [
            progress["batchId"]
            for progress in query.recentProgress
            if progress["durationMs"].get("addBatch") is not None
        ]
        last = max([*done, *([] if last is None else [last])], default=None)
    return last


def _is_v2(checkpoint: Path) -> bool:
    return any(one.read_bytes()[:2] == b"v2" for one in (checkpoint / "offsets").glob("[0-9]*"))


def _files(checkpoint: Path) -> dict[str, str]:
    found = sorted(one for one in checkpoint.rglob("*") if one.is_file())
    named = [(str(one.relative_to(checkpoint)), one) for one in found]
    return {path: one.read_bytes().decode("latin-1") for path, one in named if path.lstrip(".").startswith(KEPT)}


if __name__ == "__main__":
    main(sys.argv[1])
