"""Rules about the rows of a checkpoint: that they are readable, and its small actions against replay.

The reader of the columns reports them.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.units import plural
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import SIDECAR_DIRECTORY
from deltacli.delta.log.state import (
    TRANSACTION_RETENTION,
    find_metadata_differences,
    find_protocol_differences,
    parse_interval,
)
from deltacli.delta.protocol.features import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import CheckpointView, ExpectedState, ListingView

# -- rules about the rows of a checkpoint that can only be checked while reading its columns ---------------------------

AREA = Area("checkpoints", spec="Checkpoints")

UNREADABLE = AREA.error(
    "checkpoint.unreadable",
    "A file of a checkpoint cannot be read because its footer, a page or a line is damaged.",
    broken="an engine that opens this checkpoint fails, or falls back to an older one",
    repair="delete the damaged file if the older part of the log is complete, then write a new checkpoint",
    loss="nothing, as long as the commits, or an older checkpoint and the commits after it, exist",
    example="00000000000000000010.checkpoint.parquet ends in the middle of a page",
)

DUPLICATE_KEY = AREA.error(
    "checkpoint.duplicate-key",
    "A checkpoint has the same logical file twice: two adds, two removes, or an add and a remove.",
    spec="Action Reconciliation",
    broken="readers use checkpoint rows as they are: the rows of the file count twice, or a removed file is live",
    repair="rewrite the checkpoint",
    example='{"add":{"path":"part-0.parquet",…}} in two rows of 00000000000000000010.checkpoint.parquet',
)

MULTI_ACTION_ROW = AREA.error(
    "checkpoint.multi-action-row",
    "A row of a checkpoint has no action, or more than one.",
    broken="readers take one action of such a row and lose the others",
    repair="rewrite the checkpoint",
    example='a row with both "add" and "txn" not null',
)

MISSING_ADD = AREA.error(
    "checkpoint.missing-add",
    "A checkpoint lacks a file that is live according to the commits.",
    broken="readers that start at this checkpoint do not see the rows of the file",
    repair="delete the checkpoint and write a new one while the commits it summarizes still exist",
    example="part-1.parquet, added in version 4, is not in 00000000000000000010.checkpoint.parquet",
)

EXTRA_ADD = AREA.error(
    "checkpoint.extra-add",
    "A checkpoint has a live file that is not live according to the commits.",
    broken="readers that start at this checkpoint see deleted rows, or fail on a missing file",
    repair="delete the checkpoint and write a new one while the commits it summarizes still exist",
    example="part-1.parquet, removed in version 4, is an add in 00000000000000000010.checkpoint.parquet",
)

ADD_DIFFERS = AREA.error(
    "checkpoint.add-differs",
    "The values of a live file in a checkpoint differ from those in the log.",
    broken="the partition, size and statistics of the file depend on where a reader starts",
    repair="rewrite the checkpoint",
    example='"partitionValues":{"p":"a"} in the commit, {"p":"b"} in the checkpoint',
)

MISSING_TOMBSTONE = AREA.warning(
    "checkpoint.missing-tombstone",
    "A checkpoint lacks a remove that had not expired when the checkpoint was written.",
    spec="Add File and Remove File",
    broken="vacuum may delete the removed file before its retention ends, while readers of older versions need it",
    repair="delete the checkpoint and write a new one while the commits exist; do not run vacuum before",
    loss="nothing, if vacuum did not run",
    example="a remove of two hours ago that 00000000000000000010.checkpoint.parquet does not hold",
)

PARSED_PARTITION_DIFFERS = AREA.error(
    "checkpoint.parsed-partition-differs",
    "`partitionValues_parsed` differs from the map `partitionValues`.",
    broken="engines that prune by the parsed column skip files that hold matching rows",
    repair="rewrite the checkpoint",
    example='partitionValues {"year":"2024"} with partitionValues_parsed {"year":2023}',
)

PARSED_STATS_DIFFERS = AREA.error(
    "checkpoint.parsed-stats-differs",
    "`stats_parsed` differs from the JSON text in `stats`.",
    broken="engines that use one of the two skip files with matching rows, or count rows differently",
    repair="rewrite the checkpoint",
    example='stats {"numRecords":10} with stats_parsed {"numRecords":9}',
)

STATS_IN_CHECKPOINTED_REMOVE = AREA.info(
    "action.stats-in-checkpointed-remove",
    "A remove in a checkpoint has `stats` or `tags`, which writers should omit there.",
    broken="the checkpoint is larger than necessary; nothing is read wrongly",
    repair="no repair needed; the next checkpoint may omit them",
    example='{"remove":{"path":"part-0.parquet","stats":"{…}",…}} in a checkpoint',
)


def is_in_force(view: ListingView, feature: str, version: int) -> bool:
    """Return True if the table certainly supported the feature when a file of that version was written, because the
    protocol that names it is not newer.
    """
    return feature in view.config.features and version >= view.config.protocol_version


def is_sidecar(path: str) -> bool:
    """Return True for a file of `_delta_log/_sidecars`."""
    return f"{SIDECAR_DIRECTORY}/" in path


def small_actions(view: CheckpointView, kind: str) -> list[Action]:
    """Return the rows of a kind in the checkpoint's own files, without those in sidecars."""
    return [row for each, row, file in view.small if each == kind and not is_sidecar(file)]


# -- rules about the small actions of a checkpoint ---------------------------------------------------------------------

STATE_AREA = Area("checkpoints", spec="Checkpoints")

NO_PROTOCOL = STATE_AREA.error(
    "checkpoint.no-protocol",
    "A checkpoint does not have exactly one protocol.",
    broken="readers that start at this checkpoint fail, or do not know whether they can read the table",
    repair="rewrite the checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.parquet without a protocol row",
)

NO_METADATA = STATE_AREA.error(
    "checkpoint.no-metadata",
    "A checkpoint does not have exactly one metaData.",
    broken="readers that start at this checkpoint fail: they have no schema, or two",
    repair="rewrite the checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.parquet without a metaData row",
)

FORBIDDEN_ACTION = STATE_AREA.warning(
    "checkpoint.forbidden-action",
    "A checkpoint has commitInfo or cdc actions, which are allowed only in commits.",
    broken="readers should ignore them; a strict reader may refuse the checkpoint",
    repair="rewrite the checkpoint",
    example='{"commitInfo":{"operation":"WRITE",…}} in a checkpoint',
)

METADATA_DIFFERS = STATE_AREA.error(
    "checkpoint.metadata-differs",
    "The protocol or the metaData of a checkpoint differs from the commits.",
    broken="the schema, the properties or the protocol of the table depend on where a reader starts",
    repair="delete the checkpoint and write a new one while the commits it summarizes still exist",
    example='"partitionColumns":["p"] in the commit, ["q"] in the checkpoint',
)

MISSING_TXN = STATE_AREA.error(
    "checkpoint.missing-txn",
    "A checkpoint lacks a transaction identifier that is live according to the commits, or has another version of it.",
    broken="a stream that reads its progress from the table writes batches twice or skips some",
    repair="rewrite the checkpoint while the commits it summarizes still exist",
    example='{"txn":{"appId":"stream-1","version":42}} in a commit, version 41 in the checkpoint',
)

MISSING_DOMAIN = STATE_AREA.error(
    "checkpoint.missing-domain",
    "A checkpoint lacks a metadata domain, has another configuration of it, or has one that the commits removed.",
    broken="features that keep their state in domains go wrong: row ids are assigned twice, clustering is lost",
    repair="rewrite the checkpoint while the commits it summarizes still exist",
    example='{"domainMetadata":{"domain":"delta.rowTracking",…}} in a commit and not in the checkpoint',
)

DOMAIN_TOMBSTONE = STATE_AREA.info(
    "checkpoint.domain-tombstone",
    "A checkpoint has a removed metadata domain.",
    broken="nothing is read wrongly; the row should be omitted",
    repair="no repair needed; the next checkpoint may omit it",
    example='{"domainMetadata":{"domain":"app.a","configuration":"","removed":true}} in a checkpoint',
)

FEATURES_NULL = STATE_AREA.error(
    "checkpoint.features-null",
    "The protocol of a checkpoint lacks a feature list that its versions require, or has one that they do not allow.",
    spec="Checkpoint Schema",
    broken="readers that start at this checkpoint refuse the protocol, or miss the features it requires",
    repair="rewrite the checkpoint",
    example='"minReaderVersion":3 with "readerFeatures":null',
)


@STATE_AREA.check(CheckpointView, NO_PROTOCOL, NO_METADATA)
def a_checkpoint_has_one_of_each(view: CheckpointView) -> Iterator[Finding]:
    """Older files cannot replace the missing action once the log is cleaned up."""
    if not view.small_is_whole:
        return
    for kind, rule in (("protocol", NO_PROTOCOL), ("metaData", NO_METADATA)):
        count = len(small_actions(view, kind))
        if count != 1:
            message = f"the checkpoint of version {view.version} has {plural(count, f'{kind} action')}"
            yield rule.at(view.place(), message, seen=count, expected=1)


@STATE_AREA.check(CheckpointView, FORBIDDEN_ACTION)
def a_checkpoint_has_state_only(view: CheckpointView) -> Iterator[Finding]:
    """Columns for these actions may exist, but rows may not."""
    for kind in ("commitInfo", "cdc"):
        count = view.counts.get(kind, 0)
        if count:
            message = f"the checkpoint of version {view.version} has {plural(count, f'{kind} action')}"
            yield FORBIDDEN_ACTION.at(view.place(), message, seen=count, expected=0)


@STATE_AREA.check(CheckpointView, FEATURES_NULL)
def feature_lists_fit_the_versions(view: CheckpointView) -> Iterator[Finding]:
    """Judged by the row: the columns of lists may exist, but must be null for versions without features."""
    rows = small_actions(view, "protocol")
    if len(rows) != 1:
        return
    for version, features, first in (
        ("minReaderVersion", "readerFeatures", READER_FEATURES_VERSION),
        ("minWriterVersion", "writerFeatures", WRITER_FEATURES_VERSION),
    ):
        number, names = rows[0].get(version), rows[0].get(features)
        if type(number) is not int or (names is not None) is (number >= first):
            continue
        yield FEATURES_NULL.at(
            view.place(key=features),
            f"{features} of the protocol in the checkpoint is {'null' if names is None else 'not null'} "
            f"with {version} {number}",
            seen="null" if names is None else names,
            expected="a list" if names is None else "null",
        )


@STATE_AREA.check(CheckpointView, METADATA_DIFFERS)
def the_configuration_is_that_of_replay(view: CheckpointView) -> Iterator[Finding]:
    """Other rules report null lists of features, and actions that are missing or occur twice."""
    expected = _comparable(view)
    if expected is None:
        return
    actual, wanted = view.config, expected.config
    if actual.protocol and wanted.protocol and len(small_actions(view, "protocol")) == 1:
        for name in find_protocol_differences(actual.protocol, wanted.protocol, with_null_lists=False):
            one, other = actual.protocol.as_json(), wanted.protocol.as_json()
            yield _differs(view, "protocol", name, one.get(name), other.get(name))
    if actual.metadata and wanted.metadata and len(small_actions(view, "metaData")) == 1:
        one, other = actual.metadata.as_json(), wanted.metadata.as_json()
        for name in find_metadata_differences(actual.metadata, wanted.metadata):
            top = name.partition(".")[0]
            yield _differs(view, "metaData", name, one.get(top), other.get(top))


@STATE_AREA.check(CheckpointView, MISSING_TXN)
def transactions_are_those_of_replay(view: CheckpointView) -> Iterator[Finding]:
    """An expired transaction may be missing. A transaction that replay does not find is not a fault, because it may
    have expired at an older checkpoint where replay starts. Spec: Checkpoints; Transaction Identifiers.
    """
    expected = _comparable(view)
    if expected is None:
        return
    actual = {row.get("appId"): row.get("version") for row in small_actions(view, "txn")}
    for application, (version, updated) in expected.transactions.items():
        if application not in actual:
            if not _may_have_expired(view, updated):
                message = f"the checkpoint of version {view.version} lacks the transaction of {application}"
                yield MISSING_TXN.at(view.place(key=application), message, seen="none", expected=version)
        elif actual[application] != version:
            message = (
                f"the checkpoint of version {view.version} has a different transaction of {application} than the "
                "commits"
            )
            yield MISSING_TXN.at(view.place(key=application), message, seen=actual[application], expected=version)


@STATE_AREA.check(CheckpointView, MISSING_DOMAIN)
def domains_are_those_of_replay(view: CheckpointView) -> Iterator[Finding]:
    """A removed domain may be missing or marked as removed. Spec: Checkpoints; Domain Metadata."""
    expected = _comparable(view)
    if expected is None:
        return
    rows = small_actions(view, "domainMetadata")
    actual = {row.get("domain"): row.get("configuration") or "" for row in rows if row.get("removed") is not True}
    for domain, configuration in expected.domains.items():
        if domain not in actual:
            message = f"the checkpoint of version {view.version} lacks the domain {domain}"
        elif actual[domain] != configuration:
            message = (
                f"the checkpoint of version {view.version} has a different configuration of the domain {domain} than "
                "the commits"
            )
        else:
            continue
        place = view.place(key=domain)
        yield MISSING_DOMAIN.at(place, message, seen=actual.get(domain, "none"), expected=configuration)
    for extra in actual.keys() - expected.domains.keys():
        message = f"the checkpoint of version {view.version} has the domain {extra}, which the commits do not have"
        yield MISSING_DOMAIN.at(view.place(key=str(extra)), message, seen=actual[extra], expected="none")


@STATE_AREA.check(CheckpointView, DOMAIN_TOMBSTONE)
def removed_domains_are_left_out(view: CheckpointView) -> Iterator[Finding]:
    """Kernel Java keeps removed domains."""
    for row in small_actions(view, "domainMetadata"):
        if row.get("removed") is True:
            message = f"the checkpoint of version {view.version} has the removed domain {row.get('domain')}"
            place = view.place(key=str(row.get("domain")))
            yield DOMAIN_TOMBSTONE.at(place, message, seen="removed: true", expected="no row")


def _comparable(view: CheckpointView) -> ExpectedState | None:
    """Return the replayed state of the version, if everything up to it could be read, and the checkpoint itself."""
    return view.expected if view.small_is_whole else None


def _may_have_expired(view: CheckpointView, updated_ms: int | None) -> bool:
    """Return True if a writer of this checkpoint may have omitted a transaction because it expired or has no time. A
    checkpoint is never older than the clock used to decide, so its file time is the most lenient one.
    """
    text = view.expected.config.properties.get(TRANSACTION_RETENTION) if view.expected else None
    retention_ms = parse_interval(text) if text else None
    if retention_ms is None:
        return text is not None
    return updated_ms is None or updated_ms <= view.modified_ms - retention_ms


def _differs(view: CheckpointView, kind: str, name: str, actual: object, expected: object) -> Finding:
    return METADATA_DIFFERS.at(
        view.place(key=name),
        f"{name} of the {kind} in the checkpoint of version {view.version} differs from the commits",
        seen="none" if actual is None else actual,
        expected="none" if expected is None else expected,
    )
