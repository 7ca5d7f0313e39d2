"""Every command of the README, run on the sample table."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.support import ROOT, deltacli, make_sample
from tools.screens import SCREENS

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_readme_is_short_and_its_pictures_are_generated() -> None:
    pictures = re.findall(r"\(docs/img/([^)]+)\)", README)

    assert len(README.splitlines()) < 120
    assert pictures
    assert set(pictures) <= {f"{screen.name}.svg" for screen in SCREENS}


@pytest.mark.long
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """Servers run until a signal ends them; `tests/sharing/server/test_serving.py` starts them."""
    make_sample(tmp_path / "tbl")
    make_sample(tmp_path / "lake" / "trips")
    commands = [
        line.split("#")[0].strip()
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("deltacli ") and not line.startswith("deltacli share serve")
    ]

    codes = {command: deltacli(*shlex.split(command)[1:], cwd=tmp_path).code for command in commands}

    assert 18 == len(commands)
    assert {"deltacli diff ./tbl 3 8": 1} == {command: code for command, code in codes.items() if code != 0}


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    make_sample(tmp_path / "demo" / "trips")
    out = io.StringIO()

    with contextlib.redirect_stdout(out), contextlib.chdir(tmp_path):
        exec(blocks("python")[0], {})

    assert "12 15 1080 {'delta.deletedFileRetentionDuration': 'interval 3 days'}" == out.getvalue().splitlines()[0]


def test_the_two_commands_exist() -> None:
    block = next(block for block in blocks("sh") if "dev.py" in block)

    assert ["python3 dev.py demo", "python3 dev.py test"] == block.strip().splitlines()
    assert "python3 dev.py test" in (ROOT / ".ci" / "run").read_text()
