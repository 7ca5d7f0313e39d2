"""Rules about change data files, and about tables that only grow; what lies in these files has its own module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.place import Place
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.paths.paths import canonical
from deltacli.delta.paths.stored_paths import locate_all
from deltacli.delta.protocol.properties import deleted_file_retention_ms
from deltacli.delta.rules.actions.change_data_rows import AREA
from deltacli.delta.rules.framework.base import Finding, Fix, Level, Severity
from deltacli.delta.rules.framework.views import CommitView, LocatedAction, StorageView
from deltacli.units import plural

DIRECTORY = "_change_data"
APPEND_ONLY = "delta.appendOnly"
CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
COPIED_ROWS = ("numCopiedRows", "numTargetRowsCopied")
REWRITING = frozenset({"DELETE", "UPDATE", "MERGE"})
_NUMBER = re.compile("[0-9]{1,18}")

FILE_MISSING = AREA.rule(
    "cdc.file-missing",
    Severity.WARNING,
    Level.LISTING,
    "A change data file of a version that the log still has is not there; after a vacuum that is only to be noted.",
    spec="Add CDC File",
    fix=Fix(
        broken="the changes of that version can't be read",
        mend="restore the file from a backup; readers of changes can begin after that version",
        loss="the changes of that version",
    ),
    example='{"cdc":{"path":"_change_data/cdc-00001.parquet",…}} and no such file',
)

SIZE_MISMATCH = AREA.rule(
    "cdc.size-mismatch",
    Severity.WARNING,
    Level.LISTING,
    "A change data file has another size than its action says.",
    spec="Add CDC File",
    fix=Fix(
        broken="the file was overwritten or cut off: the changes of that version may be unreadable",
        mend="restore the file from a backup",
        loss="the changes of that version",
    ),
    example='{"cdc":{"path":"_change_data/cdc-00001.parquet","size":1001,…}} and a file of 1000 bytes',
)

LOCATION = AREA.rule(
    "cdc.location",
    Severity.INFO,
    Level.LOG,
    "A change data file does not lie below `_change_data`.",
    spec="Change Data Files",
    fix=Fix(
        broken="nothing for readers; vacuums and other tools take it for a data file",
        mend="none for what is past",
        loss="nothing",
    ),
    example='{"cdc":{"path":"changes/cdc-00001.parquet",…}}',
)

WITHOUT_FEATURE = AREA.rule(
    "cdc.without-feature",
    Severity.ERROR,
    Level.LOG,
    "A commit has change data although the table does not support the change data feed.",
    spec="Change Data Files; Writer Requirements for AddCDCFile",
    fix=Fix(
        broken="readers need not look at the change data, and writers need not write any",
        mend="add the feature changeDataFeed to the protocol",
        loss="nothing",
    ),
    example='{"cdc":{…}} in a table of {"minReaderVersion":1,"minWriterVersion":2}',
)

MISSING_WHEN_ENABLED = AREA.rule(
    "cdc.missing-when-enabled",
    Severity.WARNING,
    Level.LOG,
    "A commit copies unchanged rows into new files, with the change data feed on, but has no change data.",
    spec="Writer Requirements for AddCDCFile",
    fix=Fix(
        broken="readers of changes take the copied rows for deleted and inserted ones",
        mend="none for what is past; find the writer that does not write change data",
        loss="the true changes of that version",
    ),
    example='{"commitInfo":{"operation":"UPDATE","operationMetrics":{"numCopiedRows":"10"}}} and no cdc',
)

PARTITION_VALUES = AREA.rule(
    "cdc.partition-values",
    Severity.WARNING,
    Level.LOG,
    "A change data file lacks the value of a partition column.",
    spec="Add CDC File",
    fix=Fix(
        broken="readers of changes see null in that column",
        mend="none for what is past",
        loss="the partition values of these changes",
    ),
    example='{"cdc":{"path":"_change_data/cdc-00001.parquet","partitionValues":{},…}} in a partitioned table',
)

VIOLATED = AREA.rule(
    "appendonly.violated",
    Severity.ERROR,
    Level.LOG,
    "A commit removes data from a table that only grows.",
    seed="000: Change Metadata",
    spec="Append-only Tables",
    fix=Fix(
        broken="a writer did not heed delta.appendOnly; rows are gone, or readers that only expect new ones fail",
        mend="restore the version before, or unset delta.appendOnly if removing is meant",
        loss="the rows of the removed files, once a vacuum has run",
    ),
    example='{"remove":{…,"dataChange":true}} with delta.appendOnly=true',
)

DV_DELETE = AREA.rule(
    "appendonly.dv-delete",
    Severity.ERROR,
    Level.LOG,
    "A commit deletes rows of a table that only grows, by a deletion vector.",
    spec="Append-only Tables; Deletion Vectors",
    fix=Fix(
        broken="a writer did not heed delta.appendOnly; rows are gone",
        mend="restore the version before, or unset delta.appendOnly if deleting is meant",
        loss="the deleted rows, once the files are rewritten",
    ),
    example='a new deletionVector for a live file, "dataChange":true, with delta.appendOnly=true',
)


@AREA.check(StorageView, FILE_MISSING, SIZE_MISMATCH)
def change_data_against_listing(view: StorageView) -> Iterator[Finding]:
    """Spec: Add CDC File. A vacuum deletes change data without a trace in the log."""
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
            message = f"the change data file {path} is not there"
            message += ", as after a vacuum" if is_old else f": the changes of version {version} can't be read"
            severity = Severity.INFO if is_old else None
            yield FILE_MISSING.at(place, message, seen="no such file", severity=severity)
        elif type(size) is int and size != stored.size_bytes:
            message = f"{path} has {stored.size_bytes:,} bytes, the log says {size:,}"
            yield SIZE_MISMATCH.at(place, message, seen=stored.size_bytes, expected=size)


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
        place = view.place(placed.line, path if isinstance(path, str) else None)
        if isinstance(path, str) and path and DIRECTORY not in canonical(path).split("/")[:-1]:
            yield LOCATION.at(place, f"{path} does not lie below {DIRECTORY}", seen=path, expected=f"{DIRECTORY}/…")
        missing = [name for name in partition_columns if name not in values] if isinstance(values, dict) else []
        if missing:
            message = f"the change data file {path} has no value of the partition column {', '.join(missing)}"
            seen = ", ".join(values or ()) or "no values"
            yield PARTITION_VALUES.at(place, message, seen=seen, expected=", ".join(partition_columns))


@AREA.check(CommitView, MISSING_WHEN_ENABLED)
def change_data_is_missing(view: CommitView) -> Iterator[Finding]:
    """Spec: Writer Requirements for AddCDCFile. Commits that only replace whole files need none."""
    if not view.is_readable or not view.after.is_on(CHANGE_DATA_FEED) or not view.before.is_on(CHANGE_DATA_FEED):
        return
    if not _changes_data(view.adds) or not _changes_data(view.removes) or view.of_kind("cdc"):
        return
    info = view.commit_info or {}
    copied = _copied_rows(info)
    if copied is None and str(info.get("operation")) not in REWRITING:
        return
    if copied != 0:
        rows = "rows" if copied is None else plural(copied, "row")
        message = f"version {view.version} copies {rows} into new files and has no change data"
        yield MISSING_WHEN_ENABLED.at(view.place(), message, seen=info.get("operation"), expected="cdc actions")


def _changes_data(files: list[LocatedAction]) -> bool:
    return any(placed.action.get("dataChange") is True for placed in files)


def _copied_rows(info: Action) -> int | None:
    """How many rows the writer says it copied unchanged; None where it does not say. Spark writes numbers as text."""
    metrics: Any = info.get("operationMetrics")  # Any: free in form
    if not isinstance(metrics, dict):
        return None
    for name in COPIED_ROWS:
        found = metrics.get(name)
        if type(found) is int or (isinstance(found, str) and _NUMBER.fullmatch(found)):
            return int(found)
    return None


@AREA.check(CommitView, VIOLATED, DV_DELETE)
def growing_tables_shrink(view: CommitView) -> Iterator[Finding]:
    """Spec: Append-only Tables. A commit that turns the property on or off itself is not held to it."""
    if not _is_append_only(view.after) or not _is_append_only(view.before):
        return
    removes = [placed for placed in view.removes if placed.action.get("dataChange") is True]
    with_vector = {canonical(str(placed.action.get("path"))): placed for placed in _vectors(view.adds)}
    by_vector = [with_vector[key] for placed in removes if (key := _key(placed)) in with_vector]
    whole = [placed for placed in removes if _key(placed) not in with_vector]
    replaced = {_key(placed) for placed in removes}
    by_vector += [placed for key, placed in with_vector.items() if key not in replaced and _is_new(view, placed)]
    if whole:
        yield VIOLATED.at(*_of_first(view, whole, "removes {} although the table only grows"), expected="no remove")
    if by_vector:
        message = "deletes rows of {} by deletion vectors although the table only grows"
        yield DV_DELETE.at(*_of_first(view, by_vector, message), expected="no new deletion vector")


def _is_append_only(config: TableConfiguration) -> bool:
    return "appendOnly" in config.features and config.is_on(APPEND_ONLY)


def _vectors(adds: list[LocatedAction]) -> list[LocatedAction]:
    return [p for p in adds if p.action.get("deletionVector") and p.action.get("dataChange") is True]


def _is_new(view: CommitView, placed: LocatedAction) -> bool:
    """True if the file was live before this commit, with another vector or none."""
    live = view.live_before(placed.action["path"]) if isinstance(placed.action.get("path"), str) else None
    return bool(live) and all(file.add.get("deletionVector") != placed.action["deletionVector"] for file in live or ())


def _key(placed: LocatedAction) -> str:
    return canonical(str(placed.action.get("path")))


def _of_first(view: CommitView, files: list[LocatedAction], message: str) -> tuple[Place, str]:
    first = files[0]
    path = first.action.get("path")
    place = view.place(first.line, path if isinstance(path, str) else None)
    return place, f"version {view.version} {message.format(plural(len(files), 'file'))}"
