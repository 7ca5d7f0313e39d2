"""The page for contributors names places that exist, and its recipes work as they are written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.support import ROOT
from tests.support.actions import metadata, protocol, txn
from tests.support.builder import TableBuilder

command_table = pytest.importorskip("deltacli.cli.command_table", reason="the recipes are for commands in that table")

PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*)`")
EXAMPLES = ("transactions",)
"""What the recipes create."""


def test_every_path_that_the_page_names_exists() -> None:
    places = [ROOT, ROOT / "deltacli"]
    named = [path for path in PATH.findall(PAGE) if not any(example in path for example in EXAMPLES)]

    missing = [path for path in named if not any((place / path).exists() for place in places)]

    assert [] == missing


def test_the_command_of_the_recipe_works(
    table_builder: TableBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from deltacli.cli.app import run

    (code,) = re.findall(r"```python\n(\"\"\"`deltacli log transactions TABLE`.*?)```", PAGE, re.DOTALL)
    (entry,) = re.findall(r"```python\n( *\"log transactions\": CommandEntry.*?)```", PAGE, re.DOTALL)
    module = ModuleType("deltacli.cli.commands.log.transactions")
    exec(compile(code, module.__name__, "exec"), vars(module))
    entries = eval(f"{{{entry}}}", {"CommandEntry": command_table.CommandEntry})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(command_table.COMMANDS, "log transactions", entries["log transactions"])
    table = table_builder.commit(protocol(), metadata(), txn("etl", 7)).write(tmp_path / "tbl")

    exit_code = run(["log", "transactions", str(table), "--format", "csv"])

    assert (0, "appId,version,lastUpdated\netl,7,\n") == (exit_code, capfd.readouterr().out)
