"""Rules about the contents of a whole commit: which actions, how many of each, and its provenance.

Spec: Actions; Action Reconciliation; Commit Provenance Information.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from deltacli.delta.log.commit_lines import KNOWN_ACTIONS, json_type
from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Rule, Severity
from deltacli.delta.rules.framework.views import CommitView, LocatedAction
from deltacli.units import format_count, format_size

AREA = Area("actions")

MOST_BYTES = 1_000_000_000
MOST_ACTIONS = 1_000_000

_IGNORED = Fix(broken="nothing: readers ignore it", repair="no repair needed", loss="nothing")

CHECKPOINT_ONLY_ACTION = AREA.rule(
    "commit.checkpoint-only-action",
    Severity.ERROR,
    Level.LOG,
    "A commit has an action that is allowed only in checkpoints.",
    spec="Action Reconciliation",
    fix=Fix(
        broken="the writer treated a commit as a checkpoint; files that only the sidecar names are not in the table",
        repair="no repair of the log needed; readers ignore the action",
        loss="nothing, unless the writer intended to add the files of the sidecar",
    ),
    example='{"sidecar":{"path":"3a0d65cd.parquet","sizeInBytes":2304512,"modificationTime":1512909768000}}',
)
DUPLICATE_METADATA = AREA.rule(
    "commit.duplicate-metadata",
    Severity.ERROR,
    Level.LOG,
    "A commit has more than one metaData action.",
    seed="000: Change Metadata",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="readers disagree about which schema and properties apply from this version on",
        repair="commit the intended metaData once",
        loss="nothing",
    ),
    example='two lines {"metaData":{…}} in 00000000000000000003.json',
)
DUPLICATE_PROTOCOL = AREA.rule(
    "commit.duplicate-protocol",
    Severity.ERROR,
    Level.LOG,
    "A commit has more than one protocol action.",
    seed="000: Delta Log Entries",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="readers disagree about which protocol applies from this version on",
        repair="commit the intended protocol once",
        loss="nothing",
    ),
    example='two lines {"protocol":{…}} in 00000000000000000003.json',
)
DUPLICATE_TXN = AREA.rule(
    "commit.duplicate-txn",
    Severity.ERROR,
    Level.LOG,
    "A commit has more than one txn action of the same application.",
    seed="000: Delta Log Entries",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="readers disagree about the progress of the application; a batch may be written twice or skipped",
        repair="let the application commit its correct version",
        loss="nothing",
    ),
    example='{"txn":{"appId":"stream-1","version":7}} and {"txn":{"appId":"stream-1","version":8}} in one commit',
)
DUPLICATE_DOMAIN = AREA.rule(
    "commit.duplicate-domain",
    Severity.ERROR,
    Level.LOG,
    "A commit has more than one domainMetadata action of the same domain.",
    spec="Domain Metadata",
    fix=Fix(
        broken="readers disagree about the configuration of the domain",
        repair="commit the intended domainMetadata once",
        loss="nothing",
    ),
    example='two lines {"domainMetadata":{"domain":"app.settings",…}} in one commit',
)
FIRST_WITHOUT_PROTOCOL = AREA.rule(
    "commit.first-without-protocol",
    Severity.ERROR,
    Level.LOG,
    "Version 0 has no protocol action.",
    seed="000: Protocol Evolution",
    spec="Action Reconciliation",
    fix=Fix(
        broken="versions before the first protocol cannot be read, and some engines refuse the whole table",
        repair="commit a protocol action if no later commit has one",
        loss="time travel to the versions before it",
    ),
    example='00000000000000000000.json with {"metaData":{…}} and no {"protocol":{…}}',
)
FIRST_WITHOUT_METADATA = AREA.rule(
    "commit.first-without-metadata",
    Severity.ERROR,
    Level.LOG,
    "Version 0 has no metaData action.",
    seed="000: Change Metadata",
    spec="Change Metadata",
    fix=Fix(
        broken="versions before the first metaData have no schema, and some engines refuse the whole table",
        repair="commit a metaData action if no later commit has one",
        loss="time travel to the versions before it",
    ),
    example='00000000000000000000.json with {"protocol":{…}} and no {"metaData":{…}}',
)
UNKNOWN_ACTION = AREA.rule(
    "commit.unknown-action",
    Severity.INFO,
    Level.LOG,
    "A commit has an action that the protocol does not define. Readers ignore it.",
    seed="000: Protocol Evolution",
    spec="Protocol Evolution",
    fix=_IGNORED,
    example='{"futureAction":{"a":1}}',
)
HUGE = AREA.rule(
    "commit.huge",
    Severity.INFO,
    Level.LOG,
    "A commit is larger than 1 GB or has more than a million actions.",
    spec="Delta Log Entries",
    fix=Fix(
        broken="readers hold a commit in memory; those with little memory fail until a checkpoint covers it",
        repair="write a checkpoint; split such writes into several commits",
        loss="nothing",
    ),
    example="00000000000000000007.json of 3.1 GiB",
)
INFO_MISSING = AREA.rule(
    "commitinfo.missing",
    Severity.INFO,
    Level.LOG,
    "A commit has no commitInfo.",
    seed="000: Commit Provenance Information",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="the history does not show who wrote the version, when, and how",
        repair="no repair needed; writers should add commitInfo",
        loss="nothing",
    ),
    example='00000000000000000003.json with only {"add":{…}}',
)
INFO_SEVERAL = AREA.rule(
    "commitinfo.several",
    Severity.WARNING,
    Level.LOG,
    "A commit has more than one commitInfo.",
    seed="000: Commit Provenance Information",
    spec="Action Reconciliation",
    fix=Fix(
        broken="engines differ in which one they show",
        repair="no repair needed; the commit is left unchanged",
        loss="nothing",
    ),
    example='two lines {"commitInfo":{…}} in one commit',
)
INFO_NOT_OBJECT = AREA.rule(
    "commitinfo.not-object",
    Severity.WARNING,
    Level.LOG,
    "A commitInfo is not an object.",
    seed="000: Commit Provenance Information",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="engines that expect fields fail on the commit or show none of its information",
        repair="no repair needed; the commit is left unchanged",
        loss="nothing",
    ),
    example='{"commitInfo":"WRITE"}',
)


@AREA.check(CommitView, DUPLICATE_METADATA, DUPLICATE_PROTOCOL, DUPLICATE_TXN, DUPLICATE_DOMAIN)
def actions_that_reconcile_with_each_other(view: CommitView) -> Iterator[Finding]:
    """The order within a commit is undefined, so which of two actions with the same key applies is undefined."""
    by_key: defaultdict[tuple[str, str], list[LocatedAction]] = defaultdict(list)
    for placed in view.others:
        row = _KEYED.get(placed.kind)
        if row is None:
            continue
        key = placed.action.get(row[1]) if row[1] else ""
        if isinstance(key, str):
            by_key[placed.kind, key].append(placed)
    for (kind, key), found in by_key.items():
        if len(found) > 1:
            of_key = f" of {key}" if key else ""
            lines = ", ".join(str(placed.line) for placed in found[:5])
            yield _KEYED[kind][0].at(
                view.place(found[1].line, key or None),
                f"the commit has {len(found)} {kind} actions{of_key} (lines {lines}); which one applies is undefined",
                seen=len(found),
                expected="at most 1",
            )


_KEYED: dict[str, tuple[Rule, str]] = {
    "metaData": (DUPLICATE_METADATA, ""),
    "protocol": (DUPLICATE_PROTOCOL, ""),
    "txn": (DUPLICATE_TXN, "appId"),
    "domainMetadata": (DUPLICATE_DOMAIN, "domain"),
}


@AREA.check(CommitView, CHECKPOINT_ONLY_ACTION, UNKNOWN_ACTION)
def actions_that_do_not_belong_here(view: CommitView) -> Iterator[Finding]:
    """Return the kinds of actions that a commit should not have, each with the first line that has it."""
    seen: dict[str, list[int]] = {}
    for placed in view.others:
        if placed.kind not in KNOWN_ACTIONS or placed.kind in ("sidecar", "checkpointMetadata"):
            seen.setdefault(placed.kind, []).append(placed.line)
    for kind, lines in seen.items():
        name = kind[:80]
        times = "" if len(lines) == 1 else f" ({len(lines)} times)"
        if kind in KNOWN_ACTIONS:
            message = f"the commit has {name}{times}, an action allowed only in checkpoints; readers ignore it"
            yield CHECKPOINT_ONLY_ACTION.at(view.place(lines[0], name), message, seen=name)
        else:
            message = f"the commit has {name}{times}, an action that the protocol does not define; readers ignore it"
            yield UNKNOWN_ACTION.at(view.place(lines[0], name), message, seen=name)


@AREA.check(CommitView, FIRST_WITHOUT_PROTOCOL, FIRST_WITHOUT_METADATA)
def the_first_version_is_complete(view: CommitView) -> Iterator[Finding]:
    """Check that version 0 has a protocol and a metaData action."""
    if view.version != 0 or not view.is_readable:
        return
    if not view.of_kind("protocol") and view.after.raw_protocol is None:
        message = "version 0 has no protocol, so it is unknown which readers can open it"
        yield FIRST_WITHOUT_PROTOCOL.at(view.place(), message, expected="one protocol action")
    if not view.of_kind("metaData") and view.after.raw_metadata is None:
        message = "version 0 has no metaData, so it has no schema and no id"
        yield FIRST_WITHOUT_METADATA.at(view.place(), message, expected="one metaData action")


@AREA.check(CommitView, HUGE)
def commits_too_large_to_hold(view: CommitView) -> Iterator[Finding]:
    """Report commits on which readers with little memory fail."""
    actions = len(view.others) + len(view.adds) + len(view.removes)
    if view.size_bytes > MOST_BYTES:
        yield HUGE.at(
            view.place(),
            f"the size of the commit is {format_size(view.size_bytes)}",
            seen=f"{view.size_bytes} bytes",
            expected=f"at most {MOST_BYTES} bytes",
        )
    elif actions > MOST_ACTIONS:
        yield HUGE.at(
            view.place(),
            f"the commit has {format_count(actions)} actions",
            seen=actions,
            expected=f"at most {MOST_ACTIONS}",
        )


@AREA.check(CommitView, INFO_MISSING, INFO_SEVERAL, INFO_NOT_OBJECT)
def provenance(view: CommitView) -> Iterator[Finding]:
    """Check that each commit has one commitInfo, which is an object. `ict.missing` covers in-commit timestamps."""
    found = view.of_kind("commitInfo")
    if not found and view.is_readable and not view.after.has_ict:
        tracks_rows = "rowTracking" in view.after.features and view.after.is_on("delta.enableRowTracking")
        message = "the commit has no commitInfo, so its author, time and operation are unknown"
        if tracks_rows:
            message = "the commit has no commitInfo, so it is unknown whether it preserved the row ids of moved rows"
        severity = Severity.WARNING if tracks_rows else None
        yield INFO_MISSING.at(view.place(), message, expected="one commitInfo", severity=severity)
    if len(found) > 1:
        lines = ", ".join(str(placed.line) for placed in found[:5])
        message = f"the commit has {len(found)} commitInfo actions (lines {lines})"
        yield INFO_SEVERAL.at(view.place(found[1].line), message, seen=len(found), expected="at most 1")
    for placed in found:
        if "" in placed.action:  # how the line reader represents a value that is not an object
            seen = placed.action[""]
            yield INFO_NOT_OBJECT.at(
                view.place(placed.line),
                f"commitInfo is {_named(seen)}, expected an object",
                seen=_named(seen),
                expected="an object",
            )


def _named(value: object) -> str:
    return "an object with an empty key" if isinstance(value, dict) else json_type(value)
