"""Rules about transaction identifiers and domains. Spec: Transaction Identifiers; Domain Metadata."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.protocol.property_values import TRANSACTION_RETENTION, parse_interval
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.views import CommitView, HistoryView, StateView
from deltacli.units import format_count

AREA = Area("actions", spec="Transaction Identifiers")

MOST_APPLICATIONS = 10_000
SYSTEM_PREFIX = "delta."
SYSTEM_DOMAINS = frozenset({"delta.clustering", "delta.rowTracking"})

VERSION_DECREASE = AREA.info(
    "txn.version-decrease",
    "The transaction version of an application is lower than in an earlier commit, as after a rollback.",
    broken="nothing in the table; without an intended rollback, two writers share an application id",
    repair="no repair needed; give each writer its own application id",
    example='{"txn":{"appId":"stream-1","version":3}} after {"txn":{"appId":"stream-1","version":9}}',
)
LAST_UPDATED_MISSING = AREA.info(
    "txn.last-updated-missing",
    "A transaction has no lastUpdated, but transactions of this table expire. Engines disagree about when it does.",
    broken="one engine drops it at the next checkpoint, another keeps it forever",
    repair="let the application commit again with lastUpdated",
    loss="nothing; if it was dropped, the application may write a batch twice",
    example='{"txn":{"appId":"stream-1","version":3}} with delta.setTransactionRetentionDuration',
)
COUNT_HIGH = AREA.info(
    "txn.count-high",
    "More than 10,000 applications have transactions that do not expire.",
    broken="every snapshot and every checkpoint includes all of them",
    repair="set delta.setTransactionRetentionDuration to more than the longest pause of any stream",
    loss="the progress of applications that paused for longer",
    example="a new appId for each run of a job",
)
SYSTEM_UNKNOWN = AREA.info(
    "domain.system-unknown",
    "A domain has the prefix of system domains, but is not a recognized one.",
    spec="Domain Metadata",
    broken="nothing: writers ignore domains they do not recognize",
    repair="no repair needed; applications should name their domains without `delta.`",
    example='{"domainMetadata":{"domain":"delta.somethingNew","configuration":"{}","removed":false}}',
)
WITHOUT_FEATURE = AREA.error(
    "domain.without-feature",
    "A commit has domainMetadata, but the table does not support that feature.",
    spec="Domain Metadata",
    broken="writers without support for domains lose or overwrite this one",
    repair="add domainMetadata to writerFeatures (writer version 7)",
    example='{"domainMetadata":{…}} with {"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
)
TOMBSTONE_EMPTY = AREA.info(
    "domain.tombstone-empty",
    "A domain is removed without its last configuration.",
    spec="Domain Metadata",
    broken="the history does not show what was removed",
    repair="no repair needed",
    example='{"domainMetadata":{"domain":"app.settings","configuration":"","removed":true}}',
)


@AREA.check(HistoryView, VERSION_DECREASE)
def transactions_that_go_back(view: HistoryView) -> Iterator[Finding]:
    """Track the last version of each application, commit by commit."""
    newest: dict[str, tuple[int, int]] = {}
    for commit in view.commits:
        for placed in commit.others:
            if placed.kind != "txn":
                continue
            app_id, version = placed.action.get("appId"), placed.action.get("version")
            if not isinstance(app_id, str) or type(version) is not int:
                continue
            before, where = newest.get(app_id, (version, commit.version))
            # Two of one application in a commit have no order; `commit.duplicate-txn` reports them.
            if version < before and where < commit.version:
                yield VERSION_DECREASE.at(
                    commit.place(placed.line, app_id),
                    f"the version of application {app_id} decreases from {before} (commit {where}) to {version}",
                    seen=version,
                    expected=f"{before} or more, unless it was rolled back",
                )
            newest[app_id] = (version, commit.version)


@AREA.check(StateView, LAST_UPDATED_MISSING, COUNT_HIGH)
def transactions_that_last(view: StateView) -> Iterator[Finding]:
    """Check the transactions of the newest state."""
    text = view.config.properties.get(TRANSACTION_RETENTION)
    retention_ms = parse_interval(text) if text else None
    if retention_ms is not None:
        for app_id, (_, last_updated) in view.transactions.items():
            if last_updated is None:
                yield LAST_UPDATED_MISSING.at(
                    view.place(app_id),
                    f"the transaction of application {app_id} has no lastUpdated, but {TRANSACTION_RETENTION} is set",
                    expected="lastUpdated in epoch milliseconds",
                )
    oldest = None if retention_ms is None else view.now_ms - retention_ms
    live = sum(oldest is None or updated is None or updated > oldest for _, updated in view.transactions.values())
    if live > MOST_APPLICATIONS:
        message = f"{format_count(live)} applications have transactions that have not expired"
        yield COUNT_HIGH.at(view.place(), message, seen=live, expected=f"at most {MOST_APPLICATIONS}")


@AREA.check(StateView, SYSTEM_UNKNOWN)
def system_domains(view: StateView) -> Iterator[Finding]:
    """Check live domains with the reserved prefix."""
    for domain in view.domains:
        if domain.startswith(SYSTEM_PREFIX) and domain not in SYSTEM_DOMAINS:
            message = f"{domain} has the prefix of system domains, but is not a recognized one"
            yield SYSTEM_UNKNOWN.at(view.place(domain), message, seen=domain)


@AREA.check(CommitView, WITHOUT_FEATURE, TOMBSTONE_EMPTY)
def domains_of_a_commit(view: CommitView) -> Iterator[Finding]:
    """Check that domains have their feature and that removed ones keep their last configuration."""
    for placed in view.of_kind("domainMetadata"):
        domain = placed.action.get("domain")
        key = domain if isinstance(domain, str) else None
        place = view.place(placed.line, key)
        if view.after.protocol is not None and "domainMetadata" not in view.after.features:
            yield WITHOUT_FEATURE.at(
                place,
                f"domain {key or 'without a name'} is set, but the table does not support domainMetadata",
                expected="domainMetadata in writerFeatures",
            )
        if placed.action.get("removed") is True and placed.action.get("configuration") == "":
            message = f"domain {key or 'without a name'} is removed without its last configuration"
            yield TOMBSTONE_EMPTY.at(place, message, expected="the configuration before the removal")
