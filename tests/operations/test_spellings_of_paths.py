"""Tables with odd names of files and odd paths through the commands: no row is lost, no needed file is deleted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import deltacli
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.two_spellings import SCHEMA, write_rows

ROWS = [0, 1, 2, 10]
ORPHAN = b"orphan.parquet"

# The name on the disk, and the path in the log, in which {root} is the directory of the table.
READABLE: dict[str, tuple[str | bytes, str]] = {
    "tab": ("a\tb.parquet", "a%09b.parquet"),
    "raw tab": ("a\tb.parquet", "a\tb.parquet"),
    "line break": ("a\nb.parquet", "a%0Ab.parquet"),
    "raw line break": ("a\nb.parquet", "a\nb.parquet"),
    "percent sign": ("a%b.parquet", "a%25b.parquet"),
    "raw percent sign": ("a%b.parquet", "a%b.parquet"),
    "escape in the name": ("a%2Fb.parquet", "a%252Fb.parquet"),
    "escaped slash": ("a/b.parquet", "a%2Fb.parquet"),
    "escaped slash at the beginning": ("x.parquet", "%2Fx.parquet"),
    "escaped slashes and dots": ("x.parquet", "%2F%2Fd%2F..%2Fx.parquet"),
    "plus": ("a+b.parquet", "a+b.parquet"),
    "semicolon": ("a;b.parquet", "a;b.parquet"),
    "question mark": ("a?b.parquet", "a%3Fb.parquet"),
    "raw question mark": ("a?b.parquet", "a?b.parquet"),
    "raw hash": ("a#b.parquet", "a#b.parquet"),
    "backslash": ("a\\b.parquet", "a%5Cb.parquet"),
    "raw backslash": ("a\\b.parquet", "a\\b.parquet"),
    "drive": ("C:/x.parquet", "C%3A/x.parquet"),
    "drive with a backslash": ("C:\\x.parquet", "C:%5Cx.parquet"),
    "colon": ("c=13:00/x.parquet", "c=13:00/x.parquet"),
    "like a scheme": ("s3:x.parquet", "s3:x.parquet"),
    "two slashes": ("d/x.parquet", "d//x.parquet"),
    "dot": ("x.parquet", "./x.parquet"),
    "escaped dots": ("x.parquet", "d/%2E%2E/x.parquet"),
    "blank at the end": ("x.parquet ", "x.parquet%20"),
    "dot at the end": ("x.", "x."),
    "composed": ("\u00e9.parquet", "%C3%A9.parquet"),
    "decomposed": ("e\u0301.parquet", "e%CC%81.parquet"),
    "emoji": ("\U0001f600.parquet", "%F0%9F%98%80.parquet"),
    "raw emoji": ("\U0001f600.parquet", "\U0001f600.parquet"),
    "255 bytes": (f"{'x' * 247}.parquet", f"{'x' * 247}.parquet"),
    "not UTF-8": (b"a\xffb.parquet", "a%FFb.parquet"),
    "URI": ("x.parquet", "file://{root}/x.parquet"),
    "URI as of Hadoop": ("x.parquet", "file:{root}/x.parquet"),
    "URI with a host": ("x.parquet", "file://localhost{root}/x.parquet"),
    "URI in capitals": ("x.parquet", "FILE://{root}/x.parquet"),
    "absolute": ("x.parquet", "{root}/x.parquet"),
}
UNDECODED: dict[str, tuple[str | bytes, str]] = {
    "blank as a writer left it": ("a%20b.parquet", "a%20b.parquet"),
    "percent sign as a writer left it": ("a%25b.parquet", "a%25b.parquet"),
    "slash as a writer left it": ("a%2Fb.parquet", "a%2Fb.parquet"),
    "directory of Hive": ("c=13%3A00/x.parquet", "c=13%3A00/x.parquet"),
}
"""The path is not encoded, although it has escapes: engines do not find the file, deltacli does."""
MISSING: dict[str, tuple[str | bytes, str]] = {
    "encoded twice": ("a b.parquet", "a%2520b.parquet"),
    "encoded three times": ("a b.parquet", "a%252520b.parquet"),
    "blank as in a form": ("a b.parquet", "a+b.parquet"),
    "backslash for a slash": ("a/b.parquet", "a\\b.parquet"),
    "blank at the end is lost": ("x.parquet", "x.parquet%20"),
    "other form": ("e\u0301.parquet", "%C3%A9.parquet"),
    "other case": ("X.parquet", "x.parquet"),
    "NUL": ("x.parquet", "x.parquet%00"),
    "other case, not UTF-8": (b"A\xff.parquet", "a%FF.parquet"),
    "other bytes": (b"a\xff.parquet", "a%FE.parquet"),
    "another host": ("x.parquet", "file://host{root}/x.parquet"),
    "raw drive": ("C:/x.parquet", "C:/x.parquet"),
}
"""Nobody finds the file under its path."""
FOUND = {**READABLE, **UNDECODED}


class _OddTable(NamedTuple):
    place: Path
    name: bytes

    def open(self) -> Table:
        return deltacli.open_table(str(self.place))


def write_odd_table(directory: Path, names: tuple[str | bytes, str]) -> _OddTable:
    place = directory / "t"
    name = names[0] if isinstance(names[0], bytes) else names[0].encode()
    path = names[1].replace("{root}", str(place))
    size = write_rows(directory / "written", 0, 1, 2)
    other = add("b.parquet", size=write_rows(place / "b.parquet", 10), records=1)
    write_rows(place / ORPHAN.decode(), 99)
    target = os.path.join(os.fsencode(place), name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(directory / "written", target)
    os.utime(target, (1, 1))
    os.utime(place / ORPHAN.decode(), (1, 1))
    head = [protocol(), metadata(schema_string=SCHEMA), commit_info()]
    TableBuilder().commit(*head, add(path, size=size, records=3), other).write(place)
    return _OddTable(place, name)


def read_ids(table: Table) -> Sequence[int]:
    return sorted(table.snapshot().scan().to_arrow()["id"].to_pylist())


def planned(table: Table) -> Sequence[bytes]:
    paths: list[bytes] = table.plan_vacuum(max_delete="100%").candidates["path"].to_pylist()
    return paths


@pytest.mark.parametrize("names", FOUND.values(), ids=FOUND)
def test_a_file_with_an_odd_name_is_read_and_not_deleted(names: tuple[str | bytes, str], tmp_path: Path) -> None:
    table = write_odd_table(tmp_path, names)

    assert ROWS == read_ids(table.open())
    assert [ORPHAN] == planned(table.open())
    assert [] == list(table.open().plan_repair().steps)


@pytest.mark.parametrize("names", FOUND.values(), ids=FOUND)
def test_a_clone_has_the_rows_of_its_source(names: tuple[str | bytes, str], tmp_path: Path) -> None:
    table = write_odd_table(tmp_path, names)

    table.open().clone(str(tmp_path / "clone"))

    clone = deltacli.open_table(str(tmp_path / "clone"), allow_external=[str(table.place)])
    assert ROWS == read_ids(clone)
    assert [ORPHAN] == planned(table.open())


@pytest.mark.parametrize("names", FOUND.values(), ids=FOUND)
def test_files_with_odd_names_are_compacted_without_loss(names: tuple[str | bytes, str], tmp_path: Path) -> None:
    table = write_odd_table(tmp_path, names)

    table.open().optimize(verify=True)

    assert ROWS == read_ids(table.open())
    assert [ORPHAN] == planned(table.open())  # the files that were compacted are retained


@pytest.mark.parametrize("names", MISSING.values(), ids=MISSING)
def test_a_file_that_may_be_a_missing_one_is_not_deleted(names: tuple[str | bytes, str], tmp_path: Path) -> None:
    table = write_odd_table(tmp_path, names)

    with pytest.raises(DeltacliError):
        read_ids(table.open())

    assert table.name not in planned(table.open())


@pytest.mark.parametrize("names", MISSING.values(), ids=MISSING)
def test_a_repair_removes_no_file_without_being_asked(names: tuple[str | bytes, str], tmp_path: Path) -> None:
    table = write_odd_table(tmp_path, names)

    plan = table.open().plan_repair()

    assert plan.build_refusal() is not None or not plan.steps
    assert os.path.exists(os.path.join(os.fsencode(table.place), table.name))


@pytest.mark.parametrize("names", UNDECODED.values(), ids=UNDECODED)
def test_a_copy_has_the_rows_of_files_whose_paths_are_not_encoded(
    names: tuple[str | bytes, str], tmp_path: Path
) -> None:
    table = write_odd_table(tmp_path, names)

    table.open().copy(str(tmp_path / "copy"))
    shutil.rmtree(table.place)

    assert ROWS == read_ids(deltacli.open_table(str(tmp_path / "copy")))


@pytest.mark.parametrize("names", UNDECODED.values(), ids=UNDECODED)
def test_a_manifest_lists_the_file_that_is_there(names: tuple[str | bytes, str], tmp_path: Path) -> None:
    table = write_odd_table(tmp_path, names)

    table.open().manifest()

    lines = (table.place / "_symlink_format_manifest" / "manifest").read_bytes().splitlines()
    assert all(Path(os.fsdecode(line.removeprefix(b"file:"))).is_file() for line in lines)
    assert table.open().plan_manifest().is_noop
