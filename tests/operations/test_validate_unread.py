"""Files that are there and cannot be read: findings, and never a clean verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.cli.render.validate.findings import judge
from deltacli.cli.render.validate.report import CheckedTable
from deltacli.core.errors import DataUnreadable, FileMissing, PermissionRefused, StorageFailed
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.storage import LocalStorage
from tests.support.external import add, put_commit, put_rows, write_table
from tests.support.validating import validate_table

NOW_MS = 1_800_000_000_000
VECTOR = {"storageType": "p", "offset": 1, "sizeInBytes": 40, "cardinality": 1}
UNREAD = "validate.file-unreadable"


def table_of_all_files(root: Path) -> Path:
    """A table with a data file `b`, the deletion vector `v` of a file `c`, and change data `d`."""
    vector = VECTOR | {"pathOrInlineDv": (root / "v.bin").as_uri()}
    files = {name: put_rows(root / f"{name}.parquet", 1, 2).stat().st_size for name in "bcd"}
    (root / "v.bin").write_bytes(b"\1" + bytes(60))
    write_table(root, add("b.parquet", files["b"]), add("c.parquet", files["c"], deletionVector=vector))
    change = {"path": "d.parquet", "partitionValues": {}, "size": files["d"], "dataChange": False}
    put_commit(root, 1, {"cdc": change})
    return root


def validated(root: Path, level: str, unread: str, fault: StorageFailed, monkeypatch: pytest.MonkeyPatch) -> Validation:
    """Validate a table on a store that fails whenever one file is read."""
    for name in ("open", "read_range"):
        real = getattr(LocalStorage, name)

        def failing(self: LocalStorage, path: str, *others: int, real: object = real) -> object:
            if path == unread:
                raise fault
            return real(self, path, *others)  # type: ignore[operator]

        monkeypatch.setattr(LocalStorage, name, failing)
    return validate_table(LocalStorage(str(root)), EmbeddedEngine(), level=level, now_ms=NOW_MS)


@pytest.mark.parametrize("level", ["footers", "data"])
@pytest.mark.parametrize("fault", [PermissionRefused("permission denied"), StorageFailed("the store is busy")], ids=str)
@pytest.mark.parametrize(("unread", "named"), [("b.parquet", "b.parquet"), ("v.bin", "c.parquet"), ("d.parquet",) * 2])
def test_a_file_that_cannot_be_read_is_a_finding(
    unread: str, named: str, fault: StorageFailed, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_of_all_files(tmp_path / "t")

    found = validated(root, level, unread, fault, monkeypatch)

    told = [finding for finding in found.findings if finding.rule.id == UNREAD]
    assert [named] == [finding.place.key for finding in told]
    assert told[0].message.endswith(f"cannot be read: {fault.message}")
    assert found.not_checked
    assert judge(CheckedTable("t", found, found.findings, {}, 0, fails=True)).is_readable is None


@pytest.mark.parametrize(
    ("named", "facts"), [("p=a%20b.parquet", {"in the log": "p=a%20b.parquet"}), ("c.parquet", {})]
)
def test_a_file_that_is_not_there_is_named_as_a_directory_would_show_it(
    named: str, facts: dict[str, str], tmp_path: Path
) -> None:
    root = write_table(tmp_path / "t", add(named))

    with pytest.raises(DataUnreadable) as missing:
        list(open_table(str(root)).snapshot().scan())

    path = named.replace("%20", " ")
    assert f"{path} does not exist" == missing.value.message
    assert {"file": path, **facts} == {name: missing.value.facts[name] for name in ("file", *facts)}
    assert ("in the log" in missing.value.facts) == bool(facts)


@pytest.mark.parametrize("level", ["footers", "data"])
@pytest.mark.parametrize("gone", ["b.parquet", "d.parquet"])
def test_a_file_that_is_deleted_after_the_listing_does_not_count_as_sound(
    gone: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_of_all_files(tmp_path / "t")

    found = validated(root, level, gone, FileMissing("deleted meanwhile"), monkeypatch)

    missing = [finding.place.key for finding in found.findings if finding.rule.id == "data.file-missing"]
    is_change_data = gone == "d.parquet"
    assert ([] if is_change_data else [gone]) == missing
    assert is_change_data == ("1 file of change data that could not be read" in found.not_checked)
