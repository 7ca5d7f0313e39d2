"""`features drop`: what the reference suite asserts, as data, and vectors of a real table."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, Refused
from deltacli.core.machine import fixed_clock, system_clock
from deltacli.core.times import DAY_MS
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import Storage, open_storage
from tests.support import corpus
from tests.support.actions import add, commit_info, domain, metadata
from tests.support.altering import table_of
from tests.support.builder import LOG, TableBuilder
from tests.support.committing import Rivals, commits, infos
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import NOW_MS, open_at
from tests.support.rows import parquet_bytes
from tests.support.validating import validate_table

LEGACY = ["appendOnly", "invariants"]


def built(
    features: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    versions: tuple[int, int] = (1, 2),
    columns: str = "a int",
    **extra: Any,
) -> TableBuilder:
    builder = table_of(columns, features=features, properties=properties, versions=versions, **extra)
    return builder.commit(commit_info(), add("f", records=1))


def drop(storage: Storage, name: str, *, now_ms: int = NOW_MS, truncate: bool = False) -> str:
    table = Table(storage, clock=fixed_clock(now_ms))
    try:
        table.drop_features(name, truncate_history=truncate)
    except DeltacliError as error:
        return error.code
    return "ok"


def supported(storage: Storage) -> tuple[int, int, list[str]]:
    found = open_at(storage).snapshot().protocol
    listed = found.writer_features
    return found.min_reader_version, found.min_writer_version, [] if listed is None else sorted(listed)


PROTOCOLS = [
    # id, features or versions before, what is dropped, the protocol after
    ("8.2", [*LEGACY, "inCommitTimestamp"], "inCommitTimestamp", (1, 2, [])),
    ("8.24", ["inCommitTimestamp"], "inCommitTimestamp", (1, 1, [])),
    (
        "8.25",
        [*LEGACY, "inCommitTimestamp", "domainMetadata"],
        "inCommitTimestamp",
        (1, 7, [*LEGACY, "domainMetadata"]),
    ),
    ("8.26", [*LEGACY, "columnMapping", "inCommitTimestamp"], "inCommitTimestamp", (3, 7, [*LEGACY, "columnMapping"])),
    ("8.1", [*LEGACY, "vacuumProtocolCheck"], "vacuumProtocolCheck", (1, 7, [*LEGACY, "checkpointProtection"])),
    ("8.40", [*LEGACY, "columnMapping"], "columnMapping", (1, 7, [*LEGACY, "checkpointProtection"])),
    ("8.42", [*LEGACY, "typeWidening"], "typeWidening", (1, 7, [*LEGACY, "checkpointProtection"])),
]
"""Of 8.26 the reference writes reader version 2; see `mapping name` in docs/alter.md."""


@pytest.mark.parametrize(("case", "before", "name", "after"), PROTOCOLS, ids=[case for case, *_ in PROTOCOLS])
def test_the_protocol_afterwards(case: str, before: list[str], name: str, after: tuple[int, int, list[str]]) -> None:
    storage = built(before).in_memory()

    assert "ok" == drop(storage, name)
    reader, writer, features = after
    assert (reader, writer, sorted(features)) == supported(storage)
    checkpoints = [stat.name for stat in storage.list_from(LOG) if ".checkpoint" in stat.name]
    assert (4 if "checkpointProtection" in features else 0) == len(checkpoints), case
    assert [] == errors(storage)


def test_an_implied_feature_is_dropped_from_a_list_of_all_others() -> None:
    """8.3."""
    storage = built(versions=(2, 5)).in_memory()

    assert "ok" == drop(storage, "columnMapping")
    others = [
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "generatedColumns",
        "invariants",
    ]
    assert (1, 7, others) == supported(storage)


def errors(storage: Storage) -> list[str]:
    found = validate_table(storage, EmbeddedEngine(), now_ms=NOW_MS, level="log")
    return [finding.rule.id for finding in found.findings if finding.severity == "error"]


REFUSED = [
    ("8.14", [*LEGACY, "checkpointProtection"], {}, "checkpointProtection", False, "features.needs-truncation"),
    ("8.18", None, {}, "appendOnly", False, "features.not-removable"),
    ("8.19", None, {}, "vacuumProtocolChek", False, "usage.feature"),
    ("8.19 listed", [*LEGACY, "futureFeature"], {}, "futureFeature", False, "features.unknown"),
    ("8.20", None, {}, "deletionVectors", False, "features.not-present"),
    ("8.21", None, {}, "delta.enableDeletionVectors", False, "usage.feature"),
    ("8.22", ["rowTracking", "domainMetadata"], {}, "domainMetadata", False, "features.required"),
    ("8.23", ["inCommitTimestamp"], {}, "inCommitTimestamp", True, "features.history-not-needed"),
    ("7.21", ["checkConstraints"], {"delta.constraints.c1": "a > 0"}, "checkConstraints", False, "features.in-use"),
]


@pytest.mark.parametrize(
    ("case", "features", "properties", "name", "truncate", "code"), REFUSED, ids=[case for case, *_ in REFUSED]
)
def test_what_cannot_be_dropped(
    case: str, features: list[str] | None, properties: dict[str, str], name: str, truncate: bool, code: str
) -> None:
    storage = built(features, properties).in_memory()

    assert (code, 2) == (drop(storage, name, truncate=truncate), len(commits(storage))), case


def test_what_a_lasting_feature_requires_is_not_offered() -> None:
    table = open_at(built([*LEGACY, "clustering", "domainMetadata"], {}).in_memory())

    with pytest.raises(Refused, match="clustering requires it, and cannot be dropped") as required:
        table.drop_features("domainMetadata")
    with pytest.raises(Refused, match="clustering cannot be dropped") as lasting:
        table.drop_features("clustering")

    assert required.value.hint is None
    assert "domainMetadata" not in lasting.value.facts["removable"]


TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_ids",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_versions",
}


def tracked() -> Storage:
    builder = table_of("a int", features=[*LEGACY, "rowTracking", "domainMetadata"], properties=TRACKED)
    mark = domain("delta.rowTracking", '{"rowIdHighWaterMark":4}')
    files = [add(name, records=2, baseRowId=first, defaultRowCommitVersion=1) for name, first in (("f", 0), ("g", 2))]
    return builder.commit(commit_info(), mark, *files).in_memory()


def with_ids(storage: Storage) -> list[str]:
    rows = [row for batch in open_at(storage).snapshot().files() for row in batch.to_pylist()]
    return sorted(
        row["path"] for row in rows if row["baseRowId"] is not None or row["defaultRowCommitVersion"] is not None
    )


def test_row_ids_go_with_their_feature() -> None:
    storage = tracked()
    before = open_at(storage).snapshot().counts()[0]

    assert "features.required" == drop(storage, "domainMetadata")
    assert ["f", "g"] == with_ids(storage)
    assert "ok" == drop(storage, "rowTracking")

    after = open_at(storage).snapshot()
    assert (before, []) == (after.counts()[0], with_ids(storage))
    assert not any("rowTracking" in key.lower() for key in after.properties)
    assert [] == list(after.domains)
    assert (1, 7, sorted([*LEGACY, "domainMetadata"])) == supported(storage)
    names = ["SET TBLPROPERTIES", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]
    assert names == [info["operation"] for info in infos(storage)[2:]]
    assert [] == errors(storage)
    assert ["ok", (1, 2, [])] == [drop(storage, "domainMetadata"), supported(storage)]


@pytest.mark.parametrize("place", [1, 2, 3])
def test_files_of_a_writer_that_still_gives_ids_lose_them_too(place: int) -> None:
    """The winner of each of the commits adds a file with ids and takes one away."""
    storage = tracked()
    late = add("h", records=1, baseRowId=5, defaultRowCommitVersion=1 + place)
    gone = {"remove": {"path": "f", "dataChange": True, "deletionTimestamp": 0}}
    rivals = Rivals(storage, *[[commit_info()]] * (place - 1), [commit_info(), late, gone])

    assert "ok" == drop(rivals, "rowTracking")

    found = [row["path"] for batch in open_at(storage).snapshot().files() for row in batch.to_pylist()]
    assert (["g", "h"], []) == (sorted(found), with_ids(storage))


def test_a_second_drop_moves_the_protection() -> None:
    """8.4, 8.27."""
    storage = built([*LEGACY, "vacuumProtocolCheck", "typeWidening"]).in_memory()

    verdicts = [drop(storage, name) for name in ("vacuumProtocolCheck", "typeWidening")]
    table = open_at(storage)
    protected = table.snapshot().properties["delta.requireCheckpointProtectionBeforeVersion"]

    assert (["ok", "ok"], "9") == (verdicts, protected)
    assert "DROP FEATURE" == infos(storage)[int(protected)]["operation"]
    assert table.add_features(["typeWidening"]).committed_version == 10


def test_history_that_does_not_need_the_feature_stays() -> None:
    """8.9."""
    storage = built([*LEGACY, "vacuumProtocolCheck"]).in_memory()

    assert "ok" == drop(storage, "vacuumProtocolCheck", truncate=True)
    assert ((1, 2, []), 3) == (supported(storage), len(commits(storage)))


def test_history_is_cut_a_day_later(tmp_path: Path) -> None:
    """8.5, 8.6, 8.7."""
    place = built([*LEGACY, "v2Checkpoint"], {"delta.checkpointPolicy": "v2"}).write(tmp_path / "t")
    storage = open_storage(str(place))
    now = system_clock()

    waiting = [drop(storage, "v2Checkpoint", now_ms=now + hours * 3_600_000, truncate=True) for hours in (0, 1, 23)]
    assert ["features.wait"] * 3 == waiting
    assert "delta.checkpointPolicy" not in open_at(storage).snapshot().properties
    assert "ok" == drop(storage, "v2Checkpoint", now_ms=now + 3 * DAY_MS, truncate=True)
    assert (1, 2, []) == supported(storage)
    names = sorted(path.name for path in (place / LOG).glob("0*.json"))
    assert f"{0:020d}.json" not in names


def test_a_writer_that_uses_the_feature_meanwhile_stops_the_drop() -> None:
    """8.10: the commit is planned again on the winner's version."""
    features = [*LEGACY, "inCommitTimestamp"]
    storage = built(features).in_memory()
    on = {"delta.enableInCommitTimestamps": "true"}
    stamp = NOW_MS + DAY_MS
    rivals = Rivals(storage, [commit_info(inCommitTimestamp=stamp), metadata(configuration=on)])

    assert "features.in-use" == drop(rivals, "inCommitTimestamp")
    assert "inCommitTimestamp" in open_at(storage).snapshot().protocol.supported_features
    assert "ok" == drop(storage, "inCommitTimestamp")


def test_a_drop_that_fails_goes_on_when_it_is_run_again(in_turn: InTurn) -> None:
    counting = FaultyStorage(built([*LEGACY, "vacuumProtocolCheck"]).in_memory())
    assert "ok" == drop(counting, "vacuumProtocolCheck")

    for at in in_turn(range(1, len(counting.calls) + 1), 30):
        storage = built([*LEGACY, "vacuumProtocolCheck"]).in_memory()
        verdict = drop(FaultyStorage(storage, at, Fault.BEFORE), "vacuumProtocolCheck")
        has_it = "vacuumProtocolCheck" in open_at(storage).snapshot().protocol.supported_features
        again = drop(storage, "vacuumProtocolCheck")

        assert again == ("ok" if has_it else "features.not-present"), (at, verdict)
        assert [] == errors(storage)


def test_vectors_of_a_real_table_are_purged_and_their_files_recorded(tmp_path: Path) -> None:
    """8.28, 8.30, 8.33: rows stay, older versions too, and vacuum of a client without vectors spares the vectors."""
    shutil.copytree(corpus.table("dat/deletion_vectors").path(corpus.unpacked()), tmp_path / "t")
    storage = open_storage(str(tmp_path / "t"))
    table = open_at(storage)
    before = table.snapshot()
    rows = sorted(str(row) for batch in before.scan() for row in batch.to_pylist())

    verdict = drop(storage, "deletionVectors")
    after = table.snapshot()
    old = table.snapshot(version=before.version)
    tombstones = [path for batch in after.tombstones() for path in batch.column("path").to_pylist()]
    vectors = [path.name for path in (tmp_path / "t").rglob("deletion_vector_*.bin")]

    assert "ok" == verdict
    assert rows == sorted(str(row) for batch in after.scan() for row in batch.to_pylist())
    assert rows == sorted(str(row) for batch in old.scan() for row in batch.to_pylist())
    assert "deletionVectors" not in after.protocol.supported_features
    assert after.protocol.min_reader_version == 1
    assert vectors
    assert set(vectors) <= {Path(path).name for path in tombstones}
    assert [] == errors(storage)


def test_files_with_older_types_are_rewritten(tmp_path: Path) -> None:
    """8.42: without such files there is nothing to rewrite."""
    rows = pa.table({"a": pa.array([1, None, 3], pa.int32()), "s": [{"x": 1}, None, {"x": 3}]})
    fields = {
        "a": "integer",
        "s": {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]},
    }
    schema = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    builder = table_of(schema, features=[*LEGACY, "typeWidening"], properties={"delta.enableTypeWidening": "true"})
    data = parquet_bytes(rows)
    builder.file("f", data).commit(commit_info(), add("f", size=len(data), records=3))
    storage = open_storage(str(builder.write(tmp_path / "t")))
    table = open_at(storage)
    table.widen_type(("a", "bigint"))
    before = [row for batch in table.snapshot().scan() for row in batch.to_pylist()]

    assert "ok" == drop(storage, "typeWidening")
    after = table.snapshot()
    files = [path for batch in after.files() for path in batch.column("path").to_pylist()]
    assert before == [row for batch in after.scan() for row in batch.to_pylist()]
    assert "typeChanges" not in str(after.metadata.schema_string)
    assert ["f"] != files
    assert [pa.int64()] == [pq.read_schema(tmp_path / "t" / path).field("a").type for path in files]
    assert (1, 7, sorted([*LEGACY, "checkpointProtection"])) == supported(storage)
    assert [] == errors(storage)


@pytest.mark.parametrize("name", ["typeWidening", "columnMapping", "v2Checkpoint", "checkConstraints", "rowTracking"])
def test_the_plan_names_the_clients_that_regain_access(name: str) -> None:
    storage = tracked() if name == "rowTracking" else built([*LEGACY, name]).in_memory()
    before = {one.access.client.name: one.access for one in open_at(storage).explain().clients}
    plan = open_at(storage).drop_features(name, dry_run=True)

    open_at(storage).execute_drop_features(plan)

    after = {one.access.client.name: one.access for one in open_at(storage).explain().clients}
    regained = {
        client: (now.reads, now.writes)
        for client, now in after.items()
        if (now.reads and not before[client].reads) or (now.writes and not before[client].writes)
    }
    assert regained == {one.client.name: (one.reads, one.writes) for one in plan.clients}
    assert regained
