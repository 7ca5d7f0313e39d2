"""Rules about the fields of one file action. Spec: Add File and Remove File; Add CDC File."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.rules.actions.commit_contents import name_of, place_of
from deltacli.delta.rules.framework.base import Area, Finding, Severity
from deltacli.delta.rules.framework.views import CommitView, FilesView, LocatedAction, TouchedFile
from deltacli.delta.vectors import VECTOR_FILE
from deltacli.units import DAY_MS, WRITER_SKEW_MS, format_timestamp

AREA = Area("actions", spec="Add File and Remove File")

OLDEST_MS = 100_000_000_000
"3 March 1973 in milliseconds, or the year 5138 in seconds. Smaller values were most likely meant as seconds."

_ADD_AGAIN = "commit the add again with the correct value and dataChange=false"

NEGATIVE_SIZE = AREA.error(
    "action.negative-size",
    "The size of a file is negative, or 0, which is not possible for a Parquet file.",
    broken="engines plan reads by this size: they fail, or read no data from the file",
    repair=f"{_ADD_AGAIN}; commit a remove if the file is empty",
    loss="nothing; an empty file has no rows",
    example='{"add":{"path":"part-0.parquet","size":-1,…}}',
)
BAD_MODIFICATION_TIME = AREA.warning(
    "action.bad-modification-time",
    "The modificationTime of an add is not positive, is in seconds, or is more than a day later than its commit.",
    broken="features that use file times go wrong: incremental reads, file caches, optimizers",
    repair=_ADD_AGAIN,
    example='{"add":{"path":"part-0.parquet","modificationTime":1512909768,…}}',
)
DELETION_TIMESTAMP_MISSING = AREA.warning(
    "action.deletion-timestamp-missing",
    "A remove has no deletionTimestamp and therefore counts as expired at once.",
    broken="the next checkpoint drops the tombstone, and the next vacuum deletes the file regardless of the retention",
    repair="no repair needed; copy the file elsewhere if older versions must stay readable",
    loss="reading the versions before the remove, after a vacuum",
    example='{"remove":{"path":"part-0.parquet","dataChange":true}}',
)
DELETION_TIMESTAMP_ODD = AREA.warning(
    "action.deletion-timestamp-odd",
    "The deletionTimestamp of a remove is later than its commit, or earlier than the creation of the file.",
    broken="the tombstone and its file expire too early or too late",
    repair="no repair of the log needed; check the clock of the writer",
    loss="reading older versions, if it expires too early",
    example='{"remove":{"path":"part-0.parquet","deletionTimestamp":1512909,"dataChange":true}}',
)
EXTENDED_METADATA_LIE = AREA.warning(
    "action.extended-metadata-lie",
    "A remove has extendedFileMetadata=true but lacks partitionValues or size.",
    broken="readers of changes that rely on the flag fail, or assign the rows to the wrong partition",
    repair="no repair needed; the remove is left unchanged",
    example='{"remove":{"path":"part-0.parquet","extendedFileMetadata":true,"size":841454,"dataChange":true}}',
)
REMOVE_SIZE_MISSING = AREA.info(
    "action.remove-size-missing",
    "A remove has no size.",
    broken="vacuum and history cannot report how many bytes were removed",
    repair="no repair needed; the remove is left unchanged",
    example='{"remove":{"path":"part-0.parquet","deletionTimestamp":1515488792485,"dataChange":true}}',
)
PATH_EMPTY = AREA.error(
    "action.path-empty",
    "The path of a file action is empty.",
    broken="it names the table directory instead of a file, so reads of the table fail",
    repair="commit a remove of the empty path",
    loss="the rows of the intended file",
    example='{"add":{"path":"","partitionValues":{},…}}',
)
TAGS_NULL_VALUE = AREA.info(
    "action.tags-null-value",
    "A tag of a file action has a value that is not a string.",
    broken="strict readers of the map may fail; tags hold no table data",
    repair="commit the add again with string values, or without these tags, and dataChange=false",
    example='{"add":{"path":"part-0.parquet","tags":{"INSERTION_TIME":null},…}}',
)
CDC_DATACHANGE_TRUE = AREA.warning(
    "action.cdc-datachange-true",
    "A cdc action has dataChange=true, although it never changes the data itself.",
    spec="Add CDC File",
    broken="readers that use dataChange may treat the change rows as new data",
    repair="no repair needed; the commit is left unchanged",
    example='{"cdc":{"path":"_change_data/cdc-0.parquet","partitionValues":{},"size":1213,"dataChange":true}}',
)


@AREA.check(FilesView, NEGATIVE_SIZE, PATH_EMPTY, BAD_MODIFICATION_TIME)
def fields_of_adds(view: FilesView) -> Iterator[Finding]:
    """Report sizes, paths and times that are invalid in any commit."""
    sizes, times = view.adds.column("size"), view.adds.column("modificationTime")
    for row in view.rows(pc.less_equal(sizes, 0)):
        size = sizes[row].as_py()
        if size < 0:
            yield NEGATIVE_SIZE.at(
                view.place(row), f"{_path(view, row)} has size {size}", seen=size, expected="above 0"
            )
        elif view.config.metadata is None or view.config.metadata.provider == "parquet":
            message = f"{_path(view, row)} has size 0, but the smallest Parquet file has 12 bytes"
            yield NEGATIVE_SIZE.at(view.place(row), message, seen=size, expected="above 0", severity=Severity.WARNING)
    for row in view.rows(pc.equal(pc.binary_length(view.adds.column("path")), 0)):
        yield PATH_EMPTY.at(view.place(row), "the path of an add is empty", seen='""', expected="the path of a file")
    for row in view.rows(pc.less(times, OLDEST_MS)):
        yield _bad_time(view, row, times[row].as_py())
    if view.versions is None:  # adds of commits are compared with the time of their commit
        for row in view.rows(pc.greater(times, view.now_ms + DAY_MS)):
            time = times[row].as_py()
            message = f"{_path(view, row)} has modificationTime {format_timestamp(time)}, which is in the future"
            yield BAD_MODIFICATION_TIME.at(view.place(row), message, seen=time, expected=f"at most {view.now_ms}")


def _bad_time(view: FilesView, row: int, time: int) -> Finding:
    if time <= 0:
        message = f"{_path(view, row)} has the invalid modificationTime {time}"
    else:
        message = f"{_path(view, row)} has modificationTime {format_timestamp(time)}"
        if time * 1000 >= OLDEST_MS:
            message += f"; read as seconds it would be {format_timestamp(time * 1000)}"
    return BAD_MODIFICATION_TIME.at(view.place(row), message, seen=time, expected="milliseconds since 1970")


def _path(view: FilesView, row: int) -> str:
    path: str = view.adds.column("path")[row].as_py()
    return path or "the file"


@AREA.check(CommitView, BAD_MODIFICATION_TIME)
def files_younger_than_their_commit(view: CommitView) -> Iterator[Finding]:
    """Check that a file is not newer than the commit that adds it."""
    latest = commit_time(view) + DAY_MS
    for placed in view.adds:
        time = placed.action.get("modificationTime")
        if type(time) is int and time > latest:
            yield BAD_MODIFICATION_TIME.at(
                place_of(view, placed),
                f"{name_of(placed)} has modificationTime {format_timestamp(time)}, more than a day after its commit",
                seen=time,
                expected=f"at most {latest}",
            )


def commit_time(view: CommitView) -> int:
    """Return the latest possible time of a commit. Copying may have changed the time of its file in either
    direction.
    """
    written = (view.commit_info or {}).get("timestamp")
    return max(view.modified_ms, view.in_commit_timestamp or 0, written if type(written) is int else 0)


@AREA.check(CommitView, TAGS_NULL_VALUE)
def tags_are_text(view: CommitView) -> Iterator[Finding]:
    """Check the tags of adds, removes and change data files."""
    for kind, actions in (("add", view.adds), ("remove", view.removes), ("cdc", view.of_kind("cdc"))):
        for placed in actions:
            tags = placed.action.get("tags")
            if not tags or not isinstance(tags, dict):
                continue
            odd = [str(name) for name, value in tags.items() if not isinstance(value, str)]
            if odd:
                message = f"tag {odd[0]} of the {kind} of {name_of(placed)} is not a string"
                seen = tags[odd[0]]
                yield TAGS_NULL_VALUE.at(
                    place_of(view, placed), message, seen="null" if seen is None else seen, expected="a string"
                )


@AREA.check(
    CommitView,
    NEGATIVE_SIZE,
    PATH_EMPTY,
    DELETION_TIMESTAMP_MISSING,
    DELETION_TIMESTAMP_ODD,
    EXTENDED_METADATA_LIE,
    REMOVE_SIZE_MISSING,
)
def fields_of_removes(view: CommitView) -> Iterator[Finding]:
    """Check the fields of removes."""
    latest = commit_time(view) + WRITER_SKEW_MS
    for file in view.removed:
        placed, remove = file.placed, file.placed.action
        size, time = remove.get("size"), remove.get("deletionTimestamp")
        if remove.get("path") == "":
            message = "the path of a remove is empty"
            yield PATH_EMPTY.at(place_of(view, placed), message, seen='""', expected="the path of a file")
        if size is None or remove.get("partitionValues") is None:
            yield from _incomplete(view, placed)
        if type(size) is int and size < 0:
            message = f"the remove of {name_of(placed)} has size {size}"
            yield NEGATIVE_SIZE.at(place_of(view, placed), message, seen=size, expected="above 0")
        if time is None:
            message = f"the remove of {name_of(placed)} has no deletionTimestamp and counts as expired at once"
            yield DELETION_TIMESTAMP_MISSING.at(place_of(view, placed), message, expected="milliseconds since 1970")
        elif type(time) is int:
            if time > latest:
                yield DELETION_TIMESTAMP_ODD.at(
                    place_of(view, placed),
                    f"{name_of(placed)} was removed at {format_timestamp(time)}, later than its commit",
                    seen=time,
                    expected=f"at most {latest}",
                )
            elif (made := _made(file)) is not None and time < made - WRITER_SKEW_MS:
                removed_at, made_at = format_timestamp(time), format_timestamp(made)
                yield DELETION_TIMESTAMP_ODD.at(
                    place_of(view, placed),
                    f"{name_of(placed)} was removed at {removed_at}, before its creation at {made_at}",
                    seen=time,
                    expected=f"at least {made}",
                )


def _incomplete(view: CommitView, placed: LocatedAction) -> Iterator[Finding]:
    remove = placed.action
    lacks = [name for name in ("partitionValues", "size") if remove.get(name) is None]
    if remove.get("extendedFileMetadata") is True:
        message = f"the remove of {name_of(placed)} has extendedFileMetadata=true but lacks {' and '.join(lacks)}"
        yield EXTENDED_METADATA_LIE.at(
            place_of(view, placed), message, seen="extendedFileMetadata true", expected=" and ".join(lacks)
        )
    elif "size" in lacks and not VECTOR_FILE.fullmatch(str(remove.get("path"))):  # recorded by drops of the feature
        message = f"the remove of {name_of(placed)} has no size"
        yield REMOVE_SIZE_MISSING.at(place_of(view, placed), message, expected="the size of the file")


def _made(file: TouchedFile) -> int | None:
    """Return the creation time of the removed file, if the live add before it has one."""
    times = [time for live in file.live or () if type(time := live.add.get("modificationTime")) is int]
    # Invalid times are reported with the add and are not compared here.
    return min((time for time in times if time >= OLDEST_MS), default=None)


@AREA.check(CommitView, CDC_DATACHANGE_TRUE, NEGATIVE_SIZE, PATH_EMPTY)
def fields_of_change_files(view: CommitView) -> Iterator[Finding]:
    """Check the fields of cdc actions."""
    for placed in view.of_kind("cdc"):
        size = placed.action.get("size")
        if placed.action.get("dataChange") is True:
            message = f"the change data file {name_of(placed)} has dataChange=true"
            yield CDC_DATACHANGE_TRUE.at(place_of(view, placed), message, seen="true", expected="false")
        if type(size) is int and size <= 0:
            severity = Severity.WARNING if size == 0 else None
            message = f"the change data file {name_of(placed)} has size {size}"
            yield NEGATIVE_SIZE.at(place_of(view, placed), message, seen=size, expected="above 0", severity=severity)
        if placed.action.get("path") == "":
            message = "the path of a change data file is empty"
            yield PATH_EMPTY.at(place_of(view, placed), message, seen='""', expected="the path of a file")
