"""The job in `examples/pull-request`: its script runs, and the comment that it writes is as stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deltacli import open_table
from tests.cli.support import ROOT, make_sample

EXAMPLE = ROOT / "examples" / "pull-request" / "github-actions.yml"
STORED = Path(__file__).with_name("pull_request.md")
TODAY = "2026-02-10"


@pytest.mark.halved
def test_the_comment_reads_as_stored(tmp_path: Path) -> None:
    for name in ("production", "staging"):
        make_sample(tmp_path / name)
    staging = open_table(tmp_path / "staging")
    staging.set_properties({"delta.appendOnly": "true"})
    staging.add_features(["deletionVectors", "rowTracking"])
    (step,) = (one for one in job()["steps"] if one.get("name") == "Compare")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "deltacli").write_text(f'#!/bin/sh\nexec {sys.executable} -m deltacli "$@" --now {TODAY}\n')
    (commands / "deltacli").chmod(0o755)
    environment = {"PRODUCTION": "./production", "STAGING": "./staging", "PYTHONPATH": str(ROOT)}

    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, **environment, "PATH": f"{commands}:{os.environ['PATH']}"},
        check=True,
    )

    made = "\n".join(without_times(line, tmp_path) for line in (tmp_path / "comment.md").read_text().splitlines())
    if os.environ.get("DELTACLI_STORE_SCREENS"):
        STORED.write_text(made + "\n")
    assert STORED.read_text() == made + "\n"


def test_the_job_may_comment_and_no_more() -> None:
    workflow = yaml.safe_load(EXAMPLE.read_text())

    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert [one["name"] for one in job()["steps"] if "name" in one] == ["Compare", "Comment"]


def job() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = yaml.safe_load(EXAMPLE.read_text())["jobs"]["comment"]
    return found


def without_times(line: str, home: Path) -> str:
    """Return a line without the place of the tables, and without the time of the commits that were made now."""
    line = line.replace(str(home).replace("_", "\\_"), "/lake")
    head, made_now, _ = line.partition("/staging, version 16, committed ")
    return f"{head}{made_now}(now) |" if made_now else line
