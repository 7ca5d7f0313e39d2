"""What is said of the file of `--output`: to who watches, and never in a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.pty_session import Session
from tests.cli.support import deltacli, make_sample

QUIET = {"DELTACLI_PROGRESS": "never"}


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        (("read",), "rr.csv", "wrote 1,270 rows ("),
        (("read", "--limit", "3"), "rr.ndjson", "wrote 3 rows ("),
        (("snapshot",), "zz.json", "wrote {file} ("),
        (("vacuum", "--dry-run"), "zz.txt", "wrote {file} ("),
        (("validate", "--exit-zero"), "out.sarif", "wrote {file} ("),
    ],
)
def test_a_terminal_names_the_file_that_was_written(
    words: tuple[str, ...], name: str, said: str, tmp_path: Path
) -> None:
    table, file = make_sample(tmp_path / "trips"), tmp_path / name
    command: list[str | Path] = [words[0], table, *words[1:], "--output", file]

    with Session(*command, environment=QUIET, size=(300, 24)) as session:
        _, seen = session.finish()
    with Session(*command, "-q", environment=QUIET) as session:
        _, nothing = session.finish()
    piped = deltacli(*command)

    assert 1 == seen.count("wrote ")
    assert said.format(file=file) in seen
    assert "wrote" not in nothing + piped.err
