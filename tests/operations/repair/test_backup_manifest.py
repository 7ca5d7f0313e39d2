"""The manifest of a backup: what no repair has written is not believed, and only what a repair replaced is put back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.recorded_fields import MAX_SIZE_BYTES
from deltacli.core.errors import Refused, Unreadable
from deltacli.operations.repair.backup import Backup
from deltacli.operations.repair.backup_manifest import name_in_backup
from deltacli.operations.repair.repair import plan_repair
from tests.operations.recover.test_proofs import Branch, commit, grown
from tests.operations.repair.test_undo import CHECKPOINT, HINT, opened, repaired
from tests.support.repairing import content_of, edit_manifest, execute_repair, put_back, request

Content = dict[str, Any]  # Any: JSON values


def replaced_data_file(root: Path) -> tuple[Branch, str]:
    """A table whose damaged data file came back from a copy, and the backup of the repair."""
    table = grown(root, 2)
    copy = table.copied(root.with_name("copy"), "a")
    path = data_file(table)
    path.write_bytes(b"damaged")
    done = execute_repair(plan_repair(opened(table), request(level="storage", sources=[copy.root])))
    assert done.backup_uri is not None
    assert path.read_bytes() != b"damaged"
    return table, done.backup_uri


def data_file(table: Branch) -> Path:
    return min(path for path in table.root.glob("*") if path.is_file())


def naming(path: str) -> Callable[[Content], None]:
    """Let the first file of a manifest be that at another path, with the kept bytes under the right name."""

    def edit(content: Content) -> None:
        content["files"][0] |= {"path": path, "kept": name_in_backup(path)}

    return edit


OTHER_PATHS = [commit(1), commit(5), commit(6), "data.parquet", HINT.replace("_last", "last")]
"""An intact commit, the newest one, the next version, a data file, and a file that no log has."""


@pytest.mark.parametrize("path", OTHER_PATHS)
@pytest.mark.parametrize("with_digest", [False, True])
def test_a_path_that_the_repair_did_not_replace_is_refused(path: str, with_digest: bool, tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    held = Path(kept.removeprefix("file://"))
    edit_manifest(kept, naming(path), with_digest=with_digest)
    target = held / name_in_backup(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    next(held.rglob("*.checkpoint.parquet")).rename(target)
    before = content_of(table.root)

    with pytest.raises(Refused if with_digest else Unreadable) as error:
        put_back(opened(table), kept)

    assert ("repair.not-as-left" if with_digest else "repair.backup-damaged") == error.value.code
    assert before == content_of(table.root)


@pytest.mark.parametrize("path", OTHER_PATHS[:3])
def test_an_older_backup_does_not_replace_what_it_has_no_record_of(path: str, tmp_path: Path) -> None:
    """Its manifest has no digest, and none of what was left."""
    table, kept = repaired(tmp_path / "t")
    manifest = Path(kept.removeprefix("file://")) / "manifest.json"
    content = json.loads(manifest.read_text())
    naming(path)(content)
    for name in ("sha256", "past", "left"):
        del content[name]
    manifest.write_text(json.dumps(content))
    before = content_of(table.root)

    with pytest.raises(Refused) as error:
        put_back(opened(table), kept)

    assert "repair.not-as-left" == error.value.code
    assert f"{kept}/{name_in_backup(path)}" == error.value.facts["kept copy"]
    assert before == content_of(table.root)


def test_an_older_backup_that_recorded_what_was_left_is_put_back(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    manifest = Path(kept.removeprefix("file://")) / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["sha256"]
    manifest.write_text(json.dumps(content))

    assert 1 == put_back(opened(table), kept).files
    assert b"PAR1 damaged PAR1" == (table.root / CHECKPOINT).read_bytes()


WRONG: list[object] = [None, True, 5, 1.5, [], {}, "x", "", -(10**30), 10**30]
"""Values that are wrong in most fields; each field is given those that are."""
WRONG_FIELDS = [
    *(("path", value) for value in [*WRONG[:6], "", "a\0b", "../a", "a//b", "/a", "./a", "a/", "\ud800"]),
    *(("kept", value) for value in [*WRONG, "files/../x", "manifest.json"]),
    *(("sizeBytes", value) for value in [*WRONG[:2], *WRONG[3:], -1, MAX_SIZE_BYTES + 1]),
    *(("modificationTimeMs", value) for value in [*WRONG[:2], *WRONG[3:], 2**63]),
    *(("sha256", value) for value in [*WRONG, "A" * 64, "0" * 63, "0" * 64 + "\n"]),
]


@pytest.mark.parametrize(("field", "value"), WRONG_FIELDS)
def test_a_field_of_a_file_that_no_repair_has_written_is_refused(field: str, value: object, tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    before = content_of(table.root)
    edit_manifest(kept, lambda content: content["files"][0].update({field: value}))

    with pytest.raises(Unreadable) as error:
        put_back(opened(table), kept)

    assert "repair.backup-damaged" == error.value.code
    assert str(error.value.facts["reason"]).startswith(f"{field} is ")
    assert before == content_of(table.root)


@pytest.mark.parametrize(
    "edit",
    [
        {"version": -1},
        {"version": True},
        {"version": 1.0},
        {"version": 2**63},
        {"committedVersions": [None]},
        {"committedVersions": 5},
        {"committedVersions": None},
        {"past": {"version": 10**30, "name": None, "sha256": None}},
        {"past": {"version": 3, "name": 5, "sha256": None}},
        {"past": {"version": 3, "name": None, "sha256": []}},
        {"past": []},
        {"left": {CHECKPOINT: 5}},
        {"left": {"": None}},
        {"left": [CHECKPOINT]},
        {"logFiles": [None]},
        {"logFiles": "abc"},
        {"logFiles": {"a": 1}},
        {"files": None},
        {"files": ""},
        {"files": {}},
        {"files": [None]},
        {"files": ["x"]},
        {"committedVersions": ""},
        {"committedVersions": {}},
        {"left": ""},
        {"left": None},
        {"kind": None},
        {"table": None},
        {"table": 5},
        {"table": "/tmp/a"},
        {"table": "file:///tmp/a\0b"},
        {"table": "file:///tmp/a%00b"},
        {"table": "file:///\ud800"},
    ],
)
def test_a_manifest_that_no_repair_has_written_is_refused(edit: Content, tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    before = content_of(table.root)
    edit_manifest(kept, lambda content: content.update(edit))

    with pytest.raises(Unreadable) as error:
        put_back(opened(table), kept)

    (field,) = edit
    assert "repair.backup-damaged" == error.value.code
    assert field in str(error.value.facts["reason"])
    assert before == content_of(table.root)


@pytest.mark.parametrize("field", ["kind", "version", "committedVersions", "files", "table"])
def test_a_field_that_is_missing_is_named(field: str, tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    edit_manifest(kept, lambda content: content.pop(field))

    with pytest.raises(Unreadable) as error:
        put_back(opened(table), kept)

    assert f"{field} is missing" == error.value.facts["reason"]


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"5", b'"x"', b"{}", b"\xff", b"[" * 100_000, b'{"kind":'])
def test_a_manifest_that_is_no_object_is_refused(data: bytes, tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    (Path(kept.removeprefix("file://")) / "manifest.json").write_bytes(data)

    with pytest.raises(Unreadable) as error:
        put_back(opened(table), kept)

    assert "repair.backup-damaged" == error.value.code
    assert "object has no attribute" not in str(error.value.facts["reason"])


def test_a_path_that_a_manifest_names_twice_is_refused(tmp_path: Path) -> None:
    table, kept = repaired(tmp_path / "t")
    edit_manifest(kept, lambda content: content["files"].append(content["files"][0]))

    with pytest.raises(Unreadable):
        put_back(opened(table), kept)


def test_a_replaced_data_file_is_put_back(tmp_path: Path) -> None:
    table, kept = replaced_data_file(tmp_path / "t")

    put_back(opened(table), kept)

    assert b"damaged" == data_file(table).read_bytes()


def test_a_data_file_that_others_replaced_since_the_repair_stays(tmp_path: Path) -> None:
    """The refusal names the copy in the backup, so that it can be compared, and copied by hand."""
    table, kept = replaced_data_file(tmp_path / "t")
    data_file(table).write_bytes(b"another writer's")

    with pytest.raises(Refused, match="another file") as error:
        put_back(opened(table), kept)

    assert ("repair.not-as-left", b"another writer's") == (error.value.code, data_file(table).read_bytes())
    copy = Path(error.value.facts["kept copy"].removeprefix("file://"))
    assert b"damaged" == copy.read_bytes()
    assert "why" not in error.value.facts


def test_a_data_file_that_was_deleted_since_the_repair_is_said_to_be_gone(tmp_path: Path) -> None:
    table, kept = replaced_data_file(tmp_path / "t")
    path = data_file(table)
    path.unlink()

    with pytest.raises(Refused, match="is gone") as error:
        put_back(opened(table), kept)

    assert ("repair.not-as-left", False) == (error.value.code, path.exists())


def test_a_backup_that_lacks_a_name_of_unicode_is_put_back(tmp_path: Path) -> None:
    """File names may be any bytes on a disk."""
    table, kept = repaired(tmp_path / "t")
    name = os.fsdecode(b"_delta_log/_moved-\xff")
    held = Path(kept.removeprefix("file://"))

    def add(content: Content) -> None:
        content["files"].append(content["files"][0] | {"path": name, "kept": name_in_backup(name)})
        content["left"][name] = None

    edit_manifest(kept, add)
    (held / name_in_backup(name)).write_bytes(b"PAR1 damaged PAR1")

    put_back(opened(table), kept)

    assert b"PAR1 damaged PAR1" == (table.root / name).read_bytes()


def test_what_an_interrupted_repair_replaced_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = interrupted_repair(tmp_path / "t", monkeypatch)
    assert b"PAR1 damaged PAR1" != (table.root / CHECKPOINT).read_bytes()

    put_back(opened(table), kept)

    assert b"PAR1 damaged PAR1" == (table.root / CHECKPOINT).read_bytes()


def interrupted_repair(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Branch, str]:
    """A table whose damaged checkpoint and hint were replaced by a repair that could not record what it left."""
    table = grown(root, 5)
    opened(table).checkpoint(version=3)
    (table.root / CHECKPOINT).write_bytes(b"PAR1 damaged PAR1")
    (table.root / HINT).write_bytes(b"{")
    plan = plan_repair(opened(table), request(level="log"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Backup, "note_end", interrupted)
        patched.setattr(Backup, "note_left", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            execute_repair(plan)
    (manifest,) = root.rglob("manifest.json")
    return table, manifest.parent.as_uri()


@pytest.mark.parametrize("hint", [None, b'{"version":3,"size":4}'], ids=["of the repair", "of another writer"])
def test_the_hint_behind_an_interrupted_repair_stays(
    hint: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing records which hint the repair left, and one of another writer is newer than the one that was kept."""
    table, kept = interrupted_repair(tmp_path / "t", monkeypatch)
    assert HINT in {file["path"] for file in json.loads((held_in(kept) / "manifest.json").read_text())["files"]}
    if hint is not None:
        (table.root / HINT).write_bytes(hint)
    before = (table.root / HINT).read_bytes()

    done = put_back(opened(table), kept)

    assert (1, before) == (done.files, (table.root / HINT).read_bytes())
    assert b"PAR1 damaged PAR1" == (table.root / CHECKPOINT).read_bytes()


def held_in(backup: str) -> Path:
    return Path(backup.removeprefix("file://"))
