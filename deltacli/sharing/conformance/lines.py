"""Answers in lines, in either format, and the rules about their form and their content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from deltacli.core.hosts import is_loopback
from deltacli.core.lock_free_property import cached_property
from deltacli.core.texts import summarize_names
from deltacli.core.typing import JsonObject
from deltacli.rules.framework.base import Level, Rule
from deltacli.rules.log.commit_lines import faults_of
from deltacli.sharing.conformance.wire import CAPABILITIES, Rules, Suite, WireAnswer

VERSION_HEADER = "delta-table-version"
PARQUET, DELTA = "parquet", "delta"

_FIRST_MOMENT, _LAST_MOMENT = -62_135_596_800_000, 253_402_300_799_999
ACTIONS = {"file": "add", "add": "add", "remove": "remove", "cdf": "cdc"}
"""Wrapper of the parquet format -> action of the delta format."""


@dataclass(frozen=True)
class Line:
    """A line that is a JSON object with one field, `kind`."""

    number: int
    kind: str
    fields: JsonObject
    raw: bytes


@dataclass(frozen=True)
class FileLine:
    """A file: `fields` are those of the wrapper, `action` those of the action (in parquet format the same)."""

    line: Line
    kind: str
    fields: JsonObject
    action: JsonObject

    id = cached_property(lambda self: str(self.fields.get("id")))
    url = cached_property(lambda self: str(self.action.get("url") or self.action.get("path") or ""))
    size = cached_property(lambda self: _whole(self.action.get("size")))
    version = cached_property(lambda self: _whole(self.fields.get("version")))
    expires_ms = cached_property(lambda self: _whole(self.fields.get("expirationTimestamp")))
    partition_values = cached_property(lambda self: object_of(self.action.get("partitionValues")))
    vector = cached_property(lambda self: _object(self.action.get("deletionVector")))
    records = cached_property(lambda self: _whole((self.stats or {}).get("numRecords")))

    @property
    def timestamp(self) -> int | None:
        """Return the time of the commit, None where there is none or it is not of the years 1 to 9999."""
        found = _whole(self.fields.get("timestamp"))
        return found if found is not None and _FIRST_MOMENT <= found <= _LAST_MOMENT else None

    @cached_property
    def stats(self) -> JsonObject | None:
        """Return the statistics, None where there are none or they are not an object."""
        text = self.action.get("stats")
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            return None
        return _object(found)

    @property
    def rows(self) -> int | None:
        """Return the records less those that the deletion vector marks; None if unknown."""
        deleted = 0 if self.vector is None else _whole(self.vector.get("cardinality"))
        return None if self.records is None or deleted is None else self.records - deleted


@dataclass(frozen=True)
class Lines:
    """An answer in lines that is sound enough to be compared."""

    answer: WireAnswer
    form: str
    protocol: JsonObject
    metadata: JsonObject
    head: bytes
    rest: tuple[Line, ...]
    end: JsonObject | None = None
    files: tuple[FileLine, ...] = field(default=())

    version = cached_property(lambda self: version_of(self.answer))
    delta_protocol = cached_property(lambda self: object_of(self.protocol.get("deltaProtocol")))
    partition_columns = cached_property(lambda self: _texts(self.meta.get("partitionColumns")))
    reader_features = cached_property(lambda self: _texts(self.delta_protocol.get("readerFeatures")))
    configuration = cached_property(lambda self: object_of(self.meta.get("configuration")))
    by_id = cached_property(lambda self: {file.id: file for file in self.files})
    has_vectors = cached_property(lambda self: any(file.vector is not None for file in self.files))

    @cached_property
    def columns(self) -> list[JsonObject]:
        """Return the columns of the schema, none where it cannot be read."""
        try:
            schema = json.loads(self.meta.get("schemaString") or "")
        except (ValueError, TypeError, RecursionError):
            return []
        fields = schema.get("fields") if isinstance(schema, dict) else None
        return [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []

    @cached_property
    def meta(self) -> JsonObject:
        """Return the fields that the formats have in common."""
        return object_of(self.metadata if self.form == PARQUET else self.metadata.get("deltaMetadata"))

    @property
    def maps_columns(self) -> bool:
        return str(self.configuration.get("delta.columnMapping.mode", "none")).lower() != "none"

    @property
    def is_advanced(self) -> bool:
        """Return whether the parquet format cannot express the files."""
        return self.has_vectors or self.maps_columns


def version_of(answer: WireAnswer) -> int | None:
    """Return the version in the header, None where it is missing or not a whole number."""
    text = answer.headers.get(VERSION_HEADER, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def status_of(answer: WireAnswer) -> JsonObject | None:
    """Return the queryStatus of an asynchronous query; None for an answer of another kind."""
    try:
        first = json.loads(answer.body.lstrip().partition(b"\n")[0]) if answer.is_ok else None
    except (ValueError, RecursionError):
        return None
    return object_of(first["queryStatus"]) if isinstance(first, dict) and "queryStatus" in first else None


def file_of(line: Line, form: str) -> FileLine | None:
    """Return a line as a file, None where it is something else."""
    if form == PARQUET:
        kind = ACTIONS.get(line.kind)
        return None if kind is None else FileLine(line, kind, line.fields, line.fields)
    action = line.fields.get("deltaSingleAction") if line.kind == "file" else None
    if not isinstance(action, dict) or len(action) != 1:
        return None
    kind, fields = next(iter(action.items()))
    return FileLine(line, kind, line.fields, fields) if isinstance(fields, dict) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _object(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None


def object_of(value: object) -> JsonObject:
    """Return a JSON object, an empty one for anything else."""
    return _object(value) or {}


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def stored_name(column: JsonObject, *, is_mapped: bool = True) -> str:
    """Return the name that a column has in files and statistics: with column mapping the physical one."""
    physical = object_of(column.get("metadata")).get("delta.columnMapping.physicalName")
    return str(physical if is_mapped and physical else column.get("name"))


# -- the form of answers in lines --------------------------------------------------------------------------------------

LINES_AREA = Rules("Lines", Level.API)

LINES_TYPE = LINES_AREA.row("""warning share.lines-content-type | The Content-Type of metadata, queries and changes is
    application/x-ndjson. | Query Table Metadata; Read Data from a Table; Read Change Data Feed from a Table (200:
    Headers) | clients that look at the header refuse the answer, or read it as one document | send Content-Type:
    application/x-ndjson; charset=utf-8 | application/json""")
VERSION_IN_HEADER = LINES_AREA.row("""error share.version-header | The version, metadata, queries and changes have the
    header Delta-Table-Version, a whole number. | Query Table Version; Query Table Metadata; Read Data from a Table
    (200: Headers) | clients fail: they do not know which version they read | send the header, also through proxies | no
    header in the answer of a query""")
LINE = LINES_AREA.row("""error share.line-not-json | Each line is a JSON object. | JSON Wrapper Object In Each Line |
    clients fail on the line | send one object per line, without blank lines and without line ends inside | an object
    over several lines""")
WRAPPER = LINES_AREA.row("""error share.line-wrapper | The object of a line has one field, and the format has that
    field. | JSON Wrapper Object In Each Line; JSON Wrapper Object In Each Line in Delta | clients fail on the line, or
    skip a file | send each of protocol, metaData and files in a line of its own | protocol and metaData in one object
""")
SPLIT = LINES_AREA.row("""warning share.line-splits | No line has unescaped characters at which clients split text into
    lines, such as U+2028. | Read Data from a Table (JSON strings delimited by newline) | the Python client splits the
    line there, and fails | escape U+0085, U+2028, U+2029 and other line ends as JSON does | a statistic with U+2028 in
    it""")
FIRST_LINES = LINES_AREA.row("""error share.line-order | The first line is the protocol, the second one the metadata. |
    Query Table Metadata; Read Data from a Table (200: Body) | clients that take the first two lines for them fail |
    send protocol, metaData, then the files | metaData first""")
END_UNASKED = LINES_AREA.row("""error share.end-unasked | endStreamAction is sent only to clients that asked for it with
    includeEndStreamAction=true, or for a page. | EndStreamAction; Delta Sharing Capabilities Header | the Python client
    fails on the line | send it only where the request has the capability | endStreamAction at the end of every query
""")
END_MISSING = LINES_AREA.row("""error share.end-missing | If the header of the answer has includeendstreamaction=true,
    endStreamAction is its last line. | EndStreamAction | clients take the answer for cut off and repeat it | send the
    line, or leave it out of the header | the capability in the header, and no such line""")
ANSWER_FAILED = LINES_AREA.row("""error share.answer-failed | An answer with status 200 is complete: endStreamAction has
    no errorMessage. | EndStreamAction (errorMessage) | clients cannot read the table | look into the log of the server
    for the reason | {"endStreamAction": {"errorMessage": "…"}}""")
FORMAT_HEADER = LINES_AREA.row("""error share.format-header | The header delta-sharing-capabilities of an answer has the
    format of its lines, in lower case; answers in delta format have it. | Delta Sharing Capabilities Header | clients
    parse the lines as the wrong format, and fail | send delta-sharing-capabilities: responseformat=delta with answers
    in delta format | lines in delta format without the header""")

_SPLITTERS = frozenset("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
_KINDS = {PARQUET: {"protocol", "metaData", "file", "add", "remove", "cdf"}, DELTA: {"protocol", "metaData", "file"}}
_OF_END: Mapping[str, type] = {"nextPageToken": str, "refreshToken": str, "minUrlExpirationTimestamp": int}


def read_lines(suite: Suite, answer: WireAnswer, *, expects_end: bool = False) -> Lines | None:
    """Check the form of an answer in lines; return it, None where it cannot be used."""
    suite.require_type(LINES_TYPE, answer, "an answer in lines", "application/x-ndjson; charset=utf-8")
    check_version_header(suite, answer)
    lines = _objects(suite, answer)
    if lines is None:
        return None
    end = _take_end(suite, answer, lines, expects_end=expects_end)
    kinds, message = ", ".join(line.kind for line in lines[:2]), "the first two lines are not protocol and metaData"
    is_head, expected = kinds == "protocol, metaData", "protocol, metaData"
    if not suite.require(FIRST_LINES, is_head, answer, message, seen=kinds or "no lines", expected=expected, line=1):
        return None
    form = DELTA if "deltaProtocol" in lines[0].fields else PARQUET
    if (header := answer.headers.get(CAPABILITIES)) is not None or form == DELTA:
        named = [part.partition("=")[2] for part in (header or "").split(";") if part.startswith("responseformat=")]
        message = f"lines in {form} format come with another header delta-sharing-capabilities"
        seen, expected = header or "missing", f"responseformat={form}"
        suite.require(FORMAT_HEADER, named == [form], answer, message, seen=seen, expected=expected)
    expected = ", ".join(sorted(_KINDS[form]))
    for line in lines:
        is_known, message = line.kind in _KINDS[form], f"the {form} format has no line {line.kind[:40]}"
        if not suite.require(WRAPPER, is_known, answer, message, expected=expected, line=line.number):
            return None
    files = tuple(file for file in (file_of(line, form) for line in lines[2:]) if file is not None)
    head = b"\n".join(line.raw for line in lines[:2])
    return Lines(answer, form, lines[0].fields, lines[1].fields, head, tuple(lines[2:]), end, files)


def check_version_header(suite: Suite, answer: WireAnswer) -> int | None:
    """Check the header of the version and return it."""
    version, seen = version_of(answer), answer.headers.get(VERSION_HEADER, "missing")
    message = "the header Delta-Table-Version is missing or not a whole number"
    suite.require(VERSION_IN_HEADER, version is not None, answer, message, seen=seen, expected="a whole number")
    return version


def _objects(suite: Suite, answer: WireAnswer) -> list[Line] | None:
    """Return the lines as objects with one field; None where one is not."""
    found = []
    for number, raw in enumerate(answer.body.removesuffix(b"\n").split(b"\n") if answer.body else (), 1):
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError):
            content = None
        is_object, shown = isinstance(content, dict), raw[:80].decode("utf-8", "replace") or "a blank line"
        if not suite.require(LINE, is_object, answer, "a line is not a JSON object", line=number, seen=shown):
            return None
        is_one = len(content) == 1 and isinstance(next(iter(content.values())), dict)
        message = f"the object of a line has the fields {', '.join(content) or 'none'}"
        if not suite.require(WRAPPER, is_one, answer, message, expected="one field that is an object", line=number):
            return None
        kind, fields = next(iter(content.items()))
        found.append(Line(number, kind, fields, raw))
        splitters = sorted(_SPLITTERS.intersection(raw.decode("utf-8", "replace")))
        seen = ", ".join(f"U+{ord(one):04X}" for one in splitters) or None
        message = "a line has characters at which clients split text"
        suite.require(SPLIT, not splitters, answer, message, seen=seen, line=number)
    return found


def _take_end(suite: Suite, answer: WireAnswer, lines: list[Line], *, expects_end: bool) -> dict[str, object] | None:
    """Take the last line out of the lines where it is endStreamAction."""
    is_there = bool(lines) and lines[-1].kind == "endStreamAction"
    end = dict(lines.pop().fields) if is_there else None
    asked = "includeendstreamaction=true" in answer.request.headers.get(CAPABILITIES, "").lower()
    if not asked and not expects_end:
        suite.require(END_UNASKED, not is_there, answer, "an answer ends with endStreamAction unasked")
    promised = "includeendstreamaction=true" in answer.headers.get(CAPABILITIES, "").lower()
    if promised:
        suite.require(
            END_MISSING, is_there, answer, "the header promises endStreamAction, and the last line is another one"
        )
    if end is not None:
        error = end.get("errorMessage")
        suite.require(ANSWER_FAILED, not error, answer, "the answer ends with an error", seen=error)
        odd = [name for name, kind in _OF_END.items() if end.get(name) is not None and type(end[name]) is not kind]
        message = f"{', '.join(odd)} of endStreamAction has another type"
        suite.require(WRAPPER, not odd, answer, message, expected="texts as tokens, a time in milliseconds")
    return end


def names_of(files: Sequence[FileLine]) -> str:
    """Return a few ids for a finding."""
    return summarize_names([file.id[:40] for file in files], 3)


# -- the content of lines ----------------------------------------------------------------------------------------------

TABLES_AREA = Rules("Tables", Level.API)

PROTOCOL = TABLES_AREA.row("""error share.protocol-line | The protocol has minReaderVersion 1 in parquet format, and in
    delta format a deltaProtocol with both versions. | Protocol; Protocol in Delta Format | clients refuse the table as
    too new, or fail | send minReaderVersion 1; in delta format the protocol of the table | {"protocol": {}}""")
METADATA = TABLES_AREA.row("""error share.metadata-field | The metadata has the required fields with their types: id,
    format, schemaString, partitionColumns. | Metadata; Metadata in Delta Format | clients fail on the metadata | send
    the missing field; partitionColumns is an empty array where there are none | partitionColumns is null""")
SCHEMA = TABLES_AREA.row("""error share.metadata-schema | schemaString is a struct in JSON whose fields have name, type
    and nullable, and the partition columns are among them. | Schema Object; Struct Type; Struct Field | clients cannot
    make columns of the table | send the schema of the table as its log has it | a partition column that the schema does
    not have""")
TOTALS = TABLES_AREA.row("""warning share.metadata-totals | `size` and `numFiles` of the metadata are those of the files
    of the version. | Metadata (size, numFiles) | clients plan with wrong numbers | leave them out, or count the files
    of the version | numFiles is 5, and 6 files follow""")
FILE_FIELD = TABLES_AREA.row("""error share.file-field | A file has the required fields with their types: in parquet
    format url, id, partitionValues and size; in delta format id and deltaSingleAction. | File; Add File; CDF File;
    Remove File; File in Delta Format | clients fail on the file | send the missing field; partitionValues is an empty
    object where there are none | a file without size""")
ACTION_FIELD = TABLES_AREA.row("""error share.action-field | The action in a deltaSingleAction is a sound action of the
    Delta protocol. | File in Delta Format (deltaSingleAction); Delta protocol: Add File and Remove File | clients that
    hand it to a Delta library fail | send the action with its original values | an add without modificationTime""")
REPEATED_FILE = TABLES_AREA.row("""error share.file-id-repeated | The files of a version have different ids. | File (id:
    a unique string for the file in a table) | clients that cache by id read one file twice and lose another | make the
    id of the whole path | the id is the file name without its directory""")
PARTITION_VALUES = TABLES_AREA.row("""error share.partition-values | partitionValues has every partition column and no
    other one. | File (partitionValues); Partition Value Serialization | clients read wrong values in the partition
    columns | send all of them; in delta format by their physical names | {} in a partitioned table""")
PARTITION_TEXT = TABLES_AREA.row("""error share.partition-value-text | Partition values are null or strings in the form
    of their type; an empty one is null. | Partition Value Serialization | clients fail on the value, or read another
    one | send the value as the log has it | a date as 28.4.2021""")
STATS = TABLES_AREA.row("""warning share.stats-invalid | `stats` is a string with a JSON object, and its numRecords a
    whole number. | File (stats); Per-file Statistics | clients cannot skip the file, or fail | send the statistics as
    the log has them, or leave them out | "stats": {"numRecords": 1}, which is not a string""")
URL = TABLES_AREA.row("""error share.url-not-https | The URL of a file is an https URL; on the machine of the client, or
    of a server that is itself reached by http, also http. | File (url: an https url) | clients refuse it, or fetch data
    that can be read and changed in transit | sign https URLs | s3://bucket/part-0.parquet""")
EXPIRY = TABLES_AREA.row("""error share.expiration | expirationTimestamp is in epoch milliseconds and in the future. |
    File (expirationTimestamp) | clients fetch new URLs without end, or use expired ones | send the time in milliseconds
    | a time in seconds""")
VECTOR = TABLES_AREA.row("""error share.vector-url | A deletion vector in a file of its own has a URL as its path, and
    its file has a deletionVectorFileId. | File in Delta Format (deletionVectorFileId, deltaSingleAction) | clients
    fail, or return deleted rows | sign the file of the vector as well: storageType p with the URL as pathOrInlineDv |
    storageType u with a relative path""")

_REQUIRED: Mapping[str, type] = {"url": str, "id": str, "partitionValues": dict, "size": int}
_IN_DELTA: Mapping[str, type] = {"id": str, "deltaSingleAction": dict}
_NUMBERS = ("version", "size", "numFiles")
_OPTIONAL: Mapping[str, type] = {"version": int, "timestamp": int, "expirationTimestamp": int}
_FORMS = {
    "date": re.compile(r"-?\d{4,}-\d\d-\d\d"),
    "timestamp": re.compile(r"-?\d{4,}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?)?"),
    "timestamp_ntz": re.compile(r"-?\d{4,}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?)?"),
    "boolean": re.compile(r"true|false", re.IGNORECASE),
    **dict.fromkeys(("byte", "short", "integer", "long"), re.compile(r"[+-]?\d+")),
}


def check_table_lines(suite: Suite, lines: Lines, now_ms: int) -> None:
    """Check protocol and metadata, and every file."""
    _check_protocol(suite, lines)
    _check_metadata(suite, lines)
    for line in lines.rest:
        if line.kind == "protocol":
            _check_protocol(suite, replace(lines, protocol=line.fields), line.number)
        elif line.kind == "metaData":
            _check_metadata(suite, replace(lines, metadata=line.fields), line.number)
    for file in lines.files:
        _check_file(FileTest(suite, lines, file), now_ms)


def _check_protocol(suite: Suite, lines: Lines, number: int = 1) -> None:
    if lines.form == PARQUET:
        is_sound = lines.protocol.get("minReaderVersion") == 1
        expected = "minReaderVersion 1"
    else:
        faults = list(faults_of("protocol", dict(lines.delta_protocol)))
        needs_features = lines.delta_protocol.get("minReaderVersion") == 3 and not faults
        is_sound = not faults and (not needs_features or "readerFeatures" in lines.delta_protocol)
        expected = f"{faults[0].name}: {faults[0].expected}" if faults else "readerFeatures of minReaderVersion 3"
    seen, message = json.dumps(lines.protocol), "the protocol is not complete"
    suite.require(PROTOCOL, is_sound, lines.answer, message, seen=seen, expected=expected, line=number)


def _check_metadata(suite: Suite, lines: Lines, number: int = 2) -> None:
    problems = list(_metadata_problems(lines))
    if suite.require(METADATA, not problems, lines.answer, "; ".join(problems), line=number):
        reason = _schema_problem(lines)
        suite.require(SCHEMA, reason is None, lines.answer, reason or "", line=number)


def _metadata_problems(lines: Lines) -> Iterator[str]:
    meta = lines.meta
    if lines.form == PARQUET:
        types: Mapping[str, type] = {"id": str, "format": dict, "schemaString": str, "partitionColumns": list}
        wrong = [name for name, kind in types.items() if type(meta.get(name)) is not kind]
        if wrong:
            yield f"the metadata lacks {', '.join(wrong)}, or has another type there"
    else:
        yield from (
            f"{fault.name} of the metadata is {fault.found or 'missing'} (expected: {fault.expected})"
            for fault in faults_of("metaData", dict(meta))
        )
    if odd := [name for name in _NUMBERS if type(lines.metadata.get(name, 0)) is not int]:
        yield f"{', '.join(odd)} of the metadata is not a whole number"
    form = meta.get("format")
    if isinstance(form, dict) and form.get("provider") != "parquet":
        yield "the provider of the format is not parquet"


def _schema_problem(lines: Lines) -> str | None:
    columns = lines.columns
    if not columns and '"fields":[]' not in str(lines.meta.get("schemaString")).replace(" ", ""):
        return "schemaString is not a struct in JSON"
    odd = [one for one in columns if not {"name", "type", "nullable"} <= one.keys()]
    if odd:
        return f"the column {odd[0].get('name', 'without a name')} lacks name, type or nullable"
    unknown = sorted(set(lines.partition_columns) - {str(one["name"]) for one in columns})
    return f"the partition column {unknown[0]} is not in the schema" if unknown else None


def check_version_files(suite: Suite, lines: Lines) -> None:
    """Check what holds of all files of a version together."""
    seen: dict[str, FileLine] = {}
    for file in lines.files:
        other = seen.setdefault(file.id, file)
        is_alone = other is file or other.vector != file.vector
        message = "two files of a version have the same id"
        suite.require(REPEATED_FILE, is_alone, lines.answer, message, seen=file.id, line=file.line.number)
    for name, found in (("numFiles", len(lines.files)), ("size", sum(file.size or 0 for file in lines.files))):
        told = lines.metadata.get(name)
        if told is not None:
            message = f"{name} of the metadata is not that of the files"
            suite.require(TOTALS, told == found, lines.answer, message, seen=told, expected=found, line=2)


class FileTest(NamedTuple):
    """One file of an answer under test."""

    suite: Suite
    lines: Lines
    file: FileLine

    def require(self, rule: Rule, holds: bool, message: str, *, seen: object = None, expected: object = None) -> bool:
        """Report the line of the file where it breaks a rule; return whether the rule `holds`."""
        answer, line = self.lines.answer, self.file.line.number
        return self.suite.require(rule, holds, answer, message, seen=seen, expected=expected, line=line)


def _check_file(test: FileTest, now_ms: int) -> None:
    lines, file = test.lines, test.file
    required = _REQUIRED if lines.form == PARQUET else _IN_DELTA
    wrong = [name for name, kind in required.items() if type(file.fields.get(name)) is not kind]
    odd = {name: kind for name, kind in _OPTIONAL.items() if file.fields.get(name) is not None}
    wrong += [name for name, kind in odd.items() if type(file.fields[name]) is not kind]
    message = f"a file lacks {', '.join(wrong)}, or has another type there"
    test.require(FILE_FIELD, not wrong, message, seen=", ".join(sorted(file.fields)))
    if lines.form == DELTA:
        _check_action(test)
    if not wrong:
        _check_partition_values(test)
        text, count = file.action.get("stats"), (file.stats or {}).get("numRecords")
        if text is not None:
            is_sound = file.stats is not None and (count is None or (type(count) is int and count >= 0))
            message = "stats of a file is not a string with a JSON object and a number of records"
            test.require(STATS, is_sound, message, seen=str(text)[:80])
        parts = urlsplit(file.url)
        may_be_plain = test.suite.uri.startswith("http://") or (
            parts.hostname is not None and is_loopback(parts.hostname)
        )
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and may_be_plain)
        test.require(URL, is_safe, "the URL of a file is not an https URL", seen=parts.scheme or "no scheme")
    if file.expires_ms is not None:
        is_future = now_ms - 60_000 < file.expires_ms < now_ms + 10 * 366 * 86_400_000
        message = "expirationTimestamp is not a time in the future in milliseconds"
        test.require(EXPIRY, is_future, message, expected="epoch milliseconds")


def _check_action(test: FileTest) -> None:
    file = test.file
    faults = list(faults_of(file.kind, dict(file.action)))
    message, seen, expected = f"an action {file.kind}", None, "add, remove or cdc"
    for fault in faults[:1]:
        message, expected = f"{fault.name} of the action {file.kind} is not sound", fault.expected
        seen = fault.found or "missing"
    is_sound = not faults and file.kind in ("add", "remove", "cdc")
    test.require(ACTION_FIELD, is_sound, message, seen=seen, expected=expected)
    vector = file.vector
    if vector is None or vector.get("storageType") == "i":
        return
    has_url = vector.get("storageType") == "p" and "://" in str(vector.get("pathOrInlineDv"))
    is_named = has_url and isinstance(file.fields.get("deletionVectorFileId"), str)
    message = "a deletion vector has no URL, or its file no deletionVectorFileId"
    seen, expected = f"storageType {vector.get('storageType')}", "storageType p, a URL, and deletionVectorFileId"
    test.require(VECTOR, is_named, message, seen=seen, expected=expected)


def partition_names(lines: Lines) -> dict[str, JsonObject]:
    """Return the name of each partition column in partitionValues -> its column."""
    is_mapped = lines.form == DELTA and lines.maps_columns
    columns = {str(one.get("name")): one for one in lines.columns}
    named = {name: columns.get(name, {"name": name}) for name in lines.partition_columns}
    return {stored_name(column, is_mapped=is_mapped): column for column in named.values()}


def _check_partition_values(test: FileTest) -> None:
    file = test.file
    if file.kind == "remove" and "partitionValues" not in file.action:
        return  # optional in a remove of the delta format
    names, values = partition_names(test.lines), file.partition_values
    message = "partitionValues of a file has other columns than the partition columns"
    shown = [", ".join(sorted(known)) or "none" for known in (values, names)]
    test.require(PARTITION_VALUES, set(values) == set(names), message, seen=shown[0], expected=shown[1])
    for name, column in names.items():
        value = values.get(name, "")
        form = _FORMS.get(str(column.get("type")))
        is_text = isinstance(value, str) and (not value or form is None or form.fullmatch(value) is not None)
        message = f"the partition value of {name} is not a {column.get('type')}"
        test.require(PARTITION_TEXT, is_text or value is None, message, seen=repr(value)[:80])
