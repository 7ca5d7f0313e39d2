"""An executor that finds another directory at the path of a local table: on another host, or since it was replaced."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import Refused
from deltacli.engine.spark import engine
from deltacli.storage.directory_identity import other_directory_refusal
from tests.support.builder import TableBuilder


def refuse_on_an_executor(*_: object) -> int:
    refused = other_directory_refusal("/tables/t")
    refused.facts = {"executor": "node-2", **refused.facts}
    raise refused


def vacuum_on_cluster(table: Path, monkeypatch: pytest.MonkeyPatch, *, replaces: bool = False) -> Refused:
    """Vacuum a table with an engine whose executors find another directory, and return the error."""
    session: Any = SimpleNamespace()
    bound = open_table(str(table), engine=engine.SparkEngine(session)).bind_to_directory()
    if replaces:
        table.rename(table.with_name("moved"))
        TableBuilder().commit().write(table)

    monkeypatch.setattr(engine, "check_executors", refuse_on_an_executor)
    with pytest.raises(Refused) as raised:
        bound.engine._require_cluster(bound.stores)  # type: ignore[attr-defined]  # of the engine above
    return raised.value


def test_executors_of_another_host_see_another_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableBuilder().commit().write(tmp_path / "t")

    refused = vacuum_on_cluster(table, monkeypatch)

    assert "cluster.other-table" == refused.code
    assert "node-2" == refused.facts["executor"]
    assert str(table) in refused.facts["table"]
    assert "store that all hosts share" in (refused.hint or "")


def test_a_directory_that_was_replaced_on_the_driver_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableBuilder().commit().write(tmp_path / "t")

    assert "plan.other-place" == vacuum_on_cluster(table, monkeypatch, replaces=True).code
