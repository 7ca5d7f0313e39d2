"""Small tables of random columns and values, with statistics as several writers take them, and some of them wrong.

Shares no code with deltacli. A value of a column is a Python value; `exact` brings it, and a bound, into the form in
which the engines of `trusting_engines` compare.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.small_vectors import inline
from tests.support.trusting_engines import Claims, Truth, goes_wrong, single

Value = Any  # Any: a Python value of a column
EPOCH = datetime(1970, 1, 1)
DAY_US = 86_400_000_000
LONG = "x" * 31
LISTS: tuple[list[int | None] | None, ...] = (None, [], [1, None], [2])


@dataclass(frozen=True)
class Kind:
    """A type of the table, how files store it, and values that are worth a try."""

    name: str
    stored: pa.DataType
    pool: tuple[Value, ...]
    writes_doubles: bool = False
    """Bounds of floats are written as the doubles that they are, not in their shortest text."""

    @property
    def before(self) -> str | None:
        """The type that the column had when the file was written, where it has another now."""
        before = _BEFORE.get(self.stored)
        of_values = self.name not in ("float", "date", "integer", "decimal(5,2)")
        return before if of_values else None


_BEFORE = {
    pa.date32(): "date",
    pa.float32(): "float",
    pa.int32(): "integer",
    pa.decimal128(5, 2): "decimal(5,2)",
}


def _whole(bits: int) -> tuple[int, ...]:
    return (-(1 << (bits - 1)), -7, -1, 0, 1, 2, 9, (1 << (bits - 1)) - 1)


FLOATS = (math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 0.5, -2.5, 3.4)
DOUBLES = (*FLOATS, 1.7976931348623157e308, -1.7976931348623157e308, 1e300, 0.30000000000000004)
TIMES = tuple(
    EPOCH + timedelta(microseconds=us)
    for us in (0, 1, 999, 1000, 1500, -1, -1500, 1_700_000_000_000_000, 1_700_000_000_000_999, 1_700_000_000_001_500)
)
DAYS = (date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(2026, 1, 1), date(9999, 12, 31))
TEXTS = (
    *("", "a", "ab", "b", "é", "\ud7ff", "\ue000", "\uffff", "\U0001f600", "\U0010ffff", "a\x7f", "a\U0010ffffb"),
    *(LONG, LONG + "ab", LONG + "a" * 40, LONG + "a" * 40 + "b", LONG + "\U0001f600z", LONG + "\x7fq"),
)
DECIMALS = tuple(Decimal(text) for text in ("-999.99", "-0.01", "0.00", "0.10", "12.50", "999.99"))
LONG_DECIMALS = tuple(
    Decimal(text)
    for text in (
        "-1.0000000000",
        "0.0000000001",
        "1234567890.1234567891",
        "1234567890.1234567892",
        "12345678901234567890.5",
    )
)
KINDS = (
    Kind("byte", pa.int8(), _whole(8)),
    Kind("short", pa.int16(), _whole(16)),
    Kind("integer", pa.int32(), _whole(32)),
    Kind("long", pa.int64(), _whole(64)),
    Kind("float", pa.float32(), FLOATS),
    Kind("float", pa.float32(), FLOATS, writes_doubles=True),
    Kind("double", pa.float64(), DOUBLES),
    Kind("double", pa.float32(), FLOATS),
    Kind("double", pa.float32(), FLOATS, writes_doubles=True),
    Kind("long", pa.int32(), _whole(32)),
    Kind("double", pa.int32(), _whole(32)),
    Kind("decimal(12,2)", pa.int32(), _whole(32)),
    Kind("decimal(20,4)", pa.decimal128(5, 2), DECIMALS),
    Kind("decimal(5,2)", pa.decimal128(5, 2), DECIMALS),
    Kind("decimal(38,10)", pa.decimal128(38, 10), LONG_DECIMALS),
    Kind("date", pa.date32(), DAYS),
    Kind("timestamp", pa.timestamp("us", "UTC"), TIMES),
    Kind("timestamp", pa.timestamp("ms", "UTC"), tuple(time for time in TIMES if time.microsecond % 1000 == 0)),
    Kind("timestamp_ntz", pa.timestamp("us"), TIMES),
    Kind("timestamp_ntz", pa.date32(), DAYS),
    Kind("string", pa.string(), TEXTS),
    Kind("boolean", pa.bool_(), (False, True)),
)


def exact(kind: Kind, value: Value) -> Value:
    """A value as engines compare it."""
    if isinstance(value, datetime):
        return round((value - EPOCH) / timedelta(microseconds=1))
    if isinstance(value, date):
        days = (value - EPOCH.date()).days
        return days * DAY_US if kind.name == "timestamp_ntz" else days
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, float) and pa.types.is_float32(kind.stored):
        return single(value)
    return value


@dataclass(frozen=True)
class Bound:
    """A claimed bound: what an exact reader makes of it, and its JSON."""

    value: Value
    text: str


def bound_of(kind: Kind, value: Value, chooser: random.Random) -> Bound:
    """A bound for a value, in one of the ways in which it is written."""
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return Bound(value, json.dumps("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"))
        written = single(value) if kind.writes_doubles else value
        return Bound(single(written) if kind.name == "float" else written, repr(written))
    if isinstance(value, datetime):
        zone = "Z" if kind.name == "timestamp" else ""
        return Bound(exact(kind, value), json.dumps(value.isoformat(timespec="microseconds") + zone))
    if isinstance(value, date):
        return Bound(exact(kind, value), json.dumps(value.isoformat()))
    if isinstance(value, Decimal):
        return Bound(value, f"{value:f}")
    return Bound(exact(kind, value), json.dumps(value, ensure_ascii=chooser.random() < 0.5))


def cut_text(value: str, length: int, *, is_high: bool, breaks_ties: bool = True) -> str:
    """A text cut as Spark does it: a maximum gets a character that is above what follows."""
    if len(value) <= length:
        return value
    if not is_high or not breaks_ties:
        return value[:length]
    return value[:length] + ("\x7f" if value[length] < "\x7f" else "\U0010ffff")


@dataclass
class ClaimedColumn:
    """One column, or field of the struct `s`, of one file: its values in order, and what is claimed."""

    name: str
    kind: Kind
    is_nested: bool
    values: list[Value] = field(default_factory=list)
    low: Bound | None = None
    high: Bound | None = None
    nulls: int | None = None


@dataclass
class ClaimedFile:
    """One file with its statistics."""

    path: str
    rows: int
    columns: list[ClaimedColumn]
    lists: list[list[int | None] | None]
    no_struct: list[bool]
    deleted: frozenset[int]
    group_rows: int
    records: int | None
    tight: bool | None
    list_nulls: int | None = None
    missing: frozenset[str] = frozenset()

    @property
    def live(self) -> list[int]:
        return [row for row in range(self.rows) if row not in self.deleted]

    @property
    def shows_in_footer(self) -> bool:
        """True where footers must tell all: no deleted row, no NaN, no field of a struct, no claim about the list."""
        columns = [column for column in self.columns if column.is_nested and _has_claim(column)]
        nans = any(isinstance(value, float) and math.isnan(value) for one in self.columns for value in one.values)
        return not (self.deleted or columns or nans or self.list_nulls is not None)

    def truth(self, column: ClaimedColumn) -> Truth:
        live = self.live
        gone = [column.is_nested and self.no_struct[row] for row in live]
        is_absent = column.name in self.missing
        values = [
            None if is_gone or is_absent else exact(column.kind, column.values[row])
            for row, is_gone in zip(live, gone, strict=True)
        ]
        return Truth(values, gone, self.rows, bool(self.deleted))

    def goes_wrong(self) -> str | None:
        """What an engine gets wrong by the statistics, in words."""
        if self.records is not None and self.records != self.rows:
            return "count(*)"
        is_tight = self.tight is not False
        for column in self.columns:
            claims = Claims(
                column.kind.name,
                None if column.low is None else column.low.value,
                None if column.high is None else column.high.value,
                column.nulls,
                self.records,
                is_tight,
            )
            ends = [value for value in (claims.low, claims.high) if value is not None]
            literals = [*(exact(column.kind, value) for value in column.kind.pool), *ends, *_between(ends)]
            found = goes_wrong(claims, self.truth(column), literals)
            if found:
                return f"{column.name}: {found}"
        values: list[Value] = [self.lists[row] for row in self.live]
        whole = Truth(values, [False] * len(values), self.rows, bool(self.deleted))
        of_list = goes_wrong(Claims("array", None, None, self.list_nulls, self.records, is_tight), whole, ())
        return of_list and f"l: {of_list}"

    def stats(self) -> str:
        """The text of the statistics."""
        parts: dict[str, list[str]] = {"minValues": [], "maxValues": [], "nullCount": []}
        inner: dict[str, list[str]] = {"minValues": [], "maxValues": [], "nullCount": []}
        for column in self.columns:
            to = inner if column.is_nested else parts
            for part, text in (
                ("minValues", column.low and column.low.text),
                ("maxValues", column.high and column.high.text),
                ("nullCount", None if column.nulls is None else str(column.nulls)),
            ):
                if text is not None:
                    to[part].append(f'"{column.name}":{text}')
        for part, texts in inner.items():
            if texts:
                parts[part].append(f'"s":{{{",".join(texts)}}}')
        if self.list_nulls is not None:
            parts["nullCount"].append(f'"l":{self.list_nulls}')
        fields = [f'"numRecords":{self.records}'] if self.records is not None else []
        fields += [f'"tightBounds":{json.dumps(self.tight)}'] if self.tight is not None else []
        return "{" + ",".join((*fields, *(f'"{part}":{{{",".join(texts)}}}' for part, texts in parts.items()))) + "}"

    def arrow(self) -> pa.Table:
        """The rows as the file stores them."""
        tops: dict[str, pa.Array] = {}
        inner: dict[str, pa.Array] = {}
        for column in self.columns:
            if column.name in self.missing:
                continue
            (inner if column.is_nested else tops)[column.name] = _array(column)
        if inner:
            fields = [pa.field(name, values.type) for name, values in inner.items()]
            tops["s"] = pa.StructArray.from_arrays(list(inner.values()), fields=fields, mask=pa.array(self.no_struct))
        tops["l"] = pa.array(self.lists, pa.list_(pa.int32()))
        return pa.table(tops)

    def story(self) -> str:
        """What stands in the file and what is claimed, for a failed test."""
        columns = "\n".join(f"{one.name} {one.kind.name} {one.kind.stored}: {one.values}" for one in self.columns)
        rest = f"no struct {self.no_struct}, lists {self.lists}, deleted {sorted(self.deleted)}, missing {self.missing}"
        return f"{self.stats()}\n{columns}\n{rest}, row groups of {self.group_rows}"


def _has_claim(column: ClaimedColumn) -> bool:
    return column.nulls is not None or column.low is not None or column.high is not None


def _between(ends: list[Value]) -> list[Value]:
    """Literals next to the bounds."""
    found: list[Value] = []
    for end in ends:
        if isinstance(end, bytes):
            found += [end + b"\0", end[:-1]]
        elif isinstance(end, int) and not isinstance(end, bool):
            found += [end - 1, end + 1, end + 999, end + 1000]
    return found


def _array(column: ClaimedColumn) -> pa.Array:
    stored = column.kind.stored
    if pa.types.is_timestamp(stored) and stored.tz:
        values = [None if value is None else value.replace(tzinfo=UTC) for value in column.values]
        return pa.array(values, stored)
    return pa.array(column.values, stored)


@dataclass
class ClaimedTable:
    """A table of one version."""

    kinds: list[tuple[str, Kind, bool]]
    files: list[ClaimedFile]

    def write(self, root: Path) -> None:
        """Put the table on the disk."""
        (root / "_delta_log").mkdir(parents=True, exist_ok=True)
        actions: list[dict[str, Any]] = [{"protocol": _PROTOCOL}, {"metaData": self._metadata()}]
        for file in self.files:
            pq.write_table(file.arrow(), root / file.path, row_group_size=file.group_rows)
            add: dict[str, Any] = {
                "path": file.path,
                "partitionValues": {},
                "size": (root / file.path).stat().st_size,
                "modificationTime": 1_768_000_000_000,
                "dataChange": True,
                "stats": file.stats(),
            }
            if file.deleted:
                add["deletionVector"] = inline(sorted(file.deleted))
            actions.append({"add": add})
        (root / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))

    def _metadata(self) -> dict[str, Any]:
        fields = [_field(name, kind) for name, kind, is_nested in self.kinds if not is_nested]
        inner = [_field(name, kind) for name, kind, is_nested in self.kinds if is_nested]
        if inner:
            fields.append(_plain("s", {"type": "struct", "fields": inner}))
        fields.append(_plain("l", {"type": "array", "elementType": "integer", "containsNull": True}))
        return {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
        }


_FEATURES = ["deletionVectors", "typeWidening", "timestampNtz"]
_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURES, "writerFeatures": _FEATURES}


def _plain(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _field(name: str, kind: Kind) -> dict[str, Any]:
    made = _plain(name, kind.name)
    if kind.before is not None:
        made["metadata"]["delta.typeChanges"] = [{"fromType": kind.before, "toType": kind.name}]
    return made


# -- making -----------------------------------------------------------------------------------------------------------


def make_table(seed: int) -> ClaimedTable:
    """A table of a few columns and files; about half of the files have something wrong in their statistics."""
    chooser = random.Random(seed)
    kinds = [(f"c{number}", chooser.choice(KINDS), chooser.random() < 0.25) for number in range(chooser.randint(1, 3))]
    return ClaimedTable(kinds, [_file(chooser, kinds, number) for number in range(chooser.randint(1, 4))])


def _file(chooser: random.Random, kinds: list[tuple[str, Kind, bool]], number: int) -> ClaimedFile:
    rows = chooser.randint(1, 8)
    deleted = (
        frozenset(chooser.sample(range(rows), chooser.randint(1, rows))) if chooser.random() < 0.25 else frozenset()
    )
    tops = [name for name, _, is_nested in kinds if not is_nested]
    missing = frozenset(name for name in tops if chooser.random() < 0.06)
    file = ClaimedFile(
        f"part-{number}.parquet",
        rows,
        [],
        [chooser.choice(LISTS) for _ in range(rows)],
        [chooser.random() < 0.3 for _ in range(rows)],
        deleted,
        chooser.choice((1, 2, 3, 100)),
        rows,
        False if deleted or chooser.random() < 0.2 else chooser.choice((None, True)),
        missing=missing,
    )
    for name, kind, is_nested in kinds:
        column = ClaimedColumn(name, kind, is_nested)
        few = chooser.sample(kind.pool, min(len(kind.pool), chooser.choice((1, 2, 8))))
        null_share = chooser.choice((0, 0, 0.3, 1))
        column.values = [None if chooser.random() < null_share else chooser.choice(few) for _ in range(rows)]
        _claim(chooser, file, column)
        file.columns.append(column)
    if chooser.random() < 0.3:
        file.list_nulls = sum(file.lists[row] is None for row in _counted(chooser, file))
    for _ in range(chooser.choice((0, 0, 1, 1, 2))):
        _plant(chooser, file)
    return file


def _counted(chooser: random.Random, file: ClaimedFile) -> list[int]:
    """Rows that a writer counts: all of them, or those that are live."""
    return list(range(file.rows)) if chooser.random() < 0.5 else file.live


def _claim(chooser: random.Random, file: ClaimedFile, column: ClaimedColumn) -> None:
    """Statistics as writers take them, of all rows."""
    is_absent = column.name in file.missing
    gone = [(column.is_nested and file.no_struct[row]) or is_absent for row in range(file.rows)]
    seen = [value for value, is_gone in zip(column.values, gone, strict=True) if not is_gone]
    present = sorted((value for value in seen if value is not None), key=_order)
    if chooser.random() < 0.9:
        nulls = sum(value is None for value in seen)
        counts_parents = is_absent or not column.is_nested or chooser.random() < 0.5
        column.nulls = nulls + (sum(gone) if counts_parents else 0)
        if file.tight is False and 0 < column.nulls < file.rows and chooser.random() < 0.5:
            column.nulls = None
    if present and chooser.random() < 0.9:
        column.low = _honest(chooser, column.kind, present[0], is_high=False)
        column.high = _honest(chooser, column.kind, present[-1], is_high=True)
        if file.tight is False and chooser.random() < 0.5:
            wider = sorted((*column.kind.pool, present[0], present[-1]), key=_order)
            column.low = _honest(chooser, column.kind, wider[0], is_high=False)


def _order(value: Value) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _honest(chooser: random.Random, kind: Kind, value: Value, *, is_high: bool) -> Bound:
    if isinstance(value, str) and chooser.random() < 0.6:
        value = cut_text(value, chooser.choice((1, 32)), is_high=is_high)
    if isinstance(value, datetime) and chooser.random() < 0.6:
        value -= timedelta(microseconds=value.microsecond % 1000)
    return bound_of(kind, value, chooser)


def _plant(chooser: random.Random, file: ClaimedFile) -> None:
    """Something that is wrong, or may be."""
    column = chooser.choice(file.columns)
    match chooser.randrange(7):
        case 0 | 1:
            column.low = bound_of(column.kind, chooser.choice(column.kind.pool), chooser)
        case 2 | 3:
            column.high = bound_of(column.kind, chooser.choice(column.kind.pool), chooser)
        case 4:
            column.nulls = chooser.choice((0, file.rows, chooser.randint(0, file.rows)))
        case 5 if column.kind.name == "string":
            texts = sorted((value for value in column.values if value is not None), key=_order) or [""]
            cut = cut_text(texts[-1], chooser.choice((1, 32)), is_high=True, breaks_ties=False)
            column.high = bound_of(column.kind, cut, chooser)
        case 5 if file.list_nulls is not None:
            file.list_nulls = chooser.randint(0, file.rows)
        case 6 if chooser.random() < 0.3:
            file.records = chooser.choice((file.rows + 1, file.rows - 1, None))
