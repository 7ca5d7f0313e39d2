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


def test_the_pictures_of_the_readme_are_generated() -> None:
    pictures = re.findall(r"\(docs/img/([^)]+)\)", README)

    assert pictures
    assert set(pictures) <= {f"{screen.name}.svg" for screen in SCREENS}


@pytest.mark.long
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    """Servers run until a signal ends them; `tests/sharing/server/test_serving.py` starts them."""
    make_sample(tmp_path / "demo" / "trips")
    make_sample(tmp_path / "demo" / "damaged", damaged=True)
    commands = [
        line.split("#")[0].strip()
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("deltacli ") and not line.startswith("deltacli share serve")
    ]

    codes = {command: deltacli(*shlex.split(command)[1:], cwd=tmp_path).code for command in commands}

    assert 19 == len(commands)
    findings = [
        "deltacli diff demo/trips 3 8",
        *(command for command in commands if command.startswith("deltacli validate 'demo/**'")),
    ]
    refused = {"deltacli repair demo/damaged --dry-run": 4}  # rows would be given up
    assert dict.fromkeys(findings, 1) | refused == {command: code for command, code in codes.items() if code != 0}


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    make_sample(tmp_path / "demo" / "trips")
    out = io.StringIO()

    with contextlib.redirect_stdout(out), contextlib.chdir(tmp_path):
        exec(blocks("python")[0], {})

    assert "12 15 1120 {'delta.deletedFileRetentionDuration': 'interval 3 days'}" == out.getvalue().splitlines()[0]


def test_the_first_commands_prepare_the_others() -> None:
    first, *others = blocks("sh")

    assert ["python3 dev.py demo", "source .venv-demo/bin/activate"] == first.strip().splitlines()
    named = {word for block in others for word in re.findall(r"(?<!\S)'?(\S*/\S+)", block)}
    assert {"demo/trips", "demo/damaged", "demo/**'", "demo/junit.xml"} == named - {"Expiry"}
    assert "`python3 dev.py test`" in README
    assert "python3 dev.py test" in (ROOT / ".ci" / "run").read_text()


def test_the_demo_installs_nothing_for_development() -> None:
    locked = {
        name: dict(
            re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE)
        )
        for name in ("demo", "dev")
    }

    assert {"pyarrow", "starlette", "hatchling"} <= set(locked["demo"])
    assert set() == {"pytest", "mypy", "moto", "duckdb", "botocore"} & set(locked["demo"])
    assert locked["demo"].items() <= locked["dev"].items()
