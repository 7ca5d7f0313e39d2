"""Rules that compare the file actions of a commit with each other and with the files that were live before.

Spec: Add File and Remove File; Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.rules.actions.places import name_of, place_of
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.views import CommitView, TouchedFile
from deltacli.units import format_count, plural

AREA = Area("actions")

Key = tuple[str, str | None]
"Canonical path and deletion vector id, which identify a logical file."

READD_WITHOUT_REMOVE = AREA.error(
    "action.readd-without-remove",
    "A commit adds a live file with a different deletion vector but does not remove it with the old one.",
    spec="Add File and Remove File",
    broken="the file is in the table twice, with two deletion vectors, so its rows count twice",
    repair="commit a remove of the path with the older deletion vector",
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
    spec="Add File and Remove File",
    broken="the rows that the commit was meant to remove or replace are still in the table",
    repair="commit a remove of the path with the deletion vector of the live add",
    example='{"remove":{"path":"part-0.parquet",…}} where the live add has a deletion vector',
)
FALSE_NEW_DATA = AREA.warning(
    "action.datachange-false-new-data",
    "A commit sets dataChange=false but changes the number of rows.",
    spec="Add File and Remove File",
    broken="streams and readers of changes skip the commit and miss these row changes",
    repair="no repair of the log needed; restart those readers from a new snapshot",
    loss="nothing in the table",
    example='{"add":{"path":"new.parquet","dataChange":false,…}} and no remove',
)
DATACHANGE_MIXED = AREA.info(
    "action.datachange-mixed",
    "A commit has file actions with dataChange=true and file actions with dataChange=false.",
    spec="Add File and Remove File",
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
    """Check that an action which removes a file, or gives it a new deletion vector, names the old one."""
    removed = {file.key for file in view.removed}
    missed: set[str] = set()
    odd = [file for file in view.removed if _misses(file)]
    added = {file.key for file in view.added} if odd else set()
    for file in odd:
        if file.key in added or not file.live:
            if file.key not in added:
                message = f"{name_of(file.placed)} is removed but was not live: it was never added or already removed"
                yield REMOVE_OF_UNKNOWN.at(place_of(view, file.placed), message)
        elif not any((file.path, live.dv_id) in removed for live in file.live):
            missed.add(file.path)
            yield REMOVE_DV_MISMATCH.at(
                place_of(view, file.placed),
                f"the remove of {name_of(file.placed)} names a different deletion vector than the live file has",
                seen=file.dv_id or "no deletion vector",
                expected=file.live[0].dv_id or "no deletion vector",
            )
    for file in view.added:
        if not file.live or not _misses(file) or file.path in missed:
            continue
        if not any((file.path, live.dv_id) in removed for live in file.live):
            yield READD_WITHOUT_REMOVE.at(
                place_of(view, file.placed),
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
            yield CDC_ONLY.at(place_of(view, changes[0]), message, seen=len(changes), expected="an add or a remove")
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
        yield FALSE_NEW_DATA.at(
            place_of(view, first_new),
            f"{name_of(first_new)} is added with dataChange=false but nothing is removed, so its rows are new",
            seen="dataChange=false",
            expected="dataChange=true",
        )
        return
    after = {file.key: file.placed.action for file in view.added}
    old, new = live_rows(list(before.values())), live_rows(list(after.values()))
    if old is not None and new is not None and old != new:
        yield FALSE_NEW_DATA.at(
            view.place(),
            f"the commit has dataChange=false but replaces {plural(old, 'row')} with {format_count(new)}",
            seen=f"{new} rows added",
            expected=f"{old}, as many as it removes",
        )


def live_rows(adds: Sequence[Action]) -> int | None:
    """Return the number of rows of files, without those that deletion vectors delete, or None if statistics are
    missing.
    """
    if not adds:
        return 0
    import pyarrow as pa

    from deltacli.delta.stats.record_counts import num_records_column

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
        counts = num_records_column(pa.array(texts, pa.string()))
    except UnicodeEncodeError:
        return None
    return None if counts.null_count else total + sum(counts.to_pylist())
