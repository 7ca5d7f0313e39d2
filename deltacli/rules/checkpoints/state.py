"""Rules about the small actions of a checkpoint (protocol, metadata, transactions and domains) compared with replay."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.units import plural
from deltacli.delta.protocol.property_values import TRANSACTION_RETENTION, parse_interval
from deltacli.delta.protocol.protocol_action import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltacli.rules.checkpoints.contents import small_actions
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import CheckpointView, ExpectedState
from deltacli.rules.log.configuration_differences import metadata_differences, protocol_differences

AREA = Area("checkpoints", spec="Checkpoints")

NO_PROTOCOL = AREA.error(
    "checkpoint.no-protocol",
    "A checkpoint does not have exactly one protocol.",
    broken="readers that start at this checkpoint fail, or do not know whether they can read the table",
    repair="rewrite the checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.parquet without a protocol row",
)

NO_METADATA = AREA.error(
    "checkpoint.no-metadata",
    "A checkpoint does not have exactly one metaData.",
    broken="readers that start at this checkpoint fail: they have no schema, or two",
    repair="rewrite the checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.parquet without a metaData row",
)

FORBIDDEN_ACTION = AREA.warning(
    "checkpoint.forbidden-action",
    "A checkpoint has commitInfo or cdc actions, which are allowed only in commits.",
    broken="readers should ignore them; a strict reader may refuse the checkpoint",
    repair="rewrite the checkpoint",
    example='{"commitInfo":{"operation":"WRITE",…}} in a checkpoint',
)

METADATA_DIFFERS = AREA.error(
    "checkpoint.metadata-differs",
    "The protocol or the metaData of a checkpoint differs from the commits.",
    broken="the schema, the properties or the protocol of the table depend on where a reader starts",
    repair="delete the checkpoint and write a new one while the commits it summarizes still exist",
    example='"partitionColumns":["p"] in the commit, ["q"] in the checkpoint',
)

MISSING_TXN = AREA.error(
    "checkpoint.missing-txn",
    "A checkpoint lacks a transaction identifier that is live according to the commits, or has another version of it.",
    broken="a stream that reads its progress from the table writes batches twice or skips some",
    repair="rewrite the checkpoint while the commits it summarizes still exist",
    example='{"txn":{"appId":"stream-1","version":42}} in a commit, version 41 in the checkpoint',
)

MISSING_DOMAIN = AREA.error(
    "checkpoint.missing-domain",
    "A checkpoint lacks a metadata domain, has another configuration of it, or has one that the commits removed.",
    broken="features that keep their state in domains go wrong: row ids are assigned twice, clustering is lost",
    repair="rewrite the checkpoint while the commits it summarizes still exist",
    example='{"domainMetadata":{"domain":"delta.rowTracking",…}} in a commit and not in the checkpoint',
)

DOMAIN_TOMBSTONE = AREA.info(
    "checkpoint.domain-tombstone",
    "A checkpoint has a removed metadata domain.",
    broken="nothing is read wrongly; the row should be omitted",
    repair="no repair needed; the next checkpoint may omit it",
    example='{"domainMetadata":{"domain":"app.a","configuration":"","removed":true}} in a checkpoint',
)

FEATURES_NULL = AREA.error(
    "checkpoint.features-null",
    "The protocol of a checkpoint lacks a feature list that its versions require, or has one that they do not allow.",
    spec="Checkpoint Schema",
    broken="readers that start at this checkpoint refuse the protocol, or miss the features it requires",
    repair="rewrite the checkpoint",
    example='"minReaderVersion":3 with "readerFeatures":null',
)


@AREA.check(CheckpointView, NO_PROTOCOL, NO_METADATA)
def a_checkpoint_has_one_of_each(view: CheckpointView) -> Iterator[Finding]:
    """Older files cannot replace the missing action once the log is cleaned up."""
    if not view.small_is_whole:
        return
    for kind, rule in (("protocol", NO_PROTOCOL), ("metaData", NO_METADATA)):
        count = len(small_actions(view, kind))
        if count != 1:
            yield rule.at(
                view.place(),
                f"the checkpoint of version {view.version} has {plural(count, f'{kind} action')}",
                seen=count,
                expected=1,
            )


@AREA.check(CheckpointView, FORBIDDEN_ACTION)
def a_checkpoint_has_state_only(view: CheckpointView) -> Iterator[Finding]:
    """Columns for these actions may exist, but rows may not."""
    for kind in ("commitInfo", "cdc"):
        count = view.counts.get(kind, 0)
        if count:
            yield FORBIDDEN_ACTION.at(
                view.place(),
                f"the checkpoint of version {view.version} has {plural(count, f'{kind} action')}",
                seen=count,
                expected=0,
            )


@AREA.check(CheckpointView, FEATURES_NULL)
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


@AREA.check(CheckpointView, METADATA_DIFFERS)
def the_configuration_is_that_of_replay(view: CheckpointView) -> Iterator[Finding]:
    """Other rules report null lists of features, and actions that are missing or occur twice."""
    expected = _comparable(view)
    if expected is None:
        return
    actual, wanted = view.config, expected.config
    if actual.protocol and wanted.protocol and len(small_actions(view, "protocol")) == 1:
        for name in protocol_differences(actual.protocol, wanted.protocol, with_null_lists=False):
            one, other = actual.protocol.as_json(), wanted.protocol.as_json()
            yield _differs(view, "protocol", name, one.get(name), other.get(name))
    if actual.metadata and wanted.metadata and len(small_actions(view, "metaData")) == 1:
        one, other = actual.metadata.as_json(), wanted.metadata.as_json()
        for name in metadata_differences(actual.metadata, wanted.metadata):
            top = name.partition(".")[0]
            yield _differs(view, "metaData", name, one.get(top), other.get(top))


@AREA.check(CheckpointView, MISSING_TXN)
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
                yield MISSING_TXN.at(
                    view.place(key=application),
                    f"the checkpoint of version {view.version} lacks the transaction of {application}",
                    seen="none",
                    expected=version,
                )
        elif actual[application] != version:
            yield MISSING_TXN.at(
                view.place(key=application),
                f"the checkpoint of version {view.version} has a different transaction of {application} than the "
                "commits",
                seen=actual[application],
                expected=version,
            )


@AREA.check(CheckpointView, MISSING_DOMAIN)
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
        yield MISSING_DOMAIN.at(
            view.place(key=domain), message, seen=actual.get(domain, "none"), expected=configuration
        )
    for extra in actual.keys() - expected.domains.keys():
        yield MISSING_DOMAIN.at(
            view.place(key=str(extra)),
            f"the checkpoint of version {view.version} has the domain {extra}, which the commits do not have",
            seen=actual[extra],
            expected="none",
        )


@AREA.check(CheckpointView, DOMAIN_TOMBSTONE)
def removed_domains_are_left_out(view: CheckpointView) -> Iterator[Finding]:
    """Kernel Java keeps removed domains."""
    for row in small_actions(view, "domainMetadata"):
        if row.get("removed") is True:
            yield DOMAIN_TOMBSTONE.at(
                view.place(key=str(row.get("domain"))),
                f"the checkpoint of version {view.version} has the removed domain {row.get('domain')}",
                seen="removed: true",
                expected="no row",
            )


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
