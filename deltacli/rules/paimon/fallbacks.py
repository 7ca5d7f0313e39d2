"""Rules about branches that readers of another branch use as well, as `scan.fallback-branch` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.delta.log.log_path import Place
from deltacli.paimon.schema import Schema, is_true
from deltacli.paimon.table_paths import schema_path
from deltacli.paimon.types import type_text, with_nullability
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.paimon.catalogue import BranchesView

AREA = Area("References", spec="Java: FallbackReadFileStoreTable")

FALLBACK = AREA.error(
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


@AREA.check(BranchesView, FALLBACK)
def check_fallbacks(view: BranchesView) -> Iterator[Finding]:
    """Report branches that readers of another one need and cannot use."""
    for fault in faults_of_branches(view.newest):
        schema = view.newest[fault.branch]
        if schema is not None:
            place = Place(schema_path(schema.id, fault.branch), version=schema.id, key=f"options.{fault.key}")
            severity = Severity.WARNING if fault.is_missing else None
            yield FALLBACK.at(place, fault.reason, seen=fault.other, severity=severity)
