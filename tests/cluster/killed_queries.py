"""Queries that are killed while commits arrive: how they are started and ended, and what they delivered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from tests.cluster.gates import kill, of_session
from tests.cluster.grown_tables import Grown
from tests.support.material import REPOSITORY

Rows = Counter[tuple[object, ...]]
SECONDS = 600.0
"""To wait for a query, whose start takes a minute on a busy machine."""


def grow(table: Grown, step: int, *, changes: bool) -> Rows:
    """Commit rows, a delete by a vector after them, or an optimize; return what a stream delivers of it."""
    first, deleted = table.rows, list[int]()
    files = table.append(files=1 + step % 2)
    if step % 5 == 3:
        table.delete(files[0], [0, 2])
        deleted = [first, first + 2]
    if step % 5 == 4:
        table.rewrite(files[0])
    if not changes:
        return Rows((row,) for row in range(first, table.rows))
    return Rows((row, "insert") for row in range(first, table.rows)) + Rows((row, "delete") for row in deleted)


def start_query(
    table: Path | str, place: Path, options: Mapping[str, object], source: str = "deltacli"
) -> subprocess.Popen[bytes]:
    """Start a query of a data source, whose output and checkpoint are in `place`."""
    command = [sys.executable, "-m", "tests.cluster.stream_query", str(table), str(place), json.dumps(options), source]
    settings = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    with (place / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=settings, start_new_session=True)


def kill_query(query: subprocess.Popen[bytes]) -> None:
    """End a query and all of its processes without warning."""
    for process in of_session(query.pid):
        with suppress(ProcessLookupError):  # ended with the one before it
            kill(process)
    query.wait()


def finished_batches(place: Path) -> int:
    """The number of batches that a query has finished."""
    commits = place / "checkpoint" / "commits"
    return max((int(path.name) + 1 for path in commits.glob("*") if path.name.isdigit()), default=0)


def delivered_rows(place: Path) -> Rows:
    """The rows in the files of finished batches: Spark's sink names them in a log, and leaves those of others."""
    names = {
        unquote(urlparse(json.loads(line)["path"]).path)
        for path in (place / "out" / "_spark_metadata").glob("[0-9]*")
        for line in path.read_text().splitlines()[1:]
    }
    found = Rows()
    for name in names:
        rows = pq.read_table(name, partitioning=None).to_pylist()
        found += Rows(tuple(row[column] for column in ("id", "_change_type") if column in row) for row in rows)
    return found
