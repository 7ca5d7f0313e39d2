"""Reasons against a wider type, one guard per reason.

Spec: Type Widening: Writer Requirements. A guard refuses a change that it cannot prove safe: SQL that was not
understood may refer to the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.core.cached import cached_property
from deltacli.core.errors import Refusal
from deltacli.core.hints import command
from deltacli.core.units import plural
from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.text import Spelling, spelling_of
from deltacli.delta.protocol.features import GENERATED_COLUMNS, IDENTITY_COLUMNS
from deltacli.delta.schema.type_changes import decimal_of, is_allowed_change, is_iceberg_change
from deltacli.delta.schema.types import StructType
from deltacli.delta.schema.widened_schema import Widened, history_of, possible_targets
from deltacli.delta.sql.nodes import Form, Node
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import (
    DEFAULT_KEY,
    GENERATION_KEY,
    INVARIANT_KEY,
    Reference,
    StoredKind,
    StoredSql,
    refers_to,
    stored_sql,
)

PartitionValues = Callable[[str], Iterable[str | None]]
"""The distinct texts of a partition column in the live files, by its name in partitionValues."""

UNIFORM_KEY = "delta.universalFormat.enabledFormats"
CHAR_VARCHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"
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

    config: TableConfiguration
    schema: StructType
    partition_values: PartitionValues | None = None

    @cached_property
    def stored_sql(self) -> tuple[StoredSql, ...]:
        """Return the SQL that the table keeps, cached because finding it visits all columns."""
        return tuple(stored_sql(self.config))


def refusals_of(change: Widened, ground: Ground) -> tuple[Refusal, ...]:
    """Yield every reason against a change. For a change that is never allowed, only that reason."""
    refusals = tuple(_type_refusals(change))
    return refusals or tuple(refusal for guard in _GUARDS for refusal in guard(change, ground))


def cautions_of(change: Widened, ground: Ground) -> Iterator[Caution]:
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
    to_decimal = decimal_of(change.to_type)
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
    decimal = decimal_of(type_name)
    return 0 if decimal is None else decimal.scale


def is_partition_column(change: Widened, config: TableConfiguration) -> bool:
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
    if is_allowed_change(change.from_type, change.to_type):
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
        if is_too_small or not is_iceberg_change(change.from_type, change.to_type):
            message = f"{change.place.text} cannot become {change.to_type}: {feature} does not support this change"
            yield Refusal("widen.iceberg-compat", message, _iceberg_way_out(change))
            return


def _uniform(change: Widened, ground: Ground) -> Iterator[Refusal]:
    formats = uniform_formats(ground.config)
    if formats and not is_iceberg_change(change.from_type, change.to_type):
        shown = ", ".join(formats)
        message = f"{change.place.text} cannot become {change.to_type}: the table is also kept as {shown}"
        yield Refusal("widen.uniform", message, _iceberg_way_out(change))


def uniform_formats(config: TableConfiguration) -> list[str]:
    """Return the other formats in which the table is kept."""
    texts = [text for key, text in config.properties.items() if key.lower() == UNIFORM_KEY.lower()]
    return [name.strip() for text in texts for name in str(text).split(",") if name.strip()]


def _iceberg_way_out(change: Widened) -> str:
    decimal = decimal_of(change.from_type)
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
            yield Refusal("widen.generation-expression", message, "write the table anew without the expression")
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
