"""A query that is killed again and again, while commits arrive, delivers each row exactly once."""

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

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.gates import kill, of_session, wait_until
from tests.cluster.grown_tables import Grown
from tests.support.corpus import REPOSITORY

Rows = Counter[tuple[object, ...]]
KILLS, COMMITS = 10, 20
SECONDS = 600.0
"""To wait for a query, whose start takes a minute on a busy machine."""


@pytest.mark.soak
@pytest.mark.skipif(os.environ.get("DELTACLI_CLUSTER", "local") != "local", reason="the driver is one that is killed")
@pytest.mark.parametrize("changes", [False, True])
def test_ten_kills_while_200_commits_arrive(changes: bool, tmp_path: Path) -> None:
    table, place, told = Grown(tmp_path / "table"), tmp_path / "query", Rows()
    place.mkdir()
    only = {"readChangeFeed": True} if changes else {"skipChangeCommits": True}
    options = {"startingVersion": 0, "maxFilesPerTrigger": 2, **only}
    for kills in range(KILLS):
        least = _batches(place) + 1 + kills % 3
        query = _start(table.root, place, options)
        try:
            for step in range(COMMITS):
                told += _grow(table, step, changes=changes)
            wait_until(lambda least=least: _batches(place) >= least, SECONDS)  # type: ignore[misc]
        finally:
            _kill(query)
    query = _start(table.root, place, options | {"maxFilesPerTrigger": 50})
    try:
        wait_until(lambda: told == _rows(place), SECONDS)
        table.set_columns(b=pa.string())
        table.append()
        wait_until((place / "error").exists, SECONDS)
    finally:
        _kill(query)

    assert "[stream.schema-changed]" in (place / "error").read_text()
    assert told == _rows(place)


def _grow(table: Grown, step: int, *, changes: bool) -> Rows:
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


def _start(table: Path, place: Path, options: Mapping[str, object]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.cluster.stream_query", str(table), str(place), json.dumps(options)]
    settings = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    with (place / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=settings, start_new_session=True)


def _kill(query: subprocess.Popen[bytes]) -> None:
    for process in of_session(query.pid):
        with suppress(ProcessLookupError):  # ended with the one before it
            kill(process)
    query.wait()


def _batches(place: Path) -> int:
    """The number of batches that a query has finished."""
    commits = place / "checkpoint" / "commits"
    return max((int(path.name) + 1 for path in commits.glob("*") if path.name.isdigit()), default=0)


def _rows(place: Path) -> Rows:
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
