"""Planning wider types: the changes, the reasons against them, and the actions that make them.

A plan is a value; nothing is read or written. Spec: Type Widening.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltacli.core.errors import Refusal, Refused, Unreadable, UsageError
from deltacli.core.hints import command, parameter
from deltacli.core.typing import Json
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import TableConfiguration, plain_action, plain_metadata
from deltacli.delta.protocol.features import NTZ_FEATURES, TYPE_WIDENING, TYPE_WIDENING_PREVIEW
from deltacli.delta.protocol.property_values import CHANGE_FEED, TYPE_WIDENING_ENABLED
from deltacli.delta.protocol.upgrade import added_features, upgraded
from deltacli.delta.schema.column_path import ColumnFinder, ColumnPlace
from deltacli.delta.schema.type_changes import canonical_name, refused_change
from deltacli.delta.schema.types import PrimitiveType, StructType, parse_schema, simple_name
from deltacli.delta.schema.widened_schema import Widened, parse_type, widened_schema
from deltacli.delta.schema.widening_guards import (
    Caution,
    Ground,
    PartitionValues,
    cautions_of,
    refusals_of,
    uniform_formats,
)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One column and its types; `column` as the schema spells it."""

    column: str
    from_type: str
    to_type: str
    refusals: tuple[Refusal, ...]
    place: ColumnPlace = dataclasses.field(repr=False)

    @property
    def is_due(self) -> bool:
        """False if the column already has the type."""
        return self.from_type != self.to_type

    @property
    def is_possible(self) -> bool:
        """True for a change that an option or another protocol could allow."""
        return self.is_due and all(refusal.code != "widen.not-allowed" for refusal in self.refusals)

    @property
    def is_allowed(self) -> bool:
        return not self.refusals

    def as_json(self) -> dict[str, Json]:
        refusals = [one.as_json("wayOut") for one in self.refusals]
        types = {"fromType": self.from_type, "toType": self.to_type}
        return {"column": self.column, **types, "allowed": self.is_allowed, "refusals": refusals}


@dataclass(frozen=True, slots=True)
class WideningPlan:
    """One commit that widens columns.

    `refusals` are those of the table as a whole. `protocol_after` is None where the protocol stays as it is, or can't
    be changed. `table_version` is the version of the commit, where entries of the history carry it: with nothing but
    the preview of the feature.
    """

    changes: tuple[PlannedChange, ...]
    refusals: tuple[Refusal, ...]
    warnings: tuple[Caution, ...]
    protocol_before: Action
    protocol_after: Action | None
    added_features: tuple[str, ...]
    enables_property: bool
    table_version: int | None
    metadata_before: Action = dataclasses.field(repr=False)

    @property
    def due(self) -> tuple[PlannedChange, ...]:
        """Return the changes that would be made."""
        return tuple(change for change in self.changes if change.is_due)

    @property
    def is_noop(self) -> bool:
        """Return True if every column already has its type, so that there is nothing to commit."""
        return not self.due

    @property
    def all_refusals(self) -> tuple[Refusal, ...]:
        """Return those of each change, which can be impossible, then those of the table, which an option overrides."""
        return (*(refusal for change in self.changes for refusal in change.refusals), *self.refusals)

    @property
    def metadata_after(self) -> Action | None:
        """Return the metaData action to be committed, or None if there is nothing to do or something refuses it."""
        if self.is_noop or self.all_refusals:
            return None
        widened = [Widened(change.place, change.from_type, change.to_type) for change in self.due]
        action = plain_metadata(self.metadata_before)
        action["schemaString"] = widened_schema(str(action["schemaString"]), widened, self.table_version)
        if self.enables_property:
            action["configuration"] = {**action.get("configuration", {}), TYPE_WIDENING_ENABLED: "true"}
        return action


def plan_widening(
    config: TableConfiguration,
    raw_metadata: Action,
    changes: Sequence[tuple[str, str]],
    *,
    commit_version: int,
    enable: bool,
    upgrade_protocol: bool,
    partition_values: PartitionValues | None = None,
) -> WideningPlan:
    """Plan to give columns wider types: pairs of a column and a type, as people write them.

    Raises UsageError for columns and types that are none, Unreadable for a table without protocol or schema.
    """
    schema = _schema_of(config, raw_metadata)
    ground = Ground(config, schema, partition_values)
    planned = tuple(_planned(change, ground) for change in _resolved(schema, changes))
    due = [Widened(change.place, change.from_type, change.to_type) for change in planned if change.is_possible]
    before = _protocol_of(config)
    after, refusals = _protocol(config, before, due, upgrade_protocol=upgrade_protocol)
    refusals += _refusals_of_readers(config, before, after)
    enables = bool(due) and not config.is_on(TYPE_WIDENING_ENABLED)
    if enables and not enable:
        message = f"type widening is not enabled: {TYPE_WIDENING_ENABLED} is not true"
        refusals.append(Refusal("widen.not-enabled", message, parameter("widen-type.enable", True)))
    is_of_preview = TYPE_WIDENING_PREVIEW in config.features and TYPE_WIDENING not in config.features
    return WideningPlan(
        planned,
        tuple(refusals),
        _warnings(due, ground),
        before,
        after,
        added_features(before, after) if after else (),
        enables,
        commit_version if due and is_of_preview else None,
        raw_metadata,
    )


def _schema_of(config: TableConfiguration, raw_metadata: Action) -> StructType:
    text = raw_metadata.get("schemaString")
    if not isinstance(text, str) or config.metadata is None or config.protocol is None:
        raise Unreadable(
            "no type can be widened because the table has no protocol, no metadata or no schema",
            code="schema.bad-json",
            hint=command("validate"),
        )
    return parse_schema(text)


def _resolved(schema: StructType, changes: Sequence[tuple[str, str]]) -> list[Widened]:
    if not changes:
        raise UsageError("no column is named", code="usage.column")
    finder = ColumnFinder(schema)
    columns: dict[tuple[str | int, ...], Widened] = {}
    for column, type_text in changes:
        place = finder.find(column)
        if not isinstance(place.data_type, PrimitiveType):
            raise UsageError(
                f"{place.text} is of type {simple_name(place.data_type)}; only its parts can be widened",
                code="usage.column",
                hint="name a part of it: a field, element, key or value",
            )
        if place.address in columns:
            raise UsageError(f"column {place.text} is named twice", code="usage.column")
        columns[place.address] = Widened(place, *_types(place.data_type.name, type_text))
    return list(columns.values())


def _types(from_type: str, to_type: str) -> tuple[str, str]:
    """Return both types as schemas spell them. The column's own type is allowed even if nothing widens to it."""
    name = canonical_name(from_type)
    return name, name if canonical_name(to_type) == name else parse_type(to_type)


def _planned(change: Widened, ground: Ground) -> PlannedChange:
    is_due = change.from_type != change.to_type
    refusals = refusals_of(change, ground) if is_due else ()
    return PlannedChange(change.place.text, change.from_type, change.to_type, refusals, change.place)


def _protocol_of(config: TableConfiguration) -> Action:
    if config.raw_protocol is not None:
        return plain_action(config.raw_protocol)
    assert config.protocol is not None
    return config.protocol.as_json()


def _protocol(
    config: TableConfiguration, before: Action, due: Sequence[Widened], *, upgrade_protocol: bool
) -> tuple[Action | None, list[Refusal]]:
    """Return the protocol that the changes need, or None if the table has it, and the reasons against it."""
    if not due:
        return None, []
    try:
        after = upgraded(before, _needed_features(config, due))
    except Refused as refused:
        return None, [Refusal(refused.code, refused.message, refused.hint or command("snapshot"))]
    if after is None or upgrade_protocol:
        return after, []
    listed = ", ".join(added_features(before, after)) or "its features in both lists"
    message = f"the protocol lacks {listed}; readers and writers without support for it will lose access"
    return after, [Refusal("widen.protocol-upgrade-needed", message, parameter("widen-type.upgrade_protocol", True))]


def _refusals_of_readers(config: TableConfiguration, before: Action, after: Action | None) -> Iterator[Refusal]:
    """Yield a refusal if recorded type changes without effect so far would make every reader refuse the table."""
    added = added_features(before, after) if after else ()
    refusal = refused_change(config, [*config.features, *added]) if TYPE_WIDENING in added else None
    if refusal is not None:
        message = f"with the feature {TYPE_WIDENING} no reader could read the table: {refusal.reason}"
        yield Refusal("widen.history-refused", message, command("validate", select=["typewidening.*"]))


def _needed_features(config: TableConfiguration, due: Sequence[Widened]) -> list[str]:
    """Type widening under the name that the table has, and the type that the changes bring."""
    is_of_preview = TYPE_WIDENING_PREVIEW in config.features and TYPE_WIDENING not in config.features
    needed = [TYPE_WIDENING_PREVIEW if is_of_preview else TYPE_WIDENING]
    if any(change.to_type == "timestamp_ntz" for change in due):
        needed.append(next((name for name in sorted(NTZ_FEATURES) if name in config.features), "timestampNtz"))
    return needed


def _warnings(due: Sequence[Widened], ground: Ground) -> tuple[Caution, ...]:
    warnings = [warning for change in due for warning in cautions_of(change, ground)]
    if due and ground.config.is_on(CHANGE_FEED):
        message = "change data written before keeps the older types, so reading changes across this version may fail"
        warnings.append(Caution("widen.change-data-feed", message))
    if due and (formats := uniform_formats(ground.config)):
        message = f"the table is also kept as {', '.join(formats)}, which is not converted before the next write"
        warnings.append(Caution("widen.uniform", message))
    return tuple(warnings)
