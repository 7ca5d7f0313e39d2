"""Planning wider types: the reasons against them, and the actions that make them.

A guard refuses a change that it cannot prove safe: SQL that was not
understood may refer to the column.

A plan is a value; nothing is read or written.

Spec: Type Widening: Writer Requirements; Type Widening.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.core.errors import Refusal, Refused, Unreadable, UsageError, command, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.partitions.values import Spelling, spelling_of
from deltacli.delta.protocol.feature_use import added_features, upgraded
from deltacli.delta.protocol.features import (
    GENERATED_COLUMNS,
    IDENTITY_COLUMNS,
    NTZ_FEATURES,
    TYPE_WIDENING,
    TYPE_WIDENING_PREVIEW,
)
from deltacli.delta.schema import type_changes
from deltacli.delta.schema.column_path import ColumnFinder, ColumnPlace
from deltacli.delta.schema.types import CHAR_VARCHAR_KEY, PrimitiveType, StructType, parse_schema, simple_name
from deltacli.delta.schema.widened_schema import Widened, history_of, parse_type, possible_targets, widened_schema
from deltacli.delta.sql.parser import Form, Node, parse_expression
from deltacli.delta.sql.stored import (
    DEFAULT_KEY,
    GENERATION_KEY,
    INVARIANT_KEY,
    Reference,
    StoredKind,
    StoredSql,
    list_stored_sql,
    refers_to,
)

PartitionValues = Callable[[str], Iterable[str | None]]
"""The distinct texts of a partition column in the live files, by its name in partitionValues."""

UNIFORM_KEY = "delta.universalFormat.enabledFormats"
IDENTITY_PREFIX = "delta.identity."
_ICEBERG = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "icebergWriterCompatV1", "icebergWriterCompatV3")
_SHOWN_TEXTS = 3
_FAILING_READER = "DuckDB 1.5.5"


class Caution(NamedTuple):
    """A consequence of a change."""

    code: str
    message: str


@dataclass(frozen=True)
class Ground:
    """The table to be changed. `partition_values` is None if they were not read."""

    config: state.TableConfiguration
    schema: StructType
    partition_values: PartitionValues | None = None

    @cached_property
    def stored_sql(self) -> tuple[StoredSql, ...]:
        """Return the SQL that the table keeps, cached because finding it visits all columns."""
        return tuple(list_stored_sql(self.config))


def refusals_of(change: Widened, ground: Ground) -> tuple[Refusal, ...]:
    """Yield every reason against a change. For a change that is never allowed, only that reason."""
    refusals = tuple(_type_refusals(change))
    return refusals or tuple(refusal for guard in _GUARDS for refusal in guard(change, ground))


def cautions_of_widening(change: Widened, ground: Ground) -> Iterator[Caution]:
    """Yield the consequences for the column."""
    name = change.place.text
    misplaced = history_of(change.place).misplaced
    if misplaced:
        seen, right = misplaced[0] or "no fieldPath", change.place.field_path or "no fieldPath"
        message = f"older changes of {name} are recorded under {seen} but belong to {right}; they are left unchanged"
        yield Caution("widen.history-path", message)
    if not is_partition_column(change, ground.config):
        return
    if change.to_type == "timestamp_ntz":
        message = (
            f"partition values of {name} stay dates without a time: readers that do not take a date for a time fail "
            f"to read the table, {_FAILING_READER} for one"
        )
        yield Caution("widen.partition-date", message)
    to_decimal = type_changes.digits_of_decimal(change.to_type)
    if to_decimal is not None and to_decimal.scale > _scale_of(change.from_type):
        message = (
            f"partition values of {name} keep {plural(_scale_of(change.from_type), 'decimal place')}: readers that "
            f"expect {to_decimal.scale} fail to read the table, {_FAILING_READER} for one"
        )
        yield Caution("widen.partition-decimal", message)
    if change.from_type == "float":
        message = f"partition values of {name} are read as doubles: 0.1 becomes 0.1, no longer the float next to it"
        yield Caution("widen.partition-float", message)


def _scale_of(type_name: str) -> int:
    """Return the decimal places of a type; 0 for integers."""
    decimal = type_changes.digits_of_decimal(type_name)
    return 0 if decimal is None else decimal.scale


def is_partition_column(change: Widened, config: state.TableConfiguration) -> bool:
    """Return True if a change is one of a partition column."""
    names = {name.lower() for name in config.metadata.partition_columns} if config.metadata else set()
    return change.place.column.name.lower() in names


# -- the types -------------------------------------------------------------------------------------------------------


_INTEGERS = ("byte", "short", "integer", "long")


def _type_refusals(change: Widened) -> Iterator[Refusal]:
    name = change.place.text
    charred = [field for field in change.place.fields if CHAR_VARCHAR_KEY in field.metadata]
    if charred or change.from_type.startswith(("char", "varchar")):
        place = charred[0].name if charred else name
        message = f"{name} cannot become {change.to_type}: {place} keeps the types of a char or varchar column as text"
        yield Refusal("widen.char-varchar", message, f"ALTER TABLE … ALTER COLUMN {place} TYPE with STRING, then again")
        return
    if type_changes.is_allowed_change(change.from_type, change.to_type):
        return
    is_narrower = {change.from_type, change.to_type} <= {*_INTEGERS}
    verb = "narrowed to" if is_narrower else "read as"
    message = f"{name} cannot become {change.to_type}: {change.from_type} cannot be {verb} {change.to_type}"
    if change.from_type == "void":
        message = f"{name} cannot become {change.to_type}: a void column has no values that could be widened"
        yield Refusal("widen.not-allowed", message, command("alter", "type", name, change.to_type))
        return
    targets = possible_targets(change.from_type)
    way_out = f"{change.from_type} can become {targets}" if targets else "add a column, and copy the values into it"
    yield Refusal("widen.not-allowed", message, way_out)


def _iceberg(change: Widened, ground: Ground) -> Iterator[Refusal]:
    config = ground.config
    for feature in _ICEBERG:
        if feature not in config.features and not config.is_on(f"delta.enable{feature[0].upper()}{feature[1:]}"):
            continue
        is_too_small = feature == "icebergWriterCompatV1" and change.to_type == "short"
        if is_too_small or not type_changes.is_iceberg_change(change.from_type, change.to_type):
            message = f"{change.place.text} cannot become {change.to_type}: {feature} does not support this change"
            yield Refusal("widen.iceberg-compat", message, _iceberg_way_out(change))
            return


def _uniform(change: Widened, ground: Ground) -> Iterator[Refusal]:
    formats = uniform_formats(ground.config)
    if formats and not type_changes.is_iceberg_change(change.from_type, change.to_type):
        shown = ", ".join(formats)
        message = f"{change.place.text} cannot become {change.to_type}: the table is also kept as {shown}"
        yield Refusal("widen.uniform", message, _iceberg_way_out(change))


def uniform_formats(config: state.TableConfiguration) -> list[str]:
    """Return the other formats in which the table is kept."""
    texts = [text for key, text in config.properties.items() if key.lower() == UNIFORM_KEY.lower()]
    return [name.strip() for text in texts for name in str(text).split(",") if name.strip()]


def _iceberg_way_out(change: Widened) -> str:
    decimal = type_changes.digits_of_decimal(change.from_type)
    if decimal is not None:
        return f"keep the scale: decimal(p,{decimal.scale}) with p > {decimal.precision}"
    if change.from_type in ("byte", "short"):
        return "widen it to integer or long"
    return "widen it to long" if change.from_type == "integer" else "turn the compatibility off and drop its feature"


# -- expressions -----------------------------------------------------------------------------------------------------


_DEPENDENT = {
    StoredKind.CONSTRAINT: ("widen.check-constraint", "drop the constraint {name}, widen, add it again"),
    StoredKind.INVARIANT: ("widen.invariant", "commit a metaData without delta.invariants of {name}, widen, add it"),
    StoredKind.GENERATION: ("widen.generated-column", "rewrite the table without the expression of {name}"),
}


def _expressions(change: Widened, ground: Ground) -> Iterator[Refusal]:
    for stored in ground.stored_sql:
        reference = refers_to(stored.text, ground.schema, change.place)
        if reference is not Reference.NO:
            code, way_out = _DEPENDENT[stored.kind]
            message = f"{change.place.text} cannot become {change.to_type}: {stored.verdict(reference)}"
            yield Refusal(code, message, way_out.format(name=stored.name))


def _own_expressions(change: Widened, ground: Ground) -> Iterator[Refusal]:
    is_generated, has_identity = (not ground.config.is_inert(name) for name in (GENERATED_COLUMNS, IDENTITY_COLUMNS))
    for field in change.place.fields:
        name = change.place.text
        if is_generated and field.metadata.get(GENERATION_KEY) is not None:
            message = (
                f"{name} cannot become {change.to_type}: {field.name} is generated, and its expression has a fixed type"
            )
            yield Refusal("widen.generation-expression", message, "rewrite the table without the expression")
        if field.metadata.get(INVARIANT_KEY) is not None:
            message = f"{name} cannot become {change.to_type}: {field.name} has an invariant"
            way_out = f"commit a metaData without delta.invariants of {field.name}, widen, add it again"
            yield Refusal("widen.invariant", message, way_out)
        if has_identity and any(key.startswith(IDENTITY_PREFIX) for key in field.metadata):
            message = f"{name} cannot become {change.to_type}: {field.name} is an identity column, which is a long"
            yield Refusal("widen.identity", message, f"ALTER TABLE … ALTER COLUMN {field.name} DROP IDENTITY")


# -- defaults --------------------------------------------------------------------------------------------------------


def _default(change: Widened, _ground: Ground) -> Iterator[Refusal]:
    for field in change.place.fields:
        text = field.metadata.get(DEFAULT_KEY)
        if text is None:
            continue
        root = parse_expression(text).root if isinstance(text, str) else None
        is_own = field is change.place.nearest and change.place.field_path is None
        if root is None or not _fits(root, change.to_type if is_own else None):
            shown = " ".join(str(text).split())[:120]
            message = f"{change.place.text} cannot become {change.to_type}: the default {shown} may not fit"
            way_out = f"drop the default of {field.name}, widen, set the default again"
            yield Refusal("widen.default", message, way_out)


_SUFFIX = re.compile(r"(?:BD|[LSYDF])\Z", re.IGNORECASE)


def _fits(node: Node, to_type: str | None, *, is_cast: bool = False) -> bool:
    """Return True if a default is certainly a value of a type. Of None only null is."""
    if node.form is Form.NULL:
        return True
    if node.form is Form.CAST:
        return _fits(node.parts[0], to_type, is_cast=True)
    if to_type is None:
        return False
    sign = ""
    if node.form is Form.VALUE and node.name in ("-", "+") and len(node.parts) == 1:
        sign, node = node.name, node.parts[0]
    if node.form is Form.NUMBER:
        return parses(to_type, sign + _SUFFIX.sub("", node.name))
    if node.form is Form.VALUE and node.name in ("date", "timestamp_ntz"):
        return to_type == "timestamp_ntz" and parses(to_type, node.parts[0].value)
    return node.form is Form.TEXT and not sign and is_cast and parses(to_type, node.value)


# -- partition values ------------------------------------------------------------------------------------------------


def _partition_values(change: Widened, ground: Ground) -> Iterator[Refusal]:
    if not is_partition_column(change, ground.config):
        return
    name, way_out = change.place.text, command("validate", select=["partition.*"])
    if ground.partition_values is None:
        message = f"{name} cannot become {change.to_type}: the partition values are not known"
        yield Refusal("widen.partition-value", message, way_out)
        return
    texts = ground.partition_values(ground.config.physical_name(change.place.column))
    wrong = [text for text in texts if text and not parses(change.to_type, text)]
    if wrong:
        shown = ", ".join(text[:40] for text in sorted(wrong)[:_SHOWN_TEXTS])
        message = (
            f"{name} cannot become {change.to_type}: {plural(len(wrong), 'partition value')} cannot be read as that: "
            f"{shown}{', …' if len(wrong) > _SHOWN_TEXTS else ''}"
        )
        yield Refusal("widen.partition-value", message, way_out)


def parses(type_name: str, text: str) -> bool:
    """Return True if a text is a value of a type. A date alone is midnight."""
    if spelling_of(type_name, text) is Spelling.UNPARSABLE:
        return False
    moment = parse_moment(text.strip()) if type_name == "timestamp_ntz" else None
    return moment is None or -(1 << 63) <= moment.microseconds < 1 << 63


# -- history ---------------------------------------------------------------------------------------------------------


def _history(change: Widened, _ground: Ground) -> Iterator[Refusal]:
    fault = history_of(change.place).fault
    if fault is not None:
        message = f"{change.place.text} cannot become {change.to_type}: its history is broken, {fault}"
        yield Refusal("widen.history-broken", message, command("validate", select=["typewidening.*"]))


_GUARDS = (_iceberg, _uniform, _own_expressions, _expressions, _default, _partition_values, _history)


# -- planning wider types ----------------------------------------------------------------------------------------------


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
        action = state.plain_metadata(self.metadata_before)
        action["schemaString"] = widened_schema(str(action["schemaString"]), widened, self.table_version)
        if self.enables_property:
            action["configuration"] = {**action.get("configuration", {}), state.TYPE_WIDENING_ENABLED: "true"}
        return action


def plan_widening(
    config: state.TableConfiguration,
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
    enables = bool(due) and not config.is_on(state.TYPE_WIDENING_ENABLED)
    if enables and not enable:
        message = f"type widening is not enabled: {state.TYPE_WIDENING_ENABLED} is not true"
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


def _schema_of(config: state.TableConfiguration, raw_metadata: Action) -> StructType:
    text = raw_metadata.get("schemaString")
    if not isinstance(text, str) or config.metadata is None or config.protocol is None:
        message = "no type can be widened because the table has no protocol, no metadata or no schema"
        raise Unreadable(message, code="schema.bad-json", hint=command("validate"))
    return config.schema if config.schema and text == config.metadata.schema_string else parse_schema(text)


def _resolved(schema: StructType, changes: Sequence[tuple[str, str]]) -> list[Widened]:
    if not changes:
        raise UsageError("no column is named", code="usage.column")
    finder = ColumnFinder(schema)
    columns: dict[tuple[str | int, ...], Widened] = {}
    for column, type_text in changes:
        place = finder.find(column)
        if not isinstance(place.data_type, PrimitiveType):
            message = f"{place.text} is of type {simple_name(place.data_type)}; only its parts can be widened"
            raise UsageError(message, code="usage.column", hint="name a part of it: a field, element, key or value")
        if place.address in columns:
            raise UsageError(f"column {place.text} is named twice", code="usage.column")
        columns[place.address] = Widened(place, *_types(place.data_type.name, type_text))
    return list(columns.values())


def _types(from_type: str, to_type: str) -> tuple[str, str]:
    """Return both types as schemas spell them. The column's own type is allowed even if nothing widens to it."""
    name = type_changes.canonical_name(from_type)
    return name, name if type_changes.canonical_name(to_type) == name else parse_type(to_type)


def _planned(change: Widened, ground: Ground) -> PlannedChange:
    is_due = change.from_type != change.to_type
    refusals = refusals_of(change, ground) if is_due else ()
    return PlannedChange(change.place.text, change.from_type, change.to_type, refusals, change.place)


def _protocol_of(config: state.TableConfiguration) -> Action:
    if config.raw_protocol is not None:
        return state.drop_null_fields(config.raw_protocol)
    assert config.protocol is not None
    return config.protocol.as_json()


def _protocol(
    config: state.TableConfiguration, before: Action, due: Sequence[Widened], *, upgrade_protocol: bool
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


def _refusals_of_readers(config: state.TableConfiguration, before: Action, after: Action | None) -> Iterator[Refusal]:
    """Yield a refusal if recorded type changes without effect so far would make every reader refuse the table."""
    added = added_features(before, after) if after else ()
    refusal = type_changes.refused_change(config, [*config.features, *added]) if TYPE_WIDENING in added else None
    if refusal is not None:
        message = f"with the feature {TYPE_WIDENING} no reader could read the table: {refusal.reason}"
        yield Refusal("widen.history-refused", message, command("validate", select=["typewidening.*"]))


def _needed_features(config: state.TableConfiguration, due: Sequence[Widened]) -> list[str]:
    """Type widening under the name that the table has, and the type that the changes bring."""
    is_of_preview = TYPE_WIDENING_PREVIEW in config.features and TYPE_WIDENING not in config.features
    needed = [TYPE_WIDENING_PREVIEW if is_of_preview else TYPE_WIDENING]
    if any(change.to_type == "timestamp_ntz" for change in due):
        needed.append(next((name for name in sorted(NTZ_FEATURES) if name in config.features), "timestampNtz"))
    return needed


def _warnings(due: Sequence[Widened], ground: Ground) -> tuple[Caution, ...]:
    warnings = [warning for change in due for warning in cautions_of_widening(change, ground)]
    if due and ground.config.is_on(state.CHANGE_FEED):
        message = "change data written before keeps the older types, so reading changes across this version may fail"
        warnings.append(Caution("widen.change-data-feed", message))
    if due and (formats := uniform_formats(ground.config)):
        message = f"the table is also kept as {', '.join(formats)}, which is not converted before the next write"
        warnings.append(Caution("widen.uniform", message))
    return tuple(warnings)
