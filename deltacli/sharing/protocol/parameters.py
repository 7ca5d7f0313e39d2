"""Names and parameters of requests, from URLs and from JSON bodies. Unrecognized parameters are ignored.

An empty number, time or flag is an error: taken for absent, it would choose another version than was meant. Empty
tokens and hints are absent, as some clients send them.

Spec: Read Data from a Table; Read Change Data Feed from a Table; Query Table Metadata; Timestamp Format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from deltacli.core.typing import JsonObject
from deltacli.core.units import EPOCH, format_timestamp
from deltacli.delta.encoding.ndjson import is_nested_deeply
from deltacli.sharing.protocol.wire_errors import WireError, invalid, malformed

MOST_RESULTS = 500
_LONGEST_NAME = 255
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)")


def split_path(raw_path: bytes, prefix: str) -> list[str] | None:
    """Return the segments of a URL's path below a prefix, each decoded once; None for a URL outside the prefix.

    Slashes behind the prefix count as one, as on the reference server: profiles may end their endpoint with one.

    Raises WireError for segments that no name can have: empty ones, `.` and `..`, control characters, an encoded slash,
    bytes that are not UTF-8, more than 255 characters.
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
        raise invalid("the URL is not UTF-8") from None
    if not name or name in (".", "..") or _REFUSED.search(name):
        raise invalid("the URL has an invalid segment")
    return name


def require_name(name: str) -> str:
    """Return a name that is not longer than names can be. Raises WireError."""
    if len(name) > _LONGEST_NAME:
        raise invalid(f"a name has more than {_LONGEST_NAME} characters")
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
        """Return True where no version was chosen."""
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
        raise invalid(f"maxResults is {most} (expected: 0 to {MOST_RESULTS})")
    return ListRequest(MOST_RESULTS if most is None else most, parameters.get("pageToken") or None)


def parse_choice(parameters: Mapping[str, Any], version: str = "version", timestamp: str = "timestamp") -> Point:
    """Return the version that two parameters choose. Raises WireError where both are given."""
    number, moment = _number(parameters, version, _INT64), _moment(parameters, timestamp)
    if number is not None and moment is not None:
        raise invalid(f"{version} and {timestamp} exclude each other")
    return Point(number, moment)


def parse_changes(parameters: Mapping[str, str]) -> ChangesRequest:
    """Return the range of a change data feed. Raises WireError."""
    start = parse_choice(parameters, "startingVersion", "startingTimestamp")
    end = parse_choice(parameters, "endingVersion", "endingTimestamp")
    if start.is_newest:
        raise invalid("startingVersion or startingTimestamp is missing")
    if None not in (start.version, end.version) and (start.version or 0) > (end.version or 0):
        raise invalid(f"startingVersion {start.version} is greater than endingVersion {end.version}")
    return ChangesRequest(
        start,
        end,
        _flag(parameters, "includeHistoricalMetadata"),
        _flag(parameters, "includeHistoricalProtocol"),
        max_files=_number(parameters, "maxFiles", _INT32, least=1),
        page_token=parameters.get("pageToken") or None,
    )


def parse_query(body: bytes, most_levels: int) -> QueryRequest:
    """Return the query in a body, nested at most so many levels deep; an empty one asks for the newest version.

    Raises WireError.
    """
    fields = _read_object(body, most_levels)
    choice, starting = parse_choice(fields), _number(fields, "startingVersion", _INT64)
    ending = _number(fields, "endingVersion", _INT64)
    if starting is not None and not choice.is_newest:
        raise invalid("startingVersion excludes version and timestamp")
    if starting is not None and ending is not None and starting > ending:
        raise invalid(f"startingVersion {starting} is greater than endingVersion {ending}")
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


def parse_timestamp(text: str, name: str) -> int:
    """Return epoch milliseconds of an ISO 8601 time with `Z` or an offset. Raises WireError."""
    if not text.isascii() or not _MOMENT.fullmatch(text):
        raise invalid(f"{name} is not a timestamp (expected: 2022-01-01T00:00:00Z)")
    try:
        moment = datetime.fromisoformat(text.upper())
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise invalid(f"{name} is not a timestamp (expected: 2022-01-01T00:00:00Z)") from None


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
        raise invalid(f"{name} is not a whole number")
    if not least <= value <= most:
        raise invalid(f"{name} is {value} (expected: {least} to {most})")
    return value


def _moment(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"{name} is not a string")
    return parse_timestamp(value, name)


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if type(value) is not bool:
        raise invalid(f"{name} is not true or false")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise invalid(f"{name} is not a string")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise invalid(f"{name} is not a list of strings")
    return tuple(value)


def single_values(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters of a query string. Raises WireError where one is given twice with different values."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise WireError(400, "INVALID_PARAMETER_VALUE", f"{name[:50]} is given more than once")
    return found
