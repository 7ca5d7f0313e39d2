"""Adding features to a protocol and dropping them: what each needs, and what conflicts with it.

Spec: Table Features; Checkpoint Protection; Delta-Spark: ALTER TABLE … DROP FEATURE; Table Features for New and
Existing Tables; the sections of each feature.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.core.errors import Refused, UsageError, command, nearest_name
from deltacli.delta.log.actions import Action
from deltacli.delta.log.row_ids import ENABLED, MATERIALIZED_NAMES, SUSPENDED
from deltacli.delta.log.state import CHECKPOINT_PROTECTION, TableConfiguration, read_protocol
from deltacli.delta.protocol.feature_use import constraint_uses, property_uses, schema_uses, upgraded
from deltacli.delta.protocol.features import (
    CATALOG_FEATURES,
    FEATURES,
    READER_FEATURES_VERSION,
    TYPE_WIDENING,
    WRITER_FEATURES_VERSION,
    FeatureKind,
    stable_name,
)
from deltacli.delta.protocol.known_properties import property_kind
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY, named_fields, refused_change
from deltacli.delta.schema.types import StructType

PROTECTION = "checkpointProtection"
MAPPING = "columnMapping"
ROW_IDS = "rowTracking"
VECTORS = "deletionVectors"
WIDENINGS = ("typeWidening", "typeWidening-preview")


class Removal(NamedTuple):
    """How a feature is dropped. `protects_history`: older versions need it, and readers that no longer look for it must
    not read them; so new checkpoints are written before the drop, and old ones are protected after it. `unset`:
    properties that are removed before, `forget`: those removed with the feature.
    """

    protects_history: bool = False
    unset: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()

    def rewrites_types(self, name: str) -> bool:
        """Return True if files with older types of widened columns have to be rewritten first."""
        return name in WIDENINGS and self.protects_history


REMOVALS: Mapping[str, Removal] = {
    "checkConstraints": Removal(),
    MAPPING: Removal(protects_history=True),
    "columnMappingUsageTracking": Removal(forget=("delta.columnMapping.hasDroppedOrRenamed",)),
    VECTORS: Removal(protects_history=True, unset=("delta.enableDeletionVectors",)),
    "v2Checkpoint": Removal(protects_history=True, unset=("delta.checkpointPolicy",)),
    "typeWidening": Removal(protects_history=True, unset=("delta.enableTypeWidening",)),
    "typeWidening-preview": Removal(protects_history=True, unset=("delta.enableTypeWidening",)),
    "vacuumProtocolCheck": Removal(protects_history=True),
    "inCommitTimestamp": Removal(unset=("delta.enableInCommitTimestamps",)),
    ROW_IDS: Removal(forget=(ENABLED, SUSPENDED, *MATERIALIZED_NAMES)),
    "domainMetadata": Removal(),
    "geospatial": Removal(protects_history=True),
    "geospatial-dev": Removal(protects_history=True),
    PROTECTION: Removal(protects_history=True, forget=(CHECKPOINT_PROTECTION,)),
    "materializePartitionColumns": Removal(forget=("delta.enableMaterializePartitionColumnsFeature",)),
}
"""The features that can be dropped. What Delta-Spark never removes is not here, nor what needs a catalog."""


def require_droppable(config: TableConfiguration, name: str) -> Removal:
    """Return how a feature of a table is dropped.

    Raises UsageError (`usage.feature`) for a name that is none, and Refused for a feature that the table does not have,
    that others need, that only other engines know, or that cannot be dropped.
    """
    if name not in FEATURES and name in config.features:
        raise Refused(
            f"the table lists the feature {name}, which deltacli does not know: it cannot tell what needs the feature, "
            "so it does not drop it",
            code="features.unknown",
            hint="drop it with the engine that added it, or write the rows to a new table without it",
        )
    if name not in FEATURES:
        what = f"{name} is a property, not a feature" if property_kind(name) else f"there is no feature {name!r}"
        near = nearest_name(name, config.features, ignores_case=True)
        raise UsageError(what, code="usage.feature", hint=command("features")).suggest(name, near)
    if name not in config.features:
        raise Refused(
            f"the table does not support the feature {name}",
            code="features.not-present",
            facts={"features": ", ".join(sorted(config.features)) or "none"},
            hint=command("features"),
        )
    removal = REMOVALS.get(name)
    if removal is None:
        raise Refused(
            f"the feature {name} cannot be dropped: {_why_kept(name)}",
            code="features.not-removable",
            facts={"removable": ", ".join(removable(config)) or "none of this table"},
            hint=command("features"),
        )
    if kept := _kept_by(config, name):
        message = f"the feature {name} cannot be dropped: {', '.join(kept)} requires it, and cannot be dropped"
        raise Refused(message, code="features.required")
    if users := _users_of(config, name):
        message = f"the feature {name} cannot be dropped: {', '.join(users)} requires it"
        raise Refused(message, code="features.required", hint=command("features drop", users[0]))
    return removal


def _users_of(config: TableConfiguration, name: str) -> list[str]:
    """Return the features of a table that require one."""
    return sorted(user for user in config.features if user in FEATURES and stable_name(name) in FEATURES[user].requires)


def removable(config: TableConfiguration) -> list[str]:
    """Return the features of a table that can be dropped, one after the other."""
    return sorted(one for one in config.features & REMOVALS.keys() if not _kept_by(config, one))


def _kept_by(config: TableConfiguration, name: str) -> list[str]:
    """Return the features that require one and cannot be dropped."""
    return [user for user in _users_of(config, name) if user not in REMOVALS]


def _why_kept(name: str) -> str:
    if name in CATALOG_FEATURES:
        return "the catalog has commits that the table does not have, and only it can hand them over"
    if name.startswith("redirect"):
        return "only the engine that redirects the table knows when it ends"
    return "no engine removes it, because rows and versions that were written with it may need it"


def uses_left(config: TableConfiguration, name: str, domains: Sequence[str]) -> Iterator[str]:
    """Yield what in the metadata still uses a feature and is not removed with it."""
    schema = config.schema or StructType(())
    match name:
        case "checkConstraints":
            for use in constraint_uses(config.properties):
                yield f"the constraint {use.key.partition('.')[2].partition('.')[2]}"
        case "geospatial" | "geospatial-dev":
            for use in schema_uses(schema):
                if use.feature == "geospatial":
                    yield use.what
        case "domainMetadata":
            for domain in domains:
                yield f"the domain {domain}"


def widened_columns(config: TableConfiguration) -> list[str]:
    """Return the columns whose types were changed, so that files can have older ones."""
    schema = config.schema or StructType(())
    return [one.path for one in named_fields(schema) if TYPE_CHANGES_KEY in one.field.metadata]


def without_feature(raw_protocol: Action, name: str, *, protected: bool) -> Action:
    """Return the protocol without a feature: as a pair of versions if one implies just the others, else as lists.
    `protected` adds checkpoint protection.
    """
    protocol = read_protocol(raw_protocol, "the protocol")
    listed = [
        *(str(one) for one in raw_protocol.get("writerFeatures") or ()),
        *(one for one in FEATURES if one in protocol.supported_features),
        *(str(one) for one in raw_protocol.get("readerFeatures") or ()),
    ]
    kept = [one for one in dict.fromkeys(listed) if one != name] + ([PROTECTION] if protected else [])
    of_readers = [one for one in kept if _concerns_readers(one, raw_protocol)]
    others = {key: value for key, value in raw_protocol.items() if key not in ("readerFeatures", "writerFeatures")}
    for writer in range(1, WRITER_FEATURES_VERSION):
        implied = {one.name for one in FEATURES.values() if one.legacy and one.legacy.writer <= writer}
        # deltalake 1.6.6 reads tables with column mapping wrong where only the versions imply it.
        if implied == set(kept) and not of_readers:
            return {**others, "minReaderVersion": 1, "minWriterVersion": writer}
    lists: Action = {"writerFeatures": list(dict.fromkeys(kept))}
    if of_readers:
        lists["readerFeatures"] = of_readers
    reader = READER_FEATURES_VERSION if of_readers else 1
    return {**others, "minReaderVersion": reader, "minWriterVersion": WRITER_FEATURES_VERSION, **lists}


def _concerns_readers(name: str, raw_protocol: Action) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return name in (raw_protocol.get("readerFeatures") or ())
    return feature.kind is FeatureKind.READER_WRITER


def properties_of_drop(
    configuration: Mapping[str, str], removal: Removal, version: int, *, protected: bool
) -> dict[str, str]:
    """Return the properties of the version that drops a feature."""
    kept = {key: value for key, value in configuration.items() if key not in removal.forget}
    return kept | ({CHECKPOINT_PROTECTION: str(version)} if protected else {})


# -- adding features to a protocol -------------------------------------------------------------------------------------


class AddedFeature(NamedTuple):
    """A feature to be added. `needed_by` is the feature that requires it, None if it was requested."""

    name: str
    needed_by: str | None = None


class FeaturesPlan(NamedTuple):
    """The features to be added, and the protocols before and after. Without any feature there is nothing to commit."""

    added: tuple[AddedFeature, ...]
    protocol_before: Action
    protocol_after: Action | None

    @property
    def readers(self) -> str:
        """Return who can no longer read the table, in general words."""
        return self._losers("readerFeatures", "read")

    @property
    def writers(self) -> str:
        """Return who can no longer write to the table, in general words."""
        return self._losers("writerFeatures", "write")

    def _losers(self, key: str, verb: str) -> str:
        before = self.protocol_before.get(key)
        after = (self.protocol_after or self.protocol_before).get(key) or ()
        fresh = " or ".join(one.name for one in self.added if one.name in after)
        if not fresh:
            return f"clients that can {verb} the table now can still {verb} it afterwards"
        if before is None:
            return f"clients without support for table features, or for {fresh}, lose access"
        return f"clients without support for {fresh} lose access"


class ShownFeature(NamedTuple):
    """A supported feature. `is_listed`: by name, else implied by version numbers; `is_active`: None if unknown,
    `because`: what makes it active.
    """

    name: str
    kind: str | None
    is_listed: bool
    is_active: bool | None
    because: str | None

    def as_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "listed": self.is_listed,
            "active": self.is_active,
        }
        return document if self.because is None else document | {"because": self.because}


def plan_features(
    config: TableConfiguration, raw_protocol: Action, names: Sequence[str], *, unguarded: bool = False
) -> FeaturesPlan:
    """Plan to add features; an `unguarded` plan shows what a guard refuses.

    Raises UsageError (`usage.feature`) for unrecognized names, and Refused for features that cannot be added to the
    table in this way.
    """
    for name in names:
        _require_known(name)
    supported = set(config.features)
    added: dict[str, AddedFeature] = {}
    for name in names:
        for one in _with_needs(name, None, {*map(stable_name, supported)}):
            if one.name not in supported:
                added.setdefault(one.name, one)
    if not unguarded:
        for name in added:
            _require_addable(name, config)
        _require_no_exclusion(supported, added)
        _require_readable_types(config, added)
    after = upgraded(raw_protocol, added) if added else None
    return FeaturesPlan(tuple(added.values()), raw_protocol, after)


def show_features(config: TableConfiguration, domains: Sequence[str]) -> list[ShownFeature]:
    """Return the supported features by name, each with what makes it active."""
    protocol = config.protocol
    assert protocol is not None
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    reasons = _reasons(config, domains)
    return [_shown(name, reasons, is_listed=name in listed) for name in sorted(config.features)]


def _shown(name: str, reasons: Mapping[str, str], *, is_listed: bool) -> ShownFeature:
    feature = FEATURES.get(name)
    if feature is None:
        return ShownFeature(name, None, is_listed, None, None)
    because = "it is always active" if feature.is_always_active else reasons.get(stable_name(name))
    return ShownFeature(name, feature.kind.value, is_listed, because is not None, because)


def _reasons(config: TableConfiguration, domains: Sequence[str]) -> dict[str, str]:
    """Return feature -> the first place that uses it."""
    reasons: dict[str, str] = {}
    of_schema = schema_uses(config.schema) if config.schema is not None else ()
    for use in (*property_uses(config.properties), *constraint_uses(config.properties), *of_schema):
        reasons.setdefault(use.feature, use.what)
    if "delta.clustering" in domains:
        reasons["clustering"] = "the domain delta.clustering is set"
    return reasons


def _require_known(name: str) -> None:
    if name in FEATURES:
        return
    if "," in name and all(part in FEATURES for part in name.split(",")):
        message = f"{name!r} is a list: features are separated by spaces"
        raise UsageError(message, code="usage.feature", hint=command("features add", *name.split(",")))
    nearest = nearest_name(name, FEATURES, ignores_case=True)
    raise UsageError(
        f"there is no feature {name!r}",
        code="usage.feature",
        facts={"features": ", ".join(sorted(name for name, feature in FEATURES.items() if feature.obstacle is None))},
    ).suggest(name, nearest)


def _with_needs(name: str, needed_by: str | None, supported: set[str]) -> Iterator[AddedFeature]:
    """Yield a feature after all that it requires and the table does not have under any name."""
    for needed in FEATURES[name].requires:
        if needed not in supported:
            yield from _with_needs(needed, name, supported)
    yield AddedFeature(name, needed_by)


def _require_addable(name: str, config: TableConfiguration) -> None:
    feature = FEATURES[name]
    if feature.obstacle is not None:
        reason, way_out = feature.obstacle
        raise Refused(
            f"the feature {name} cannot be added by itself: {reason.format(stable=stable_name(name))}",
            code="features.not-alone",
            facts={"fix": way_out} if way_out else {},
            hint=None if way_out else command("features add", stable_name(name)),
        )
    preview = next((known for known in config.features if known != name and stable_name(known) == name), None)
    if preview is not None:
        raise Refused(
            f"the table already supports {name}, under the name {preview}",
            code="features.preview",
            hint=command("features drop", preview) if preview in REMOVALS else None,
        )
    use = next((use for use in property_uses(config.properties) if use.feature == name), None)
    if use is not None and feature.constrains_files:
        raise Refused(
            f"the feature {name} would be active at once, but files and commits do not meet its requirements: "
            f"{use.what}",
            code="features.would-activate",
            hint=command("properties unset", use.key),
        )


def _require_readable_types(config: TableConfiguration, added: Collection[str]) -> None:
    """Raise Refused if recorded type changes without effect so far would make every reader refuse the table."""
    refusal = refused_change(config, [*config.features, *added])
    if refusal is not None and TYPE_WIDENING in added:
        raise Refused(
            f"with the feature {TYPE_WIDENING} no reader could read the table: {refusal.reason}",
            code="features.would-activate",
            facts={"column": refusal.column, "seen": refusal.seen},
            hint=command("validate", select=["typewidening.*"]),
        )


def _require_no_exclusion(supported: set[str], added: Mapping[str, AddedFeature]) -> None:
    everything = {stable_name(name): name for name in sorted({*supported, *added})}
    for name in sorted(everything.values()):
        for other in FEATURES[name].excludes if name in FEATURES else ():
            if other in everything and {name, everything[other]} & added.keys():
                raise Refused(
                    f"the features {name} and {other} exclude each other",
                    code="protocol.exclusive",
                    facts={"supported": ", ".join(sorted(supported)) or "none"},
                    hint=command("features drop", other if name in added else name),
                )
