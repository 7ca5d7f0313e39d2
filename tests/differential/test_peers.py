"""Other engines on the same tables: live paths, sizes and records are equal, but for the known differences."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.core.ranges import format_ranges
from deltacli.storage import open_storage
from tests.differential.known import DIFFERENCES
from tests.support import corpus
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerAnswer, PeerFile, Task, ask, has_peer, peer_python

PEERS = {"deltalake": "with_deltalake.py", "duckdb": "with_duckdb.py"}
NOW_MS = 1_767_225_600_000


@pytest.fixture(scope="module")
def root() -> Path:
    """The unpacked corpus."""
    return corpus.unpacked()


@pytest.mark.soak
@pytest.mark.parametrize("peer", PEERS)
def test_peers_see_the_same_files_but_for_the_known_differences(peer: str, root: Path) -> None:
    expected = {(known.table, known.what): known.versions for known in DIFFERENCES if known.peer == peer}

    answers = ask(interpreter(peer), PEERS[peer], tasks(root))

    assert len(tasks(root)) == len(answers)
    assert expected == differences(answers)


@pytest.mark.halved
@pytest.mark.parametrize("peer", PEERS)
def test_peers_see_the_same_files_in_the_newest_versions(peer: str, root: Path) -> None:
    newest = [task for task in tasks(root) if task.version is None]
    known = {(known.table, known.what) for known in DIFFERENCES if known.peer == peer and is_of_newest(known.versions)}

    answers = ask(interpreter(peer), PEERS[peer], newest)

    assert len(newest) == len(answers)
    assert known == set(differences(answers))


def interpreter(peer: str) -> str:
    """That of an environment which has the peer; a test without one is skipped."""
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    if not has_peer(python, peer):
        pytest.skip(f"{python} has no {peer}")
    return python


def is_of_newest(versions: str) -> bool:
    """True for versions in words with the newest among them."""
    return versions == "all" or "newest" in versions


def test_every_known_difference_has_a_reason_and_a_table() -> None:
    ids = {table.id for table in corpus.tables()}

    assert all(known.reason and known.peer in PEERS for known in DIFFERENCES)
    assert len(DIFFERENCES) == len({(known.peer, known.table, known.what) for known in DIFFERENCES})
    assert {known.table for known in DIFFERENCES} <= ids


def tasks(root: Path) -> list[Task]:
    """The newest version of every table as the peer finds it, and every version of the manifest by its number."""
    return [
        Task(table.id, str(table.path(root)), version)
        for table in corpus.tables()
        for version in [None, *(found["version"] for found in table.versions)]
    ]


def differences(answers: list[PeerAnswer]) -> dict[tuple[str, str], str]:
    """(table, what differs) -> in which versions."""
    found: dict[tuple[str, str], list[int | None]] = {}
    asked: Counter[str] = Counter()
    for answer in answers:
        asked[answer.task.table] += 1
        what = difference(answer)
        if what is not None:
            found.setdefault((answer.task.table, what), []).append(answer.task.version)
    return {(table, what): describe(versions, asked[table]) for (table, what), versions in found.items()}


def describe(versions: list[int | None], asked: int) -> str:
    """Versions in words: `all`, `newest`, `newest, 3-5`."""
    if len(versions) == asked:
        return "all"
    numbers = [version for version in versions if version is not None]
    return ", ".join((["newest"] if None in versions else []) + ([format_ranges(numbers)] if numbers else []))


def difference(answer: PeerAnswer) -> str | None:
    """Return how the peer's answer differs from ours; None if they agree or both refuse."""
    ours = our_files(answer.task)
    if answer.crash is not None:
        return "crashes"
    if ours is None:
        return None if answer.files is None else "reads"
    if answer.files is None:
        return "refuses"
    theirs = [PeerFile(relative(file.path, answer.task.path), file.size_bytes, file.records) for file in answer.files]
    if Counter(file.path for file in ours) != Counter(file.path for file in theirs):
        return "paths"
    if any(file.size_bytes is not None for file in theirs) and sizes(list(ours)) != sizes(theirs):
        return "sizes"
    return None if records(list(ours)) == records(theirs) else "records"


def sizes(files: list[PeerFile]) -> Counter[tuple[str, int | None]]:
    return Counter((file.path, file.size_bytes) for file in files)


def records(files: list[PeerFile]) -> Counter[tuple[str, int | None]]:
    return Counter((file.path, file.records) for file in files)


def relative(path: str, table: str) -> str:
    """A path as duckdb gives it, absolute and decoded, or as the log has it, in one spelling."""
    return path.removeprefix(f"{table}/") if path.startswith(f"{table}/") else unquote(path)


@cache
def our_files(task: Task) -> tuple[PeerFile, ...] | None:
    """The live files as deltacli lists them; None where it refuses."""
    table = Table(open_storage(task.path), clock=fixed_clock(NOW_MS))
    try:
        snapshot = table.snapshot(version=task.version)
    except DeltacliError:
        return None
    files: list[PeerFile] = []
    for batch in snapshot.files():
        columns = (batch.column(name).to_pylist() for name in ("path", "size", "stats"))
        files += [PeerFile(unquote(path), size, recorded(stats)) for path, size, stats in zip(*columns, strict=True)]
    return tuple(files)


def recorded(stats: str | None) -> int | None:
    """numRecords of the statistics as listed."""
    found = json.loads(stats) if stats else None
    records: int | None = found.get("numRecords") if isinstance(found, dict) else None
    return records
