"""Rules about the schemas of a branch: which exist, how each follows the one before, and fallback branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from deltacli.core.typing import Json
from deltacli.delta.log.segment import Place
from deltacli.paimon.schema import OF_OLD_ROWS, Schema, is_true
from deltacli.paimon.schema_changes import (
    EXPLICIT_DISABLED,
    Change,
    ChangeKind,
    Loss,
    changes_between,
    dotted,
    find_options_of_other_columns,
    meaning_for_old_rows,
    sentence,
)
from deltacli.paimon.snapshots import SCHEMA_DIRECTORY, branch_root, schema_path
from deltacli.paimon.types import type_text, walk_fields, with_nullability
from deltacli.rules.framework.base import Area, Finding, ReadFault, Severity
from deltacli.rules.paimon.catalogue import BranchesView, BranchView, EvolutionView

AREA = Area("References", spec="Update Schema")


SCHEMA_MISSING = AREA.error(
    "paimon.schema-missing",
    "Each schema that a snapshot, tag, changelog, manifest or data file names exists.",
    broken="readers fail on the snapshots and files that name it",
    repair="restore the schema file from a backup, or from a branch that has a copy",
    example="no schema-3, which a live data file was written with",
)
STRAY_FILE = AREA.warning(
    "paimon.stray-file",
    "The directory of the schemas contains files named schema-N only.",
    broken="readers ignore the file; a writer may have died",
    repair="delete it if it is older than a day",
    example=".schema-8.4f1c.tmp",
)
BAD_SNAPSHOT = AREA.error(
    "paimon.bad-snapshot",
    "Snapshots, tags and changelogs are JSON objects with an id and a schemaId.",
    broken="the snapshot cannot be read",
    repair="restore the file from a backup",
    example="an empty snapshot-4",
)
BAD_MANIFEST = AREA.error(
    "paimon.bad-manifest",
    "Manifests can be read.",
    broken="the snapshots that name it cannot be read",
    repair="restore the file from a backup",
    example="a truncated manifest",
)
MANIFEST_MISSING = AREA.error(
    "paimon.manifest-missing",
    "Manifests that snapshots name exist.",
    broken="the snapshots that name it cannot be read",
    repair="restore the file from a backup",
    example="a manifest list that was deleted",
)
NO_PERMISSION = AREA.error(
    "paimon.no-permission",
    "Schemas, snapshots, tags, changelogs and manifests can be read with the permissions of this user.",
    broken="the checks of the file are left out",
    repair="grant read access, or run as another user",
    example="a schema-2 with mode 000",
)
BAD_STATISTICS = AREA.warning(
    "paimon.bad-statistics",
    "Statistics that snapshots name are JSON objects with a schemaId.",
    broken="engines plan without the statistics, or fail",
    repair="run ANALYZE again",
    example="a snapshot that names statistics that do not exist",
)
BAD_CONSUMER = AREA.warning(
    "paimon.bad-consumer",
    "Consumers are JSON objects with a nextSnapshot.",
    broken="the consumer cannot continue, and snapshots are not expired",
    repair="reset the consumer",
    example="an empty consumer-a",
)
GAP = AREA.info(
    "paimon.schema-gap",
    "Schemas are numbered without gaps.",
    broken="nothing: unused schemas can be deleted",
    repair="none needed",
    example="schema-0 and schema-2 without schema-1",
)
BROKEN = (BAD_SNAPSHOT, BAD_MANIFEST, MANIFEST_MISSING, NO_PERMISSION, BAD_STATISTICS, BAD_CONSUMER)


@AREA.check(BranchView, SCHEMA_MISSING)
def check_references(view: BranchView) -> Iterator[Finding]:
    """Report schemas that are named and have no file."""
    present = set(view.ids)
    for schema_id, users in sorted(view.users.items()):
        if schema_id not in present:
            place = Place(schema_path(schema_id, view.branch), version=schema_id)
            yield SCHEMA_MISSING.at(place, f"schema {schema_id} does not exist; used by {users}", seen=users)


@AREA.check(BranchView, STRAY_FILE, GAP)
def check_listing(view: BranchView) -> Iterator[Finding]:
    """Report other files among the schemas, and gaps."""
    directory = f"{branch_root(view.branch)}{SCHEMA_DIRECTORY}"
    for name in view.strays:
        yield STRAY_FILE.at(Place(f"{directory}/{name}"), "not a schema file")
    for before, after in pairwise(view.ids):
        if after > before + 1:
            text = f"schema {before + 1}" if after == before + 2 else f"schemas {before + 1} to {after - 1}"
            yield GAP.at(Place(schema_path(after, view.branch), version=after), f"{text} missing before it")


@AREA.check_faults(BranchView, *BROKEN)
def check_broken_files(view: BranchView) -> Iterator[ReadFault]:
    """Report snapshots, tags, changelogs and manifests that cannot be read."""
    return (ReadFault(code, Place(path), reason) for path, code, reason in view.broken)


# -- rules about branches that readers of another branch use as well ---------------------------------------------------

FALLBACK_AREA = Area("References", spec="Java: FallbackReadFileStoreTable")

FALLBACK = FALLBACK_AREA.error(
    "paimon.fallback-branch",
    "A branch that options name for reading exists, and has the types and the primary key of the branch that names it. "
    "A warning where it does not exist, which only some versions refuse.",
    broken="every scan of the branch fails",
    repair="make the same changes in both branches",
    example='"scan.fallback-branch": "b", while b lacks the last column',
)
_ALWAYS = ("scan.fallback-branch", "scan.primary-branch")
_OF_CHAINS = ("scan.fallback-snapshot-branch", "scan.fallback-delta-branch")


class BranchFault(NamedTuple):
    """What is wrong between a branch and another one that an option of it names."""

    branch: str
    key: str
    other: str
    reason: str
    is_missing: bool = False


def faults_of_branches(newest: Mapping[str, Schema | None]) -> Iterator[BranchFault]:
    """Yield the branches that readers of another one need and cannot use."""
    for branch, schema in newest.items():
        for key, other in () if schema is None else _named(schema):
            found = newest.get(other)
            why = None if schema is None or found is None else _why_unlike(schema, found)
            if other not in newest:
                reason = f"{key} names the branch {other!r}, which does not exist"
                yield BranchFault(branch, key, other, reason, is_missing=True)
            elif why is not None:
                yield BranchFault(branch, key, other, f"{key} of the branch {branch} names the branch {other}, {why}")


def _named(schema: Schema) -> Iterator[tuple[str, str]]:
    chained = _OF_CHAINS if is_true(schema.options, "chain-table.enabled") else ()
    for key in (*_ALWAYS, *chained):
        if (other := schema.options.get(key, "")).strip():
            yield key, other


def _why_unlike(schema: Schema, other: Schema) -> str | None:
    """Return how a branch differs from the one that names it; None where Java reads both. Java compares no names of
    columns, but those of nested fields with their ids, comments and defaults.
    """
    if len(schema.fields) != len(other.fields):
        return f"which has {len(other.fields)} columns instead of {len(schema.fields)}"
    for mine, its in zip(schema.fields, other.fields, strict=True):
        if with_nullability(mine.type, True) != with_nullability(its.type, True):
            same = type_text(mine.type) == type_text(its.type)
            more = " with other ids, comments or defaults inside" if same else f" instead of {type_text(mine.type)}"
            return f"whose column {its.name} has the type {type_text(its.type)}{more}"
    if schema.primary_keys and schema.primary_keys != other.primary_keys:
        keys = ", ".join(other.primary_keys) or "none"
        return f"whose primary key is {keys} instead of {', '.join(schema.primary_keys)}"
    return None


@FALLBACK_AREA.check(BranchesView, FALLBACK)
def check_fallbacks(view: BranchesView) -> Iterator[Finding]:
    """Report branches that readers of another one need and cannot use."""
    for fault in faults_of_branches(view.newest):
        schema = view.newest[fault.branch]
        if schema is not None:
            place = Place(schema_path(schema.id, fault.branch), version=schema.id, key=f"options.{fault.key}")
            severity = Severity.WARNING if fault.is_missing else None
            yield FALLBACK.at(place, fault.reason, seen=fault.other, severity=severity)


# -- rules about two neighbouring schemas of a branch ------------------------------------------------------------------

EVOLUTION_AREA = Area("Evolution", spec="Update Schema")

_RESTORE = "restore the earlier definition in a new version, and rewrite the rows of newer files"


ID_REUSED = EVOLUTION_AREA.error(
    "paimon.field-id-reused",
    "A new field has an id that no field had before: greater than `highestFieldId` of the version before.",
    broken="the new column shows the values of a dropped one in old files",
    repair=_RESTORE,
    example="a column added with the id 5, which a dropped column had",
)
HIGHEST_ID_DECREASED = EVOLUTION_AREA.error(
    "paimon.highest-field-id-decreased",
    "`highestFieldId` never decreases.",
    broken="the next added column can take an id of a dropped one",
    repair=_RESTORE,
    example='"highestFieldId" from 6 to 5',
)
PARTITION_KEYS = EVOLUTION_AREA.error(
    "paimon.partition-keys-changed",
    "The partition keys never change.",
    broken="old files are looked for in the wrong partitions",
    repair=_RESTORE,
    example='"partitionKeys" from ["day"] to []',
)
PRIMARY_KEYS = EVOLUTION_AREA.error(
    "paimon.primary-keys-changed",
    "The primary keys change only when a column is renamed, once the table has a snapshot.",
    broken="rows of old files are merged by another key",
    repair=_RESTORE,
    example='"primaryKeys" from ["id"] to ["name"]',
)
IMMUTABLE_OPTION = EVOLUTION_AREA.error(
    "paimon.immutable-option",
    "Options that describe existing files do not change once the table has a snapshot.",
    broken="old files are read in the wrong way",
    repair=_RESTORE,
    example='"bucket-key" from "a" to "b"',
)
TYPE_CHANGE = EVOLUTION_AREA.error(
    "paimon.type-change",
    "A type changes only to one that readers of old files can convert to. A warning where they can, and only "
    "`disable-explicit-type-casting` forbade the change.",
    broken="readers fail on old files; with a warning, they convert old values as the message says",
    repair=_RESTORE,
    example="a column from VARIANT to INT",
)
NOT_NULL = EVOLUTION_AREA.warning(
    "paimon.null-to-not-null",
    "A nullable field does not become NOT NULL.",
    broken="old rows with null violate it",
    repair=_RESTORE,
    example="a column from INT to INT NOT NULL",
)
OLD_ROWS = EVOLUTION_AREA.warning(
    "paimon.option-of-old-rows",
    f"{', '.join(OF_OLD_ROWS)} do not change once the table has a snapshot, nor do options by which rows are merged or "
    "existing files are found, or the type of a column that places or orders rows.",
    broken="writers are refused, or rows that exist are missed, merged or read in another way, as the message says",
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


@EVOLUTION_AREA.check(EvolutionView, *dict.fromkeys(_BY_KIND.values()))
def check_changes(view: EvolutionView) -> Iterator[Finding]:
    """Report the changes that Paimon refuses."""
    changes = changes_between(view.before, view.after, has_snapshots=view.has_snapshots)
    others = find_options_of_other_columns(view.before, view.after, has_snapshots=view.has_snapshots)
    for change in (*changes, *others):
        rule = _BY_KIND.get(change.kind)
        if rule is not None and change.loss is Loss.REFUSED:
            severity = Severity.WARNING if change.reason == EXPLICIT_DISABLED else None
            more = "; readers can convert old files" if change.reason == EXPLICIT_DISABLED else ""
            message = f"{sentence(change)}, since schema {view.before.id}: {change.reason}{more}"
            seen, expected = _compare(change, view)
            yield rule.at(view.place(_key(change)), message, seen=seen, expected=expected, severity=severity)


def _compare(change: Change, view: EvolutionView) -> tuple[Json, Json]:
    """Return what a finding shows as seen and as expected. Names of other columns have the same text as before."""
    if not change.is_of_other_columns:
        return change.after, change.before
    return "other columns with these names", f"the columns that have these names in schema {view.before.id}"


def _key(change: Change) -> str:
    if change.kind in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION):
        return f"options.{change.path[0]}"
    return dotted(change.path) or change.kind.value


@EVOLUTION_AREA.check(EvolutionView, OLD_ROWS)
def check_options_of_old_rows(view: EvolutionView) -> Iterator[Finding]:
    """Report options that changed although rows exist which were written under the former value."""
    if not view.has_snapshots:
        return
    changes = changes_between(view.before, view.after)
    for change in (*changes, *find_options_of_other_columns(view.before, view.after)):
        if (meaning := meaning_for_old_rows(change, view.before, view.after)) is not None:
            message = f"{sentence(change)}, since schema {view.before.id}: {meaning}"
            seen, expected = _compare(change, view)
            yield OLD_ROWS.at(view.place(_key(change)), message, seen=seen, expected=expected)


@EVOLUTION_AREA.check(EvolutionView, ID_REUSED)
def check_new_ids(view: EvolutionView) -> Iterator[Finding]:
    """Report new fields with an id that may have been in use."""
    known = {field.id for _, field in walk_fields(view.before.fields)}
    highest = max(view.before.highest_field_id, view.before.greatest_id)
    for path, field in walk_fields(view.after.fields):
        if field.id not in known and field.id <= highest:
            message = f"{dotted(path)} is new, and its id may have belonged to a dropped field"
            yield ID_REUSED.at(view.place(dotted(path)), message, seen=field.id, expected=f"more than {highest}")
