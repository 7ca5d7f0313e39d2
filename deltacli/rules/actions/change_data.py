"""Rules about change data files and about append-only tables. The contents of these files have their own module."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.core.units import plural
from deltacli.delta.log.operation_metrics import read_copied_rows
from deltacli.delta.log.random_prefixes import has_random_prefix
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import APPEND_ONLY, CHANGE_FEED, TableConfiguration, deleted_file_retention_ms
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.delta.paths.spelling_columns import locate_all
from deltacli.rules.framework.base import Area, Finding, Level, Severity
from deltacli.rules.framework.views import CommitView, LocatedAction, StorageView

AREA = Area("change_data", spec="Add CDC File")
_RESTORE = partial(command, "restore", version=..., table="TABLE")

DIRECTORY = "_change_data"
REWRITING = frozenset({"DELETE", "UPDATE", "MERGE"})

FILE_MISSING = AREA.warning(
    "cdc.file-missing",
    "A change data file of a version that is still in the log does not exist. After a vacuum this is only a note.",
    broken="the changes of that version cannot be read",
    repair="restore the file from a backup; readers of changes can start after that version",
    loss="the changes of that version",
    example='{"cdc":{"path":"_change_data/cdc-00001.parquet",…}} and no such file',
    level=Level.STORAGE,
)

SIZE_MISMATCH = AREA.warning(
    "cdc.size-mismatch",
    "The size of a change data file differs from the size in its action.",
    broken="the file was overwritten or truncated; the changes of that version may be unreadable",
    repair="restore the file from a backup",
    loss="the changes of that version",
    example='{"cdc":{"path":"_change_data/cdc-00001.parquet","size":1001,…}} and a file of 1000 bytes',
    level=Level.STORAGE,
)

LOCATION = AREA.info(
    "cdc.location",
    "A change data file is not below `_change_data`, and the table has no random prefixes.",
    spec="Change Data Files",
    broken="nothing for readers; vacuum and other tools treat it as a data file",
    repair="past versions cannot be repaired",
    example='{"cdc":{"path":"changes/cdc-00001.parquet",…}}',
)

WITHOUT_FEATURE = AREA.error(
    "cdc.without-feature",
    "A commit has change data, but the table does not support the change data feed.",
    spec="Change Data Files; Writer Requirements for AddCDCFile",
    broken="readers need not look at the change data, and writers need not write any",
    repair="add the feature changeDataFeed to the protocol",
    example='{"cdc":{…}} in a table of {"minReaderVersion":1,"minWriterVersion":2}',
)

MISSING_WHEN_ENABLED = AREA.warning(
    "cdc.missing-when-enabled",
    "A commit copies unchanged rows into new files while the change data feed is on, but has no change data.",
    spec="Writer Requirements for AddCDCFile",
    broken="readers of changes report the copied rows as deleted and inserted",
    repair="past versions cannot be repaired; find the writer that does not write change data",
    loss="the true changes of that version",
    example='{"commitInfo":{"operation":"UPDATE","operationMetrics":{"numCopiedRows":"10"}}} and no cdc',
)

PARTITION_VALUES = AREA.warning(
    "cdc.partition-values",
    "A change data file has no value for a partition column.",
    broken="readers of changes see null in that column",
    repair="past versions cannot be repaired",
    loss="the partition values of these changes",
    example='{"cdc":{"path":"_change_data/cdc-00001.parquet","partitionValues":{},…}} in a partitioned table',
)

VIOLATED = AREA.error(
    "appendonly.violated",
    "A commit removes data from an append-only table.",
    spec="Append-only Tables",
    broken="a writer ignored delta.appendOnly; rows are lost, or readers that expect only new rows fail",
    repair=LazyText("unset delta.appendOnly if the removal is intended, or restore the version before: {}", _RESTORE),
    loss="the rows of the removed files, after a vacuum",
    example='{"remove":{…,"dataChange":true}} with delta.appendOnly=true',
)

DV_DELETE = AREA.error(
    "appendonly.dv-delete",
    "A commit deletes rows of an append-only table with a deletion vector.",
    spec="Append-only Tables; Deletion Vectors",
    broken="a writer ignored delta.appendOnly; rows are lost",
    repair=LazyText("unset delta.appendOnly if the deletion is intended, or restore the version before: {}", _RESTORE),
    loss="the deleted rows, after the files are rewritten",
    example='a new deletionVector for a live file, "dataChange":true, with delta.appendOnly=true',
)


@AREA.check(StorageView, FILE_MISSING, SIZE_MISMATCH)
def change_data_against_listing(view: StorageView) -> Iterator[Finding]:
    """Spec: Add CDC File. Vacuum deletes change data without a record in the log."""
    threshold = view.now_ms - deleted_file_retention_ms(view.state.config.properties)
    commits = {commit.version: commit for commit in view.commits}
    paths = locate_all((placed.action.get("path") for placed, _ in view.cdc), view.uri)
    for (placed, version), path in zip(view.cdc, paths, strict=True):
        commit = commits.get(version)
        if path is None or commit is None:
            continue
        place = commit.place(placed.line, placed.action["path"])
        stored, size = view.files.get(path), placed.action.get("size")
        if stored is None:
            if view.may_be_there(path):
                continue
            committed_ms = commit.in_commit_timestamp if commit.after.has_ict else None
            is_old = (commit.modified_ms if committed_ms is None else committed_ms) < threshold
            message = f"the change data file {path} does not exist"
            message += (
                ", possibly deleted by vacuum" if is_old else f", so the changes of version {version} cannot be read"
            )
            severity = Severity.INFO if is_old else None
            yield FILE_MISSING.at(place, message, seen="no such file", severity=severity)
        elif type(size) is int and size != stored.size_bytes:
            message = f"{path} has {stored.size_bytes:,} bytes, but the log records {size:,}"
            yield SIZE_MISMATCH.at(place, message, seen=stored.size_bytes, expected=size)


def _is_of_change_data(path: str, config: TableConfiguration) -> bool:
    """Return whether a file is where the reference implementation puts change data of a table."""
    place = canonicalize_path(path)
    return DIRECTORY in place.split("/")[:-1] or has_random_prefix(place, config)


@AREA.check(CommitView, LOCATION, WITHOUT_FEATURE, PARTITION_VALUES)
def change_data_of_a_commit(view: CommitView) -> Iterator[Finding]:
    """Spec: Change Data Files; Add CDC File."""
    files = view.of_kind("cdc")
    if not files:
        return
    if view.after.protocol is not None and "changeDataFeed" not in view.after.features:
        message = f"version {view.version} has change data, but the table does not support the change data feed"
        yield WITHOUT_FEATURE.at(view.place(files[0].line), message, expected="changeDataFeed")
    partition_columns = view.after.partition_columns
    for placed in files:
        path, values = placed.action.get("path"), placed.action.get("partitionValues")
        place = view.place_of(placed)
        if isinstance(path, str) and path and not _is_of_change_data(path, view.after):
            yield LOCATION.at(place, f"{path} is not below {DIRECTORY}", seen=path, expected=f"{DIRECTORY}/…")
        missing = [name for name in partition_columns if name not in values] if isinstance(values, dict) else []
        if missing:
            message = f"the change data file {path} has no value for the partition column {', '.join(missing)}"
            seen = ", ".join(values or ()) or "no values"
            yield PARTITION_VALUES.at(place, message, seen=seen, expected=", ".join(partition_columns))


@AREA.check(CommitView, MISSING_WHEN_ENABLED)
def change_data_is_missing(view: CommitView) -> Iterator[Finding]:
    """Spec: Writer Requirements for AddCDCFile. Commits that only replace whole files need no change data."""
    if not view.is_readable or not view.after.is_on(CHANGE_FEED) or not view.before.is_on(CHANGE_FEED):
        return
    if not _changes_data(view.adds) or not _changes_data(view.removes) or view.of_kind("cdc"):
        return
    info = view.commit_info or {}
    copied = read_copied_rows(info)
    if copied is None and str(info.get("operation")) not in REWRITING:
        return
    if copied != 0:
        rows = "rows" if copied is None else plural(copied, "row")
        message = f"version {view.version} copies {rows} into new files but has no change data"
        yield MISSING_WHEN_ENABLED.at(view.place(), message, seen=info.get("operation"), expected="cdc actions")


def _changes_data(files: list[LocatedAction]) -> bool:
    return any(placed.action.get("dataChange") is True for placed in files)


@AREA.check(CommitView, VIOLATED, DV_DELETE)
def growing_tables_shrink(view: CommitView) -> Iterator[Finding]:
    """Spec: Append-only Tables. A commit that turns the property on is exempt."""
    if not ("appendOnly" in view.before.features and view.before.is_on(APPEND_ONLY)):
        return
    removes = [placed for placed in view.removes if placed.action.get("dataChange") is True]
    vectors = (p for p in view.adds if p.action.get("deletionVector") and p.action.get("dataChange") is True)
    with_vector = {_key(placed): placed for placed in vectors}
    by_vector = [with_vector[key] for placed in removes if (key := _key(placed)) in with_vector]
    whole = [placed for placed in removes if _key(placed) not in with_vector]
    replaced = {_key(placed) for placed in removes}
    by_vector += [placed for key, placed in with_vector.items() if key not in replaced and _is_new(view, placed)]
    if whole:
        yield VIOLATED.at(*_of_first(view, whole, "removes {} although the table is append-only"), expected="no remove")
    if by_vector:
        message = "deletes rows of {} with deletion vectors although the table is append-only"
        yield DV_DELETE.at(*_of_first(view, by_vector, message), expected="no new deletion vector")


def _is_new(view: CommitView, placed: LocatedAction) -> bool:
    """Return True if the file was live before this commit with a different deletion vector or none."""
    live = view.live_before(placed.action["path"]) if isinstance(placed.action.get("path"), str) else None
    return bool(live) and all(file.add.get("deletionVector") != placed.action["deletionVector"] for file in live or ())


def _key(placed: LocatedAction) -> str:
    return canonicalize_path(str(placed.action.get("path")))


def _of_first(view: CommitView, files: list[LocatedAction], message: str) -> tuple[Place, str]:
    return view.place_of(files[0]), f"version {view.version} {message.format(plural(len(files), 'file'))}"
