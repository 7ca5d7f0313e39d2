"""A table whose format is not known: one call for Delta and Paimon."""

from __future__ import annotations

from pathlib import Path

import pytest

import deltacli
from deltacli.api.either_format import call_with_either_format, find_table_format
from deltacli.api.paimon import Paimon
from deltacli.api.table import Table
from deltacli.core.errors import NotATable, PaimonTable
from tests.cli.support import make_sample
from tests.golden import places


@pytest.fixture
def delta(tmp_path: Path) -> Table:
    return deltacli.open_table(make_sample(tmp_path / "delta"))


@pytest.fixture
def paimon(tmp_path: Path) -> Table:
    """A Paimon table that was opened as a Delta table."""
    places.paimon(tmp_path)
    return deltacli.open_table(tmp_path / "paimon")


def test_the_format_of_a_table_is_found_in_its_directory(delta: Table, paimon: Table) -> None:
    assert "delta" == find_table_format(delta.storage)
    assert "paimon" == find_table_format(paimon.storage)


def test_nothing_at_a_path_has_no_format(tmp_path: Path) -> None:
    with pytest.raises(NotATable):
        find_table_format(deltacli.open_table(tmp_path / "none").storage)


def test_a_delta_table_is_called_once(delta: Table) -> None:
    called = []

    def note_newest_version(table: Table) -> int:
        called.append(type(table))
        return table.snapshot().version

    def fail(table: Paimon) -> int:
        raise AssertionError(table)

    assert 14 == call_with_either_format(delta, delta=note_newest_version, paimon=fail)
    assert [Table] == called


def test_a_call_is_repeated_with_a_paimon_table_of_the_same_directory(paimon: Table) -> None:
    def read_history(table: Table | Paimon) -> str:
        table.history()
        return repr(table)

    expected = repr(deltacli.open_paimon(paimon.uri))
    assert expected == call_with_either_format(paimon, delta=read_history, paimon=read_history)
    assert expected == call_with_either_format(paimon, delta=read_history, paimon=read_history, table_format="paimon")
    with pytest.raises(PaimonTable):
        call_with_either_format(paimon, delta=read_history, paimon=read_history, table_format="delta")
