"""docs/corruptions.md is true: what it says of deltacli is measured anew.

Of other tools it has the answers on record, which `tests/differential/test_corruptions.py` compares with the tools.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.damage_outcomes import Verdict, ask_deltacli, ask_validate, write_tables
from tests.support.damaged_tables import TABLE_DAMAGES, DamagedTable
from tools.corruptions_page import ANSWERS, PAGE, render_page


@pytest.mark.long
def test_the_page_is_what_is_measured(tmp_path: Path) -> None:
    write_tables(tmp_path)

    page = render_page(tmp_path, json.loads(ANSWERS.read_text(encoding="utf-8")))

    assert PAGE.read_text(encoding="utf-8") == page, "run: python -m tools.corruptions_page"
    assert 27 == len(TABLE_DAMAGES)


def test_the_healthy_table_is_read_right_and_nothing_is_found(tmp_path: Path) -> None:
    table = DamagedTable().write(tmp_path / "t")

    found = ask_deltacli(table)

    assert {(Verdict.RIGHT, "", "")} == {(one.verdict, one.detail, one.notice) for one in found.values()}
    assert ask_validate(table, TABLE_DAMAGES[0]) is None
