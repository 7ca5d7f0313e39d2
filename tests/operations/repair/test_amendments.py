"""What the log says of files that are intact: statistics, sizes, descriptors of vectors are committed as they are."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deltacli.operations.repair.plan import StepState
from deltacli.operations.repair.repair import plan_repair
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from deltacli.rules.framework.repairs import StepKind
from deltacli.storage import LocalStorage
from tests.operations.recover.test_find_and_put import table_at
from tests.support.damaged_tables import ADDED, ADDITION, LAST, TABLE_DAMAGES, DamagedTable
from tests.support.faulty import Fault
from tests.support.reading import open_at
from tests.support.repairing import execute_repair, open_damaged, readable_rows, repair_and_check, request
from tests.support.vacuuming import Killed, MortalStorage

Action = dict[str, Any]  # Any: JSON values
MENDED = {
    "say_another_size": {"data.size-mismatch"},
    "statistics_that_are_no_json": {"stats.bad-json"},
    "wrong_bounds": {"stats.bounds-not-covering", "stats.bounds-not-tight"},
    "wrong_number_of_records": {"stats.num-records-mismatch"},
}


@pytest.mark.parametrize("damage", [one for one in TABLE_DAMAGES if one.name in MENDED], ids=lambda damage: damage.name)
def test_what_is_true_is_committed(damage: Any, tmp_path: Path) -> None:  # Any: a damage
    damage.apply(damaged := DamagedTable())
    root = damaged.write(tmp_path / "t")
    rows = readable_rows(open_damaged(DamagedTable().write(tmp_path / "healthy")))

    done = repair_and_check(root, request())

    assert {StepKind.REBUILD} == {step.action for step in done.steps}
    assert {step.rule for step in done.steps} & MENDED[damage.name]
    assert [LAST + 1] == done.versions
    assert rows == readable_rows(open_damaged(root))
    info, add = (json.loads(one) for one in (root / f"_delta_log/{LAST + 1:020d}.json").read_text().splitlines())
    assert "FSCK" == info["commitInfo"]["operation"]
    assert (ADDED, False, (root / ADDED).stat().st_size) == tuple(
        add["add"][name] for name in ("path", "dataChange", "size")
    )
    stats = json.loads(add["add"]["stats"])
    assert 10 == stats["numRecords"]
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (rows_of(root, ADDED)[0], rows_of(root, ADDED)[-1])
    left = {one.rule.id for one in validate_table(open_damaged(root), ValidateRequest(level="data")).findings}
    assert not left & MENDED[damage.name] - {"stats.bad-json"}, "a line of a commit stays as it is"


def rows_of(root: Path, path: str) -> list[int]:
    import pyarrow.parquet as pq

    found: list[int] = pq.ParquetFile(root / path).read()["id"].to_pylist()
    return sorted(found)


def test_statistics_of_a_file_that_cannot_be_read_are_left(tmp_path: Path) -> None:
    table = DamagedTable()
    table.add(ADDITION)["stats"] = "{"
    table.drop(ADDED)
    root = table.write(tmp_path / "t")

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert (
        "its rows cannot be read: it is missing"
        == {one.rule: one.reason for one in done.plan.unrepaired}["stats.bad-json"]
    )


def test_a_file_that_is_added_twice_is_added_once_more(tmp_path: Path) -> None:
    table = DamagedTable()
    table.commits[ADDITION].append({"add": dict(table.add(ADDITION))})
    root = table.write(tmp_path / "t")

    done = repair_and_check(root, request(level="log"))

    assert [("action.duplicate-path", StepKind.REBUILD)] == [(step.rule, step.action) for step in done.steps]
    assert [LAST + 1] == done.versions
    assert "a later commit" in {one.rule: one.reason for one in done.plan.unrepaired}["action.duplicate-path"]
    assert 80 == readable_rows(open_damaged(root)).total()


def test_a_run_that_dies_before_a_call_is_ended_by_the_next(tmp_path: Path) -> None:
    def write(place: Path) -> Path:
        table = DamagedTable()
        table.add(ADDITION)["size"] += 1000
        return table.write(place)

    root, asked = write(tmp_path / "t"), request(level="storage")
    counting = MortalStorage(LocalStorage(str(root)))
    execute_repair(plan_repair(open_at(counting), asked))
    writes = [
        at for at, (verb, _) in enumerate(counting.calls, 1) if verb in ("put_if_absent", "put", "begin", "publish")
    ]
    assert writes

    for at in [*writes, len(counting.calls)]:
        place = write(tmp_path / str(at))
        dying = MortalStorage(LocalStorage(str(place)), at, Fault.KILLED_BEFORE, dies=True)
        with suppress(Killed):
            execute_repair(plan_repair(open_at(dying), asked))
        assert 80 == readable_rows(open_damaged(place)).total()
        execute_repair(plan_repair(open_damaged(place), asked))
        assert () == plan_repair(open_damaged(place), asked).steps
        assert LAST + 1 == open_damaged(place).snapshot().version, at
        assert 80 == readable_rows(open_damaged(place)).total()


def test_two_different_adds_are_not_chosen_from(tmp_path: Path) -> None:
    table = DamagedTable()
    table.commits[ADDITION].append({"add": table.add(ADDITION) | {"partitionValues": {"p": "a"}}})
    root = table.write(tmp_path / "t")

    done = repair_and_check(root, request(level="log"))

    assert "which of its actions" in {one.rule: one.reason for one in done.plan.unrepaired}["action.duplicate-path"]


@pytest.fixture
def with_vectors(tmp_path: Path) -> Path:
    table_at(tmp_path / "t")
    return tmp_path / "t"


def of_vector(root: Path, change: Any) -> None:  # Any: changes a descriptor
    """Change the first stored vector of the newest commit that has one."""
    for commit in sorted((root / "_delta_log").glob("0*.json"), reverse=True):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        stored = [vector for line in lines if (vector := line.get("add", {}).get("deletionVector"))]
        if stored:
            change(stored[0])
            commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            return
    raise AssertionError("no vector")


def plus(name: str, by: int) -> Any:  # Any: changes a descriptor
    return lambda vector: vector.update({name: (vector.get(name) or 0) + by})


@pytest.mark.parametrize("name", ["sizeInBytes", "offset", "cardinality"])
def test_a_descriptor_gets_the_values_of_its_bitmap(name: str, with_vectors: Path) -> None:
    rows = readable_rows(open_damaged(with_vectors))
    of_vector(with_vectors, plus(name, 1))
    assert rows != readable_rows(open_damaged(with_vectors))

    done = execute_repair(plan_repair(open_damaged(with_vectors), request()))

    assert [] == [step.reason for step in done.steps if step.state is not StepState.DONE]
    assert {StepKind.REBUILD} == {step.action for step in done.steps}
    assert rows == readable_rows(open_damaged(with_vectors))
    assert () == plan_repair(open_damaged(with_vectors), request()).steps


def test_two_wrong_values_are_not_guessed(with_vectors: Path) -> None:
    def change(vector: Action) -> None:
        plus("sizeInBytes", 1)(vector)
        plus("offset", 2)(vector)

    of_vector(with_vectors, change)

    done = execute_repair(plan_repair(open_damaged(with_vectors), request()))

    assert {StepKind.REMOVE_REFERENCE} == {step.action for step in done.steps if step.rule.startswith("dv.")}
