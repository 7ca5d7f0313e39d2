"""Rules about the files of change data: that each row says what happened to it. Spec: Change Data Files."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Severity
from deltacli.delta.rules.framework.file_views import ChangedVersionView, ChangeFileView
from deltacli.units import plural

AREA = Area("change_data")

_COLUMN = "_change_type"
_KINDS = "insert, update_preimage, update_postimage or delete"
_TEXTS = ("string", "large_string", "string_view")

NO_CHANGE_TYPE = AREA.rule(
    "cdc.no-change-type",
    Severity.ERROR,
    Level.FOOTERS,
    "A file of change data has no column `_change_type` of strings.",
    spec="Change Data Files",
    fix=Fix(
        broken="readers of changes fail, or can't tell what happened to these rows",
        mend="none for what is past; readers of changes can begin after that version",
        loss="the changes of that version",
    ),
    example="a file of change data with the columns of the table and no other",
)
BAD_CHANGE_TYPE = AREA.rule(
    "cdc.bad-change-type",
    Severity.ERROR,
    Level.DATA,
    "A row of change data is neither insert, update_preimage, update_postimage nor delete.",
    spec="Change Data Files",
    fix=Fix(
        broken="readers of changes can't tell what happened to these rows",
        mend="none for what is past; find the writer that does not know the kinds of changes",
        loss="the changes of these rows",
    ),
    example="a row with the `_change_type` update",
)
UNBALANCED = AREA.rule(
    "cdc.pre-post-unbalanced",
    Severity.WARNING,
    Level.DATA,
    "The change data of a version has not as many rows before an update as after it, or tells of other rows than come.",
    spec="Change Data Files",
    fix=Fix(
        broken="readers that follow updates see rows appear or vanish",
        mend="none for what is past; find the writer that does not write both images",
        loss="the other image of these updates",
    ),
    example="three rows of update_preimage, and two of update_postimage",
)


@AREA.check(ChangeFileView, NO_CHANGE_TYPE, BAD_CHANGE_TYPE)
def kinds_of_changes(view: ChangeFileView) -> Iterator[Finding]:
    """What the column of the kinds says, or that there is none."""
    at = view.schema.arrow.get_all_field_indices(_COLUMN)
    kind = str(view.schema.arrow.field(at[0]).type) if at else None
    if kind is None or kind.removeprefix("dictionary<values=").split(",")[0] not in _TEXTS:
        what = "has no column" if kind is None else f"has {kind}, not strings, in the column"
        message = f"the change data file {view.place.key} {what} {_COLUMN}"
        yield NO_CHANGE_TYPE.at(view.place, message, seen=kind or "no column", expected="string")
    elif view.types is not None and view.types.bad:
        bad = plural(view.types.bad, "row")
        message = f"{bad} of the change data file {view.place.key} say {view.types.example} in {_COLUMN}, for one"
        yield BAD_CHANGE_TYPE.at(view.place, message, seen=view.types.example, expected=_KINDS)


@AREA.check(ChangedVersionView, UNBALANCED)
def images_of_updates(view: ChangedVersionView) -> Iterator[Finding]:
    """Each updated row has an image before and one after; inserts less deletes are what the version's files add."""
    before, after = (view.types.counts.get(f"update_{image}", 0) for image in ("preimage", "postimage"))
    if before != after:
        message = f"the change data of version {view.version} has {plural(before, 'preimage')} and {after:,} after it"
        yield UNBALANCED.at(view.place, message, seen=f"{before:,} and {after:,}", expected="as many of both")
    elif view.rows_added is not None and not view.types.bad:
        told = view.types.counts.get("insert", 0) - view.types.counts.get("delete", 0)
        if told != view.rows_added:
            message = (
                f"by its change data version {view.version} adds {told:,} rows (inserts less deletes), by its files "
                f"{view.rows_added:,}"
            )
            yield UNBALANCED.at(view.place, message, seen=f"{told:,}", expected=f"{view.rows_added:,}")
