"""Partition values. As text: which are valid, in which spelling, which value each is, and those of appended rows;
elsewhere texts are copied as they are. In the types of the table: with an error instead of a silent null.

Spec: Partition Value Serialization. A timestamp without a zone is read as UTC. An empty text is null for every type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, Refused, command
from deltacli.core.texts import add_article
from deltacli.core.typing import ArrowArray, ArrowScalar, ArrowType
from deltacli.delta.encoding import value_text
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import types
from deltacli.delta.schema.to_arrow import arrow_type, typed
from deltacli.delta.stats.columns import exact_decimal, fits_decimal

HIVE_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
_HIVE_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")


class Spelling(StrEnum):
    """The result of parsing a text as the type of its column."""

    PLAIN = "plain"
    NOT_CANONICAL = "not canonical"
    NO_ZONE = "no zone"
    DATE_ONLY = "date only"
    REFUSED_BY_KERNEL = "refused by kernels"
    EMPTY = "empty"
    ESCAPED_BYTES = "escaped bytes"
    REPLACED_BYTES = "replaced bytes"
    UNPARSABLE = "unparsable"


_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_PLAIN_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_PLAIN_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_PLAIN_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[+-][0-9]{5,6}-[0-9]{2}-[0-9]{2}")
_PLAIN_NTZ = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_WITHOUT_ZONE = re.compile(r"[^T]* [0-9]+:[0-9]+:[0-9]+(\.[0-9]+)?")
_WITH_ZONE = re.compile(r"[^T]*[T ][0-9]+:[0-9]+:[0-9]+(\.[0-9]+)?(Z| UTC|[+-][0-9]{2}:?[0-9]{2})")
_SIGNED_FRACTION = re.compile(r"-?(?P<whole>[0-9]+)\.0*-(?P<fraction>[0-9]+)")
_ESCAPED_BYTES = re.compile(r"\A(\\u00[0-9A-Fa-f]{2})+\Z|\\x[0-9A-F]{2}")
_REPLACEMENT = "\ufffd"
_SPELLED_FLOATS = {"NaN", "Infinity", "-Infinity"}
_OTHER_FLOATS = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}

_DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
"A day that every month has. Other days are checked one by one."
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?"
_SURE: Mapping[str, tuple[tuple[str, Spelling], ...]] = {
    **{
        name: ((rf"^(0|-?[1-9][0-9]{{0,{digits}}})$", Spelling.PLAIN),)
        for name, digits in (("byte", 1), ("short", 3), ("integer", 8), ("long", 17))
    },
    **dict.fromkeys(("float", "double"), (("^-?(0|[1-9][0-9]*)([.][0-9]+)?$", Spelling.PLAIN),)),
    "boolean": (("^(true|false)$", Spelling.PLAIN),),
    "date": ((f"^{_DAY}$", Spelling.PLAIN),),
    "timestamp": ((f"^{_DAY}[T ]{_CLOCK}Z$", Spelling.PLAIN), (f"^{_DAY} {_CLOCK}$", Spelling.NO_ZONE)),
    "timestamp_ntz": ((f"^{_DAY} {_CLOCK}$", Spelling.PLAIN), (f"^{_DAY}$", Spelling.DATE_ONLY)),
}


def format_partition_directory(values: Mapping[str, str | None]) -> str:
    """Return a partition's directory as Hive and Spark name it, not yet encoded: `a=1/b=x%3Ay`; '' without columns."""
    return "/".join(f"{_escaped(name)}={_escaped(value or HIVE_DEFAULT)}" for name, value in values.items())


def _escaped(text: str) -> str:
    return _HIVE_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def sure_spellings(type_name: str) -> tuple[tuple[str, Spelling], ...]:
    """Patterns, in Arrow's dialect, of texts that are certainly valid."""
    return _SURE.get(type_name, ())


def is_text(type_name: str) -> bool:
    """Return True for types whose values are any text."""
    return type_name in ("string", "binary") or type_name.startswith(("char(", "varchar("))


def spelling_of(type_name: str, text: str) -> Spelling:
    """Check a value that is neither null nor empty. Unrecognized types accept any text."""
    bare = text.strip()
    spelling = _spelling(type_name, bare)
    if spelling is Spelling.PLAIN and bare != text and type_name in _JUDGES:
        return Spelling.NOT_CANONICAL
    return spelling


def is_refused_by_kernel(type_name: str, text: str) -> bool:
    """Return True for a valid value that readers built on a Delta kernel (deltalake, DuckDB) do not parse: a decimal
    with another number of digits than its scale, a time without seconds, `T` in a time without a zone, blanks around a
    value, a suffix of a float. Measured with deltalake.
    """
    parts = types.decimal_parts(type_name)
    if parts is None and type_name not in _JUDGES:
        return False
    if text != text.strip():
        return True
    if parts is not None:
        number = exact_decimal(text)
        return number is not None and number.as_tuple().exponent != -parts[1]
    if type_name in ("timestamp", "timestamp_ntz"):
        return not (_WITHOUT_ZONE.fullmatch(text) or (type_name == "timestamp" and _WITH_ZONE.fullmatch(text)))
    return type_name in ("float", "double") and text[-1:] in tuple("fFdD") and text.lower() not in _OTHER_FLOATS


def is_refused_by_java_kernel(type_name: str, text: str) -> bool:
    """Return True for a text that Delta Kernel for Java parses as a value of its type, and cannot: the empty text.

    By the protocol an empty text is null for every type, and deltalake, Spark and DuckDB read it as null. Kernel for
    Java does so for text columns only.
    """
    return not text and not is_text(type_name)


def decimal_meant(type_name: str, text: str) -> str | None:
    """Return the decimal that deltalake 1.6.6 meant by an invalid text; None if the text is not one of its own.

    deltalake writes the fraction of a negative number with a sign of its own: -1.50 as `-1.-50`, and -0.001 as `0.0-1`.
    """
    parts = types.decimal_parts(type_name)
    match = _SIGNED_FRACTION.fullmatch(text)
    if parts is None or match is None or len(match["fraction"]) > parts[1]:
        return None
    return f"-{match['whole']}.{match['fraction'].zfill(parts[1])}"


def altered_bytes(texts: Iterable[str]) -> dict[str, Spelling]:
    r"""Return the binary values among some texts that a writer has probably altered, and how.

    deltalake writes each byte as an escape (`A` as `\u0041`), DuckDB those beyond ASCII (`\xC3\xA9`). The protocol
    calls such values escaped, but all readers take the text as UTF-8, hence they read the letters of the escapes. Spark
    puts U+FFFD in place of bytes that are not UTF-8, which are lost.
    """
    found = {}
    for text in texts:
        if _ESCAPED_BYTES.search(text):
            found[text] = Spelling.ESCAPED_BYTES
        elif _REPLACEMENT in text:
            found[text] = Spelling.REPLACED_BYTES
    return found


def best_spelling(type_name: str, texts: Sequence[str | None]) -> str | None:
    """Return one of the texts of the same value: the first that every reader parses, plain if there is such a one."""

    def faults(text: str | None) -> tuple[bool, bool]:
        return is_refused_by_kernel(type_name, text or ""), spelling_of(type_name, text or "") is not Spelling.PLAIN

    return min(texts, key=faults)


def _spelling(type_name: str, text: str) -> Spelling:
    if types.decimal_parts(type_name):
        return _decimal(type_name, text)
    judge = _JUDGES.get(type_name)
    return judge(type_name, text) if judge else Spelling.PLAIN


def _whole(type_name: str, text: str) -> Spelling:
    limit = 1 << (types.WHOLE_BITS[type_name] - 1)
    if not _WHOLE.fullmatch(text) or not -limit <= int(text) < limit:
        return Spelling.UNPARSABLE
    return Spelling.PLAIN if _PLAIN_WHOLE.fullmatch(text) else Spelling.NOT_CANONICAL


def _float(_type_name: str, text: str) -> Spelling:
    if text in _SPELLED_FLOATS or _PLAIN_FLOAT.fullmatch(text):
        return Spelling.PLAIN
    if text.lower() in _OTHER_FLOATS or _FLOAT.fullmatch(text):
        return Spelling.NOT_CANONICAL
    return Spelling.UNPARSABLE


def _decimal(type_name: str, text: str) -> Spelling:
    number = exact_decimal(text)
    if number is None or not fits_decimal(number, *(types.decimal_parts(type_name) or (38, 0))):
        return Spelling.UNPARSABLE
    return Spelling.PLAIN if _PLAIN_DECIMAL.fullmatch(text) else Spelling.NOT_CANONICAL


def _boolean(_type_name: str, text: str) -> Spelling:
    if text in ("true", "false"):
        return Spelling.PLAIN
    return Spelling.NOT_CANONICAL if text.lower() in ("true", "false") else Spelling.UNPARSABLE


def _date(_type_name: str, text: str) -> Spelling:
    if value_text.parse_date(text) is None:
        return Spelling.UNPARSABLE
    return Spelling.PLAIN if _PLAIN_DATE.fullmatch(text) else Spelling.NOT_CANONICAL


def _timestamp(_type_name: str, text: str) -> Spelling:
    moment = value_text.parse_moment(text)
    if moment is None:
        return Spelling.UNPARSABLE
    return Spelling.PLAIN if moment.has_zone else Spelling.NO_ZONE


def _timestamp_ntz(_type_name: str, text: str) -> Spelling:
    moment = value_text.parse_moment(text)
    if moment is None:
        return Spelling.UNPARSABLE
    if moment.is_date_only:
        return Spelling.DATE_ONLY
    return Spelling.PLAIN if _PLAIN_NTZ.fullmatch(text) else Spelling.NOT_CANONICAL


_JUDGES = {
    **dict.fromkeys(types.WHOLE_BITS, _whole),
    **dict.fromkeys(("float", "double"), _float),
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}


def may_be_equal(type_name: str, one: str, other: str) -> bool:
    """Return False if two texts certainly are different values of a type. Times may differ by their writers' zones."""
    if one == other:
        return True
    values = [_value(type_name, text.strip()) for text in (one, other)]
    return None not in values and (type_name.startswith("timestamp") or values[0] == values[1])


def _value(type_name: str, text: str) -> Any:  # Any: something to compare
    if is_text(type_name):
        return text
    if _spelling(type_name, text) is Spelling.UNPARSABLE:
        return None
    if type_name == "boolean":
        return text.lower()
    if type_name == "date":
        return value_text.parse_date(text)
    if type_name in types.WHOLE_BITS or types.decimal_parts(type_name):
        return Decimal(text)
    if type_name in ("float", "double"):
        number = parse_number(text)
        return str(number + 0.0)  # one NaN for all of them, and one zero
    return text


def parse_number(text: str) -> float:
    """Return the number of a valid text of a float or double, which may have a suffix as in Java: `1.5f`, `-1D`."""
    return float(text.rstrip("fFdD") if _FLOAT.fullmatch(text) else text)


def partition_text(value: Any, kind: types.PrimitiveType, column: str) -> str | None:
    """Return the text of a Python value of a type; None for null, and for an empty text, which means null.

    Times are UTC, with `Z` where they have a zone. Raises Refused (`append.partition-value`) for what no reader gets
    back: binary values, and dates outside of the years 1 to 9999.
    """
    if value is None or value == "":
        return None
    text = _text(value, kind)
    if text is None or spelling_of(kind.name, text) is not Spelling.PLAIN:
        message = f"partition column {column}: {add_article(kind.name)} cannot be written as a partition value"
        raise Refused(message, code="append.partition-value", facts={"column": column, "value": repr(value)[:120]})
    return text


def _text(value: Any, kind: types.PrimitiveType) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return _float_text(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
            parts = "auto" if moment.microsecond == 0 else "microseconds"
            text = moment.isoformat(" ", "seconds" if parts == "auto" else parts)
            return f"{text.replace(' ', 'T')}Z" if kind.name == "timestamp" else text
        case date():
            return value.isoformat()
        case str():
            return value
    return None


def _float_text(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).replace("e+", "E").replace("e", "E")


# -- texts as values ---------------------------------------------------------------------------------------------------


def partition_type(config: TableConfiguration) -> ArrowType:
    """Return the type of `partitionValues_parsed`: fields by physical name, in the order of the partition columns."""
    fields = [
        pa.field(name, kind)
        for name, column in config.partition_columns.items()
        if column is not None and (kind := typed(column.data_type)) is not None
    ]
    return pa.struct(fields) if fields else None


def parse_partition_values(
    maps: Any, config: TableConfiguration, kind: Any
) -> Any:  # Any: Arrow arrays and a struct type
    """Return the typed `partitionValues` of adds. A text that is not a value of its type is null."""
    columns = []
    for field in kind:
        column = config.partition_columns[field.name]
        texts = pc.map_lookup(maps, query_key=pa.scalar(field.name), occurrence="first")
        name = column.data_type.name if column and isinstance(column.data_type, types.PrimitiveType) else ""
        encoded = pc.dictionary_encode(texts)
        values = [None if text is None else _value_of(name, text) for text in encoded.dictionary.to_pylist()]
        columns.append(pc.take(_array(values, field.type), encoded.indices))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _array(values: list[Any], kind: Any) -> Any:
    if not values:
        return pa.nulls(0, kind)
    if pa.types.is_temporal(kind):
        unit = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return pa.array(values, unit).view(kind)
    return pa.array(values, kind)


def _value_of(type_name: str, text: str) -> Any:  # Any: what Arrow takes for the type
    """Return a partition value: times as microseconds, dates as days since the epoch, None for an invalid value."""
    if text == "":
        return None
    if type_name == "binary":
        return text.encode("utf-8", "replace")
    if is_text(type_name):
        return text
    bare = text.strip()
    if spelling_of(type_name, text) is Spelling.UNPARSABLE:
        return None
    match type_name:
        case "boolean":
            return bare.lower() == "true"
        case "date":
            return value_text.parse_date(bare)
        case "timestamp" | "timestamp_ntz":
            moment = value_text.parse_moment(bare)
            return moment.microseconds if moment and abs(moment.microseconds) < 1 << 63 else None
        case "float" | "double":
            return parse_number(bare)
        case "byte" | "short" | "integer" | "long":
            return int(bare)
    return _other_value(type_name, bare)


def _other_value(type_name: str, bare: str) -> Any:
    if interval := types.interval_name(type_name):
        return value_text.months_of(bare) if interval == types.YEAR_MONTH else value_text.interval_microseconds(bare)
    if type_name in types.NANOSECONDS:
        return value_text.nanoseconds_of(bare)
    if not type_name.startswith("decimal"):
        return None  # no text is a value of an array, a map, a struct or a variant
    return Decimal(bare)


# -- partition values in the types of the table ------------------------------------------------------------------------


def parse_partition_columns(
    actions: pa.RecordBatch, config: TableConfiguration, wanted: Sequence[str]
) -> dict[str, pa.Array]:
    """Return the values of the partition columns `wanted` (physical names), one per file action.

    Raises DataUnreadable (`partition.key-missing`, `partition.unparsable`), naming the first faulty file.
    """
    if not wanted or not actions.num_rows:
        return {}
    maps = actions.column("partitionValues")
    columns = {name: config.partition_columns[name] for name in wanted}
    kind = pa.struct(
        [pa.field(name, arrow_type(column.data_type, name)) for name, column in columns.items() if column is not None]
    )
    keys = _KeysOf(maps)
    for field in kind:
        keys.require(field.name, actions.column("path"))
    parsed = parse_partition_values(keys.spelled(kind.names), config, kind)
    arrays = {}
    for field, values in zip(kind, parsed.flatten(), strict=True):
        texts = pc.map_lookup(keys.spelled(kind.names), query_key=pa.scalar(field.name), occurrence="first")
        wrong = pc.and_(pc.is_null(values), pc.greater(pc.fill_null(pc.binary_length(texts), 0), 0))
        if pc.any(wrong).as_py():
            raise _unparsable(actions, columns[field.name], texts, pc.indices_nonzero(wrong)[0].as_py())
        arrays[field.name] = values
    return arrays


def find_empty_texts(actions: pa.RecordBatch, config: TableConfiguration, names: Sequence[str]) -> list[str]:
    """Return which of some partition columns of text (physical names) have an empty text in a file action.

    It is null by the protocol, and is read so. Spark and the kernels return the empty text.
    """
    maps = actions.column("partitionValues")
    if not pc.any(pc.equal(maps.items, "")).as_py():  # nearly every table
        return []
    spelled = _KeysOf(maps).spelled(names)
    found = []
    for name in names:
        column = config.partition_columns[name]
        kind = getattr(column.data_type, "name", "") if column is not None else ""
        texts = pc.map_lookup(spelled, query_key=pa.scalar(name), occurrence="first")
        if is_text(kind) and pc.any(pc.equal(texts, "")).as_py():
            found.append(name)
    return found


def find_respelled_keys(actions: pa.RecordBatch, names: Sequence[str]) -> list[str]:
    """Return which of some partition columns (physical names) have a key in a file action that differs in letter case.

    The value is read. Delta for Spark returns null, the kernels refuse the table.
    """
    keys = _KeysOf(actions.column("partitionValues"))
    return [name for name in names if keys.is_respelled(name)]


def constants_of(
    texts: Iterable[tuple[str, str | None]] | None, config: TableConfiguration, path: str
) -> dict[str, ArrowScalar]:
    """Return the partition values of the file `path` by logical name. Raises DataUnreadable as `partition_columns`."""
    logical = {name: column.name for name, column in config.partition_columns.items() if column is not None}
    maps = pa.array([None if texts is None else list(texts)], pa.map_(pa.string(), pa.string()))
    one = pa.record_batch([pa.array([path], pa.string()), maps], names=["path", "partitionValues"])
    values = parse_partition_columns(one, config, list(logical))
    return {logical[name]: found[0] for name, found in values.items()}


def lacking_values(remove: Action, names: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns (physical names) whose values a remove lacks, ignoring case."""
    known = remove.get("partitionValues") or {}
    absent = [name for name in names if name not in known]
    if not absent:  # the usual case, which needs no index of the names
        return ()
    index = types.NameIndex(known)
    return tuple(name for name in absent if not index.places_of(name))


def are_lacking_values_null(remove: Action) -> bool:
    """Return whether values that a remove lacks are certainly null.

    Some writers omit null values from the map. With `extendedFileMetadata` the rest of the map is complete; without it
    the remove may have no values although the file has some. Spec: Add File and Remove File.
    """
    return remove.get("extendedFileMetadata") is True and remove.get("partitionValues") is not None


def with_values(remove: Action, names: Sequence[str], of_add: Mapping[str, str | None] | None) -> Action:
    """Return a remove with a value for each partition column: its own, else that of the file's add, else null.

    Without any map and without an add nothing can be derived, and the remove is returned unchanged.
    """
    own = remove.get("partitionValues")
    if own is None and of_add is None:
        return remove
    known = of_add or {}
    values = {name: next((known[key] for key in _alike(name, known)), None) for name in lacking_values(remove, names)}
    return {**remove, "partitionValues": {**(own or {}), **values}}


def _alike(name: str, known: Mapping[str, str | None]) -> list[str]:
    keys = list(known)
    return [keys[place] for place in types.find_name_positions(name, keys)]


def find_without_values(maps: ArrowArray, names: Sequence[str]) -> ArrowArray:
    """Return which maps lack a value, also a null one, of one of these columns (physical names), ignoring case.

    A map that is null itself is not among them.
    """
    keys = _KeysOf(maps)
    lacking = pa.repeat(False, len(maps))
    for name in names:
        lacking = pc.or_(lacking, keys.lacking(name))
    return pc.and_(lacking, pc.is_valid(maps))


def with_spelled_keys(maps: ArrowArray, names: Sequence[str]) -> ArrowArray:
    """Return partition values with the keys of these columns (physical names) spelled as the table spells them."""
    return _KeysOf(maps).spelled(names)


class _KeysOf:
    """The maps of some file actions, and the spellings of their keys."""

    def __init__(self, maps: ArrowArray) -> None:
        self._maps = maps
        first, last = maps.offsets[0].as_py(), maps.offsets[len(maps)].as_py()
        self._first = first
        self._keys = maps.keys.slice(first, last - first)
        self._items = maps.items.slice(first, last - first)
        self._distinct = pc.unique(self._keys).to_pylist()

    def require(self, name: str, paths: Any) -> None:
        """Raise unless every map has the key, ignoring case if it does not have it exactly."""
        if self._have_all(name):
            return
        spellings = set(self._spellings(name))
        for row, known in enumerate(self._lists()):
            if spellings.isdisjoint(known or ()):
                raise DataUnreadable(
                    f"the log has no value for partition column {name}",
                    code="partition.key-missing",
                    facts={"file": paths[row].as_py(), "keys": ", ".join(known or ()) or "none"},
                    hint=command("validate", select=["partition.*"]),
                )

    def lacking(self, name: str) -> ArrowArray:
        """Return which maps lack the key, ignoring case if they do not have it exactly."""
        if self._have_all(name):
            return pa.repeat(False, len(self._maps))
        spellings = set(self._spellings(name))
        return pa.array([spellings.isdisjoint(known or ()) for known in self._lists()], pa.bool_())

    def is_respelled(self, name: str) -> bool:
        """Return whether a map has the key only as the table does not spell it."""
        others = set(self._spellings(name)) - {name}
        if not others:
            return False
        return any(name not in known and not others.isdisjoint(known) for known in self._lists() if known)

    def _have_all(self, name: str) -> bool:
        """Return True if the key is known to be in each map: in one spelling, and as often as there are maps."""
        spellings = self._spellings(name)
        if len(spellings) != 1:
            return False
        count = pc.sum(pc.equal(self._keys, spellings[0])).as_py() or 0
        return count >= len(self._maps)

    def _spellings(self, name: str) -> list[str]:
        """Return the keys that are this name but for letter case."""
        lower = name.lower()
        return [key for key in self._distinct if key is not None and key.lower() == lower]

    def _lists(self) -> list[list[str] | None]:
        """Return the keys of each map; None for a map that is null."""
        found: list[list[str] | None] = pa.ListArray.from_arrays(self._maps.offsets, self._maps.keys).to_pylist()
        return found

    def spelled(self, names: Sequence[str]) -> Any:
        """Return the maps with their keys as the table spells them."""
        wrong = {key: name for name in names for key in self._spellings(name) if key != name}
        if not wrong:
            return self._maps
        if any(len(self._spellings(name)) > 1 for name in names):
            return self._spelled_one_by_one(wrong)
        encoded = pc.dictionary_encode(self._maps.keys)
        keys = pa.array([wrong.get(key, key) for key in encoded.dictionary.to_pylist()], pa.string())
        return pa.MapArray.from_arrays(self._maps.offsets, pc.take(keys, encoded.indices), self._maps.items)

    def _spelled_one_by_one(self, wrong: Mapping[str, str]) -> Any:
        """Return the maps with their keys spelled right, where a map may have a key in its right spelling as well.

        Args:
            wrong: The keys that are spelled otherwise -> the right spelling.
        """
        found: list[list[tuple[str, str | None]] | None] = []
        for entries in self._maps.to_pylist():
            if entries is None:
                found.append(None)
                continue
            known = {key for key, _ in entries}
            right = [(key if wrong.get(key, key) in known else wrong[key], value) for key, value in entries]
            found.append(right)
        return pa.array(found, self._maps.type)


def _unparsable(actions: Any, column: types.StructField | None, texts: Any, row: int) -> DataUnreadable:
    assert column is not None
    kind = getattr(column.data_type, "name", "value")
    return DataUnreadable(
        f"a value of partition column {column.name} is not {add_article(str(kind))}: {texts[row].as_py()[:80]}",
        code="partition.unparsable",
        facts={"file": actions.column("path")[row].as_py(), "value": texts[row].as_py()[:200]},
        hint=command("validate", select=["partition.*"]),
    )
