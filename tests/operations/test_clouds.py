"""Every operation on every cloud: the same results as in memory. With a fault at any request of one that writes, no
version is lost, no needed file is deleted, and every report is true.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, OutcomeUnknown
from deltacli.core.machine import fixed_clock
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import Creation
from tests.support.cloud import (
    Asked,
    CloudServer,
    Fault,
    Said,
    answers,
    arrives_twice,
    breaks,
    done_but,
    half_a_body,
    lands_late,
    loses_reply,
)
from tests.support.clouds import (
    CLOUDS,
    COMMITS,
    NOW_MS,
    OPERATIONS,
    ROTATING,
    Cloud,
    Judge,
    cloud_of,
    plain,
    rows,
    sample_at,
)
from tests.support.effort import sampled
from tests.support.in_memory import MemoryStorage
from tests.support.reading import document

EMULATED = ("azurite",)
"""Slow, and with the time of the day."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_at(tmp_path_factory.mktemp("sample") / "t")


class ClockedMemory(MemoryStorage):
    """Files in memory that have the time of the clock, as those of a cloud have."""

    def write(self, path: str, data: bytes, *, modified_ms: int = 0) -> None:
        super().write(path, data, modified_ms=modified_ms or NOW_MS)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        return super().put_if_absent(path, data, modified_ms=modified_ms or NOW_MS)


def told(table: Table, now_ms: int) -> list[object]:
    """What the operations say, in order."""
    found: list[object] = [
        [item.as_json() for item in table.history().items],
        document(table)["files"],
        rows(table),
        sum(batch.num_rows for batch in table.changes(from_version=11)),
        sorted({finding.rule.id for finding in table.validate(level="storage").findings}),
    ]
    for name, operation in OPERATIONS.items():
        if name == "optimize":  # the names of new files are random
            found.append(summarize(table, digest=True, now_ms=now_ms).digests)
        operation(table)
    found += [rows(table), table.snapshot().version, table.snapshot().counts()]
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in EMULATED else name for name in CLOUDS]
)
def test_every_operation_says_and_does_the_same_as_in_memory(
    name: str, request: pytest.FixtureRequest, sample: Path
) -> None:
    cloud = cloud_of(name, request, sample)
    storage, memory = cloud.storage(), ClockedMemory()
    for path in cloud.files():
        memory.write(path, storage.read(path), modified_ms=storage.stat(path).modified_ms)

    expected = told(Table(memory, clock=fixed_clock(cloud.now_ms)), cloud.now_ms)
    found = told(cloud.table(), cloud.now_ms)

    assert expected == found
    assert {plain(path) for path in memory._files} == {plain(path) for path in cloud.files()}


def rotates(cloud: Cloud) -> Fault:
    """A fault that makes the store refuse the credentials so far."""

    def fault(server: CloudServer, asked: Asked) -> Said:
        assert cloud.rotate is not None
        cloud.rotate()
        return server.answer(asked)

    return fault


BUSY = {"gcs": "backendError", "s3": "SlowDown"}
DENIED = {"gcs": "forbidden", "s3": "AccessDenied"}
LOGIN_PAGE = Said(200, b"<html>log in</html>", {"Content-Type": "text/html"})
BOTOCORE_ERRORS: Mapping[str, Callable[[Cloud], Fault]] = {
    "the answer is lost": lambda _: loses_reply,
    "it is never sent": lambda _: breaks,
    "half an answer": lambda _: half_a_body,
    "it arrives twice": lambda _: arrives_twice,
    "it lands two requests later": lambda _: lands_late(2),
    "it lands after the end": lambda _: lands_late(1_000),
    "503 although it was done": lambda cloud: done_but(cloud.problem(503, BUSY.get(cloud.name, "ServerBusy"))),
    "503": lambda cloud: answers(cloud.problem(503, BUSY.get(cloud.name, "ServerBusy"))),
    "500": lambda cloud: answers(cloud.problem(500, "InternalError")),
    "429": lambda cloud: answers(cloud.problem(429, "rateLimitExceeded")),
    "408": lambda cloud: answers(cloud.problem(408, "RequestTimeout")),
    "409": lambda cloud: answers(cloud.problem(409, "conflict")),
    "412": lambda cloud: answers(cloud.problem(412, "conditionNotMet")),
    "401": lambda cloud: answers(cloud.problem(401, "authError")),
    "403": lambda cloud: answers(cloud.problem(403, DENIED.get(cloud.name, "AuthorizationFailure"))),
    "a login page": lambda _: answers(LOGIN_PAGE),
    "other credentials": rotates,
}
HARMLESS = ("the answer is lost", "half an answer", "it arrives twice", "429", "other credentials")
"""Faults that no operation ends with: a creation reads back what it did, other requests are repeated."""
UNDONE = ("it is never sent", "503", "500", "408")
"""Faults that end a checkpoint, whose creation is not sent again, and nothing else."""

OFTEN = ("the answer is lost", "it lands two requests later", "412", "403")
"""Faults that slow operations, and stores that are not in `THOROUGH`, meet in `dev.py long`."""
SLOW = ("files", "vacuum", "expire", "optimize")
"""Operations of so many requests that a fault at each of them takes up to half a minute."""
THOROUGH = ("gcs", "azure tree")
LOOKS, LOOKS_IN_THE_GATE = ("GET", "HEAD"), 12


def marks_of(store: str, operation: str, name: str) -> tuple[pytest.MarkDecorator, ...]:
    """When a case is run: daily, every second time in `dev.py long`, or in `dev.py soak clouds`, which takes all."""
    if (store, operation, name) == ("gcs", "properties", "the answer is lost"):
        return ()
    if store in THOROUGH:  # they share out the faults
        turn = list(BOTOCORE_ERRORS).index(name) + list(OPERATIONS).index(operation)
        is_long = (name in OFTEN or operation not in SLOW) and turn % len(THOROUGH) == THOROUGH.index(store)
    else:
        is_long = operation == "properties" and (name in OFTEN or store == "s3")
    return (pytest.mark.long, pytest.mark.halved) if is_long else (pytest.mark.soak,)


CASES = [
    pytest.param(cloud, operation, name, marks=marks_of(cloud, operation, name))
    for cloud in CLOUDS
    for operation in OPERATIONS
    for name in BOTOCORE_ERRORS
    if name != "other credentials" or cloud in ROTATING
]


@pytest.mark.parametrize(("store", "operation", "name"), CASES)
def test_a_fault_at_any_request_loses_nothing_and_every_report_is_true(
    store: str,
    operation: str,
    name: str,
    request: pytest.FixtureRequest,
    sample: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cloud = cloud_of(store, request, sample, rotates=name == "other credentials")
    judge = Judge(cloud, operation, tmp_path)
    cloud.reset()
    OPERATIONS[operation](cloud.table())
    count = len(cloud.server.requests)
    tried = _tried(operation, cloud.server.requests)
    outcomes: Counter[str] = Counter()

    for at in tried:
        cloud.reset()
        cloud.server.fail_at(at, BOTOCORE_ERRORS[name](cloud))
        try:
            OPERATIONS[operation](cloud.table())
            outcome = "done"
        except DeltacliError as fault:
            outcome = "unknown" if isinstance(fault, OutcomeUnknown) else "failed"
        cloud.server.forget()
        outcomes[outcome] += 1

        made = judge.look()
        if operation != "vacuum":
            assert made in {"done": [COMMITS[operation]], "failed": [0], "unknown": [0, 1]}[outcome], (at, outcome)

    met = f"{len(tried)} of {count} requests, {dict(outcomes)}"
    _tell(f"{store}, {operation}, {name}: {met}", judge.ask_deltalake(), capfd)
    if name in HARMLESS or (name in UNDONE and operation != "checkpoint"):
        assert {"done"} == set(outcomes)


def _tried(operation: str, requests: Sequence[Asked]) -> list[int]:
    """Which requests meet a fault: all, or in the gate of slow operations those that write and some of the others."""
    looks = [at for at, asked in enumerate(requests) if asked.method in LOOKS]
    kept = sampled(looks, LOOKS_IN_THE_GATE) if operation in SLOW else looks
    return sorted({*range(len(requests))} - {*looks} | {*kept})


def _tell(text: str, states: int, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        sys.stderr.write(f"\nFAULTS {text}; {states} states read by deltalake\n")
