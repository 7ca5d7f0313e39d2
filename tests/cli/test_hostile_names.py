"""`explain`, `diff`, `reach` and `doctor table` of a damaged table whose names are made to break what shows them."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import pytest

from deltacli.cli.terminal.characters import CONTROL_CHARACTERS
from tests.cli.support import deltacli
from tests.docs.test_schemas import faults
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder, commit_path

NAME = "a\"'|%41\n<script>alert(1)</script>\x1b[31m`*_\u202e"
COMMANDS = ["explain ./t", "diff ./t 0 3", "reach ./t", "doctor table ./t --html page.html"]
COMPLETE = dict(zip(COMMANDS, [True, True, False, False], strict=True))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the table is: without commit 1 and all data files, with a checkpoint of version 3."""

    def changed(*names: str, text: str) -> dict[str, object]:
        fields = [{"name": one, "type": "string", "nullable": True, "metadata": {}} for one in names]
        return metadata(
            schema_string=json.dumps({"type": "struct", "fields": fields}),
            partition_columns=[f"p{NAME}"],
            configuration={NAME: text},
            name=NAME,
            description=text,
        )

    values = {f"p{NAME}": NAME}
    builder = TableBuilder().commit(commit_info(NAME), protocol(), changed(NAME, f"p{NAME}", text="old"))
    for name in (quote(f"{NAME}.parquet"), "lost.parquet"):
        builder.commit(commit_info(NAME, engineInfo=NAME), add(name, partition_values=values))
    builder.commit(commit_info(NAME), changed(NAME, f"p{NAME}", f"new{NAME}", text=NAME)).checkpoint(3)
    home = tmp_path_factory.mktemp("hostile")
    builder.write(home / "t")
    (home / "t" / commit_path(1)).unlink()
    return home


@pytest.mark.parametrize("command", COMMANDS)
def test_names_are_shown_and_nothing_else_of_them_takes_effect(home: Path, command: str) -> None:
    words = command.split()
    text, markdown, document = (
        deltacli(*words, "--format", form, cwd=home).out for form in ("table", "markdown", "json")
    )

    found = json.loads(document)
    assert not faults(found, found["kind"])
    assert COMPLETE[command] is found["complete"]
    for shown in (text, markdown):
        assert [line for line in shown.splitlines() if CONTROL_CHARACTERS.search(line)] == []
    assert "<script" not in markdown
    assert [*map(_columns, markdown.splitlines())] == [*_evenly(markdown.splitlines())]
    if command.startswith("diff"):
        assert {NAME, f"`new{NAME.replace('`', '``')}`"} <= {
            one.get("key") or one.get("field") for one in _changes(found)
        }
        assert "alert(1)" in text
        assert "alert(1)" in markdown
    if "page.html" in words:
        page = (home / "page.html").read_text()
        assert "&lt;script&gt;alert(1)" in page
        assert 1 == page.count("<script")  # its own
        assert not CONTROL_CHARACTERS.search(page.replace("\n", ""))


def _changes(found: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [*found["schema"], *found["properties"]]


def _columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))


def _evenly(lines: list[str]) -> list[int]:
    """Return as many columns for each line as the first line of its table has."""
    return [
        columns
        for _, group in groupby(lines, key=lambda line: not line.strip())
        for some in [list(group)]
        for columns in [_columns(some[0])] * len(some)
    ]
