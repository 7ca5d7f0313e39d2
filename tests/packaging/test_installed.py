"""The built wheel in a fresh environment, from its directory alone, on each Python that `dev.py release` names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from deltacli import __version__
from tests.cli.support import make_sample
from tests.support.fresh import install

INSTALLATIONS = os.environ.get("DELTACLI_INSTALLATIONS", sys.executable).split()
"""Interpreters, each with what else is installed, such as `pyarrow==20.0.0`, after a comma."""


@pytest.mark.halved
@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_the_wheel_is_installed_without_an_index_and_answers(installation: str, wheel: Path, tmp_path: Path) -> None:
    python, *others = installation.split(",")
    table = make_sample(tmp_path / "trips")

    installed = install(wheel, "", tmp_path / "env", *others, python=python, without_index=True)
    version = installed.deltacli("--version")
    history = installed.deltacli("history", table, "--json")
    validated = installed.deltacli("validate", table, "--level", "data", "--now", "2026-01-04", "--json")

    assert (0, f"deltacli {__version__}\n") == (version.code, version.out)
    assert (0, 15) == (history.code, len(history.document["items"])), history.err
    assert (0, 0) == (validated.code, validated.document["summary"]["errors"]), validated.err
