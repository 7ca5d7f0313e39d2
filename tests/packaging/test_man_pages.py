"""Manual pages as man and mandoc read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deltacli.cli.described_commands import describe_commands
from tests.cli.support import ROOT
from tests.completions.shells import need
from tests.completions.test_completions import HOSTILE, grown_tree
from tools.man_pages import render_man_pages

PAGES = sorted((ROOT / "docs" / "man").glob("*.1"))


def rendered(page: Path) -> str:
    """A page as man shows it, blanks as one."""
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-P", "cat", "-l", str(page)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "400", "MAN_KEEP_FORMATTING": ""},
    )
    assert "" == done.stderr
    return " ".join(done.stdout.split())


def complaints(page: Path) -> list[str]:
    """What mandoc finds; a page without a date is meant: the version says which it is."""
    found = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if "missing date" not in line]


def test_every_command_has_a_page() -> None:
    names = {"deltacli.1", *(f"deltacli-{command.name.replace(' ', '-')}.1" for command in describe_commands())}

    assert names == {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_mandoc_finds_nothing_to_complain_about(page: Path) -> None:
    need("mandoc", "mandoc")

    assert [] == complaints(page)


@pytest.mark.halved
def test_man_pages_contain_everything_in_the_help() -> None:
    need("man", "man-db")

    for command in describe_commands():
        shown = rendered(ROOT / "docs" / "man" / f"deltacli-{command.name.replace(' ', '-')}.1")
        for option in command.options:
            assert f"{option.spelled} {option.full_help}" in shown
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"):
            assert section in shown


def test_no_help_text_turns_into_roff(tmp_path: Path) -> None:
    need("man", "man-db")
    need("mandoc", "mandoc")

    for name, text in render_man_pages(grown_tree(), {"X": f".{HOSTILE}"}).items():
        page = tmp_path / name
        page.write_text(text)
        plain = HOSTILE.replace("`", "")
        assert [] == complaints(page)
        assert f"X .{plain}" in rendered(page)
