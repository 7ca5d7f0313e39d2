"""How many requests the directories of queries cost on an object store: a plan, a refusal, each further look."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.clock import fixed_clock
from deltacli.operations.vacuum.full_plan import vacuum
from deltacli.operations.vacuum.plan import VacuumPlan, VacuumRequest
from deltacli.storage import LocalStorage, open_storage
from tests.operations.streams.checkpoints import Checkpoint, delta, standing
from tests.operations.streams.tables import History
from tests.operations.streams.test_guard import DEAD, LATER_MS, WITH_GARBAGE
from tests.support.effort import is_soaking
from tests.support.s3 import S3Server
from tests.support.vacuum_hazards import plan_of

DIRECTORIES = 1_000 if is_soaking() else 50
EACH = 5
"""Two listings, and three reads: two offsets, and the id of the query."""


def _queries(s3: S3Server, count: int, checkpoint: Checkpoint) -> str:
    """Put so many directories into a bucket, each with files of state, and return the pattern."""
    bucket = s3.make_bucket()
    files = {"metadata": b'{"id":"q"}', **checkpoint.files, "state/0/0/1.delta": b"x", "sources/0/0": b"v1\n"}
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
