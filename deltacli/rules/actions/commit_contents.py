"""Rules about what a commit holds: its lines, its files, its commitInfo, and actions that occur twice.

Spec: Actions; Action Reconciliation; Add File and Remove File; Commit Provenance Information.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from deltacli.core.errors import LazyText, command
from deltacli.core.units import format_count, format_size, plural
from deltacli.delta.data_files import VECTOR_FILE
from deltacli.delta.log.actions import KNOWN_ACTIONS, Action, json_type
from deltacli.delta.log.file_actions import extract_num_records, extract_num_records_column
from deltacli.rules.framework.base import Area, Finding, Fix, Rule, Severity
from deltacli.rules.framework.views import CommitView, LocatedAction, TouchedFile

AREA = Area("actions", spec="Add File and Remove File")

MOST_BYTES = 1_000_000_000
MOST_ACTIONS = 1_000_000

_IGNORED = Fix(broken="nothing: readers ignore it", advice="no repair needed")

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
        message = f"the size of the commit is {format_size(view.size_bytes)}"
        yield HUGE.at(view.place(), message, seen=f"{view.size_bytes} bytes", expected=f"at most {MOST_BYTES} bytes")
    elif actions > MOST_ACTIONS:
        message = f"the commit has {format_count(actions)} actions"
        yield HUGE.at(view.place(), message, seen=actions, expected=f"at most {MOST_ACTIONS}")


def name_of(placed: LocatedAction) -> str:
    """Return the path of a file action, for a message."""
    path = placed.action.get("path")
    return path if isinstance(path, str) and path else "the file"


Key = tuple[str, str | None]
"Canonical path and deletion vector id, which identify a logical file."

READD_WITHOUT_REMOVE = AREA.error(
    "action.readd-without-remove",
    "A commit adds a live file with a different deletion vector but does not remove it with the old one.",
    broken="the file is in the table twice, with two deletion vectors, so its rows count twice",
    repair=LazyText(
        "restore the version before, and let the writer commit again, with a remove of the old vector: {}",
        partial(command, "restore", version=..., table="TABLE"),
    ),
    loss="what the commit and later ones wrote",
    example='{"add":{"path":"part-0.parquet","deletionVector":{…},…}} with no remove of part-0.parquet',
)
REMOVE_OF_UNKNOWN = AREA.info(
    "action.remove-of-unknown",
    "A commit removes a file that was not in the table.",
    spec="Action Reconciliation",
    broken="nothing: the tombstone is kept but has no effect",
    repair="no repair needed",
    example='{"remove":{"path":"never-added.parquet",…}}',
)
REMOVE_DV_MISMATCH = AREA.error(
    "action.remove-dv-mismatch",
    "The deletion vector of a remove differs from that of the live file, so the file stays live.",
    broken="the rows that the commit was meant to remove or replace are still in the table",
    repair=LazyText(
        "remove the live file where new files of the commit have its rows; else restore the version before, and let "
        "the writer do it again: {}",
        partial(command, "restore", version=..., table="TABLE"),
    ),
    loss="where it is restored, what the commit and later ones wrote",
    example='{"remove":{"path":"part-0.parquet",…}} where the live add has a deletion vector',
)
FALSE_NEW_DATA = AREA.warning(
    "action.datachange-false-new-data",
    "A commit sets dataChange=false but changes the number of rows.",
    broken="streams and readers of changes skip the commit and miss these row changes",
    repair="no repair of the log needed; restart those readers from a new snapshot",
    loss="nothing in the table",
    example='{"add":{"path":"new.parquet","dataChange":false,…}} and no remove',
)
DATACHANGE_MIXED = AREA.info(
    "action.datachange-mixed",
    "A commit has file actions with dataChange=true and file actions with dataChange=false.",
    broken="streams read only part of the commit",
    repair="no repair needed; compact data in separate commits",
    example='{"add":{…,"dataChange":true}} and {"add":{…,"dataChange":false}} in one commit',
)
CDC_ONLY = AREA.warning(
    "action.cdc-only",
    "A commit has change data files but neither adds nor removes a file.",
    spec="Change Data Files",
    broken="readers of changes report rows that were never added to or removed from the table",
    repair="no repair needed; the commit is left unchanged",
    example='{"cdc":{…}} with no add and no remove in the commit',
)


@AREA.check(CommitView, READD_WITHOUT_REMOVE, REMOVE_OF_UNKNOWN, REMOVE_DV_MISMATCH)
def vectors_of_live_files(view: CommitView) -> Iterator[Finding]:
    """Check that an action which removes a file, or gives it a new deletion vector, names the old one.

    Files of vectors are removed without having been added where the feature is dropped, so that vacuum knows them.
    """
    removed = {file.key for file in view.removed}
    missed: set[str] = set()
    odd = [file for file in view.removed if _misses(file)]
    added = {file.key for file in view.added} if odd else set()
    for file in odd:
        if file.key in added or not file.live:
            is_unknown = file.key not in added and file.path not in view.live_from_elsewhere
            if is_unknown and not VECTOR_FILE.fullmatch(file.path):
                message = f"{name_of(file.placed)} is removed but was not live: it was never added or already removed"
                yield REMOVE_OF_UNKNOWN.at(view.place_of(file.placed), message)
        elif not any((file.path, live.dv_id) in removed for live in file.live):
            missed.add(file.path)
            yield REMOVE_DV_MISMATCH.at(
                view.place_of(file.placed),
                f"the remove of {name_of(file.placed)} names a different deletion vector than the live file has",
                seen=file.dv_id or "no deletion vector",
                expected=file.live[0].dv_id or "no deletion vector",
            )
    for file in view.added:
        if not file.live or not _misses(file) or file.path in missed:
            continue
        if not any((file.path, live.dv_id) in removed for live in file.live):
            yield READD_WITHOUT_REMOVE.at(
                view.place_of(file.placed),
                f"{name_of(file.placed)} is live with a different deletion vector and was not removed, so the file is "
                "in the table twice",
                seen=file.dv_id or "no deletion vector",
                expected=f"a remove with {file.live[0].dv_id or 'no deletion vector'}",
            )


def _misses(file: TouchedFile) -> bool:
    """Return True if no live file has the deletion vector that the action names."""
    return file.live is not None and file.dv_id is not None and not any(live.dv_id == file.dv_id for live in file.live)


@AREA.check(CommitView, FALSE_NEW_DATA, DATACHANGE_MIXED, CDC_ONLY)
def data_changes(view: CommitView) -> Iterator[Finding]:
    """Compare dataChange with what the commit does."""
    if not view.adds and not view.removes:
        changes = view.of_kind("cdc")
        if changes and view.is_readable:
            message = f"the commit has {plural(len(changes), 'change data file')} but adds or removes no file"
            yield CDC_ONLY.at(view.place_of(changes[0]), message, seen=len(changes), expected="an add or a remove")
        return
    flags = {placed.action.get("dataChange") for placed in (*view.adds, *view.removes)}
    if flags == {False}:
        yield from _rearranged(view)
    elif flags == {True, False}:
        files = [*view.adds, *view.removes]
        changing = sum(placed.action.get("dataChange") is True for placed in files)
        message = (
            f"{format_count(changing)} of {plural(len(files), 'file action')} have dataChange=true, the others have "
            "dataChange=false"
        )
        yield DATACHANGE_MIXED.at(view.place(), message, seen=f"{changing} of {len(files)}", expected="all or none")


def _rearranged(view: CommitView) -> Iterator[Finding]:
    """Check that a commit with dataChange=false preserves the number of rows."""
    before: dict[Key, Action] = {}
    for file in (*view.removed, *view.added):
        if file.live is None or file.dv_id is None:
            return
        before.update((file.key, live.add) for live in file.live if live.dv_id == file.dv_id)
    first_new = next((file.placed for file in view.added if not file.live), None)
    if first_new is not None and not view.removes:
        message = f"{name_of(first_new)} is added with dataChange=false but nothing is removed, so its rows are new"
        yield FALSE_NEW_DATA.at(view.place_of(first_new), message, seen="dataChange=false", expected="dataChange=true")
        return
    after = {file.key: file.placed.action for file in view.added}
    old, new = live_rows(list(before.values())), live_rows(list(after.values()))
    if old is not None and new is not None and old != new:
        message = f"the commit has dataChange=false but replaces {plural(old, 'row')} with {format_count(new)}"
        place = view.place()
        yield FALSE_NEW_DATA.at(place, message, seen=f"{new} rows added", expected=f"{old}, as many as it removes")


def live_rows(adds: Sequence[Action]) -> int | None:
    """Return the number of rows of files without those that vectors delete, or None if statistics are missing."""
    if not adds:
        return 0
    total = 0
    texts: list[str] = []
    for add in adds:
        stats, known = add.get("stats"), add.get("num_records")  # a checkpoint may hold only the count
        vector = add.get("deletionVector")
        if vector is not None:
            hidden = vector.get("cardinality") if isinstance(vector, dict) else None
            if type(hidden) is not int:
                return None
            total -= hidden
        if isinstance(stats, str):
            texts.append(stats)
        elif type(known) is int:
            total += known
        else:
            return None
    try:
        counts = extract_num_records_column(pa.array(texts, pa.string()))
    except UnicodeEncodeError:
        return None
    return None if counts.null_count else total + sum(counts.to_pylist())


INFO_MISSING = AREA.info(
    "commitinfo.missing",
    "A commit has no commitInfo.",
    spec="Commit Provenance Information",
    broken="the history does not show who wrote the version, when, and how",
    repair="no repair needed; writers should add commitInfo",
    example='00000000000000000003.json with only {"add":{…}}',
)
INFO_SEVERAL = AREA.warning(
    "commitinfo.several",
    "A commit has more than one commitInfo.",
    spec="Action Reconciliation",
    broken="engines differ in which one they show",
    repair="no repair needed; the commit is left unchanged",
    example='two lines {"commitInfo":{…}} in one commit',
)
INFO_NOT_OBJECT = AREA.error(
    "commitinfo.not-object",
    "A commitInfo is not an object. A warning if a checkpoint covers the commit.",
    spec="Commit Provenance Information",
    broken="Spark refuses the version and all later ones; other engines show none of its information",
    repair=LazyText("let readers begin behind the commit: {}", partial(command, "checkpoint")),
    example='{"commitInfo":"WRITE"}',
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
            message = f"commitInfo is {_named(seen)}, expected an object"
            cases = ("empty key",) if isinstance(seen, dict) else ()
            severity = Severity.WARNING if cases else None
            place = view.place(placed.line)
            yield INFO_NOT_OBJECT.at(
                place,
                message,
                seen=_named(seen),
                expected="an object",
                severity=severity,
                cases=cases,
                ends_with_checkpoint=not cases,
            )


def _named(value: object) -> str:
    return "an object with an empty key" if isinstance(value, dict) else json_type(value)


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
    broken="the order within a commit is undefined: readers may apply either add, or both",
    repair="commit the intended add again, and a remove of any other deletion vector of the path",
    example='two lines {"add":{"path":"part-0.parquet",…}} in one commit',
)
RECORDS_DISAGREE = AREA.error(
    "stats.records-disagree",
    "Two adds of one path have different numbers of records. The content of a file never changes, so one is wrong.",
    spec="Per-file Statistics",
    broken="rows are counted wrongly from statistics; an add may have left out the rows that its vector deletes",
    repair="commit the same add again with numRecords from the file's footer",
    example='"numRecords":10, and after a later commit of the same path "numRecords":6',
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


@AREA.check(CommitView, RECORDS_DISAGREE)
def records_of_a_path_added_before(view: CommitView) -> Iterator[Finding]:
    """Compare the statistics of an add with those that the live file had. What a repair read from footers is right."""
    if (view.commit_info or {}).get("operation") == "FSCK":
        return
    for file in view.added:
        if not file.live:
            continue
        seen = extract_num_records(file.placed.action.get("stats"))
        stated = (extract_num_records(live.add.get("stats")) for live in file.live)
        before = {records for records in stated if records is not None} - {seen}
        if seen is not None and before:
            message = f"the commit gives {name_of(file.placed)} another number of records than the add before"
            yield RECORDS_DISAGREE.at(view.place_of(file.placed), message, seen=seen, expected=min(before))


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
                message = f"the commit {kind} {name_of(found[1])} {len(found)} times (lines {lines})"
                yield DUPLICATE_PATH.at(view.place_of(found[1]), message, seen=len(found), expected="once")
    removed = {file.key: file.placed for file in view.removed if file.dv_id is not None}
    if not removed:
        return
    for key in {file.key: None for file in view.added if file.key in removed}:
        placed = removed[key]
        message = f"the commit both adds and removes {name_of(placed)}; whether it is live afterwards is undefined"
        yield ADD_REMOVE_SAME_KEY.at(view.place_of(placed), message, expected="only the add or only the remove")
