"""Rules about type widening: how type changes appear and disappear from one metadata to the next. Spec: Type
Widening.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.log.log_path import Place
from deltacli.delta.schema.type_changes import (
    NamedField,
    TypeChange,
    canonical_name,
    changed_fields,
    is_allowed_change,
    is_supported,
    named_fields,
    primitive_paths,
    type_at,
)
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import MetadataView, StateView
from deltacli.rules.widening.entries import ENABLED, changes_of

AREA = Area("widening")

LOST_HISTORY = AREA.error(
    "typewidening.lost-history",
    "A type change is no longer recorded although older files are live.",
    spec="Type Widening: Writer Requirements for Type Widening",
    broken="readers do not expect the older type in those files, and fail or read wrong values",
    repair="commit a metaData with the missing type changes",
    example="metaData without the delta.typeChanges that the metaData before it had",
)
PROPERTY_MISSING = AREA.error(
    "typewidening.property-missing",
    "The type of a column was widened while delta.enableTypeWidening was not true.",
    spec="Type Widening",
    broken="a writer changed a type although the table did not allow it",
    repair="no repair needed if the change was intended; set delta.enableTypeWidening to true",
    example='metaData with a new entry in delta.typeChanges, "configuration":{}',
)


class _Recorded(NamedTuple):
    """A change when first seen: in the metadata of `version`, -1 if that came from a checkpoint."""

    change: TypeChange
    version: int


class _Lost(NamedTuple):
    place: Place
    path: str
    recorded: _Recorded


_Identity = tuple[str, ...]


@AREA.check(MetadataView, PROPERTY_MISSING)
def widened_without_property(view: MetadataView) -> Iterator[Finding]:
    """Report a type that differs from the previous one by an allowed and recorded change."""
    config, previous = view.config, view.previous
    if previous is None or previous.schema is None or not is_supported(config.features) or config.is_on(ENABLED):
        return
    changed = changed_fields(config)
    before = {named.identity: named for named in named_fields(previous.schema)}
    for named in changed:
        older = before.get(named.identity)
        if older is not None:
            yield from _widened(view, older, named)


def _widened(view: MetadataView, older: NamedField, named: NamedField) -> Iterator[Finding]:
    recorded = {(entry.field_path, entry.to_type) for entry in changes_of(named)}
    for path, name in primitive_paths(named.field.data_type):
        was = type_at(older.field.data_type, path)
        if not isinstance(was, PrimitiveType) or not is_allowed_change(was.name, name):
            continue
        if (path, canonical_name(name)) in recorded:
            where = f"{named.path}.{path}" if path else named.path
            message = f"{where} was widened from {was.name} to {name} while {ENABLED} is not true"
            seen = view.config.properties.get(ENABLED, "not set")
            place = view.place._replace(key=named.path)
            yield PROPERTY_MISSING.at(place, message, seen=seen, expected="true")


@AREA.check(MetadataView, LOST_HISTORY)
def remember_changes(view: MetadataView) -> Iterator[Finding]:
    """Record which changes are recorded from which version, and which disappeared. The newest state decides whether
    that matters. None is lost where the column has the earlier type again, as after a restore.
    """
    yield from ()
    if view.config.schema is None:
        return
    version = view.version if view.commit is not None else -1
    born: dict[_Identity, int] = view.memory.setdefault("widening.born", {})
    if is_supported(view.config.features):
        since_then = version if born else -1
        for named in named_fields(view.config.schema):
            born.setdefault(named.identity, since_then)
    known: dict[_Identity, list[_Recorded]] = view.memory.setdefault("widening.known", {})
    lost: dict[tuple[_Identity, TypeChange], _Lost] = view.memory.setdefault("widening.lost", {})
    now = {named.identity: changes_of(named) for named in changed_fields(view.config)}
    if not known and not now:
        return
    fields = {named.identity: named for named in named_fields(view.config.schema)}
    for identity in list(known):
        if identity not in fields:
            del known[identity]
            continue
        kept = now.get(identity, [])
        data_type = fields[identity].field.data_type
        known[identity] = [one for one in known[identity] if not _is_undone(one.change, data_type)]
        for recorded in known[identity]:
            if recorded.change not in kept:
                path = fields[identity].path
                lost[identity, recorded.change] = _Lost(view.place._replace(key=path), path, recorded)
    for identity, changes in now.items():
        since = {recorded.change: recorded.version for recorded in known.get(identity, [])}
        for change in changes:
            loss = lost.pop((identity, change), None)
            since.setdefault(change, loss.recorded.version if loss else version)
        known[identity] = [_Recorded(change, since[change]) for change in changes]


@AREA.check(StateView, LOST_HISTORY)
def changes_that_files_need(view: StateView) -> Iterator[Finding]:
    """Report changes that disappeared although older files are live. Files of a checkpoint are older than any
    commit. Those from before the column was added do not have it, and none has a partition column.
    """
    lost: dict[tuple[_Identity, TypeChange], _Lost] = view.memory.get("widening.lost", {})
    if not lost:
        return
    present = {named.identity for named in named_fields(view.config.schema)} if view.config.schema else set()
    born: dict[_Identity, int] = view.memory.get("widening.born", {})
    versions = pc.unique(view.live.column("version")).to_pylist()
    for (identity, change), loss in lost.items():
        if identity not in present or identity[0] in view.config.partition_columns:
            continue
        if not any(born.get(identity, -1) <= version < loss.recorded.version for version in versions):
            continue
        message = (
            f"{loss.path} was changed from {change.from_type} to {change.to_type} in version "
            f"{loss.recorded.version}, which is no longer recorded although older files are live"
        )
        yield LOST_HISTORY.at(loss.place, message, expected=f"{change.from_type} to {change.to_type}")


def _is_undone(change: TypeChange, data_type: DataType) -> bool:
    """Return whether a type is the one before a change, or one before that."""
    present = type_at(data_type, change.field_path)
    if not isinstance(present, PrimitiveType):
        return False
    name, before = canonical_name(present.name), canonical_name(change.from_type)
    return name == before or is_allowed_change(name, before)
