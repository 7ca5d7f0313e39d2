"""Every table of the corpus and every operation: the Spark engine does what the embedded one does.

Acceptance case 1: the newest version and an older one; plans, digests, row sets, written checkpoints and deleted files.
Run by `python3 dev.py soak spark` on each kind of cluster.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.delta.checkpoint.layout import Layout
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.engine import SparkEngine
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from tests.engine.test_run_tasks import _LARGEST, _NOW_MS, OPERATIONS, _findings, _written, answer_of
from tests.engine.test_run_tasks_of_vacuum import FAR_MS, expire, plan_of, vacuum
from tests.support import corpus, peers
from tests.support.corpus_checkpoints import (
    BEFORE_ALL_MS,
    CLASSIC,
    MULTI_PART,
    PARTS,
    ROWS_A_SIDECAR,
    V2_JSON,
    Form,
    copy_log,
    files_of,
    forms_of,
    leave_alone,
    open_copy,
    tombstones_of,
)

pytestmark = [pytest.mark.soak, pytest.mark.matrix]

TABLES = [table for table in corpus.tables() if _LARGEST not in table.id]
LARGEST = [table for table in corpus.tables() if _LARGEST in table.id]
OLDER: dict[str, Callable[[Table, int], Any]] = {  # Any: what is compared
    "counts": lambda table, version: table.snapshot(version=version).counts(),
    "checkpoint --dry-run": lambda table, version: table.checkpoint(version=version, dry_run=True).as_json(),
    "snapshot --digest": lambda table, version: summarize(
        table, version=version, digest=True, now_ms=_NOW_MS
    ).as_json(),
    "rows to a directory": lambda table, version: _written(
        table.snapshot(version=version).scan(limit=1_000).write_parquet
    ),
    "changes to a directory": lambda table, version: _written(
        table.changes(from_version=max(version - 1, 0), to_version=version, limit=1_000).write_parquet
    ),
    "files to a directory": lambda table, version: _written(
        partial(table.snapshot(version=version).write_files, tombstones=True)
    ),
}
NEWEST = {**OPERATIONS, "storage": _findings("storage")}


def older_version(table: corpus.CorpusTable) -> int | None:
    """The version in the middle of those that the manifest knows."""
    versions = [int(found["version"]) for found in table.versions]
    return versions[(len(versions) - 1) // 2] if len(versions) > 1 else None


@pytest.mark.parametrize("name", NEWEST)
def test_newest_versions(name: str, spark_engine: SparkEngine) -> None:
    for table in TABLES:
        uri = str(table.path(corpus.unpacked()))

        assert answer_of(NEWEST[name], uri, EmbeddedEngine()) == answer_of(NEWEST[name], uri, spark_engine), table.id


@pytest.mark.parametrize("name", ["counts", "snapshot --digest", "checkpoint --dry-run"])
def test_the_largest_table(name: str, spark_engine: SparkEngine) -> None:
    for table in LARGEST:
        uri = str(table.path(corpus.unpacked()))

        assert answer_of(NEWEST[name], uri, EmbeddedEngine()) == answer_of(NEWEST[name], uri, spark_engine), table.id


@pytest.mark.parametrize("name", OLDER)
def test_older_versions(name: str, spark_engine: SparkEngine) -> None:
    tried = 0
    for table in TABLES:
        version = older_version(table)
        if version is None:
            continue
        uri, operation = str(table.path(corpus.unpacked())), partial(_at, OLDER[name], version)

        assert answer_of(operation, uri, EmbeddedEngine()) == answer_of(operation, uri, spark_engine), table.id
        tried += 1

    assert tried > 100


def _at(operation: Callable[[Table, int], Any], version: int, table: Table) -> Any:  # Any: what is compared
    return operation(table, version)


def test_plans_of_vacuum(spark_engine: SparkEngine) -> None:
    for table in TABLES:
        place = table.path(corpus.unpacked())

        plans = [plan_of(_far(place, engine), include_foreign=True) for engine in (EmbeddedEngine(), spark_engine)]

        assert plans[0] == plans[1], table.id


def _far(place: Path, engine: Engine) -> Table:
    """A table at a time when all its files are old."""
    uri = str(place)
    return Table(open_storage(uri), engine=engine, clock=fixed_clock(FAR_MS), location=StoreLocation.of(uri))


# -- what is written ---------------------------------------------------------------------------------------------------


def form_of(table: corpus.CorpusTable, number: int) -> Form | None:
    """The form of checkpoint that a table gets: sidecars where they are allowed, and no parts beside others."""
    if table.newest is None:
        return None
    forms = forms_of(table, table.newest)
    names = os.listdir(table.path(corpus.unpacked()) / "_delta_log")
    has_one = any(name.startswith(f"{table.newest['version']:020d}.checkpoint") for name in names)
    if V2_JSON in forms:
        return V2_JSON
    return CLASSIC if has_one else (MULTI_PART, CLASSIC)[number % 2]


def _checkpoint(place: Path, form: Form, engine: Engine) -> tuple[Any, ...]:  # Any: what is compared
    """Write a checkpoint, and delete everything else of the log, so that other engines read it."""
    table = open_table(str(place), engine=engine, clock=fixed_clock(BEFORE_ALL_MS))
    parts = PARTS + 1 if form.layout is Layout.MULTI_PART else None
    rows = ROWS_A_SIDECAR if form.layout is Layout.V2 else None
    try:
        result = table.checkpoint(layout=form.layout.value, parts=parts, rows_per_file=rows, force=True)
        snapshot = open_copy(place).snapshot()
        state = files_of(snapshot), tombstones_of(snapshot)
        leave_alone(place, result)
    except DeltacliError as fault:
        return type(fault), fault.code
    return result.actions, result.hint_version, [file.rows for file in result.files], state


def _copies(
    tables: list[corpus.CorpusTable], place: Path, *, whole: bool
) -> list[tuple[corpus.CorpusTable, list[Path]]]:
    """Two copies of each table, one for each engine."""
    found = []
    for number, table in enumerate(tables):
        copies = [place / f"{number}-{engine}" / "t" for engine in ("embedded", "spark")]
        for copy in copies:
            if whole:
                shutil.copytree(table.path(corpus.unpacked()), copy, symlinks=True)
            else:
                copy_log(table, corpus.unpacked(), copy, with_data=True)
        found.append((table, copies))
    return found


def _read_by_others(copies: list[tuple[corpus.CorpusTable, list[Path]]]) -> int:
    """Check that other engines say the same of both copies, and return how often they could read one."""
    python = peers.peer_python()
    assert python is not None
    read = 0
    for script in ("with_deltalake.py", "with_duckdb.py"):
        tasks = [peers.Task(table.id, str(place), None) for table, places in copies for place in places]
        answers = peers.ask(python, script, tasks)
        for one, other in zip(answers[::2], answers[1::2], strict=True):
            assert _said(one) == _said(other), (script, one.task.table)
            read += one.files is not None
    return read


def _said(answer: peers.PeerAnswer) -> object:
    """What a peer says, without the place of the table and what differs from run to run."""
    if answer.files is None:
        return answer.refusal is None
    return sorted((os.path.basename(file.path), file.size_bytes, file.records) for file in answer.files)


def test_written_checkpoints(spark_engine: SparkEngine, tmp_path: Path) -> None:
    chosen = [table for table in TABLES if table.newest is not None]
    copies = _copies(chosen, tmp_path, whole=False)
    for number, (table, places) in enumerate(copies):
        form = form_of(table, number)
        assert form is not None
        answers = [_checkpoint(place, form, engine) for place, engine in _pairs(places, spark_engine)]

        assert answers[0] == answers[1], (table.id, form.name)

    assert _read_by_others(copies) > len(copies)


def test_vacuumed_and_expired_tables(spark_engine: SparkEngine, tmp_path: Path) -> None:
    copies = _copies(TABLES, tmp_path, whole=True)
    for table, places in copies:
        answers = []
        for place, engine in _pairs(places, spark_engine):
            answers.append([work(_far(place, engine)) for work in (vacuum, expire)])

        assert _told(answers[0]) == _told(answers[1]), table.id

    assert _read_by_others(copies) > len(copies)


def _pairs(places: list[Path], engine: SparkEngine) -> list[tuple[Path, Engine]]:
    return [(places[0], EmbeddedEngine()), (places[1], engine)]


def _told(answers: list[tuple[Any, ...]]) -> str:  # Any: outcomes and errors
    """What was done, without the place of the copy."""
    return json.dumps(answers, default=lambda value: sorted(value) if isinstance(value, set) else repr(value)).replace(
        "-embedded/", "-spark/"
    )
