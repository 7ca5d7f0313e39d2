"""Rules about which actions a commit must have and may have, and about its size.

Spec: Actions; Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.log.commit_lines import KNOWN_ACTIONS
from deltacli.delta.rules.framework.base import Area, Finding, Fix
from deltacli.delta.rules.framework.views import CommitView
from deltacli.units import format_count, format_size

AREA = Area("actions")

MOST_BYTES = 1_000_000_000
MOST_ACTIONS = 1_000_000

_IGNORED = Fix(broken="nothing: readers ignore it", repair="no repair needed")

CHECKPOINT_ONLY_ACTION = AREA.error(
    "commit.checkpoint-only-action",
    "A commit has an action that is allowed only in checkpoints.",
    spec="Action Reconciliation",
    broken="the writer treated a commit as a checkpoint; files that only the sidecar names are not in the table",
    repair="no repair of the log needed; readers ignore the action",
    loss="nothing, unless the writer intended to add the files of the sidecar",
    example='{"sidecar":{"path":"3a0d65cd.parquet","sizeInBytes":2304512,"modificationTime":1512909768000}}',
)
FIRST_WITHOUT_PROTOCOL = AREA.error(
    "commit.first-without-protocol",
    "Version 0 has no protocol action.",
    spec="Action Reconciliation",
    broken="versions before the first protocol cannot be read, and some engines refuse the whole table",
    repair="commit a protocol action if no later commit has one",
    loss="time travel to the versions before it",
    example='00000000000000000000.json with {"metaData":{…}} and no {"protocol":{…}}',
)
FIRST_WITHOUT_METADATA = AREA.error(
    "commit.first-without-metadata",
    "Version 0 has no metaData action.",
    spec="Change Metadata",
    broken="versions before the first metaData have no schema, and some engines refuse the whole table",
    repair="commit a metaData action if no later commit has one",
    loss="time travel to the versions before it",
    example='00000000000000000000.json with {"protocol":{…}} and no {"metaData":{…}}',
)
UNKNOWN_ACTION = AREA.info(
    "commit.unknown-action",
    "A commit has an action that the protocol does not define. Readers ignore it.",
    *_IGNORED,
    spec="Protocol Evolution",
    example='{"futureAction":{"a":1}}',
)
HUGE = AREA.info(
    "commit.huge",
    "A commit is larger than 1 GB or has more than a million actions.",
    spec="Delta Log Entries",
    broken="readers hold a commit in memory; those with little memory fail until a checkpoint covers it",
    repair="write a checkpoint; split such writes into several commits",
    example="00000000000000000007.json of 3.1 GiB",
)


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
