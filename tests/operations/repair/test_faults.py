"""A fault at a call of a repair that makes every kind of step: the table reads as before or as after, and the next run
ends the work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.operations.repair.plan import StepState
from deltacli.operations.repair.repair import RepairOutcome, plan_repair
from deltacli.storage import Storage, open_storage
from deltacli.storage.retry import Retry
from tests.rules.table_builder import NOW_MS
from tests.support.damaged_tables import ADDED, CHECKPOINT, HINT, LAST, DamagedTable, tear
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.repairing import Rows, execute_repair, open_damaged, readable_rows, request
from tests.support.s3 import S3Server, breaks, loses_reply

FIRST, GONE, COUNTED = 8, 9, 5
CREATIONS = ("put_if_absent", "publish", "copy_within")
WRITES = (*CREATIONS, "put", "begin", "replace", "delete_many")
Content = Mapping[str, tuple[bytes, int]]
ACTED = {
    "log.gap",
    "data.file-missing",
    "data.size-mismatch",
    "checkpoint.unreadable",
    "compaction.content",
    "hint.bad-json",
    "crc.num-files",
}


@cache
def damaged_content() -> Content:
    """The files of a table on which a repair makes every kind of step, with their times."""
    with TemporaryDirectory() as place:
        table = DamagedTable()
        table.add(LAST)["size"] += 1000
        root = table.write(Path(place) / "t")
        handle = open_damaged(root)
        handle.compact_log(FIRST, LAST)
        handle.compact_log(1, 3)
        handle.write_checksum(version=COUNTED)
        compaction = root / f"_delta_log/{1:020d}.{3:020d}.compacted.json"
        compaction.write_text("".join(compaction.read_text().splitlines(keepends=True)[1:]))
        checksum = root / f"_delta_log/{COUNTED:020d}.crc"
        checksum.write_text(json.dumps(json.loads(checksum.read_text()) | {"numFiles": 99}))
        (root / f"_delta_log/{GONE:020d}.json").unlink()
        (root / ADDED).unlink()
        (root / HINT).write_bytes(b"{")
        tear(root / CHECKPOINT)
        return {
            path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)
            for path in root.rglob("*")
            if path.is_file()
        }


def in_memory() -> MemoryStorage:
    storage = MemoryStorage()
    for path, (data, modified_ms) in damaged_content().items():
        storage.write(path, data, modified_ms=modified_ms)
    return storage


def table_in(storage: Storage) -> Table:
    return Table(storage, clock=fixed_clock(NOW_MS))


def repaired(storage: Storage) -> RepairOutcome:
    table, asked = table_in(storage), request(level="storage")
    return execute_repair(plan_repair(table, asked))


@cache
def without_a_fault() -> tuple[Rows, int, tuple[tuple[str, str], ...]]:
    """The rows and the version after the repair, and its calls."""
    counting = FaultyStorage(in_memory())
    done = repaired(counting)
    assert {step.rule for step in done.steps} >= ACTED
    assert {StepState.DONE} == {step.state for step in done.steps}
    table = table_in(counting)
    calls = tuple(counting.calls)
    return readable_rows(table), table.snapshot().version, calls


def check(broken: Storage, whole: Storage) -> None:
    """Run a repair of a store that meets a fault, then another that meets none."""
    rows, version, _ = without_a_fault()
    with suppress(DeltacliError):
        repaired(broken)
    assert readable_rows(table_in(whole)) in (Rows(), rows)
    repaired(whole)
    table = table_in(whole)
    assert () == plan_repair(table, request(level="storage")).steps
    assert rows == readable_rows(table)
    assert version == table.snapshot().version, "no commit was made twice"


def test_every_kind_of_step_is_made() -> None:
    rows, version, calls = without_a_fault()

    assert 70 == rows.total()
    assert LAST + 2 == version
    assert 20 <= sum(verb in WRITES for verb, _ in calls)


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.long) for share in range(1, 4))])
def test_a_fault_at_a_write(share: int, in_turn: InTurn) -> None:
    _, _, calls = without_a_fault()
    faults = (Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT)
    writes = [at for at, (verb, _) in enumerate(calls, 1) if verb in WRITES]
    for number, at in in_turn(list(enumerate(writes))):
        fault = faults[(number + share) % 4]
        if fault in faults[2:] and calls[at - 1][0] not in CREATIONS:
            fault = faults[(number + share) % 2]
        whole = in_memory()
        check(FaultyStorage(whole, at, fault), whole)


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.soak) for share in range(1, 40))])
def test_a_fault_at_a_look(share: int, in_turn: InTurn) -> None:
    """What cannot be read, listed or looked at is not taken for lost or damaged."""
    _, _, calls = without_a_fault()
    looks = [at for at, (verb, _) in enumerate(calls, 1) if verb not in WRITES]
    assert len(looks) >= 300
    for at in in_turn(looks[share::40]):
        whole = in_memory()
        check(FaultyStorage(whole, at, Fault.BEFORE), whole)


def on_s3(server: S3Server, bucket: str) -> Storage:
    server.clear(bucket)
    for path, (data, modified_ms) in damaged_content().items():
        server.put(bucket, f"t/{path}", data, modified_ms)
    server.requests.clear()
    return open_storage(f"s3://{bucket}/t", retry=Retry(pause=lambda _: None))


@pytest.mark.parametrize(
    "share",
    [0, *(pytest.param(share, marks=pytest.mark.long if share < 4 else pytest.mark.soak) for share in range(1, 12))],
)
def test_a_broken_connection_to_s3(share: int, s3: S3Server, in_turn: InTurn) -> None:
    """A write is not sent, or its answer is lost; the store asks again."""
    bucket = s3.make_bucket()
    repaired(on_s3(s3, bucket))
    writes = [at for at, (method, _, _) in enumerate(s3.requests) if method in ("PUT", "POST", "DELETE")]
    assert len(writes) >= 15

    for number, at in in_turn(list(enumerate(writes[share::12]))):
        whole = on_s3(s3, bucket)
        s3.fail_at(at, (breaks, loses_reply)[number % 2])
        check(whole, whole)
