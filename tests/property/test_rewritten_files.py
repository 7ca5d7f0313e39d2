"""Data files of random tables, rewritten: the rows are the model's, and the statistics are exact."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.rules.framework.base import Severity
from tests.property.test_scan_model import check_version
from tests.support.effort import examples
from tests.support.rewriting import rewrite_at
from tests.support.small_tables import small_tables


def faults(table: Table) -> set[str]:
    """The rules that a table breaks, without those that only inform."""
    return {str(one.rule.id) for one in table.validate(level="data").findings if one.severity is not Severity.INFO}


def check(root: Path, data: st.DataObject, most: int) -> None:
    table = data.draw(small_tables(root, most=most))
    opened = open_table(str(table.root))
    before = faults(opened)
    results = rewrite_at(table.root)

    check_version(opened.snapshot(), table.versions[-1])
    for result in results:
        event(f"{len(result.refused)} refused")
        assert {each.code for each in result.refused} <= {"optimize.value-not-exact", "mapping.file-without-field-ids"}
    assert set() == faults(opened) - before


@given(st.data())
@examples(20)
def test_rewritten_files_have_the_rows_of_the_model(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check(Path(root), data, 6)


@pytest.mark.soak
@given(st.data())
@settings(examples(60), max_examples=500)
def test_rewritten_files_have_the_rows_of_the_model_for_minutes(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check(Path(root), data, 12)
