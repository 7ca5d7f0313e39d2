"""A plan in a file is the plan that was saved, or it is refused."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from deltacli.core.errors import PermissionRefused, StorageFailed, Unreadable, UsageError
from deltacli.operations.vacuum import saved
from deltacli.operations.vacuum.plan import VacuumPlan
from deltacli.operations.vacuum.saved import METADATA_KEY, read_plan, save_plan
from tests.support.effort import InTurn, examples
from tests.support.vacuum_plans import a_plan, any_plans, candidates, plan_of_paths, row


@given(any_plans())
@examples(50)
def test_a_plan_read_back_is_the_plan_saved(tmp_path_factory: pytest.TempPathFactory, plan: VacuumPlan) -> None:
    path = str(tmp_path_factory.getbasetemp() / "any.parquet")

    save_plan(plan, path)
    found = read_plan(path)

    assert {field.name: getattr(plan, field.name) for field in fields(plan)} == {
        field.name: getattr(found, field.name) for field in fields(found)
    }
    assert plan.plan_id == found.plan_id
    assert plan.candidates.schema == found.candidates.schema


def test_other_tools_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    rows = [row(b"p%07d" % index, version=index) for index in range(250_000)]

    save_plan(a_plan(candidates=candidates(rows, cuts=[7, 199_999])), str(path))

    file = pq.ParquetFile(path)
    assert [100_000, 100_000, 50_000] == [file.metadata.row_group(index).num_rows for index in range(3)]
    assert ["path", "size", "modificationTime", "reason", "removedAtVersion", "partition"] == file.schema_arrow.names
    assert pa.timestamp("ms", "UTC") == file.schema_arrow.field("modificationTime").type
    assert [METADATA_KEY] == list(file.metadata.metadata)
    assert rows[123_456][0] == file.read(["path"]).column("path")[123_456].as_py()


def test_the_id_of_a_plan_is_that_of_its_files_however_they_are_cut() -> None:
    rows = [row(b"a"), row(b"b\nc")]
    others = [row(b"ab"), row(b"\nc")]

    assert a_plan(candidates=candidates(rows)).plan_id == a_plan(candidates=candidates(rows, cuts=[1])).plan_id
    assert a_plan(candidates=candidates(rows)).plan_id != a_plan(candidates=candidates(others)).plan_id


def test_every_flipped_byte_is_refused_or_changes_nothing(tmp_path: Path, in_turn: InTurn) -> None:
    path = tmp_path / "plan.parquet"
    plan = plan_of_paths(b"a.parquet", b"b\xff.parquet", directories=("x", "y"), notes=("a note",))
    save_plan(plan, str(path))
    data = path.read_bytes()
    refused, chosen = 0, in_turn(range(len(data)))

    for index in chosen:
        for mask in (1 << index % 8, 0xFF):
            path.write_bytes(data[:index] + bytes([data[index] ^ mask]) + data[index + 1 :])
            try:
                found = read_plan(str(path))
            except Unreadable:
                refused += 1
            else:
                assert plan == found

    assert refused > len(chosen)


def test_every_torn_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    save_plan(plan_of_paths(b"a.parquet"), str(path))
    data = path.read_bytes()

    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(Unreadable, match="the plan cannot be read"):
            read_plan(str(path))


def _edited(path: Path, change: dict[str, Any], *, rows: pa.Table | None = None, honest: bool = False) -> None:
    """Write the file again with other words in its header, with the digest of the new content where `honest`."""
    table = pq.read_table(path)
    header = {**json.loads(table.schema.metadata[METADATA_KEY]), **change}
    table = table if rows is None else rows
    if honest:
        header.pop("sha256")
        header["sha256"] = saved._digest(header, table)
    with pq.ParquetWriter(path, table.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(table.replace_schema_metadata(None))
        writer.add_key_value_metadata({METADATA_KEY: json.dumps(header)})


def test_an_edited_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    save_plan(plan_of_paths(b"a.parquet", b"b.parquet"), str(path))
    original = path.read_bytes()
    table = pq.read_table(path)

    _edited(path, {})
    assert plan_of_paths(b"a.parquet", b"b.parquet") == read_plan(str(path))
    for change in ({"cutoffMs": 2**60}, {"files": 1}, {"allowsBelow": True}, {"more": 1}):
        path.write_bytes(original)
        _edited(path, change)
        with pytest.raises(Unreadable) as raised:
            read_plan(str(path))
        assert "it was changed: its digest does not match" == raised.value.facts["reason"]
    for rows in (table.slice(1), table.take([1, 0]), pa.concat_tables([table, table])):
        path.write_bytes(original)
        _edited(path, {}, rows=rows)
        with pytest.raises(Unreadable):
            read_plan(str(path))


@pytest.mark.parametrize("name", [b"../x.parquet", b"a/../../x", b"_delta_log/0.json", b"t/_delta_log/0.json", b""])
def test_no_digest_makes_a_log_or_another_place_part_of_a_plan(tmp_path: Path, name: bytes) -> None:
    path = str(tmp_path / "plan.parquet")

    save_plan(plan_of_paths(b"a.parquet", name), path)
    with pytest.raises(Unreadable, match="cannot be read") as of_file:
        read_plan(path)
    save_plan(plan_of_paths(b"a.parquet", directories=("b", os.fsdecode(name))), path)
    with pytest.raises(Unreadable) as of_directory:
        read_plan(path)

    assert f"{os.fsdecode(name)!r} is not a file that a vacuum deletes" == of_file.value.facts["reason"]
    assert of_file.value.facts["reason"] == of_directory.value.facts["reason"]


def test_a_plan_saved_by_a_newer_deltacli_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    save_plan(plan_of_paths(b"a.parquet"), str(path))

    _edited(path, {"formatVersion": 4}, honest=True)

    with pytest.raises(Unreadable) as raised:
        read_plan(str(path))
    assert {"file": str(path), "reason": "its format is 4; this deltacli reads 1, 2, 3"} == raised.value.facts


@pytest.mark.parametrize("wrong", [{"nowMs": "1"}, {"kept": {}}, {"allowsBelow": 1}, {"mode": "odd"}, {"planId": "0"}])
def test_a_header_that_no_plan_has_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = tmp_path / "plan.parquet"
    save_plan(plan_of_paths(b"a.parquet"), str(path))

    _edited(path, wrong, honest=True)

    with pytest.raises(Unreadable):
        read_plan(str(path))


def test_other_files_are_not_plans(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"path": [b"x"]}), other)
    os.mkfifo(tmp_path / "pipe")

    for name in ("other.parquet", "pipe", "."):
        with pytest.raises(Unreadable, match="the plan cannot be read"):
            read_plan(str(tmp_path / name))
    with pytest.raises(UsageError, match="not found"):
        read_plan(str(tmp_path / "absent.parquet"))


def test_an_unreadable_plan_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "plan.parquet")
    save_plan(a_plan(), path)
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(PermissionRefused):
        read_plan(path)


def test_a_save_that_fails_leaves_the_older_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.parquet"
    save_plan(plan_of_paths(b"a.parquet"), str(path))

    def no_space(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageFailed, match="no space left"):
        save_plan(plan_of_paths(b"b.parquet"), str(path))

    assert plan_of_paths(b"a.parquet") == read_plan(str(path))
    assert ["plan.parquet"] == os.listdir(tmp_path)


def test_a_plan_replaces_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for name in ("pipe", ".", "absent/plan.parquet", "nul\0"):
        with pytest.raises(StorageFailed, match="cannot be written"):
            save_plan(a_plan(), str(tmp_path / name))

    assert ["pipe"] == os.listdir(tmp_path)
