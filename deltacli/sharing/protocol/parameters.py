"""What a request says: its parameters, capabilities and hints, how large they may be, and the errors of the wire.

Clients repeat requests that were answered with 429 or 5xx, the Python client for more than a minute. So everything that
a repetition cannot change is answered with 4xx, faults of the shared table included.

Unrecognized parameters are ignored.

An empty number, time or flag is an error: taken for absent, it would choose another version than was meant. Empty
tokens and hints are absent, as some clients send them.

Keys and values of the header are case-insensitive, unrecognized ones are ignored. Features that concern only the log or
writers are of no concern to recipients: they see neither. A feature that a table supports but does not use does not
count either, so more clients can read the table; `client_actions` makes the protocol and the metadata for that.

The server skips a larger one with a reason and never refuses the request. The client does not send it. All hints of a
request together are bounded by `body_bytes` of the server's limits, which refuses a larger request.

Spec: REST APIs; Read Data from a Table; Read Change Data Feed from a Table; Query Table Metadata; Timestamp Format;
Delta Sharing Capabilities Header; Table Features.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from deltacli.core.errors import DeltacliError, FileMissing, NotATable, PathExternal, StorageFailed, VersionAbsent
from deltacli.core.times import format_timestamp, to_epoch_ms
from deltacli.core.typing import JsonObject
from deltacli.delta.encoding.ndjson import is_nested_deeply
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.feature_use import OF_THE_LOG, used_features
from deltacli.delta.protocol.features import FEATURES, stable_name
from deltacli.sharing.protocol.names import LONGEST_NAME


class ErrorCode(StrEnum):
    """The value of `errorCode`. The first five are those of the reference server."""

    INVALID = "INVALID_PARAMETER_VALUE"
    MALFORMED = "MALFORMED_REQUEST"
    UNSUPPORTED = "UNSUPPORTED_OPERATION"
    MISSING = "RESOURCE_DOES_NOT_EXIST"
    INTERNAL = "INTERNAL_ERROR"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "PERMISSION_DENIED"
    METHOD = "METHOD_NOT_ALLOWED"
    TOO_LARGE = "REQUEST_TOO_LARGE"
    MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    TOO_MANY = "TOO_MANY_REQUESTS"
    UNAVAILABLE = "SERVICE_UNAVAILABLE"
    TIMEOUT = "REQUEST_TIMEOUT"


class WireError(Exception):
    """An answer other than 200. The message is for the client: it contains no location and no secret."""

    def __init__(self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers: dict[str, str] = dict(headers or {})

    def body(self) -> bytes:
        """Return the body of the answer, in ASCII."""
        return json.dumps({"errorCode": str(self.code), "message": self.message}).encode("ascii")


def invalid_parameter(message: str) -> WireError:
    """Return the answer to a parameter with an invalid value."""
    return WireError(400, ErrorCode.INVALID, message)


def malformed(message: str) -> WireError:
    """Return the answer to a request that cannot be parsed."""
    return WireError(400, ErrorCode.MALFORMED, message)


def unsupported(message: str) -> WireError:
    """Return the answer to a request that the table, or its sharing, does not allow."""
    return WireError(400, ErrorCode.UNSUPPORTED, message)


def missing(kind: str, name: str) -> WireError:
    """Return the answer for a share, schema or table that does not exist, or is not granted to the recipient."""
    return WireError(404, ErrorCode.MISSING, f"{kind} {name!r} does not exist, or is not shared with you")


def not_allowed(method: str, allowed: str) -> WireError:
    """Return the answer to a method that a URL does not have."""
    message = f"{method} is not allowed here (expected: {allowed})"
    return WireError(405, ErrorCode.METHOD, message, headers={"Allow": allowed})


def internal() -> WireError:
    """Return the answer to a request that failed because of a bug."""
    return WireError(500, ErrorCode.INTERNAL, "the server failed; its log has the reason")


def of_fault(fault: DeltacliError, table: str) -> WireError:
    """Return the answer to a request that a fault of the shared table prevents, without its location."""
    match fault:
        case VersionAbsent():
            text = f"the log of the table {table} no longer reaches back to this version or time"
            return WireError(400, ErrorCode.INVALID, text)
        case NotATable() | FileMissing():
            status, code, message = 400, ErrorCode.MISSING, "has no data at its location"
        case PathExternal():
            status, code, message = 400, ErrorCode.UNSUPPORTED, "has files outside its own directory"
        case StorageFailed():
            status, code, message = 503, ErrorCode.UNAVAILABLE, "cannot be reached at the moment"
        case _:
            status, code, message = 400, ErrorCode.UNSUPPORTED, "cannot be read"
    text = f"the table {table} {message} ({fault.code}); its provider has to correct this"
    return WireError(status, code, text)


# -- names and parameters of requests, from URLs and from JSON bodies --------------------------------------------------

MOST_RESULTS = 500
_LONGEST_KEY = 255
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)")


def split_path(raw_path: bytes, prefix: str) -> list[str] | None:
    """Return the segments of a URL's path below a prefix, each decoded once; None for a URL outside the prefix.

    Slashes behind the prefix count as one, as on the reference server: profiles may end their endpoint with one.

    Raises WireError for segments that no name can have: empty ones, `.` and `..`, control characters, an encoded slash,
    bytes that are not UTF-8.
    """
    path = raw_path.split(b"?", 1)[0]
    start = prefix.rstrip("/").encode()
    if path != start and not path.startswith(start + b"/"):
        return None
    inner = path[len(start) :].lstrip(b"/").removesuffix(b"/")
    return [_decoded(segment) for segment in inner.split(b"/")] if inner else []


def _decoded(segment: bytes) -> str:
    try:
        name = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid_parameter("the URL is not UTF-8") from None
    if not name or name in (".", "..") or _REFUSED.search(name):
        raise invalid_parameter("the URL has an invalid segment")
    return name


def require_short_name(name: str) -> str:
    """Return a name that is not longer than names can be. Raises WireError."""
    if len(name) > LONGEST_NAME:
        raise invalid_parameter(f"a name has more than {LONGEST_NAME} characters")
    return name


@dataclass(frozen=True, slots=True)
class ListRequest:
    """One page of a list."""

    max_results: int = MOST_RESULTS
    page_token: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A version by its number or as the newest one committed at or before a time; neither: the newest one."""

    version: int | None = None
    timestamp_ms: int | None = None

    @property
    def is_newest(self) -> bool:
        return self.version is None and self.timestamp_ms is None

    def fields(self, version: str = "version", timestamp: str = "timestamp") -> dict[str, str | int]:
        """Return the parameters of a request."""
        if self.version is not None:
            return {version: self.version}
        return {} if self.timestamp_ms is None else {timestamp: format_timestamp(self.timestamp_ms)}


NEWEST_POINT = Point()


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedRequest:
    """What a request asks of pages: their size, and the token of the one to continue with."""

    max_files: int | None = None
    page_token: str | None = None

    @property
    def is_paged(self) -> bool:
        """Return True if the client asked for a page, so that it looks for the token of the next one."""
        return self.max_files is not None or self.page_token is not None


@dataclass(frozen=True, slots=True)
class QueryRequest(PagedRequest):
    """The body of a query."""

    choice: Point = NEWEST_POINT
    starting_version: int | None = None
    ending_version: int | None = None
    sql_hints: tuple[str, ...] = ()
    json_hint: str | None = None
    limit: int | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None
    include_historical_protocol: bool = False


@dataclass(frozen=True, slots=True)
class ChangesRequest(PagedRequest):
    """The range of a change data feed."""

    start: Point
    end: Point
    include_historical_metadata: bool = False
    include_historical_protocol: bool = False


def parse_list(parameters: Mapping[str, str]) -> ListRequest:
    """Return the page of a list. Raises WireError."""
    most = _number(parameters, "maxResults", _INT32)
    if most is not None and most > MOST_RESULTS:
        raise invalid_parameter(f"maxResults is {most} (expected: 0 to {MOST_RESULTS})")
    return ListRequest(MOST_RESULTS if most is None else most, parameters.get("pageToken") or None)


def parse_choice(parameters: Mapping[str, Any], version: str = "version", timestamp: str = "timestamp") -> Point:
    """Return the version that two parameters choose. Raises WireError where both are given."""
    number, moment = _number(parameters, version, _INT64), _moment(parameters, timestamp)
    if number is not None and moment is not None:
        raise invalid_parameter(f"{version} and {timestamp} exclude each other")
    return Point(number, moment)


def parse_changes(parameters: Mapping[str, str]) -> ChangesRequest:
    """Return the range of a change data feed. Raises WireError."""
    start = parse_choice(parameters, "startingVersion", "startingTimestamp")
    end = parse_choice(parameters, "endingVersion", "endingTimestamp")
    if start.is_newest:
        raise invalid_parameter("startingVersion or startingTimestamp is missing")
    if None not in (start.version, end.version) and (start.version or 0) > (end.version or 0):
        raise invalid_parameter(f"startingVersion {start.version} is greater than endingVersion {end.version}")
    return ChangesRequest(
        start,
        end,
        _flag(parameters, "includeHistoricalMetadata"),
        _flag(parameters, "includeHistoricalProtocol"),
        max_files=_number(parameters, "maxFiles", _INT32, least=1),
        page_token=parameters.get("pageToken") or None,
    )


def parse_query(body: bytes, most_levels: int) -> QueryRequest:
    """Return the query in a body nested at most so deep; an empty one asks for the newest version. Raises WireError."""
    fields = _read_object(body, most_levels)
    choice, starting = parse_choice(fields), _number(fields, "startingVersion", _INT64)
    ending = _number(fields, "endingVersion", _INT64)
    if starting is not None and not choice.is_newest:
        raise invalid_parameter("startingVersion excludes version and timestamp")
    if starting is None and ending is not None:
        raise invalid_parameter("endingVersion needs startingVersion; version asks for the files of one version")
    if starting is not None and ending is not None and starting > ending:
        raise invalid_parameter(f"startingVersion {starting} is greater than endingVersion {ending}")
    return QueryRequest(
        choice,
        starting,
        ending,
        _texts(fields, "predicateHints"),
        _text(fields, "jsonPredicateHints"),
        _number(fields, "limitHint", _INT32),
        _flag(fields, "includeRefreshToken"),
        _text(fields, "refreshToken"),
        _flag(fields, "includeHistoricalProtocol"),
        max_files=_number(fields, "maxFiles", _INT32, least=1),
        page_token=_text(fields, "pageToken"),
    )


def parse_idempotency_key(body: bytes, most_levels: int) -> str | None:
    """Return the key of a query that may be answered later, by either of its spellings; None where there is none.

    Raises WireError. Spec: Read Data from a Table (asyncquery); the Spark client and the reference server write it with
    an underscore.
    """
    fields = _read_object(body, most_levels)
    key = fields.get("idempotencyKey", fields.get("idempotency_key"))
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        raise invalid_parameter(f"idempotencyKey is not a string of 1 to {_LONGEST_KEY} printable characters")
    return key


def parse_poll(body: bytes, most_levels: int) -> PagedRequest:
    """Return the page that is asked for of a query that is answered later. Raises WireError."""
    fields = _read_object(body, most_levels)
    return PagedRequest(max_files=_number(fields, "maxFiles", _INT32, least=1), page_token=_text(fields, "pageToken"))


def parse_location(body: bytes, most_levels: int) -> str | None:
    """Return the location that a credential is asked for; None for the table's own. Raises WireError."""
    fields = _read_object(body, most_levels)
    location = fields.get("location")
    if location is not None and not isinstance(location, str):
        raise malformed("location is not a string")
    return location


def parse_timestamp(text: str, name: str) -> int:
    """Return epoch milliseconds of an ISO 8601 time with `Z` or an offset. Raises WireError."""
    if not text.isascii() or not _MOMENT.fullmatch(text):
        raise invalid_parameter(f"{name} is not a timestamp (expected: 2022-01-01T00:00:00Z)")
    try:
        moment = datetime.fromisoformat(text.upper())
        return to_epoch_ms(moment, begins=name == "startingTimestamp")
    except (ValueError, OverflowError):
        raise invalid_parameter(f"{name} is not a timestamp (expected: 2022-01-01T00:00:00Z)") from None


def _read_object(body: bytes, most_levels: int) -> JsonObject:
    if not body.strip():
        return {}
    if is_nested_deeply(body, most_levels):
        raise malformed(f"the body is nested more than {most_levels} levels deep, or its brackets do not match")
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise malformed("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise malformed("the body is not a JSON object")
    return {name: value for name, value in fields.items() if value is not None}


def _number(fields: Mapping[str, Any], name: str, most: int, *, least: int = 0) -> int | None:
    """Return a whole number, from JSON or from the text of a query string."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    if type(value) is not int:
        raise invalid_parameter(f"{name} is not a whole number")
    if not least <= value <= most:
        raise invalid_parameter(f"{name} is {value} (expected: {least} to {most})")
    return value


def _moment(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid_parameter(f"{name} is not a string")
    return parse_timestamp(value, name)


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if type(value) is not bool:
        raise invalid_parameter(f"{name} is not true or false")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise invalid_parameter(f"{name} is not a string")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise invalid_parameter(f"{name} is not a list of strings")
    return tuple(value)


def single_values(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters of a query string. Raises WireError where one is given twice with different values."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise WireError(400, "INVALID_PARAMETER_VALUE", f"{name[:50]} is given more than once")
    return found


# -- what a server reads from the header `delta-sharing-capabilities` --------------------------------------------------

HEADER = "delta-sharing-capabilities"


class ResponseFormat(StrEnum):
    """The two formats of answers."""

    PARQUET = "parquet"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The formats that a client reads, in its order; the reader features it supports, in lower case; whether it expects
    `endStreamAction` as the last line; whether it takes the answer of a query later.
    """

    formats: tuple[ResponseFormat, ...] = (ResponseFormat.PARQUET,)
    reader_features: frozenset[str] = frozenset()
    end_stream_action: bool = False
    takes_later: bool = field(default=False, repr=False)  # tokens are bound to the text of the other fields

    def supports(self, feature: str) -> bool:
        """Return True if the client lists a reader feature, under its stable name or the name of a preview."""
        stable = stable_name(feature).lower()
        return any(name == stable or _STABLE_NAMES.get(name) == stable for name in self.reader_features)


_STABLE_NAMES: Mapping[str, str] = {name.lower(): stable_name(name).lower() for name in FEATURES}


def parse_capabilities(header: str | None) -> Capabilities:
    """Return a client's capabilities, parquet only without the header. Raises WireError if no named format exists."""
    values: dict[str, list[str]] = {}
    for part in (header or "").split(";"):
        key, separator, listed = part.partition("=")
        if separator:
            found = [value.strip().lower() for value in listed.split(",")]
            values.setdefault(key.strip().lower(), []).extend(value for value in found if value)
    named = values.get("responseformat", [])
    formats = tuple(dict.fromkeys(ResponseFormat(name) for name in named if name in list(ResponseFormat)))
    if named and not formats:
        raise invalid_parameter(f"responseformat={','.join(named)[:100]} is not available (expected: parquet, delta)")
    return Capabilities(
        formats or (ResponseFormat.PARQUET,),
        frozenset(values.get("readerfeatures", [])),
        values.get("includeendstreamaction", [])[-1:] == ["true"],
        values.get("asyncquery", [])[-1:] == ["true"],
    )


def answer_header(chosen: ResponseFormat, *, end_stream_action: bool, is_later: bool = False) -> str:
    """Return the value of the same header in an answer. Clients look for its text in lower case. `is_later`: the answer
    says where the query stands; clients look for that wherever the header has it.
    """
    ends = ";includeendstreamaction=true" if end_stream_action else ""
    return f"responseformat={chosen}{ends}" + (";asyncquery=true" if is_later else "")


@dataclass(frozen=True, slots=True)
class ReadingNeeds:
    """What clients must support to read some versions of a table.

    Attributes:
        features: The stable names of the reader features that the versions use, sorted.
        not_in_parquet: Why the parquet format cannot express the versions, sorted; empty if it can.
        unused: The stable names of the other reader features that the protocols of the versions list, sorted. Those
            that concern only the log are left out.
    """

    features: tuple[str, ...]
    not_in_parquet: tuple[str, ...]
    unused: tuple[str, ...] = ()

    def choose(self, client: Capabilities, table: str) -> ResponseFormat:
        """Return the format to answer in. Raises WireError, naming what the client lacks."""
        if ResponseFormat.PARQUET in client.formats and not self.not_in_parquet:
            return ResponseFormat.PARQUET
        if ResponseFormat.DELTA not in client.formats:
            raise unsupported(
                f"the table {table} uses {', '.join(self.not_in_parquet)}, which the parquet response format cannot "
                "express; ask for responseformat=delta (Python: use_delta_format=True; "
                'Spark: .option("responseFormat", "delta"))'
            )
        lacking = [name for name in self.features if not client.supports(name)]
        if lacking:
            raise unsupported(
                f"the table {table} uses {', '.join(lacking)}, which the client does not list in readerfeatures; use a "
                f"client that supports it (header delta-sharing-capabilities: responseformat=delta;readerfeatures="
                f"{','.join(name.lower() for name in self.features)})"
            )
        return ResponseFormat.DELTA

    def features_for(self, client: Capabilities) -> frozenset[str]:
        """Return the stable names of the reader features that the protocol for a client lists.

        A feature that is listed but not used is kept only for a client that supports it, so that it does not keep any
        other client from reading the table.
        """
        return frozenset({*self.features, *(name for name in self.unused if client.supports(name))})


def find_needs(config: TableConfiguration, *, has_vectors: bool) -> ReadingNeeds:
    """Return what reading the files of a version needs."""
    assert config.protocol is not None
    used, not_in_parquet = used_features(config, has_vectors=has_vectors)
    supported = {stable_name(name) for name in config.protocol.supported_reader_features if name not in OF_THE_LOG}
    return ReadingNeeds(used, not_in_parquet, tuple(sorted(supported.difference(used))))


# -- how large hints may be --------------------------------------------------------------------------------------------

MOST_SQL_HINTS = 100
LONGEST_SQL_HINT = 16 << 10
"Characters."
LONGEST_JSON_HINT = 1 << 20
"Characters."
DEEPEST_JSON_HINT = 100
MOST_PARTS = 20_000
"Operators and operands of one JSON hint."
MOST_WORK = 50_000_000
"Files times uses of columns: 3 seconds for numbers, 20 for long strings."

LONGEST_SENT = LONGEST_JSON_HINT // 2
"Characters of a JSON hint that the client sends: other servers may accept less than this one."
MOST_VALUES_SENT = 200
"Values of one list."
