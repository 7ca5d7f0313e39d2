"""Rules about what the history of a table tells: vacuums, writers, and how far time travel reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from deltacli.delta.log.place import Place
from deltacli.delta.paths.stored_paths import locate_all
from deltacli.delta.rules.files.storage import Compared
from deltacli.delta.rules.framework.base import Finding
from deltacli.delta.rules.framework.views import CommitView, HistoryView, StorageView
from deltacli.delta.rules.log import history_rows as rows
from deltacli.units import plural

AREA = rows.AREA

VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
FAR_BEHIND = 1_000
"""A commit that was prepared so many versions earlier is odd in any table."""
BEHIND_IN_YOUNG_TABLES = 10
"""In a table of few versions more than these are, if they are most of its history as well."""
_INTEGER = re.compile("-?[0-9]{1,18}")


@AREA.check(CommitView, rows.OPERATION_MISSING)
def commit_without_operation(view: CommitView) -> Iterator[Finding]:
    """Spec: Commit Provenance Information. A commit without any is reported as such."""
    info = view.commit_info
    if info is not None and not info.get("operation"):
        yield rows.OPERATION_MISSING.at(view.place(), f"the commitInfo of version {view.version} names no operation")


@AREA.check(HistoryView, rows.VACUUM_START_WITHOUT_END)
def vacuums_without_end(view: HistoryView) -> Iterator[Finding]:
    """An end closes the newest open start: two vacuums at once stay two."""
    started: list[CommitView] = []
    for commit in view.commits:
        operation = (commit.commit_info or {}).get("operation")
        if operation == VACUUM_START:
            started.append(commit)
        elif operation == VACUUM_END and started:
            started.pop()
    for commit in started:
        message = f"the vacuum that began at version {commit.version} has no end: it was broken off, or still runs"
        yield rows.VACUUM_START_WITHOUT_END.at(commit.place(), message, seen=VACUUM_START, expected=VACUUM_END)


@AREA.check(CommitView, rows.VACUUM_SHORT_RETENTION)
def vacuum_with_short_retention(view: CommitView) -> Iterator[Finding]:
    """Writers put these parameters down as numbers, or as text."""
    info = view.commit_info or {}
    parameters = info.get("operationParameters")
    if info.get("operation") != VACUUM_START or not isinstance(parameters, dict):
        return
    specified = _integer(parameters.get("specifiedRetentionMillis"))
    default = _integer(parameters.get("defaultRetentionMillis"))
    if specified is not None and default is not None and specified < default:
        message = f"version {view.version} vacuumed with a shorter retention than the table's"
        yield rows.VACUUM_SHORT_RETENTION.at(view.place(), message, seen=f"{specified} ms", expected=f">= {default} ms")
    elif str(parameters.get("retentionCheckEnabled")).strip('"').lower() == "false":
        message = f"version {view.version} vacuumed with the check of the retention turned off"
        yield rows.VACUUM_SHORT_RETENTION.at(
            view.place(), message, seen="retentionCheckEnabled: false", expected="true"
        )


def _integer(value: object) -> int | None:
    if type(value) is int:
        return value
    text = value.strip('"') if isinstance(value, str) else ""
    return int(text) if _INTEGER.fullmatch(text) else None


@AREA.check(HistoryView, rows.WRITER_MIX)
def several_writers(view: HistoryView) -> Iterator[Finding]:
    """Which engines, and which versions of them, have written."""
    first: dict[str, CommitView] = {}
    for commit in view.commits:
        engine = (commit.commit_info or {}).get("engineInfo")
        if isinstance(engine, str) and engine:
            first.setdefault(engine, commit)
    if len(first) > 1:
        newest = max(first.values(), key=lambda commit: commit.version)
        message = f"{len(first)} engines, or versions of them, have written to this table"
        yield rows.WRITER_MIX.at(newest.place(), message, seen=", ".join(sorted(first)))


@AREA.check(CommitView, rows.CONCURRENT_VERSION_HOLE)
def commit_far_behind(view: CommitView) -> Iterator[Finding]:
    """`readVersion` far below the version before, in a commit that depends on what it read."""
    info = view.commit_info or {}
    read = info.get("readVersion")
    if type(read) is not int or info.get("isBlindAppend") is not False or read < -1:
        return
    behind = view.version - 1 - read
    if behind > FAR_BEHIND or (behind > BEHIND_IN_YOUNG_TABLES and 2 * behind > view.version):
        message = f"version {view.version} was prepared on version {read}, {plural(behind, 'version')} earlier"
        yield rows.CONCURRENT_VERSION_HOLE.at(view.place(), message, seen=read, expected=view.version - 1)


@AREA.check(StorageView, rows.TIME_TRAVEL_BROKEN, rows.RESTORE_RISK)
def how_far_time_travel_reaches(view: StorageView) -> Iterator[Finding]:
    """A version needs the files that later ones removed; the log may rebuild it all the same."""
    run = _newest_run(view.commits)
    base = _oldest_rebuilt(run, view.state.version)
    compared = Compared(view)
    gone = _removed_and_gone(run, base, compared)
    oldest = max([base, *gone])
    if gone:
        versions = sorted(gone)
        message = (
            f"version {oldest - 1} can be rebuilt from the log but needs files that are gone, {gone[oldest]} among them"
        )
        if len(versions) > 1:
            message += f"; so do older ones, down to version {versions[0] - 1}"
        place = view.state.place(gone[oldest])._replace(version=oldest - 1, path=_path_of(run, oldest - 1))
        yield rows.TIME_TRAVEL_BROKEN.at(place, message, seen=f"broken: version {oldest - 1}", expected="every file")
    if oldest > 0 and not compared.absent_rows:
        message = f"versions from {oldest} on can be read whole, log and files; of the older ones not all can"
        place = Place(_path_of(run, oldest), version=oldest)
        yield rows.RESTORE_RISK.at(place, message, seen=oldest, expected=0)


def _newest_run(commits: Iterable[CommitView]) -> list[CommitView]:
    """The newest commits without a gap. Where a checkpoint stands for one that is missing, there is none."""
    run: list[CommitView] = []
    for commit in commits:
        step = commit.version - run[-1].version if run else 1
        if step > 2 or (step == 2 and not _follows_checkpoint(commit)):
            run = []
        run.append(commit)
    return run


def _oldest_rebuilt(run: list[CommitView], newest: int) -> int:
    """The oldest version of a run that the log rebuilds: 0, or the one whose checkpoint the next commit builds on."""
    if run and run[0].version == 0:
        return 0
    return next((commit.version - 1 for commit in run if _follows_checkpoint(commit)), newest)


def _follows_checkpoint(commit: CommitView) -> bool:
    """True if what held before a commit is known from a checkpoint: its own commit may be missing."""
    place = commit.before.metadata_place
    return place is not None and ".checkpoint." in place.path


def _removed_and_gone(run: list[CommitView], base: int, compared: Compared) -> dict[int, str]:
    """Version that removed a file which is gone -> that file; of versions whose predecessor the log rebuilds. What is
    live all the same, by another deletion vector, `data.file-missing` reports.
    """
    view, live = compared.view, compared.absent_names
    found: dict[int, str] = {}
    for commit in run:
        if commit.version <= base or not commit.removes:
            continue
        paths = locate_all((placed.action.get("path") for placed in commit.removes), view.uri)
        named = (path for path in paths if path is not None and path not in live)
        gone = next((path for path in named if not view.may_be_there(path)), None)
        if gone is not None:
            found[commit.version] = gone
    return found


def _path_of(run: list[CommitView], version: int) -> str:
    return next((commit.path for commit in run if commit.version == version), "_delta_log")
