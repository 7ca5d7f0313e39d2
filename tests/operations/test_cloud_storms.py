"""Minutes of 503 from a cloud, by a clock that only waits move: what fits into the budget of retries is done once, what
does not ends in time, loses nothing, and is finished by the next run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, OutcomeUnknown
from deltacli.core.machine import fixed_clock
from deltacli.storage import Storage, open_storage
from tests.support.clocks import FakeClock
from tests.support.cloud import Asked, Said
from tests.support.clouds import CLOUDS, COMMITS, OPERATIONS, Cloud, Judge, cloud_of, rows, sample_at

BUSY = {"gcs": "backendError", "s3": "SlowDown"}
STORM_SECONDS = 300.0
MOST_PER_SECOND = 8
"""Requests that a storm may see per second of its time, over all threads of a command."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_at(tmp_path_factory.mktemp("sample") / "t")


class Storm:
    """A cloud that answers 503 to every request from one on, for some minutes of a clock that only waits move."""

    def __init__(self, cloud: Cloud, patch: pytest.MonkeyPatch, *, after: int, budget: float) -> None:
        self._cloud, self._after = cloud, after
        self._clock = FakeClock()
        self._began: float | None = None
        self._retry = self._clock.retry(budget)
        self.refused = 0
        patch.setattr(cloud.server, "fault_of", self._fault)

    def _fault(self, _: Asked, method: str = "") -> Said | None:
        if method or len(self._cloud.server.requests) <= self._after:
            return None
        self._began = self._clock.now if self._began is None else self._began
        if self._clock.now - self._began >= STORM_SECONDS:
            return None
        self.refused += 1
        return self._cloud.problem(503, BUSY.get(self._cloud.name, "ServerBusy"))

    @property
    def seconds(self) -> float:
        """How long a command was in it."""
        return self._clock.now - (self._began or 0.0)

    def table(self) -> Table:
        def opened(uri: str) -> Storage:
            return open_storage(uri, self._cloud.options, retry=self._retry)

        return Table(opened(self._cloud.uri), clock=fixed_clock(self._cloud.now_ms), open_other=opened)


def check_storms(
    cloud: Cloud, operation: str, places: tuple[float, ...], tmp_path: Path, patch: pytest.MonkeyPatch
) -> Counter[str]:
    """Run an operation in storms that begin at several of its requests, with a long and a short budget."""
    judge = Judge(cloud, operation, tmp_path)
    cloud.reset()
    OPERATIONS[operation](cloud.table())
    count = len(cloud.server.requests)
    outcomes: Counter[str] = Counter()
    for place in places:
        for budget in (900.0, 60.0):
            cloud.reset()
            with patch.context() as during:
                storm = Storm(cloud, during, after=int(place * count), budget=budget)
                outcome = run(operation, storm.table())
            outcomes[f"{outcome} within {budget:.0f} s"] += 1
            made = judge.look()
            if operation != "vacuum":
                assert made in {"done": [COMMITS[operation]], "failed": [0], "unknown": [0, 1]}[outcome]
            assert storm.refused <= MOST_PER_SECOND * max(storm.seconds, 10), (storm.refused, storm.seconds)
            assert outcome != "failed" or storm.seconds <= 3 * budget
            cloud.server.requests.clear()
            OPERATIONS[operation](cloud.table())
            assert judge.before == rows(cloud.table())
            assert operation != "vacuum" or not any("orphan" in name for name in cloud.files())
    return outcomes


def run(operation: str, table: Table) -> str:
    """How an operation ended."""
    try:
        OPERATIONS[operation](table)
    except OutcomeUnknown:
        return "unknown"
    except DeltacliError:
        return "failed"
    return "done"


@pytest.mark.halved
def test_five_minutes_of_503_end_a_commit_truthfully_and_lose_nothing(
    request: pytest.FixtureRequest, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = cloud_of("gcs by its text", request, sample)

    outcomes = check_storms(cloud, "properties", (0.0, 0.9), tmp_path, monkeypatch)

    assert outcomes["done within 900 s"] == 2
    assert not outcomes["done within 60 s"]


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("store", [name for name in CLOUDS if name != "azurite"])
def test_five_minutes_of_503_at_any_time_lose_nothing(
    store: str,
    operation: str,
    request: pytest.FixtureRequest,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = check_storms(
        cloud_of(store, request, sample), operation, (0.0, 0.2, 0.4, 0.6, 0.8, 0.95), tmp_path, monkeypatch
    )

    assert 6 == sum(number for outcome, number in outcomes.items() if outcome.endswith("900 s"))
