"""Checkpoint directories that this Spark writes: the verdict is `dead` where its restart fails, and only there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.operations.streams.checkpoints import Verdict, find_checkpoints, worst
from deltacli.operations.streams.judge import judge
from deltacli.operations.streams.needs import read_history
from deltacli.spark import register
from deltacli.storage import open_storage
from tests.cluster.grown_tables import Grown
from tests.support.builder import commit_path
from tests.support.effort import sampled

LOG_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
Run = Callable[..., None]
Damage = Callable[[Path, Path], None]
"""What happens to a table and a checkpoint directory before the restart."""


def _nothing(_table: Path, _checkpoint: Path) -> None:
    """Stop the query, nothing else."""


def _unfinished(_table: Path, checkpoint: Path) -> None:
    """Kill the query between the plan of its last batch and the end of it."""
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def _without(path: str) -> Damage:
    def remove(table: Path, _checkpoint: Path) -> None:
        (table / path).unlink()

    return remove


def _cut(_table: Path, checkpoint: Path) -> None:
    """Lose the content of the newest offsets."""
    last = max(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    (checkpoint / "offsets" / f".{last}.crc").unlink(missing_ok=True)
    (checkpoint / "offsets" / str(last)).write_bytes(b"")


def _gap(_table: Path, checkpoint: Path) -> None:
    """Lose the offsets before the newest ones."""
    numbers = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    for number in numbers[:-1]:
        (checkpoint / "offsets" / str(number)).unlink()


DELIVERED, AHEAD, REWRITTEN = 2, 5, "part-000009.parquet"
"""Versions that are delivered before the stop, and are not; the file of the first, which is rewritten later."""
DAMAGES: dict[str, Damage] = {
    "nothing": _nothing,
    "the file from before a rewrite is gone": _without(REWRITTEN),
    "a commit ahead is gone": _without(commit_path(AHEAD)),
    "a commit that is delivered is gone": _without(commit_path(DELIVERED)),
    "the newest offsets are empty": _cut,
    "the offsets before are gone": _gap,
}


@pytest.fixture
def run(session: Any, setting: Callable[[str, str], None]) -> Run:  # Any: a SparkSession
    """Runs a query to the end of what is there."""
    register(session)

    def deliver(source: str, path: str, checkpoint: Path, *, log_format: int = 1, **options: object) -> None:
        setting(LOG_FORMAT, str(log_format))
        reader = session.readStream.format(source).options(**options)
        frame = reader.schema("id long").load(path) if source == "parquet" else reader.load(path)
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    return deliver


def _verdict(table: Path, checkpoint: Path) -> Verdict:
    opened = open_table(table)
    (found,) = find_checkpoints([str(checkpoint)], open_storage, opened.engine)
    own = [(found, one) for one in found.sources if one.table_id == opened.snapshot().metadata.id]
    judged = [judge(read_history(opened, own), *one) for one in own]
    return worst([found.finding, *(one.rows for one in judged)]).verdict


def _grown(root: Path) -> Grown:
    """A table of three commits with rows."""
    table = Grown(root)
    for _ in range(3):
        table.append()
    return table


def _grow_on(table: Grown) -> None:
    """Commit rows, rewrite the first file of them, and write a checkpoint."""
    added = table.append()
    table.append(files=2)
    table.rewrite(added[0])
    open_table(table.root).checkpoint()


@pytest.mark.skipif(os.environ.get("DELTACLI_CLUSTER", "local") != "local", reason="of the driver, whatever its kind")
@pytest.mark.parametrize("log_format", [1, 2])
def test_a_restart_fails_where_the_verdict_is_dead(log_format: int, run: Run, tmp_path: Path) -> None:
    table, checkpoint = _grown(tmp_path / "table"), tmp_path / "checkpoint"
    options: dict[str, object] = {
        "startingVersion": 0,
        "maxFilesPerTrigger": 1,
    }
    run("deltacli", str(table.root), checkpoint, log_format=log_format, **options)
    _grow_on(table)

    seen = set()
    for stop in (_nothing, _unfinished):
        for what, damage in sampled(list(DAMAGES.items()), 3):
            place = tmp_path / f"{stop.__name__} {what}".replace(" ", "-")
            copies = [Path(shutil.copytree(one, place / one.name)) for one in (table.root, checkpoint)]
            stop(*copies)
            damage(*copies)
            verdict = _verdict(*copies)
            try:
                run("deltacli", str(copies[0]), copies[1], log_format=log_format, **options)
                fault = None
            except Exception as raised:  # noqa: BLE001  (whatever ends the query)
                fault = str(raised)[:500]
            assert (verdict is Verdict.DEAD) == (fault is not None), (place.name, verdict, fault)
            seen.add(verdict)
    assert len(seen) > 1
