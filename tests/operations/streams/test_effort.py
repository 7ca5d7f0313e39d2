"""How many requests the directories of queries cost on an object store: a plan, a refusal, each further look."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.many_values import KeyIndex
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.streams.checkpoints import find_checkpoints
from deltacli.operations.streams.streams import StreamsRequest, find_streams
from deltacli.operations.vacuum.full_plan import vacuum
from deltacli.operations.vacuum.plan import VacuumPlan, VacuumRequest
from deltacli.storage import LocalStorage, open_storage
from deltacli.storage.s3.options import S3Options, make_client
from tests.operations.streams.checkpoints import Checkpoint, delta, standing
from tests.operations.streams.tables import NEWEST, History
from tests.operations.streams.test_guard import DEAD, LATER_MS, WITH_GARBAGE
from tests.support.effort import is_soaking
from tests.support.s3 import S3Server
from tests.support.vacuum_hazards import plan_of

DIRECTORIES = 1_000 if is_soaking() else 50
EACH = 6
"""Two listings, and four reads: two offsets, the newest commit file, and the id of the query."""


def _queries(s3: S3Server, count: int, checkpoint: Checkpoint, *, state: int = 1) -> str:
    """Put so many directories into a bucket, each with files of state, and return the pattern."""
    bucket = s3.make_bucket()
    files = {"metadata": b'{"id":"q"}', **checkpoint.files, "sources/0/0": b"v1\n"}
    files |= {f"state/0/{number}/1.delta": b"x" for number in range(state)}
    for number in range(count):
        for path, data in files.items():
            s3.put(bucket, f"chk/q{number}/{path}", data)
    s3.requests.clear()
    return f"s3://{bucket}/chk/*"


def _table(place: Path) -> Table:
    root = History(WITH_GARBAGE).write(place)
    return Table(LocalStorage(str(root)), clock=fixed_clock(LATER_MS), open_other=open_storage)


@pytest.mark.long
def test_a_directory_costs_few_requests_in_a_plan_and_in_a_look_again(s3: S3Server, tmp_path: Path) -> None:
    pattern = _queries(s3, DIRECTORIES, standing(delta(15)))
    table = _table(tmp_path)

    plan = plan_of(table, protect_streams=[pattern])
    planned = len(s3.requests)
    vacuum(table, VacuumRequest(log_entries=False), plan)

    assert plan.streams is not None
    assert DIRECTORIES == len(plan.streams.queries)
    for requests in (planned, len(s3.requests) - planned):
        assert requests <= EACH * DIRECTORIES + 5
    assert not [path for _, path, query in s3.requests if "state" in f"{path}{query}"]


@pytest.mark.parametrize("checkpoint", [DEAD, standing("v9")], ids=["dead", "unreadable"])
def test_a_refusal_adds_at_most_two_requests_per_query(checkpoint: Checkpoint, s3: S3Server, tmp_path: Path) -> None:
    plans: list[VacuumPlan] = []
    requests: list[int] = []
    for chosen in (standing(delta(15)), checkpoint):
        pattern = _queries(s3, 10, chosen)
        plans.append(plan_of(_table(tmp_path / str(len(plans))), protect_streams=[pattern]))
        requests.append(len(s3.requests))

    assert requests[1] <= requests[0] + 2 * 10
    assert not plans[0].refusals


def _cost(s3: S3Server, pattern: str) -> tuple[int, int, int]:
    """Read the directories; return the number of reads, of pages of all keys and of listings of a directory."""
    s3.requests.clear()
    assert find_checkpoints([pattern], open_storage, EmbeddedEngine())
    listings = [query for _, _, query in s3.requests if "list-type" in query]
    pages = [query for query in listings if "delimiter" not in query and "max-keys" not in query]
    one_key = [query for query in listings if "max-keys" in query]
    reads = s3.asked("GET") - len(listings)
    return reads, len(pages), len(listings) - len(pages) - len(one_key)


@pytest.mark.parametrize(("checkpoint", "each"), [(standing(delta(15)), 4), (standing(delta(15), batch=0), 3)])
def test_small_directories_cost_their_reads_and_a_listing_per_page(
    checkpoint: Checkpoint, each: int, s3: S3Server
) -> None:
    costs = [_cost(s3, _queries(s3, count, checkpoint)) for count in (20, 40)]

    assert [(20 * each, 1, 1), (40 * each, 1, 1)] == costs


@pytest.mark.halved
def test_directories_of_several_pages_cost_a_listing_per_page(s3: S3Server) -> None:
    pattern = _queries(s3, 100, standing(delta(15)), state=20)

    assert (400, 3, 1) == _cost(s3, pattern)  # of 2,600 keys


@pytest.mark.halved
def test_large_directories_cost_no_more_than_before(s3: S3Server) -> None:
    pattern = _queries(s3, 60, standing(delta(15)), state=150)

    reads, pages, listings = _cost(s3, pattern)

    assert 4 * 60 == reads
    assert pages <= 60 / 16
    assert pages + listings <= 2 * 60 + 1


@pytest.mark.halved
def test_other_objects_between_the_directories_are_not_listed(s3: S3Server) -> None:
    pattern = _queries(s3, 20, standing(delta(15)))
    bucket = pattern.split("/")[2]
    for number in range(20):
        for count in range(1_100):
            s3.put(bucket, f"chk/q{number}-data/{count}", b"")

    reads, pages, listings = _cost(s3, pattern.replace("*", "q*[0-9]"))

    assert (80, 1, 2 * 19 + 1) == (reads, pages, listings)


def test_directories_of_a_pattern_share_a_client(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def count(options: S3Options, session: object = None) -> object:
        made.append(options)
        return make_client(options, session)

    monkeypatch.setattr("deltacli.storage.s3.calls.make_client", count)

    _cost(s3, _queries(s3, 20, standing(delta(15))))

    assert 2 == len(made)  # one for the pattern, which may be the name of a directory


def test_files_of_all_commits_are_compared_with_the_live_ones_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def contains(index: KeyIndex, keys: ArrowArray) -> ArrowArray:
        compared.append(len(keys))
        return KeyIndex.contains(index, keys)

    monkeypatch.setattr(
        "deltacli.operations.streams.needs.KeyIndex", type("Counting", (KeyIndex,), {"contains": contains})
    )
    for number in range(3):
        standing(delta(5)).write(tmp_path / "chk" / str(number))

    find_streams(StreamsRequest(checkpoints=[f"{tmp_path}/chk/*"]), [_table(tmp_path)], open_storage, EmbeddedEngine())

    assert [NEWEST - 5] * 3 == [count for count in compared if count > 1]  # and not for each commit
