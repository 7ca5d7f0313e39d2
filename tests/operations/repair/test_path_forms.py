"""Absolute paths in another spelling than that of Hadoop: found, and respelled without a moment of other rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.core.times import DAY_MS
from deltacli.delta.data_files import EMPTY_VECTOR_DIRECTORY, describe_empty_vector, unique_id, vector_file
from deltacli.delta.log.segment import commit_name
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.operations.repair.plan import StepState
from deltacli.operations.repair.repair import RepairOutcome, plan_repair
from deltacli.storage import LocalStorage
from tests.support.actions import commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.peers import Task, ask_for_rows, has_peer, peer_python
from tests.support.repairing import execute_repair, request

NOW_MS = 1_800_000_000_000
RULE = "path.file-uri-form"
FILES = ("a b.parquet", "ä=1.parquet", "c.parquet")
ENABLED = {"delta.enableDeletionVectors": "true"}

COUNTED = {"numRecords": 2}

Action = dict[str, Any]  # Any: JSON values


def write_old_clone(
    home: Path,
    *vectors: Action | None,
    properties: Mapping[str, str] = ENABLED,
    stats: Mapping[str, object] = COUNTED,
) -> Table:
    """Write a table whose files are in another directory, and named as earlier releases of deltacli did."""
    elsewhere = home / "source"
    elsewhere.mkdir()
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    adds = []
    for number, name in enumerate(FILES):
        pq.write_table(pa.table({"id": pa.array([number, number + 10], pa.int64())}), elsewhere / name)
        vector = vectors[number] if number < len(vectors) else None
        added: Action = {
            "path": (elsewhere / name).as_uri(),
            "size": (elsewhere / name).stat().st_size,
            "partitionValues": {},
            "dataChange": True,
            "modificationTime": 1_500_000_000_000,
            "stats": json.dumps(stats),
        }
        adds.append({"add": added | ({} if vector is None else {"deletionVector": vector})})
    builder = TableBuilder()
    features = ["deletionVectors"]
    builder.commit(
        commit_info("CLONE"),
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schemaString=json.dumps(schema), configuration=dict(properties)),
        *adds,
    )
    builder.write(home / "clone")
    return opened(home)


def opened(home: Path) -> Table:
    return open_table(home / "clone", allow_external=[home.as_uri()], clock=fixed_clock(NOW_MS))


def findings(home: Path) -> list[str]:
    validation = opened(home).validate()
    return sorted({finding.rule.id for finding in validation.findings if finding.severity.value != "info"})


def actions_of(home: Path, version: int) -> Iterator[tuple[str, Action]]:
    for line in (home / "clone" / "_delta_log" / commit_name(version)).read_text("utf-8").splitlines():
        yield from json.loads(line).items()


def replay(home: Path, version: int, key: Callable[[Action], tuple[str, str]]) -> list[Action]:
    """Return the live files of a version for a reader that compares files by a key, as the protocol describes."""
    live: dict[tuple[str, str], Action] = {}
    for number in range(version + 1):
        actions = list(actions_of(home, number))
        touched = [key(action) for kind, action in actions if kind in ("add", "remove")]
        assert len(touched) == len(set(touched)), "a commit has two actions on one logical file"
        for kind, action in actions:
            if kind == "remove":
                live.pop(key(action), None)
            elif kind == "add":
                live[key(action)] = action
    return list(live.values())


def by_text(action: Action) -> tuple[str, str]:
    return action["path"], unique_id(action.get("deletionVector"))


def by_meaning(action: Action) -> tuple[str, str]:
    return canonicalize_path(action["path"]), unique_id(action.get("deletionVector"))


def rows_of(home: Path, version: int | None = None) -> list[int]:
    scan = opened(home).snapshot(version=version).scan()
    return sorted(row["id"] for batch in scan for row in batch.to_pylist())


def test_files_without_vectors_are_respelled_by_two_commits(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    rows = rows_of(tmp_path)
    assert RULE in findings(tmp_path)

    outcome = opened(tmp_path).repair(allow_in_use=True)

    assert 2 == outcome.plan.version
    assert {"data.shared-file"} >= {*findings(tmp_path)}
    for version in range(3):
        assert rows == rows_of(tmp_path, version)
        for key in (by_text, by_meaning):
            assert len(FILES) == len(replay(tmp_path, version, key))
    live = replay(tmp_path, 2, by_text)
    assert {f"file:{tmp_path}/source/{name}" for name in ("a%20b.parquet", "ä=1.parquet", "c.parquet")} == {
        action["path"] for action in live
    }
    assert all(not action["dataChange"] and "deletionVector" not in action for action in live)
    vectors = [action.get("deletionVector") for version in (1, 2) for _, action in actions_of(tmp_path, version)]
    assert {"u"} == {vector["storageType"] for vector in vectors if vector}, "Spark's VACUUM fails on inline ones"


def read_with(engine: str, home: Path, versions: Sequence[int]) -> list[list[int] | None]:
    """Return the ids that another engine reads at versions of the clone; None where it refuses one."""
    python = peer_python()
    if python is None or not has_peer(python, engine):
        pytest.skip(f"{engine} is not there")
    tasks = [Task("clone", str(home / "clone"), version) for version in versions]
    own_place = home / "answers"
    own_place.mkdir()
    ids = list[list[int] | None]()
    for answer in ask_for_rows(python, f"rows_with_{engine}.py", tasks, own_place):
        if answer.place is None:
            ids.append(None)
            continue
        with pa.memory_map(str(answer.place)) as file:
            ids.append(sorted(pa.ipc.open_file(file).read_all()["id"].to_pylist()))
    return ids


@pytest.mark.parametrize("engine", ["deltalake", "duckdb"])
def test_readers_that_compare_texts_have_the_same_rows_at_each_version(engine: str, tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    rows = rows_of(tmp_path)
    opened(tmp_path).repair(allow_in_use=True)

    answers = read_with(engine, tmp_path, [0, 1, 2])

    if answers[0] is None:
        pytest.skip(f"this {engine} does not read files outside of the table")
    assert [rows] * 3 == answers


def test_a_second_repair_has_nothing_to_do(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    opened(tmp_path).repair(allow_in_use=True)

    assert not opened(tmp_path).repair(allow_in_use=True, dry_run=True).plan.steps


def test_an_interrupted_repair_is_continued(tmp_path: Path) -> None:
    """
    The table has the same rows between the commits; the vectors that delete nothing are taken away by the next run.
    """
    write_old_clone(tmp_path)
    opened(tmp_path).repair(allow_in_use=True)
    (tmp_path / "clone" / "_delta_log" / commit_name(2)).unlink()
    rows = rows_of(tmp_path)

    assert [RULE] == [rule for rule in findings(tmp_path) if rule.startswith(("path.", "dv."))]
    opened(tmp_path).repair(allow_in_use=True)

    assert rows == rows_of(tmp_path)
    live = replay(tmp_path, 2, by_text)
    assert [None] * len(FILES) == [action.get("deletionVector") for action in live]
    assert len(FILES) == len(replay(tmp_path, 2, by_meaning))


def write_vector(place: Path) -> Action:
    """Write the file of a vector that deletes row 0, and return its descriptor without a place."""
    import zlib

    bitmap = (1681511377).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(4)
    bitmap += (12346).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4) + (16).to_bytes(4, "little")
    bitmap += bytes(2)
    data = b"\x01" + len(bitmap).to_bytes(4, "big") + bitmap + zlib.crc32(bitmap).to_bytes(4, "big")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return {"offset": 1, "sizeInBytes": len(bitmap), "cardinality": 1}


def test_vectors_at_absolute_paths_and_in_the_table(tmp_path: Path) -> None:
    """
    A vector in the old spelling, one that is spelled right already, and one in the directory of the clone.
    """
    name = "deletion_vector_00000000-0000-0000-0000-000000000000.bin"
    described = write_vector(tmp_path / "clone" / name)
    write_vector(tmp_path / "vectors" / name)
    old = {"storageType": "p", "pathOrInlineDv": (tmp_path / "vectors" / name).as_uri(), **described}
    right = {"storageType": "p", "pathOrInlineDv": f"file:{tmp_path}/vectors/{name}", **described}
    own = {"storageType": "u", "pathOrInlineDv": "0" * 20, **described}
    write_old_clone(tmp_path, old, right, own, stats=COUNTED | {"tightBounds": False})
    rows = rows_of(tmp_path)
    assert [10, 11, 12] == rows

    opened(tmp_path).repair(allow_in_use=True)

    for version in range(3):
        assert rows == rows_of(tmp_path, version)
        for key in (by_text, by_meaning):
            assert len(FILES) == len(replay(tmp_path, version, key))
    vectors = {Path(action["path"]).name: action["deletionVector"] for action in replay(tmp_path, 2, by_text)}
    assert {"a%20b.parquet": right, "ä=1.parquet": right, "c.parquet": own} == vectors
    assert RULE not in findings(tmp_path)


@pytest.mark.parametrize(
    ("vector", "stats", "way_out"),
    [
        (
            {
                "storageType": "i",
                "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f5c8Xk0",
                "sizeInBytes": 40,
                "cardinality": 1,
            },
            {"numRecords": 2},
            "optimize",
        ),
        (None, {}, "stats"),
    ],
)
def test_what_cannot_be_told_apart_is_left_with_a_way_out(
    vector: Action | None, stats: dict[str, object], way_out: str, tmp_path: Path
) -> None:
    write_old_clone(tmp_path, vector, stats=stats)

    plan = opened(tmp_path).repair(select=["path.*"], allow_in_use=True, dry_run=True).plan

    assert not plan.steps
    assert way_out in next(left.reason for left in plan.unrepaired if left.rule == RULE)


def test_a_vector_with_rows_is_kept_whatever_its_directory_is_called(tmp_path: Path) -> None:
    descriptor = describe_empty_vector(UUID(int=7))
    place = vector_file(descriptor["pathOrInlineDv"])
    assert place is not None
    vector = descriptor | write_vector(tmp_path / "clone" / place)
    write_old_clone(tmp_path, vector, stats=COUNTED | {"tightBounds": False})
    rows = rows_of(tmp_path)

    opened(tmp_path).repair(allow_in_use=True)
    opened(tmp_path).repair(allow_in_use=True)

    assert rows == rows_of(tmp_path)
    assert 1 == [action.get("deletionVector") for action in replay(tmp_path, 2, by_text)].count(vector)
    assert len(FILES) == len(replay(tmp_path, 2, by_meaning))


def test_a_table_that_writes_no_vectors_needs_no_repair(tmp_path: Path) -> None:
    write_old_clone(tmp_path, properties={})

    assert RULE not in findings(tmp_path)


def test_the_owner_of_the_files_gets_a_note(tmp_path: Path) -> None:
    """
    Earlier releases made tables with absolute paths that are noted nowhere.
    """
    write_old_clone(tmp_path)
    (tmp_path / "source" / "_delta_log").mkdir()
    (tmp_path / "source" / "_delta_log" / commit_name(0)).write_text("")

    opened(tmp_path).repair(allow_in_use=True)

    assert 1 == len([*(tmp_path / "source" / "_delta_log" / "_deltacli_clones").iterdir()])


def test_two_spellings_without_a_change_of_the_vector_are_still_an_error(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    (_, added), *_ = [(kind, action) for kind, action in actions_of(tmp_path, 0) if kind == "add"]
    again = {**added, "path": added["path"].replace("file:///", "file:/")}
    removed = {"path": added["path"], "deletionTimestamp": 0, "dataChange": False}
    lines = [{"commitInfo": {"timestamp": 0}}, {"remove": removed}, {"add": again}]
    commit = tmp_path / "clone" / "_delta_log" / commit_name(1)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert "path.same-file-two-spellings" in findings(tmp_path)


CREATIONS = {"put_if_absent", "publish"}
WRITES = {"put_if_absent", "publish", "put", "begin", "replace", "delete_many"}


def repair_with(home: Path, storage: FaultyStorage) -> RepairOutcome:
    """Repair the clone through a store that may fail at a call."""
    table = opened(home)
    faulty = Table(storage, clock=fixed_clock(NOW_MS), open_other=table.open_other, allowed=table.allowed)
    return execute_repair(plan_repair(faulty, request(level="log")))


def faulty_store(home: Path, at: int = 0, fault: Fault = Fault.BEFORE) -> FaultyStorage:
    return FaultyStorage(LocalStorage(str(home / "clone")), at, fault)


def vector_files(home: Path) -> list[Path]:
    return list((home / "clone" / EMPTY_VECTOR_DIRECTORY).glob("*")) if has_vectors(home) else []


def has_vectors(home: Path) -> bool:
    return (home / "clone" / EMPTY_VECTOR_DIRECTORY).is_dir()


def named_vectors(home: Path) -> set[str]:
    """The files of vectors that some version of the clone names."""
    commits = (home / "clone" / "_delta_log").glob("*.json")
    vectors = [
        action["deletionVector"]
        for commit in commits
        for _, action in actions_of(home, int(commit.stem))
        if action.get("deletionVector")
    ]
    return {str(vector_file(vector["pathOrInlineDv"])) for vector in vectors}


def test_a_fault_at_a_call_leaves_the_rows_and_the_next_run_ends_the_work(tmp_path: Path, in_turn: InTurn) -> None:
    """Each version that there is reads alike by both keys, and names no vector that is not there."""
    write_old_clone(tmp_path)
    untouched = tmp_path / "untouched"
    shutil.copytree(tmp_path / "clone", untouched)
    rows = rows_of(tmp_path)
    counting = faulty_store(tmp_path)
    repair_with(tmp_path, counting)
    calls = counting.calls
    assert any(verb == "put_if_absent" and EMPTY_VECTOR_DIRECTORY in path for verb, path in calls)
    faults = [Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT]
    cases = [(at, fault) for at, (verb, _) in enumerate(calls, 1) if verb in WRITES for fault in faults]
    cases = [case for case in cases if case[1] in faults[:2] or calls[case[0] - 1][0] in CREATIONS]
    cases += [(at, Fault.BEFORE) for at, (verb, _) in enumerate(calls, 1) if verb not in WRITES]

    for at, fault in in_turn(cases):
        shutil.rmtree(tmp_path / "clone")
        shutil.copytree(untouched, tmp_path / "clone")

        with suppress(DeltacliError):
            repair_with(tmp_path, faulty_store(tmp_path, at, fault))

        newest = opened(tmp_path).snapshot().version
        for version in range(newest + 1):
            assert rows == rows_of(tmp_path, version), (calls[at - 1], fault)
            assert {len(FILES)} == {len(replay(tmp_path, version, key)) for key in (by_text, by_meaning)}
        assert named_vectors(tmp_path) <= {f"{path.parent.name}/{path.name}" for path in vector_files(tmp_path)}
        opened(tmp_path).repair(allow_in_use=True)
        assert RULE not in findings(tmp_path), (calls[at - 1], fault)
        assert rows == rows_of(tmp_path)
        assert 2 == opened(tmp_path).snapshot().version, (calls[at - 1], fault)


def call_of_commit(home: Path, version: int) -> int:
    """The number of the call that makes a version of the clone, from 1; the clone is as before afterwards."""
    untouched = home / "untouched"
    shutil.copytree(home / "clone", untouched)
    counting = faulty_store(home)
    repair_with(home, counting)
    shutil.rmtree(home / "clone")
    untouched.rename(home / "clone")
    names = [path for verb, path in counting.calls if verb in ("publish", "put_if_absent")]
    assert f"_delta_log/{commit_name(version)}" in names
    return next(
        at
        for at, (verb, path) in enumerate(counting.calls, 1)
        if verb in ("publish", "put_if_absent") and path.endswith(commit_name(version))
    )


class Overtaken(FaultyStorage):
    """A store in which another writer commits version 1 while the file of the vector is written."""

    def __init__(self, home: Path, *lines: Action) -> None:
        super().__init__(LocalStorage(str(home / "clone")))
        self._commit = home / "clone" / "_delta_log" / commit_name(1)
        self._data = "".join(json.dumps(line) + "\n" for line in lines)

    def step(self, verb: str, path: str, call: Callable[[], Any]) -> Any:  # Any: as of the call
        if path.startswith(EMPTY_VECTOR_DIRECTORY) and verb == "put_if_absent":
            self._commit.write_text(self._data)
        return super().step(verb, path, call)


def test_no_vector_is_left_behind_where_another_writer_removed_the_files(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    removes = [remove(action["path"], data_change=True) for kind, action in actions_of(tmp_path, 0) if kind == "add"]

    repair_with(tmp_path, Overtaken(tmp_path, commit_info("DELETE"), *removes))

    assert (1, []) == (opened(tmp_path).snapshot().version, vector_files(tmp_path))


def test_no_vector_is_left_behind_by_a_refused_commit(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    upgrade = protocol(3, 7, reader_features=["deletionVectors"], writer_features=["deletionVectors", "fromTheFuture"])

    with pytest.raises(DeltacliError):
        repair_with(tmp_path, Overtaken(tmp_path, commit_info("UPGRADE"), upgrade))

    assert [] == vector_files(tmp_path)


def test_a_lost_answer_about_the_vector_is_resolved_by_reading_it(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    untouched = tmp_path / "untouched"
    shutil.copytree(tmp_path / "clone", untouched)
    counting = faulty_store(tmp_path)
    repair_with(tmp_path, counting)
    (at,) = [at for at, (_, path) in enumerate(counting.calls, 1) if path in named_vectors(tmp_path)]
    shutil.rmtree(tmp_path / "clone")
    untouched.rename(tmp_path / "clone")

    done = repair_with(tmp_path, faulty_store(tmp_path, at, Fault.LOST))

    assert [1, 2] == done.versions
    assert {StepState.DONE} == {step.state for step in done.steps}


def test_a_version_that_was_committed_before_a_fault_is_named(tmp_path: Path) -> None:
    """The next run takes the vectors away; a vacuum deletes their file later."""
    write_old_clone(tmp_path)
    at = call_of_commit(tmp_path, 2)

    done = repair_with(tmp_path, faulty_store(tmp_path, at, Fault.BEFORE))

    assert [1] == done.versions
    assert done.failed
    assert 1 == len(vector_files(tmp_path))
    opened(tmp_path).repair(allow_in_use=True)
    assert [None] * len(FILES) == [action.get("deletionVector") for action in replay(tmp_path, 2, by_text)]


def test_a_vacuum_deletes_the_vector_once_no_version_names_it(tmp_path: Path) -> None:
    write_old_clone(tmp_path)
    opened(tmp_path).repair(allow_in_use=True)
    (vector,) = vector_files(tmp_path)
    later = open_table(tmp_path / "clone", allow_external=[tmp_path.as_uri()], clock=fixed_clock(NOW_MS + 30 * DAY_MS))

    opened(tmp_path).vacuum()
    assert vector.exists()
    later.vacuum(max_delete="100%")

    assert not vector.exists()
