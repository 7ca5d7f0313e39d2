"""Which command shows a long result, and whether the heading of a table stays in view."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from deltacli.cli.output.destination import keep_heading
from deltacli.cli.terminal import pager
from deltacli.cli.terminal.pager import PagedStream, add_heading_option


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, `less --version` is waited for."""
    monkeypatch.setattr(pager, "_VERSION_TIMEOUT_SECONDS", 60.0)


@pytest.mark.parametrize(
    ("name", "prints", "added"),
    [
        ("less", "less 608 (GNU regular expressions)", ["--header=1"]),
        ("less", "less 590 (GNU regular expressions)", []),
        ("less", "BusyBox v1.36.1", []),
        ("most", "less 643", []),
    ],
)
def test_a_recent_less_keeps_the_heading(name: str, prints: str, added: list[str], tmp_path: Path) -> None:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho '{prints}'\n")
    program.chmod(0o755)

    command = add_heading_option([str(program), "-R"], 1)

    assert [str(program), "-R", *added] == command


def test_the_pager_of_a_table_keeps_its_first_line(tmp_path: Path) -> None:
    program, seen = tmp_path / "less", tmp_path / "seen"
    program.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo 'less 668' && exit\necho \"$@\" > {seen}\ncat > /dev/null\n"
    )
    program.chmod(0o755)

    for is_first in (True, False):
        with PagedStream(io.BytesIO(), rows=3, width=80, pager=[str(program), "-R"]) as screen:
            if not is_first:
                screen.write(b"a sentence\n")
            keep_heading(screen)  # type: ignore[arg-type]
            screen.write(b"version\n1\n2\n3\n4\n")
        expected = "-R --header=1\n" if is_first else "-R\n"

        assert expected == seen.read_text()


def test_a_file_without_a_heading_is_paged_without_one() -> None:
    sink = io.BytesIO()

    keep_heading(sink)

    assert b"" == sink.getvalue()
