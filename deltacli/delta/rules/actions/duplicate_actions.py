"""Rules about actions of one commit with the same key: twice the same kind, or the same file twice.

Spec: Action Reconciliation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from deltacli.delta.rules.actions.places import name_of, place_of
from deltacli.delta.rules.framework.base import Area, Finding, Rule
from deltacli.delta.rules.framework.views import CommitView, LocatedAction

AREA = Area("actions")

DUPLICATE_METADATA = AREA.error(
    "commit.duplicate-metadata",
    "A commit has more than one metaData action.",
    spec="Requirements for Writers: Delta Log Entries",
    broken="readers disagree about which schema and properties apply from this version on",
    repair="commit the intended metaData once",
    example='two lines {"metaData":{…}} in 00000000000000000003.json',
)
DUPLICATE_PROTOCOL = AREA.error(
    "commit.duplicate-protocol",
    "A commit has more than one protocol action.",
    spec="Requirements for Writers: Delta Log Entries",
    broken="readers disagree about which protocol applies from this version on",
    repair="commit the intended protocol once",
    example='two lines {"protocol":{…}} in 00000000000000000003.json',
)
DUPLICATE_TXN = AREA.error(
    "commit.duplicate-txn",
    "A commit has more than one txn action of the same application.",
    spec="Requirements for Writers: Delta Log Entries",
    broken="readers disagree about the progress of the application; a batch may be written twice or skipped",
    repair="let the application commit its correct version",
    example='{"txn":{"appId":"stream-1","version":7}} and {"txn":{"appId":"stream-1","version":8}} in one commit',
)
DUPLICATE_DOMAIN = AREA.error(
    "commit.duplicate-domain",
    "A commit has more than one domainMetadata action of the same domain.",
    spec="Domain Metadata",
    broken="readers disagree about the configuration of the domain",
    repair="commit the intended domainMetadata once",
    example='two lines {"domainMetadata":{"domain":"app.settings",…}} in one commit',
)
DUPLICATE_PATH = AREA.error(
    "action.duplicate-path",
    "A commit adds or removes the same path twice.",
    spec="Add File and Remove File",
    broken="the order within a commit is undefined: readers may apply either add, or both",
    repair="commit the intended add again, and a remove of any other deletion vector of the path",
    example='two lines {"add":{"path":"part-0.parquet",…}} in one commit',
)
ADD_REMOVE_SAME_KEY = AREA.error(
    "action.add-remove-same-key",
    "A commit adds and removes the same logical file.",
    spec="Requirements for Writers: Delta Log Entries",
    broken="the order within a commit is undefined: some readers have the file, others do not",
    repair="commit the intended add or remove again",
    example='{"add":{"path":"part-0.parquet",…}} and {"remove":{"path":"part-0.parquet",…}} in one commit',
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


@AREA.check(CommitView, DUPLICATE_PATH, ADD_REMOVE_SAME_KEY)
def paths_of_one_commit(view: CommitView) -> Iterator[Finding]:
    """Check that a path is added at most once and removed at most once, with different vectors."""
    for kind, files in (("adds", view.added), ("removes", view.removed)):
        if len({file.path for file in files}) == len(files):
            continue
        by_path: defaultdict[str, list[LocatedAction]] = defaultdict(list)
        for file in files:
            by_path[file.path].append(file.placed)
        for found in by_path.values():
            if len(found) > 1:
                lines = ", ".join(str(placed.line) for placed in found[:5])
                yield DUPLICATE_PATH.at(
                    place_of(view, found[1]),
                    f"the commit {kind} {name_of(found[1])} {len(found)} times (lines {lines})",
                    seen=len(found),
                    expected="once",
                )
    removed = {file.key: file.placed for file in view.removed if file.dv_id is not None}
    if not removed:
        return
    for key in {file.key: None for file in view.added if file.key in removed}:
        placed = removed[key]
        message = f"the commit both adds and removes {name_of(placed)}; whether it is live afterwards is undefined"
        yield ADD_REMOVE_SAME_KEY.at(place_of(view, placed), message, expected="only the add or only the remove")
