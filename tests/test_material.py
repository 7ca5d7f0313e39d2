"""What is not in the repository is asked for in one way, which skips with a reason and is counted at the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.material import CORPUS, MATERIALS, REFERENCE, REPOSITORY, Material

VARIABLES = "|".join(material.variable for material in MATERIALS)
FOLDERS_OF_SHARED = "corpus|corpus-paimon|field|reference|seeds|tools"
OTHER_WAYS = re.compile(
    rf"""{VARIABLES}|["']shared["']\)? /|/ ?["']shared\b|\bshared/({FOLDERS_OF_SHARED})\b|parents\[3\]"""
)
FOLDERS = ("tests", "tools", "benchmarks", "fuzz", "examples")
HIDDEN = {material.variable: "none" for material in MATERIALS}


def test_no_other_module_knows_where_the_material_is() -> None:
    found = [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py")]

    assert {"tests/support/material.py"} == {
        str(path.relative_to(REPOSITORY)) for path in found if OTHER_WAYS.search(path.read_text("utf-8"))
    }


@pytest.mark.parametrize("material", MATERIALS, ids=lambda material: material.folder)
def test_a_test_that_needs_what_is_absent_is_skipped(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(material.variable, str(tmp_path))
    assert tmp_path == material.require()

    monkeypatch.setenv(material.variable, "none")
    with pytest.raises(
        pytest.skip.Exception, match=f"^no {material.title} at none .{material.variable} can"
    ) as skipped:
        material.require()
    assert skipped.value.allow_module_level


@pytest.mark.long
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_ends_with_what_it_skipped(workers: str, tmp_path: Path) -> None:
    files = ["tests/corpus/test_rewritten.py", "tests/rules/test_risks.py", "tests/cli/test_doctor_table.py"]
    options = [
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'base'}",
        "-n",
        workers,
        "-k",
        "several_lost or classes",
    ]
    command = [sys.executable, "-m", "pytest", *options, *files]

    environment = {**os.environ, **HIDDEN, "DELTACLI_TURNS": ""}
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)

    assert 0 == ended.returncode, ended.stdout
    assert [
        f"skipped 1 files and 1 tests: no {CORPUS.title} at none",
        f"skipped 1 tests: no {REFERENCE.title} at none",
    ] == [line.partition(" (")[0] for line in ended.stdout.splitlines() if line.startswith("skipped")]
