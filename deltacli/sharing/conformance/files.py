"""The rules about files: both formats tell the same, hints lose no row, and URLs lead to what was declared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import format_sql_name, parameter
from deltacli.core.units import plural
from deltacli.rules.framework.base import Level, Rule, Severity
from deltacli.sharing.client.faults import UrlRefused
from deltacli.sharing.conformance.lines import (
    DELTA,
    PARQUET,
    FileLine,
    FileTest,
    Lines,
    check_version_files,
    names_of,
    object_of,
    partition_names,
    stored_name,
)
from deltacli.sharing.conformance.versions import ALL_FEATURES, HEADERS, SharedTableTest, header_of
from deltacli.sharing.conformance.wire import CAPABILITIES, Rules, Wire, WireAnswer

FORMATS_AREA = Rules("Formats", Level.API)

DEFAULT_FORMAT = FORMATS_AREA.row("""error share.format-default | Without the capabilities header, and with
    responseformat=parquet, an answer is in parquet format. | Delta Sharing Capabilities Header: Compatibility;
    responseFormat (the default format) | clients of the parquet format fail | answer in parquet format, or 400 where
    the table needs the delta format | deltaProtocol without the header""")
ONLY_FORMAT = FORMATS_AREA.row("""error share.format-ignored | A server that knows the capabilities header answers in
    the only format that it names. | Delta Sharing Capabilities Header: Compatibility (the server must respect) |
    clients of the delta format fail or lose features of the table | answer in delta format for responseformat=delta |
    parquet for responseformat=delta""")
ADVANCED = FORMATS_AREA.row("""error share.format-advanced | A table with deletion vectors or column mapping is answered
    in delta format, or refused, never in parquet format. | Delta Sharing Capabilities Header: Compatibility (the server
    must respond in delta format) | clients return deleted rows, or null for mapped columns | answer 400 to a client
    that reads parquet only | files without their deletion vectors in parquet format""")
HEADER_CASE = FORMATS_AREA.row("""error share.capabilities-case | Keys and values of the capabilities header are
    case-insensitive. | Delta Sharing Capabilities Header (should be case-insensitive) | some clients get the other
    format | compare in lower case | parquet for ResponseFormat=Delta""")
UNKNOWN_CAPABILITY = FORMATS_AREA.row("""error share.capabilities-unknown | Unrecognized capabilities are ignored. |
    Delta Sharing Capabilities Header | newer clients cannot read from the server | ignore them | 400 for
    deltacliunknown=1""")
FEATURE_UNASKED = FORMATS_AREA.row("""error share.feature-unasked | A table that needs a reader feature is refused to a
    client that does not name it in readerfeatures. | Delta Sharing Capabilities Header: readerFeatures | clients that
    cannot apply the feature return wrong rows | answer 400 and name the feature | a table with deletion vectors for a
    client without readerfeatures""")
FORMATS_DIFFER = FORMATS_AREA.row("""error share.formats-differ | Both formats have the same version, metadata and
    number of files. | API Response Format in Parquet; API Response Format in Delta | clients of one format lose or
    invent rows | make both answers of the same snapshot | a file less in parquet format""")
METADATA_LINES = FORMATS_AREA.row("""error share.metadata-lines | The metadata of a table is two lines. | Query Table
    Metadata (the response contains two lines) | clients that demand two lines fail | send protocol and metaData only |
    files behind the metadata""")
METADATA_DIFFERS = FORMATS_AREA.row("""error share.metadata-differs | The metadata of a table is that of its query: id,
    schema and partition columns. | Query Table Metadata; Read Data from a Table | clients plan with one schema and read
    another | answer both from the same version | another id""")
HASH_ECHO = FORMATS_AREA.row("""error share.file-id-hash | A server that knows the header fileidhash repeats its value
    in lower case, and refuses an unknown one with 400. | File ID Hash Header | Spark refuses the answer | repeat the
    header | fileidhash: sha1 is accepted""")
IDS_DIFFER = FORMATS_AREA.row("""error share.file-id-unstable | The files of a version have the same ids in every
    answer, and in both formats with the same fileidhash. | File (id: guaranteed to have the same id across multiple
    requests); File ID Hash Header | clients that resume or cache read every file again, or the wrong one | make the id
    of the path of the file | a new id per request""")

_NOT_DELTA = "the server does not answer in delta format"


def check_formats(table: SharedTableTest) -> None:
    """Read the whole table in both formats, twice, and compare them."""
    for form in (PARQUET, DELTA):
        answer = table.answers[form] = table.query({}, form)
        lines = table.read(answer)
        if lines is None:
            if answer.status < 500:
                table.skip(f"the server answers {answer.status} in {form} format", FORMATS_DIFFER)
            continue
        if form == PARQUET:
            message = "an answer without the capabilities header is not in parquet format"
            table.require(DEFAULT_FORMAT, lines.form == PARQUET, answer, message, seen=lines.form)
        elif CAPABILITIES in answer.headers:
            message = "responseformat=delta is answered in another format"
            table.require(ONLY_FORMAT, lines.form == DELTA, answer, message, seen=lines.form)
        if lines.form == form:
            check_version_files(table, lines)
            table.wholes[form] = lines
    if DELTA not in table.wholes:
        table.skip(_NOT_DELTA, ONLY_FORMAT, HEADER_CASE, FEATURE_UNASKED, FORMATS_DIFFER, ADVANCED)
    if PARQUET not in table.wholes:
        table.skip("the table cannot be answered in parquet format", DEFAULT_FORMAT, FORMATS_DIFFER)
    _compare_formats(table)
    _check_again(table)
    _check_negotiation(table)


def _compare_formats(table: SharedTableTest) -> None:
    parquet, delta = table.wholes.get(PARQUET), table.wholes.get(DELTA)
    if delta is not None and delta.is_advanced:
        message = "a table with deletion vectors or column mapping is answered in parquet format"
        table.require(ADVANCED, parquet is None, (parquet or delta).answer, message)
    elif delta is not None:
        table.skip("the table has no deletion vectors and no column mapping", ADVANCED)
    if parquet is None or delta is None or parquet.version != delta.version:
        return
    same = {name: parquet.meta.get(name) == delta.meta.get(name) for name in ("id", "partitionColumns")}
    names = [[column.get("name") for column in lines.columns] for lines in (parquet, delta)]
    same |= {"the names of the columns": names[0] == names[1]}
    same |= {"the number of files": len(parquet.files) == len(delta.files)}
    table.require_same(FORMATS_DIFFER, same, parquet.answer, "the formats differ in")


def _check_again(table: SharedTableTest) -> None:
    """Ask for the whole table again, and for other hashes."""
    for form, whole in table.wholes.items():
        again = table.same_version(table.read(table.query({}, form)), (IDS_DIFFER,))
        if again is not None:
            is_same = sorted(whole.by_id) == sorted(again.by_id)
            table.require(IDS_DIFFER, is_same, again.answer, "the files of a version have other ids in a second answer")
    ids = {}
    for form in table.wholes:
        lines = table.read(table.query({}, form, {"fileidhash": "Delta"}))
        if lines is None or "fileidhash" not in lines.answer.headers:
            table.skip("the server does not know the header fileidhash", HASH_ECHO)
            return
        seen, message = lines.answer.headers["fileidhash"], "the header fileidhash is not repeated"
        table.require(HASH_ECHO, seen == "delta", lines.answer, message, seen=seen, expected="delta")
        ids[form] = sorted(lines.by_id)
        if len(ids) > 1 and lines.version == table.wholes[PARQUET].version:
            message = "the formats have other ids for fileidhash: delta"
            table.require(IDS_DIFFER, ids[PARQUET] == ids[form], lines.answer, message)
    for form in list(table.wholes)[:1]:
        refused = table.query({}, form, {"fileidhash": "sha1"})
        message = f"fileidhash: sha1 is answered with {refused.status}"
        table.require(HASH_ECHO, refused.status == 400 or refused.status >= 500, refused, message, expected=400)


def _check_negotiation(table: SharedTableTest) -> None:
    delta = table.wholes.get(DELTA)
    if table.whole is None:
        return
    form = table.whole.form
    other = table.ask("metadata", headers={CAPABILITIES: f"{header_of(form)};deltacliunknown=1"})
    message = f"an unknown capability is answered with {other.status}"
    table.require(UNKNOWN_CAPABILITY, other.is_ok or other.status >= 500, other, message, expected=200)
    if delta is None:
        return
    written = f"ResponseFormat=DELTA;ReaderFeatures={ALL_FEATURES.upper()}"
    _require_delta(table, HEADER_CASE, written, "capabilities in another case are answered")
    if delta.is_advanced or delta.reader_features:
        answer, seen = table.ask("metadata", headers={CAPABILITIES: "responseformat=delta"}), delta.reader_features
        message = "a client without readerfeatures gets a table that needs some"
        table.require(FEATURE_UNASKED, not answer.is_ok, answer, message, seen=", ".join(seen) or None, expected=400)
    else:
        table.skip("the table needs no reader feature", FEATURE_UNASKED)
    if delta.is_advanced:
        both = f"responseformat=parquet,delta;readerfeatures={ALL_FEATURES}"
        _require_delta(table, ADVANCED, both, "responseformat=parquet,delta is answered")


def _require_delta(table: SharedTableTest, rule: Rule, header: str, words: str) -> None:
    lines = table.read(answer := table.ask("metadata", headers={CAPABILITIES: header}))
    seen = answer.status if lines is None else f"{lines.form} format"
    is_delta = lines is not None and lines.form == DELTA
    table.require(rule, is_delta, answer, f"{words} with {seen}", seen=seen, expected="delta format")


def check_metadata(table: SharedTableTest) -> None:
    """Compare the metadata of the table with that of its query, in both formats."""
    for form, whole in table.wholes.items():
        answer = table.ask("metadata", headers=HEADERS[form])
        lines = table.read(answer)
        if lines is None:
            message = f"the metadata is answered with {answer.status}, and the query with 200"
            if not answer.is_ok and answer.status < 500:
                table.require(METADATA_DIFFERS, False, answer, message)
            continue
        message = f"the metadata has {2 + len(lines.rest)} lines"
        table.require(METADATA_LINES, not lines.rest, answer, message, expected=2)
        if lines.form == form:
            table.metadata[form] = lines
        if lines.form != form or lines.version != whole.version:
            continue
        names = ("id", "schemaString", "partitionColumns")
        same = {name: lines.meta.get(name) == whole.meta.get(name) for name in names}
        table.require_same(METADATA_DIFFERS, same, answer, "the metadata differs from that of the query in")


# -- hints never lose a row --------------------------------------------------------------------------------------------

HINTS_AREA = Rules("Hints", Level.API)

LOSES_ROWS = HINTS_AREA.row("""error share.hint-loses-rows | A predicate hint leaves out no file that has a matching
    row. Partition values prove it, and statistics with exact bounds, where the finding is a warning. | Read Data from a
    Table (predicateHints, jsonPredicateHints: best effort); JSON predicates for Filtering | clients lose rows | keep
    every file of which a part is not known | not(id = 5) leaves out a file with ids from 1 to 10""")
ADDS_FILES = HINTS_AREA.row("""error share.hint-adds-files | An answer to a hint has only files of the whole answer. |
    Read Data from a Table (predicateHints, jsonPredicateHints, limitHint) | clients read rows twice, or rows that are
    not there | filter the files of the version | a file of another version""")
INVALID_REFUSED = HINTS_AREA.row("""error share.hint-invalid-refused | A hint that cannot be evaluated is skipped, and
    is no reason to refuse the query. | Read Data from a Table (if the server encounters any errors, it will skip
    filtering) | clients that send hints of their own dialect cannot read the table | skip the hint | 400 for a column
    that does not exist""")
INVALID_FILTERS = HINTS_AREA.row("""error share.hint-invalid-filters | A hint that cannot be evaluated leaves out no
    file. | Read Data from a Table (it will skip filtering and return all the files) | clients lose rows | return all
    files where a hint cannot be evaluated | no files for a column that does not exist""")
LIMIT = HINTS_AREA.row("""error share.limit-too-few | The files for a limitHint have at least that many rows, or all of
    the table. | Read Data from a Table (limitHint) | clients get fewer rows than they asked for and than there are |
    count the rows without those that deletion vectors mark; files without statistics have none | a file of 1 row for
    limitHint=2""")
LIMIT_ORDER = HINTS_AREA.row("""error share.limit-before-predicate | With a predicate and a limitHint, the rows that
    count are those that match the predicate. | Read Data from a Table (the server should apply predicateHints first
    then limitHint) | clients get fewer matching rows than there are | skip the limit where it is not certain that all
    rows of the files match | the first file, none of whose rows match, for limitHint=1""")

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
    probes = probes_of(whole)
    if not probes:
        table.skip("the table has neither partition columns nor statistics of whole numbers", LOSES_ROWS)
    for probe in probes:
        severity = None if probe.is_certain else Severity.WARNING
        _check_hint(table, whole, _ALL, f"the hint {probe.words}", probe, " with matching rows", severity)
    hints: dict[str, dict[str, object]] = {
        "that is not JSON": {"jsonPredicateHints": "{"},
        "with an unknown operation": _as_json_hint({"op": "deltacliUnknown", "children": []}),
        "on a column that does not exist": _as_json_hint(_json("equal", "deltacli_no_such_column", "int", 1)),
        "that is not SQL": {"predicateHints": ["this is ( not sql"]},
        "on a column that does not exist, in SQL": {"predicateHints": ["deltacli_no_such_column = 1"]},
    }
    for words, body in hints.items():
        _check_hint(table, whole, (INVALID_FILTERS,), f"a hint {words}", Probe(words, body, whole.files))
    _check_limits(table, whole)


def _check_hint(
    table: SharedTableTest,
    whole: Lines,
    rules: tuple[Rule, ...],
    words: str,
    probe: Probe,
    ending: str = "",
    severity: Severity | None = None,
) -> None:
    """Send a hint, described in words. The first rule is that the answer has the files of the probe."""
    answer = table.query(probe.body, whole.form)
    table.require_answered(INVALID_REFUSED, answer, words)
    lines = table.same_version(table.read(answer), rules)
    if lines is not None:
        lost = [file for file in probe.needed if file.id not in lines.by_id]
        message, seen = f"{words} leaves out {plural(len(lost), 'file')}{ending}", f"missing {names_of(lost)}"
        table.require(rules[0], not lost, answer, message, seen=seen, severity=severity)
        _check_added(table, whole, lines)


def _check_added(table: SharedTableTest, whole: Lines, lines: Lines) -> None:
    more = [file for file in lines.files if file.id not in whole.by_id]
    message = "the answer to a hint has files that the table does not have"
    is_same = not more and (whole.has_vectors or len(lines.files) == len(lines.by_id))
    table.require(ADDS_FILES, is_same, lines.answer, message, seen=names_of(more) if more else None)


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


def probes_of(whole: Lines) -> list[Probe]:
    """Return the hints that show whether a file with a matching row is left out."""
    return [*_partition_probes(whole), *_stats_probes(whole)]


def _partition_probes(whole: Lines) -> Iterator[Probe]:
    """Yield hints on partition columns, of which every file has its exact value."""
    logical = {str(column.get("name")): physical for physical, column in partition_names(whole).items()}
    for name, physical in list(logical.items())[:_MOST_COLUMNS]:
        column = next((one for one in whole.columns if one.get("name") == name), {})
        value_type = _TYPES.get(str(column.get("type")))
        if value_type is None or value_type in ("float", "double"):
            continue
        files = [file for file in whole.files if file.rows is None or file.rows > 0]
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
        literal = f"'{value}'".replace("\\", "\\\\") if value_type in ("string", "date") else str(value)
        for words, needed in (
            (f"{format_sql_name(name)} = {literal}", matching),
            (f"{format_sql_name(name)} <> {literal}", rest),
        ):
            yield Probe(words, {"predicateHints": [words]}, needed)


def _normal(value: object, value_type: str) -> str | None:
    """Return a partition value in one spelling, None for null."""
    if not isinstance(value, str) or not value:
        return None
    return str(int(value)) if value_type in ("int", "long") and _WHOLE.fullmatch(value) else value


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
    sql = f"{format_sql_name(name)} > {value}"
    yield Probe(sql, {"predicateHints": [sql]}, [one.file for one in bounds if one.high > value], is_certain=False)


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
            table.require(LIMIT, found >= min(limit, rows), lines.answer, message, seen=found)
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
            is_enough, least = found >= matching, f"at least {matching}"
            table.require(LIMIT_ORDER, is_enough, lines.answer, message, seen=found, expected=least)


# -- the files behind the URLs -----------------------------------------------------------------------------------------

FILES_AREA = Rules("Files", Level.FOOTERS)

PRIVATE = FILES_AREA.row("""error share.url-private | The URL of a file leads to a public address, except on a server
    that is itself reached at a private one. | File (url: an https url that a client can use to read the file directly)
    | clients fail, or are led to services inside their own network | sign URLs with the address that clients can reach
    | http://10.0.0.7/part-0.parquet from a public server""")
UNREADABLE = FILES_AREA.row("""error share.url-unreadable | The URL of a file can be read without the token of the
    profile. | File (url: an https url that a client can use to read the file directly) | clients cannot read the rows
    of the file | sign URLs with a credential that may read the file | 403""")
RANGE = FILES_AREA.row("""error share.url-range | A Range of a file URL is answered with 206, the range in
    Content-Range, and its bytes. | File (url); RFC 9110, Range Requests | Spark refuses the file; other clients read
    all of it for its footer | support Range | 200 with the whole file""")
SIZE = FILES_AREA.row("""error share.file-size | `size` of a file is its number of bytes. | File (size: the size of this
    file in bytes) | clients look for the footer at the wrong place, and fail | send the size as the log has it; if that
    is wrong, the table is damaged; validate finds that at level storage | a size of 0""")
NOT_PARQUET = FILES_AREA.row("""error share.file-not-parquet | A file is a Parquet file. | Format (provider: currently
    the only valid value is parquet) | clients fail on the file | check the table; validate finds that at level footers
    | a page of an error in HTML""")
UNSIGNED = FILES_AREA.row("""warning share.url-unsigned | Without its signature, or with an altered one, a file URL
    cannot be read. | File (url); Overview (secure exchange) | everyone who guesses or learns the path can read the file
    at any time | make the files private, and sign the URLs | 200 for the URL without its query string""")
RECORDS = FILES_AREA.row("""error share.stats-records | numRecords of the statistics is the number of rows in the
    footer. | Per-file Statistics (numRecords: the number of records in this file) | clients answer counts and limits
    with wrong numbers | check the table; validate finds that at level footers | numRecords is 5, and the footer has 6
    rows""")
COLUMNS = FILES_AREA.row("""error share.file-columns | The columns of a file are those of the schema, in part or all of
    them; with column mapping by their physical names. | Metadata (schemaString); Schema Object | clients return null
    for columns that they do not find | send the schema of the version; share tables with column mapping in delta format
    only | a file with none of the columns of the schema""")
VECTOR_BYTES = FILES_AREA.row("""error share.vector-unreadable | The URL of a deletion vector can be read without the
    token, and has the vector at its offset. | File in Delta Format (deltaSingleAction); Delta protocol: Deletion Vector
    Format | clients fail, or return deleted rows | sign the file of the vector like the data files, and keep offset and
    sizeInBytes | 404""")
BOUNDS = FILES_AREA.row("""error data share.stats-bounds | No value of a file is below minValues or above maxValues. |
    Per-file Statistics (minValues, maxValues) | clients and servers that skip files by their statistics lose rows |
    check the table; validate finds that at level data | minValues is 3, and a row has 1""")

_MAGIC = b"PAR1"
_TAIL = 64 << 10
_MOST_FILE = 64 << 20
_ROWS_AT_ONCE = 8_192


def check_files(table: SharedTableTest) -> None:
    """Read the footers of a few files, and at level `data` their rows."""
    whole, level = table.whole, table.scope.level
    if level == "api":
        table.skip(f"{parameter('share test.level', level)} fetches no file", *FILES_AREA.rules)
        return
    if level == "footers":
        table.skip(f"{parameter('share test.level', level)} reads no rows", BOUNDS)
    if whole is None or not whole.files:
        table.skip("the table has no files", *FILES_AREA.rules)
        return
    some = [whole.files[0], max(whole.files, key=lambda file: file.size or 0)]
    some += [file for file in whole.files if file.vector is not None][:1]
    for number, file in enumerate(list({file.id: file for file in some}.values())):
        if urlsplit(file.url).scheme not in ("http", "https"):
            table.skip("the URL of a file is not an http or https URL", *FILES_AREA.rules)
            continue
        try:
            _check_file(FileTest(table, whole, file), table.tester.wire, level, is_first=number == 0)
        except UrlRefused as fault:
            message = "the URL of a file leads to an address that is not public"
            seen = str(fault.facts.get("host", fault.message))
            table.require(PRIVATE, False, whole.answer, message, seen=seen, line=file.line.number)
            table.skip(message, *FILES_AREA.rules)


def _check_file(test: FileTest, wire: Wire, level: str, *, is_first: bool) -> None:
    size = test.file.size or 0
    first = max(0, size - _TAIL)
    tail = wire.fetch(test.file.url, byte_range=f"{first}-{max(size - 1, 0)}", most=_TAIL + 1)
    test.require(PRIVATE, True, "")
    message = f"the URL of a file is answered with {tail.status}"
    if not test.require(UNREADABLE, tail.status in (200, 206, 416), message, seen=tail.status, expected=206):
        test.suite.skip("a file cannot be read by its URL", *FILES_AREA.rules)
        return
    if not _check_range(test, tail, first):
        test.suite.skip("the footer of a file cannot be read by its URL", *FILES_AREA.rules)
        return
    is_parquet, message = tail.body.endswith(_MAGIC), "a file does not end as a Parquet file"
    if not test.require(NOT_PARQUET, is_parquet, message, seen=repr(tail.body[-4:]), expected=repr(_MAGIC)):
        return
    if is_first:
        _check_signature(test, wire)
    _check_vector(test, wire)
    _check_footer(test, tail.body)
    if level == "data":
        _check_rows(test, wire)


def _check_range(test: FileTest, tail: WireAnswer, first: int) -> bool:
    """Check the answer to a range; return whether its bytes can be used."""
    size = test.file.size or 0
    named, length = tail.headers.get("content-range", "missing"), tail.headers.get("content-length", "")
    total = length if tail.status == 200 else named.partition("/")[2]
    message = "the size of a file is not that of its URL"
    if total.isdigit() and not test.require(SIZE, int(total) == size, message, seen=size, expected=int(total)):
        return False
    expected = f"bytes {first}-{size - 1}/{size}"
    is_range = tail.status == 206 and named in (expected, expected.replace(f"/{size}", "/*"))
    is_range = is_range and len(tail.body) == size - first
    message = f"a range of a file is answered with {tail.status}"
    seen = f"{tail.status}, Content-Range {named}, {len(tail.body):,} bytes"
    return test.require(RANGE, is_range, message, seen=seen, expected=f"206, {expected}")


def _check_signature(test: FileTest, wire: Wire) -> None:
    parts = urlsplit(test.file.url)
    if not parts.query:
        test.suite.skip("the signature of file URLs is not in their query strings", UNSIGNED)
        return
    longest = max(parts.query.split("&"), key=lambda pair: len(pair.partition("=")[2]))  # the signature
    name, _, value = longest.partition("=")
    middle = len(value) // 2
    other = "B" if value[middle : middle + 1] != "B" else "C"
    altered = parts.query.replace(longest, f"{name}={value[:middle]}{other}{value[middle + 1 :]}")
    for words, query in (("without its", ""), ("with an altered", altered)):
        answer = wire.fetch(urlunsplit(parts._replace(query=query)), byte_range="0-0", most=1)
        message = f"the URL of a file {words} signature is answered with {answer.status}"
        test.require(UNSIGNED, answer.status not in (200, 206), message, seen=answer.status)


def _check_vector(test: FileTest, wire: Wire) -> None:
    """Read the first bytes of a deletion vector: its size."""
    vector = test.file.vector or {}
    url, size, offset = str(vector.get("pathOrInlineDv")), vector.get("sizeInBytes"), vector.get("offset", 0)
    has_url = url.startswith(("http://", "https://"))
    if vector.get("storageType") != "p" or not has_url or type(offset) is not int or type(size) is not int:
        return
    answer = wire.fetch(url, byte_range=f"{offset}-{offset + 3}", most=4)
    is_there = answer.status == 206 and int.from_bytes(answer.body, "big") == size
    message = f"the URL of a deletion vector is answered with {answer.status}, and not with the vector"
    test.require(VECTOR_BYTES, is_there, message, seen=f"{answer.status}, {answer.body[:4].hex() or 'no bytes'}")


def _check_footer(test: FileTest, tail: bytes) -> None:
    from deltacli.delta.footers.columns import read_schema
    from deltacli.delta.footers.parse import FooterReader
    from deltacli.delta.footers.thrift import ThriftFaultError

    length = int.from_bytes(tail[-8:-4], "little")
    if length + 8 > len(tail):
        test.suite.skip(f"the footers are larger than {_TAIL >> 10} KiB", RECORDS, COLUMNS)
        return
    try:
        footer = FooterReader().read(tail[-8 - length : -8])
        found = {node.name for node in read_schema(footer.schema).nodes}
    except ThriftFaultError as fault:
        test.require(NOT_PARQUET, False, f"the footer of a file cannot be read: {fault}")
        return
    records = test.file.records
    if records is not None:
        message = "numRecords of a file is not the number of rows in its footer"
        test.require(RECORDS, records == footer.rows, message, seen=records, expected=footer.rows)
    whole, is_mapped = test.lines, test.lines.form == DELTA and test.lines.maps_columns
    columns = [column for column in whole.columns if str(column.get("name")) not in whole.partition_columns]
    expected = {stored_name(column, is_mapped=is_mapped) for column in columns}
    shown = [", ".join(sorted(names)[:5]) for names in (found, expected)]
    message = "a file has none of the columns of the schema"
    test.require(COLUMNS, not expected or bool(found & expected), message, seen=shown[0], expected=shown[1])


def _check_rows(test: FileTest, wire: Wire) -> None:
    file = test.file
    if (file.size or 0) > _MOST_FILE or file.stats is None:
        test.suite.skip(f"the files have no statistics, or are larger than {_MOST_FILE >> 20} MiB", BOUNDS)
        return
    answer = wire.fetch(file.url, most=_MOST_FILE)
    if not answer.is_ok or len(answer.body) != file.size:
        return
    try:
        found = list(_outside_bounds(answer.body, file))
    except pa.ArrowException as fault:
        test.require(NOT_PARQUET, False, f"the rows of a file cannot be read: {str(fault)[:200]}")
        return
    for name, outside in found:
        test.require(
            BOUNDS, not outside, f"a value of the column {name} is outside minValues and maxValues", seen=outside
        )


def _outside_bounds(data: bytes, file: FileLine) -> Iterator[tuple[str, str]]:
    """Yield each column of whole numbers with bounds, and how its values break them. Reads a few rows at a time."""
    from deltacli.arrow.parquet import ParquetReader

    reader, stats = ParquetReader(pa.BufferReader(data)), file.stats or {}
    lows, highs = (object_of(stats.get(kind)) for kind in ("minValues", "maxValues"))
    for field in reader.schema_arrow:
        low, high = lows.get(field.name), highs.get(field.name)
        if type(low) is int and type(high) is int and pa.types.is_integer(field.type):
            found: list[int] = []
            for group in range(reader.metadata.num_row_groups):
                for batch in reader.read_columns(_ROWS_AT_ONCE, group, [field.name]):
                    found += [value for value in pc.min_max(batch.column(0)).as_py().values() if value is not None]
                    found = [min(found), max(found)] if found else []
            is_inside = not found or (low <= found[0] and found[-1] <= high)
            yield field.name, "" if is_inside else f"{found[0]} to {found[-1]}, bounds {low} to {high}"
