"""Every operation on Google Cloud Storage and on Azure: the same results as in memory. With a fault at any request of
one that writes, no version is lost, no needed file is deleted, and every report is true.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from deltacli.api.table import Table
from deltacli.clock import fixed_clock
from deltacli.errors import DeltacliError, OutcomeUnknown
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import Creation, Storage, open_storage
from deltacli.storage.in_memory import MemoryStorage
from deltacli.storage.retry import Retry
from tests.cli.support import make_sample
from tests.support import azure as azure_stub
from tests.support import gcs as gcs_stub
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.cloud import CloudServer, Fault, Said, answers, breaks, done_but, half_a_body, loses_reply
from tests.support.gcs import GcsServer
from tests.support.reading import document

NOW_MS = 1_774_000_000_000
"""Eleven weeks after the last commit of the sample: tombstones and commits have expired."""

Operation = Callable[[Table], object]
OPERATIONS: Mapping[str, Operation] = {
    "properties": lambda table: table.set_properties({"kept": "yes"}),
    "checkpoint": lambda table: table.checkpoint(),
    "widen-type": lambda table: table.widen_type(("ride.fare", "decimal(10,2)"), enable=True, upgrade_protocol=True),
    "vacuum": lambda table: table.vacuum(max_delete="100%"),
    "expire": lambda table: table.expire_log(),
}
COMMITS = {"properties": 1, "checkpoint": 0, "widen-type": 1, "vacuum": 2, "expire": 0}


@dataclass(frozen=True)
class Cloud:
    """A copy of the sample in a store. `problem` makes errors in the words of the store."""

    server: CloudServer
    uri: str
    objects: dict[str, Any]
    problem: Callable[[int, str], Said]
    first: dict[str, Any]

    def storage(self) -> Storage:
        return open_storage(self.uri, retry=Retry(pause=lambda _: None))

    def reset(self) -> None:
        """Undo everything that was written."""
        self.server.forget()
        self.objects.clear()
        self.objects.update(self.first)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_sample(tmp_path_factory.mktemp("sample") / "t")
    (root / "day=2026-01-01" / "orphan.parquet").write_bytes(b"not in the log")
    os.utime(root / "day=2026-01-01" / "orphan.parquet", (1_767_258_000, 1_767_258_000))
    return root


def files_of(root: Path) -> Iterator[tuple[str, bytes, int]]:
    """The paths of files below a directory, their content and their times."""
    for file in sorted(root.rglob("*")):
        if file.is_file():
            yield file.relative_to(root).as_posix(), file.read_bytes(), file.stat().st_mtime_ns // 1_000_000


@pytest.fixture(params=["gcs", pytest.param("azure", marks=pytest.mark.soak), "azure tree"])
def cloud(request: pytest.FixtureRequest, sample: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Every store, with the sample in it."""
    objects: dict[str, Any]
    problem: Callable[[int, str], Said]
    server: Any = request.getfixturevalue(request.param.split()[0])
    monkeypatch.setattr(server, "now_ms", NOW_MS)
    if request.param == "gcs":
        assert isinstance(server, GcsServer)
        holder = server.make_bucket()
        uri, objects, problem = f"gs://{holder}/t", server.buckets[holder], gcs_stub.problem
    else:
        assert isinstance(server, AzureServer)
        holder = server.make_container(is_hierarchical=request.param == "azure tree")
        uri = f"abfss://{holder}@{ACCOUNT}.dfs.core.windows.net/t"
        objects, problem = server.containers[holder], azure_stub.problem
    for path, data, modified_ms in files_of(sample):
        server.put(holder, f"t/{path}", data, modified_ms)
    found = Cloud(server, uri, objects, problem, dict(objects))
    found.storage().put("_delta_log/.probed", b"")  # so that the probe of the endpoint is none of the requests below
    found.reset()
    return found


class ClockedMemory(MemoryStorage):
    """Files in memory that have the time of the clock, as those of a cloud have."""

    def write(self, path: str, data: bytes, *, modified_ms: int = 0) -> None:
        super().write(path, data, modified_ms=modified_ms or NOW_MS)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        return super().put_if_absent(path, data, modified_ms=modified_ms or NOW_MS)


def table_of(storage: Storage) -> Table:
    return Table(storage, clock=fixed_clock(NOW_MS))


def rows(table: Table) -> list[dict[str, Any]]:
    """The rows of the newest version in their order by trip; fares as text, because they are widened."""
    found = pyarrow.Table.from_batches(list(table.snapshot().scan())).sort_by("trip").to_pylist()
    return [{**row, "ride": {**row["ride"], "fare": str(row["ride"]["fare"])}} for row in found]


def told(table: Table) -> list[object]:
    """What the operations say, in order."""
    found: list[object] = [
        [item.as_json() for item in table.history().items],
        document(table)["files"],
        rows(table),
        sum(batch.num_rows for batch in table.changes(from_version=11)),
        sorted({finding.rule.id for finding in table.validate(level="storage").findings}),
    ]
    for operation in OPERATIONS.values():
        operation(table)
    found += [rows(table), table.snapshot().version, summarize(table, digest=True, now_ms=NOW_MS).digests]
    return found


def test_every_operation_says_and_does_the_same_as_in_memory(cloud: Cloud, sample: Path) -> None:
    memory = ClockedMemory()
    for path, data, modified_ms in files_of(sample):
        memory.write(path, data, modified_ms=modified_ms)

    expected = told(table_of(memory))
    found = told(table_of(cloud.storage()))

    left = {f"t/{path}" for path in memory._files}
    there = {name for name, stored in cloud.objects.items() if not getattr(stored, "is_directory", False)}
    assert expected == found
    assert {_plain(name) for name in left} == {_plain(name) for name in there}


def _plain(name: str) -> str:
    """A name without what differs from run to run."""
    return name.split(".checkpoint.", maxsplit=1)[0] + ".checkpoint" if ".checkpoint." in name else name


def faults(cloud: Cloud) -> Mapping[str, Fault]:
    busy = {"gcs": "backendError"}.get(cloud.uri[:2] + "s", "ServerBusy")
    return {
        "the answer is lost": loses_reply,
        "it is never sent": breaks,
        "half an answer": half_a_body,
        "503 although it was done": done_but(cloud.problem(503, busy)),
        "503": answers(cloud.problem(503, busy)),
        "429": answers(cloud.problem(429, "rateLimitExceeded")),
        "408": answers(cloud.problem(408, "RequestTimeout")),
        "409": answers(cloud.problem(409, "conflict")),
        "412": answers(cloud.problem(412, "conditionNotMet")),
        "403": answers(cloud.problem(403, "forbidden")),
        "a login page": answers(Said(200, b"<html>log in</html>", {"Content-Type": "text/html"})),
    }


NAMES = (
    *("the answer is lost", "it is never sent", "half an answer", "503 although it was done", "503", "429", "408"),
    *("409", "412", "403", "a login page"),
)
HARMLESS = ("the answer is lost", "half an answer", "429")
"""Faults that no operation ends with: a creation reads back what it did, other requests are repeated."""
UNDONE = ("it is never sent", "503", "408")
"""Faults that end a checkpoint, whose creation is not sent again, and nothing else."""


SLOW = ("vacuum", "expire")
"""Operations of so many requests that a fault at each of them takes up to half a minute."""
OFTEN = ("the answer is lost", "412", "403")
"""Faults that the slow operations meet in `dev.py long`; they meet the others in `dev.py soak clouds`."""


def marks_of(operation: str, name: str) -> tuple[pytest.MarkDecorator, ...]:
    """When a case is run: daily, in `dev.py long` or in `dev.py soak clouds`."""
    if (operation, name) == ("properties", "the answer is lost"):
        return ()
    return (pytest.mark.soak if operation in SLOW and name not in OFTEN else pytest.mark.long,)


@pytest.mark.parametrize(
    ("operation", "name"),
    [pytest.param(operation, name, marks=marks_of(operation, name)) for operation in OPERATIONS for name in NAMES],
)
def test_a_fault_at_any_request_loses_nothing_and_every_report_is_true(operation: str, name: str, cloud: Cloud) -> None:
    before = rows(table_of(cloud.storage()))
    cloud.reset()
    OPERATIONS[operation](table_of(cloud.storage()))
    count = len(cloud.server.requests)
    outcomes = []

    for at in range(count):
        cloud.reset()
        cloud.server.fail_at(at, faults(cloud)[name])
        try:
            OPERATIONS[operation](table_of(cloud.storage()))
            outcomes.append("done")
        except DeltacliError as fault:
            outcomes.append("unknown" if isinstance(fault, OutcomeUnknown) else "failed")
        cloud.server.forget()

        table = table_of(cloud.storage())
        made = table.snapshot().version - 14
        assert before == rows(table), (at, outcomes[-1])
        assert list(range(15 + made)) == _versions(cloud.objects) or operation == "expire", at
        if operation != "vacuum":
            assert {"done": [COMMITS[operation]], "failed": [0], "unknown": [0, 1]}[outcomes[-1]].count(made), at
        _check_property(table, operation, made)
    if name in HARMLESS or (name in UNDONE and operation != "checkpoint"):
        assert {"done"} == set(outcomes)


def _versions(objects: Iterable[str]) -> list[int]:
    names = (name.removeprefix("t/_delta_log/") for name in objects)
    return sorted(int(name[:20]) for name in names if len(name) == 25 and name.endswith(".json"))


def _check_property(table: Table, operation: str, made: int) -> None:
    if operation == "properties":
        assert ("yes" if made else None) == table.snapshot().properties.get("kept")
