"""What a finding means for its table: the consequence of a violated rule, and the command that repairs it.

A rule without a class is `READERS_FAIL` if it is an error (see `Severity`), and otherwise only worth a look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache, partial
from typing import Any, NamedTuple

from deltacli.core.errors import command, is_shared
from deltacli.rules.framework.base import CATALOGUE, Finding, Level, Rule, Severity

# -- the consequences of violated rules, in a few classes --------------------------------------------------------------


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
        commit.not-utf8 commit.bad-json commit.line-not-object commit.pretty-printed
        commit.first-without-protocol commit.first-without-metadata
        protocol.missing protocol.version-out-of-range
        metadata.format-not-parquet metadata.partition-column-unknown
        schema.bad-json schema.field-missing-key schema.unknown-type schema.decimal-bounds
        action.path-empty checkpoint.unreadable sidecar.missing catalog.publish-order typewidening.change-not-allowed
        data.archived
        data.not-parquet dv.bad-descriptor dv.bad-z85 dv.file-too-short dv.size-mismatch dv.crc-mismatch dv.magic
        dv.bitmap-corrupt
        """,
    Risk.ROWS_LOST: """
        log.staged-without-feature commit.empty commit.checkpoint-only-action
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
        partition.binary-altered partition.null-in-not-null partition.hive-default
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
        data.nan-beyond-bounds data.int96-beyond-nanoseconds
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
        mapping.file-with-other-names partition.kernel-unreadable
        """,
    Risk.WRITES_FAIL: """
        path.file-uri-form
        domain.without-feature metadata.all-columns-partitioned property.compression-codec property.parquet-version
        protocol.exclusive schema.empty-struct schema.void-in-complex
        constraint.bad-sql invariant.bad-json generated.bad-sql default.bad-sql stats.text-too-long
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
    Risk.READERS_FAIL: "paimon.version-2-only",
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
ARCHIVED_FILES = "data.archived"
"""The rule about live files in an archive of their store, which can be restored."""
_DAMAGED_FILES = frozenset(
    ["data.not-parquet", "dv.file-too-short", "dv.size-mismatch", "dv.crc-mismatch", "dv.magic", "dv.bitmap-corrupt"]
)
UNREADABLE_FILES = _DAMAGED_FILES | {ARCHIVED_FILES}
"""Those of `UNREADABLE` that only files outside the log show."""

DECIDE_READABLE = (UNREADABLE - UNREADABLE_FILES) | {"commit.empty"}
"""Rules about the log that decide whether deltacli reads the newest version. Other engines read an empty commit, which
may have had actions; deltacli refuses it.
"""

LOST = _DAMAGED_FILES | {"dv.file-missing", *RULES[Risk.ROWS_LOST].split()}
"""Rules whose errors mean that rows, or files that have them, are lost or damaged."""

REPLACED_WHERE_REBUILT = frozenset({"checkpoint.unreadable", "sidecar.missing"})
"""Those of `UNREADABLE` that deltacli works around where older files of the log suffice."""


def risk_of(finding: Finding) -> Risk | None:
    """Return the possible consequence of a finding, or None if there is none: an observation, a warning without a
    class, a fault outside the table, or one that keeps no engine from reading the table.

    An error that makes an engine refuse the table is at least `READERS_FAIL`, whatever else it puts at stake.
    """
    if finding.severity is Severity.INFO or finding.rule.id.startswith(("validate.", "fleet.")):
        return None
    is_error = finding.severity is Severity.ERROR
    risk = _CLASSES.get(finding.rule.id, Risk.READERS_FAIL if is_error else None)
    effect = finding.effect
    if effect is None:
        return risk
    if not effect.stops_readers:
        return None if risk is Risk.UNREADABLE else risk
    return _worse(risk, Risk.READERS_FAIL) if is_error else risk


def _worse(risk: Risk | None, other: Risk) -> Risk:
    """Return the risk that is listed first."""
    return next(one for one in Risk if one in (risk, other))


# -- which findings a command of deltacli repairs ----------------------------------------------------------------------

_SET = partial(command, "properties", "set")
_VACUUM = partial(command, "vacuum")
_CATALOG = "uc://"
_REMOTE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")


_REPAIRS: Mapping[str, Callable[..., str]] = {
    "data.expired-tombstone-present": _VACUUM,
    "data.orphan": _VACUUM,
    "data.int96-beyond-nanoseconds": partial(command, "optimize", purge=True),
    "data.nan-beyond-bounds": partial(command, "optimize", purge=True),
    "data.small-files": partial(command, "optimize"),
    "dv.orphan": _VACUUM,
    "history.vacuum-start-without-end": _VACUUM,
    "log.cleanup-overdue": partial(command, "log expire"),
    "log.no-checkpoint-long": partial(command, "checkpoint"),
    "property.log-cleanup-off": partial(command, "properties", "unset", "delta.enableExpiredLogCleanup"),
    "property.retention-short": partial(_SET, {"delta.deletedFileRetentionDuration": "interval 7 days"}),
    "property.stats-both-off": partial(_SET, {"delta.checkpoint.writeStatsAsJson": "true"}),
    "property.stats-struct-unset": partial(_SET, {"delta.checkpoint.writeStatsAsStruct": "true"}),
}
"""Rule -> the command that ends what it reports, where that is another than `repair`."""


class Condition(StrEnum):
    """What is known of a table before a command repairs it: one that lacks live files is not vacuumed, of an unreadable
    one only `repair` acts, and none repairs one that a catalog manages.
    """

    WHOLE = "whole"
    LACKS_FILES = "lacks files"
    UNREADABLE = "unreadable"
    MANAGED = "managed by a catalog"


def repair_command(rule: Rule, table: str, condition: Condition = Condition.WHOLE, **options: object) -> str:
    """Return the command that repairs what a rule reports about a table, empty where there is none: where nothing but a
    copy has what is lost, it is not known.
    """
    if is_shared(table):
        return ""
    steps = get_repair_row(rule.id).steps
    if steps and condition is Condition.MANAGED:
        return command("checkpoint", table=table, force=True) if _is_cured_by_checkpoint(rule, table) else ""
    if not steps:
        if condition is Condition.UNREADABLE or rule.id not in _REPAIRS:
            return ""
        if condition is Condition.LACKS_FILES and _REPAIRS[rule.id] is _VACUUM:
            return recover_command(table)
        return _REPAIRS[rule.id](table=table, **options)
    is_readable = condition is not Condition.UNREADABLE
    if steps[0] is not StepKind.RECOVER and not is_readable and StepKind.RECOVER in steps:  # nothing to rebuild it from
        sources = ["versions" if may_keep(table) else "COPY"]
        return command("repair", table=table, sources=sources, **_level(rule), **options)
    if steps[0] is not StepKind.RECOVER:
        return command("repair", table=table, **_level(rule), **options)
    return command("repair", table=table, sources=["versions"], **_level(rule), **options) if may_keep(table) else ""


def suggest_repair(rule: Rule, table: str, condition: Condition = Condition.WHOLE) -> str:
    """Return the same command; where a repair loses something, or needs a copy, it shows only what it would do."""
    options = {"dry_run": True} if rule.fix.loses else {}
    if condition is Condition.MANAGED:
        return repair_command(rule, table, condition)
    if get_repair_row(rule.id).steps and not is_shared(table) and not repair_command(rule, table, condition):
        return command("repair", table=table, **_level(rule), dry_run=True)
    return repair_command(rule, table, condition, **options)


def command_of(rule: Rule, table: str, condition: Condition = Condition.WHOLE) -> str | None:
    """Return the command that repairs what a rule reports, else one that shows a repair's effect; None without any."""
    return repair_command(rule, table, condition) or suggest_repair(rule, table, condition) or None


def repair_in_words(rule: Rule, table: str, condition: Condition) -> str:
    """Return how to repair what a rule reports, in words."""
    if condition is Condition.MANAGED and get_repair_row(rule.id).steps:
        if _is_cured_by_checkpoint(rule, table):
            return f"write a checkpoint, which writes the hint anew: {repair_command(rule, table, condition)}"
        reach = command("reach", table=table)
        return f"a catalog manages the table, so it cannot be repaired; {reach} shows which versions can be read"
    return rule.fix.repair_of(table)


def _is_cured_by_checkpoint(rule: Rule, table: str) -> bool:
    """Return whether a checkpoint ends what a rule reports about a table of a catalog, which was opened by its name.

    It writes `_last_checkpoint` anew. A hint that is ahead of the log may be the proof that commits were lost, and a
    wrong checkpoint may be what the next one would be made from.
    """
    is_hint = get_repair_row(rule.id).family is Family.HINT and rule.id != "hint.ahead-of-log"
    return is_hint and table[: len(_CATALOG)].lower() == _CATALOG


def recover_command(table: str) -> str:
    """Return the command that shows what of lost files would come back, and what would be given up."""
    kept = {"sources": ["versions"]} if may_keep(table) else {}
    return command("repair", table=table, **kept, dry_run=True)


def undelete_command(table: str, **options: Any) -> str:  # Any: options of the command
    """Return the command that shows what `undelete` would bring back, from a copy where the store keeps no versions."""
    options |= {} if may_keep(table) else {"sources": ["COPY"]}
    return command("undelete", **options, dry_run=True)


def depends_on_condition(rule: Rule) -> bool:
    """Return whether the command that repairs what the rule reports is another one where the table is not whole."""
    return rule.id in _REPAIRS


def _level(rule: Rule) -> dict[str, str]:
    """Return the level at which `repair` finds it, unless that is the default."""
    return {"level": rule.level.value} if rule.level in (Level.FOOTERS, Level.DATA) else {}


def may_keep(table: str) -> bool:
    """Return whether the store of a table may keep versions of its files."""
    return _REMOTE.match(table) is not None


class StepKind(StrEnum):
    """What a step does. `recover`: bytes come back from a source. `rebuild`: what the rest of the table determines is
    written anew. `quarantine`: a file that nothing needs is moved to the backup. `remove-reference`: a commit removes
    what is lost. They are tried in the order of the row.
    """

    RECOVER = "recover"
    REBUILD = "rebuild"
    QUARANTINE = "quarantine"
    REMOVE_REFERENCE = "remove-reference"


class Family(StrEnum):
    """The steps that are planned together."""

    LOG = "log"
    FILES = "files"
    DOUBLED = "doubled"
    PATHS = "paths"
    PARTITIONS = "partitions"
    STATISTICS = "statistics"
    CHECKPOINT = "checkpoint"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"
    HINT = "hint"
    HADOOP_CHECKSUM = "hadoop checksum"


class RepairRow(NamedTuple):
    """The steps of a rule in the order in which they are tried, and what plans them; or none, and the `reason`."""

    steps: tuple[StepKind, ...] = ()
    family: Family | None = None
    reason: str = ""

    @property
    def loses(self) -> bool:
        """Return True if the last of the steps gives up rows."""
        return StepKind.REMOVE_REFERENCE in self.steps


_RECOVER, _REBUILD, _QUARANTINE, _REMOVE = StepKind

_STEPS: tuple[tuple[Family, tuple[StepKind, ...], str], ...] = (
    (
        Family.LOG,
        (_RECOVER,),
        """log.not-a-table log.start-missing checkpoint.without-commit compaction.beyond-log
        commit.pretty-printed""",
    ),
    (
        Family.LOG,
        (_RECOVER, _REBUILD),
        """log.gap log.checkpoint-commit-missing commit.empty commit.not-utf8 commit.bad-json
        commit.line-not-object""",
    ),
    (
        Family.FILES,
        (_RECOVER, _REMOVE),
        """data.file-missing data.not-parquet dv.file-missing dv.file-version dv.bitmap-corrupt dv.bad-z85""",
    ),
    (Family.FILES, (_RECOVER,), "path.double-encoded"),
    (
        Family.FILES,
        (_RECOVER, _REBUILD, _REMOVE),
        """data.size-mismatch dv.file-too-short dv.size-mismatch dv.crc-mismatch dv.magic dv.cardinality-mismatch
        dv.bad-descriptor""",
    ),
    (Family.DOUBLED, (_REBUILD,), "action.remove-dv-mismatch"),
    (Family.PATHS, (_REBUILD,), "path.file-uri-form"),
    (
        Family.PARTITIONS,
        (_REBUILD,),
        """partition.key-missing partition.key-case partition.unparsable partition.kernel-unreadable
        mapping.partition-key-logical""",
    ),
    (
        Family.STATISTICS,
        (_REBUILD,),
        """stats.bad-json stats.num-records-missing stats.num-records-negative stats.cardinality-exceeds
        stats.null-count-range stats.unknown-column stats.partition-column stats.type-mismatch stats.interval-bounds
        stats.variant-encoding stats.tight-with-dv stats.min-greater-max stats.num-records-mismatch
        stats.null-count-mismatch stats.records-disagree stats.bounds-not-covering stats.bounds-not-tight
        stats.clustering-missing
        typewidening.float-bounds iceberg.num-records dv.num-records-missing mapping.stats-key-logical
        action.duplicate-path""",
    ),
    (
        Family.CHECKPOINT,
        (_REBUILD, _RECOVER),
        "checkpoint.unreadable checkpoint.zero-length sidecar.missing sidecar.size-mismatch",
    ),
    (
        Family.CHECKPOINT,
        (_REBUILD,),
        """checkpoint.duplicate-key checkpoint.multi-action-row checkpoint.missing-add checkpoint.extra-add
        checkpoint.add-differs checkpoint.missing-tombstone checkpoint.parsed-partition-differs
        checkpoint.parsed-stats-differs checkpoint.schema-type checkpoint.parsed-partition-missing
        checkpoint.parsed-names checkpoint.no-protocol checkpoint.no-metadata checkpoint.forbidden-action
        checkpoint.metadata-differs checkpoint.missing-txn checkpoint.missing-domain checkpoint.features-null
        checkpoint.v2-metadata-missing checkpoint.v2-version checkpoint.v2-without-feature checkpoint.v2-mixed
        checkpoint.v2-tags checkpoint.add-column-missing sidecar.path-outside sidecar.non-file-action
        checkpoint.multipart-incomplete checkpoint.multipart-mixed checkpoint.multipart-forbidden
        checkpoint.multipart-one dv.names-nothing""",
    ),
    (
        Family.COMPACTION,
        (_QUARANTINE,),
        """compaction.bad-name compaction.missing-remove compaction.missing-domain-tombstone
        compaction.content compaction.forbidden-action""",
    ),
    (
        Family.CHECKSUM,
        (_REBUILD, _QUARANTINE),
        """crc.num-files crc.table-size crc.histogram crc.deleted-histogram crc.all-files crc.dv-counts crc.bad-json
        crc.missing-required crc.metadata-differs crc.protocol-differs crc.counts-not-one crc.ict crc.txns
        crc.domains""",
    ),
    (Family.CHECKSUM, (_RECOVER, _REBUILD, _QUARANTINE), "crc.without-commit"),
    (
        Family.HINT,
        (_REBUILD, _QUARANTINE),
        """hint.missing hint.bad-json hint.missing-field hint.checkpoint-missing hint.size-wrong hint.parts-on-classic
        hint.checksum-bad hint.checksum-order hint.schema-wrong""",
    ),
    (Family.HINT, (_RECOVER, _REBUILD, _QUARANTINE), "hint.ahead-of-log"),
    (Family.HADOOP_CHECKSUM, (_QUARANTINE,), "storage.hadoop-checksum"),
)

_HARMLESS = "no reader is misled, so there is nothing to repair"
_PAST = "commits are never edited, and this one decides nothing of the newest version"
COMMIT_AGAIN = "an engine has to commit the file again with the right fields; the file itself is intact"
_INCOMPLETE = (
    "a commit is never edited: the next checkpoint lets readers begin behind a metaData that lacks fields other than "
    "its schema, and an engine has to commit any other action again with the right fields"
)
_ENGINE = "an engine has to rewrite the rows"
_SCHEMA = "a person has to decide on the schema, which a new metaData then states"
_PROTOCOL = "a person has to decide on the protocol, which no later commit takes back"
_PROPERTY = "a person has to decide on the property: properties sets or unsets it"
_SPELLINGS = (
    "the log does not record which spelling was intended; a forced checkpoint makes what deltacli reads the state for "
    "all engines"
)
_INTENDED = "the log does not record which of the actions was intended; restore goes back to a version before them"
_TWO_VECTORS = (
    "neither the file nor the commit says which of the two vectors is right; restore goes back to the version before, "
    "and the writer commits again, with a remove of the old vector"
)
_LEFT_TO_VACUUM = "vacuum deletes such files"
_FOREIGN = "the file is not one of the protocol, so only its writer can say what it is for"
_CLOCK = "the times of past versions cannot be changed"
_UNDELETE = "the newest version does not need the file; undelete brings it back from a source"

_NO_STEP: tuple[tuple[str, str], ...] = (
    (
        _HARMLESS,
        """commit.unknown-field commit.checkpoint-only-action commit.unknown-action commit.huge
        action.remove-of-unknown action.datachange-mixed commitinfo.missing domain.tombstone-empty
        path.shared-with-cdc partition.dir-mismatch stats.null-count-wide stats.timestamp-precision
        action.stats-in-checkpointed-remove checkpoint.parsed-types-old checkpoint.domain-tombstone
        checkpoint.replay-unavailable checkpoint.stats-policy checkpoint.v2-compat-missing crc.missing hint.stale
        compaction.stale data.orphan-young dv.written-while-disabled catalog.unpublished-possible
        iceberg.metadata-at-risk history.operation-missing history.restore-risk history.writer-mix
        rowtracking.preserved-tag typewidening.table-version log.subdir-unknown schema.too-wide
        typewidening.property-missing txn.version-decrease txn.last-updated-missing domain.system-unknown
        path.absolute data.row-count-zero data.encrypted dv.all-rows data.column-missing data.nested-layout
        stats.nullcounts-spelling typewidening.removable schema.interval-noncanonical""",
    ),
    (
        _PAST,
        """action.cdc-only commitinfo.several action.deletion-timestamp-missing
        action.deletion-timestamp-odd action.extended-metadata-lie action.remove-size-missing
        action.cdc-datachange-true action.datachange-false-new-data commit.first-without-protocol
        commit.first-without-metadata cdc.no-change-type cdc.bad-change-type cdc.pre-post-unbalanced cdc.location
        cdc.missing-when-enabled cdc.partition-values history.vacuum-short-retention history.concurrent-version-hole
        catalog.txnid-missing catalog.ict-missing""",
    ),
    (_LEFT_TO_VACUUM, "data.orphan data.expired-tombstone-present dv.orphan history.vacuum-start-without-end"),
    (_UNDELETE, "data.file-missing-tombstoned history.time-travel-broken cdc.file-missing cdc.size-mismatch"),
    (
        _FOREIGN,
        """log.name-not-padded log.name-mistaken log.name-unknown log.temp-leftover log.version-too-large
        log.nested-table log.staged-without-feature log.staged-stale log.staged-name sidecar.orphan""",
    ),
    (
        _CLOCK,
        """log.mtime-order log.mtime-future log.mtime-vs-commitinfo ict.missing ict.not-first ict.not-monotone
        ict.enablement-properties ict.enable-before-mtime ict.future""",
    ),
    ("log expire deletes the expired part of a log", "log.cleanup-overdue"),
    ("readers leave out what the file does not have; optimize writes it without its vector", "dv.row-out-of-range"),
    ("manifest writes them again", "data.manifest-stale"),
    ("checkpoint writes one", "log.no-checkpoint-long"),
    (
        "a commit is never edited, and the next checkpoint lets readers begin behind it",
        "commit.lone-surrogate commit.number-not-finite commit.crlf-or-blank commitinfo.not-object",
    ),
    ("optimize compacts small files", "data.small-files partition.cardinality"),
    ("optimize with a purge writes such files again", "data.nan-beyond-bounds data.int96-beyond-nanoseconds"),
    ("the files are outside of the table, in a place that is not read from here", "data.unreachable"),
    ("the files are in another directory than the table, and a repair leaves them alone", "data.shared-file"),
    ("the store restores the files, with its own tools", ARCHIVED_FILES),
    ("the next checkpoint ends it, and every reader opens one that is complete", "checkpoint.several-forms"),
    ("a catalog decides which commits count", "checkpoint.unpublished catalog.diverged catalog.publish-order"),
    ("catalog publish reports the publication", "catalog.staged-missing"),
    ("the feature is not supported here", "checkpoint.amt-classic amt.readable-partially"),
    ("the versions below the protected one cannot be rebuilt from anything else", "checkpoint.protected-missing"),
    ("a file that was overwritten has two contents, and nothing tells which one was meant", "data.modified-after-add"),
    (_TWO_VECTORS, "action.readd-without-remove"),
    (_INCOMPLETE, "action.missing-required"),
    (
        _INTENDED,
        """commit.duplicate-key commit.duplicate-metadata commit.duplicate-protocol commit.duplicate-txn
        commit.duplicate-domain action.add-remove-same-key path.not-unique-over-history""",
    ),
    (_SPELLINGS, "path.same-file-two-spellings"),
    (
        COMMIT_AGAIN,
        """action.wrong-type action.number-spelling domain.configuration-not-string
        action.negative-size
        action.bad-modification-time action.path-empty action.tags-null-value path.bad-encoding path.not-encoded
        path.colon
        path.escapes-root path.not-normalised path.absolute-inside-root
        partition.key-extra partition.empty-string partition.timestamp-zoneless partition.noncanonical
        partition.binary-altered partition.hive-default partition.values-on-unpartitioned
        partition.ntz-date-only dv.inline-with-offset
        dv.absolute-not-absolute dv.offset-zero-vs-null dv.empty dv.random-prefix-dir dv.absolute-in-root
        rowtracking.commit-version rowtracking.base-row-id-changed rowtracking.base-row-id-missing
        rowtracking.high-water-mark rowtracking.high-water-mark-decreased rowtracking.materialised-beyond-mark""",
    ),
    (
        _ENGINE,
        """path.hidden-location path.reserved-name path.case-collision partition.null-in-not-null
        metadata.partition-column-type metadata.partition-column-nested metadata.all-columns-partitioned
        metadata.partitioning-changed mapping.file-without-field-ids mapping.file-with-logical-names
        mapping.file-with-other-names mapping.field-id-mismatch data.codec-unsupported
        data.type-mismatch data.type-widening-unrecorded data.decimal-mismatch data.timestamp-not-utc
        data.timestamp-unit data.void-materialised data.variant-shape data.column-unknown data.required-mismatch
        data.partition-column-missing data.case-mismatch data.partition-column-differs dv.iceberg-conflict
        generated.partition notnull.violated constraint.violated invariant.violated generated.violated
        rowtracking.materialised-duplicate rowtracking.overlap identity.high-water-mark""",
    ),
    (
        _SCHEMA,
        """schema.not-null-tightened schema.new-not-null-column schema.column-dropped-no-mapping
        schema.type-changed-illegally schema.case-only-change schema.bad-json schema.field-missing-key
        schema.unknown-type schema.decimal-bounds schema.char-varchar schema.duplicate-column schema.empty-name
        schema.no-columns
        schema.invalid-chars schema.empty-struct schema.map-key-null schema.void-in-complex schema.metadata-reserved
        schema.collation-of-another
        stats.text-too-long
        mapping.mode-change-illegal mapping.physical-name-changed mapping.id-reused mapping.physical-path-reused
        mapping.max-id-decreased mapping.mode-invalid mapping.mode-without-protocol mapping.id-missing
        mapping.name-missing mapping.id-duplicate mapping.physical-path-duplicate mapping.id-out-of-range
        mapping.max-id-too-small mapping.max-id-missing mapping.stray-annotations mapping.nested-ids
        mapping.compat-physical-name metadata.id-not-guid metadata.id-changed metadata.format-not-parquet
        metadata.created-time metadata.partition-column-unknown metadata.partition-column-duplicate
        constraint.bad-sql invariant.bad-json generated.bad-sql default.bad-sql identity.incomplete identity.step-zero
        identity.type identity.immutable-changed clustering.domain-missing clustering.bad-config
        clustering.partitioned clustering.type variant.partition-or-cluster typewidening.change-not-allowed
        typewidening.bad-entry typewidening.bad-path typewidening.chain-broken typewidening.lost-history
        rowtracking.column-names expression.not-evaluated""",
    ),
    (
        _PROTOCOL,
        """protocol.missing protocol.version-out-of-range protocol.reader3-needs-writer7
        protocol.reader-features-missing protocol.writer-features-missing protocol.features-on-legacy
        protocol.reader-only-feature protocol.rw-feature-not-in-reader protocol.writer-feature-in-reader
        protocol.unknown-feature protocol.preview-feature protocol.dependency protocol.exclusive
        protocol.duplicate-feature protocol.downgrade protocol.legacy-oddity protocol.stray-keys
        feature.used-not-supported feature.property-without-feature feature.supported-not-used domain.without-feature
        dv.feature-missing cdc.without-feature ict.without-feature typewidening.not-supported typewidening.iceberg
        typewidening.ntz-feature typewidening.both-features iceberg.mapping-off iceberg.type-not-allowed
        iceberg.versions-conflict vacuumcheck.old-vacuum""",
    ),
    (
        _PROPERTY,
        """property.unknown-delta-key property.bad-boolean property.bad-number property.bad-interval
        property.interval-portability property.retention-order property.retention-short property.retention-long
        property.legacy-append-only-key property.stats-both-off property.stats-struct-unset property.checkpoint-policy
        property.compression-codec property.parquet-version property.protocol-in-config property.log-cleanup-off
        property.cdf-legacy-key appendonly.violated appendonly.dv-delete rowtracking.suspended-and-enabled
        txn.count-high""",
    ),
)


@cache
def repair_rows() -> Mapping[str, RepairRow]:
    """Return the row of each rule of the catalogue by its id. Raises ValueError for a rule with two rows."""
    found: dict[str, RepairRow] = {}
    for rule, row in _rows():
        if rule in found:
            raise ValueError(f"{rule} has two rows")
        found[rule] = row
    return found


def get_repair_row(rule: str) -> RepairRow:
    """Return the row of a rule; one without steps for a rule outside the catalogue."""
    return repair_rows().get(rule, RepairRow(reason="it is not a fault of the table"))


def reason_without_steps(finding: Finding) -> str:
    """Return why no step repairs what a finding reports: its own fix, if it is not that of other findings."""
    known = CATALOGUE.rules.get(finding.rule.id)
    if known is not None and finding.rule.fix != known.fix:
        return finding.rule.fix.repair
    return get_repair_row(finding.rule.id).reason or "every engine reads it, and a commit is never edited"


def _rows() -> Iterator[tuple[str, RepairRow]]:
    for family, steps, rules in _STEPS:
        yield from ((rule, RepairRow(steps, family)) for rule in rules.split())
    for reason, rules in _NO_STEP:
        yield from ((rule, RepairRow(reason=reason)) for rule in rules.split())
