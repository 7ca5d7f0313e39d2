"""Drafts of writers that were killed: which are removed, and which never."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.core.errors import NoSpace
from deltacli.storage import Created, LocalStorage
from deltacli.storage.locked_drafts import (
    ABANDONED_AFTER_NS,
    LockedDraft,
    LockResult,
    is_abandoned,
    remove_abandoned_drafts,
)
from deltacli.storage.output_file import open_replacement
from deltacli.storage.scratch_draft import ScratchDraft
from tests.cli.support import ROOT

_LOG = "_delta_log"
_HERE, _ELSEWHERE, _UNKNOWN = "a" * 12, "b" * 12, "0" * 12
_KILLED = """
import os, signal, sys, tempfile
from deltacli.storage import LocalStorage
from deltacli.storage.output_file import open_replacement
from deltacli.storage.scratch_draft import ScratchDraft
root = sys.argv[1]
drafts = {
    "log": lambda: LocalStorage(root).draft("_delta_log/1.json"),
    "sidecars": lambda: LocalStorage(root).draft("_delta_log/_sidecars/1.parquet"),
    "output": lambda: open_replacement(root + "/out.csv"),
    "scratch": lambda: ScratchDraft(lambda _: None, lambda _: None),
}
with drafts[sys.argv[2]]():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hidden(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*.tmp"))


def kill_a_writer(root: Path, what: str) -> None:
    """Let a process die while it holds a draft."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(root)}
    done = subprocess.run([sys.executable, "-c", _KILLED, str(root), what], env=environment, check=False)
    assert -9 == done.returncode


def write_output(root: Path) -> None:
    with open_replacement(str(root / "out.csv")) as sink:
        sink.write(b"x")


def send_scratch(root: Path) -> None:
    with ScratchDraft(lambda _: Created(), lambda _: None) as draft:
        draft.publish()


_WRITES: dict[str, Callable[[Path], object]] = {
    "log": lambda root: LocalStorage(str(root)).put_if_absent(f"{_LOG}/2.json", b""),
    "sidecars": lambda root: LocalStorage(str(root)).put(f"{_LOG}/2.json", b""),
    "output": write_output,
    "scratch": send_scratch,
}


@pytest.mark.parametrize("what", _WRITES)
def test_drafts_of_killed_writers_are_deleted_by_the_next_write(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(3):
        kill_a_writer(tmp_path, what)
    left = hidden(tmp_path)

    _WRITES[what](tmp_path)

    assert 1 <= len(left) <= 3
    assert [] == hidden(tmp_path)


@pytest.mark.parametrize("what", ["put", "publish"])
def test_a_draft_that_is_being_written_is_kept(what: str, tmp_path: Path) -> None:
    mine, other = LocalStorage(str(tmp_path)), LocalStorage(str(tmp_path))

    with mine.draft(f"{_LOG}/1.json") as draft:
        other.put(f"{_LOG}/2.json", b"")
        with other.draft(f"{_LOG}/3.json") as second:
            second.publish()
        Path(draft.local_path).write_bytes(b"whole")
        outcome = draft.publish()

    assert Created() == outcome
    assert b"whole" == mine.read(f"{_LOG}/1.json")
    assert [] == hidden(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        ".00000000000000000003.json.9c1f.tmp",
        "._commit_1.json.tmp",
        f".{'a' * 31}.tmp",
        f".{'A' * 32}.tmp",
        f".{'a' * 32}.tmp.crc",
        f"{'a' * 32}.tmp",
        f".{'a' * 32}.{'b' * 11}.tmp",
        f".{'a' * 32}.probe",
        "00000000000000000001.json",
    ],
)
def test_files_with_other_names_than_drafts_are_kept_at_any_age(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")

    assert 0 == remove_abandoned_drafts(str(tmp_path), ".", 1 << 62)
    assert [name] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("lock", "tag", "age_ns", "is_gone"),
    [
        (LockResult.TAKEN, _HERE, 0, True),
        (LockResult.TAKEN, _ELSEWHERE, ABANDONED_AFTER_NS - 1, False),
        (LockResult.TAKEN, _ELSEWHERE, ABANDONED_AFTER_NS, True),
        (LockResult.TAKEN, None, ABANDONED_AFTER_NS - 1, False),
        (LockResult.TAKEN, None, ABANDONED_AFTER_NS, True),
        (LockResult.UNSUPPORTED, _HERE, ABANDONED_AFTER_NS - 1, False),
        (LockResult.UNSUPPORTED, _HERE, ABANDONED_AFTER_NS, True),
        (LockResult.HELD, _HERE, ABANDONED_AFTER_NS * 1_000, False),
        (LockResult.HELD, None, ABANDONED_AFTER_NS * 1_000, False),
        (LockResult.TAKEN, _HERE, -ABANDONED_AFTER_NS, True),
        (LockResult.TAKEN, None, -ABANDONED_AFTER_NS, False),
    ],
)
def test_a_draft_is_abandoned_if_its_process_has_ended_or_after_a_day(
    lock: LockResult, tag: str | None, age_ns: int, is_gone: bool
) -> None:
    assert is_gone == is_abandoned(lock, tag, _HERE, age_ns)


def test_without_process_information_only_the_age_counts() -> None:
    assert not is_abandoned(LockResult.TAKEN, _UNKNOWN, _UNKNOWN, ABANDONED_AFTER_NS - 1)
    assert is_abandoned(LockResult.TAKEN, _UNKNOWN, _UNKNOWN, ABANDONED_AFTER_NS)


def test_an_old_modification_time_that_a_writer_set_does_not_make_a_draft_old(tmp_path: Path) -> None:
    place = tmp_path / f".{'a' * 32}.tmp"
    place.write_bytes(b"")
    os.utime(place, ns=(0, 0))

    assert 0 == remove_abandoned_drafts(str(tmp_path), ".", place.stat().st_ctime_ns + ABANDONED_AFTER_NS - 1)
    assert 1 == remove_abandoned_drafts(str(tmp_path), ".", place.stat().st_ctime_ns + ABANDONED_AFTER_NS)


def test_links_and_directories_with_the_name_of_a_draft_are_kept(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"rows")
    (tmp_path / f".{'a' * 32}.tmp").symlink_to(precious)
    (tmp_path / f".{'b' * 32}.tmp").mkdir()

    assert 0 == remove_abandoned_drafts(str(tmp_path), ".", 1 << 62)
    assert b"rows" == precious.read_bytes()


def test_a_draft_removed_before_it_was_locked_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = os.open
    first: list[str] = []

    def open_and_lose(place: str, *arguments: int) -> int:
        descriptor = made(place, *arguments)
        if str(place).endswith(".tmp") and not first:
            first.append(place)
            os.unlink(place)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)

    draft = LockedDraft(str(tmp_path), ".")

    assert [Path(draft.local_path).name] == hidden(tmp_path)
    assert first != [draft.local_path]
    draft.close()
    assert [] == hidden(tmp_path)


def test_the_name_of_a_draft_does_not_reveal_the_machine(tmp_path: Path) -> None:
    draft = LockedDraft(str(tmp_path), ".")

    assert re.fullmatch(r"\.[0-9a-f]{32}\.[0-9a-f]{12}\.tmp", Path(draft.local_path).name)
    draft.close()


@pytest.mark.parametrize("name", ["表" * 70 + ".csv", "x" * 255, "a\udcff" * 60])
def test_a_file_with_a_name_of_maximum_length_is_replaced(name: str, tmp_path: Path) -> None:
    with open_replacement(f"{tmp_path}/{name}") as sink:
        sink.write(b"x")

    assert [name] == os.listdir(tmp_path)


def test_a_disk_that_fills_up_is_reported_with_the_command_that_shows_it(tmp_path: Path) -> None:
    output = f"{tmp_path}/out.csv"

    with pytest.raises(NoSpace) as caught, open_replacement(output):
        raise OSError(errno.ENOSPC, "any text")

    assert f"{output} cannot be written: no space left on device" == caught.value.message
    assert ("output.unwritable", f"df -h {tmp_path}") == (caught.value.code, caught.value.hint)
