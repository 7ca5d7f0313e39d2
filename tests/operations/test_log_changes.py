"""What maintains the log looks at the table again before it acts, and says what it did where an error ends it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change, plan_change
from deltacli.changing.execution import ChangeExecution
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.exact_plans import plan_expiry
from deltacli.core.errors import DeltacliError, PartlyDone, Refused, UsageError
from deltacli.core.machine import Machine, fixed_clock
from deltacli.fleet.policy_file.model import ExpirePolicy, Policy
from deltacli.fleet.running.steps import StepWork, attempt
from deltacli.operations.log import expire as expire_execute
from deltacli.operations.log.expire import ExpiryOutcome, ExpiryPlan, ExpiryRequest, LogExpiry
from deltacli.storage import LocalStorage, open_storage
from deltacli.storage.directory_identity import DirectoryIdentity
from deltacli.storage.hadoop_checksums import make_checksum_file
from deltacli.work.files.deleting import BatchOutcome, DeleteBatch, DeletePiece
from deltacli.work.files.permits import Permit
from deltacli.work.task import TaskContext
from tests.support.actions import Line, add, commit_info, protocol
from tests.support.builder import EPOCH_MS, LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind

NOW_MS = EPOCH_MS + 60 * 86_400_000
EXPIRY = LogExpiry(ExpiryRequest(), proves=False)


def opened(place: Path) -> Table:
    return Table(open_storage(str(place)), clock=fixed_clock(NOW_MS))


def made(place: Path) -> Path:
    return TableBuilder().commits(9).checkpoint(4).write(place)


def names(place: Path) -> set[str]:
    return set(os.listdir(place / LOG))


class OneFile(DeleteBatch):
    """A batch whose time is over after one file."""

    def __call__(self, piece: DeletePiece, context: TaskContext) -> BatchOutcome:
        done = super().__call__(replace(piece, paths=piece.paths[:1]), context)
        return replace(done, codes=done.codes + bytes(len(piece.paths) - 1))


def before_the_second_look(monkeypatch: pytest.MonkeyPatch, event: Callable[[], object]) -> None:
    """One file is deleted, then something happens before the table is looked at again."""
    look, looks = expire_execute._verified, iter((lambda: None, event))

    def verified(execution: ChangeExecution[ExpiryPlan, ExpiryOutcome]) -> Permit:
        next(looks)()
        return look(execution)

    monkeypatch.setattr(expire_execute, "_verified", verified)
    monkeypatch.setattr(expire_execute, "DeleteBatch", OneFile)


@pytest.mark.parametrize("how", ["plan", "dry run", "fleet plan"])
def test_no_expiry_is_planned_by_a_clock_behind_the_log(how: str, tmp_path: Path) -> None:
    table = Table(open_storage(str(made(tmp_path / "tbl"))), machine=Machine(lambda: 0))
    policy = Policy("p", {"log-expire": ExpirePolicy()})
    plans: dict[str, Callable[[], object]] = {
        "plan": table.plan_expire_log,
        "dry run": lambda: table.expire_log(dry_run=True),
        "fleet plan": lambda: plan_expiry(cast("CommandContext", None), table, policy, None),
    }

    with pytest.raises(Refused) as refused:
        plans[how]()

    assert "plan.clock" == refused.value.code


def test_an_error_after_a_first_batch_says_what_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = made(tmp_path / "tbl")
    before = names(place)
    before_the_second_look(monkeypatch, (place / commit_path(6)).unlink)

    with pytest.raises(PartlyDone) as partly:
        opened(place).expire_log()

    assert {f"{0:020d}.json", f"{6:020d}.json"} == before - names(place)
    assert ("log.gap", 3, "1 file deleted") == (
        partly.value.code,
        partly.value.cause_exit_code,
        partly.value.facts["so far"],
    )


def test_a_refusal_after_a_first_batch_does_not_say_that_nothing_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(tmp_path / "tbl")
    before_the_second_look(monkeypatch, lambda: _rewritten(place))

    with pytest.raises(PartlyDone) as partly:
        opened(place).expire_log()

    assert ("plan.other-past", 4, 5) == (partly.value.code, partly.value.cause_exit_code, partly.value.exit_code)
    assert "nothing" not in partly.value.message


def test_files_are_not_deleted_from_a_directory_that_took_the_place_of_the_table(tmp_path: Path) -> None:
    other = made(tmp_path / "other")
    link = tmp_path / "tbl"
    link.symlink_to(made(tmp_path / "first"))
    plan = plan_change(EXPIRY, opened(link))
    link.unlink()
    link.symlink_to(other)
    before = names(other)

    with pytest.raises(Refused) as refused:
        execute_change(EXPIRY, opened(link), plan=plan)

    assert "plan.other-place" == refused.value.code
    assert before == names(other)


def _longer_retention(place: Path) -> None:
    opened(place).set_properties({"delta.logRetentionDuration": "interval 365 days"})


def _rewritten(place: Path) -> None:
    (place / commit_path(8)).write_bytes(b'{"commitInfo":{}}\n')


def _rolled_back(place: Path) -> None:
    (place / commit_path(8)).unlink()


@pytest.mark.parametrize(
    "code, event",
    [
        ("expire.retention-longer", _longer_retention),
        ("plan.other-past", _rewritten),
        ("plan.newer", _rolled_back),
    ],
)
def test_an_expiry_is_refused_where_the_table_changed_after_the_plan(
    code: str, event: Callable[[Path], None], tmp_path: Path
) -> None:
    place = made(tmp_path / "tbl")
    plan = plan_change(EXPIRY, opened(place))
    event(place)
    before = names(place)

    with pytest.raises(Refused) as refused:
        execute_change(EXPIRY, opened(place), plan=plan)

    assert code == refused.value.code
    assert before == names(place)


def test_commits_of_others_do_not_stop_an_expiry(tmp_path: Path) -> None:
    place = made(tmp_path / "tbl")
    plan = plan_change(EXPIRY, opened(place))
    opened(place).set_properties({"owner": "ops"})

    assert len(plan.files) == execute_change(EXPIRY, opened(place), plan=plan).deleted


NEW_FEATURES = (
    protocol(1, 7, writer_features=["soon"]),
    protocol(3, 7, reader_features=["soon"], writer_features=["soon"]),
)
DERIVED: dict[str, Callable[[Table, int], object]] = {
    "checkpoint": lambda table, version: table.checkpoint(version=version),
    "checkpoint in parts": lambda table, version: table.checkpoint(version=version, layout="multi-part", parts=2),
    "crc": lambda table, version: table.write_checksum(version=version),
    "compact": lambda table, version: table.compact_log(1, version),
}


@pytest.mark.parametrize("feature", NEW_FEATURES, ids=["writer", "reader"])
@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_no_file_of_the_log_is_written_where_the_newest_version_has_an_unknown_feature(
    derive: Callable[[Table, int], object], feature: Line, tmp_path: Path
) -> None:
    place = TableBuilder().commits(5).commit(feature).write(tmp_path / "tbl")
    before = names(place)

    with pytest.raises(DeltacliError, match="soon"):
        derive(opened(place), 3)

    assert before == names(place)


def test_a_damaged_newest_commit_does_not_keep_an_older_version_from_its_checkpoint(tmp_path: Path) -> None:
    place = TableBuilder().commits(5).commit(raw=b'{"add":{"pa').write(tmp_path / "tbl")

    assert f"{3:020d}.checkpoint.parquet" in opened(place).checkpoint(version=3).files[0].path


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_no_file_of_the_log_is_written_for_a_commit_that_was_rewritten_meanwhile(
    derive: Callable[[Table, int], object], tmp_path: Path
) -> None:
    place = TableBuilder().commits(5).write(tmp_path / "tbl")
    commit = place / commit_path(3)
    other = commit.read_bytes()[:-1] + b" "
    storage = Disturbed(str(place), commit.name, lambda: commit.write_bytes(other))
    before = names(place)

    with pytest.raises(Refused) as refused:
        derive(Table(storage, clock=fixed_clock(NOW_MS)), 3)

    assert "plan.other-past" == refused.value.code
    assert before == names(place)


PLANNED: dict[str, Callable[[Table], Callable[[], object]]] = {
    "crc": lambda table: partial(table.execute_write_checksum, table.plan_write_checksum(version=3)),
    "compact": lambda table: partial(table.execute_compact_log, table.plan_compact_log(1, 3)),
}


@pytest.mark.parametrize("plan", PLANNED.values(), ids=PLANNED)
def test_no_file_of_the_log_is_written_for_another_commit_of_the_same_size_and_time(
    plan: Callable[[Table], Callable[[], object]], tmp_path: Path
) -> None:
    """Stores over a network have times in whole seconds."""
    place = TableBuilder().commits(5).write(tmp_path / "tbl")
    commit = place / commit_path(3)
    times = commit.stat()
    execute = plan(Table(open_storage(str(place)), clock=fixed_clock(EPOCH_MS + 10_000)))
    found = commit.read_bytes()
    other = re.sub(rb'"size":(.)', lambda size: b'"size":' + (b"2" if size[1] == b"1" else b"1"), found)
    commit.write_bytes(other)
    os.utime(commit, ns=(times.st_atime_ns, times.st_mtime_ns))
    before = names(place)

    with pytest.raises(Refused) as refused:
        execute()

    assert "plan.other-past" == refused.value.code
    assert before == names(place)
    assert len(other) == len(found)


def test_no_checksum_is_written_for_a_commit_that_is_gone_and_has_a_checkpoint(tmp_path: Path) -> None:
    builder = TableBuilder().commits(4).commit(commit_info("WRITE", txnId="an id"), add("e"))
    place = builder.checkpoint(4).write(tmp_path / "tbl")
    table = Table(open_storage(str(place)), clock=fixed_clock(EPOCH_MS + 10_000))
    plan = table.plan_write_checksum(version=4)
    (place / commit_path(4)).unlink()
    before = names(place)

    with pytest.raises(DeltacliError):
        table.execute_write_checksum(plan)

    assert before == names(place)


class Disturbed(LocalStorage):
    """A disk on which something happens once a file was read."""

    def __init__(self, root: str, name: str, event: Callable[[], object]) -> None:
        super().__init__(root)
        self._name, self._event = name, event

    def bind_to_directory(self, _: DirectoryIdentity | None = None) -> LocalStorage:
        return self

    def read(self, path: str) -> bytes:
        found = super().read(path)
        if path.endswith(self._name):
            self._event()
        return found


def test_a_step_of_a_fleet_that_was_ended_after_a_first_batch_is_done_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(tmp_path / "tbl")
    before_the_second_look(monkeypatch, lambda: _rewritten(place))
    policy = Policy("p", {"log-expire": ExpirePolicy()})

    done = attempt(StepWork("t", "log-expire", policy, lambda: opened(place)))

    assert ("partly", 5, "plan.other-past") == (done.state, done.exit_code, done.code)


def test_plans_of_the_log_are_executed_apart_and_for_their_table_only(tmp_path: Path) -> None:
    table, other = opened(made(tmp_path / "tbl")), opened(made(tmp_path / "other"))
    backup = str(tmp_path / "backup")

    assert table.execute_backup_log(table.plan_backup_log(backup)).copied
    assert not table.execute_restore_log(table.plan_restore_log(backup)).was_executed
    assert not table.execute_compact_log(table.plan_compact_log(5, 7)).skipped
    assert "written" == table.execute_write_checksum(table.plan_write_checksum()).status
    assert 8 == table.execute_checkpoint(table.plan_checkpoint()).hint_version
    plan = table.plan_expire_log()
    outcome = table.execute_expire_log(plan).outcome
    assert outcome is not None
    assert len(plan.files) == outcome.deleted
    with pytest.raises(UsageError, match="another table"):
        other.execute_expire_log(plan)


def test_checksum_files_of_hadoop_stay_and_go_with_their_sidecars(tmp_path: Path) -> None:
    features = ["v2Checkpoint"]
    builder = TableBuilder().commits(2)
    builder.commit(protocol(3, 7, reader_features=features, writer_features=features)).commits(6)
    builder.checkpoint(3, CheckpointKind.V2_PARQUET).checkpoint(8, CheckpointKind.V2_PARQUET)
    place = builder.write(tmp_path / "t")
    sidecars = sorted((place / LOG / "_sidecars").iterdir())
    for sidecar in sidecars:
        checksum = sidecar.with_name(f".{sidecar.name}.crc")
        checksum.write_bytes(make_checksum_file(sidecar.read_bytes()))
        os.utime(checksum, (EPOCH_MS / 1000, EPOCH_MS / 1000))
    before = names(place)

    outcome = execute_change(EXPIRY, opened(place))

    left = [sidecar for sidecar in sidecars if sidecar.exists()]
    assert 0 < len(left) < len(sidecars)
    checksums = {sidecar.with_name(f".{sidecar.name}.crc") for sidecar in left}
    assert {*left} | checksums == {*(place / LOG / "_sidecars").iterdir()}
    assert len(before - names(place)) + len(sidecars) - len(left) == outcome.deleted
