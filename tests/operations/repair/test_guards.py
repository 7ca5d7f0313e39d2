"""What a repair refuses, what it keeps, and how it goes on after an interruption."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.changing.outcome import require_complete
from deltacli.core.errors import PartlyDone, Refused, Unreadable
from deltacli.operations.recover import copies
from deltacli.operations.repair.plan import StepState, read_repair_plan, save_repair_plan
from deltacli.operations.repair.repair import plan_repair
from deltacli.storage import LocalStorage
from tests.rules.table_builder import NOW_MS
from tests.support.damaged_tables import ADDED, CHECKPOINT, HINT, LAST, DamagedTable, tear
from tests.support.effort import InTurn
from tests.support.faulty import Fault
from tests.support.reading import open_at
from tests.support.repairing import content_of, execute_repair, open_damaged, put_back, readable_rows, request
from tests.support.vacuuming import Killed, MortalStorage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return DamagedTable().write(tmp_path / "t")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return DamagedTable().write(tmp_path / "copy")


def codes(root: Path, **asked: Any) -> list[str]:  # Any: fields of the request
    return [one.code for one in plan_repair(open_damaged(root), request(level="storage", **asked)).refusals]


@pytest.mark.parametrize("name", [HINT, CHECKPOINT])
def test_a_file_of_which_hardly_anything_is_stored_is_not_copied(root: Path, name: str) -> None:
    os.truncate(root / "_delta_log" / Path(name).name, 100 << 30)

    with pytest.raises(Refused) as refused:
        open_table(root).repair(level="log", allow_in_use=True)

    assert "repair.sparse-file" == refused.value.code
    assert "of its 100.0 GiB" in refused.value.message
    assert not (root / "_deltacli_backup").exists()


def test_a_file_whose_mount_tells_no_stored_bytes_is_copied(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    As mounts of object stores do for each file.
    """
    monkeypatch.setattr(copies, "_LARGE", 1)
    real = os.stat

    def of_a_mount(path: Any, **given: Any) -> Any:  # Any: as of `os.stat`
        found = real(path, **given)
        return SimpleNamespace(st_size=found.st_size, st_blocks=0, st_mode=found.st_mode)

    monkeypatch.setattr(copies, "os", SimpleNamespace(**{**vars(os), "stat": of_a_mount}))

    copies.refuse_sparse(LocalStorage(str(root)), HINT)


def test_a_missing_mount_is_not_taken_for_loss(root: Path) -> None:
    for path in root.glob("p=a/*"):
        path.unlink()

    assert ["repair.too-much-missing"] == codes(root, max_missing=0.1)
    assert ["repair.too-much-missing"] == codes(root, max_missing=0.9), "all of a directory"
    assert [] == codes(root, max_missing=1.0)
    (stop,) = plan_repair(open_damaged(root), request(level="storage", max_missing=0.1)).refusals
    assert ["limit", "first", "to list what is missing", "to give them up nevertheless"] == list(stop.facts)


def test_nothing_is_given_up_without_consent_and_the_rest_is_done(root: Path) -> None:
    (root / ADDED).unlink()
    (root / HINT).write_bytes(b"")
    table = open_damaged(root)

    done = execute_repair(plan_repair(table, request(level="storage", accept_loss=False)))

    assert {"hint.bad-json"} == {step.rule for step in done.steps}
    assert [("data.file-missing", StepState.REFUSED)] == [(step.rule, step.state) for step in done.plan.steps]
    assert LAST == table.snapshot().version
    with pytest.raises(PartlyDone, match="1 file with 10 rows"):
        require_complete(done)


@pytest.mark.parametrize("loss", ["line", "size"])
def test_a_sound_checkpoint_is_kept_where_a_commit_lost_an_add_of_it(root: Path, loss: str) -> None:
    before = readable_rows(open_damaged(root))
    live = {path for batch in open_damaged(root).snapshot().files() for path in batch.column("path").to_pylist()}
    for commit in sorted((root / "_delta_log").glob("0*.json")):
        if int(commit.name[:20]) > int(Path(CHECKPOINT).name[:20]):
            continue
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        if not any("add" in line and line["add"]["path"] in live for line in lines):
            continue
        if loss == "line":
            lines = [line for line in lines if line.get("add", {}).get("path") not in live]
        else:
            for line in lines:
                line.get("add", {})["size"] = 10**6
        commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        break

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    rule = "checkpoint.extra-add" if loss == "line" else "checkpoint.add-differs"
    assert "a commit may be damaged" in {one.rule: one.reason for one in done.plan.unrepaired}[rule]
    assert before == readable_rows(open_damaged(root))


def test_a_table_in_use_is_only_repaired_where_no_writer_notices(root: Path) -> None:
    (root / ADDED).unlink()
    (root / CHECKPOINT).write_bytes(b"")
    os.utime(root / f"_delta_log/{LAST:020d}.json", (NOW_MS / 1000 - 60,) * 2)

    plan = plan_repair(open_damaged(root), request(level="storage", allow_in_use=False))

    assert ["repair.table-in-use"] == [one.code for one in plan.refusals]
    assert {"data.file-missing": StepState.REFUSED, "checkpoint.zero-length": StepState.PLANNED} == {
        step.rule: step.state for step in plan.steps if step.rule.startswith(("data", "checkpoint"))
    }


def test_a_file_that_is_back_is_not_removed(root: Path, copy: Path) -> None:
    (root / ADDED).unlink()
    table = open_damaged(root)
    plan = plan_repair(table, request(level="storage"))
    shutil.copy2(copy / ADDED, root / ADDED)

    done = execute_repair(plan)

    assert [] == done.versions
    assert 80 == readable_rows(table).total()


def test_the_commit_is_that_of_fsck(root: Path) -> None:
    (root / ADDED).unlink()

    done = open_damaged(root).repair(accept_loss=True, max_missing=0.2, allow_in_use=True)

    assert [LAST + 1] == done.versions
    lines = (root / f"_delta_log/{LAST + 1:020d}.json").read_text().splitlines()
    info, remove = (json.loads(line) for line in lines)
    assert ("FSCK", {"numRemovedFiles": "1", "numRemovedBytes": "840"}) == (
        info["commitInfo"]["operation"],
        info["commitInfo"]["operationMetrics"],
    )
    assert (ADDED, True, {"p": "b"}) == (
        remove["remove"]["path"],
        remove["remove"]["dataChange"],
        remove["remove"]["partitionValues"],
    )


def test_readable_row_groups_are_kept_in_the_quarantine(tmp_path: Path) -> None:
    table = DamagedTable()
    root = table.write(tmp_path / "t")
    rows = pq.read_table(root / ADDED)
    pq.write_table(rows, root / ADDED, row_group_size=4, compression="none", write_page_checksum=True)
    group = pq.ParquetFile(root / ADDED).metadata.row_group(1).column(0)
    data = bytearray((root / ADDED).read_bytes())
    begin = group.data_page_offset if group.dictionary_page_offset is None else group.dictionary_page_offset
    data[begin : begin + group.total_compressed_size] = b"\xff" * group.total_compressed_size
    log = root / f"_delta_log/{11:020d}.json"
    log.write_text(log.read_text().replace(f'"size":{table.add(11)["size"]}', f'"size":{len(data)}'))
    (root / ADDED).write_bytes(data)

    done = execute_repair(plan_repair(open_damaged(root), request(quarantine=str(tmp_path / "q"))))

    assert (1, 10) == (done.loss.files, done.loss.rows)
    (kept,) = (tmp_path / "q").rglob("rows/p=b/*.parquet")
    assert rows.take([0, 1, 2, 3, 8, 9]).equals(pq.read_table(kept, partitioning=None).cast(rows.schema))


def test_deleted_rows_do_not_come_back_with_a_lost_vector(tmp_path: Path) -> None:
    from tests.operations.recover.test_find_and_put import table_at

    table_at(tmp_path / "t")
    table = open_table(tmp_path / "t", clock=lambda: NOW_MS)
    rows = readable_rows(table)
    (vector,) = (tmp_path / "t" / "ab").iterdir()
    vector.unlink()

    done = execute_repair(plan_repair(table, request(level="storage")))

    assert (2, 7) == (done.loss.files, done.loss.rows)
    assert readable_rows(table) < rows
    assert 5 == readable_rows(table).total()


def test_files_of_the_log_are_not_put_back_under_the_commits_of_others(root: Path) -> None:
    (root / CHECKPOINT).write_bytes(b"")
    table = open_table(root)
    done = execute_repair(plan_repair(table, request(level="log")))
    assert done.backup_uri is not None
    table.set_properties({"delta.appendOnly": "false"})

    with pytest.raises(Refused) as refused:
        put_back(table, done.backup_uri)

    assert "repair.log-moved-on" == refused.value.code
    assert (root / CHECKPOINT).read_bytes()


def test_commits_that_a_repair_brought_back_are_not_those_of_others(root: Path, copy: Path) -> None:
    commit = root / f"_delta_log/{LAST - 1:020d}.json"
    (root / f"_delta_log/{LAST:020d}.json").unlink()
    tear(commit)
    damaged = commit.read_bytes()
    done = execute_repair(plan_repair(open_damaged(root), request(level="log", sources=[copy])))
    assert done.backup_uri is not None
    assert LAST == open_damaged(root).snapshot().version

    put_back(open_damaged(root), done.backup_uri)

    assert damaged == commit.read_bytes()


def test_a_damaged_or_foreign_backup_is_not_put_back(root: Path, copy: Path) -> None:
    (root / CHECKPOINT).write_bytes(b"")
    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))
    assert done.backup_uri is not None
    with pytest.raises(Refused, match="another table"):
        put_back(open_damaged(copy), done.backup_uri)
    (kept,) = (root / "_deltacli_backup").rglob("files/log/*.checkpoint.parquet")
    kept.write_bytes(b"x")

    with pytest.raises(Unreadable, match="damaged"):
        put_back(open_damaged(root), done.backup_uri)


def test_a_source_of_another_table_is_refused(root: Path, tmp_path: Path) -> None:
    other = DamagedTable()
    other.metadata["id"] = "00000000-0000-4000-8000-000000000009"
    other.write(tmp_path / "other")
    (root / ADDED).unlink()

    with pytest.raises(Refused) as refused:
        plan_repair(open_damaged(root), request(sources=[tmp_path / "other"]))

    assert "recover.other-table" == refused.value.code


def test_a_saved_plan_does_what_was_agreed_to_and_no_more(root: Path, tmp_path: Path) -> None:
    (root / ADDED).unlink()
    (root / HINT).write_bytes(b"")
    table, asked = open_damaged(root), request(level="storage")
    save_repair_plan(plan_repair(table, asked), str(tmp_path / "plan.json"))
    saved = read_repair_plan(str(tmp_path / "plan.json"))
    (root / HINT).unlink()
    other = next(path for path in sorted(root.glob("p=a/*")))
    data = other.read_bytes()
    other.unlink()

    with pytest.raises(Refused) as refused:
        saved.require_covers(plan_repair(table, saved.request))
    other.write_bytes(data)
    shutil.copy2(DamagedTable().write(tmp_path / "healthy") / HINT, root / HINT)
    resumed = plan_repair(table, saved.request)
    saved.require_covers(resumed)

    assert "repair.plan-stale" == refused.value.code
    assert {"data.file-missing"} == {step.rule for step in resumed.planned}
    (tmp_path / "plan.json").write_text((tmp_path / "plan.json").read_text().replace("storage", "footers"))
    with pytest.raises(Unreadable):
        read_repair_plan(str(tmp_path / "plan.json"))


def damage_much(root: Path) -> None:
    (root / ADDED).unlink()
    tear(root / CHECKPOINT)
    (root / HINT).write_bytes(b"{")


@pytest.mark.parametrize("has_source", [True, False])
def test_a_run_that_dies_before_a_call_is_ended_by_the_next(
    has_source: bool, root: Path, copy: Path, in_turn: InTurn
) -> None:
    """
    The backups of both runs together have every file that was replaced, as it was.
    """
    damage_much(root)
    damaged = content_of(root)
    asked = request(level="storage", sources=[copy] if has_source else [])
    counting = MortalStorage(LocalStorage(str(root)))
    execute_repair(plan_repair(open_at(counting), asked))
    wanted = {path: data for path, data in content_of(root).items() if not path.endswith(f"{LAST + 1:020d}.json")}
    writes = [
        number
        for number, (verb, _) in enumerate(counting.calls, 1)
        if verb in ("put_if_absent", "put", "begin", "publish", "replace", "delete_many")
    ]
    assert len(writes) > 8

    for at in in_turn(writes, 4):
        shutil.rmtree(root)
        DamagedTable().write(root)
        damage_much(root)
        with suppress(Killed):
            execute_repair(
                plan_repair(open_at(MortalStorage(LocalStorage(str(root)), at, Fault.KILLED_BEFORE, dies=True)), asked)
            )
        table = open_at(LocalStorage(str(root)))
        assert (80 if has_source else 70) >= readable_rows(table).total()
        execute_repair(plan_repair(table, asked))
        assert () == plan_repair(table, asked).steps
        found = content_of(root)
        assert wanted.keys() <= found.keys(), at
        assert (80 if has_source else 70) == readable_rows(table).total()
        kept = [path.read_bytes() for path in (root / "_deltacli_backup").rglob("files/**/*") if path.is_file()]
        assert all(damaged[path] in kept for path in (CHECKPOINT, HINT)), at
