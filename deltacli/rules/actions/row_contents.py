"""Rules about the contents of data files: the change types of change data files, and row ids.

Spec: Change Data Files; Row Tracking, Row IDs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.units import plural
from deltacli.delta.encoding.many_values import Repeated
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.row_ids import DOMAIN, FEATURE, read_mark
from deltacli.delta.paths.spelling_columns import canonicalize_paths
from deltacli.rules.actions.row_tracking import OVERLAP, ranges_of_ids
from deltacli.rules.framework import data_file_views
from deltacli.rules.framework.base import Area, Finding, Level

CHANGE_AREA = Area("change_data", Level.DATA, spec="Change Data Files")

_COLUMN = "_change_type"
_KINDS = "insert, update_preimage, update_postimage or delete"
_TEXTS = ("string", "large_string", "string_view")

NO_CHANGE_TYPE = CHANGE_AREA.error(
    "cdc.no-change-type",
    "A change data file has no string column `_change_type`.",
    broken="readers of changes fail, or cannot determine the change type of these rows",
    repair="past versions cannot be repaired; readers of changes can start after that version",
    loss="the changes of that version",
    example="a change data file with only the columns of the table",
    level=Level.FOOTERS,
)
BAD_CHANGE_TYPE = CHANGE_AREA.error(
    "cdc.bad-change-type",
    "The change type of a change data row is not insert, update_preimage, update_postimage or delete.",
    broken="readers of changes cannot determine the change type of these rows",
    repair="past versions cannot be repaired; find the writer that uses unrecognized change types",
    loss="the changes of these rows",
    example="a row with the `_change_type` update",
)
UNBALANCED = CHANGE_AREA.warning(
    "cdc.pre-post-unbalanced",
    "The change data of a version has different numbers of update preimages and postimages, or does not match the "
    "rows that its files add.",
    broken="readers that follow updates see rows appear or disappear",
    repair="past versions cannot be repaired; find the writer that does not write both images",
    loss="the other image of these updates",
    example="three rows of update_preimage, and two of update_postimage",
)


@CHANGE_AREA.check(data_file_views.ChangeFileView, NO_CHANGE_TYPE, BAD_CHANGE_TYPE)
def kinds_of_changes(view: data_file_views.ChangeFileView) -> Iterator[Finding]:
    """Check that the column of change types exists and has valid values."""
    at = view.schema.arrow.get_all_field_indices(_COLUMN)
    kind = str(view.schema.arrow.field(at[0]).type) if at else None
    if kind is None or kind.removeprefix("dictionary<values=").split(",")[0] not in _TEXTS:
        what = "has no column" if kind is None else f"has {kind}, not strings, in the column"
        message = f"the change data file {view.place.key} {what} {_COLUMN}"
        yield NO_CHANGE_TYPE.at(view.place, message, seen=kind or "no column", expected="string")
    elif view.types is not None and view.types.bad:
        has = "has" if view.types.bad == 1 else "have"
        message = (
            f"{plural(view.types.bad, 'row')} of the change data file {view.place.key} {has} an invalid {_COLUMN}, "
            f"for example {view.types.example}"
        )
        yield BAD_CHANGE_TYPE.at(view.place, message, seen=view.types.example, expected=_KINDS)


@CHANGE_AREA.check(data_file_views.ChangedVersionView, UNBALANCED)
def images_of_updates(view: data_file_views.ChangedVersionView) -> Iterator[Finding]:
    """Check that each update has a preimage and a postimage, and that inserts minus deletes are the rows files add."""
    before, after = (view.types.counts.get(f"update_{image}", 0) for image in ("preimage", "postimage"))
    if before != after:
        message = (
            f"the change data of version {view.version} has {plural(before, 'preimage')} and "
            f"{plural(after, 'postimage')}"
        )
        yield UNBALANCED.at(view.place, message, seen=f"{before:,} and {after:,}", expected="equal numbers")
    elif view.rows_added is not None and not view.types.bad:
        told = view.types.counts.get("insert", 0) - view.types.counts.get("delete", 0)
        if told != view.rows_added:
            message = (
                f"the change data of version {view.version} adds {told:,} rows (inserts minus deletes), but its "
                f"files add {view.rows_added:,}"
            )
            yield UNBALANCED.at(view.place, message, seen=f"{told:,}", expected=f"{view.rows_added:,}")


# -- rules about the row ids of rows -----------------------------------------------------------------------------------

ROW_ID_AREA = Area("row_tracking", Level.DATA)

ROW_ID_QUESTION = "row_ids"

DUPLICATE = ROW_ID_AREA.error(
    "rowtracking.materialised-duplicate",
    "A row has a row id in its file that another row also has.",
    spec="Row Tracking: Row IDs",
    broken="two rows of the table have the same id, so readers that track rows by id confuse them",
    repair="rewrite one of the two files with an engine that assigns new ids",
    loss="the ids of the rewritten rows",
    example="a file with the row id 12 in its column of row ids, and a live file of 20 rows with baseRowId 0",
)
BEYOND_MARK = ROW_ID_AREA.error(
    "rowtracking.materialised-beyond-mark",
    "A row has a row id in its file that is above the high-water mark of row ids.",
    spec="Row Tracking: Row IDs",
    broken="a later writer assigns the id to another row",
    repair="commit a domainMetadata action of delta.rowTracking with the highest id in use",
    example='a file with the row id 40 in its column of row ids, and {"rowIdHighWaterMark":39}',
)


class RowIdFacts(NamedTuple):
    """The ids of a file that other rows also have, in it or in a file before; and the highest id that it stores."""

    repeated: Repeated
    highest: int | None


@ROW_ID_AREA.check(data_file_views.AnswersView, DUPLICATE, BEYOND_MARK)
def row_ids_of_files(view: data_file_views.AnswersView) -> Iterator[Finding]:
    """Compare each file with itself, with earlier files and with the mark. Rules on the log report overlapping ranges
    of baseRowId, and those above the mark.
    """
    mark = read_mark(view.domains.get(DOMAIN))
    for row, answers in enumerate(view.answers):
        found: RowIdFacts | None = answers.get(ROW_ID_QUESTION)
        if found is None:
            continue
        place, repeated = view.place(row), found.repeated
        if repeated.least is not None:
            has = "has a row id" if repeated.times == 1 else "have row ids"
            message = (
                f"{plural(repeated.times, 'row')} of {place.key} {has} that other rows also have, for example "
                f"{repeated.least}"
            )
            yield DUPLICATE.at(place, message, seen=repeated.least, expected="each row id only once")
        if found.highest is not None and mark is not None and found.highest > mark:
            message = f"{place.key} has row ids up to {found.highest}, but the high-water mark of row ids is {mark}"
            yield BEYOND_MARK.at(place, message, seen=found.highest, expected=f"at most {mark}")


# -- row ids of files whose rows only their footers count --------------------------------------------------------------


@ROW_ID_AREA.check(data_file_views.FootersView, OVERLAP)
def counted_by_footers(view: data_file_views.FootersView) -> Iterator[Finding]:
    """Collect the row ids of files, 24 bytes each, and the places of those whose rows only footers count."""
    if FEATURE not in view.config.features:
        return
    known = view.run_memory.setdefault(OVERLAP.id, ([], {}))
    parts, places = known
    base, records = view.adds.column("baseRowId"), extract_num_records_column(view.adds.column("stats"))
    keys = [hash(key) for key in canonicalize_paths(view.adds.column("path")).to_pylist()]
    columns = {"key": pa.array(keys, pa.int64()), "base_row_id": base, "num_records": pc.coalesce(records, view.rows)}
    parts.append(pa.table(columns))
    for row in pc.indices_nonzero(pc.and_(pc.is_valid(base), pc.is_null(records))).to_pylist():
        places[keys[row]] = view.place(row)
    yield from ()


@ROW_ID_AREA.check(data_file_views.AllFootersView, OVERLAP)
def uncounted_files_share_row_ids(view: data_file_views.AllFootersView) -> Iterator[Finding]:
    """Compare those files with all others. A data file that is live twice is one."""
    parts, places = view.run_memory.get(OVERLAP.id, ((), {}))
    if not places:
        return
    live = aggregate_rows(pa.concat_tables(parts), ["key", "base_row_id"], [("num_records", "max")])
    live = live.rename_columns([name.removesuffix("_max") for name in live.column_names])
    rows, *found = ranges_of_ids(live)
    keys, firsts, counts = (column.to_pylist() for column in (pc.take(live.column("key"), rows), *found))
    reached = -1
    for at, (key, begin, count) in enumerate(zip(keys, firsts, counts, strict=True)):
        end, place = begin + count - 1, places.get(key)
        if place is not None and (begin <= reached or (at + 1 < len(firsts) and firsts[at + 1] <= end)):
            message = (
                f"the row ids of {place.key} are {begin} to {end} by its footer, and another file has some of them"
            )
            yield OVERLAP.at(place, message, seen=f"{begin} to {end}", expected="ids that no other file has")
        reached = max(reached, end)
