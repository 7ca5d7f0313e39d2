"""Properties and features of real tables: what is committed leaves all else as it was, and `validate` content."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused
from deltacli.core.machine import fixed_clock
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from tests.corpus.test_checkpoints import LARGE, NOW_MS, WRITABLE, known_versions
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import copy_log
from tests.support.validating import validate_table

CHOSEN = [table for table in WRITABLE if table.id not in LARGE]
EXPECTED = {
    "history.writer-mix",  # two engines wrote
    "log.mtime-vs-commitinfo",  # the clock of the test is not that of the files
    "log.mtime-order",  # the commits of a test may come within a millisecond
    "checkpoint.replay-unavailable",  # of a log that was one checkpoint, now with commits above it
    "crc.missing",  # engines of such tables write a checksum with each commit
    "feature.supported-not-used",  # nobody switched it on yet
}
REFUSALS = {
    "kernel-java/catalog-owned-preview": "catalog.managed",
    "derived/last-checkpoint-dangling-a": "hint.ahead-of-log",
    "kernel-rs-uc/catalog_managed_0": "catalog.managed",
}
each = pytest.mark.parametrize(
    "table", [pytest.param(table, id=table.id) for table in CHOSEN] or [pytest.param(None, id="no-corpus")]
)


def findings(place: Path) -> set[str]:
    found = validate_table(open_storage(str(place)), EmbeddedEngine(), now_ms=NOW_MS)
    return {finding.rule.id for finding in found.findings}


@each
def test_settings_change_and_nothing_else(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    place = copy_log(table, root, tmp_path / "t")
    opened = Table(open_storage(str(place)), clock=fixed_clock(NOW_MS))
    before, told = summarize(opened, digest=True), findings(place)
    if before.snapshot.version != known_versions(table)[-1]["version"]:
        return

    if table.id in REFUSALS:
        with pytest.raises(Refused) as refused:
            opened.set_properties({"owner": "me"})
        assert (REFUSALS[table.id], before.snapshot.version) == (refused.value.code, opened.snapshot().version)
        return
    done = [opened.set_properties({"delta.checkpointInterval": "17", "owner": "me"})]
    done.append(opened.unset_properties(["owner"]))
    added = opened.add_features(["domainMetadata", "vacuumProtocolCheck"])
    after = summarize(opened, digest=True)

    assert [before.snapshot.version + 1, before.snapshot.version + 2] == [one.committed_version for one in done]
    assert (before.files, before.digests) == (after.files, after.digests)
    wanted = {**before.snapshot.properties, "delta.checkpointInterval": "17"}
    assert wanted == after.snapshot.properties
    assert before.snapshot.metadata._replace(configuration=wanted) == after.snapshot.metadata
    assert {"domainMetadata", "vacuumProtocolCheck"} <= after.snapshot.protocol.supported_features
    assert before.snapshot.protocol.supported_features <= after.snapshot.protocol.supported_features
    assert (added.committed_version or after.snapshot.version) == after.snapshot.version
    assert findings(place) - told <= EXPECTED
