"""What a command shows on a terminal, run in this process; and stored screens that a person reads in a diff.

`DELTACLI_STORE_SCREENS=1 pytest tests/cli/test_screens.py` writes the files in `tests/cli/screens` anew.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest

from deltacli.cli.app import run

STORED = Path(__file__).parent / "screens"
STORES = bool(os.environ.get("DELTACLI_STORE_SCREENS"))
NOW = "2026-01-04T12:00:00Z"

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def as_pasted(text: str) -> str:
    """Return a screen whose commands are on one line, as a shell reads those that are broken with a backslash."""
    return re.sub(r" \\\n *", " ", text)


class FakeTerminal(io.TextIOWrapper):
    """A stdout that says it is a terminal and keeps what is written."""

    def __init__(self) -> None:
        self._kept = io.BytesIO()
        super().__init__(self._kept, encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        """Return everything that was written."""
        self.flush()
        return self._kept.getvalue().decode()


def screen_of(
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str | Path,
    width: int = 80,
    colour: str = "never",
    code: int = 0,
    **environment: str,
) -> str:
    """Run a command on a terminal of so many columns and return what stdout shows. The clock stands still. `code` is
    the exit code.
    """
    for name in [name for name in os.environ if name.startswith("DELTACLI_")]:
        monkeypatch.delenv(name)
    settings = {"COLUMNS": str(width), "TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "", "DELTACLI_PROGRESS": "never"}
    for name, value in {**settings, **environment}.items():
        monkeypatch.setenv(name, value)
    terminal = FakeTerminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        ended = run([*map(str, arguments), "--color", colour, "--no-pager", "-q", "--now", NOW])
    assert code == ended
    return terminal.shown()


def marked(text: str) -> str:
    """Return a coloured text with its colours in words: `<31>DELETE<0>`."""
    return _ESCAPE.sub(lambda found: f"<{found[1]}>", text)


def expect_stored(name: str, screens: str) -> None:
    """Compare screens with those stored under a name, or store them where the environment says so."""
    path = STORED / f"{name}.txt"
    if STORES:
        path.write_bytes(screens.encode())
    assert path.read_bytes().decode() == screens
