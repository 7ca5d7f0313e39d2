"""Processes that commit to one table at the same time, and other engines that read what came of it."""

from __future__ import annotations

from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing.commit import Committed, commit
from deltacli.changing.commit_options import CommitOptions
from deltacli.core.machine import system_clock
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.storage import open_storage
from deltacli.table.version import Snapshot
from tests.differential.test_peers import PEERS
from tests.support.committing import (
    STAMPED,
    Make,
    commits,
    count_up,
    count_up_domain,
    infos,
    run,
    say,
    table_of_commits,
)
from tests.support.peers import Task, ask, peer_python
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.waiting import run_together

SUPPORTED = ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "clustering")


def request_of(number: int, racer: int) -> Make:
    """What a racer commits next."""
    kinds = (count_up(), count_up_domain("count"), count_up_domain(f"of {racer}"), say(), one_more_feature(racer))
    return kinds[number % len(kinds)]


def one_more_feature(number: int) -> Make:
    """Add one more writer feature, or say something where all are there."""

    def make(snapshot: Snapshot) -> CommitRequest:
        names = snapshot.protocol.writer_features or ()
        missing = [name for name in SUPPORTED if name not in names]
        if not missing:
            return CommitRequest("NOTHING TO ADD")
        chosen = missing[number % len(missing)]
        return CommitRequest("ADD FEATURE", protocol=snapshot.protocol.as_json() | {"writerFeatures": [*names, chosen]})

    return make


def _commit(uri: str, racer: int, count: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    found: list[object] = []
    try:
        table = Table(open_storage(uri), clock=system_clock)
        together.wait()
        for number in range(count):
            done = commit(table, request_of(racer + number, racer), options=CommitOptions(max_attempts=1_000))
            assert isinstance(done, Committed)
            found.append((done.version, done.txn_id))
    except Exception as fault:  # noqa: BLE001  (it would only be seen in another process's stderr)
        together.abort()
        found.append(repr(fault))
    answers.put(found)


def race(uri: str, *, racers: int, count: int) -> list[Any]:  # Any: (version, txnId), or a fault
    told = run_together([(_commit, (uri, racer, count)) for racer in range(racers)])
    return [one for found in told for one in found]


def check_race(uri: str, told: list[Any], commits_made: int, before: int) -> None:  # Any: as in `race`
    """Every success is in the log exactly once, nothing was lost, and no writer overwrote another."""
    storage = open_storage(uri)
    assert commits_made == len(told)
    found = infos(storage)
    assert before + commits_made == len(found)
    assert sorted(told) == [(version, info.get("txnId")) for version, info in enumerate(found)][before:]
    operations = Counter(info["operation"] for info in found)
    snapshot = open_at(storage).snapshot()
    assert operations["SET TBLPROPERTIES"] == int(snapshot.properties["count"])
    assert operations["SET DOMAIN"] == sum(int(domain.configuration) for domain in snapshot.domains)
    assert 2 + operations["ADD FEATURE"] == len(snapshot.protocol.writer_features or ())
    assert [info["readVersion"] + 1 for info in found[before:]] == list(range(before, len(found)))
    stamps = [info["inCommitTimestamp"] for info in found]
    assert stamps == sorted(set(stamps))
    errors = [finding for finding in open_at(storage).validate().findings if finding.severity == "error"]
    assert [] == errors


@pytest.mark.parametrize(
    ("racers", "count"), [(3, 5), pytest.param(8, 25, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_processes_that_commit_together_lose_nothing(racers: int, count: int, tmp_path: Path) -> None:
    place = table_of_commits(3, STAMPED).write(tmp_path / "table")

    told = race(str(place), racers=racers, count=count)

    check_race(str(place), told, racers * count, 3)


@pytest.mark.halved
@pytest.mark.parametrize(
    ("racers", "count"), [(2, 4), pytest.param(4, 10, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_processes_that_commit_together_on_s3_lose_nothing(racers: int, count: int, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for path, file in table_of_commits(3, STAMPED).files.items():
        s3.put(bucket, f"table/{path}", file.data)
    uri = f"s3://{bucket}/table"

    told = race(uri, racers=racers, count=count)

    check_race(uri, told, racers * count, 3)


@pytest.mark.parametrize("peer", PEERS)
def test_other_engines_read_a_table_after_our_commits(peer: str, tmp_path: Path) -> None:
    python = peer_python()
    if python is None:
        pytest.skip("no environment with peers")
    tasks = []
    for name, configuration in (("plain", {}), ("stamped", STAMPED)):
        place = table_of_commits(3, configuration).write(tmp_path / name)
        storage = open_storage(str(place))
        for number, make in enumerate((count_up(), say(), count_up_domain(), one_more_feature(0), one_more_feature(0))):
            run(storage, make, txn_id=f"{number}")
        assert 8 == len(commits(storage))
        tasks += [Task(name, str(place), version) for version in (*range(2, 8), None)]

    for answer in ask(python, PEERS[peer], tasks):
        assert answer.files is not None, answer
        assert 3 == len(answer.files), answer
