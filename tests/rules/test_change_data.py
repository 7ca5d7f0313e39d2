"""When a commit should have had change data, by what its writer says it copied."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.rules.actions.change_data import change_data_is_missing
from deltacli.rules.framework.views import LocatedAction
from tests.rules.corruptions_change_data import FEED, WITH_FEED
from tests.rules.table_builder import TableBuilder
from tests.rules.test_action_rules import a_commit, config_of


@pytest.mark.parametrize(
    ("operation", "metrics", "words"),
    [
        ("WRITE", {"numCopiedRows": 1}, "1 row"),
        ("WRITE", {"numCopiedRows": "2"}, "2 rows"),
        ("WRITE", {"numTargetRowsCopied": "2"}, "2 rows"),
        ("WRITE", {"numCopiedRows": "many", "numTargetRowsCopied": 3}, "3 rows"),
        ("WRITE", {"num_copied_rows": 2}, "2 rows"),
        ("MERGE", {"num_target_rows_copied": 0}, None),
        ("WRITE", {"numCopiedRows": 0}, None),
        ("WRITE", {"numCopiedRows": True}, None),
        ("WRITE", {"numCopiedRows": 1.0}, None),
        ("WRITE", {"numCopiedRows": "-1"}, None),
        ("WRITE", {}, None),
        ("WRITE", None, None),
        ("MERGE", {"numCopiedRows": 0}, None),
        ("MERGE", {"numCopiedRows": "0", "numTargetRowsCopied": 1}, None),
        ("MERGE", {"numCopiedRows": None}, "rows"),
        ("DELETE", [], "rows"),
        ("UPDATE", {}, "rows"),
    ],
)
def test_copied_rows_without_change_data_are_reported(operation: str, metrics: Any, words: str | None) -> None:
    config = config_of(TableBuilder(protocol=WITH_FEED, properties=FEED))
    info = LocatedAction("commitInfo", {"operation": operation, "operationMetrics": metrics}, 1)
    file = [LocatedAction("add", {"path": "a", "dataChange": True}, 2)]

    found = list(change_data_is_missing(a_commit(others=[info], adds=file, removes=file, before=config, after=config)))

    assert [f"version 3 copies {words} into new files but has no change data"] * (words is not None) == [
        finding.message for finding in found
    ]
