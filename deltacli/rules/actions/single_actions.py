"""Rules about the fields of one action: of files, transactions and domains.

Spec: Add File and Remove File; Add CDC File; Transaction Identifiers; Domain Metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from deltacli.core.times import DAY_MS, EARLIEST_PLAUSIBLE_MS, WRITER_SKEW_MS, format_timestamp
from deltacli.core.units import format_count
from deltacli.delta.data_files import VECTOR_FILE
from deltacli.delta.log.state import TRANSACTION_RETENTION, parse_interval
from deltacli.rules.actions.commit_contents import name_of
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.framework.views import CommitView, FilesView, HistoryView, LocatedAction, StateView, TouchedFile

AREA = Area("actions", spec="Add File and Remove File")

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
    "The deletionTimestamp of a remove is later than its commit, earlier than the creation of the file, or not in "
    "milliseconds.",
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
            place = view.place(row)
            yield NEGATIVE_SIZE.at(place, f"{_path(view, row)} has size {size}", seen=size, expected="above 0")
        elif view.config.metadata is None or view.config.metadata.provider == "parquet":
            message = f"{_path(view, row)} has size 0, but the smallest Parquet file has 12 bytes"
            yield NEGATIVE_SIZE.at(view.place(row), message, seen=size, expected="above 0", severity=Severity.WARNING)
    for row in view.rows(pc.equal(pc.binary_length(view.adds.column("path")), 0)):
        yield PATH_EMPTY.at(view.place(row), "the path of an add is empty", seen='""', expected="the path of a file")
    for row in view.rows(pc.less(times, EARLIEST_PLAUSIBLE_MS)):
        time = times[row].as_py()
        if time <= 0:
            message = f"{_path(view, row)} has the invalid modificationTime {time}"
        else:
            message = f"{_path(view, row)} has modificationTime {format_timestamp(time)}"
            if time * 1000 >= EARLIEST_PLAUSIBLE_MS:
                message += f"; read as seconds it would be {format_timestamp(time * 1000)}"
        yield BAD_MODIFICATION_TIME.at(view.place(row), message, seen=time, expected="milliseconds since 1970")
    if view.versions is None:  # adds of commits are compared with the time of their commit
        for row in view.rows(pc.greater(times, view.now_ms + DAY_MS)):
            time = times[row].as_py()
            message = f"{_path(view, row)} has modificationTime {format_timestamp(time)}, which is in the future"
            yield BAD_MODIFICATION_TIME.at(view.place(row), message, seen=time, expected=f"at most {view.now_ms}")


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
            message = (
                f"{name_of(placed)} has modificationTime {format_timestamp(time)}, more than a day after its commit"
            )
            yield BAD_MODIFICATION_TIME.at(view.place_of(placed), message, seen=time, expected=f"at most {latest}")


def commit_time(view: CommitView) -> int:
    """Return the latest possible time of a commit. A copy may have changed its file's time in either direction."""
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
                place = view.place_of(placed)
                yield TAGS_NULL_VALUE.at(place, message, seen="null" if seen is None else seen, expected="a string")


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
            yield PATH_EMPTY.at(view.place_of(placed), message, seen='""', expected="the path of a file")
        if size is None or remove.get("partitionValues") is None:
            yield from _incomplete(view, placed)
        if type(size) is int and size < 0:
            message = f"the remove of {name_of(placed)} has size {size}"
            yield NEGATIVE_SIZE.at(view.place_of(placed), message, seen=size, expected="above 0")
        if time is None:
            message = f"the remove of {name_of(placed)} has no deletionTimestamp and counts as expired at once"
            yield DELETION_TIMESTAMP_MISSING.at(view.place_of(placed), message, expected="milliseconds since 1970")
        elif type(time) is int:
            if time > latest:
                message = f"{name_of(placed)} was removed at {format_timestamp(time)}, later than its commit"
                yield DELETION_TIMESTAMP_ODD.at(view.place_of(placed), message, seen=time, expected=f"at most {latest}")
            elif (made := _made(file)) is not None and time < made - WRITER_SKEW_MS:
                removed_at, made_at = format_timestamp(time), format_timestamp(made)
                message = f"{name_of(placed)} was removed at {removed_at}, before its creation at {made_at}"
                yield DELETION_TIMESTAMP_ODD.at(view.place_of(placed), message, seen=time, expected=f"at least {made}")
            elif time < EARLIEST_PLAUSIBLE_MS <= latest:
                message = f"{name_of(placed)} was removed at {format_timestamp(time)}, and counts as expired at once"
                if time * 1000 >= EARLIEST_PLAUSIBLE_MS:
                    message += f"; read as seconds it would be {format_timestamp(time * 1000)}"
                place = view.place_of(placed)
                yield DELETION_TIMESTAMP_ODD.at(place, message, seen=time, expected="milliseconds since 1970")


def _incomplete(view: CommitView, placed: LocatedAction) -> Iterator[Finding]:
    remove = placed.action
    lacks = [name for name in ("partitionValues", "size") if remove.get(name) is None]
    if remove.get("extendedFileMetadata") is True:
        message = f"the remove of {name_of(placed)} has extendedFileMetadata=true but lacks {' and '.join(lacks)}"
        place = view.place_of(placed)
        yield EXTENDED_METADATA_LIE.at(place, message, seen="extendedFileMetadata true", expected=" and ".join(lacks))
    elif "size" in lacks and not VECTOR_FILE.fullmatch(str(remove.get("path"))):  # recorded by drops of the feature
        message = f"the remove of {name_of(placed)} has no size"
        yield REMOVE_SIZE_MISSING.at(view.place_of(placed), message, expected="the size of the file")


def _made(file: TouchedFile) -> int | None:
    """Return the creation time of the removed file, if the live add before it has one."""
    times = [time for live in file.live or () if type(time := live.add.get("modificationTime")) is int]
    # Invalid times are reported with the add and are not compared here.
    return min((time for time in times if time >= EARLIEST_PLAUSIBLE_MS), default=None)


@AREA.check(CommitView, CDC_DATACHANGE_TRUE, NEGATIVE_SIZE, PATH_EMPTY)
def fields_of_change_files(view: CommitView) -> Iterator[Finding]:
    """Check the fields of cdc actions."""
    for placed in view.of_kind("cdc"):
        size = placed.action.get("size")
        if placed.action.get("dataChange") is True:
            message = f"the change data file {name_of(placed)} has dataChange=true"
            yield CDC_DATACHANGE_TRUE.at(view.place_of(placed), message, seen="true", expected="false")
        if type(size) is int and size <= 0:
            severity = Severity.WARNING if size == 0 else None
            message = f"the change data file {name_of(placed)} has size {size}"
            yield NEGATIVE_SIZE.at(view.place_of(placed), message, seen=size, expected="above 0", severity=severity)
        if placed.action.get("path") == "":
            message = "the path of a change data file is empty"
            yield PATH_EMPTY.at(view.place_of(placed), message, seen='""', expected="the path of a file")


MOST_APPLICATIONS = 10_000
SYSTEM_PREFIX = "delta."
SYSTEM_DOMAINS = frozenset({"delta.clustering", "delta.rowTracking"})

VERSION_DECREASE = AREA.info(
    "txn.version-decrease",
    "The transaction version of an application is lower than in an earlier commit, as after a rollback.",
    spec="Transaction Identifiers",
    broken="nothing in the table; without an intended rollback, two writers share an application id",
    repair="no repair needed; give each writer its own application id",
    example='{"txn":{"appId":"stream-1","version":3}} after {"txn":{"appId":"stream-1","version":9}}',
)
LAST_UPDATED_MISSING = AREA.info(
    "txn.last-updated-missing",
    "A transaction has no lastUpdated, but transactions of this table expire. Engines disagree about when it does.",
    spec="Transaction Identifiers",
    broken="one engine drops it at the next checkpoint, another keeps it forever",
    repair="let the application commit again with lastUpdated",
    loss="nothing; if it was dropped, the application may write a batch twice",
    example='{"txn":{"appId":"stream-1","version":3}} with delta.setTransactionRetentionDuration',
)
COUNT_HIGH = AREA.info(
    "txn.count-high",
    "More than 10,000 applications have transactions that do not expire.",
    spec="Transaction Identifiers",
    broken="every snapshot and every checkpoint includes all of them",
    repair="set delta.setTransactionRetentionDuration to more than the longest pause of any stream",
    loss="the progress of applications that paused for longer",
    example="a new appId for each run of a job",
)
SYSTEM_UNKNOWN = AREA.info(
    "domain.system-unknown",
    "A domain has the prefix of system domains, but is not a recognized one.",
    spec="Domain Metadata",
    broken="nothing: writers ignore domains they do not recognize",
    repair="no repair needed; applications should name their domains without `delta.`",
    example='{"domainMetadata":{"domain":"delta.somethingNew","configuration":"{}","removed":false}}',
)
WITHOUT_FEATURE = AREA.error(
    "domain.without-feature",
    "A commit has domainMetadata, but the table does not support that feature.",
    spec="Domain Metadata",
    broken="writers without support for domains lose or overwrite this one",
    repair="add domainMetadata to writerFeatures (writer version 7)",
    example='{"domainMetadata":{…}} with {"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
)
TOMBSTONE_EMPTY = AREA.info(
    "domain.tombstone-empty",
    "A domain is removed without its last configuration.",
    spec="Domain Metadata",
    broken="the history does not show what was removed",
    repair="no repair needed",
    example='{"domainMetadata":{"domain":"app.settings","configuration":"","removed":true}}',
)


@AREA.check(HistoryView, VERSION_DECREASE)
def transactions_that_go_back(view: HistoryView) -> Iterator[Finding]:
    """Track the last version of each application, commit by commit."""
    newest: dict[str, tuple[int, int]] = {}
    for commit in view.commits:
        for placed in commit.others:
            if placed.kind != "txn":
                continue
            app_id, version = placed.action.get("appId"), placed.action.get("version")
            if not isinstance(app_id, str) or type(version) is not int:
                continue
            before, where = newest.get(app_id, (version, commit.version))
            # Two of one application in a commit have no order; `commit.duplicate-txn` reports them.
            if version < before and where < commit.version:
                yield VERSION_DECREASE.at(
                    commit.place(placed.line, app_id),
                    f"the version of application {app_id} decreases from {before} (commit {where}) to {version}",
                    seen=version,
                    expected=f"{before} or more, unless it was rolled back",
                )
            newest[app_id] = (version, commit.version)


@AREA.check(StateView, LAST_UPDATED_MISSING, COUNT_HIGH)
def transactions_that_last(view: StateView) -> Iterator[Finding]:
    """Check the transactions of the newest state."""
    text = view.config.properties.get(TRANSACTION_RETENTION)
    retention_ms = parse_interval(text) if text else None
    if retention_ms is not None:
        for app_id, (_, last_updated) in view.transactions.items():
            if last_updated is None:
                yield LAST_UPDATED_MISSING.at(
                    view.place(app_id),
                    f"the transaction of application {app_id} has no lastUpdated, but {TRANSACTION_RETENTION} is set",
                    expected="lastUpdated in epoch milliseconds",
                )
    oldest = None if retention_ms is None else view.now_ms - retention_ms
    live = sum(oldest is None or updated is None or updated > oldest for _, updated in view.transactions.values())
    if live > MOST_APPLICATIONS:
        message = f"{format_count(live)} applications have transactions that have not expired"
        yield COUNT_HIGH.at(view.place(), message, seen=live, expected=f"at most {MOST_APPLICATIONS}")


@AREA.check(StateView, SYSTEM_UNKNOWN)
def system_domains(view: StateView) -> Iterator[Finding]:
    """Check live domains with the reserved prefix."""
    for domain in view.domains:
        if domain.startswith(SYSTEM_PREFIX) and domain not in SYSTEM_DOMAINS:
            message = f"{domain} has the prefix of system domains, but is not a recognized one"
            yield SYSTEM_UNKNOWN.at(view.place(domain), message, seen=domain)


@AREA.check(CommitView, WITHOUT_FEATURE, TOMBSTONE_EMPTY)
def domains_of_a_commit(view: CommitView) -> Iterator[Finding]:
    """Check that domains have their feature and that removed ones keep their last configuration."""
    for placed in view.of_kind("domainMetadata"):
        domain = placed.action.get("domain")
        key = domain if isinstance(domain, str) else None
        place = view.place(placed.line, key)
        if view.after.protocol is not None and "domainMetadata" not in view.after.features:
            message = f"domain {key or 'without a name'} is set, but the table does not support domainMetadata"
            yield WITHOUT_FEATURE.at(place, message, expected="domainMetadata in writerFeatures")
        if placed.action.get("removed") is True and placed.action.get("configuration") == "":
            message = f"domain {key or 'without a name'} is removed without its last configuration"
            yield TOMBSTONE_EMPTY.at(place, message, expected="the configuration before the removal")
