"""Rules about two neighbouring schemas of a branch: what may change."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.paimon.casts import EXPLICIT_DISABLED, Loss
from deltacli.paimon.schema import OF_OLD_ROWS
from deltacli.paimon.schema_changes import (
    Change,
    ChangeKind,
    changes_between,
    dotted,
    meaning_for_old_rows,
    sentence,
)
from deltacli.paimon.types import walk_fields
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.paimon.catalogue import EvolutionView

AREA = Area("Evolution", spec="Update Schema")

_RESTORE = "restore what was there in a new version, and write the rows of younger files anew"


ID_REUSED = AREA.error(
    "paimon.field-id-reused",
    "A new field has an id that no field had before: greater than `highestFieldId` of the version before.",
    broken="the new column shows the values of a dropped one in old files",
    repair=_RESTORE,
    example="a column added with the id 5, which a dropped column had",
)
HIGHEST_ID_DECREASED = AREA.error(
    "paimon.highest-field-id-decreased",
    "`highestFieldId` never decreases.",
    broken="the next added column can take an id of a dropped one",
    repair=_RESTORE,
    example='"highestFieldId" from 6 to 5',
)
PARTITION_KEYS = AREA.error(
    "paimon.partition-keys-changed",
    "The partition keys never change.",
    broken="old files are looked for in the wrong partitions",
    repair=_RESTORE,
    example='"partitionKeys" from ["day"] to []',
)
PRIMARY_KEYS = AREA.error(
    "paimon.primary-keys-changed",
    "The primary keys change only when a column is renamed, once the table has a snapshot.",
    broken="rows of old files are merged by another key",
    repair=_RESTORE,
    example='"primaryKeys" from ["id"] to ["name"]',
)
IMMUTABLE_OPTION = AREA.error(
    "paimon.immutable-option",
    "Options that describe existing files do not change once the table has a snapshot.",
    broken="old files are read in the wrong way",
    repair=_RESTORE,
    example='"bucket-key" from "a" to "b"',
)
TYPE_CHANGE = AREA.error(
    "paimon.type-change",
    "A type changes only to one that readers of old files can convert to. A warning where they can, and only "
    "`disable-explicit-type-casting` forbade the change.",
    broken="readers fail on old files; with a warning, they convert old values as the message says",
    repair=_RESTORE,
    example="a column from VARIANT to INT",
)
NOT_NULL = AREA.warning(
    "paimon.null-to-not-null",
    "A nullable field does not become NOT NULL.",
    broken="old rows with null violate it",
    repair=_RESTORE,
    example="a column from INT to INT NOT NULL",
)
OLD_ROWS = AREA.warning(
    "paimon.option-of-old-rows",
    f"{', '.join(OF_OLD_ROWS)} do not change once the table has a snapshot.",
    broken="writers are refused, or rows that exist are merged and read in another way, as the message says",
    repair="rewrite the rows of older files with INSERT OVERWRITE, if that was not done",
    example='"bucket" from "2" to "4"',
)

_BY_KIND = {
    ChangeKind.PARTITION_KEYS: PARTITION_KEYS,
    ChangeKind.PRIMARY_KEYS: PRIMARY_KEYS,
    ChangeKind.SET_OPTION: IMMUTABLE_OPTION,
    ChangeKind.REMOVE_OPTION: IMMUTABLE_OPTION,
    ChangeKind.TYPE: TYPE_CHANGE,
    ChangeKind.NULLABILITY: NOT_NULL,
    ChangeKind.HIGHEST_FIELD_ID: HIGHEST_ID_DECREASED,
}


@AREA.check(EvolutionView, *dict.fromkeys(_BY_KIND.values()))
def check_changes(view: EvolutionView) -> Iterator[Finding]:
    """Report the changes that Paimon refuses."""
    for change in changes_between(view.before, view.after, has_snapshots=view.has_snapshots):
        rule = _BY_KIND.get(change.kind)
        if rule is not None and change.loss is Loss.REFUSED:
            severity = Severity.WARNING if change.reason == EXPLICIT_DISABLED else None
            message = _message(view, change)
            yield rule.at(
                view.place(_key(change)), message, seen=change.after, expected=change.before, severity=severity
            )


def _message(view: EvolutionView, change: Change) -> str:
    more = "; readers can convert old files" if change.reason == EXPLICIT_DISABLED else ""
    return f"{sentence(change)}, since schema {view.before.id}: {change.reason}{more}"


def _key(change: Change) -> str:
    if change.kind in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION):
        return f"options.{change.path[0]}"
    return dotted(change.path) or change.kind.value


@AREA.check(EvolutionView, OLD_ROWS)
def check_options_of_old_rows(view: EvolutionView) -> Iterator[Finding]:
    """Report options that changed although rows exist which were written under the former value."""
    for change in changes_between(view.before, view.after) if view.has_snapshots else ():
        if (meaning := meaning_for_old_rows(change)) is not None:
            message = f"{sentence(change)}, since schema {view.before.id}: {meaning}"
            yield OLD_ROWS.at(view.place(_key(change)), message, seen=change.after, expected=change.before)


@AREA.check(EvolutionView, ID_REUSED)
def check_new_ids(view: EvolutionView) -> Iterator[Finding]:
    """Report new fields with an id that may have been in use."""
    known = {field.id for _, field in walk_fields(view.before.fields)}
    highest = max(view.before.highest_field_id, view.before.greatest_id)
    for path, field in walk_fields(view.after.fields):
        if field.id not in known and field.id <= highest:
            message = f"{dotted(path)} is new, and its id may have belonged to a dropped field"
            yield ID_REUSED.at(view.place(dotted(path)), message, seen=field.id, expected=f"more than {highest}")
