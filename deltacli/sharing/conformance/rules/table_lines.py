"""The content of lines: protocol, metadata, and files of both formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlsplit

from deltacli.core.loopback import is_loopback
from deltacli.core.typing import JsonObject
from deltacli.rules.framework.base import Area, Level, Rule
from deltacli.rules.log.commit_lines import faults_of
from deltacli.sharing.conformance.lines import DELTA, PARQUET, FileLine, Lines, stored_name
from deltacli.sharing.conformance.wire import Suite

TABLES_AREA = Area("Tables", Level.API)

PROTOCOL = TABLES_AREA.error(
    "share.protocol-line",
    "The protocol has minReaderVersion 1 in parquet format, and in delta format a deltaProtocol with both versions.",
    spec="Protocol; Protocol in Delta Format",
    broken="clients refuse the table as too new, or fail",
    repair="send minReaderVersion 1; in delta format the protocol of the table",
    example='{"protocol": {}}',
)
METADATA = TABLES_AREA.error(
    "share.metadata-field",
    "The metadata has the required fields with their types: id, format, schemaString, partitionColumns.",
    spec="Metadata; Metadata in Delta Format",
    broken="clients fail on the metadata",
    repair="send the missing field; partitionColumns is an empty array where there are none",
    example="partitionColumns is null",
)
SCHEMA = TABLES_AREA.error(
    "share.metadata-schema",
    "schemaString is a struct in JSON whose fields have name, type and nullable, and the partition columns are among "
    "them.",
    spec="Schema Object; Struct Type; Struct Field",
    broken="clients cannot make columns of the table",
    repair="send the schema of the table as its log has it",
    example="a partition column that the schema does not have",
)
TOTALS = TABLES_AREA.warning(
    "share.metadata-totals",
    "`size` and `numFiles` of the metadata are those of the files of the version.",
    spec="Metadata (size, numFiles)",
    broken="clients plan with wrong numbers",
    repair="leave them out, or count the files of the version",
    example="numFiles is 5, and 6 files follow",
)
FILE_FIELD = TABLES_AREA.error(
    "share.file-field",
    "A file has the required fields with their types: in parquet format url, id, partitionValues and size; in delta "
    "format id and deltaSingleAction.",
    spec="File; Add File; CDF File; Remove File; File in Delta Format",
    broken="clients fail on the file",
    repair="send the missing field; partitionValues is an empty object where there are none",
    example="a file without size",
)
ACTION_FIELD = TABLES_AREA.error(
    "share.action-field",
    "The action in a deltaSingleAction is a sound action of the Delta protocol.",
    spec="File in Delta Format (deltaSingleAction); Delta protocol: Add File and Remove File",
    broken="clients that hand it to a Delta library fail",
    repair="send the action with its original values",
    example="an add without modificationTime",
)
REPEATED_FILE = TABLES_AREA.error(
    "share.file-id-repeated",
    "The files of a version have different ids.",
    spec="File (id: a unique string for the file in a table)",
    broken="clients that cache by id read one file twice and lose another",
    repair="make the id of the whole path",
    example="the id is the file name without its directory",
)
PARTITION_VALUES = TABLES_AREA.error(
    "share.partition-values",
    "partitionValues has every partition column and no other one.",
    spec="File (partitionValues); Partition Value Serialization",
    broken="clients read wrong values in the partition columns",
    repair="send all of them; in delta format by their physical names",
    example="{} in a partitioned table",
)
PARTITION_TEXT = TABLES_AREA.error(
    "share.partition-value-text",
    "Partition values are null or strings in the form of their type; an empty one is null.",
    spec="Partition Value Serialization",
    broken="clients fail on the value, or read another one",
    repair="send the value as the log has it",
    example="a date as 28.4.2021",
)
STATS = TABLES_AREA.warning(
    "share.stats-invalid",
    "`stats` is a string with a JSON object, and its numRecords a whole number.",
    spec="File (stats); Per-file Statistics",
    broken="clients cannot skip the file, or fail",
    repair="send the statistics as the log has them, or leave them out",
    example='"stats": {"numRecords": 1}, which is not a string',
)
URL = TABLES_AREA.error(
    "share.url-not-https",
    "The URL of a file is an https URL; on the machine of the client, or of a server that is itself reached by http, "
    "also http.",
    spec="File (url: an https url)",
    broken="clients refuse it, or fetch data that can be read and changed in transit",
    repair="sign https URLs",
    example="s3://bucket/part-0.parquet",
)
EXPIRY = TABLES_AREA.error(
    "share.expiration",
    "expirationTimestamp is in epoch milliseconds and in the future.",
    spec="File (expirationTimestamp)",
    broken="clients fetch new URLs without end, or use expired ones",
    repair="send the time in milliseconds",
    example="a time in seconds",
)
VECTOR = TABLES_AREA.error(
    "share.vector-url",
    "A deletion vector in a file of its own has a URL as its path, and its file has a deletionVectorFileId.",
    spec="File in Delta Format (deletionVectorFileId, deltaSingleAction)",
    broken="clients fail, or return deleted rows",
    repair="sign the file of the vector as well: storageType p with the URL as pathOrInlineDv",
    example="storageType u with a relative path",
)

_REQUIRED: Mapping[str, type] = {"url": str, "id": str, "partitionValues": dict, "size": int}
_IN_DELTA: Mapping[str, type] = {"id": str, "deltaSingleAction": dict}
_OPTIONAL: Mapping[str, type] = {"version": int, "timestamp": int, "expirationTimestamp": int}
_FORMS = {
    "date": re.compile(r"-?\d{4,}-\d\d-\d\d"),
    "timestamp": re.compile(r"-?\d{4,}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?)?"),
    "timestamp_ntz": re.compile(r"-?\d{4,}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?)?"),
    "boolean": re.compile(r"true|false", re.IGNORECASE),
    **dict.fromkeys(("byte", "short", "integer", "long"), re.compile(r"[+-]?\d+")),
}


def check_table(suite: Suite, lines: Lines, now_ms: int) -> None:
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
        wanted = ("minReaderVersion", "minWriterVersion")
        is_sound = all(type(lines.delta_protocol.get(name)) is int for name in wanted)
        expected = " and ".join(wanted)
    seen = json.dumps(lines.protocol)
    suite.require(
        PROTOCOL, is_sound, lines.answer, "the protocol is not complete", seen=seen, expected=expected, line=number
    )


def _check_metadata(suite: Suite, lines: Lines, number: int = 2) -> None:
    problems = list(_metadata_problems(lines))
    suite.require(METADATA, not problems, lines.answer, "; ".join(problems), line=number)
    if problems:
        return
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
        _check_stats(test)
        _check_url(test)
    if file.expires_ms is not None:
        is_future = now_ms - 60_000 < file.expires_ms < now_ms + 10 * 366 * 86_400_000
        message = "expirationTimestamp is not a time in the future in milliseconds"
        test.require(EXPIRY, is_future, message, expected="epoch milliseconds")


def _check_action(test: FileTest) -> None:
    file = test.file
    faults = list(faults_of(file.kind, dict(file.action)))
    test.require(
        ACTION_FIELD,
        not faults and file.kind in ("add", "remove", "cdc"),
        f"{faults[0].name} of the action {file.kind} is not sound" if faults else f"an action {file.kind}",
        seen=(faults[0].found or "missing") if faults else None,
        expected=faults[0].expected if faults else "add, remove or cdc",
    )
    vector = file.vector
    if vector is None or vector.get("storageType") == "i":
        return
    has_url = vector.get("storageType") == "p" and "://" in str(vector.get("pathOrInlineDv"))
    test.require(
        VECTOR,
        has_url and isinstance(file.fields.get("deletionVectorFileId"), str),
        "a deletion vector has no URL, or its file no deletionVectorFileId",
        seen=f"storageType {vector.get('storageType')}",
        expected="storageType p, a URL, and deletionVectorFileId",
    )


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


def _check_stats(test: FileTest) -> None:
    text, stats = test.file.action.get("stats"), test.file.stats
    if text is None:
        return
    count = (stats or {}).get("numRecords")
    is_sound = stats is not None and (count is None or (type(count) is int and count >= 0))
    message = "stats of a file is not a string with a JSON object and a number of records"
    test.require(STATS, is_sound, message, seen=str(text)[:80])


def _check_url(test: FileTest) -> None:
    parts = urlsplit(test.file.url)
    near = parts.hostname is not None and is_loopback(parts.hostname)
    plain_server = test.suite.uri.startswith("http://")
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and (near or plain_server))
    test.require(URL, is_safe, "the URL of a file is not an https URL", seen=parts.scheme or "no scheme")
