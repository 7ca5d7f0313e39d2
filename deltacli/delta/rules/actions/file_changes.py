"""Rules about what the file actions of a commit do to each other and to the files that were live before.

Spec: Add File and Remove File; Action Reconciliation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.place import Place
from deltacli.delta.rules.actions.commit_contents import AREA
from deltacli.delta.rules.framework.base import Finding, Fix, Level, Severity
from deltacli.delta.rules.framework.views import CommitView, LocatedAction, TouchedFile
from deltacli.units import format_count, plural

Key = tuple[str, str | None]
"""Canonical path and deletion vector id: what makes a logical file."""

DUPLICATE_PATH = AREA.rule(
    "action.duplicate-path",
    Severity.ERROR,
    Level.LOG,
    "A commit adds one path twice, or removes it twice.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="the order within a commit is undefined: which add counts is up to the reader, or both do",
        mend="commit the add that is meant once more, and a remove of any other deletion vector of the path",
        loss="nothing",
    ),
    example='two lines {"add":{"path":"part-0.parquet",…}} in one commit',
)
ADD_REMOVE_SAME_KEY = AREA.rule(
    "action.add-remove-same-key",
    Severity.ERROR,
    Level.LOG,
    "A commit adds and removes the same logical file.",
    seed="000: Delta Log Entries",
    spec="Requirements for Writers: Delta Log Entries",
    fix=Fix(
        broken="the order within a commit is undefined: one reader has the file, another has not",
        mend="commit the add again, or the remove, whichever is meant",
        loss="nothing",
    ),
    example='{"add":{"path":"part-0.parquet",…}} and {"remove":{"path":"part-0.parquet",…}} in one commit',
)
READD_WITHOUT_REMOVE = AREA.rule(
    "action.readd-without-remove",
    Severity.ERROR,
    Level.LOG,
    "A commit adds a live file with another deletion vector and does not remove it with the old one.",
    spec="Add File and Remove File",
    fix=Fix(
        broken="the file is in the table twice, with two deletion vectors: its rows count twice",
        mend="commit a remove of the path with the older deletion vector",
        loss="nothing",
    ),
    example='{"add":{"path":"part-0.parquet","deletionVector":{…},…}} with no remove of part-0.parquet',
)
REMOVE_OF_UNKNOWN = AREA.rule(
    "action.remove-of-unknown",
    Severity.INFO,
    Level.LOG,
    "A commit removes a file that was not in the table.",
    seed="000: Action Reconciliation",
    spec="Action Reconciliation",
    fix=Fix(
        broken="nothing: the tombstone is kept and has no effect",
        mend="nothing to mend",
        loss="nothing",
    ),
    example='{"remove":{"path":"never-added.parquet",…}}',
)
REMOVE_DV_MISMATCH = AREA.rule(
    "action.remove-dv-mismatch",
    Severity.ERROR,
    Level.LOG,
    "A remove names another deletion vector than the live file has, so that the file stays live.",
    spec="Add File and Remove File",
    fix=Fix(
        broken="the rows that the commit meant to remove or to replace are still in the table",
        mend="commit a remove of the path with the deletion vector of the live add",
        loss="nothing",
    ),
    example='{"remove":{"path":"part-0.parquet",…}} where the live add has a deletion vector',
)
FALSE_NEW_DATA = AREA.rule(
    "action.datachange-false-new-data",
    Severity.WARNING,
    Level.LOG,
    "A commit says that it only rearranges data, and changes how many rows there are.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="streams and readers of changes skip the commit and never see these rows come or go",
        mend="nothing to mend in the log; let those readers start over",
        loss="nothing in the table",
    ),
    example='{"add":{"path":"new.parquet","dataChange":false,…}} and no remove',
)
DATACHANGE_MIXED = AREA.rule(
    "action.datachange-mixed",
    Severity.INFO,
    Level.LOG,
    "A commit has file actions with dataChange=true and with dataChange=false.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="streams read a part of the commit",
        mend="nothing to mend; rearrange data in commits of their own",
        loss="nothing",
    ),
    example='{"add":{…,"dataChange":true}} and {"add":{…,"dataChange":false}} in one commit',
)
CDC_ONLY = AREA.rule(
    "action.cdc-only",
    Severity.WARNING,
    Level.LOG,
    "A commit holds change files, and neither adds nor removes any file.",
    spec="Change Data Files",
    fix=Fix(
        broken="readers of changes report rows that the table never gained or lost",
        mend="nothing to mend; the commit stays as it is",
        loss="nothing",
    ),
    example='{"cdc":{…}} with no add and no remove in the commit',
)


@AREA.check(CommitView, DUPLICATE_PATH, ADD_REMOVE_SAME_KEY)
def paths_of_one_commit(view: CommitView) -> Iterator[Finding]:
    """A path may be added once and removed once, and then with two different vectors."""
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
                    _place(view, found[1]),
                    f"the commit {kind} {_name(found[1])} {len(found)} times (lines {lines})",
                    seen=len(found),
                    expected="once",
                )
    removed = {file.key: file.placed for file in view.removed if file.dv_id is not None}
    if not removed:
        return
    for key in {file.key: None for file in view.added if file.key in removed}:
        placed = removed[key]
        message = f"the commit both adds and removes {_name(placed)}; whether it is live after is undefined"
        yield ADD_REMOVE_SAME_KEY.at(_place(view, placed), message, expected="the add or the remove")


@AREA.check(CommitView, READD_WITHOUT_REMOVE, REMOVE_OF_UNKNOWN, REMOVE_DV_MISMATCH)
def vectors_of_live_files(view: CommitView) -> Iterator[Finding]:
    """Who takes a file away, or gives it a new deletion vector, names the old one."""
    removed = {file.key for file in view.removed}
    missed: set[str] = set()
    odd = [file for file in view.removed if _misses(file)]
    added = {file.key for file in view.added} if odd else set()
    for file in odd:
        if file.key in added or not file.live:
            if file.key not in added:
                message = f"{_name(file.placed)} is removed, and was not in the table: never added, or gone already"
                yield REMOVE_OF_UNKNOWN.at(_place(view, file.placed), message)
        elif not any((file.path, live.dv_id) in removed for live in file.live):
            missed.add(file.path)
            yield REMOVE_DV_MISMATCH.at(
                _place(view, file.placed),
                f"the remove of {_name(file.placed)} names another deletion vector than the live file has",
                seen=file.dv_id or "no deletion vector",
                expected=file.live[0].dv_id or "no deletion vector",
            )
    for file in view.added:
        if not file.live or not _misses(file) or file.path in missed:
            continue
        if not any((file.path, live.dv_id) in removed for live in file.live):
            yield READD_WITHOUT_REMOVE.at(
                _place(view, file.placed),
                f"{_name(file.placed)} is live with another deletion vector, and not removed: the file is there twice",
                seen=file.dv_id or "no deletion vector",
                expected=f"a remove with {file.live[0].dv_id or 'no deletion vector'}",
            )


def _misses(file: TouchedFile) -> bool:
    """True if no live file has the vector that the action names."""
    return file.live is not None and file.dv_id is not None and not any(live.dv_id == file.dv_id for live in file.live)


@AREA.check(CommitView, FALSE_NEW_DATA, DATACHANGE_MIXED, CDC_ONLY)
def data_changes(view: CommitView) -> Iterator[Finding]:
    """What dataChange says against what the commit does."""
    if not view.adds and not view.removes:
        changes = view.of_kind("cdc")
        if changes and view.is_readable:
            message = f"the commit holds {plural(len(changes), 'change file')}, and adds or removes no file"
            yield CDC_ONLY.at(_place(view, changes[0]), message, seen=len(changes), expected="an add or a remove")
        return
    flags = {placed.action.get("dataChange") for placed in (*view.adds, *view.removes)}
    if flags == {False}:
        yield from _rearranged(view)
    elif flags == {True, False}:
        files = [*view.adds, *view.removes]
        changing = sum(placed.action.get("dataChange") is True for placed in files)
        message = (
            f"{format_count(changing)} of {plural(len(files), 'file action')} have dataChange=true, the others false"
        )
        yield DATACHANGE_MIXED.at(view.place(), message, seen=f"{changing} of {len(files)}", expected="all or none")


def _rearranged(view: CommitView) -> Iterator[Finding]:
    """A commit that only rearranges has as many rows after as before."""
    before: dict[Key, Action] = {}
    for file in (*view.removed, *view.added):
        if file.live is None or file.dv_id is None:
            return
        before.update((file.key, live.add) for live in file.live if live.dv_id == file.dv_id)
    first_new = next((file.placed for file in view.added if not file.live), None)
    if first_new is not None and not view.removes:
        yield FALSE_NEW_DATA.at(
            _place(view, first_new),
            f"{_name(first_new)} is added with dataChange=false, and nothing is removed: its rows are new",
            seen="dataChange=false",
            expected="dataChange=true",
        )
        return
    after = {file.key: file.placed.action for file in view.added}
    old, new = live_rows(list(before.values())), live_rows(list(after.values()))
    if old is not None and new is not None and old != new:
        yield FALSE_NEW_DATA.at(
            view.place(),
            f"the commit has dataChange=false, and turns {plural(old, 'row')} into {format_count(new)}",
            seen=f"{new} rows added",
            expected=f"{old}, as many as it removes",
        )


def live_rows(adds: Sequence[Action]) -> int | None:
    """The rows of files, without those that deletion vectors hide; None where statistics do not say."""
    if not adds:
        return 0
    import pyarrow as pa

    from deltacli.delta.stats.record_counts import num_records_column

    total = 0
    texts: list[str] = []
    for add in adds:
        stats, known = add.get("stats"), add.get("num_records")  # of a checkpoint the count alone may be kept
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
        counts = num_records_column(pa.array(texts, pa.string()))
    except UnicodeEncodeError:
        return None
    return None if counts.null_count else total + sum(counts.to_pylist())


def _name(placed: LocatedAction) -> str:
    path = placed.action.get("path")
    return path if isinstance(path, str) and path else "the file"


def _place(view: CommitView, placed: LocatedAction) -> Place:
    path = placed.action.get("path")
    return view.place(placed.line, path if isinstance(path, str) else None)
