"""Rules about two neighbouring schemas of a branch: what may change."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Rule, Severity
from deltacli.paimon.casts import EXPLICIT_DISABLED, Loss
from deltacli.paimon.rules.views import EvolutionView
from deltacli.paimon.schema_changes import Change, ChangeKind, changes_between, dotted, sentence
from deltacli.paimon.types import walk_fields

AREA = Area("Evolution")

_RESTORE = "restore what was there in a new version, and write the rows of younger files anew"


def _rule(rule_id: str, checks: str, broken: str, example: str, *, severity: Severity = Severity.ERROR) -> Rule:
    fix = Fix(broken, _RESTORE, "nothing")
    return AREA.rule(rule_id, severity, Level.LOG, checks, spec="Update Schema", fix=fix, example=example)


ID_REUSED = _rule(
    "paimon.field-id-reused",
    "A new field has an id that no field had before: greater than `highestFieldId` of the version before.",
    "the new column shows the values of a dropped one in old files",
    "a column added with the id 5, which a dropped column had",
)
HIGHEST_ID_DECREASED = _rule(
    "paimon.highest-field-id-decreased",
    "`highestFieldId` never decreases.",
    "the next added column can take an id of a dropped one",
    '"highestFieldId" from 6 to 5',
)
PARTITION_KEYS = _rule(
    "paimon.partition-keys-changed",
    "The partition keys never change.",
    "old files are looked for in the wrong partitions",
    '"partitionKeys" from ["day"] to []',
)
PRIMARY_KEYS = _rule(
    "paimon.primary-keys-changed",
    "The primary keys change only when a column is renamed, once the table has a snapshot.",
    "rows of old files are merged by another key",
    '"primaryKeys" from ["id"] to ["name"]',
)
IMMUTABLE_OPTION = _rule(
    "paimon.immutable-option",
    "Options that describe existing files do not change once the table has a snapshot.",
    "old files are read in the wrong way",
    '"bucket-key" from "a" to "b"',
)
TYPE_CHANGE = _rule(
    "paimon.type-change",
    "A type changes only to one that readers of old files can convert to. A warning where they can, and only "
    "`disable-explicit-type-casting` forbade the change.",
    "readers fail on old files; with a warning, they convert old values as the message says",
    "a column from VARIANT to INT",
)
NOT_NULL = _rule(
    "paimon.null-to-not-null",
    "A nullable field does not become NOT NULL.",
    "old rows with null violate it",
    "a column from INT to INT NOT NULL",
    severity=Severity.WARNING,
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


@AREA.check(EvolutionView, ID_REUSED)
def check_new_ids(view: EvolutionView) -> Iterator[Finding]:
    """Report new fields with an id that may have been in use."""
    known = {field.id for _, field in walk_fields(view.before.fields)}
    highest = max(view.before.highest_field_id, view.before.greatest_id)
    for path, field in walk_fields(view.after.fields):
        if field.id not in known and field.id <= highest:
            message = f"{dotted(path)} is new, and its id may have belonged to a dropped field"
            yield ID_REUSED.at(view.place(dotted(path)), message, seen=field.id, expected=f"more than {highest}")
