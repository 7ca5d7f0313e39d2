"""Cases of the reference suite about dropped features: histories that are cut, vectors, timestamps, odd protocols."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock, system_clock
from deltacli.core.times import DAY_MS, UNITS_MS
from deltacli.storage import Storage, open_storage
from tests.operations.alter.test_drop_feature import LEGACY, built, drop, errors, supported
from tests.support.actions import add, commit_info, deletion_vector, protocol, remove
from tests.support.altering import table_of
from tests.support.builder import LOG
from tests.support.committing import infos
from tests.support.optimizing import Ids
from tests.support.reading import NOW_MS, open_at
from tests.support.rows import parquet_bytes
from tests.support.small_vectors import inline

HOUR_MS = UNITS_MS["hour"]
V2 = {"delta.checkpointPolicy": "v2"}
Step = tuple[str, Any]  # Any: what the step takes


def on_disk(tmp_path: Path, **properties: str) -> tuple[Storage, int]:
    """A table that uses `v2Checkpoint`, and the time at which it was written."""
    place = built([*LEGACY, "v2Checkpoint"], {**V2, **properties}).write(tmp_path / "t")
    return open_storage(str(place)), system_clock()


def step(storage: Storage, now: int, kind: str, value: Any) -> str:
    """`cut`: drop with truncated history so many hours later; `fast`: without; the others are settings."""
    table = Table(storage, clock=fixed_clock(now))
    match kind:
        case "cut":
            return drop(storage, "v2Checkpoint", now_ms=now + int(value * HOUR_MS), truncate=True)
        case "uncover":
            return drop(storage, "checkpointProtection", now_ms=now + int(value * HOUR_MS), truncate=True)
        case "fast":
            return drop(storage, "v2Checkpoint", now_ms=now + int(value * HOUR_MS))
        case "set":
            table.set_properties(value)
    return "set"


WAIT = "features.wait"
HISTORIES: list[tuple[str, list[Step], list[str], bool]] = [
    # id, steps, their verdicts, whether older versions are protected afterwards
    ("8.5 8.6", [("cut", 0), ("cut", 24.1)], [WAIT, "ok"], False),
    ("8.7", [("cut", 0), ("cut", 23)], [WAIT, WAIT], False),
    ("8.8", [("cut", 0), ("fast", 1)], [WAIT, "ok"], True),
    ("8.11", [("cut", 0), ("set", {"k": "v"}), ("cut", 24.1)], [WAIT, "set", "ok"], False),
    (
        "8.12",
        [("set", {"delta.logRetentionDuration": "interval 7 days"}), ("cut", 0), ("cut", 23), ("cut", 24.1)],
        ["set", WAIT, WAIT, "ok"],
        False,
    ),
    (
        "8.13",
        [
            ("set", {"delta.dropFeatureTruncateHistory.retentionDuration": "interval 12 hours"}),
            ("cut", 0),
            ("cut", 11),
            ("cut", 12.1),
        ],
        ["set", WAIT, WAIT, "ok"],
        False,
    ),
    ("8.15", [("fast", 0), ("uncover", 0), ("uncover", 15)], ["ok", WAIT, WAIT], True),
    ("8.16", [("fast", 0), ("uncover", 0), ("uncover", 48)], ["ok", WAIT, "ok"], False),
]


@pytest.mark.parametrize(("case", "steps", "verdicts", "is_protected"), HISTORIES, ids=[one[0] for one in HISTORIES])
def test_histories(case: str, steps: list[Step], verdicts: list[str], is_protected: bool, tmp_path: Path) -> None:
    storage, now = on_disk(tmp_path)

    assert verdicts == [step(storage, now, kind, value) for kind, value in steps], case

    after = open_at(storage).snapshot()
    assert is_protected == ("checkpointProtection" in after.protocol.supported_features)
    assert is_protected == ("delta.requireCheckpointProtectionBeforeVersion" in after.properties)
    if verdicts[-1] == "ok" and not is_protected:
        assert (1, 2, []) == supported(storage)
        assert not (tmp_path / "t" / LOG / f"{0:020d}.json").exists()
    assert [] == errors(storage)


def test_a_feature_that_came_into_use_again_waits_again(tmp_path: Path) -> None:
    """8.10."""
    place = built([*LEGACY, "v2Checkpoint", "inCommitTimestamp"], V2).write(tmp_path / "t")
    storage, now = open_storage(str(place)), system_clock()
    steps = [
        *[("set", {"delta.enableInCommitTimestamps": "true"}), ("cut", 0), ("set", V2)],
        *[("cut", 24.1), ("cut", 48), ("cut", 48.3)],
    ]

    assert ["set", WAIT, "set", WAIT, WAIT, "ok"] == [step(storage, now, kind, value) for kind, value in steps]


def test_the_time_that_a_wait_names_is_the_first_at_which_it_goes_on(tmp_path: Path) -> None:
    storage, now = on_disk(tmp_path)
    with pytest.raises(DeltacliError) as raised:
        Table(storage, clock=fixed_clock(now)).drop_features("v2Checkpoint", truncate_history=True)
    again = raised.value.facts["again"]
    from datetime import datetime

    begin = int(datetime.fromisoformat(again).timestamp() * 1000)
    assert WAIT == raised.value.code
    assert 0 < begin - now - DAY_MS <= 3 * 60_000
    assert [WAIT, "ok"] == [drop(storage, "v2Checkpoint", now_ms=at, truncate=True) for at in (begin - 60_000, begin)]


def test_a_history_that_has_expired_keeps_nothing_back(tmp_path: Path) -> None:
    """8.17."""
    storage, now = on_disk(tmp_path)
    assert WAIT == drop(storage, "v2Checkpoint", now_ms=now, truncate=True)
    late = Table(storage, clock=fixed_clock(now + 40 * DAY_MS))
    late.expire_log()

    assert "ok" == drop(storage, "v2Checkpoint", now_ms=now + 40 * DAY_MS, truncate=True)
    assert (1, 2, []) == supported(storage)


STAMPS = {
    "from version 0": {"delta.enableInCommitTimestamps": "true"},
    "later": {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "1",
        "delta.inCommitTimestampEnablementTimestamp": "1",
    },
    "off": {"delta.enableInCommitTimestamps": "false"},
    "nothing": {},
}


@pytest.mark.parametrize("name", STAMPS)
def test_timestamps_go_with_their_properties(name: str) -> None:
    """8.37."""
    builder = table_of("a int", features=[*LEGACY, "inCommitTimestamp"], properties=STAMPS[name])
    storage = builder.commit(commit_info(inCommitTimestamp=5), add("f", records=1)).in_memory()

    assert ["ok", "features.not-present"] == [drop(storage, "inCommitTimestamp") for _ in range(2)]
    assert not [key for key in open_at(storage).snapshot().properties if "inCommitTimestamp" in key]
    assert (1, 2, []) == supported(storage)
    changes = [info["operation"] for info in infos(storage)[2:]]
    assert (["UNSET TBLPROPERTIES"] if STAMPS[name] else []) + ["DROP FEATURE"] == changes


@pytest.mark.parametrize("layout", ["classic", "v2"])
def test_checkpoints_are_classic_afterwards(layout: str) -> None:
    """8.35."""
    storage = built([*LEGACY, "v2Checkpoint"], V2).in_memory()
    if layout == "v2":
        open_at(storage).checkpoint()

    assert "ok" == drop(storage, "v2Checkpoint")
    assert "classic" == open_at(storage).snapshot().checkpoint_layout
    assert [] == errors(storage)


UNWRITABLE = [
    ("8.36", ["vacuumProtocolCheck", "catalogManaged", "inCommitTimestamp"], {}, "vacuumProtocolCheck"),
    ("8.36 itself", ["vacuumProtocolCheck", "catalogManaged", "inCommitTimestamp"], {}, "catalogManaged"),
    (
        "8.38",
        ["coordinatedCommits-preview", "vacuumProtocolCheck", "inCommitTimestamp"],
        {"delta.coordinatedCommits.commitCoordinator-preview": "c"},
        "coordinatedCommits-preview",
    ),
    ("8.39", ["redirectWriterOnly-preview"], {}, "redirectWriterOnly-preview"),
]


@pytest.mark.parametrize(("case", "features", "properties", "name"), UNWRITABLE, ids=[one[0] for one in UNWRITABLE])
def test_what_a_catalog_or_another_table_decides_is_refused(
    case: str, features: list[str], properties: dict[str, str], name: str
) -> None:
    """The reference moves the commits of a coordinator and forgets a redirection; whoever made them does it here."""
    storage = built([*LEGACY, *features], properties).in_memory()

    with pytest.raises(DeltacliError, match=r"catalog|redirect"):
        open_at(storage).drop_features(name)
    assert set(features) <= open_at(storage).snapshot().protocol.supported_features, case


def test_new_files_are_in_directories_of_two_letters() -> None:
    """5.6."""
    ids = Ids(configuration={"delta.randomizeFilePrefixes": "true"}).append("f", "g")
    table = ids.table()
    table.optimize()

    paths = [path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()]
    assert [True] == [len(path.split("/")[0]) == 2 for path in paths]


NEVER = ["appendOnly", "changeDataFeed", "generatedColumns", "identityColumns", "timestampNtz", "variantType"]
NEVER += ["icebergCompatV1", "clustering", "allowColumnDefaults", "invariants", "variantShredding"]


@pytest.mark.parametrize("name", NEVER)
def test_what_the_reference_never_removes_is_refused_by_its_name(name: str) -> None:
    """8.18."""
    storage = built([*LEGACY, "columnMapping", "domainMetadata", *({name} - {*LEGACY})]).in_memory()

    with pytest.raises(DeltacliError, match=f"the feature {name} cannot be dropped: no engine removes it") as raised:
        open_at(storage).drop_features(name)
    assert "features.not-removable" == raised.value.code


def vectors(*lines: Any) -> Storage:
    names = ["deletionVectors", *LEGACY]
    builder = table_of("a int", features=names, properties={"delta.enableDeletionVectors": "true"})
    return builder.commit(commit_info(), *lines).in_memory()


OLD = {"deleted_ms": NOW_MS - 8 * DAY_MS}
KEPT: list[tuple[str, Callable[[], Storage], int]] = [
    ("8.29", lambda: vectors(remove("f", vector=deletion_vector(), deleted_ms=NOW_MS)), 1),
    ("8.30", lambda: vectors(*(remove(n, vector=deletion_vector(), deleted_ms=NOW_MS) for n in "fg")), 1),
    (
        "8.31",
        lambda: vectors(remove("f", vector=deletion_vector("file:///t/dv.bin", storage="p"), deleted_ms=NOW_MS)),
        0,
    ),
    ("8.32 expired", lambda: vectors(remove("f", vector=deletion_vector(), **OLD)), 0),
    ("8.32 inline", lambda: vectors(remove("f", vector=inline([0]), deleted_ms=NOW_MS)), 0),
]


@pytest.mark.parametrize(("case", "build", "expected"), KEPT, ids=[one[0] for one in KEPT])
def test_vectors_that_older_versions_need_get_tombstones(
    case: str, build: Callable[[], Storage], expected: int
) -> None:
    storage = build()

    assert "ok" == drop(storage, "deletionVectors")

    rows = [row for batch in open_at(storage).snapshot().tombstones() for row in batch.to_pylist()]
    assert expected == sum("deletion_vector_" in row["path"] for row in rows), case
    again = [info["operation"] for info in infos(storage)].count("Deletion Vector Tombstones")
    assert bool(expected) == again
    assert [] == errors(storage)


def test_a_tombstone_of_a_vector_is_no_change_of_rows() -> None:
    """8.34."""
    ids = Ids("changeDataFeed", configuration={"delta.enableChangeDataFeed": "true"}, partitioned=False)
    ids.append("f", deleted=(0,))
    storage = ids.builder.in_memory()
    first = open_at(storage).snapshot().version

    assert "ok" == drop(storage, "deletionVectors")
    assert [] == [row for batch in open_at(storage).changes(from_version=first + 1) for row in batch.to_pylist()]


def test_a_damaged_file_keeps_type_widening(tmp_path: Path) -> None:
    """8.44."""
    import pyarrow as pa

    data = parquet_bytes(pa.table({"a": pa.array([1], pa.int32())}))
    properties = {"delta.enableTypeWidening": "true"}
    builder = table_of("a int", features=[*LEGACY, "typeWidening"], properties=properties).file("f", data)
    storage = open_storage(
        str(builder.commit(commit_info(), add("f", size=len(data), records=1)).write(tmp_path / "t"))
    )
    open_at(storage).widen_type(("a", "bigint"))
    (tmp_path / "t" / "f").write_bytes(data[: len(data) // 2])

    assert drop(storage, "typeWidening").startswith(("data.", "features.in-use"))
    assert "typeWidening" in open_at(storage).snapshot().protocol.supported_features
    (tmp_path / "t" / "f").write_bytes(data)
    assert "ok" == drop(storage, "typeWidening")
    assert [] == errors(storage)


def test_a_type_change_that_no_reader_knows_keeps_type_widening() -> None:
    """8.43."""
    odd = {"delta.typeChanges": [{"fromType": "string", "toType": "integer"}]}
    storage = built([*LEGACY, "typeWidening"], columns="a int", a=odd).in_memory()

    assert drop(storage, "typeWidening") not in ("ok", "internal")
    assert "typeWidening" in open_at(storage).snapshot().protocol.supported_features


def test_one_of_two_names_of_a_feature_goes_without_a_rewrite() -> None:
    changes = {"delta.typeChanges": [{"fromType": "short", "toType": "integer"}]}
    storage = built([*LEGACY, "typeWidening", "typeWidening-preview"], columns="a int", a=changes).in_memory()

    assert "ok" == drop(storage, "typeWidening-preview")
    assert ["DROP FEATURE"] == [info["operation"] for info in infos(storage)[2:]]
    assert "typeWidening" in open_at(storage).snapshot().protocol.supported_features


def test_protocols_of_the_future_are_not_read() -> None:
    """8.48."""
    for one in (
        protocol(4, 7, reader_features=[], writer_features=[]),
        protocol(3, 7, reader_features=["x"], writer_features=["x"]),
    ):
        storage = built().commit(commit_info(), one).in_memory()
        with pytest.raises(DeltacliError):
            open_at(storage).drop_features("deletionVectors")


def test_a_domain_of_an_application_is_refused_by_its_name() -> None:
    """The reference removes the domains of applications without asking."""
    from tests.support.actions import domain

    storage = built([*LEGACY, "domainMetadata"]).commit(commit_info(), domain("app.state", '{"a":1}')).in_memory()

    with pytest.raises(DeltacliError, match=r"the domain app\.state") as raised:
        open_at(storage).drop_features("domainMetadata")
    assert "features.in-use" == raised.value.code
    assert json.dumps({"a": 1}, separators=(",", ":")) == next(iter(open_at(storage).snapshot().domains)).configuration
