"""Directories that cannot be written, and network file systems with their habits: a command says what is refused, a
commit is never taken for another's, and nothing is half done.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.cli.app import run
from deltacli.core.errors import ConflictLost, DeltacliError, FileMissing
from deltacli.storage import FileStat, LocalStorage, Storage
from tests.cli.support import make_sample
from tests.support.faulty import FaultyStorage

Capture = pytest.CaptureFixture[bytes]
NEW = "00000000000000000015.json"
READING = (
    "history {t}",
    "snapshot {t} --digest",
    "read {t} --limit 1",
    "changes {t} --from 11",
    "validate {t} --level data",
    "vacuum {t} --dry-run",
    "log expire {t} --dry-run",
    "log backup {t} {b}",
)
WRITING = (
    "properties {t} set kept=yes --yes",
    "checkpoint {t}",
    "log crc {t}",
    "log compact {t} --from 11 --to 14",
    "widen-type {t} ride.fare decimal(10,2) --enable --upgrade-protocol --yes",
    "vacuum {t} --yes --max-delete 100%",
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("sample") / "t")


@pytest.fixture
def table(sample: Path, tmp_path: Path) -> Path:
    """A copy whose data files are old enough to be deleted, as they are in the sample."""
    return Path(shutil.copytree(sample, tmp_path / "t"))


class _Head(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Let permissions bind this thread and those that it starts, also where they are root's: without the capabilities
    CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
    """
    library = ctypes.CDLL(None, use_errno=True)
    head, sets = _Head(0x20080522, 0), (_Sets * 2)()
    assert 0 == library.capget(ctypes.byref(head), sets)
    before = sets[0].effective
    sets[0].effective = before & ~0b110
    assert 0 == library.capset(ctypes.byref(head), sets)
    try:
        yield
    finally:
        sets[0].effective = before
        assert 0 == library.capset(ctypes.byref(head), sets)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Take the permission to write from a directory and all below it."""
    below = [place, *place.rglob("*")]
    for path in below:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with bound_by_permissions():
            yield
    finally:
        for path in below:
            path.chmod(0o755 if path.is_dir() else 0o644)


def told(line: str, table: Path, capture: Capture) -> tuple[int, Any]:
    """The exit code of a command, and its error or its document."""
    code = run([*line.format(t=table, b=table.parent / "backup").split(), "--format", "json", "-q"])
    out, err = (stream.decode() for stream in capture.readouterr())
    assert "Traceback" not in err
    return code, json.loads(err.splitlines()[-1]) if err else json.loads(out)


def files(place: Path) -> dict[str, int]:
    return {str(path.relative_to(place)): path.stat().st_size for path in place.rglob("*") if path.is_file()}


def test_a_read_only_table_is_read_like_any_other(table: Path, capsysbinary: Capture) -> None:
    expected = {line: told(line, table, capsysbinary)[0] for line in READING[:-1]}
    with read_only(table):
        found = {line: told(line, table, capsysbinary)[0] for line in READING}
        code, access = told("doctor access {t}", table, capsysbinary)

    assert {**expected, READING[-1]: 0} == found
    states = {each["permission"]: each["state"] for each in access["permissions"]}
    assert {
        "list": "granted",
        "read": "granted",
        "create": "missing",
        "replace": "missing",
        "delete": "missing",
    } == states
    assert 1 == code


def test_what_writes_to_a_read_only_table_is_refused_by_name_and_leaves_nothing(
    table: Path, capsysbinary: Capture
) -> None:
    before = files(table)
    with read_only(table):
        found = {line: told(line, table, capsysbinary) for line in WRITING}

    assert before == files(table)
    for line, (code, error) in found.items():
        assert (7, "storage.permission") == (code, error["code"]), line
        assert "permission denied" in error["message"]
        assert error["hint"].startswith("deltacli doctor access ")


def test_files_that_cannot_be_deleted_are_counted_and_the_vacuum_is_recorded(
    table: Path, capsysbinary: Capture
) -> None:
    directories = [path for path in table.iterdir() if path.name.startswith("day=")]
    before = {path for directory in directories for path in directory.iterdir()}
    for directory in directories:
        directory.chmod(0o555)
    with bound_by_permissions():
        code, _ = told("vacuum {t} --yes --max-delete 100%", table, capsysbinary)
    for directory in directories:
        directory.chmod(0o755)

    assert before == {path for directory in directories for path in directory.iterdir()}
    assert 7 == code
    _, history = told("history {t} --limit 2", table, capsysbinary)
    assert ["VACUUM END", "VACUUM START"] == [item["operation"] for item in history["items"]]


def failing(patch: pytest.MonkeyPatch, name: str, code: int, part: str, *, times: int = 1_000) -> None:
    """Let a call of the system fail for paths that hold a part, the first so many times."""
    real, left = getattr(os, name), [times]

    def call(path: Any, *arguments: Any, **options: Any) -> Any:  # Any: as the real one
        if part in os.fsdecode(path if isinstance(path, str | bytes | os.PathLike) else "") and left[0] > 0:
            left[0] -= 1
            raise OSError(code, os.strerror(code), os.fspath(path))
        return real(path, *arguments, **options)

    patch.setattr(os, name, call)


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_a_store_without_hard_links_creates_by_renaming_without_replacing(
    code: int, table: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "link", code, "")

    assert 0 == told(WRITING[0], table, capsysbinary)[0]
    assert (table / "_delta_log" / NEW).exists()
    assert not list((table / "_delta_log").glob(".*"))


def test_a_link_that_was_made_although_its_answer_says_that_the_name_exists_is_our_commit(
    table: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def sent_again(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)

    monkeypatch.setattr(os, "link", sent_again)

    code, document = told(WRITING[0], table, capsysbinary)

    assert (0, 15) == (code, document["committedVersion"])
    assert not (table / "_delta_log" / "00000000000000000016.json").exists()


@pytest.mark.parametrize("part", ["00000000000000000014.json", "checkpoint.parquet", "_last_checkpoint", "_delta_log"])
def test_a_stale_handle_is_an_error_of_the_store_and_never_a_missing_file(
    part: str, table: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(table)
    for name in ("open", "stat", "scandir", "listdir"):
        failing(monkeypatch, name, errno.ESTALE, part)

    found = {line: told(line, table, capsysbinary) for line in (*READING[:3], *WRITING[:2])}
    monkeypatch.undo()

    for line, (code, said) in found.items():
        if code == 0:  # what does not need the file is right
            assert part == "_last_checkpoint" or said.get("kind") == "deltacli.history", line
        else:
            assert (7, "storage.failed") == (code, said["code"]), line
            assert "stale file handle" in said["message"]
    assert part == "_last_checkpoint" or before == files(table)


class Late(FaultyStorage):
    """A network file system whose client sees new names late: for some calls listings leave them out, and they cannot
    be opened, although they exist for whoever creates one.
    """

    def __init__(self, inner: Storage, hidden: str, calls: int) -> None:
        super().__init__(inner)
        self._hidden, self._left = hidden, calls

    def _is_hidden(self, path: str) -> bool:
        self._left -= 1
        return self._left >= 0 and path.endswith(self._hidden)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        return (stat for stat in super().list_from(directory, start) if not self._is_hidden(stat.name))

    def read(self, path: str) -> bytes:
        if self._is_hidden(path):
            raise FileMissing(f"{path} does not exist")
        return super().read(path)


@pytest.mark.parametrize("calls", [1, 20, 10_000])
def test_a_commit_of_another_client_that_is_visible_late_is_never_overwritten_nor_followed_unread(
    calls: int, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.changing.commit.wait_before_retry", lambda *_: None)
    Table(LocalStorage(str(table))).set_properties({"theirs": "yes"})
    theirs = (table / "_delta_log" / NEW).read_bytes()
    late = Table(Late(LocalStorage(str(table)), NEW, calls))
    is_seen = calls < 10_000

    with nullcontext() if is_seen else pytest.raises(ConflictLost):
        late.set_properties({"ours": "yes"})

    properties = Table(LocalStorage(str(table))).snapshot().properties
    assert theirs == (table / "_delta_log" / NEW).read_bytes()
    assert ("yes", "yes" if is_seen else None) == (properties.get("theirs"), properties.get("ours"))


def test_a_vacuum_that_sees_a_commit_late_keeps_its_files(table: Path) -> None:
    late = Late(LocalStorage(str(table)), "00000000000000000014.json", 10_000)
    added = json.loads((table / "_delta_log/00000000000000000014.json").read_text().splitlines()[1])["add"]["path"]
    now = time.time()
    for path in table.glob("day=*/*"):
        os.utime(path, (now, now))  # written when the commit was: files that are younger than the retention stay

    with suppress(DeltacliError):
        Table(late).vacuum(max_delete="100%")

    assert (table / added).exists()
