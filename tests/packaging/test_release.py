"""`dev.py release`: what refuses a release, and that the recipes agree with the project."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

from tests.cli.support import ROOT
from tools.generate import PINNED, pinned
from tools.release import next_step, refusals

PACKAGING = ROOT / "packaging"


def test_a_release_is_refused_with_what_to_do(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n")
    unsaid, to_name = refusals(tmp_path, "1.2.0"), next_step(tmp_path, "1.2.0")
    changelog.write_text("# Changelog\n\n## 1.2.0 (2026-01-01)\n")
    git("add", "-A")
    git("commit", "-q", "-m", "second")
    possible, to_tag = refusals(tmp_path, "1.2.0"), next_step(tmp_path, "1.2.0")
    git("tag", "v1.2.0")
    tagged = refusals(tmp_path, "1.2.0")
    other = refusals(tmp_path, "1.3.0")
    git("commit", "-q", "--allow-empty", "-m", "third")
    moved = refusals(tmp_path, "1.2.0")

    tag, head = git("rev-parse", "HEAD~1")[:8], git("rev-parse", "HEAD")[:8]
    assert [
        "CHANGELOG.md: not committed; commit the changes, or remove them",
        "CHANGELOG.md has no section for 1.2.0: name its section '## 1.2.0 (YYYY-MM-DD)'",
    ] == unsaid
    assert ([], []) == (possible, tagged)
    assert ("name the section", "git tag v1.2.0") == (to_name[:16], to_tag[:14])
    assert [
        "CHANGELOG.md has no section for 1.3.0: name its section '## 1.3.0 (YYYY-MM-DD)'",
        "the commit has the tag v1.2.0, and VERSION is 1.3.0: git tag --delete v1.2.0",
    ] == other
    way_out = "git checkout v1.2.0, or raise VERSION in deltacli/core/release.py"
    assert [f"v1.2.0 is the tag of {tag}, not of {head}: {way_out}"] == moved


def test_the_conda_recipe_has_the_requirements_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    recipe = yaml.safe_load((PACKAGING / "recipe.yaml").read_text(encoding="utf-8"))

    run = [requirement.replace(" ", "") for requirement in recipe["requirements"]["run"]]
    assert sorted([*project["dependencies"], f"python{project['requires-python']}"]) == sorted(run)
    assert f"{project['name']} = {project['scripts']['deltacli']}" == recipe["build"]["python"]["entry_points"][0]


def test_the_images_have_the_locked_versions_that_the_tests_ran_with() -> None:
    locked = {
        name: set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE))
        for name in ("base", "full", "dev")
    }

    assert 10 < len(locked["base"]) < len(locked["full"])
    assert locked["base"] <= locked["full"] <= locked["dev"]
    assert "USER 10001" in (PACKAGING / "Dockerfile").read_text()


def test_every_action_of_the_workflow_is_pinned_to_a_full_version() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")

    used = re.findall(r"uses: (\S+)", workflow)

    assert 10 < len(used)
    assert [] == [one for one in used if not re.fullmatch(r"[\w./-]+@v\d+\.\d+\.\d+", one)]


def test_pages_name_the_release_that_they_are_of() -> None:
    old = {name: re.sub(r"\d+\.\d+\.\d+", "0.0.1", (ROOT / name).read_text(encoding="utf-8")) for name in PINNED}

    renewed = {name: pinned(text) for name, text in old.items()}

    assert [] == [name for name in PINNED if old[name] == renewed[name]]
