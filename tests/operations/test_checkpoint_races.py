"""Processes that checkpoint one table at the same time, and one that commits meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.log.segment import Hint, read_hint
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest
from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints
from deltacli.storage import Created, Storage, open_storage
from tests.differential.test_peers import PEERS, relative
from tests.support.actions import add, to_bytes
from tests.support.builder import HINT, TableBuilder, commit_path
from tests.support.checkpointing import FORMS, any_form_table, expired, write
from tests.support.peers import Task, ask, peer_python
from tests.support.reading import NOW_MS, open_at, state_document
from tests.support.s3 import S3Server
from tests.support.waiting import run_together

ROUNDS = 50
COMMITS = 4
"""That come in each round of the second race."""


def _checkpoints(uris: list[str], racer: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    _tell(answers, together, lambda uri, number: _checkpoint(uri, racer, number), uris)


def _checkpoint(uri: str, racer: int, number: int) -> object:
    form = FORMS[number % len(FORMS)]
    force = number % 5 == 4 and form.layout == "classic"
    result = write(open_at(open_storage(uri)), CheckpointRequest(**form.request(force=force)))
    return result.version, result.hint_version


def _commits(uris: list[str], racer: int, together: Barrier, answers: Any) -> None:
    _tell(answers, together, _commit, uris)


def _commit(uri: str, number: int) -> object:
    storage = open_storage(uri)
    first = any_form_table(FORMS[number % len(FORMS)]).newest + 1
    return [
        storage.put_if_absent(commit_path(first + count), next_commit(count)) == Created() for count in range(COMMITS)
    ]


def next_commit(count: int) -> bytes:
    return to_bytes([add(f"new-{count}.parquet", size=1, records=1)])


def _tell(answers: Any, together: Barrier, work: Callable[[str, int], object], uris: list[str]) -> None:
    found: list[object] = []
    try:
        for number, uri in enumerate(uris):
            together.wait()
            found.append(work(uri, number))
    except Exception as fault:  # noqa: BLE001  (it would only be seen in another process's stderr)
        together.abort()
        found += [repr(fault)] * (len(uris) - len(found))
    answers.put(found)


def race(uris: list[str], *works: Callable[..., None]) -> list[list[object]]:
    """Run these processes, each round behind a barrier; return the report of each process for each round."""
    return run_together([(work, (uris, racer)) for racer, work in enumerate(works)])


def check(storage: Storage, builder: TableBuilder) -> None:
    """Check that the newest state is right, in every checkpoint, and that the hint names an existing one."""
    table = open_at(storage)
    state = builder.states[-1]
    assert state_document(table) in [found.document(now_ms=NOW_MS) for found in (state, expired(state))]
    verdicts = [found.verdict for found in verify_checkpoints(table)]
    assert {CheckpointVerdict.AGREES} == set(verdicts)
    hint = read_hint(storage.read(HINT))
    assert isinstance(hint, Hint)
    segment = table.snapshot(version=hint.version).segment
    assert segment.checkpoint is not None
    assert hint.version == segment.checkpoint.version


def tables(count: int, put: Callable[[int, TableBuilder], str]) -> tuple[list[str], list[TableBuilder]]:
    builders = [any_form_table(FORMS[number % len(FORMS)]) for number in range(count)]
    return [put(number, builder) for number, builder in enumerate(builders)], builders


def on_disk(tmp_path: Path) -> Callable[[int, TableBuilder], str]:
    return lambda number, builder: str(builder.write(tmp_path / str(number)))


def in_bucket(server: S3Server) -> Callable[[int, TableBuilder], str]:
    bucket = server.make_bucket()

    def put(number: int, builder: TableBuilder) -> str:
        for path, file in builder.files.items():
            server.put(bucket, f"{number}/{path}", file.data)
        return f"s3://{bucket}/{number}"

    return put


def check_both_checkpoint(uris: list[str], builders: list[TableBuilder]) -> None:
    first, second = race(uris, _checkpoints, _checkpoints)
    wanted = [(builder.newest, builder.newest) for builder in builders]
    assert (wanted, wanted) == (first, second)
    for uri, builder in zip(uris, builders, strict=True):
        check(open_storage(uri), builder)


def check_one_commits(uris: list[str], builders: list[TableBuilder]) -> None:
    told, created = race(uris, _checkpoints, _commits)
    assert [[True] * COMMITS] * len(uris) == created
    for uri, builder, one in zip(uris, builders, told, strict=True):
        assert isinstance(one, tuple), one
        assert one[0] == one[1]
        assert builder.newest <= one[0] <= builder.newest + COMMITS
        for count in range(COMMITS):
            builder.commit(add(f"new-{count}.parquet", size=1, records=1))
        check(open_storage(uri), builder)


def check_peers(uris: list[str], builders: list[TableBuilder]) -> None:
    """Every other installed engine lists the live files of the model."""
    python = peer_python()
    if python is None:
        return  # where they are not installed; the gate installs them
    tasks = [Task(uri, uri, None) for uri in uris]
    expected = [sorted(add["path"] for add in builder.states[-1].live.values()) for builder in builders]
    for peer, script in PEERS.items():
        answers = ask(python, script, tasks)
        found = [
            sorted(relative(file.path, answer.task.path) for file in answer.files)
            if answer.files is not None
            else answer
            for answer in answers
        ]
        assert expected == found, peer


@pytest.mark.parametrize("rounds", [8, pytest.param(ROUNDS, marks=pytest.mark.soak)])
def test_two_processes_checkpoint_one_version(rounds: int, tmp_path: Path) -> None:
    uris, builders = tables(rounds, on_disk(tmp_path))
    check_both_checkpoint(uris, builders)
    check_peers(uris, builders)


@pytest.mark.parametrize("rounds", [8, pytest.param(ROUNDS, marks=pytest.mark.soak)])
def test_one_process_checkpoints_while_another_commits(rounds: int, tmp_path: Path) -> None:
    uris, builders = tables(rounds, on_disk(tmp_path))
    check_one_commits(uris, builders)
    check_peers(uris, builders)


@pytest.mark.halved
@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_two_processes_checkpoint_one_version_on_s3(rounds: int, s3: S3Server) -> None:
    check_both_checkpoint(*tables(rounds, in_bucket(s3)))


@pytest.mark.halved
@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_one_process_checkpoints_while_another_commits_on_s3(rounds: int, s3: S3Server) -> None:
    check_one_commits(*tables(rounds, in_bucket(s3)))
