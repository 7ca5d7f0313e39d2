"""Processes at one table at the same time: two vacuums, and vacuums among writers that add and remove files."""

from __future__ import annotations

import os
from collections import Counter, deque
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.operations.vacuum import execute as deleting
from deltacli.storage import Created, open_storage
from tests.support.actions import Line, add, birth, commit_info, remove, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.committing import commits, infos
from tests.support.s3 import S3Server
from tests.support.vacuuming import data_of
from tests.support.waiting import run_together

FAR_MS = 4_102_444_800_000
"""2100: what is written now is old then, but for what is dated to then."""
FILES = 120
COMMITS_A_ROUND = 4


def vacuum_once(uri: str, together: Barrier, answers: Any) -> None:  # Any: a queue
    deleting.FILES_A_BATCH = 10
    table = Table(open_storage(uri), clock=fixed_clock(FAR_MS))
    try:
        together.wait()
        outcome = table.vacuum(max_delete="100%", threads=2).outcome
        assert outcome is not None
        answers.put((outcome.deleted.files, outcome.missing, outcome.failed.count, outcome.end_problem))
    except Exception as fault:  # noqa: BLE001  (it would only be seen in another process's stderr)
        together.abort()
        answers.put(repr(fault))


def table_of_garbage() -> TableBuilder:
    """Half of the files were removed."""
    names = [f"p={number % 3}/f-{number}.parquet" for number in range(FILES)]
    builder = TableBuilder().commit(commit_info(), *birth(), *(add(name) for name in names))
    builder.commit(commit_info(), *(remove(name) for name in names[FILES // 2 :]))
    for name in names:
        builder.file(name, b"x")
    return builder


def check_twins(told: list[Any], uri: str) -> None:  # Any: as `vacuum_once` puts it
    deleted, missing, failures, problems = zip(*told, strict=True)
    assert (0, 0, [None, None]) == (*failures, list(problems)), told
    assert all(found + gone <= FILES // 2 for found, gone in zip(deleted, missing, strict=True)), told
    operations = Counter(info["operation"] for info in infos(open_storage(uri)))
    assert operations["VACUUM START"] == operations["VACUUM END"] <= 2


def test_two_vacuums_at_once_delete_each_file_once(tmp_path: Path) -> None:
    place = table_of_garbage().write(tmp_path / "t")

    told = run_together([(vacuum_once, (str(place),))] * 2)

    check_twins(told, str(place))
    assert FILES // 2 == sum(deleted for deleted, *_ in told)
    left = {path for path in data_of(place) if not path.endswith("/")}
    assert {f"p={number % 3}/f-{number}.parquet" for number in range(FILES // 2)} == left


@pytest.mark.long
def test_two_vacuums_at_once_on_s3(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for path, file in table_of_garbage().files.items():
        s3.put(bucket, f"t/{path}", file.data)

    told = run_together([(vacuum_once, (f"s3://{bucket}/t",))] * 2)

    check_twins(told, f"s3://{bucket}/t")
    left = {key for key in s3.keys(bucket) if f"/{LOG}/" not in key}
    assert {f"t/p={number % 3}/f-{number}.parquet" for number in range(FILES // 2)} == left


def commit_after_reading(place: Path, lines: list[Line]) -> None:
    """Commit after the newest version, repeatedly until no other writer is first."""
    storage = open_storage(str(place))
    while True:
        newest = Table(storage, clock=fixed_clock(FAR_MS)).snapshot()
        deque(newest.files(), maxlen=0)
        if isinstance(storage.put_if_absent(commit_path(newest.version + 1), to_bytes(lines)), Created):
            return


def dated(place: Path, seconds: int) -> None:
    os.utime(place, (seconds, seconds))


def write_on(uri: str, writer: int, rounds: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    """Add files, which are young until they are committed, and remove each when it has grown old."""
    root, mine = Path(uri), list[str]()
    try:
        for number in range(rounds * COMMITS_A_ROUND):
            if not number % COMMITS_A_ROUND:
                together.wait()
            name = f"p={number % 3}/w-{writer}-{number}.parquet"
            draft = root.parent / f"draft-{writer}"
            draft.write_bytes(b"x")
            dated(draft, FAR_MS // 1_000)
            draft.rename(root / name)  # no vacuum sees it with another time
            gone = [mine.pop(0) for _ in range(min(2, len(mine) // 2))]
            commit_after_reading(root, [commit_info(), add(name), *(remove(path, deleted_ms=1) for path in gone)])
            dated(root / name, 1)
            mine.append(name)
        answers.put(("writer", 0))
    except Exception as fault:  # noqa: BLE001
        together.abort()
        answers.put(("fault", repr(fault)))


def vacuum_on(uri: str, rounds: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    """Vacuum in each round, and once when all is written."""
    deleting.FILES_A_BATCH = 2
    deleted = 0
    try:
        for number in range(rounds + 1):
            if number < rounds:
                together.wait()
            outcome = Table(open_storage(uri), clock=fixed_clock(FAR_MS)).vacuum(max_delete="100%").outcome
            assert outcome is not None
            assert 0 == outcome.failed.count
            deleted += outcome.deleted.files
        answers.put(("vacuum", deleted))
    except Exception as fault:  # noqa: BLE001
        together.abort()
        answers.put(("fault", repr(fault)))


@pytest.mark.parametrize(
    ("writers", "rounds"), [(2, 4), pytest.param(4, 25, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_vacuums_among_writers_delete_nothing_live(writers: int, rounds: int, tmp_path: Path) -> None:
    builder = TableBuilder().commit(commit_info(), *birth(), *(add(f"p={n}/first.parquet") for n in range(3)))
    for number in range(3):
        builder.file(f"p={number}/first.parquet", b"x")
    place = builder.write(tmp_path / "t")

    told = run_together(
        [*((write_on, (str(place), writer, rounds)) for writer in range(writers)), (vacuum_on, (str(place), rounds))]
    )

    assert {"writer", "vacuum"} == {kind for kind, _ in told}, told
    table = Table(open_storage(str(place)), clock=fixed_clock(FAR_MS))
    last = table.vacuum(max_delete="100%").outcome
    live = {path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()}
    assert live == {path for path in data_of(place) if not path.endswith("/")}
    removed = [action["path"] for actions in commits(table.writable()) for kind, action in actions if kind == "remove"]
    deleted = 0 if last is None else last.deleted.files
    assert len(removed) == deleted + sum(number for kind, number in told if kind == "vacuum")
    operations = Counter(info["operation"] for info in infos(table.writable()))
    assert 1 + writers * rounds * COMMITS_A_ROUND == operations["WRITE"]
    assert operations["VACUUM START"] == operations["VACUUM END"] >= rounds // 2
