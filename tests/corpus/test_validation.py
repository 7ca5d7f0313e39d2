"""`validate` on every real table: what the manifest knows is found, what else is an error is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.delta.rules.base import Severity
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.findings import CHECK_CRASHED
from deltacli.operations.validate import validate_table
from deltacli.storage import open_storage
from tests.support import corpus
from tests.support.corpus import CorpusTable

NOW_MS = 1_767_400_000_000
"""2026-01-03: two days after the time that every file of the archive has."""

RULES_OF: dict[str, set[str]] = {
    # What the manifest calls a finding -> the rules of which one must report.
    "checkpoint.differs": {"checkpoint.missing-add", "checkpoint.no-metadata"},
    "checkpoint.incomplete": {"checkpoint.multipart-incomplete"},
    "checkpoint.sidecar-missing": {"sidecar.missing"},
    "checkpoint.unreadable": {"checkpoint.unreadable"},
    "checksum.differs": {"crc.num-files", "crc.table-size"},
    "commit.duplicate-file-action": {"action.duplicate-path"},
    "compaction.differs": {"compaction.content"},
    "files.absent": {"data.file-missing"},
    "files.dv-absent": {"dv.file-missing"},
    "files.size-differs": {"data.size-mismatch"},
    "json.bad": {"commit.bad-json"},
    "last-checkpoint.dangling": {"hint.checkpoint-missing", "hint.ahead-of-log"},
    "last-checkpoint.unreadable": {"hint.bad-json"},
    "log.commit-gap": {"log.gap", "log.checkpoint-commit-missing"},
    "log.empty": {"log.not-a-table"},
    "log.missing": {"log.not-a-table"},
    "log.no-start": {"log.start-missing"},
    "metadata.missing": {"checkpoint.no-metadata"},
    "metadata.no-schema": {"action.missing-required"},
    "protocol.lists": {"protocol.rw-feature-not-in-reader", "protocol.version-out-of-range"},
    "protocol.missing": {"protocol.missing"},
}

MORE_ERRORS: dict[str, dict[str, str]] = {
    # Table -> errors that the manifest does not have, each with the reason why it is right.
    "delta-rs/cdc_ict_table": {"ict.not-monotone": "two commits have the same inCommitTimestamp"},
    "derived/commit-truncated-a": {"ict.not-monotone": "made from cdc_ict_table"},
    "delta-rs/delta-live-table": {"action.missing-required": "its metaData has no schemaString"},
    "golden/canonicalized-paths-normal-a": {"path.same-file-two-spellings": "one file as path and as URI: its purpose"},
    "golden/canonicalized-paths-special-b": {
        "path.same-file-two-spellings": "one file as path and as URI: its purpose"
    },
    "kernel-rs-golden/canonicalized-paths-normal-a": {"path.same-file-two-spellings": "the same table"},
    "kernel-rs-golden/canonicalized-paths-special-b": {"path.same-file-two-spellings": "the same table"},
    "golden/deltalog-getChanges": {"cdc.without-feature": "change files at writer version 2"},
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": {
        "action.missing-required": "its metaData has no schemaString"
    },
    "golden/deltalog-state-reconstruction-without-protocol": {
        "commit.first-without-protocol": "the same fault, where it began"
    },
    "kernel-rs/cdf-table-with-dv": {
        "dv.bad-z85": "an inline vector ends in a group above 32 bits: padding of one library"
    },
}
TABLES = corpus.tables()


@pytest.mark.skipif(not TABLES, reason=corpus.absence())
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_what_is_known_of_a_table_is_found(table: CorpusTable) -> None:
    root = table.path(corpus.unpacked())

    found = validate_table(open_storage(str(Path(root))), EmbeddedEngine(), level="storage", now_ms=NOW_MS)

    rules = {finding.rule.id for finding in found.findings}
    errors = {finding.rule.id for finding in found.findings if finding.severity is Severity.ERROR}
    wanted = [RULES_OF[known["code"]] for known in table.entry.get("findings") or ()]
    explained = set().union(*wanted, MORE_ERRORS.get(table.id, {}))
    assert CHECK_CRASHED.id not in rules
    assert [] == [options for options in wanted if not options & rules]
    assert set() == errors - explained
    assert set() == MORE_ERRORS.get(table.id, {}).keys() - errors
