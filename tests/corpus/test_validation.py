"""`validate` on every real table: what the manifest knows is found, what else is an error is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.framework.base import Level, Severity
from deltacli.rules.framework.choice import CHECK_CRASHED
from deltacli.storage import AllowedPrefixes, open_storage
from tests.support import corpus
from tests.support.corpus import CorpusTable
from tests.support.validating import validate_table

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
    "delta-rs/cdc_ict_table": {
        "ict.not-monotone": "two commits have the same inCommitTimestamp",
        "storage.hadoop-checksum": "commit 1 was edited, and its checksum file is that of the commit before",
    },
    "derived/commit-truncated-a": {"ict.not-monotone": "made from cdc_ict_table"},
    "delta-rs/delta-live-table": {"action.missing-required": "its metaData has no schemaString"},
    "delta-rs/http_requests": {"data.timestamp-not-utc": "an old writer left the zone out of its timestamps"},
    "delta-rs/issue_1374": {
        "data.timestamp-not-utc": "an old writer left the zone out of its timestamps",
        "stats.bounds-not-covering": "the minimum is rounded up: .014 for .010301",
    },
    "golden/checkpoint": {"storage.hadoop-checksum": "checkpoint 10 was replaced, and its checksum file was not"},
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
    "derived/checkpoint-truncated-a": {"stats.null-count-mismatch": "made from parsed-stats"},
    "kernel-rs/parsed-stats": {"stats.null-count-mismatch": "no nulls are counted in ts_col, which no file has"},
    "spark/table-with-dv-special-char": {"dv.file-missing": "the path of the vector is a template that tests fill in"},
    "kernel-rs/cdf-table-update-ops": {"cdc.bad-change-type": "a test wrote update_pre and update_post by hand"},
    "kernel-rs/partition_cm/none": {"commit.crlf-or-blank": "a blank line, at which Kernel for Java fails"},
    "kernel-rs/partition_cm/id": {"commit.crlf-or-blank": "the same"},
    "kernel-rs/timestamp-partitioned-table": {"path.colon": "times in directories, whose colons Spark refuses"},
    "delta-rs/table-with-domain-metadata": {"log.checkpoint-commit-missing": "it has a checkpoint and no commit"},
    "derived/only-checkpoint-a": {"log.checkpoint-commit-missing": "its purpose"},
}
WARNINGS_OF_FILES: dict[str, dict[str, str]] = {
    # Table -> warnings about data files, each with the reason why it is right.
    "golden/kernel-timestamp-TIMESTAMP_MILLIS": {"data.timestamp-unit": "its purpose"},
    "golden/type-widening": {"typewidening.float-bounds": "the float 3.4 is above 3.4 as a double"},
    "kernel-rs/type-widening": {"typewidening.float-bounds": "the same"},
}
TOO_MANY_FILES = {"kernel-rs/300k-add-files-100-col-partitioned"}
TABLES = corpus.tables()


@pytest.mark.parametrize("table", [one for one in TABLES if one.id not in TOO_MANY_FILES], ids=lambda table: table.id)
def test_known_faults_of_a_table_are_found(table: CorpusTable) -> None:
    require_explained(table, "data")


@pytest.mark.soak
@pytest.mark.parametrize("table", [one for one in TABLES if one.id in TOO_MANY_FILES], ids=lambda table: table.id)
def test_known_faults_of_a_large_table_are_found(table: CorpusTable) -> None:
    require_explained(table, "data")


def require_explained(table: CorpusTable, level: str) -> None:
    """What the manifest knows is found; other errors, and warnings about data files, stand above with their reason."""
    root = table.path(corpus.unpacked())

    found = validate_table(
        open_storage(str(Path(root))),
        EmbeddedEngine(),
        level=level,
        now_ms=NOW_MS,
        allowed=AllowedPrefixes(directories=("/",)),
    )

    rules = {finding.rule.id for finding in found.findings}
    errors = {finding.rule.id for finding in found.findings if finding.severity is Severity.ERROR}
    of_files = {Level.FOOTERS, Level.DATA}
    warnings = {
        finding.rule.id
        for finding in found.findings
        if finding.severity is Severity.WARNING and finding.rule.level in of_files
    }
    wanted = [RULES_OF[known["code"]] for known in table.entry.get("findings") or ()]
    explained = set().union(*wanted, MORE_ERRORS.get(table.id, {}))
    assert CHECK_CRASHED.id not in rules
    assert [] == [options for options in wanted if not options & rules]
    assert set() == errors - explained
    assert set() == MORE_ERRORS.get(table.id, {}).keys() - errors
    assert WARNINGS_OF_FILES.get(table.id, {}).keys() == warnings
