"""How the tests run commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.cli.app import run
from tests.cli import support
from tests.cli.support import deltacli


def test_commands_are_forks_also_after_a_run_in_this_process(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = deltacli("history", sample)
    started: list[object] = []
    monkeypatch.setattr(support, "_started", lambda *what: started.append(what))

    run(["history", str(sample)])
    shown, _ = capfdbinary.readouterr()
    second = deltacli("history", sample)

    assert [] == started
    assert first == second
    assert first.out == shown.decode()
