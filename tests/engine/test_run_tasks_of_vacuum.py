"""`vacuum`, `log expire` and listings by tasks that are sent and run twice: plans, deleted files and counts are equal
to those of the embedded engine.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import ClusterFailed, DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.core.progress import SILENT
from deltacli.delta.listing import HiddenNames
from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumRequest
from deltacli.operations.validate.inspect_storage import list_table
from deltacli.storage import Storage, open_storage
from deltacli.storage.hadoop_checksums import get_checksum_path
from deltacli.work.files.classifying import KnownFiles
from deltacli.work.files.deleting import DeleteBatch
from tests.support import corpus
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.effort import sampled
from tests.support.s3 import S3Server
from tests.support.shipping import ShippingEngine

FAR_MS = 4_102_444_800_000
"""2100: everything is old."""

SAMPLE = (
    "dask/empty1",
    "dat/no_stats",
    "dat/with_schema_change",
    "delta-rs/cdc_ict_table",
    "delta-rs/cdf-table-with-cdc-and-dvs",
    "delta-rs/checkpoint-v2-table",
    "delta-rs/checkpoint_with_partitions",
    "delta-rs/table_with_deletion_logs",
    "derived/commit-hole-before-checkpoint-a",
    "derived/log-compaction-wrong-a",
    "derived/last-checkpoint-dangling-a",
    "derived/sidecar-missing-a",
    "duckdb-delta/variant/basic",
    "golden/checkpoint",
    "golden/corrupted-last-checkpoint-kernel",
    "golden/dv-partitioned-with-checkpoint",
    "golden/only-checkpoint-files",
    "golden/snapshot-repartitioned",
    "kernel-java/kernel-pagination-single-checkpoint",
    "kernel-java/spark-variant-stable-feature-checkpoint",
    "kernel-rs/cdf-column-mapping-id-mode",
    "kernel-rs/cdf-table-partitioned",
    "kernel-rs/compacted-log-files-table",
    "kernel-rs/v2-checkpoints-json-with-sidecars",
    "spark/delta-0.1.0",
    "spark/table-with-dv-special-char",
)
"""Tables with something to delete, each for a reason of its own."""


def table_at(storage: Storage, engine: Engine) -> Table:
    return Table(storage, clock=fixed_clock(FAR_MS), engine=engine)


def repeating() -> ShippingEngine:
    return ShippingEngine(varying=("DeleteBatch",))


def plan_of(table: Table, **limits: Any) -> Any:  # Any: fields of a plan
    request = VacuumRequest(retention_ms=0, allow_retention_below_ms=10**15, max_delete="100%", **limits)
    try:
        plan = plan_vacuum(table, request)
    except DeltacliError as fault:
        return type(fault), fault.code, fault.message
    found = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    return {
        **found,
        "looked_at": None,
        "made_from": None,
        "candidates": plan.candidates.to_pydict(),
        "document": plan.as_json(),
    }


def vacuum(table: Table) -> tuple[object, ...]:
    """Plan and execute; the counts, which are those of the files that are gone, and of the plan."""
    before = files_of(table)
    try:
        plan = plan_vacuum(table, VacuumRequest(retention_ms=0, allow_retention_below_ms=10**15, max_delete="100%"))
        outcome = execute_vacuum(table, plan)
    except DeltacliError as fault:
        assert before == files_of(table)
        return type(fault), fault.code, fault.message
    gone = counted(before - files_of(table))
    assert len(gone) == plan.files == outcome.deleted.files
    assert plan.size_bytes == outcome.deleted.size_bytes
    if outcome.end_version is not None:
        line = json.loads(table.storage.read(f"{LOG}/{outcome.end_version:020d}.json").splitlines()[0])
        assert str(len(gone)) == line["commitInfo"]["operationMetrics"]["numDeletedFiles"]
    return gone, outcome


def expire(table: Table) -> tuple[object, ...]:
    before = files_of(table, log=True)
    try:
        outcome = execute_change(LogExpiry(ExpiryRequest(), proves=False), table)
    except DeltacliError as fault:
        assert before == files_of(table, log=True)
        return type(fault), fault.code, fault.message
    gone = counted(before - files_of(table, log=True))
    assert len(gone) == outcome.deleted
    return gone, outcome


def counted(gone: set[str]) -> set[str]:
    """Return the deleted files without the checksum files of Hadoop that went with their files."""
    return gone - {path for file in gone if (path := get_checksum_path(file)) is not None}


def files_of(table: Table, *, log: bool = False) -> set[str]:
    root = Path(table.uri.removeprefix("file://"))
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    return {path for path in found if path.startswith(f"{LOG}/") == log}


@pytest.mark.long
def test_plans_and_deletions_are_those_of_the_embedded_engine(tmp_path: Path) -> None:
    gone = [0, 0]

    for name in SAMPLE:
        source = corpus.table(name).path(corpus.unpacked())
        answers: list[list[Any]] = []  # Any: what is compared
        for engine in (EmbeddedEngine(), repeating()):
            place = tmp_path / "t"  # notes name it
            shutil.copytree(source, place, symlinks=True)
            storage = open_storage(str(place))
            plan = plan_of(table_at(storage, engine), include_foreign=True)
            done = [vacuum(table_at(storage, engine)), expire(table_at(storage, engine))]
            answers.append([{**plan, "table": ""} if isinstance(plan, dict) else plan, *done])
            shutil.rmtree(place)
        assert answers[0] == answers[1], name
        for number, answer in enumerate(answers[0][1:]):
            gone[number] += len(answer[0]) if isinstance(answer[0], set) else 0

    assert (26, 172, 154) == (len(SAMPLE), *gone)


@pytest.mark.sampled
@pytest.mark.long
def test_every_plan_is_that_of_the_embedded_engine() -> None:
    for one in sampled(corpus.tables(), 60):
        storage = open_storage(str(one.path(corpus.unpacked())))

        plans = [plan_of(table_at(storage, engine)) for engine in (EmbeddedEngine(), ShippingEngine())]

        assert plans[0] == plans[1], one.id


def odd_table() -> TableBuilder:
    """Hidden and nested directories, other formats, foreign files, names of every kind."""
    builder = TableBuilder().commits(3)
    for number in range(3):
        builder.file(f"part-{number:05d}.parquet", b"x")
    names = (
        *(f"foreign-{number}.csv" for number in range(7)),
        *(
            "a/b/c/gone.parquet",
            "a/b/_hidden/x.parquet",
            "_hidden/y.parquet",
            "_change_data/c.parquet",
            "p=ü/%41 b.parquet",
        ),
        *(
            "nested/_delta_log/00000000000000000000.json",
            "nested/p=1/live.parquet",
            "deep/er/metadata/v1.metadata.json",
        ),
        *("deep/er/data/x.parquet", "paimon/schema/schema-0", "paimon/snapshot/snapshot-1", "_p=1/in.parquet"),
    )
    for name in names:
        builder.file(name, b"xx", modified_ms=EPOCH_MS)
    return builder


@pytest.mark.parametrize("prefix", [None, "a/b", "absent", "nested", "_hidden"])
def test_nested_hidden_linked_and_empty_directories(prefix: str | None, tmp_path: Path) -> None:
    place = odd_table().write(tmp_path / "t")
    (place / "empty" / "inner").mkdir(parents=True)
    (place / "a" / "link").symlink_to(place / "deep")
    (place / "dangling").symlink_to("nowhere")
    (place / "outside").symlink_to(tmp_path)
    storage = open_storage(str(place))

    plans = [
        plan_of(table_at(storage, engine), prefix=prefix, include_foreign=include)
        for include in (False, True)
        for engine in (EmbeddedEngine(), repeating())
    ]

    assert plans[0] == plans[1]
    assert plans[2] == plans[3]
    listings = [list_table(table_at(storage, one).stores, one, SILENT) for one in (EmbeddedEngine(), ShippingEngine())]
    assert listings[0] == listings[1]
    assert list(listings[0].files) == list(listings[1].files)
    assert ("outside",) == listings[0].unlisted


def test_a_listing_follows_links_once_and_no_cycle(tmp_path: Path) -> None:
    place = odd_table().write(tmp_path / "t")
    for number in range(4):
        (place / f"d{number}").mkdir()
        (place / f"d{number}" / "x.parquet").write_bytes(b"x")
        for other in range(4):
            os.symlink(place / f"d{other}", place / f"d{number}" / f"to{other}")
    storage = open_storage(str(place))

    listings = [list_table(table_at(storage, one).stores, one, SILENT) for one in (EmbeddedEngine(), ShippingEngine())]

    assert listings[0] == listings[1]
    assert 4 == sum(path.startswith("d") and path.endswith("/x.parquet") for path in listings[0].files) - 1


@pytest.mark.parametrize("partitions", [3, pytest.param(20, marks=pytest.mark.halved)])
def test_a_store_that_lists_flat(partitions: int, s3: S3Server) -> None:
    """With few directories a walk looks at two levels, with many at one."""
    bucket = s3.make_bucket()
    for path, file in odd_table().files.items():
        s3.put(bucket, f"t/{path}", file.data)
    for number in range(partitions):
        s3.put(bucket, f"t/p={number}/q=1/_deep/r=2/x.parquet", b"x")
        s3.put(bucket, f"t/p={number}/q=1//y.parquet", b"x")
    storage = open_storage(f"s3://{bucket}/t")

    plans = [plan_of(table_at(storage, engine), include_foreign=True) for engine in (EmbeddedEngine(), repeating())]

    assert plans[0] == plans[1]
    assert plans[0]["candidates"]["path"]


def test_hashes_that_are_sent_are_equal_in_every_process() -> None:
    """Python seeds its own hashes per process."""
    keys = PathKeys(["file:///t"], is_portable=True)

    assert [-5426141060434712860, -8872658040670708673] == keys.hash_listed_names(
        ["", "p=1/part-0.parquet"]
    ).to_pylist()
    assert keys.hash_listed_paths(encode_paths_as_binary(["a//b"])) == keys.hash_listed_names(["a/b"])


def test_sorted_hashes_find_the_same_files() -> None:
    numbers = pa.array([number * 7919 % 10_007 - 5_000 for number in range(5_000)], pa.int64())
    known = KnownFiles(PathKeys(["file:///t"]), HiddenNames(()), 0, numbers.slice(100), numbers.slice(0, 0))
    wanted = pa.array([-5_000, -4_999, 0, 1, 5_006, 9_999, *numbers.slice(95, 10).to_pylist()], pa.int64())

    found = known.sorted()

    assert known.find_live(wanted) == found.find_live(wanted)
    assert known.find_others(wanted) == found.find_others(wanted)
    assert 0 < found.find_live(wanted).true_count < len(wanted)


def test_a_directory_that_is_deleted_meanwhile_is_empty() -> None:
    storage = odd_table().in_memory()
    walk = storage.walk

    def vanish(directory: str, enter: Any) -> Any:  # Any: as in the port
        if directory == "a/b":
            storage._files = {path: file for path, file in storage._files.items() if not path.startswith("a/b/")}
        return walk(directory, enter)

    storage.walk = vanish  # type: ignore[method-assign]

    plan = plan_of(table_at(storage, repeating()))

    assert not [path for path in plan["candidates"]["path"] if path.startswith(b"a/b")]
    assert b"p=\xc3\xbc/%41 b.parquet" in plan["candidates"]["path"]


def test_files_that_are_behind_a_link_by_now_are_not_counted_as_deleted(tmp_path: Path) -> None:
    """A repetition takes a missing file for one that an earlier attempt deleted."""
    builder = TableBuilder().commits(3)
    for name in ("part-00000.parquet", "part-00001.parquet", "part-00002.parquet"):
        builder.file(name, b"x")
    for name in ("a/gone.parquet", "b.parquet"):
        builder.file(name, b"x", modified_ms=EPOCH_MS)
    place = builder.write(tmp_path / "t")
    table = table_at(open_storage(str(place)), repeating())
    plan = plan_vacuum(table, VacuumRequest(retention_ms=0, allow_retention_below_ms=10**15, max_delete="100%"))
    (place / "a").rename(tmp_path / "elsewhere")
    (place / "a").symlink_to(tmp_path / "elsewhere")

    outcome = execute_vacuum(table, dataclasses.replace(plan, looked_at=None))

    assert b"a/gone.parquet" in plan.candidates.column("path").to_pylist()
    assert (tmp_path / "elsewhere" / "gone.parquet").exists()
    assert (plan.files - 1, 1) == (outcome.deleted.files, outcome.missing)


class _Failing(ShippingEngine):
    """A cluster whose job fails after its tasks have deleted files."""

    def run_tasks(self, task: Any, pieces: Any, stores: Any, **given: Any) -> Any:
        results = super().run_tasks(task, pieces, stores, **given)
        if isinstance(task, DeleteBatch):
            deque(results, maxlen=0)
            raise ClusterFailed("a job failed on the cluster")
        yield from results


def test_files_that_a_failed_job_has_deleted_are_counted(tmp_path: Path) -> None:
    builder = TableBuilder().commits(3)
    for name in ("part-00000.parquet", "part-00001.parquet", "part-00002.parquet"):
        builder.file(name, b"x")
    for number in range(5):
        builder.file(f"gone-{number}.parquet", b"x", modified_ms=EPOCH_MS)
    table = table_at(open_storage(str(builder.write(tmp_path / "t"))), _Failing(varying=("DeleteBatch",)))
    plan = plan_vacuum(table, VacuumRequest(retention_ms=0, allow_retention_below_ms=10**15, max_delete="100%"))
    before, outcome = files_of(table), VacuumOutcome()

    with pytest.raises(ClusterFailed):
        execute_vacuum(table, plan, outcome=outcome)

    assert plan.files == len(before - files_of(table)) == outcome.deleted.files
    assert plan.size_bytes == outcome.deleted.size_bytes
    assert "FAILED" == outcome.end_status


class _Record:
    """A record in memory."""

    def __init__(self, files: int) -> None:
        self.pending, self.counts, self._files = [range(files)], VacuumOutcome(), files

    def advance(self, up_to: int, outcome: VacuumOutcome) -> None:
        self.pending, self.counts = [range(up_to, self._files)], outcome

    def finish(self, outcome: VacuumOutcome, *, completed: bool) -> None:
        assert completed
        self.counts = outcome


class _DeletingTheLast(ShippingEngine):
    """A cluster whose job fails after it has deleted the last file."""

    def run_tasks(self, task: Any, pieces: Any, stores: Any, **given: Any) -> Any:
        if isinstance(task, DeleteBatch):
            deque(stores.storage.delete_many([pieces[-1].paths[-1]]), maxlen=0)
            raise ClusterFailed("a job failed on the cluster")
        yield from super().run_tasks(task, pieces, stores, **given)


def test_a_file_that_a_failed_job_has_deleted_is_counted_once_by_a_later_execution(tmp_path: Path) -> None:
    builder = TableBuilder().commits(3)
    for name in ("part-00000.parquet", "part-00001.parquet", "part-00002.parquet"):
        builder.file(name, b"x")
    for number in range(5):
        builder.file(f"zone-{number}.parquet", b"x", modified_ms=EPOCH_MS)
    storage = open_storage(str(builder.write(tmp_path / "t")))
    table = table_at(storage, _DeletingTheLast())
    plan = plan_vacuum(table, VacuumRequest(retention_ms=0, allow_retention_below_ms=10**15, max_delete="100%"))
    record = _Record(plan.files)
    with pytest.raises(ClusterFailed):
        execute_vacuum(table, plan, record=record)

    outcome = execute_vacuum(table_at(storage, repeating()), plan, record=record)

    assert (plan.files, plan.size_bytes) == (outcome.deleted.files, outcome.deleted.size_bytes)
