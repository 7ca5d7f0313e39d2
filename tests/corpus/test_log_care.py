"""`log crc`, `log compact` and `log expire` on real tables: what they write and leave is what `validate` asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import Refused
from deltacli.core.machine import fixed_clock
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.log.crc_and_compact import MOST_BYTES, Checksum, ChecksumStatus, LogCompaction
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry, plan_expiry
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from tests.corpus.test_checkpoints import LARGE, NOW_MS, REFUSED, TWO_STATES, WRITABLE, known_versions
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import copy_log
from tests.support.validating import validate_table

CHOSEN = [table for table in WRITABLE if table.id not in LARGE]
NOT_PROVEN = {
    # Tables whose log is left alone, and why.
    "dat/no_stats": "the checkpoint of version 2 differs: files.records",
    "delta-rs-err/table_g": "commit 14 is missing",
    "derived/checkpoint-truncated-a": "the checkpoint of version 3 unreadable",
    "derived/checkpoint-wrong-a": "the checkpoint of version 2 differs: files.count",
    "derived/sidecar-missing-a": "the checkpoint of version 2 unreadable: sidecar.missing",
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": "checkpoint.no-metadata",
}
WRONG_CHECKPOINT = {"derived/checkpoint-truncated-a", "derived/checkpoint-wrong-a", "derived/sidecar-missing-a"}
"""Tables to whose logs `validate` offers no clean-up."""
YEARS_LATER_MS = NOW_MS + 3 * 365 * 86_400_000
each = pytest.mark.parametrize(
    "table", [pytest.param(table, id=table.id) for table in CHOSEN] or [pytest.param(None, id="no-corpus")]
)


def found_in(place: Path, select: str, now_ms: int = NOW_MS) -> set[str]:
    found = validate_table(open_storage(str(place)), EmbeddedEngine(), select=[select], now_ms=now_ms)
    return {finding.rule.id for finding in found.findings}


def is_odd(table: CorpusTable, version: int) -> bool:
    """Return True for versions without a commit file, and those with two contradictory states in the log."""
    return (table.id, version) in REFUSED or (table.id, version) in TWO_STATES


@each
def test_a_checksum_that_was_missing_is_what_validate_asks_for(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    version = known_versions(table)[-1]["version"]
    if is_odd(table, version):
        return
    place = copy_log(table, root, tmp_path / "t")
    before = found_in(place, "crc.*")
    opened = Table(open_storage(str(place)), clock=fixed_clock(NOW_MS))

    first = execute_change(Checksum(version), opened)
    again = execute_change(Checksum(version), opened)

    assert first.status in (ChecksumStatus.WRITTEN, ChecksumStatus.AGREES)
    assert ChecksumStatus.AGREES is again.status
    assert found_in(place, "crc.*") <= before


@each
def test_a_compaction_is_what_its_commits_come_to(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    known = [version["version"] for version in known_versions(table)]
    commits = sorted(item["version"] for item in table.entry["history"] if item["version"] in known)
    run = [version for version in commits if set(range(version, commits[-1] + 1)) <= set(commits)]
    if len(run) < 2 or is_odd(table, run[-1]):
        return
    place = copy_log(table, root, tmp_path / "t")
    before = found_in(place, "compaction.*")

    made = execute_change(LogCompaction(run[0], run[-1]), Table(open_storage(str(place)), clock=fixed_clock(NOW_MS)))

    assert made.commit_bytes < MOST_BYTES
    assert found_in(place, "compaction.*") - before <= {"compaction.stale"}


@each
def test_a_cleaned_log_has_the_same_newest_version(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    place = copy_log(table, root, tmp_path / "t")
    opened = Table(open_storage(str(place)), clock=fixed_clock(YEARS_LATER_MS))
    before = summarize(opened, digest=True)
    plan = plan_expiry(opened, ExpiryRequest())
    if plan.refusals or not plan.files:
        return

    if table.id in NOT_PROVEN:
        with pytest.raises(Refused, match=NOT_PROVEN[table.id]):
            execute_change(LogExpiry(plan.request), opened, plan=plan)
        assert [] == [file.path for file in plan.files if not (place / file.path).exists()]
        if table.id in WRONG_CHECKPOINT:
            assert "log.cleanup-overdue" not in found_in(place, "*", YEARS_LATER_MS)
        return
    outcome = execute_change(LogExpiry(plan.request), opened, plan=plan)
    after = summarize(opened, digest=True)

    assert len(plan.files) == outcome.deleted
    assert (before.files, before.digests and before.digests.keys) == (after.files, after.digests and after.digests.keys)
    assert all(int(path.name[:20]) >= (plan.boundary or 0) for path in (place / "_delta_log").glob("0*.json"))
