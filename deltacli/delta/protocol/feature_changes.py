"""Adding features to a protocol: required features are added too, and features that conflict or cannot be added alone
are refused. Spec: Table Features for New and Existing Tables; the sections of each feature.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.core.errors import Refused, UsageError
from deltacli.core.hints import command, nearest_name
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.feature_drops import REMOVALS
from deltacli.delta.protocol.feature_use import constraint_uses, property_uses, schema_uses
from deltacli.delta.protocol.features import FEATURES, TYPE_WIDENING, stable_name
from deltacli.delta.protocol.upgrade import upgraded
from deltacli.delta.schema.type_changes import refused_change


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
    for use in _uses(config):
        reasons.setdefault(*use)
    if "delta.clustering" in domains:
        reasons["clustering"] = "the domain delta.clustering is set"
    return reasons


def _uses(config: TableConfiguration) -> Iterator[tuple[str, str]]:
    for use in property_uses(config.properties):
        yield use.feature, use.what
    for use in constraint_uses(config.properties):
        yield use.feature, use.what
    if config.schema is not None:
        for use in schema_uses(config.schema):
            yield use.feature, use.what


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
    ).asking(name, nearest)


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
