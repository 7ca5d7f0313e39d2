"""The consequences of violated rules, in a few classes, for users who only need to know how bad a fault is.

A rule without a class is `READERS_FAIL` if it is an error (see `Severity`), and otherwise only worth a look.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from deltacli.rules.framework.base import Finding, Severity


class Risk(StrEnum):
    """A class of possible consequences, the worst first."""

    UNREADABLE = "unreadable"
    ROWS_LOST = "rows-lost"
    ROWS_WRONG = "rows-wrong"
    FILES_DELETED = "files-deleted"
    READERS_FAIL = "readers-fail"
    WRITES_FAIL = "writes-fail"
    PAST_WRONG = "past-wrong"


SAYS: Mapping[Risk, str] = {
    Risk.UNREADABLE: "versions cannot be read",
    Risk.ROWS_LOST: "rows can be lost",
    Risk.ROWS_WRONG: "wrong rows can be read",
    Risk.FILES_DELETED: "needed files can be deleted",
    Risk.READERS_FAIL: "some engines can fail or refuse it",
    Risk.WRITES_FAIL: "writes can fail or go wrong",
    Risk.PAST_WRONG: "time travel, changes or row ids can go wrong",
}

SAYS_OF_FILES = "rows of data files cannot be read"
"""The same for `UNREADABLE` where only files outside of the log are."""

RULES: Mapping[Risk, str] = {
    Risk.UNREADABLE: """
        log.not-a-table log.gap log.start-missing
        commit.empty commit.not-utf8 commit.bad-json commit.line-not-object commit.pretty-printed
        commit.first-without-protocol commit.first-without-metadata
        protocol.missing protocol.version-out-of-range
        metadata.format-not-parquet metadata.partition-column-unknown
        schema.bad-json schema.field-missing-key schema.unknown-type schema.decimal-bounds
        action.path-empty checkpoint.unreadable sidecar.missing catalog.publish-order typewidening.change-not-allowed
        data.not-parquet dv.bad-descriptor dv.bad-z85 dv.file-too-short dv.size-mismatch dv.crc-mismatch dv.magic
        dv.bitmap-corrupt
        """,
    Risk.ROWS_LOST: """
        log.staged-without-feature commit.checkpoint-only-action
        appendonly.violated appendonly.dv-delete
        data.file-missing data.size-mismatch data.modified-after-add
        """,
    Risk.ROWS_WRONG: """
        commit.duplicate-txn commit.duplicate-metadata commit.duplicate-protocol
        action.duplicate-path action.add-remove-same-key action.readd-without-remove action.remove-dv-mismatch
        path.same-file-two-spellings path.not-normalised
        protocol.reader-only-feature protocol.rw-feature-not-in-reader feature.used-not-supported
        metadata.partitioning-changed schema.case-only-change schema.duplicate-column
        schema.not-null-tightened schema.new-not-null-column notnull.violated
        mapping.mode-change-illegal mapping.physical-name-changed mapping.id-reused mapping.physical-path-reused
        mapping.max-id-decreased mapping.max-id-too-small mapping.partition-key-logical mapping.mode-invalid
        mapping.mode-without-protocol mapping.id-duplicate mapping.physical-path-duplicate
        mapping.file-without-field-ids mapping.field-id-mismatch mapping.file-with-logical-names
        partition.key-missing partition.unparsable partition.key-case partition.empty-string
        partition.null-in-not-null partition.hive-default
        stats.num-records-negative stats.cardinality-exceeds stats.null-count-range stats.min-greater-max
        stats.interval-bounds stats.tight-with-dv stats.records-disagree stats.num-records-mismatch
        stats.null-count-mismatch
        stats.bounds-not-covering typewidening.float-bounds
        checkpoint.duplicate-key checkpoint.multi-action-row checkpoint.missing-add checkpoint.extra-add
        checkpoint.add-differs checkpoint.parsed-partition-differs checkpoint.parsed-stats-differs
        checkpoint.schema-type checkpoint.metadata-differs checkpoint.missing-txn checkpoint.missing-domain
        checkpoint.v2-version checkpoint.v2-without-feature checkpoint.v2-mixed checkpoint.amt-classic
        checkpoint.without-commit sidecar.size-mismatch sidecar.path-outside sidecar.non-file-action
        crc.all-files crc.metadata-differs crc.protocol-differs crc.txns
        compaction.beyond-log compaction.missing-remove compaction.missing-domain-tombstone compaction.content
        dv.feature-missing dv.iceberg-conflict dv.absolute-not-absolute dv.offset-zero-vs-null dv.file-missing
        dv.file-version dv.cardinality-mismatch dv.row-out-of-range
        typewidening.not-supported typewidening.lost-history typewidening.bad-path typewidening.chain-broken
        data.type-mismatch data.type-widening-unrecorded data.decimal-mismatch data.timestamp-not-utc
        data.timestamp-unit data.required-mismatch data.partition-column-differs data.case-mismatch
        constraint.violated invariant.violated generated.violated
        """,
    Risk.FILES_DELETED: """
        log.nested-table action.deletion-timestamp-missing action.deletion-timestamp-odd
        path.escapes-root path.absolute-inside-root path.reserved-name path.double-encoded
        property.bad-interval property.interval-portability property.retention-short
        checkpoint.missing-tombstone data.shared-file dv.absolute-in-root
        """,
    Risk.READERS_FAIL: """
        action.number-spelling data.encrypted data.codec-unsupported data.void-materialised checkpoint.several-forms
        mapping.file-with-other-names
        """,
    Risk.WRITES_FAIL: """
        domain.without-feature metadata.all-columns-partitioned property.compression-codec property.parquet-version
        protocol.exclusive schema.empty-struct schema.void-in-complex
        constraint.bad-sql invariant.bad-json generated.bad-sql default.bad-sql
        identity.incomplete identity.step-zero identity.immutable-changed identity.high-water-mark
        catalog.txnid-missing clustering.partitioned iceberg.versions-conflict typewidening.property-missing
        """,
    Risk.PAST_WRONG: """
        log.checkpoint-commit-missing action.datachange-false-new-data action.cdc-only path.not-unique-over-history
        history.time-travel-broken ict.missing ict.not-first ict.not-monotone ict.enablement-properties
        ict.without-feature catalog.ict-missing
        cdc.file-missing cdc.size-mismatch cdc.without-feature cdc.missing-when-enabled cdc.partition-values
        cdc.no-change-type cdc.bad-change-type cdc.pre-post-unbalanced
        rowtracking.base-row-id-missing rowtracking.overlap rowtracking.high-water-mark
        rowtracking.high-water-mark-decreased rowtracking.commit-version rowtracking.base-row-id-changed
        rowtracking.column-names rowtracking.suspended-and-enabled rowtracking.materialised-duplicate
        rowtracking.materialised-beyond-mark
        """,
}
"Return the ids of rules whose errors and warnings are of a class."

PAIMON_RULES: Mapping[Risk, str] = {
    Risk.UNREADABLE: """
        paimon.bad-json paimon.missing-key paimon.bad-value paimon.bad-type paimon.file-too-large
        paimon.schema-missing paimon.bad-snapshot paimon.bad-manifest paimon.manifest-missing
        paimon.column-duplicate paimon.key-missing paimon.no-columns paimon.type-change
        """,
    Risk.ROWS_WRONG: """
        paimon.field-id-duplicate paimon.field-id-reused paimon.highest-field-id paimon.highest-field-id-decreased
        paimon.partition-keys-changed paimon.primary-keys-changed paimon.immutable-option paimon.key-duplicate
        paimon.nullability-contradiction
        """,
}
"The same for Paimon tables."

SHARE_RULES: Mapping[Risk, str] = {
    Risk.ROWS_LOST: """
        share.hint-loses-rows share.hint-invalid-filters share.limit-too-few share.limit-before-predicate
        share.pages-differ share.list-pages-differ share.all-tables-differ share.file-id-repeated share.stats-bounds
        share.changes-parts-differ share.changes-by-time share.formats-differ share.as-of-newest-differs
        """,
    Risk.ROWS_WRONG: """
        share.format-advanced share.feature-unasked share.hint-adds-files share.partition-values share.refresh-differs
        share.partition-value-text share.vector-url share.changes-range share.since-range share.timestamp-differs
        share.version-unknown share.page-token-not-checked share.as-of-header share.changes-header
        """,
}
"The same for servers of Delta Sharing."

_CLASSES = {
    rule: risk
    for named in (RULES, PAIMON_RULES, SHARE_RULES)
    for risk, rules in named.items()
    for rule in rules.split()
}

UNREADABLE = frozenset(RULES[Risk.UNREADABLE].split())
UNREADABLE_FILES = frozenset(
    ["data.not-parquet", "dv.file-too-short", "dv.size-mismatch", "dv.crc-mismatch", "dv.magic", "dv.bitmap-corrupt"]
)
"""Those of `UNREADABLE` that only files outside the log show."""

LOST = UNREADABLE_FILES | {"dv.file-missing", *RULES[Risk.ROWS_LOST].split()}
"""Rules whose errors mean that rows, or files that have them, are lost or damaged."""

REPLACED_WHERE_REBUILT = frozenset({"checkpoint.unreadable", "sidecar.missing"})
"""Those of `UNREADABLE` that deltacli works around where older files of the log suffice."""


def risk_of(finding: Finding) -> Risk | None:
    """Return the possible consequence of a finding, or None if there is none: an observation, a warning without a
    class, or a fault outside the table.
    """
    if finding.severity is Severity.INFO or finding.rule.id.startswith(("validate.", "fleet.")):
        return None
    return _CLASSES.get(finding.rule.id, Risk.READERS_FAIL if finding.severity is Severity.ERROR else None)
