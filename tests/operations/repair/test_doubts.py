"""Commits that were damaged and can still be parsed: nothing is given up, and nothing written, for what they say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import open_table
from deltacli.changing.change import execute_change
from deltacli.changing.outcome import require_complete
from deltacli.core.errors import PartlyDone
from deltacli.operations.repair.plan import StepState
from deltacli.operations.repair.repair import plan_repair
from deltacli.rules.framework.repairs import StepKind
from tests.rules.corruptions_compactions import compact, healthy
from tests.support.actions import commit_info
from tests.support.damaged_tables import ADDED, ADDITION, CHECKPOINT, CHECKPOINT_VERSION, HINT, LAST, DamagedTable, tear
from tests.support.optimizing import Ids, rows_of
from tests.support.repairing import content_of, execute_repair, open_damaged, readable_rows, request
from tests.support.small_vectors import inline

Action = dict[str, Any]  # Any: JSON values


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return DamagedTable().write(tmp_path / "t")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return DamagedTable().write(tmp_path / "copy")


def edit(root: Path, version: int, change: Callable[[Action], None], kind: str = "add") -> None:
    commit = root / f"_delta_log/{version:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if kind in line:
            change(line[kind])
    commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def left(root: Path, **asked: Any) -> dict[str, str]:  # Any: fields of the request
    done = execute_repair(plan_repair(open_damaged(root), request(**asked)))
    return {one.rule: one.reason for one in done.plan.unrepaired}


def test_lost_commits_below_a_compaction_come_back_and_it_stays(tmp_path: Path) -> None:
    """The compaction may be the only trace of them, so it is not moved before they are back."""
    compact(healthy(), 2, 4).write(tmp_path / "t")
    root, lost = tmp_path / "t", tmp_path / f"t/_delta_log/{4:020d}.json"
    kept = lost.read_bytes()
    (tmp_path / "copy/_delta_log").mkdir(parents=True)
    for file in (root / "_delta_log").iterdir():
        (tmp_path / "copy/_delta_log" / file.name).write_bytes(file.read_bytes())
    lost.unlink()
    (root / f"_delta_log/{4:020d}.crc").unlink()
    before = content_of(root)

    found = left(root)
    assert "delete the file only if they were never made" in found["compaction.beyond-log"]
    assert "which the next commit would replace" in found["data.not-parquet"], (
        "the data files of the table are not real"
    )
    assert "which the next commit would replace" in left(root, select=["data.not-parquet"])["data.not-parquet"]
    assert before == content_of(root)

    copied = request(level="log", sources=[tmp_path / "copy"])
    done = execute_repair(plan_repair(open_damaged(root), copied))

    assert [("compaction.beyond-log", StepState.DONE)] == [(step.rule, step.state) for step in done.steps][:1]
    assert kept == lost.read_bytes()
    assert {} == left(root, level="log")


@pytest.mark.parametrize("rule", ["hint.ahead-of-log", "crc.without-commit"])
def test_a_lost_commit_that_the_hint_or_a_checksum_names_comes_back_first(rule: str, root: Path, copy: Path) -> None:
    """A source that lacks it proves nothing, and leaves them to be written anew or moved away as without one."""
    is_hint = rule.startswith("hint")
    lost = range(CHECKPOINT_VERSION if is_hint else LAST, LAST + 1)
    if not is_hint:
        for place in (root, copy):
            (place / f"_delta_log/{LAST:020d}.crc").write_text("{}")
    whole = content_of(root)
    for version in lost:
        for file in root.glob(f"_delta_log/{version:020d}.*"):
            if is_hint or file.suffix != ".crc":
                file.unlink()
    shutil.copytree(root, copy.with_name("without"))

    def planned(*sources: Path) -> list[StepKind]:
        plan = plan_repair(open_damaged(root), request(level="log", sources=sources))
        return [step.action for step in plan.steps if step.rule == rule]

    assert [StepKind.RECOVER] == planned(copy)
    assert planned() == planned(copy.with_name("without"))
    assert 1 == len(planned())
    assert StepKind.RECOVER not in planned()

    execute_repair(plan_repair(open_damaged(root), request(level="log", select=[rule], sources=[copy])))

    assert whole == content_of(root)


@pytest.mark.parametrize("selected", [(), ("data.file-missing",)])
def test_a_file_that_is_there_under_another_name_is_not_given_up(root: Path, selected: tuple[str, ...]) -> None:
    wrong = ADDED.replace("part", "part".upper())
    edit(root, ADDITION, lambda add: add.update(path=wrong))
    before = content_of(root)

    done = execute_repair(plan_repair(open_damaged(root), request(level="storage", select=selected)))

    assert before == content_of(root)
    assert ["repair.file-renamed"] == [one.code for one in done.plan.refusals]
    assert [("data.file-missing", StepState.REFUSED)] == [(step.rule, step.state) for step in done.plan.steps]
    assert wrong in done.plan.refusals[0].message
    assert ADDED in done.plan.refusals[0].message


def test_another_file_without_a_name_stops_nothing(root: Path) -> None:
    data = (root / ADDED).read_bytes()
    (root / ADDED).rename(root / "p=b/other.parquet")
    (root / "p=b/other.parquet").write_bytes(data[::-1])

    done = execute_repair(plan_repair(open_damaged(root), request(level="storage")))

    assert [LAST + 1] == done.versions


def test_a_vector_that_is_there_under_another_name_is_not_given_up(tmp_path: Path) -> None:
    from tests.operations.recover.test_find_and_put import table_at

    table_at(tmp_path / "t")
    (vector,) = (tmp_path / "t" / "ab").iterdir()
    vector.rename(vector.parent.parent / vector.name.replace("deletion_vector_", "deletion_vector_0"))

    done = execute_repair(plan_repair(open_damaged(tmp_path / "t"), request(level="storage")))

    assert 0 == done.loss.files
    assert "repair.file-renamed" in [one.code for one in done.plan.refusals]


def test_a_source_with_other_commits_stops_what_depends_on_it(root: Path, copy: Path) -> None:
    (root / ADDED).unlink()
    (root / HINT).write_bytes(b"{")
    edit(copy, LAST, lambda add: add.update(size=add["size"] + 1))

    plan = plan_repair(open_damaged(root), request(level="storage", sources=[copy]))
    done = execute_repair(plan)

    assert ["recover.diverged"] == [one.code for one in plan.refusals]
    assert {"hint.bad-json": StepState.PLANNED, "data.file-missing": StepState.REFUSED} == {
        step.rule: step.state for step in plan.steps
    }
    assert {"hint.bad-json"} == {step.rule for step in done.steps}
    with pytest.raises(PartlyDone, match="differs from the one in"):
        require_complete(done)


def test_nothing_is_written_from_a_commit_of_which_there_are_two(root: Path, copy: Path) -> None:
    tear(root / CHECKPOINT)
    edit(copy, 6, lambda add: add.update(size=add["size"] + 1000))

    plan = plan_repair(open_damaged(root), request(level="log", sources=[copy]))

    assert {"checkpoint.unreadable": StepState.REFUSED} == {
        step.rule: step.state for step in plan.steps if step.rule.startswith("checkpoint")
    }


def test_what_was_done_is_not_denied_where_no_further_plan_can_be_made(
    root: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltacli.core.errors import NOTHING_CHANGED, Refused
    from deltacli.operations.repair import repair as execute

    (root / HINT).write_bytes(b"{")
    plan = plan_repair(open_damaged(root), request(level="log"))

    def refuse(*_: object) -> None:
        raise Refused("the copy has other files", preamble=NOTHING_CHANGED, code="recover.other-table")

    monkeypatch.setattr(execute, "plan_repair", refuse)
    with pytest.raises(PartlyDone, match=r"^the copy has other files") as fault:
        execute_change(execute.Repair(plan.request), plan.table, plan=plan)

    assert ("recover.other-table", 4) == (fault.value.code, fault.value.cause_exit_code)
    assert "1 step done" in str(fault.value.facts["so far"])


def moved(add: Action) -> None:
    add["partitionValues"] = {"p": "c"}


def counted(add: Action) -> None:
    add["stats"] = add["stats"].replace('"numRecords":10', '"numRecords":11')


@pytest.mark.parametrize("change", [moved, counted])
def test_a_checkpoint_is_kept_where_the_commits_have_other_values(root: Path, change: Callable[[Action], None]) -> None:
    before = (root / CHECKPOINT).read_bytes()
    edit(root, 6, change)

    assert "a commit may be damaged" in left(root, level="log")["checkpoint.add-differs"]
    assert before == (root / CHECKPOINT).read_bytes()


def test_a_checkpoint_with_wrong_statistics_is_written_anew(tmp_path: Path) -> None:
    def count(rows: list[Action]) -> None:
        for row in rows:
            if row.get("add"):
                counted(row["add"])

    table = DamagedTable()
    table.edit_rows(count)
    root = table.write(tmp_path / "t")
    rows = readable_rows(open_damaged(root))

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert {"checkpoint.add-differs"} == {step.rule for step in done.steps}
    assert rows == readable_rows(open_damaged(root))


def test_a_checkpoint_is_kept_where_a_commit_has_another_schema(root: Path) -> None:
    before = (root / CHECKPOINT).read_bytes()
    edit(
        root,
        0,
        lambda data: data.update(schemaString=data["schemaString"].replace('"name": "name"', '"name": "nama"')),
        "metaData",
    )

    assert "no checksum" in left(root, level="log")["checkpoint.metadata-differs"]
    assert before == (root / CHECKPOINT).read_bytes()


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": None, "pathOrInlineDv": None, "offset": None, "sizeInBytes": None, "cardinality": None},
        {"storageType": "", "pathOrInlineDv": "", "offset": None, "sizeInBytes": 0, "cardinality": 0},
    ],
)
def test_a_checkpoint_with_vectors_that_no_file_has_is_written_again(vector: Action, tmp_path: Path) -> None:
    """As delta-rs 0.22 to 0.24 wrote them."""
    root = Ids().append("a").append("b").builder.write(tmp_path / "t")
    before = rows_of(open_table(str(root)))
    edit_checkpoint(root, lambda _: vector)

    done = open_table(str(root)).repair(allow_in_use=True)

    assert ([], before) == (list(done.plan.errors), rows_of(open_table(str(root))))


def test_a_checkpoint_that_gives_an_inline_vector_an_offset_is_written_again(tmp_path: Path) -> None:
    """
    Trino wrote it: a later delete removes the file by its identity in the commits, and its rows are read twice.
    """
    table = Ids()
    first = table.line("a", rows=5, deleted=[0])
    table.builder.commit(commit_info("WRITE"), first)
    root = table.builder.write(tmp_path / "t")
    edit_checkpoint(root, lambda vector: {**vector, "offset": 0})
    again = {**first["add"], "deletionVector": inline([0, 1])}
    remove = {"path": "a", "dataChange": True, "deletionTimestamp": 1, "deletionVector": first["add"]["deletionVector"]}
    lines = [{"commitInfo": {"timestamp": 1, "operation": "DELETE"}}, {"remove": remove}, {"add": again}]
    (root / f"_delta_log/{2:020d}.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert 7 == len(rows_of(open_table(str(root))))

    done = open_table(str(root)).repair(allow_in_use=True)

    assert ([], 3) == (list(done.plan.errors), len(rows_of(open_table(str(root)))))


def edit_checkpoint(root: Path, change: Callable[[Action], Action]) -> None:
    """Write a checkpoint, and change the vector of each add in it."""
    open_table(str(root)).checkpoint()
    (place,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    schema = pq.read_schema(place)
    rows = pq.read_table(place).to_pylist()
    for row in rows:
        if row["add"]:
            row["add"]["deletionVector"] = change(row["add"]["deletionVector"])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), place)
    for name in ("_last_checkpoint", *(path.name for path in (root / "_delta_log").glob("*.crc"))):
        (root / "_delta_log" / name).unlink(missing_ok=True)
