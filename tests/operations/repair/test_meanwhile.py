"""What a repair does where the table changes between its plan and its steps, and what it says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.changing.outcome import require_complete
from deltacli.core.errors import PartlyDone
from deltacli.operations.repair import repair as execute
from deltacli.operations.repair.plan import RepairPlan, RepairRequest, StepState
from deltacli.operations.repair.repair import plan_repair
from deltacli.storage import LocalStorage
from tests.operations.recover.test_proofs import grown
from tests.support.reading import open_at
from tests.support.repairing import execute_repair, request


def checkpoint_of(version: int) -> str:
    return f"_delta_log/{version:020d}.checkpoint.parquet"


def table_at(root: Path, *checkpoints: int) -> Table:
    """A table of six versions with checkpoints, all of which are damaged."""
    grown(root, 5)
    table = open_at(LocalStorage(str(root)))
    for version in checkpoints:
        table.checkpoint(version=version)
    for version in checkpoints:
        (root / checkpoint_of(version)).write_bytes(b"PAR1 damaged PAR1")
    return table


def test_a_file_that_came_back_is_not_said_to_be_given_up(tmp_path: Path) -> None:
    table, asked = table_at(tmp_path), request(level="storage")
    first, second = sorted(tmp_path.glob("*.parquet"))[:2]
    kept = first.read_bytes()
    first.unlink()
    second.unlink()
    plan = plan_repair(table, asked)
    first.write_bytes(kept)

    done = execute_repair(plan)

    states = {step.place.key: (step.state, step.committed_version) for step in done.steps}
    assert {first.name: (StepState.SKIPPED, None), second.name: (StepState.DONE, 6)} == states
    assert 1 == done.loss.files
    require_complete(done)


def test_nothing_is_said_to_be_removed_where_all_files_came_back(tmp_path: Path) -> None:
    table, asked = table_at(tmp_path), request(level="storage")
    first = min(tmp_path.glob("*.parquet"))
    kept = first.read_bytes()
    first.unlink()
    plan = plan_repair(table, asked)
    first.write_bytes(kept)

    done = execute_repair(plan)

    assert ([], [], 0, "nothing was changed") == (done.done, done.versions, done.loss.files, done.summary)
    assert "the file is there again" in str(done.steps[0].reason)


def test_a_checkpoint_that_a_writer_put_there_meanwhile_is_not_moved(tmp_path: Path) -> None:
    table, asked = table_at(tmp_path, 3), request(level="log")
    plan = plan_repair(table, asked)
    (tmp_path / checkpoint_of(3)).unlink()
    table.checkpoint(version=3)
    sound = (tmp_path / checkpoint_of(3)).read_bytes()

    done = execute_repair(plan)

    assert [StepState.SKIPPED] == [step.state for step in done.steps if step.place.version == 3]
    assert sound == (tmp_path / checkpoint_of(3)).read_bytes()
    assert done.backup_uri is None
    require_complete(done)


def test_what_came_up_meanwhile_is_told_apart_from_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer puts another damaged checkpoint there, as one that the rules object to does."""
    table, asked = table_at(tmp_path, 3), request(level="log")

    def beside_a_writer(table: Table, request: RepairRequest) -> RepairPlan:
        table.checkpoint(version=5)
        (tmp_path / checkpoint_of(5)).write_bytes(b"PAR1 damaged PAR1")
        return plan_repair(table, request)

    plan = plan_repair(table, asked)
    monkeypatch.setattr(execute, "plan_repair", beside_a_writer)
    done = execute_repair(plan, agreed=lambda _: False)

    found = {step["location"]["version"]: (step["state"], step["reason"]) for step in done.as_json()["steps"]}
    assert {
        3: ("done", None),
        5: ("skipped", "it was found while the repair ran; run the same command again"),
    } == found
    with pytest.raises(PartlyDone, match="it was found while the repair ran"):
        require_complete(done)
