"""Ctrl-C and SIGTERM: `vacuum` finishes and reports deletions in flight, and the next run resumes. What any command
says of an interruption is true, and no temporary file is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deltacli.storage import LocalStorage
from tests.cli.support import ROOT, Result, deltacli
from tests.support.builder import TableBuilder
from tests.support.committing import infos

COMMITS = 45
REMOVED = COMMITS // 3
DELETION = "delete_local_file 5 before"
START, END, INFO = "put_if_absent 1 after", "put_if_absent 2 after", "put 1 before"
"""When the signal comes: the call of the store, which one of them, and whether before or after it."""
PROGRAM = """
import os, signal, sys, threading
from deltacli.cli.app import run
from deltacli.operations.vacuum import execute as deleting
from deltacli.storage import local
deleting.FILES_A_BATCH = 2
made = []
class RecordedStop(deleting.StopRequest):
    def __init__(self, **options):
        super().__init__(**options)
        made.append(self)
deleting.StopRequest = RecordedStop
call, number, moment = "{moment}".split()
owner = local if hasattr(local, call) else local.LocalStorage
original, seen = getattr(owner, call), []
def interrupting(*arguments, **options):
    seen.append(call)
    answer = original(*arguments, **options) if moment == "after" else None
    if len(seen) == int(number):
        os.kill(os.getpid(), signal.{name})
        if threading.current_thread() is not threading.main_thread():
            made[-1]._ending.wait(30)  # until the main thread has heard it
    return answer if moment == "after" else original(*arguments, **options)
setattr(owner, call, interrupting)
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a table of which a third of the files was removed years ago."""
    builder = TableBuilder().commits(COMMITS)
    for number in range(COMMITS):
        builder.file(f"part-{number:05d}.parquet", b"x" * 100)
    builder.write(tmp_path / "tbl")
    return tmp_path


def interrupted(home: Path, name: str, *arguments: str, moment: str = DELETION) -> Result:
    program = PROGRAM.format(name=name, moment=moment)
    command = [sys.executable, "-c", program, "vacuum", "tbl", "--yes", "--threads", "1", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False, env=environment)
    return Result(done.returncode, done.stdout, done.stderr)


def operations(home: Path) -> list[tuple[str, str | None]]:
    found = infos(LocalStorage(str(home / "tbl")))[COMMITS:]
    return [(info["operation"], info["operationParameters"].get("status")) for info in found]


def left(home: Path) -> int:
    return len(list((home / "tbl").glob("*.parquet")))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interruption_is_reported_and_the_same_command_resumes(name: str, home: Path) -> None:
    done = interrupted(home, name, "--json")

    assert 128 + getattr(signal, name) == done.code, done.err
    said = f"6 of {REMOVED} files deleted, VACUUM END (FAILED) is version 46; run the same command to continue"
    assert done.error["message"].endswith(said)
    assert COMMITS - 6 == left(home)
    assert [("VACUUM START", None), ("VACUUM END", "FAILED")] == operations(home)
    again = deltacli("vacuum", "tbl", "--yes", "--json", cwd=home)
    assert (0, REMOVED - 6) == (again.code, again.document["deleted"]["files"])
    assert COMMITS - REMOVED == left(home)


@pytest.mark.halved
@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (START, "version 45 was committed"),
        (END, "15 of 15 files deleted; version 46 was committed; run the same command to continue"),
        (INFO, "15 of 15 files deleted, VACUUM END (COMPLETED) is version 46; run the same command to continue"),
    ],
    ids=["in START", "in END", "after END"],
)
def test_the_start_and_end_versions_reported_at_an_interruption_are_in_the_log(
    moment: str, said: str, home: Path
) -> None:
    done = interrupted(home, "SIGINT", "--json", moment=moment)

    assert (130, f"interrupted; {said}") == (done.code, done.error["message"])
    expected = [("VACUUM START", None), ("VACUUM END", "COMPLETED")]
    assert expected[: 1 if moment == START else 2] == operations(home)
    assert COMMITS - (0 if moment == START else REMOVED) == left(home)


def test_an_interrupted_plan_is_resumed(home: Path) -> None:
    assert 0 == deltacli("vacuum", "tbl", "--save-plan", "plan", cwd=home).code

    done = interrupted(home, "SIGINT", "--apply", "plan", "--json")

    assert 130 == done.code, done.err
    again = deltacli("vacuum", "tbl", "--apply", "plan", "--yes", "--json", cwd=home)
    assert 0 == again.code, again.err
    assert (REMOVED, 0) == (again.document["deleted"]["files"], again.document["deleted"]["missing"])
    assert "resuming after 6 files" in again.err
    assert ("VACUUM END", "COMPLETED") == operations(home)[-1]
    assert COMMITS - REMOVED == left(home)


_AT = """
import os, signal, sys
from importlib import import_module
from deltacli.cli.app import run
module, name, number, moment = sys.argv[1:5]
*path, name = name.split(".")
owner = import_module(module)
for part in path:
    owner = getattr(owner, part)
original, seen = getattr(owner, name), []
def interrupting(*arguments, **options):
    seen.append(name)
    if (is_due := len(seen) == int(number)) and moment == "before":
        os.kill(os.getpid(), signal.SIGTERM)
    answer = original(*arguments, **options)
    if is_due:
        os.kill(os.getpid(), signal.SIGTERM)
    return answer
setattr(owner, name, interrupting)
sys.exit(run(sys.argv[5:]))
"""


def interrupted_at(home: Path, moment: str, *arguments: str) -> Result:
    command = [sys.executable, "-c", _AT, *moment.split(), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False, env=environment)
    return Result(done.returncode, done.stdout, done.stderr)


ALTER = ("properties", "tbl", "set", "owner=ops", "--yes")
VACUUM = ("vacuum", "tbl", "--yes")
CLONE = ("clone", "tbl", "other", "--yes")


@pytest.mark.halved
@pytest.mark.parametrize(
    ("moment", "arguments", "said"),
    [
        (
            "deltacli.cli.running.changing _make_result 1 before",
            VACUUM,
            "15 of 15 files deleted, VACUUM END (COMPLETED) is",
        ),
        (
            "deltacli.cli.running.changing _make_result 1 before",
            ("checkpoint", "tbl"),
            "_last_checkpoint names version 44",
        ),
        ("deltacli.cli.running.changing _make_result 1 after", ALTER, "version 45 was committed"),
        ("deltacli.cli.running.context CommandContext._note_written_file 1 after", ALTER, "version 45 was committed"),
        ("deltacli.changing.commit_sender compute_resulting_version 1 before", ALTER, "version 45 was committed"),
        ("deltacli.changing.execution is_true 1 before", ALTER, "a version was committed"),
        (
            "deltacli.operations.vacuum.quarantine write_checksums 1 before",
            (*VACUUM, "--quarantine", "q"),
            "no file was deleted, and copies of files may be in file:",
        ),
        (
            "deltacli.operations.clone _request 1 before",
            ("clone", "tbl", "other", "--yes"),
            ".json may be in the source",
        ),
    ],
)
def test_an_interruption_says_what_was_changed(moment: str, arguments: tuple[str, ...], said: str, home: Path) -> None:
    done = interrupted_at(home, moment, *arguments)

    assert 143 == done.code, done.err
    assert said in done.err.splitlines()[-1]
    assert 0 == deltacli(*arguments, cwd=home).code


@pytest.mark.halved
@pytest.mark.parametrize(
    "moment",
    [
        "locked_drafts create_locked_file 1 after",
        "local_write LocalDraft.__exit__ 1 before",
        "locked_drafts remove_abandoned_drafts 1 before",
    ],
)
def test_an_interruption_leaves_no_temporary_file(moment: str, home: Path) -> None:
    done = interrupted_at(home, f"deltacli.storage.{moment}", *ALTER)

    assert 143 == done.code, done.err
    assert [] == [path for path in home.rglob("*") if path.name.endswith(".tmp")]


def test_a_clone_that_was_interrupted_before_its_commit_can_be_made(home: Path) -> None:
    done = interrupted_at(home, "deltacli.storage.locked_drafts LockedDraft.__init__ 2 before", *CLONE)

    assert 143 == done.code, done.err
    assert (home / "other/_delta_log").is_dir()
    assert 0 == deltacli(*CLONE, cwd=home).code
