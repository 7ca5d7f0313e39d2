"""Every documented exit code of `validate`, made by a shell script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltacli.cli.command_loading import load_command
from deltacli.cli.exit_codes import read_exit_codes
from tests.cli.support import ROOT, make_sample


@pytest.mark.long
def test_each_exit_code_of_validate_matches_the_page(tmp_path: Path) -> None:
    sample = make_sample(tmp_path / "sample")
    work = tmp_path / "work"
    work.mkdir()
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DELTACLI_")}

    done = subprocess.run(
        ["bash", str(ROOT / "tests" / "e2e" / "exit_codes.sh"), str(sample)],
        cwd=work,
        env={**settings, "PATH": f"{program(tmp_path)}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    codes = {int(code) for code in re.findall(r"^ok (\d+) ", done.stdout, re.MULTILINE)}

    assert (0, "") == (done.returncode, done.stderr), done.stdout
    validate = load_command(("validate",))
    assert validate is not None
    assert {*read_exit_codes(validate.epilog), 141} - {70} == codes  # 70 is a fault of deltacli


def program(directory: Path) -> Path:
    """A directory with the command `deltacli` of this environment."""
    home = directory / "bin"
    home.mkdir()
    (home / "deltacli").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m deltacli "$@"\n')
    (home / "deltacli").chmod(0o755)
    return home
