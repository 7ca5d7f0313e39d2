"""Statistics against files: an error or a warning if and only if an engine that believes them would be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.framework.base import Severity
from deltacli.storage import open_storage
from tests.support.claimed_statistics import ClaimedTable, make_table
from tests.support.validating import validate_table

NOW_MS = 1_768_003_200_000
SELECT = ("stats.*", "typewidening.float-bounds")
IGNORE = ("stats.tight-with-dv",)
"""It describes what may be wrong."""


def told(table: ClaimedTable, root: Path, level: str) -> dict[str, list[str]]:
    """Errors and warnings by file."""
    found = validate_table(
        open_storage(str(root)), EmbeddedEngine(), level=level, select=SELECT, ignore=IGNORE, now_ms=NOW_MS
    )
    by_file: dict[str, list[str]] = {file.path: [] for file in table.files}
    for finding in found.findings:
        assert not finding.rule.id.startswith("validate."), finding.message
        if finding.severity is not Severity.INFO:
            by_file[str(finding.place.key)].append(f"{finding.rule.id}: {finding.message}")
    return by_file


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, (1 << 48) - 1))
@example(seed=5_447_753_788)  # the smallest double above a maximum -Infinity
def test_each_finding_means_that_an_engine_fails(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("t")
    table = make_table(seed)
    table.write(root)

    by_rows, by_footers = (told(table, root, level) for level in ("data", "footers"))

    for file in table.files:
        wrong = file.goes_wrong()
        seen = "\n".join((repr(wrong), *by_rows[file.path], "footers:", *by_footers[file.path], file.story()))
        assert bool(wrong) == bool(by_rows[file.path]), seen
        assert wrong or not by_footers[file.path], seen
        if file.shows_in_footer:
            assert bool(wrong) == bool(by_footers[file.path]), seen
