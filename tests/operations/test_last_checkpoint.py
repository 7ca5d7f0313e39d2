"""Where `_last_checkpoint` points after a checkpoint: never backwards, and never to one that is not there."""

from __future__ import annotations

import json

from deltacli.api.table import Table
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, plan_checkpoint, write_checkpoint
from tests.support.builder import TableBuilder
from tests.support.reading import open_built

HINT = "_delta_log/_last_checkpoint"


def hinted(table: Table) -> int:
    """The version that the hint names."""
    version: int = json.loads(table.storage.read(HINT))["version"]
    return version


def test_a_hint_to_a_missing_newer_checkpoint_is_repaired(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(10).hint(9))

    result = write_checkpoint(plan_checkpoint(table, CheckpointRequest(version=3)))

    assert (3, 3) == (result.hint_version, hinted(table))
    assert () == table.validate(select=["hint.*"], ignore=["hint.stale"]).findings


def test_a_hint_above_the_log_is_kept_because_it_proves_that_commits_were_lost(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(4).hint(9))

    result = write_checkpoint(plan_checkpoint(table, CheckpointRequest()))

    assert (None, 9) == (result.hint_version, hinted(table))
    assert "hint.ahead-of-log" in {one.rule.id for one in table.validate(select=["hint.*"]).findings}


def test_a_hint_to_a_concurrent_newer_checkpoint_is_kept(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(4))
    planned = plan_checkpoint(table, CheckpointRequest(version=1))
    write_checkpoint(plan_checkpoint(table, CheckpointRequest(version=3)))

    result = write_checkpoint(planned)

    assert (None, 3) == (result.hint_version, hinted(table))


def test_the_checkpoint_of_an_old_version_repairs_the_hint_if_it_is_the_newest(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(4).hint(3))

    result = write_checkpoint(plan_checkpoint(table, CheckpointRequest(version=1)))

    assert (1, 1) == (result.hint_version, hinted(table))
