"""The file of recipients under faults, kills and other writers: the old one or the new one, never a part."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.sharing.configuration.recipients import (
    Recipients,
    add_recipient,
    change_recipients,
    encode_recipients,
    parse_recipients,
    read_recipients,
)
from tests.cli.support import ROOT
from tests.support.waiting import SECONDS, join

CALLS = ("open", "write", "fsync", "fchmod", "replace", "close")
"""The calls of the operating system that writing takes."""


def add(name: str) -> Callable[[Recipients], Recipients]:
    return lambda recipients: add_recipient(recipients, name, [], 5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipients.json"
    change_recipients(path, add("first"), may_create=True)
    return path


def names(path: Path) -> list[str]:
    return [one.name for one in read_recipients(path).items]


def failing(monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], None], *, after: bool = False) -> list[str]:
    """Let the call of number `at` fail, and return the list of calls that were made."""
    made: list[str] = []

    def step(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            is_due = len(made) == at
            if is_due and not after:
                act()
            outcome = real(*arguments, **options)
            if is_due and after:
                act()
            return outcome

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, step(name, getattr(os, name)))
    return made


def disk_full() -> None:
    raise OSError(28, "No space left on device")


def count_calls(path: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        made = failing(patch, 0, disk_full)
        change_recipients(path, add("counted"))
    return len(made)


def test_a_fault_at_any_call_leaves_the_old_or_the_new_file(file: Path) -> None:
    before = file.read_bytes()
    after = encode_recipients(add("second")(parse_recipients(before, "f")))
    outcomes = set()

    for at in range(1, count_calls(file) + 1):
        file.write_bytes(before)
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, at, disk_full)
            try:
                change_recipients(file, add("second"))
                outcomes.add("done")
            except StorageFailed:
                outcomes.add("failed")
        assert file.read_bytes() in (before, after)
        assert {"recipients.json", "recipients.json.lock"} == set(os.listdir(file.parent))
        change_recipients(file, add("third"))

    assert {"done", "failed"} == outcomes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to kill here")
def test_a_kill_at_any_call_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    """In a process of its own: where a thread has a lock, what is forked waits for it for ever."""
    program = f"from {__name__} import kill_at_each_call; kill_at_each_call({str(tmp_path)!r})"

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=SECONDS)


def kill_at_each_call(directory: str) -> None:
    for after in (False, True):
        (place := Path(directory, str(after))).mkdir()
        change_recipients(place / "recipients.json", add("first"), may_create=True)
        check_kills(place / "recipients.json", after=after)


def check_kills(file: Path, *, after: bool) -> None:
    before = file.read_bytes()
    whole = encode_recipients(add("second")(parse_recipients(before, "f")))
    leave = os._exit
    seen = set()

    for at in range(1, count_calls(file) + 1):
        file.write_bytes(before)
        child = os.fork()
        if child == 0:
            try:
                failing(pytest.MonkeyPatch(), at, lambda: leave(9), after=after)
                change_recipients(file, add("second"))
            finally:
                leave(0)
        assert 9 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seen.add(file.read_bytes())
        change_recipients(file, add("third"))  # not locked for ever

    assert {before, whole} == seen
    assert {"recipients.json", "recipients.json.lock"} == set(os.listdir(file.parent))


def test_concurrent_writers_lose_no_change(file: Path) -> None:
    writers = [threading.Thread(target=change_recipients, args=(file, add(f"w{number}"))) for number in range(12)]

    for writer in writers:
        writer.start()
    for writer in writers:
        join(writer)

    assert {"first", *(f"w{number}" for number in range(12))} == set(names(file))


def test_a_writer_that_never_finishes_is_waited_for_a_while(file: Path) -> None:
    waited: list[float] = []

    def inner(recipients: Recipients) -> Recipients:
        with pytest.raises(StorageFailed, match="another command has been changing it for 10 seconds") as fault:
            change_recipients(file, add("second"), pause=waited.append)
        assert "share.locked" == fault.value.code
        return recipients

    change_recipients(file, inner)

    assert 10 == pytest.approx(sum(waited))
    assert ["first"] == names(file)


def test_the_file_is_private_whatever_it_was_and_links_are_followed(file: Path, tmp_path: Path) -> None:
    os.chmod(file, 0o644)
    link = tmp_path / "sub" / "link.json"
    link.parent.mkdir()
    link.symlink_to(file)

    change_recipients(link, add("second"))

    assert 0o600 == stat.S_IMODE(os.stat(file).st_mode)
    assert link.is_symlink()
    assert ["first", "second"] == names(file)


def test_nothing_is_written_where_nothing_changes_or_the_change_fails(file: Path) -> None:
    stamp = os.stat(file).st_ino

    change_recipients(file, lambda recipients: recipients)
    with pytest.raises(UsageError, match="exists already"):
        change_recipients(file, add("FIRST"))

    assert stamp == os.stat(file).st_ino


def test_a_damaged_file_is_not_replaced(file: Path) -> None:
    file.write_bytes(b"{")

    with pytest.raises(UsageError, match="is not JSON"):
        change_recipients(file, add("second"), may_create=True)

    assert b"{" == file.read_bytes()


def test_a_missing_file_is_created_only_where_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        change_recipients(tmp_path / "none.json", add("x"))

    assert not (tmp_path / "none.json").exists()
