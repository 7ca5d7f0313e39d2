"""Rules about the history of a table: vacuums, writers, and the reach of time travel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from deltacli.core.hints import Worded, command
from deltacli.core.patterns import pattern
from deltacli.core.units import plural
from deltacli.delta.log.log_path import Place
from deltacli.delta.paths import locate_all
from deltacli.rules.files.storage import Compared
from deltacli.rules.framework.base import LOST_BY_VACUUM, Area, Finding, Level, from_a_copy
from deltacli.rules.framework.views import CommitView, HistoryView, StorageView

AREA = Area("history")

OPERATION_MISSING = AREA.info(
    "history.operation-missing",
    "A commitInfo has no operation.",
    spec="Commit Provenance Information",
    broken="nothing: the history does not show what the commit did",
    repair="no repair needed",
    example='{"commitInfo":{"timestamp":1768003200000}}',
)
VACUUM_START_WITHOUT_END = AREA.warning(
    "history.vacuum-start-without-end",
    "A vacuum has started but not ended.",
    spec="Delta-Spark: VACUUM START, VACUUM END",
    broken="the vacuum was interrupted: some of the files it should delete are deleted, others not",
    repair="run the vacuum again",
    loss=LOST_BY_VACUUM,
    example='{"commitInfo":{"operation":"VACUUM START",…}} as the newest commit',
)
VACUUM_SHORT_RETENTION = AREA.warning(
    "history.vacuum-short-retention",
    "A vacuum used a retention below the table's, or had the retention check disabled.",
    spec="Delta-Spark: VACUUM START, specifiedRetentionMillis and retentionCheckEnabled",
    broken="running readers and writers may have lost files; time travel reaches less far than it should",
    repair=Worded(
        "past versions cannot be repaired; compare the files with the log ({})",
        partial(command, "validate", table=None, level="storage"),
    ),
    loss="files that were still in use, if there were any",
    example='{"operation":"VACUUM START","operationParameters":{"specifiedRetentionMillis":0,…}}',
)
TIME_TRAVEL_BROKEN = AREA.warning(
    "history.time-travel-broken",
    "The log can rebuild a version whose files are missing.",
    spec="Overview",
    broken="readers open the version and fail on its files",
    repair=from_a_copy(
        "use equal retentions for log and files; to bring the files of version N back from a copy", version="N"
    ),
    loss="time travel to that version and older ones",
    example="a vacuum after 7 days, and a log of 30 days",
    level=Level.STORAGE,
)
RESTORE_RISK = AREA.info(
    "history.restore-risk",
    "Some versions are no longer readable. This is the oldest version with complete log and files.",
    spec="Delta-Spark: RESTORE",
    broken="nothing: a restore to an older version fails",
    repair="no repair needed; longer retentions keep more versions",
    loss="nothing more",
    example="commits 0 to 9 are gone: version 10 is the oldest",
    level=Level.STORAGE,
)
WRITER_MIX = AREA.info(
    "history.writer-mix",
    "Several engines, or several versions of an engine, have written to the table.",
    spec="Commit Provenance Information",
    broken="nothing: engines differ in what they write and enforce",
    repair="no repair needed; check this first when commits contradict each other",
    example='"engineInfo":"Apache-Spark/3.5.3 …" and "engineInfo":"delta-rs:py-1.6.6"',
)
CONCURRENT_VERSION_HOLE = AREA.warning(
    "history.concurrent-version-hole",
    "A commit that depends on what it read was prepared many versions earlier.",
    spec="Delta-Spark: commitInfo.readVersion and isBlindAppend",
    broken="possibly nothing: if its writer did not check for conflicts, it ignored the commits in between",
    repair="check the changes of the versions in between",
    loss="changes of the versions in between, if they were ignored",
    example='{"commitInfo":{"readVersion":3,"isBlindAppend":false,…}} in version 50',
)


VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
FAR_BEHIND = 1_000
"A commit that was prepared this many versions earlier is unusual in any table."
BEHIND_IN_YOUNG_TABLES = 10
"In a short history more than this number of versions is unusual, if it is also most of the history."
_INTEGER = pattern("-?[0-9]{1,18}")


@AREA.check(CommitView, OPERATION_MISSING)
def commit_without_operation(view: CommitView) -> Iterator[Finding]:
    """Spec: Commit Provenance Information. `commit.no-provenance` reports a commit without any."""
    info = view.commit_info
    if info is not None and not info.get("operation"):
        yield OPERATION_MISSING.at(view.place(), f"the commitInfo of version {view.version} names no operation")


@AREA.check(HistoryView, VACUUM_START_WITHOUT_END)
def vacuums_without_end(view: HistoryView) -> Iterator[Finding]:
    """An end closes the newest open start, so that two concurrent vacuums are kept apart."""
    started: list[CommitView] = []
    for commit in view.commits:
        operation = (commit.commit_info or {}).get("operation")
        if operation == VACUUM_START:
            started.append(commit)
        elif operation == VACUUM_END and started:
            started.pop()
    for commit in started:
        message = (
            f"the vacuum that began at version {commit.version} has no end: it was interrupted or is still running"
        )
        yield VACUUM_START_WITHOUT_END.at(commit.place(), message, seen=VACUUM_START, expected=VACUUM_END)


@AREA.check(CommitView, VACUUM_SHORT_RETENTION)
def vacuum_with_short_retention(view: CommitView) -> Iterator[Finding]:
    """Writers record these parameters as numbers or as text."""
    info = view.commit_info or {}
    parameters = info.get("operationParameters")
    if info.get("operation") != VACUUM_START or not isinstance(parameters, dict):
        return
    specified = _integer(parameters.get("specifiedRetentionMillis"))
    default = _integer(parameters.get("defaultRetentionMillis"))
    if specified is not None and default is not None and specified < default:
        message = f"version {view.version} ran vacuum with a retention shorter than the table's"
        yield VACUUM_SHORT_RETENTION.at(view.place(), message, seen=f"{specified} ms", expected=f">= {default} ms")
    elif str(parameters.get("retentionCheckEnabled")).strip('"').lower() == "false":
        message = f"version {view.version} ran vacuum with the retention check disabled"
        yield VACUUM_SHORT_RETENTION.at(view.place(), message, seen="retentionCheckEnabled: false", expected="true")


def _integer(value: object) -> int | None:
    if type(value) is int:
        return value
    text = value.strip('"') if isinstance(value, str) else ""
    return int(text) if _INTEGER.fullmatch(text) else None


@AREA.check(HistoryView, WRITER_MIX)
def several_writers(view: HistoryView) -> Iterator[Finding]:
    """Report the engines, and their versions, that have written to the table."""
    first: dict[str, CommitView] = {}
    for commit in view.commits:
        engine = (commit.commit_info or {}).get("engineInfo")
        if isinstance(engine, str) and engine:
            first.setdefault(engine, commit)
    if len(first) > 1:
        newest = max(first.values(), key=lambda commit: commit.version)
        message = f"{len(first)} engines, or versions of engines, have written to this table"
        yield WRITER_MIX.at(newest.place(), message, seen=", ".join(sorted(first)))


@AREA.check(CommitView, CONCURRENT_VERSION_HOLE)
def commit_far_behind(view: CommitView) -> Iterator[Finding]:
    """Report a `readVersion` far below the previous version, in a commit that depends on what it read."""
    info = view.commit_info or {}
    read = info.get("readVersion")
    if type(read) is not int or info.get("isBlindAppend") is not False or read < -1:
        return
    behind = view.version - 1 - read
    if behind > FAR_BEHIND or (behind > BEHIND_IN_YOUNG_TABLES and 2 * behind > view.version):
        message = f"version {view.version} was prepared on version {read}, {plural(behind, 'version')} earlier"
        yield CONCURRENT_VERSION_HOLE.at(view.place(), message, seen=read, expected=view.version - 1)


@AREA.check(StorageView, TIME_TRAVEL_BROKEN, RESTORE_RISK)
def how_far_time_travel_reaches(view: StorageView) -> Iterator[Finding]:
    """A version needs the files that later ones removed, although the log may still rebuild it."""
    run = _newest_run(view.commits)
    base = _oldest_rebuilt(run, view.state.version)
    compared = Compared(view)
    gone = _removed_and_gone(run, base, compared)
    oldest = max([base, *gone])
    if gone:
        versions = sorted(gone)
        message = (
            f"version {oldest - 1} can be rebuilt from the log but needs missing files, for example {gone[oldest]}"
        )
        if len(versions) > 1:
            message += f"; so do older ones, down to version {versions[0] - 1}"
        place = view.state.place(gone[oldest])._replace(version=oldest - 1, path=_path_of(run, oldest - 1))
        yield TIME_TRAVEL_BROKEN.at(place, message, seen=f"broken: version {oldest - 1}", expected="every file")
    if oldest > 0 and not compared.absent_rows:
        message = f"all versions from {oldest} on are complete, both log and files; some older versions are not"
        place = Place(_path_of(run, oldest), version=oldest)
        yield RESTORE_RISK.at(place, message, seen=oldest, expected=0)


def _newest_run(commits: Iterable[CommitView]) -> list[CommitView]:
    """Return the newest commits without a gap. A checkpoint does not replace a missing commit."""
    run: list[CommitView] = []
    for commit in commits:
        step = commit.version - run[-1].version if run else 1
        if step > 2 or (step == 2 and not _follows_checkpoint(commit)):
            run = []
        run.append(commit)
    return run


def _oldest_rebuilt(run: list[CommitView], newest: int) -> int:
    """Return the oldest version of a run that the log can rebuild: 0, or that of the checkpoint before the first
    commit.
    """
    if run and run[0].version == 0:
        return 0
    return next((commit.version - 1 for commit in run if _follows_checkpoint(commit)), newest)


def _follows_checkpoint(commit: CommitView) -> bool:
    """Return True if the state before a commit is known from a checkpoint, even if its own commit is missing."""
    place = commit.before.metadata_place
    return place is not None and ".checkpoint." in place.path


def _removed_and_gone(run: list[CommitView], base: int, compared: Compared) -> dict[int, str]:
    """Return version that removed a missing file -> that file, for versions whose predecessor the log can rebuild.
    `data.file-missing` reports files that are still live with another deletion vector.
    """
    view, live = compared.view, compared.absent_names
    removed_and_gone: dict[int, str] = {}
    for commit in run:
        if commit.version <= base or not commit.removes:
            continue
        paths = locate_all((placed.action.get("path") for placed in commit.removes), view.uri)
        named = (path for path in paths if path is not None and path not in live)
        gone = next((path for path in named if not view.may_be_there(path)), None)
        if gone is not None:
            removed_and_gone[commit.version] = gone
    return removed_and_gone


def _path_of(run: list[CommitView], version: int) -> str:
    return next((commit.path for commit in run if commit.version == version), "_delta_log")
