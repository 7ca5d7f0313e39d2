"""Type widening: which types may become which, the recorded changes, and conversion of values in files.

Only exact conversions are made: the physical forms of
one type, and the widenings that the protocol allows. Timestamps of nanoseconds are truncated to microseconds, as every
reader of the table's type does.

Spec: Type Widening; Type Change Metadata; Reader Requirements for Type Widening; Delta Data Type to Parquet Type
Mappings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, Unreadable, command
from deltacli.core.texts import add_article
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import TYPE_WIDENING, TYPE_WIDENING_PREVIEW
from deltacli.delta.schema.to_arrow import require_partitions
from deltacli.delta.schema.types import (
    NANOSECONDS,
    PLAIN_TYPES,
    WHOLE_BITS,
    YEAR_MONTH,
    DataType,
    PrimitiveType,
    StructField,
    StructType,
    decimal_parts,
    get_recorded_physical_name,
    interval_name,
    parts_of,
)

WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long", "double"}),
    "short": frozenset({"integer", "long", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
    "date": frozenset({"timestamp_ntz"}),
}
"""Type -> the wider types other than decimals. Steps may be skipped. long -> double would lose digits.

Tables that exist are judged by them, too; what only our commands refuse is in `widening`.
"""

INTEGER_DIGITS: Mapping[str, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"Type -> the digits before the decimal point that a decimal needs for it: those of the integer in files."

PREVIEW_DIGITS: Mapping[str, int] = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The digits that were enough for writers of the feature's preview: those of the type's own values."""

ICEBERG_WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long"}),
    "short": frozenset({"integer", "long"}),
    "integer": frozenset({"long"}),
    "float": frozenset({"double"}),
}
"The part of `WIDER` that Iceberg supports. Decimals may increase in precision, but not in scale."

MAX_DECIMAL_PRECISION = 38
NUMBER_TYPES = (
    "tinyint (byte), smallint (short), int (integer), bigint (long), float (real), double, "
    f"decimal(p,s) (dec, numeric) with s <= p <= {MAX_DECIMAL_PRECISION}"
)
"""How the types of numbers are written, in messages and documentation."""
OF_DECIMALS = f"a decimal has a precision of 1 to {MAX_DECIMAL_PRECISION}, and a scale up to the precision"


def hint_for_type(text: str) -> str | None:
    """Return a hint for a part of a type, which the shell has cut off at a space; None for a whole one."""
    is_part = any(text.count(opening) != text.count(closing) for opening, closing in ("()", "<>"))
    is_cut = is_part and digits_of_decimal(f"{text})") is None  # else only the bracket was forgotten
    return "quote a type that contains spaces or brackets: 'decimal(20, 2)'" if is_cut else None


_OTHER_NAMES: Mapping[str, str] = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "dec": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "decimal": "decimal(10,0)",
}
"""SQL spellings, which Spark reads as well, and the names that a schema has for the same types."""

_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)", re.ASCII)
_PLAIN = PLAIN_TYPES | {"variant", "void"}
_PARAMETRIC = re.compile(
    r"(?:char|varchar)\s*\(\s*\d+\s*\)|interval( [a-z]+( to [a-z]+)?)?|(?:geometry|geography)\s*(\(.*\))?|"
    r"timestamp(_ntz|_ltz)?\s*\(\s*\d+\s*\)|timestamp_(ltz|nanos|ntz_nanos)|string collate \S+",
    re.ASCII,
)


class Decimal(NamedTuple):
    """The digits of a decimal type: the total, and those after the decimal point."""

    precision: int
    scale: int

    @property
    def whole_digits(self) -> int:
        return self.precision - self.scale


def canonical_name(type_name: str) -> str:
    """Return a primitive type as schemas spell it: `decimal(6, 2)` is `decimal(6,2)`, `INT` is `integer`."""
    text = type_name.strip().lower()
    decimal = digits_of_decimal(text)
    if decimal is not None:
        return f"decimal({decimal.precision},{decimal.scale})"
    return _OTHER_NAMES.get(text, text)


def digits_of_decimal(type_name: str) -> Decimal | None:
    """Return the digits of a decimal type, or None for other types and for invalid digits."""
    match = _DECIMAL.fullmatch(type_name.strip().lower())
    if match is None:
        return None
    number = Decimal(int(match[1]), int(match[2] or 0))
    return number if 1 <= number.precision <= MAX_DECIMAL_PRECISION and number.scale <= number.precision else None


def is_primitive_name(type_name: str) -> bool:
    """Return True if a text names a primitive type, including those that cannot be widened."""
    name = canonical_name(type_name)
    return name in _PLAIN or digits_of_decimal(name) is not None or _PARAMETRIC.fullmatch(name) is not None


def is_allowed_change(from_type: str, to_type: str) -> bool:
    """Return True if a column of one primitive type may become one of the other by type widening. The same type is not
    a change and not allowed. Void becomes any type without this feature.
    """
    from_name, to_name = canonical_name(from_type), canonical_name(to_type)
    if to_name in WIDER.get(from_name, ()):
        return True
    to_decimal = digits_of_decimal(to_name)
    if to_decimal is None or from_name == to_name:
        return False
    if from_name in INTEGER_DIGITS:
        return to_decimal.whole_digits >= INTEGER_DIGITS[from_name]
    from_decimal = digits_of_decimal(from_name)
    return (
        from_decimal is not None
        and to_decimal.scale >= from_decimal.scale
        and to_decimal.whole_digits >= from_decimal.whole_digits
    )


def was_allowed_in_preview(from_type: str, to_type: str) -> bool:
    """Return True if a change loses no digit although it is not allowed: the feature's preview made such tables."""
    to_decimal = digits_of_decimal(to_type)
    digits = PREVIEW_DIGITS.get(canonical_name(from_type))
    return to_decimal is not None and digits is not None and to_decimal.whole_digits >= digits


def is_iceberg_change(from_type: str, to_type: str) -> bool:
    """Return True if an allowed change is possible in a table with Iceberg compatibility."""
    from_name, to_name = canonical_name(from_type), canonical_name(to_type)
    if to_name in ICEBERG_WIDER.get(from_name, ()):
        return True
    from_decimal, to_decimal = digits_of_decimal(from_name), digits_of_decimal(to_name)
    return (
        from_decimal is not None
        and to_decimal is not None
        and to_decimal.scale == from_decimal.scale
        and to_decimal.precision > from_decimal.precision
    )


TYPE_CHANGES_KEY = "delta.typeChanges"


class TypeChange(NamedTuple):
    """One entry; types in the spelling of schemas. `field_path` leads into an array or a map: `element.value`."""

    from_type: str
    to_type: str
    field_path: str | None = None
    has_table_version: bool = False


class BadEntry(NamedTuple):
    """An invalid entry, and why; `seen` is its value."""

    reason: str
    seen: object


class NamedField(NamedTuple):
    """A column or nested field with the names that lead to it, including `element`, `key` and `value`.

    `identity` identifies it across versions, by physical names if it has them.
    """

    path: str
    field: StructField
    identity: tuple[str, ...]


def named_fields(schema: StructType) -> Iterator[NamedField]:
    """Yield every field of every struct, parents first."""
    yield from _named(schema, "", ())


def _named(data_type: DataType, path: str, identity: tuple[str, ...]) -> Iterator[NamedField]:
    for part in parts_of(data_type):
        own_path, own = f"{path}.{part.name}" if path else part.name, (*identity, get_recorded_physical_name(part))
        if isinstance(data_type, StructType):
            yield NamedField(own_path, part, own)
        yield from _named(part.data_type, own_path, own)


def read_type_changes(field: StructField) -> list[TypeChange | BadEntry]:
    """Return the entries of a field in order."""
    entries = field.metadata.get(TYPE_CHANGES_KEY)
    if entries is None:
        return []
    if not isinstance(entries, list):
        return [BadEntry("it is not a list", entries)]
    return [_read(entry) for entry in entries]


def _read(entry: Json) -> TypeChange | BadEntry:
    if not isinstance(entry, dict):
        return BadEntry("an entry is not an object", entry)
    for key in ("fromType", "toType"):
        name = entry.get(key)
        if name is None:
            return BadEntry(f"an entry has no {key}", entry)
        if not isinstance(name, str) or not is_primitive_name(name):
            return BadEntry(f"{key} of an entry is not the name of a primitive type", name)
    path = entry.get("fieldPath")
    if path is not None and not isinstance(path, str):
        return BadEntry("fieldPath of an entry is not text", path)
    return TypeChange(
        canonical_name(entry["fromType"]), canonical_name(entry["toType"]), path or None, "tableVersion" in entry
    )


def is_supported(features: Collection[str]) -> bool:
    """Return True if a table with these features supports type widening. Without it, type changes have no effect."""
    return TYPE_WIDENING in features or TYPE_WIDENING_PREVIEW in features


def is_preview_change(change: TypeChange, features: Collection[str]) -> bool:
    """Return True for a change that is not allowed, but was in the preview of the feature, which the table has."""
    if is_allowed_change(change.from_type, change.to_type) or TYPE_WIDENING_PREVIEW not in features:
        return False
    return was_allowed_in_preview(change.from_type, change.to_type)


def must_refuse(entry: TypeChange | BadEntry, features: Collection[str]) -> bool:
    """Return True if no reader may read the rows of a table with these features and this entry in its schema.

    Every reader accepts an entry that needs no conversion, from a type to itself or from void. Spec: Reader
    Requirements for Type Widening.
    """
    if not is_supported(features):
        return False
    if isinstance(entry, BadEntry):
        return True
    if entry.from_type in (entry.to_type, "void") or is_allowed_change(entry.from_type, entry.to_type):
        return False
    return not is_preview_change(entry, features)


def type_at(data_type: DataType, field_path: str | None) -> DataType | None:
    """Return the type at a fieldPath from a field's own type, or None if there is none."""
    for step in field_path.split(".") if field_path else ():
        parts = () if isinstance(data_type, StructType) else parts_of(data_type)
        part = next((part for part in parts if part.name == step), None)
        if part is None:
            return None
        data_type = part.data_type
    return data_type


def primitive_paths(data_type: DataType) -> Iterator[tuple[str | None, str]]:
    """Yield each fieldPath of a field that leads to a primitive type, with the type. Structs start new paths."""
    if isinstance(data_type, PrimitiveType):
        yield None, data_type.name
    for part in () if isinstance(data_type, StructType) else parts_of(data_type):
        for path, name in primitive_paths(part.data_type):
            yield (f"{part.name}.{path}" if path else part.name), name


def can_be(type_name: str, current: str) -> bool:
    """Return True if a column that once had a type may have the current one now."""
    return canonical_name(type_name) == canonical_name(current) or is_allowed_change(type_name, current)


BAD_ENTRY, NOT_ALLOWED = "typewidening.bad-entry", "typewidening.change-not-allowed"
"""The rules of `validate` that report what is refused here."""


def changed_fields(config: TableConfiguration) -> list[NamedField]:
    """Return the fields that have type changes, valid or not."""
    text = config.metadata.schema_string if config.metadata else None
    if config.schema is None or not text or "typeChanges" not in text:
        return []
    return [named for named in named_fields(config.schema) if TYPE_CHANGES_KEY in named.field.metadata]


class RefusedChange(NamedTuple):
    """A type change that no reader may accept: the rule that reports it, its column, what was seen, and why."""

    rule: str
    column: str
    seen: str
    reason: str


def refused_change(config: TableConfiguration, features: Collection[str]) -> RefusedChange | None:
    """Return the first type change that no reader may accept in a table with these features.

    Spec: Reader Requirements for Type Widening.
    """
    for named in changed_fields(config):
        for entry in read_type_changes(named.field):
            if must_refuse(entry, features):
                return _described(named.path, entry)
    return None


def _described(column: str, entry: TypeChange | BadEntry) -> RefusedChange:
    if isinstance(entry, BadEntry):
        reason = f"the type changes of column {column} cannot be read: {entry.reason}"
        return RefusedChange(BAD_ENTRY, column, repr(entry.seen)[:200], reason)
    seen = f"{entry.from_type} to {entry.to_type}"
    reason = f"column {column} was changed from {seen}, which is not a supported type change"
    return RefusedChange(NOT_ALLOWED, column, seen, reason)


def require_readable_rows(config: TableConfiguration, version: int) -> None:
    """Raise Unreadable if no reader may read the rows of a version because of an unsupported type change, or of a
    partition column that the schema lacks.
    """
    require_partitions(config, version)
    refusal = refused_change(config, config.features)
    if refusal is not None:
        raise Unreadable(
            f"the rows of version {version} cannot be read: {refusal.reason}",
            code=refusal.rule,
            facts={"column": refusal.column, "seen": refusal.seen},
            hint=command("validate", select=["typewidening.*"]),
        )


# -- convert values of a column of a file to the type of the table -----------------------------------------------------

_FIRST = -(1 << 63) + 1_000
"""From here on no microsecond begins before the first nanosecond of 64 bits."""


def to_microseconds(numbers: ArrowArray) -> ArrowArray:
    """Return nanoseconds as the microseconds that contain them, also before 1970, where a cast returns the next."""
    least = pc.min_max(numbers).as_py()["min"]
    if least is None or least >= _FIRST:
        # 30 ns per row; the division below takes 100.
        cut = pc.floor_temporal(numbers.view(pa.timestamp("ns")), unit="microsecond")
        return pc.cast(cut, pa.timestamp("us")).view(pa.int64())
    whole = pc.divide(numbers, 1_000)
    is_later = pc.less(pc.subtract(numbers, pc.multiply(whole, 1_000)), 0)
    return pc.subtract(whole, pc.cast(is_later, pa.int64()))


Convert: TypeAlias = Callable[[ArrowArray], ArrowArray]

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"The digits before the decimal point that a decimal needs for every integer of so many bits. New changes need more "
"(10 and 20), but tables of early writers have these."


def conversion(kind: Any, name: str, wanted: Any, path: str) -> Convert | None:
    """Return the conversion of an Arrow type to `wanted`, the Arrow type of the primitive type `name`, or None if they
    are equal. Raises DataUnreadable (`data.type-mismatch`); so does the function for a value that does not fit.
    """
    if kind.equals(wanted):
        return None
    if pa.types.is_dictionary(kind):
        inner = conversion(kind.value_type, name, wanted, path)
        plain = _decoded(kind.value_type, path)
        return plain if inner is None else lambda values: inner(plain(values))
    if not fits_type(kind, name):
        raise file_type_mismatch(path, kind, wanted)
    if name in ("timestamp", "timestamp_ntz") and pa.types.is_timestamp(kind):
        return _time(kind, wanted, path)
    return _checked(wanted, path)


def file_type_mismatch(path: str, actual: Any, wanted: Any) -> DataUnreadable:
    """Return the error for a type in a file that is not a form of the type in the table."""
    return DataUnreadable(
        f"column {path} is {str(actual)[:120]} in the file, but {str(wanted)[:120]} in the table",
        code="data.type-mismatch",
        facts={"column": path, "in the file": str(actual)[:200], "in the table": str(wanted)[:200]},
        hint=command("snapshot", schema=True),
    )


def fits_type(kind: Any, name: str) -> bool:
    """Return True if every value of an Arrow type is one of the table's type `name`, or may be and is checked."""
    types = pa.types
    if name in WHOLE_BITS:
        # Parquet has no integers of less than 32 bits, and a writer may omit that a column has only 8 or 16.
        return bool(types.is_integer(kind) and kind.bit_width <= max(WHOLE_BITS[name], 32))
    if parts := decimal_parts(name):
        return _fits_decimal(kind, *parts)
    if name == "float":
        return bool(types.is_float32(kind) or types.is_float16(kind))
    if name == "double":
        return bool(types.is_floating(kind) or (types.is_integer(kind) and kind.bit_width <= 32))
    if interval := interval_name(name):
        # Arrow reads a duration that it wrote as one, not as the INT64 that it is stored as.
        is_duration = interval != YEAR_MONTH and kind == pa.duration("us")
        width = 32 if interval == YEAR_MONTH else 64
        return bool(is_duration or (types.is_signed_integer(kind) and kind.bit_width == width))
    if name in NANOSECONDS:
        return bool(types.is_timestamp(kind) and (kind.tz is None) == (NANOSECONDS[name] is None))
    if name == "timestamp":
        return bool(types.is_timestamp(kind))
    if name == "timestamp_ntz":
        return bool((types.is_timestamp(kind) and kind.tz is None) or types.is_date(kind))
    if name == "date":
        return bool(types.is_date(kind))
    if name == "boolean":
        return bool(types.is_boolean(kind))
    return _is_bytes(kind)


def _fits_decimal(kind: Any, precision: int, scale: int) -> bool:
    if pa.types.is_integer(kind):
        return precision - scale >= _DIGITS[kind.bit_width]
    return bool(pa.types.is_decimal(kind) and kind.scale <= scale and kind.precision - kind.scale <= precision - scale)


def _is_bytes(kind: Any) -> bool:
    """Return True for text and bytes in every form."""
    types = pa.types
    return any(
        (
            types.is_string(kind),
            types.is_large_string(kind),
            types.is_string_view(kind),
            types.is_binary(kind),
            types.is_large_binary(kind),
            types.is_binary_view(kind),
            types.is_fixed_size_binary(kind),
        )
    )


def _checked(wanted: Any, path: str) -> Convert:
    """Return a cast that refuses values that do not fit."""

    def convert(values: Any) -> Any:
        try:
            return pc.cast(values, wanted)
        except MemoryError:
            raise
        except pa.ArrowException as fault:
            raise DataUnreadable(
                f"column {path} holds a value that is not {add_article(str(wanted))}",
                code="data.type-mismatch",
                facts={"column": path, "in the file": str(values.type)[:200], "reason": str(fault)[:200]},
            ) from fault

    return convert


def _decoded(value_type: Any, path: str) -> Convert:
    """Return the values that a dictionary represents."""
    checked = _checked(value_type, path)

    def convert(values: Any) -> Any:
        # A field that is never null has an index even below a null struct; if all of them are null, there is no value.
        return checked(values) if len(values.dictionary) else pa.nulls(len(values), value_type)

    return convert


def _time(kind: Any, wanted: Any, path: str) -> Convert:
    """Return timestamps in microseconds. One without a zone, in a column with one, is in UTC."""
    checked = _checked(wanted, path)
    if kind.unit != "ns":
        return checked

    def convert(values: Any) -> Any:
        return checked(to_microseconds(values.view(pa.int64())).view(pa.timestamp("us")))

    return convert
