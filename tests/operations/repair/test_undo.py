"""`repair --undo`: nothing is put over what the log needs, and what is replaced is kept."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing.recorded_fields import digest_content
from deltacli.core.errors import PartlyDone, Refused, Unreadable
from deltacli.operations.repair import backup, repair
from deltacli.operations.repair.backup import Put, plan_undo
from deltacli.operations.repair.plan import RepairPlan, read_repair_plan, save_repair_plan
from deltacli.operations.repair.repair import plan_repair
from deltacli.storage import Failed, LocalStorage, ReadStorage, Storage
from tests.operations.recover.test_proofs import Branch, commit, grown
from tests.support.reading import open_at
from tests.support.repairing import edit_manifest, execute_repair, put_back, request

CHECKPOINT = f"_delta_log/{3:020d}.checkpoint.parquet"
HINT = "_delta_log/_last_checkpoint"


def opened(table: Branch) -> Table:
    return open_at(LocalStorage(str(table.root)))


def repaired(root: Path, *, hint: bytes | None = None) -> tuple[Branch, str]:
    """A table whose damaged checkpoint, and `hint`, was written anew, and the backup of the repair."""
    table = grown(root, 5)
    opened(table).checkpoint(version=3)
    (table.root / CHECKPOINT).write_bytes(b"PAR1 damaged PAR1")
    if hint is not None:
        (table.root / HINT).write_bytes(hint)
    done = execute_repair(plan_repair(opened(table), request(level="log")))
    assert done.backup_uri is not None
    return table, done.backup_uri


def expire(table: Branch) -> None:
    for version in range(3):
        (table.root / commit(version)).unlink()


def test_a_damaged_checkpoint_is_not_put_over_the_only_one_that_rebuilds(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    expire(table)
    sound = (table.root / CHECKPOINT).read_bytes()

    with pytest.raises(Refused, match="versions 3-5 could not be rebuilt") as error:
        put_back(opened(table), kept)

    assert "repair.undo-loses-versions" == error.value.code
    assert sound == (table.root / CHECKPOINT).read_bytes()


def test_a_checkpoint_of_another_state_is_not_put_back_either(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    expire(table)
    other = grown(tmp_path / "other", 5, "b")
    opened(other).checkpoint(version=3)
    wrong = (other.root / CHECKPOINT).read_bytes()
    (held,) = Path(kept.removeprefix("file://")).rglob("*.checkpoint.parquet")
    held.write_bytes(wrong)

    def of_another_state(content: dict[str, Any]) -> None:
        for file in content["files"]:
            if file["path"] == CHECKPOINT:
                file |= {"sha256": hashlib.sha256(wrong).hexdigest(), "sizeBytes": len(wrong)}

    edit_manifest(kept, of_another_state)

    with pytest.raises(Refused, match="could not be rebuilt"):
        put_back(opened(table), kept)


def test_a_version_that_a_checkpoint_alone_has_is_not_one_of_others(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 5)
    for version in (3, 5):
        opened(table).checkpoint(version=version)
    (table.root / commit(5)).unlink()
    damaged = b"PAR1 damaged PAR1"
    (table.root / CHECKPOINT).write_bytes(damaged)
    done = execute_repair(plan_repair(opened(table), request(level="log")))
    assert done.backup_uri is not None

    put_back(opened(table), done.backup_uri)

    assert damaged == (table.root / CHECKPOINT).read_bytes()


def test_what_an_undo_replaces_is_kept_and_can_be_put_back(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    sound = (table.root / CHECKPOINT).read_bytes()

    done = put_back(opened(table), kept)
    damaged = (table.root / CHECKPOINT).read_bytes()
    assert done.kept is not None
    put_back(opened(table), done.kept)

    assert damaged == b"PAR1 damaged PAR1"
    assert sound == (table.root / CHECKPOINT).read_bytes()


def test_a_file_that_changed_since_the_plan_stays_and_nothing_is_left_behind(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    plan = opened(table).plan_undo_repair(kept)
    (table.root / CHECKPOINT).write_bytes(b"another writer's")
    before = sorted(table.root.rglob("*"))

    with pytest.raises(Refused) as error:
        opened(table).execute_undo_repair(plan)

    assert "repair.log-moved-on" == error.value.code
    assert (table.root / CHECKPOINT).read_bytes() == b"another writer's"
    assert before == sorted(table.root.rglob("*"))


def test_an_expiry_after_the_plan_is_seen_and_nothing_is_left_behind(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    plan = opened(table).plan_undo_repair(kept)
    expire(table)
    before, sound = sorted(table.root.rglob("*")), (table.root / CHECKPOINT).read_bytes()

    with pytest.raises(Refused) as error:
        opened(table).execute_undo_repair(plan)

    assert "repair.undo-loses-versions" == error.value.code
    assert sound == (table.root / CHECKPOINT).read_bytes()
    assert before == sorted(table.root.rglob("*"))


def restored_commit(root: Path) -> tuple[Branch, str]:
    """A table whose torn commit 3 came back from a copy, and the backup of the repair."""
    table = grown(root, 5)
    copy = table.copied(root.with_name("copy"), "a")
    path = table.root / commit(3)
    path.write_bytes(path.read_bytes()[:90])
    done = execute_repair(plan_repair(opened(table), request(level="log", sources=[copy.root])))
    assert done.backup_uri is not None
    return table, done.backup_uri


def test_a_commit_that_expired_since_a_killed_repair_stays_away(tmp_path: Path) -> None:
    """A killed repair has not noted the files of the log that it left."""
    table, kept = restored_commit(tmp_path / "t")

    def forget_the_end(content: dict[str, Any]) -> None:
        for key in ("logFiles", "left", "past"):
            content.pop(key, None)

    edit_manifest(kept, forget_the_end)
    opened(table).checkpoint(version=5)
    for version in range(5):
        (table.root / commit(version)).unlink()

    put_back(opened(table), kept)

    assert not (table.root / commit(3)).exists()


@pytest.mark.parametrize("made", [repaired, restored_commit])
@pytest.mark.parametrize(("newest", "said"), [(2, "rolled back"), (5, "another past"), (6, "was committed")])
def test_what_belongs_to_another_past_is_not_put_back(
    made: Callable[[Path], tuple[Branch, str]], newest: int, said: str, tmp_path: Path
) -> None:
    """The log was rolled back to version 2 since, as by an archive, and another writer went on."""
    table, kept = made(tmp_path / "t")
    for path in (table.root / "_delta_log").iterdir():
        if path.name.startswith("_") or int(path.name[:20]) > 2:
            path.unlink()
    other = Branch(table.root, "other", newest=2)
    while other.newest < newest:
        other.append()
    before = {path: path.read_bytes() for path in table.root.rglob("*") if path.is_file()}

    with pytest.raises(Refused, match=said) as error:
        put_back(opened(table), kept)

    assert "repair.log-moved-on" == error.value.code
    assert before == {path: path.read_bytes() for path in table.root.rglob("*") if path.is_file()}


def test_a_file_that_others_wrote_since_the_repair_stays(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    before = (table.root / CHECKPOINT).read_bytes() + b"PAR1"
    (table.root / CHECKPOINT).write_bytes(before)

    with pytest.raises(Refused, match="another file than the repair left") as error:
        put_back(opened(table), kept)

    assert ("repair.log-moved-on", before) == (error.value.code, (table.root / CHECKPOINT).read_bytes())


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "x"},
        {"version": math.inf},
        {"committedVersions": ["a"]},
        {"past": 5},
        {"past": {"version": "x", "name": None, "sha256": None}},
        {"left": 5},
        {"logFiles": 5},
        {"files": [{}]},
    ],
)
def test_a_damaged_manifest_is_said_to_be_so(wrong: dict[str, Any], tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    edit_manifest(kept, lambda content: content.update({"past": None} | wrong))

    with pytest.raises(Unreadable) as error:
        put_back(opened(table), kept)

    assert "repair.backup-damaged" == error.value.code


def test_a_commit_of_others_while_the_repair_validates_again_stops_its_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(tmp_path / "t", 5)
    copy = table.copied(tmp_path / "copy", "a")
    path = table.root / commit(5)
    path.write_bytes(path.read_bytes()[:90])
    plan = plan_repair(opened(table), request(level="log", sources=[copy.root]))

    def again(*given: Any) -> RepairPlan:
        opened(table).set_properties({"of": "others"})
        return plan_repair(*given)

    monkeypatch.setattr(repair, "plan_repair", again)
    done = execute_repair(plan)
    assert done.backup_uri is not None

    with pytest.raises(Refused, match="version 6 was committed after the repair, which ended at 5"):
        put_back(opened(table), done.backup_uri)


def test_a_backup_that_cannot_be_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = repaired(tmp_path / "t")
    plan = opened(table).plan_undo_repair(kept)
    (table.root / CHECKPOINT).write_bytes(b"another writer's")
    refused = Failed("the store allows no deletion")
    monkeypatch.setattr(LocalStorage, "delete_many", lambda _, paths: ((path, refused) for path in paths))

    with pytest.raises(Refused) as error:
        opened(table).execute_undo_repair(plan)

    (left,) = {path.parent for path in table.root.rglob("manifest.json")} - {Path(kept.removeprefix("file://"))}
    assert left.as_uri() == error.value.facts["not deleted"]


def test_a_hint_that_others_have_written_since_the_plan_stays(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t", hint=b"{")
    hint = table.root / HINT
    plan = opened(table).plan_undo_repair(kept)
    hint.write_bytes(b"{ }")

    done = opened(table).execute_undo_repair(plan)

    assert (2, 1, b"{ }") == (len(plan.puts), done.files, hint.read_bytes())
    assert b"PAR1 damaged PAR1" == (table.root / CHECKPOINT).read_bytes()


def test_a_hint_that_others_have_written_since_the_repair_stays(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t", hint=b"{")
    (table.root / HINT).write_bytes(b"{ }")

    done = put_back(opened(table), kept)

    assert (1, b"{ }") == (done.files, (table.root / HINT).read_bytes())
    assert b"PAR1 damaged PAR1" == (table.root / CHECKPOINT).read_bytes()


def test_an_error_after_the_first_file_says_what_was_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = repaired(tmp_path / "t", hint=b"{")
    plan, put = plan_undo(opened(table), kept), backup._put
    assert 2 == len(plan.puts)

    def fails_late(source: ReadStorage, one: Put, storage: Storage) -> None:
        if one.kept.path == plan.puts[1].kept.path:
            (table.root / one.kept.path).write_bytes(b"{ }")
        put(source, one, storage)

    monkeypatch.setattr(backup, "_put", fails_late)
    with pytest.raises(PartlyDone) as error:
        opened(table).execute_undo_repair(plan)

    assert ("repair.plan-stale", 4) == (error.value.code, error.value.cause_exit_code)
    assert error.value.facts["so far"].startswith("1 file put back; what they replaced is kept in")


def test_the_saved_plan_of_a_copy_is_refused(tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 3)
    (table.root / "_delta_log/_last_checkpoint").write_bytes(b"{")
    copy = table.copied(tmp_path / "copy", "b")
    os.symlink(table.root, tmp_path / "link")
    save_repair_plan(plan_repair(opened(table), request(level="log")), str(tmp_path / "plan.json"))
    saved = read_repair_plan(str(tmp_path / "plan.json"))

    with pytest.raises(Refused) as error:
        saved.require_covers(plan_repair(opened(copy), saved.request))
    linked = Branch(tmp_path / "link", "a")
    saved.require_covers(plan_repair(opened(linked), saved.request))

    assert "repair.plan-of-another" == error.value.code


@pytest.mark.parametrize("uri", [None, 5, "file:///a\0b", "file:///a%00b", "file:///\ud800"])
def test_a_saved_plan_of_a_table_that_no_store_has_is_refused(uri: object, tmp_path: Path) -> None:
    table = grown(tmp_path / "t", 3)
    (table.root / HINT).write_bytes(b"{")
    path = tmp_path / "plan.json"
    save_repair_plan(plan_repair(opened(table), request(level="log")), str(path))
    content = json.loads(path.read_text()) | {"table": uri}
    del content["sha256"]
    path.write_text(json.dumps(content | {"sha256": digest_content(content)}))

    with pytest.raises(Unreadable) as error:
        read_repair_plan(str(path))

    assert "repair.plan-unreadable" == error.value.code
    assert "table is " in str(error.value.facts["reason"])
