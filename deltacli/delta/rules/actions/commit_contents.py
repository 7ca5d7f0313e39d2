"""Rules about what a commit may hold as a whole: which actions, how many of each, and its provenance.

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

_IGNORED = Fix(broken="nothing: readers pass over it", mend="nothing to mend", loss="nothing")

CHECKPOINT_ONLY_ACTION = AREA.rule(
    "commit.checkpoint-only-action",
    Severity.ERROR,
    Level.LOG,
    "A commit holds an action that belongs into checkpoints alone.",
    spec="Action Reconciliation",
    fix=Fix(
        broken="the writer took a commit for a checkpoint; files that only the sidecar names are not in the table",
        mend="nothing to mend in the log; readers ignore the action",
        loss="nothing, unless the writer meant the files of the sidecar to be added",
    ),
    example='{"sidecar":{"path":"3a0d65cd.parquet","sizeInBytes":2304512,"modificationTime":1512909768000}}',
)
DUPLICATE_METADATA = AREA.rule(
    "commit.duplicate-metadata",
    Severity.ERROR,
    Level.LOG,
    "A commit holds more than one metaData action.",
    seed="000: Change Metadata",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="which schema and properties hold from this version on is up to the reader",
        mend="commit the metaData that is meant, once",
        loss="nothing",
    ),
    example='two lines {"metaData":{…}} in 00000000000000000003.json',
)
DUPLICATE_PROTOCOL = AREA.rule(
    "commit.duplicate-protocol",
    Severity.ERROR,
    Level.LOG,
    "A commit holds more than one protocol action.",
    seed="000: Delta Log Entries",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="which protocol holds from this version on is up to the reader",
        mend="commit the protocol that is meant, once",
        loss="nothing",
    ),
    example='two lines {"protocol":{…}} in 00000000000000000003.json',
)
DUPLICATE_TXN = AREA.rule(
    "commit.duplicate-txn",
    Severity.ERROR,
    Level.LOG,
    "A commit holds more than one txn action of an application.",
    seed="000: Delta Log Entries",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="how far the application has got is up to the reader: a batch may be written twice, or left out",
        mend="let the application commit its true version",
        loss="nothing",
    ),
    example='{"txn":{"appId":"stream-1","version":7}} and {"txn":{"appId":"stream-1","version":8}} in one commit',
)
DUPLICATE_DOMAIN = AREA.rule(
    "commit.duplicate-domain",
    Severity.ERROR,
    Level.LOG,
    "A commit holds more than one domainMetadata action of a domain.",
    spec="Domain Metadata",
    fix=Fix(
        broken="which configuration of the domain holds is up to the reader",
        mend="commit the domainMetadata that is meant, once",
        loss="nothing",
    ),
    example='two lines {"domainMetadata":{"domain":"app.settings",…}} in one commit',
)
FIRST_WITHOUT_PROTOCOL = AREA.rule(
    "commit.first-without-protocol",
    Severity.ERROR,
    Level.LOG,
    "Version 0 holds no protocol.",
    seed="000: Protocol Evolution",
    spec="Action Reconciliation",
    fix=Fix(
        broken="versions before the first protocol can't be read, and some engines refuse the whole table",
        mend="commit a protocol action, if none of the later commits holds one",
        loss="time travel to the versions before it",
    ),
    example='00000000000000000000.json with {"metaData":{…}} and no {"protocol":{…}}',
)
FIRST_WITHOUT_METADATA = AREA.rule(
    "commit.first-without-metadata",
    Severity.ERROR,
    Level.LOG,
    "Version 0 holds no metaData.",
    seed="000: Change Metadata",
    spec="Change Metadata",
    fix=Fix(
        broken="versions before the first metaData have no schema, and some engines refuse the whole table",
        mend="commit a metaData action, if none of the later commits holds one",
        loss="time travel to the versions before it",
    ),
    example='00000000000000000000.json with {"protocol":{…}} and no {"metaData":{…}}',
)
UNKNOWN_ACTION = AREA.rule(
    "commit.unknown-action",
    Severity.INFO,
    Level.LOG,
    "A commit holds an action that the protocol does not name; readers ignore it.",
    seed="000: Protocol Evolution",
    spec="Protocol Evolution",
    fix=_IGNORED,
    example='{"futureAction":{"a":1}}',
)
HUGE = AREA.rule(
    "commit.huge",
    Severity.INFO,
    Level.LOG,
    "A commit is larger than 1 GB, or holds more than a million actions.",
    spec="Delta Log Entries",
    fix=Fix(
        broken="readers hold a commit in memory; small ones fail on it until a checkpoint covers it",
        mend="write a checkpoint; split such writes into several commits",
        loss="nothing",
    ),
    example="00000000000000000007.json of 3.1 GiB",
)
INFO_MISSING = AREA.rule(
    "commitinfo.missing",
    Severity.INFO,
    Level.LOG,
    "A commit holds no commitInfo.",
    seed="000: Commit Provenance Information",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="history can't say who wrote the version, when, and how",
        mend="nothing to mend; writers should add one",
        loss="nothing",
    ),
    example='00000000000000000003.json with {"add":{…}} alone',
)
INFO_SEVERAL = AREA.rule(
    "commitinfo.several",
    Severity.WARNING,
    Level.LOG,
    "A commit holds more than one commitInfo.",
    seed="000: Commit Provenance Information",
    spec="Action Reconciliation",
    fix=Fix(
        broken="engines differ in which of them they show",
        mend="nothing to mend; the commit stays as it is",
        loss="nothing",
    ),
    example='two lines {"commitInfo":{…}} in one commit',
)
INFO_NOT_OBJECT = AREA.rule(
    "commitinfo.not-object",
    Severity.WARNING,
    Level.LOG,
    "A commitInfo is no object.",
    seed="000: Commit Provenance Information",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="engines that expect fields fail on the commit, or show nothing of it",
        mend="nothing to mend; the commit stays as it is",
        loss="nothing",
    ),
    example='{"commitInfo":"WRITE"}',
)


@AREA.check(CommitView, DUPLICATE_METADATA, DUPLICATE_PROTOCOL, DUPLICATE_TXN, DUPLICATE_DOMAIN)
def actions_that_reconcile_with_each_other(view: CommitView) -> Iterator[Finding]:
    """The order within a commit is undefined: of two actions with one key nobody can say which counts."""
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
                f"the commit holds {len(found)} {kind} actions{of_key} (lines {lines}); which one counts is undefined",
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
    """Kinds of actions that a commit should not hold, each once with the first line that holds it."""
    seen: dict[str, list[int]] = {}
    for placed in view.others:
        if placed.kind not in KNOWN_ACTIONS or placed.kind in ("sidecar", "checkpointMetadata"):
            seen.setdefault(placed.kind, []).append(placed.line)
    for kind, lines in seen.items():
        name = kind[:80]
        times = "" if len(lines) == 1 else f" ({len(lines)} times)"
        if kind in KNOWN_ACTIONS:
            message = f"the commit holds {name}{times}, an action for checkpoints alone; readers ignore it"
            yield CHECKPOINT_ONLY_ACTION.at(view.place(lines[0], name), message, seen=name)
        else:
            message = f"the commit holds {name}{times}, an action that the protocol does not name; readers ignore it"
            yield UNKNOWN_ACTION.at(view.place(lines[0], name), message, seen=name)


@AREA.check(CommitView, FIRST_WITHOUT_PROTOCOL, FIRST_WITHOUT_METADATA)
def the_first_version_is_complete(view: CommitView) -> Iterator[Finding]:
    """A table begins with its protocol and its metadata."""
    if view.version != 0 or not view.is_readable:
        return
    if not view.of_kind("protocol") and view.after.raw_protocol is None:
        message = "version 0 holds no protocol: which readers may open it is not known"
        yield FIRST_WITHOUT_PROTOCOL.at(view.place(), message, expected="one protocol action")
    if not view.of_kind("metaData") and view.after.raw_metadata is None:
        message = "version 0 holds no metaData: it has no schema and no id"
        yield FIRST_WITHOUT_METADATA.at(view.place(), message, expected="one metaData action")


@AREA.check(CommitView, HUGE)
def commits_too_large_to_hold(view: CommitView) -> Iterator[Finding]:
    """Commits that readers with little memory fail on."""
    actions = len(view.others) + len(view.adds) + len(view.removes)
    if view.size_bytes > MOST_BYTES:
        yield HUGE.at(
            view.place(),
            f"the commit is {format_size(view.size_bytes)} large",
            seen=f"{view.size_bytes} bytes",
            expected=f"at most {MOST_BYTES} bytes",
        )
    elif actions > MOST_ACTIONS:
        yield HUGE.at(
            view.place(),
            f"the commit holds {format_count(actions)} actions",
            seen=actions,
            expected=f"at most {MOST_ACTIONS}",
        )


@AREA.check(CommitView, INFO_MISSING, INFO_SEVERAL, INFO_NOT_OBJECT)
def provenance(view: CommitView) -> Iterator[Finding]:
    """One commitInfo a commit, an object. Where in-commit timestamps need it, `ict.missing` says more."""
    found = view.of_kind("commitInfo")
    if not found and view.is_readable and not view.after.has_ict:
        tracks_rows = "rowTracking" in view.after.features and view.after.is_on("delta.enableRowTracking")
        message = "the commit holds no commitInfo: who made it, when and how is not known"
        if tracks_rows:
            message = "the commit holds no commitInfo, so it can't say whether it kept the row ids of what it moved"
        severity = Severity.WARNING if tracks_rows else None
        yield INFO_MISSING.at(view.place(), message, expected="one commitInfo", severity=severity)
    if len(found) > 1:
        lines = ", ".join(str(placed.line) for placed in found[:5])
        message = f"the commit holds {len(found)} commitInfo actions (lines {lines})"
        yield INFO_SEVERAL.at(view.place(found[1].line), message, seen=len(found), expected="at most 1")
    for placed in found:
        if "" in placed.action:  # how the reader of lines hands over what is no object
            seen = placed.action[""]
            yield INFO_NOT_OBJECT.at(
                view.place(placed.line),
                f"commitInfo is {_named(seen)}, expected an object",
                seen=_named(seen),
                expected="an object",
            )


def _named(value: object) -> str:
    return "an object with an empty key" if isinstance(value, dict) else json_type(value)
