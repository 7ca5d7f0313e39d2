"""A path of a hostile log is never printed whole where people read it, and whole in documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.pty_session import Session
from tests.cli.support import deltacli
from tests.support.actions import add
from tests.support.builder import TableBuilder

LONG = "x" * 200_000
COMMANDS = [
    "validate tbl --level storage",
    "repair tbl --dry-run",
    "optimize tbl --dry-run --min-files 2",
    "restore tbl --version 1 --dry-run",
    "undelete tbl --from copy --dry-run",
    "doctor table tbl",
    "read tbl",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("tbl", "copy"):
        builder = TableBuilder().commits(1).commit(add(LONG, size=10, records=1), add("b", size=10, records=1))
        builder.commits(1).write(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_texts_for_people_leave_the_middle_out_and_documents_nothing(command: str, place: Path) -> None:
    words = [str(place / word) if word in ("tbl", "copy") else word for word in command.split()]

    in_pipe, document = deltacli(*words), deltacli(*words, "--json")
    with Session(*words, "--no-pager", size=(100, 50)) as session:
        ended, drawn = session.finish()

    assert in_pipe.code == ended != 70
    assert 100_000 > max(len(in_pipe.out + in_pipe.err), len(drawn))
    assert LONG in document.out or not document.out.strip()
