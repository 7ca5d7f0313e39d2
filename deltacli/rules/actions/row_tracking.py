"""Rules about row tracking. Spec: Row Tracking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, FEATURE, MAX_ROW_ID, SUSPENDED, read_mark
from deltacli.delta.log.segment import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.framework import views
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.schema.schema import fresh

if TYPE_CHECKING:
    import pyarrow

AREA = Area("row_tracking", spec="Row Tracking: Writer Requirements for Row Tracking")

COLUMN_PROPERTIES = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
PRESERVED_TAG = "delta.rowTracking.preserved"

BASE_ROW_ID_MISSING = AREA.error(
    "rowtracking.base-row-id-missing",
    "Row tracking is on, but a live file has no baseRowId or no defaultRowCommitVersion.",
    spec="Row Tracking: Row IDs",
    broken="the rows of the file have no row ids, and readers that need them fail",
    repair="turn row tracking off and on again with an engine that assigns the missing ids",
    loss="nothing; ids that the file had earlier cannot be recovered",
    example='{"add":{"path":"part-0.parquet",…}} without baseRowId, delta.enableRowTracking is true',
)
OVERLAP = AREA.error(
    "rowtracking.overlap",
    "Two live files claim the same row ids.",
    broken="two rows of the table have the same id",
    repair="rewrite one of the two files with an engine that assigns new ids",
    loss="the ids of the rewritten rows",
    example='{"add":{…,"baseRowId":10}} and {"add":{…,"baseRowId":15}}, ten rows each',
)
HIGH_WATER_MARK = AREA.error(
    "rowtracking.high-water-mark",
    "The high-water mark of row ids is missing, or is below an id that a live file has.",
    broken="the next writer assigns ids that are already in use",
    repair="commit a domainMetadata action of delta.rowTracking with the highest id in use",
    example='{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{\\"rowIdHighWaterMark\\":9}",…}}, and a '
    "file with baseRowId 10",
)
HIGH_WATER_MARK_DECREASED = AREA.error(
    "rowtracking.high-water-mark-decreased",
    "A commit lowers the high-water mark of row ids.",
    broken="ids of deleted rows may be assigned to other rows",
    repair="commit a domainMetadata action of delta.rowTracking with the highest earlier mark",
    example='{"rowIdHighWaterMark":19} after {"rowIdHighWaterMark":99}',
)
COMMIT_VERSION = AREA.error(
    "rowtracking.commit-version",
    "A defaultRowCommitVersion is higher than the version of its commit, or differs from the previous value of the "
    "file.",
    broken="rows appear to have changed although they did not",
    repair="commit the add again with its original version",
    example='{"add":{…,"defaultRowCommitVersion":9}} in commit 3',
)
BASE_ROW_ID_CHANGED = AREA.error(
    "rowtracking.base-row-id-changed",
    "A file is added again, or removed, with a different baseRowId.",
    broken="the ids of all rows of the file change",
    repair="commit the add again with its original baseRowId",
    example='{"add":{"path":"part-0.parquet","baseRowId":40,…}} where it had 0',
)
COLUMN_NAMES = AREA.error(
    "rowtracking.column-names",
    "The column names for row ids and row commit versions are missing, equal, or already used by a column.",
    broken="ids of copied rows cannot be preserved, or are mixed up with data",
    repair="set both properties to unique names before anything is written",
    loss="nothing; ids already written under a wrong name are lost",
    example='delta.rowTracking.materializedRowIdColumnName is "id", and the table has a column id',
)
SUSPENDED_AND_ENABLED = AREA.warning(
    "rowtracking.suspended-and-enabled",
    "Row tracking is both on and suspended.",
    spec="Row Tracking",
    broken="readers rely on row ids that writers need not assign",
    repair="set delta.enableRowTracking to false, or unset delta.rowTrackingSuspended",
    loss="the row ids, if enableRowTracking is set to false",
    example="delta.enableRowTracking and delta.rowTrackingSuspended are true",
)
PRESERVED = AREA.info(
    "rowtracking.preserved-tag",
    "Row tracking is on, but a commit that rewrites files does not record whether it preserves row ids.",
    broken="readers must assume that the ids of copied rows were not preserved",
    repair="no repair needed; use a writer that sets delta.rowTracking.preserved",
    example='{"commitInfo":{…}} without tags, in a commit with adds and removes',
)


def is_enabled(config: TableConfiguration) -> bool:
    """Return True if every live file must have row ids."""
    return FEATURE in config.features and config.is_on(ENABLED)


# -- the newest state ------------------------------------------------------------------------------------------------


@AREA.check(views.StateView, BASE_ROW_ID_MISSING)
def files_without_row_ids(view: views.StateView) -> Iterator[Finding]:
    """Check that every live file has both fields since row tracking was turned on."""
    if not is_enabled(view.config) or view.config.is_on(SUSPENDED):
        return
    without_id = pc.is_null(view.live.column("base_row_id"))
    without_version = pc.is_null(view.live.column("default_row_commit_version"))
    for row in pc.indices_nonzero(pc.or_(without_id, without_version)).to_pylist():
        missing = "baseRowId" if without_id[row].as_py() else "defaultRowCommitVersion"
        place = _place_of(view, row)
        yield BASE_ROW_ID_MISSING.at(place, f"the live file {place.key} has no {missing} although row tracking is on")


@AREA.check(views.StateView, OVERLAP)
def files_share_row_ids(view: views.StateView) -> Iterator[Finding]:
    """Compare files in the order of first row ids: each range ends before the next begins (1M files: 0.5 s)."""
    if FEATURE not in view.config.features:
        return
    rows, first, count = ranges_of_ids(view.live)
    last = max(len(rows) - 1, 0)
    gap = pc.subtract(first.slice(1), first.slice(0, last))
    for hit in pc.indices_nonzero(pc.less(gap, count.slice(0, last))).to_pylist():
        lower, upper = (view.live.slice(rows[hit + n].as_py(), 1).to_pylist()[0] for n in (0, 1))
        if lower["key"] == upper["key"]:
            continue  # another rule reports a data file that is live twice
        place = _place_of(view, rows[hit + 1].as_py())
        begin, next_begin = lower["base_row_id"], upper["base_row_id"]
        end = begin + count[hit].as_py() - 1
        message = f"the row ids of {upper['path']} begin at {next_begin}, within the range of {lower['path']}"
        yield OVERLAP.at(place, message, seen=f"{begin} to {end} and from {next_begin}", expected=f"from {end + 1}")


@AREA.check(views.StateView, HIGH_WATER_MARK)
def high_water_mark_is_below_ids(view: views.StateView) -> Iterator[Finding]:
    """Check that the mark exists and covers every id in use."""
    if FEATURE not in view.config.features:
        return
    highest = _highest_id(view.live)
    if highest is None:
        return
    place = view.place(DOMAIN)
    configuration = view.domains.get(DOMAIN)
    if configuration is None:
        message = f"files have row ids up to {highest}, but there is no domain {DOMAIN} with a high-water mark"
        yield HIGH_WATER_MARK.at(place, message, expected=f"at least {highest}")
        return
    mark = read_mark(configuration)
    if mark is None:
        message = f"the domain {DOMAIN} has no high-water mark of row ids"
        yield HIGH_WATER_MARK.at(place, message, seen=configuration, expected=f'{{"rowIdHighWaterMark":{highest}}}')
    elif highest > MAX_ROW_ID:
        message = f"a live file has row ids up to {highest}, above {MAX_ROW_ID}, which is the last one"
        yield HIGH_WATER_MARK.at(place, message, seen=highest, expected=f"at most {MAX_ROW_ID}")
    elif mark < highest:
        message = f"the high-water mark of row ids is {mark}, but a live file has ids up to {highest}"
        yield HIGH_WATER_MARK.at(place, message, seen=mark, expected=f"at least {highest}")


def uncounted(view: views.StateView) -> int:
    """Return how many live files have row ids that end at an unknown one, because the log does not count their rows."""
    base, records = view.live.column("base_row_id"), view.live.column("num_records")
    return pc.sum(pc.and_(pc.is_valid(base), pc.is_null(records))).as_py() or 0


def ranges_of_ids(live: pyarrow.Table) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
    """Return the rows of files that have row ids in the order of their first ids, those ids, and the number of rows of
    each file, which is known and at least one.
    """
    base, records = live.column("base_row_id"), live.column("num_records")
    rows = pc.indices_nonzero(pc.and_(pc.is_valid(base), pc.fill_null(pc.greater(records, 0), False)))
    rows = pc.take(rows, pc.sort_indices(pc.take(base, rows)))
    return rows, pc.take(base, rows).combine_chunks(), pc.take(records, rows).combine_chunks()


def _highest_id(live: pyarrow.Table) -> int | None:
    base, records = live.column("base_row_id"), pc.fill_null(live.column("num_records"), 1)
    ends = pc.subtract(pc.add(base, records), 1)
    wraps = pc.fill_null(pc.and_(pc.greater(records, 0), pc.less(ends, base)), False)
    if pc.any(wraps).as_py():  # above the largest number of 64 bits
        pairs = zip(pc.filter(base, wraps).to_pylist(), pc.filter(records, wraps).to_pylist(), strict=True)
        return max(int(first) + int(count) - 1 for first, count in pairs)
    highest: int | None = pc.min_max(ends)["max"].as_py()
    return highest if highest is not None and highest >= 0 else None


def _place_of(view: views.StateView, row: int) -> Place:
    """Return the commit that added a live file, or the newest version if a checkpoint added it."""
    path, version = view.live.column("path")[row].as_py(), view.live.column("version")[row].as_py()
    if version < 0:
        return view.place(path)
    return Place(f"{LOG_DIRECTORY}/{commit_name(version)}", None, version, path)


# -- commits ---------------------------------------------------------------------------------------------------------


@AREA.check(views.HistoryView, HIGH_WATER_MARK_DECREASED)
def high_water_mark_goes_down(view: views.HistoryView) -> Iterator[Finding]:
    """Compare the mark of each commit with the previous one. The mark ends with the domain or the feature."""
    before: int | None = None
    for commit in view.commits:
        if FEATURE not in commit.after.features:
            before = None
            continue
        for placed in commit.of_kind("domainMetadata"):
            if placed.action.get("domain") != DOMAIN:
                continue
            mark = None if placed.action.get("removed") is True else read_mark(placed.action.get("configuration"))
            if before is not None and mark is not None and mark < before:
                message = f"the high-water mark of row ids decreases from {before} to {mark}"
                place = commit.place(placed.line, DOMAIN)
                yield HIGH_WATER_MARK_DECREASED.at(place, message, seen=mark, expected=f"at least {before}")
            before = mark


@AREA.check(views.CommitView, COMMIT_VERSION, BASE_ROW_ID_CHANGED)
def row_ids_change(view: views.CommitView) -> Iterator[Finding]:
    """Check that a file that is added again, or removed, keeps its ids and its version."""
    if FEATURE not in view.after.features:
        return
    for kind, placed_actions in (("add", view.adds), ("remove", view.removes)):
        for placed in placed_actions:
            base, version = placed.action.get("baseRowId"), placed.action.get("defaultRowCommitVersion")
            if version is not None and version > view.version:
                path = placed.action.get("path")
                message = f"{path} has the defaultRowCommitVersion {version}, which is later than its commit"
                place = view.place(placed.line, path)
                yield COMMIT_VERSION.at(place, message, seen=version, expected=f"at most {view.version}")
            elif base is not None or version is not None:
                yield from _changed(view, kind, placed)


def _changed(view: views.CommitView, kind: str, placed: views.LocatedAction) -> Iterator[Finding]:
    path = placed.action.get("path")
    live = view.live_before(path) if path else None
    if not live:
        return
    last = max(live, key=lambda file: (file.version, file.line or 0))
    verb = "added again" if kind == "add" else "removed"
    for rule, name in ((BASE_ROW_ID_CHANGED, "baseRowId"), (COMMIT_VERSION, "defaultRowCommitVersion")):
        new, old = placed.action.get(name), last.add.get(name)
        if new is not None and old is not None and new != old:
            message = f"{path} is {verb} with the {name} {new}, but had {old}"
            yield rule.at(view.place(placed.line, path), message, seen=new, expected=old)


@AREA.check(views.CommitView, PRESERVED)
def tag_is_missing(view: views.CommitView) -> Iterator[Finding]:
    """Readers treat a missing tag as false. Only a commit that adds and removes files can have copied rows."""
    if not view.adds or not view.removes or not is_enabled(view.before) or not is_enabled(view.after):
        return
    if not isinstance(view.commit_info, dict):
        return
    tags = view.commit_info.get("tags")
    if not isinstance(tags, Mapping) or PRESERVED_TAG not in tags:
        line = view.of_kind("commitInfo")[0].line
        message = f"commitInfo has no tag {PRESERVED_TAG} although row tracking is on"
        yield PRESERVED.at(view.place(line, PRESERVED_TAG), message)


# -- properties ------------------------------------------------------------------------------------------------------


@AREA.check(views.TableConfigurationView, COLUMN_NAMES, SUSPENDED_AND_ENABLED)
def properties_of_row_tracking(view: views.TableConfigurationView) -> Iterator[Finding]:
    """Check the properties, starting where each fault first appears."""
    yield from fresh(view, "row_tracking.properties", _property_findings(view))


def _property_findings(view: views.TableConfigurationView) -> Iterator[Finding]:
    config = view.config
    if FEATURE not in config.features:
        return
    if config.is_on(ENABLED) and config.is_on(SUSPENDED):
        message = f"{ENABLED} and {SUSPENDED} are both true"
        yield SUSPENDED_AND_ENABLED.at(view.place, message, key=SUSPENDED)
    names = {key: config.properties.get(key) for key in COLUMN_PROPERTIES}
    taken = {name.lower() for name in config.columns} | {column.name.lower() for column in config.columns.values()}
    for key, name in names.items():
        place = view.place._replace(key=key)
        if name and name.lower() in taken:
            message = f"{key} names the column {name}, which is a data column of the table"
            yield COLUMN_NAMES.at(place, message, seen=name, expected="a name that no column has")
        elif not name and config.is_on(ENABLED):
            message = f"row tracking is on, but {key} is not set"
            yield COLUMN_NAMES.at(place, message, expected="the name of a column")
    first, second = names.values()
    if first and second and first.lower() == second.lower():
        message = f"row ids and row commit versions use the same column, {first}"
        yield COLUMN_NAMES.at(view.place, message, key=COLUMN_PROPERTIES[1], seen=second, expected="another name")
