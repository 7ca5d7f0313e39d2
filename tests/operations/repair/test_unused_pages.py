"""Checkpoints with damaged pages, of which the commits below are gone.

They are written again from their own rows if all rows can be read; else they are left alone, with one reason.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Unreadable
from deltacli.operations.repair.plan import StepState
from deltacli.operations.repair.repair import plan_repair
from deltacli.storage import LocalStorage
from tests.operations.recover.test_proofs import Branch, commit, grown
from tests.support.reading import open_at
from tests.support.repairing import content_of, execute_repair, readable_rows, request

VERSION = 3
CHECKPOINT = f"_delta_log/{VERSION:020d}.checkpoint.parquet"
HINT = "_delta_log/_last_checkpoint"


def opened(table: Branch) -> Table:
    return open_at(LocalStorage(str(table.root)))


def zero_pages(path: Path, column: str, *, in_all_groups: bool = False) -> None:
    """Overwrite the pages of a column with zeros; the footer stays as it is.

    The first row group of a checkpoint has the protocol, the metaData and transactions, further ones have the files.
    """
    footer = pq.ParquetFile(path).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups if in_all_groups else 1)]
    data = bytearray(path.read_bytes())
    for chunk in (group.column(number) for group in groups for number in range(group.num_columns)):
        if chunk.path_in_schema.startswith(column):
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = b"\0" * chunk.total_compressed_size
    assert bytes(data) != path.read_bytes()
    path.write_bytes(data)


def damaged(root: Path, column: str, *, in_all_groups: bool = False) -> Branch:
    """A table whose log begins at a checkpoint with damaged pages."""
    table = grown(root, 5)
    opened(table).checkpoint(version=VERSION)
    for version in range(VERSION):
        (table.root / commit(version)).unlink()
    zero_pages(table.root / CHECKPOINT, column, in_all_groups=in_all_groups)
    return table


def rules_of(table: Branch) -> set[str]:
    return {
        finding.rule.id
        for finding in opened(table).validate(level="log").findings
        if finding.severity.value in ("error", "warning")
    }


@pytest.mark.parametrize("column", ["remove.path", "add.path", "metaData.schemaString"])
def test_what_was_counted_before_the_damage_is_not_held_against_the_hint(column: str, tmp_path: Path) -> None:
    table = damaged(tmp_path / "t", column)

    assert {"checkpoint.unreadable"} == {rule for rule in rules_of(table) if rule.startswith(("hint.", "checkpoint."))}


@pytest.mark.parametrize("column", ["remove.path", "add.path"])
def test_a_checkpoint_whose_rows_can_all_be_read_is_written_again(column: str, tmp_path: Path) -> None:
    table = damaged(tmp_path / "t", column)
    before = readable_rows(opened(table))

    done = execute_repair(plan_repair(opened(table), request(level="log")))

    assert [StepState.DONE] == [step.state for step in done.steps]
    assert done.build_incomplete_error() is None
    assert before == readable_rows(opened(table))
    assert not {rule for rule in rules_of(table) if rule.startswith(("hint.", "checkpoint."))}
    assert plan_repair(opened(table), request(level="log")).is_noop


@pytest.mark.parametrize("column", ["add.path", "add.size", "metaData.schemaString", "protocol.minReaderVersion"])
def test_a_checkpoint_that_cannot_be_read_stays_as_it_is(column: str, tmp_path: Path) -> None:
    table = damaged(tmp_path / "t", column, in_all_groups=True)
    before = content_of(table.root)

    plan = plan_repair(opened(table), request(level="log"))

    assert plan.is_noop
    assert ["checkpoint.unreadable"] == [one.rule for one in plan.unrepaired if one.rule.startswith(("hint.", "check"))]
    assert before == content_of(table.root)


def test_a_bad_hint_of_an_unreadable_checkpoint_is_moved_once(tmp_path: Path) -> None:
    table = damaged(tmp_path / "t", "metaData.schemaString")
    (table.root / HINT).write_bytes(b"{")

    done = execute_repair(plan_repair(opened(table), request(level="log")))

    assert [("hint.bad-json", StepState.DONE)] == [(step.rule, step.state) for step in done.steps]
    assert not (table.root / HINT).exists()
    assert plan_repair(opened(table), request(level="log")).is_noop
    with pytest.raises(Unreadable):
        opened(table).snapshot()
