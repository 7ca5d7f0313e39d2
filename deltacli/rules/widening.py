"""Rules about type widening: entries of `delta.typeChanges`, and how they appear and disappear.

Spec: Type Widening.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import LazyText, command
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TYPE_WIDENING_ENABLED
from deltacli.delta.protocol.features import NTZ_FEATURES
from deltacli.delta.protocol.features import TYPE_WIDENING as STABLE
from deltacli.delta.protocol.features import TYPE_WIDENING_PREVIEW as PREVIEW
from deltacli.delta.schema.type_changes import BAD_ENTRY as BAD_ENTRY_ID
from deltacli.delta.schema.type_changes import (
    NOT_ALLOWED,
    BadEntry,
    NamedField,
    TypeChange,
    can_be,
    canonical_name,
    changed_fields,
    is_allowed_change,
    is_iceberg_change,
    is_preview_change,
    is_supported,
    must_refuse,
    named_fields,
    primitive_paths,
    read_type_changes,
    type_at,
)
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.rules.framework.base import LOST_BY_DROPPING, Area, Finding, Level, Severity
from deltacli.rules.framework.views import MetadataView, StateView, TableConfigurationView
from deltacli.rules.schema.schema import fresh

AREA = Area("widening", spec="Type Widening: Type Change Metadata")

ENABLED = TYPE_WIDENING_ENABLED
_ICEBERG_FEATURES = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")

NOT_SUPPORTED = AREA.error(
    "typewidening.not-supported",
    "A column has type changes, but the table does not support type widening.",
    spec="Type Widening",
    broken="readers without support for type widening open files of the older type, and fail or read wrong values",
    repair="add typeWidening to readerFeatures and writerFeatures (reader 3, writer 7)",
    loss="access by readers without type widening",
    example='"metadata":{"delta.typeChanges":[…]} in a table of reader version 1',
)
CHANGE_NOT_ALLOWED = AREA.error(
    NOT_ALLOWED,
    "A column has a type change that is not supported.",
    spec="Type Widening: Reader Requirements for Type Widening",
    broken="readers must refuse the table",
    repair="restore the version before the change, or rewrite the column",
    loss="with a restore, later commits",
    example='{"fromType":"long","toType":"double"}',
)
BAD_ENTRY = AREA.error(
    BAD_ENTRY_ID,
    "The type changes of a column cannot be parsed.",
    broken="readers do not know which types files have, and fail",
    repair="commit a metaData whose delta.typeChanges is a list of objects with fromType and toType",
    example='"delta.typeChanges":[{"fromType":"integer"}]',
)
BAD_PATH = AREA.error(
    "typewidening.bad-path",
    "The fieldPath of a type change is missing, unnecessary, or points to a different part than the changed one.",
    broken="readers apply the change to the wrong part of the column, or fail",
    repair="commit a metaData with the correct fieldPath: key, value and element, joined by dots from outside in",
    example='"fieldPath":"element.key" where the value of the map was changed',
)
CHAIN_BROKEN = AREA.error(
    "typewidening.chain-broken",
    "The type changes of a column do not form a chain, or do not end at its type.",
    broken="it is unknown which types older files may have",
    repair="commit a metaData with the changes as they happened",
    example="short to integer, then byte to long",
)
TABLE_VERSION = AREA.info(
    "typewidening.table-version",
    "A type change has a tableVersion although the feature is stable, or has none with the preview.",
    spec="Delta-Spark: TypeWideningMetadata",
    broken="nothing with the stable feature; engines of the preview may not recognize the change",
    repair="no repair needed; leave the entry unchanged",
    example='{"fromType":"integer","toType":"long","tableVersion":4}',
)
ICEBERG = AREA.error(
    "typewidening.iceberg",
    "A column of a table with Iceberg compatibility has a type change that Iceberg does not support.",
    spec="Type Widening: Writer Requirements for Type Widening",
    broken="the table cannot be converted to Iceberg",
    repair="rewrite the column, then drop its type changes",
    loss="the history of the table",
    example='{"fromType":"integer","toType":"double"} with icebergCompatV2',
)
NTZ_FEATURE = AREA.error(
    "typewidening.ntz-feature",
    "A date column became timestamp_ntz in a table that does not support timestamps without a time zone.",
    spec="Timestamp without timezone (TimestampNtz)",
    broken="readers without support for the type open the table anyway, and fail",
    repair="add timestampNtz to readerFeatures and writerFeatures (reader 3, writer 7)",
    loss="access by readers without timestampNtz",
    example='{"fromType":"date","toType":"timestamp_ntz"} without the feature timestampNtz',
)
FLOAT_BOUNDS = AREA.warning(
    "typewidening.float-bounds",
    "A column was widened to double, but its bounds are those of floats and too narrow for the doubles.",
    spec="Type Widening; Per-file Statistics",
    broken="the float 0.1 is the double 0.10000000149, above a maximum of 0.1: filters skip the file and lose rows",
    repair="commit the same add again with bounds as doubles, or with none, and dataChange=false",
    example='"maxValues":{"x":0.1} in the statistics of a file that stores x, a double, as FLOAT',
    level=Level.FOOTERS,
)
BOTH_FEATURES = AREA.info(
    "typewidening.both-features",
    "The table lists both the stable type widening feature and its preview.",
    spec="Delta-Spark: TypeWideningTableFeature",
    broken="nothing; readers must support both names",
    repair=LazyText("drop one of the names: {}", partial(command, "features drop", "typeWidening-preview")),
    loss=LOST_BY_DROPPING,
    example='"readerFeatures":["typeWidening","typeWidening-preview"]',
)


def changes_of(named: NamedField) -> list[TypeChange]:
    """Return the entries of a field that can be parsed."""
    return [entry for entry in read_type_changes(named.field) if isinstance(entry, TypeChange)]


# -- entries by themselves -------------------------------------------------------------------------------------------


@AREA.check(MetadataView, CHANGE_NOT_ALLOWED, BAD_ENTRY, BAD_PATH, CHAIN_BROKEN)
def entries(view: MetadataView) -> Iterator[Finding]:
    """Check each entry, and the entries of a field together, from the metadata that introduced them."""
    yield from fresh(view, "widening", _entry_findings(view))


def _entry_findings(view: MetadataView) -> Iterator[Finding]:
    for named in changed_fields(view.config):
        place = view.place._replace(key=named.path)
        by_path: dict[str | None, list[TypeChange]] = {}
        broken: set[str | None] = set()
        for entry in read_type_changes(named.field):
            if isinstance(entry, BadEntry):
                message = f"the type changes of {named.path} cannot be parsed: {entry.reason}"
                yield BAD_ENTRY.at(place, message, seen=entry.seen, expected="fromType and toType")
                broken |= {None, *(path for path, _ in primitive_paths(named.field.data_type))}
                continue
            if not is_allowed_change(entry.from_type, entry.to_type):
                yield _not_allowed(view, named, entry)
            fault = _path_fault(named, entry)
            if fault is not None:
                yield BAD_PATH.at(place, fault, seen=entry.field_path, expected=_better_path(named, entry))
                broken.add(entry.field_path)
            by_path.setdefault(entry.field_path, []).append(entry)
        for path, chain in by_path.items():
            if path not in broken:
                yield from _chain_findings(view, named, path, chain)


def _not_allowed(view: MetadataView, named: NamedField, entry: TypeChange) -> Finding:
    """Report a warning if the preview allowed the change, because engines with the preview read such files."""
    is_of_preview = is_preview_change(entry, view.config.features)
    if is_of_preview:
        reason = "which only the preview of type widening allowed"
    elif must_refuse(entry, view.config.features):
        reason = "which readers must refuse"
    else:
        reason = "which is not a supported type change"
    change = f"{entry.from_type} to {entry.to_type}"
    message = f"{named.path} was changed from {change}, {reason}"
    severity = Severity.WARNING if is_of_preview else None
    cases = ("preview",) if is_of_preview else ()
    return CHANGE_NOT_ALLOWED.at(view.place, message, key=named.path, seen=change, severity=severity, cases=cases)


def _path_fault(named: NamedField, entry: TypeChange) -> str | None:
    """Return why the fieldPath of an entry is wrong, or None if it may be right."""
    target = type_at(named.field.data_type, entry.field_path)
    change = f"the change of {named.path} from {entry.from_type} to {entry.to_type}"
    if target is None:
        return f"{change} has the fieldPath {entry.field_path}, which does not exist in that column"
    if not isinstance(target, PrimitiveType):
        if entry.field_path is None:
            return f"{change} has no fieldPath, but the column is not primitive"
        return f"{change} has the fieldPath {entry.field_path}, which does not point to a primitive type"
    # Without a fieldPath there is only one possible part, so the chain is checked instead.
    if entry.field_path is not None and not can_be(entry.to_type, target.name):
        return f"{change} has the fieldPath {entry.field_path}, which points to a {target.name}"
    return None


def _better_path(named: NamedField, entry: TypeChange) -> str | None:
    """Return the only place of the field that has the type an entry changed to, or None if there is not just one."""
    fitting = [
        path or "no fieldPath"
        for path, name in primitive_paths(named.field.data_type)
        if canonical_name(name) == entry.to_type
    ]
    return fitting[0] if len(fitting) == 1 else None


def _chain_findings(
    view: MetadataView, named: NamedField, path: str | None, chain: list[TypeChange]
) -> Iterator[Finding]:
    where = f"{named.path}.{path}" if path else named.path
    place = view.place._replace(key=named.path)
    for older, newer in pairwise(chain):
        if older.to_type != newer.from_type:
            message = f"{where} was changed to {older.to_type}, but the next change is from {newer.from_type}"
            yield CHAIN_BROKEN.at(place, message, seen=newer.from_type, expected=older.to_type)
    target = type_at(named.field.data_type, path)
    if isinstance(target, PrimitiveType) and canonical_name(target.name) != chain[-1].to_type:
        message = f"the last change of {where} is to {chain[-1].to_type}, but its type is {target.name}"
        yield CHAIN_BROKEN.at(place, message, seen=chain[-1].to_type, expected=target.name)


# -- entries and features --------------------------------------------------------------------------------------------


@AREA.check(TableConfigurationView, NOT_SUPPORTED, TABLE_VERSION, ICEBERG, NTZ_FEATURE, BOTH_FEATURES)
def entries_and_features(view: TableConfigurationView) -> Iterator[Finding]:
    """Compare the features of a table with its type changes, from the version where a fault begins."""
    yield from fresh(view, "widening.features", _feature_findings(view))


def _feature_findings(view: TableConfigurationView) -> Iterator[Finding]:
    features = view.config.features
    if view.config.protocol is None:
        return
    if STABLE in features and PREVIEW in features:
        place = view.config.protocol_place or view.place
        yield BOTH_FEATURES.at(place, f"the protocol lists both {STABLE} and {PREVIEW}", seen=f"{STABLE}, {PREVIEW}")
    iceberg = [name for name in _ICEBERG_FEATURES if name in features]
    for named in changed_fields(view.config):
        place = view.place._replace(key=named.path)
        if not is_supported(view.config.features):
            message = f"{named.path} has type changes, but the table does not support type widening"
            yield NOT_SUPPORTED.at(place, message, expected=STABLE)
            continue
        for entry in changes_of(named):
            change = f"{entry.from_type} to {entry.to_type}"
            yield from _version_findings(view, named, entry)
            if entry.to_type == "timestamp_ntz" and not features & NTZ_FEATURES:
                message = f"{named.path} was changed from {change}, but the table does not support timestamp_ntz"
                yield NTZ_FEATURE.at(place, message, seen=change, expected="timestampNtz")
            is_safe = is_iceberg_change(entry.from_type, entry.to_type)
            if iceberg and not is_safe and is_allowed_change(entry.from_type, entry.to_type):
                message = f"{named.path} was changed from {change}, which {iceberg[0]} does not allow"
                yield ICEBERG.at(place, message, seen=change)


def _version_findings(view: TableConfigurationView, named: NamedField, entry: TypeChange) -> Iterator[Finding]:
    """`tableVersion` belongs to the preview. With both features, both kinds of entries are valid."""
    has_stable, has_preview = (name in view.config.features for name in (STABLE, PREVIEW))
    if has_preview in (has_stable, entry.has_table_version):
        return
    verb = "has a" if entry.has_table_version else "has no"
    feature = STABLE if has_stable else PREVIEW
    message = (
        f"the change of {named.path} from {entry.from_type} to {entry.to_type} {verb} tableVersion, with {feature}"
    )
    yield TABLE_VERSION.at(view.place, message, key=named.path)


# -- rules about type widening -----------------------------------------------------------------------------------------

HISTORY_AREA = Area("widening")

LOST_HISTORY = HISTORY_AREA.error(
    "typewidening.lost-history",
    "A type change is no longer recorded although older files are live.",
    spec="Type Widening: Writer Requirements for Type Widening",
    broken="readers do not expect the older type in those files, and fail or read wrong values",
    repair="commit a metaData with the missing type changes",
    example="metaData without the delta.typeChanges that the metaData before it had",
)
PROPERTY_MISSING = HISTORY_AREA.error(
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


@HISTORY_AREA.check(MetadataView, PROPERTY_MISSING)
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
            yield PROPERTY_MISSING.at(view.place, message, key=named.path, seen=seen, expected="true")


@HISTORY_AREA.check(MetadataView, LOST_HISTORY)
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


@HISTORY_AREA.check(StateView, LOST_HISTORY)
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
