"""The sample table, once a session; commands here only read. Tables for `validate`, which may be broken."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.cli.app import run
from tests.cli.support import Result, make_sample

BAD = '{"add":{"path":"x"}\n'

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("sample") / "trips")


@pytest.fixture
def lake(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with tables: lake/bad, whose last commit is torn, and lake/deep/good."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "lake/deep/good")
    shutil.copytree(sample, "lake/bad")
    Path("lake/bad/_delta_log/00000000000000000015.json").write_text(BAD)
    return tmp_path


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command in this process."""
    for name in [name for name in os.environ if name.startswith("DELTACLI_")]:
        monkeypatch.delenv(name)

    def run_here(*arguments: str) -> Result:
        code = run(["validate", *arguments])
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run_here
