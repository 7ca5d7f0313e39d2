"""The GitHub Action and the pre-commit hook: what they run, with usual and hostile inputs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deltacli import __version__
from tests.cli.conftest import BAD
from tests.cli.support import ROOT, Result, make_sample
from tests.e2e.test_exit_codes import program

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))  # Any: YAML
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"]}
BAD_COMMIT = "_delta_log/00000000000000000015.json"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with lake/bad, whose last commit is torn, and "lake/two words"."""
    home = tmp_path_factory.mktemp("checkout")
    make_sample(home / "lake" / "two words")
    make_sample(home / "lake" / "bad")
    (home / "lake" / "bad" / BAD_COMMIT).write_text(BAD)
    program(home)
    return home


def start(step: str, home: Path, tmp_path: Path, **inputs: str) -> Result:
    """Run a step's script as the runner does: its environment is its `env`, filled in, and nothing of it is expanded
    into the text.
    """
    known = {f"${{{{ inputs.{name} }}}}": name for name in ACTION["inputs"]}
    values = {
        variable: inputs.get(known[text].replace("-", "_"), ACTION["inputs"][known[text]].get("default", ""))
        for variable, text in STEPS[step]["env"].items()
        if text in known
    }
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DELTACLI_")}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
        cwd=home,
        env={
            **settings,
            **values,
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_every_input_is_handed_over_and_none_is_part_of_a_script() -> None:
    handed = {
        text for step in STEPS.values() for text in [*step.get("env", {}).values(), *step.get("with", {}).values()]
    }

    assert {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]} <= handed
    assert [] == [step for step in STEPS.values() if "${{" in step.get("run", "")]
    assert {"github", "sarif"} <= set(re.findall(r"\w+", ACTION["inputs"]["format"]["description"]))


def test_findings_become_annotations_and_the_exit_code(lake: Path, tmp_path: Path) -> None:
    done = start("validate", lake, tmp_path, tables="./lake/**\n", arguments="--select=commit.*\n")

    assert (1, "exit-code=1\n") == (done.code, (tmp_path / "output").read_text())
    assert done.out.startswith(f"::error file=lake/bad/{BAD_COMMIT},line=1,title=commit.bad-json::the line is not JSON")
    assert "note: 2 tables: 1 error" in done.err


def test_a_table_may_have_blanks_and_lines_may_end_as_they_like(lake: Path, tmp_path: Path) -> None:
    done = start("validate", lake, tmp_path, tables="\n  lake/two words\r\n", arguments="--select=commit.*\r\n\n")

    assert (0, "") == (done.code, done.out), done.err
    assert "note: 1 table: 0 errors" in done.err


def test_sarif_is_written_to_a_file_and_a_baseline_accepts_findings(lake: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    known.write_text('{"kind":"deltacli.baseline","schemaVersion":1,"findings":[]}')

    inputs = {"tables": "lake/bad", "format": "sarif", "fail_on": "info", "baseline": str(known)}
    done = start("validate", lake, tmp_path, **inputs, arguments="--select=commit.*")
    document = json.loads((lake / "deltacli.sarif").read_text())

    assert (1, "") == (done.code, done.out)
    assert ["commit.bad-json"] == [result["ruleId"] for result in document["runs"][0]["results"]]


@pytest.mark.parametrize(
    "inputs",
    [
        {"tables": "x; touch pwned"},
        {"tables": "$(touch pwned)\n`touch pwned`\n' && touch pwned '\n\" && touch pwned \""},
        {"tables": "--output=pwned\nlake/bad"},
        {"tables": "* && touch pwned"},
        {"tables": "lake/bad", "level": "log --output=pwned"},
        {"tables": "lake/bad", "fail_on": "$(touch pwned)"},
        {"tables": "lake/bad", "baseline": "x\n--output=pwned"},
    ],
)
def test_inputs_are_words_whatever_is_in_them(inputs: dict[str, str], lake: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in lake.iterdir())

    done = start("validate", lake, tmp_path, **inputs)

    assert done.code in (2, 3), done
    assert before == sorted(path.name for path in lake.iterdir())
    assert f"exit-code={done.code}\n" == (tmp_path / "output").read_text()


def test_extras_are_names(lake: Path, tmp_path: Path) -> None:
    done = start("install", lake, tmp_path, extras="s3] ; touch pwned")

    assert (2, "::error::extras are names with commas between them\n") == (done.code, done.out)


@pytest.mark.halved
def test_the_hook_checks_tables_below_and_arguments_name_others(lake: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    entry = [*shlex.split(hook["entry"]), "--select=commit.*"]
    settings = {**os.environ, "PATH": f"{lake / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    codes = [
        subprocess.run([*entry, *words], cwd=lake, env=settings, capture_output=True, check=False).returncode
        for words in (hook["args"], ["lake/two words"])
    ]

    assert [1, 0] == codes
    assert (False, "python") == (hook["pass_filenames"], hook["language"])
    assert [True, True, False] == [
        bool(re.search(hook["files"], path)) for path in (f"lake/bad/{BAD_COMMIT}", "_delta_log/x", "lake/x.parquet")
    ]


@pytest.mark.halved
def test_the_snippets_of_the_page_use_the_action_and_the_hook_as_they_are(lake: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
    documents = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    steps = [step for document in documents for job in document.get("jobs", {}).values() for step in job["steps"]]
    used = [step["with"] for step in steps if step.get("uses") == f"deltacli/deltacli@v{__version__}"]
    (repo,) = (repo for document in documents for repo in document.get("repos", ()))
    (hook,) = repo["hooks"]

    codes = [start("validate", lake, tmp_path, **inputs).code for inputs in used]
    found = subprocess.run(
        ["deltacli", "validate", *hook["args"]],
        cwd=lake,
        env={**os.environ, "PATH": f"{lake / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )

    assert set() == {name for inputs in used for name in inputs} - set(ACTION["inputs"])
    assert ([1, 0], 1, "deltacli-validate") == (codes, found.returncode, hook["id"])
    assert f"v{__version__}" == repo["rev"]
