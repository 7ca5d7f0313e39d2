"""The audit log: whole lines only, rotation between several writers, full disks."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from deltacli.core.errors import NoSpace, PermissionRefused, StorageFailed
from deltacli.sharing.configuration.settings import Audit
from deltacli.sharing.server.exchange import AuditFile, NoAudit, open_audit
from tests.support.waiting import join


def entries(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_the_file_is_private_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for number in range(2):
        log = open_audit(Audit(path))
        log.write({"n": number, "name": "\u2028"})

    assert [0, 1] == entries(path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert isinstance(open_audit(None), NoAudit)


def test_a_file_is_rotated_at_its_size_and_old_ones_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditFile(Audit(path, rotate_bytes=100, keep=2))

    for number in range(60):
        log.write({"n": number, "x": "x" * 20})

    names = ["audit.log", "audit.log.1", "audit.log.2"]
    assert names == sorted(os.listdir(tmp_path))
    kept = [number for name in reversed(names) for number in entries(tmp_path / name)]
    assert list(range(kept[0], 60)) == kept
    assert all((tmp_path / name).stat().st_size <= 100 for name in names)


def test_several_writers_share_a_file_and_its_rotations(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    logs = [AuditFile(Audit(path, rotate_bytes=2_000, keep=1_000)) for _ in range(4)]

    def write(log: AuditFile, first: int) -> None:
        for number in range(first, first + 200):
            log.write({"n": number})

    threads = [threading.Thread(target=write, args=(log, place * 200)) for place, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)

    found = [number for name in os.listdir(tmp_path) for number in entries(tmp_path / name)]
    assert sorted(found) == list(range(800))


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditFile(Audit(path))
    log.write({"n": 1})

    path.rename(tmp_path / "elsewhere")
    log.write({"n": 2})

    assert [2] == entries(path)


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    log = AuditFile(Audit(path))
    log.write({"n": 1})
    real, calls = os.write, []

    def half(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) % 2 == 0:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(data)[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(NoSpace, match=r"the audit log .* cannot be written: no space left on device"):
        log.write({"n": 2})
    monkeypatch.setattr(os, "write", real)
    log.write({"n": 3})

    assert [1, 3] == entries(path)


def test_a_place_that_cannot_be_written_is_found_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed):
        open_audit(Audit(tmp_path / "none" / "audit.log"))
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(StorageFailed) as fault:
        open_audit(Audit(tmp_path / "link"))
    assert not isinstance(fault.value, PermissionRefused)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("step", ["replace", "open"])
def test_a_fault_while_rotating_loses_no_line(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    log = AuditFile(Audit(path, rotate_bytes=30, keep=3))
    log.write({"n": 1, "x": "x" * 10})

    def fail(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(NoSpace):
            log.write({"n": 2, "x": "x" * 10})
    log.write({"n": 3})

    assert [1, 3] == sorted(number for name in os.listdir(tmp_path) for number in entries(tmp_path / name))
