"""What `validate` says that a vacuum does with an orphan is what a vacuum of the table does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from tests.rules.corruptions_history import WEEK_MS
from tests.rules.table_builder import NOW_MS, TableBuilder

ORPHAN = "p=a/part-00099.parquet"


def with_orphan(table: TableBuilder) -> TableBuilder:
    table.put(ORPHAN, b"PAR1", modified_ms=NOW_MS - WEEK_MS - 1)
    return table


def plain() -> TableBuilder:
    return with_orphan(TableBuilder())


def with_unknown_feature() -> TableBuilder:
    return with_orphan(TableBuilder(protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["new"]}))


def with_other_table(path: str) -> Callable[[], TableBuilder]:
    def make() -> TableBuilder:
        table = plain()
        table.put(path, b"{}")
        return table

    return make


@pytest.mark.parametrize("kept", [0, 1])
def test_an_orphan_of_a_table_that_lacks_its_files_is_not_said_to_be_deleted(kept: int, tmp_path: Path) -> None:
    root = plain().write(tmp_path)
    for path in sorted(root.rglob("*.parquet"))[kept:]:
        if path != root / ORPHAN and "_delta_log" not in path.parts:
            path.unlink()
    table = open_table(root, clock=fixed_clock(NOW_MS))

    findings = table.validate(level="storage").findings

    assert not [one.message for one in findings if one.rule.id == "data.orphan" and "would delete" in one.message]
    assert table.plan_vacuum().build_refusal() is not None


MADE = {
    "plain": plain,
    "unknown feature": with_unknown_feature,
    "nested Delta table": with_other_table(f"inner/_delta_log/{0:020d}.json"),
    "nested Iceberg table": with_other_table("inner/metadata/v1.metadata.json"),
    "Iceberg table of the directory": with_other_table("metadata/v1.metadata.json"),
    "Hudi table of the directory": with_other_table(".hoodie/hoodie.properties"),
    "hidden table": with_other_table(f"_inner/_delta_log/{0:020d}.json"),
}


@pytest.mark.parametrize("name", MADE)
def test_an_orphan_is_said_to_be_deleted_where_a_vacuum_deletes_it(name: str, tmp_path: Path) -> None:
    table = open_table(MADE[name]().write(tmp_path), clock=fixed_clock(NOW_MS))

    messages = [
        finding.message for finding in table.validate(level="storage").findings if finding.rule.id == "data.orphan"
    ]
    try:
        plan = table.plan_vacuum()
    except DeltacliError:
        deletes = False
    else:
        deletes = plan.build_refusal() is None and ORPHAN.encode() in plan.candidates.column("path").to_pylist()

    assert [deletes] == ["would delete" in message for message in messages if ORPHAN in message]
