"""Hints never lose a row: each answer to a hint is compared with the whole table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from deltacli.core.hints import sql_name
from deltacli.core.units import plural
from deltacli.rules.framework.base import Area, Level, Severity
from deltacli.sharing.conformance.lines import FileLine, Lines, stored_name
from deltacli.sharing.conformance.rules.line_form import names_of
from deltacli.sharing.conformance.rules.shared_table import SharedTableTest
from deltacli.sharing.conformance.rules.table_lines import partition_names

HINTS_AREA = Area("Hints", Level.API)

LOSES_ROWS = HINTS_AREA.error(
    "share.hint-loses-rows",
    "A predicate hint leaves out no file that has a matching row. Partition values prove it, and statistics with exact "
    "bounds, where the finding is a warning.",
    spec="Read Data from a Table (predicateHints, jsonPredicateHints: best effort); JSON predicates for Filtering",
    broken="clients lose rows",
    repair="keep every file of which a part is not known",
    example="not(id = 5) leaves out a file with ids from 1 to 10",
)
ADDS_FILES = HINTS_AREA.error(
    "share.hint-adds-files",
    "An answer to a hint has only files of the whole answer.",
    spec="Read Data from a Table (predicateHints, jsonPredicateHints, limitHint)",
    broken="clients read rows twice, or rows that are not there",
    repair="filter the files of the version",
    example="a file of another version",
)
INVALID_REFUSED = HINTS_AREA.error(
    "share.hint-invalid-refused",
    "A hint that cannot be evaluated is skipped, and is no reason to refuse the query.",
    spec="Read Data from a Table (if the server encounters any errors, it will skip filtering)",
    broken="clients that send hints of their own dialect cannot read the table",
    repair="skip the hint",
    example="400 for a column that does not exist",
)
INVALID_FILTERS = HINTS_AREA.error(
    "share.hint-invalid-filters",
    "A hint that cannot be evaluated leaves out no file.",
    spec="Read Data from a Table (it will skip filtering and return all the files)",
    broken="clients lose rows",
    repair="return all files where a hint cannot be evaluated",
    example="no files for a column that does not exist",
)
LIMIT = HINTS_AREA.error(
    "share.limit-too-few",
    "The files for a limitHint have at least that many rows, or all of the table.",
    spec="Read Data from a Table (limitHint)",
    broken="clients get fewer rows than they asked for and than there are",
    repair="count the rows without those that deletion vectors mark; files without statistics have none",
    example="a file of 1 row for limitHint=2",
)
LIMIT_ORDER = HINTS_AREA.error(
    "share.limit-before-predicate",
    "With a predicate and a limitHint, the rows that count are those that match the predicate.",
    spec="Read Data from a Table (the server should apply predicateHints first then limitHint)",
    broken="clients get fewer matching rows than there are",
    repair="skip the limit where it is not certain that all rows of the files match",
    example="the first file, none of whose rows match, for limitHint=1",
)

_NUMBERS = {"byte": "int", "short": "int", "integer": "int", "long": "long"}
_TYPES = {**_NUMBERS, "string": "string", "date": "date", "boolean": "bool", "float": "float", "double": "double"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_MOST_COLUMNS = 2
_ALL = (LOSES_ROWS, ADDS_FILES)


class Probe(NamedTuple):
    """A hint, the files that must be in the answer to it, and whether that is certain."""

    words: str
    body: dict[str, object]
    needed: Sequence[FileLine]
    is_certain: bool = True


def check_hints(table: SharedTableTest) -> None:
    """Send hints and compare the answers with the whole table."""
    whole = table.whole
    if whole is None or not whole.files:
        table.skip("the table has no files", *HINTS_AREA.rules)
        return
    probes = [*_partition_probes(whole), *_stats_probes(whole)]
    if not probes:
        table.skip("the table has neither partition columns nor statistics of whole numbers", LOSES_ROWS)
    for probe in probes:
        _check_probe(table, whole, probe)
    _check_invalid(table, whole)
    _check_limits(table, whole)


def _check_probe(table: SharedTableTest, whole: Lines, probe: Probe) -> None:
    answer = table.query(probe.body, whole.form)
    if not answer.is_ok and answer.status < 500:
        table.suite.require_status(INVALID_REFUSED, False, answer, f"the hint {probe.words}", expected=200)
        return
    lines = table.same_version(table.read(answer), _ALL)
    if lines is None:
        return
    lost = [file for file in probe.needed if file.id not in lines.by_id]
    table.suite.require(
        LOSES_ROWS,
        not lost,
        answer,
        f"the hint {probe.words} leaves out {plural(len(lost), 'file')} with matching rows",
        seen=f"missing {names_of(lost)}" if lost else None,
        severity=None if probe.is_certain else Severity.WARNING,
    )
    _check_added(table, whole, lines)


def _check_added(table: SharedTableTest, whole: Lines, lines: Lines) -> None:
    more = [file for file in lines.files if file.id not in whole.by_id]
    message = "the answer to a hint has files that the table does not have"
    seen = names_of(more) if more else None
    is_same = not more and len(lines.files) == len(lines.by_id)
    table.suite.require(ADDS_FILES, is_same or (whole.has_vectors and not more), lines.answer, message, seen=seen)


def _json(op: str, name: str, value_type: str, value: object = None) -> dict[str, object]:
    column = {"op": "column", "name": name, "valueType": value_type}
    if op == "isNull":
        return {"op": op, "children": [column]}
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return {"op": op, "children": [column, {"op": "literal", "value": text, "valueType": value_type}]}


def _not(predicate: dict[str, object]) -> dict[str, object]:
    return {"op": "not", "children": [predicate]}


def _as_json_hint(predicate: dict[str, object]) -> dict[str, object]:
    return {"jsonPredicateHints": json.dumps(predicate)}


def _can_have_rows(file: FileLine) -> bool:
    return file.rows is None or file.rows > 0


def _partition_probes(whole: Lines) -> Iterator[Probe]:
    """Yield hints on partition columns, of which every file has its exact value."""
    logical = {str(column.get("name")): physical for physical, column in partition_names(whole).items()}
    for name, physical in list(logical.items())[:_MOST_COLUMNS]:
        column = next((one for one in whole.columns if one.get("name") == name), {})
        value_type = _TYPES.get(str(column.get("type")))
        if value_type is None or value_type in ("float", "double"):
            continue
        files = [file for file in whole.files if _can_have_rows(file)]
        values = {file.id: _normal(file.partition_values.get(physical), value_type) for file in files}
        known = [value for value in values.values() if value is not None]
        nulls = [file for file in files if values[file.id] is None]
        others = [file for file in files if values[file.id] is not None]
        yield Probe(f"{name} is null", _as_json_hint(_json("isNull", name, value_type)), nulls)
        yield Probe(f"{name} is not null", _as_json_hint(_not(_json("isNull", name, value_type))), others)
        if not known:
            continue
        value = sorted(known)[len(known) // 2]
        matching = [file for file in files if values[file.id] == value]
        rest = [file for file in others if values[file.id] != value]
        equal = _json("equal", name, value_type, value)
        yield Probe(f"{name} = {value}", _as_json_hint(equal), matching)
        yield Probe(f"not {name} = {value}", _as_json_hint(_not(equal)), rest)
        either: dict[str, object] = {"op": "or", "children": [equal, _json("isNull", name, value_type)]}
        yield Probe(f"{name} = {value} or null", _as_json_hint(either), [*matching, *nulls])
        literal = _sql_literal(value, value_type)
        for words, needed in ((f"{sql_name(name)} = {literal}", matching), (f"{sql_name(name)} <> {literal}", rest)):
            yield Probe(words, {"predicateHints": [words]}, needed)


def _normal(value: object, value_type: str) -> str | None:
    """Return a partition value in one spelling, None for null."""
    if not isinstance(value, str) or not value:
        return None
    return str(int(value)) if value_type in ("int", "long") and _WHOLE.fullmatch(value) else value


def _sql_literal(value: object, value_type: str) -> str:
    return f"'{value}'".replace("\\", "\\\\") if value_type in ("string", "date") else str(value)


def _stats_probes(whole: Lines) -> Iterator[Probe]:
    """Yield hints on whole numbers with statistics: a file whose smallest value is 3 has a row with 3."""
    chosen = 0
    for column in whole.columns:
        value_type = _NUMBERS.get(str(column.get("type")))
        name = str(column.get("name"))
        if value_type is None or name in whole.partition_columns or chosen == _MOST_COLUMNS:
            continue
        bounds = [one for one in (_bounds(file, stored_name(column)) for file in whole.files) if one is not None]
        if bounds:
            chosen += 1
            yield from _number_probes(name, value_type, bounds)


class _Bounds(NamedTuple):
    file: FileLine
    low: int
    high: int


def _bounds(file: FileLine, name: str) -> _Bounds | None:
    """Return the exact bounds of a column in a file; None where they are missing or may be loose."""
    stats = file.stats or {}
    low, high = ((stats.get(kind) or {}).get(name) for kind in ("minValues", "maxValues"))
    is_exact = file.vector is None and stats.get("tightBounds") is not False
    return _Bounds(file, low, high) if is_exact and type(low) is int and type(high) is int and low <= high else None


def _number_probes(name: str, value_type: str, bounds: Sequence[_Bounds]) -> Iterator[Probe]:
    value = sorted(one.low for one in bounds)[len(bounds) // 2]
    wide = max(bounds, key=lambda one: one.high - one.low)
    rows: tuple[tuple[str, str, int, Callable[[_Bounds], bool]], ...] = (
        ("=", "equal", value, lambda one: value in (one.low, one.high)),
        ("<", "lessThan", value, lambda one: one.low < value),
        ("<=", "lessThanOrEqual", value, lambda one: one.low <= value),
        (">", "greaterThan", value, lambda one: one.high > value),
        (">=", "greaterThanOrEqual", value, lambda one: one.high >= value),
    )
    for sign, op, literal, holds in rows:
        needed = [one.file for one in bounds if holds(one)]
        predicate = _json(op, name, value_type, literal)
        yield Probe(f"{name} {sign} {literal}", _as_json_hint(predicate), needed, is_certain=False)
    inside = wide.low + (wide.high - wide.low) // 2
    needed = [one.file for one in bounds if (one.low, one.high) != (inside, inside)]
    negated = _not(_json("equal", name, value_type, inside))
    yield Probe(f"not {name} = {inside}", _as_json_hint(negated), needed, is_certain=False)
    sql = f"{sql_name(name)} > {value}"
    yield Probe(sql, {"predicateHints": [sql]}, [one.file for one in bounds if one.high > value], is_certain=False)


def _check_invalid(table: SharedTableTest, whole: Lines) -> None:
    unknown = _json("equal", "deltacli_no_such_column", "int", 1)
    hints: dict[str, dict[str, object]] = {
        "that is not JSON": {"jsonPredicateHints": "{"},
        "with an unknown operation": _as_json_hint({"op": "deltacliUnknown", "children": []}),
        "on a column that does not exist": _as_json_hint(unknown),
        "that is not SQL": {"predicateHints": ["this is ( not sql"]},
        "on a column that does not exist, in SQL": {"predicateHints": ["deltacli_no_such_column = 1"]},
    }
    for words, body in hints.items():
        answer = table.query(body, whole.form)
        is_answered = answer.is_ok or answer.status >= 500
        table.suite.require_status(INVALID_REFUSED, is_answered, answer, f"a hint {words}", expected=200)
        lines = table.same_version(table.read(answer), (INVALID_FILTERS,))
        if lines is not None:
            missing = [file for file in whole.files if file.id not in lines.by_id]
            message = f"a hint {words} leaves out {plural(len(missing), 'file')}"
            seen = f"missing {names_of(missing)}" if missing else None
            table.suite.require(INVALID_FILTERS, not missing, answer, message, seen=seen)
            _check_added(table, whole, lines)


def _check_limits(table: SharedTableTest, whole: Lines) -> None:
    """Send limits, alone and with a predicate on a partition column."""
    if any(file.records is None for file in whole.files):
        table.skip("not every file has numRecords", LIMIT, LIMIT_ORDER)
        return
    rows = sum(file.rows or 0 for file in whole.files)
    for limit in dict.fromkeys((1, max(1, rows // 2), rows + 1)):
        lines = table.same_version(table.read(table.query({"limitHint": limit}, whole.form)), (LIMIT,))
        if lines is not None:
            found = sum(file.rows or 0 for file in lines.files)
            message = f"the files for limitHint {limit} have {found} rows, and the table {rows}"
            table.suite.require(LIMIT, found >= min(limit, rows), lines.answer, message, seen=found)
            _check_added(table, whole, lines)
    _check_limit_order(table, whole)


def _check_limit_order(table: SharedTableTest, whole: Lines) -> None:
    probes = [probe for probe in _partition_probes(whole) if "=" in probe.words and probe.needed]
    useful = [probe for probe in probes if len(probe.needed) < len(whole.files)]
    if not useful:
        table.skip("no partition value separates the files", LIMIT_ORDER)
        return
    for probe in useful[:3]:
        matching = sum(file.rows or 0 for file in probe.needed)
        lines = table.same_version(
            table.read(table.query({**probe.body, "limitHint": matching}, whole.form)), (LIMIT_ORDER,)
        )
        if lines is not None:
            found = sum(file.rows or 0 for file in probe.needed if file.id in lines.by_id)
            message = f"the files for {probe.words} and limitHint {matching} have {found} matching rows"
            table.suite.require(
                LIMIT_ORDER, found >= matching, lines.answer, message, seen=found, expected=f"at least {matching}"
            )
