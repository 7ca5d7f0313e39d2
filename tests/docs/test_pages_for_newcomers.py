"""The pages for people who come from elsewhere, and those about words, systems and privacy, against the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import deltacli
from deltacli.table.known_clients import read_known_clients
from tests.cli.support import ROOT, check_words, make_sample

DOCS = ROOT / "docs"
WATCHED = """
import os, sys
import pyarrow.compute, pyarrow.parquet, typer
from deltacli.__main__ import main
sys.addaudithook(lambda event, _: event.startswith("socket.") and os.write(2, f"{event}\\n".encode()))
for line in sys.argv[1:]:
    if not os.fork():
        sys.argv = ["deltacli", *line.split()]
        main()
    assert 0 == os.waitstatus_to_exitcode(os.wait()[1]), line
"""
"""A program that runs each of its arguments as a command, and writes to stderr which of them uses a socket."""


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "least"), [("from-delta-rs", 26), ("from-spark", 28)])
def test_every_command_of_the_tables_is_one(name: str, least: int) -> None:
    rows = [line for line in page(name).splitlines() if line.startswith("|")]
    commands = [command for row in rows for command in re.findall(r"`deltacli ([^`]+)`", row)]
    for command in commands:
        check_words(shlex.split(command))

    assert least == len(commands)


def test_every_call_of_the_tables_is_one() -> None:
    calls = re.findall(r"`table\.(\w+)\((\w*=)?[^`|]*?\)(?:\.(\w+))?[^`|]*`", page("from-delta-rs"))

    assert 26 == len(calls)
    assert set() == {name for name, _, _ in calls if not hasattr(deltacli.Table, name)}
    assert set() == {name for _, _, name in calls if name and name not in dir(deltacli.Snapshot)}


def test_the_glossary_is_sorted_and_its_words_are_used_elsewhere() -> None:
    terms = re.findall(r"^- \*\*([^*]+)\*\*: ", page("glossary"), re.MULTILINE)
    others = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md") if path.name != "glossary.md"]
    text = re.sub(r"\s+", " ", "".join(others)).lower()

    assert sorted(set(terms)) == terms
    assert 30 <= len(terms)
    assert [] == [term for term in terms if not re.search(rf"\b{term}", text)]


def test_the_versions_of_the_systems_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = page("systems")
    pythons = {name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name}
    (pyarrow,) = (found[1] for name in project["dependencies"] if (found := re.match(r"pyarrow>=(\d+)", name)))
    measured = {str(client.version) for client in read_known_clients() if client.is_measured}

    assert pythons <= set(re.findall(r"3\.\d+", text))
    assert f"older than {pyarrow} |" in text
    assert set() == {version for version in measured if version not in text}


@pytest.mark.halved
def test_a_command_on_a_local_table_uses_no_socket(tmp_path: Path) -> None:
    make_sample(tmp_path / "tbl")
    lines = ("history tbl", "validate tbl --level data", "doctor table tbl", "optimize tbl --yes")

    words = [sys.executable, "-c", WATCHED, *lines]
    done = subprocess.run(
        words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )

    assert (0, []) == (done.returncode, re.findall(r"^socket\..*", done.stderr, re.MULTILINE)), done.stderr
