"""Answers with lines: their headers, protocol and metadata, the files, and how they end.

Spec: Delta Sharing Capabilities Header; Response Body; EndStreamAction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import orjson

from deltacli.core.typing import Json
from deltacli.sharing.client.faults import AnswerBroken, AnswerInvalid, clean, invalid, too_much, unframed
from deltacli.sharing.client.guards import AnswerLimits
from deltacli.sharing.client.transport import Reply
from deltacli.sharing.protocol import capabilities as wire
from deltacli.sharing.protocol.capabilities import ResponseFormat

VERSION_HEADER = "delta-table-version"
_END = "endStreamAction"
_LONGEST_VERSION = 19


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The version and the format of an answer, and its first two lines as they came."""

    version: int
    form: ResponseFormat
    promises_end: bool
    """The last line will be `endStreamAction`."""
    protocol: dict[str, Json] = field(default_factory=dict, repr=False)
    metadata: dict[str, Json] = field(default_factory=dict, repr=False)

    @property
    def delta_protocol(self) -> dict[str, Json]:
        """The protocol action of a log that holds these files."""
        if self.form is ResponseFormat.PARQUET:
            return {"minReaderVersion": 1, "minWriterVersion": 4}  # of tables with a change data feed
        return _object(self.protocol, "deltaProtocol")

    @property
    def delta_metadata(self) -> dict[str, Json]:
        """The metadata action of a log that holds these files."""
        if self.form is ResponseFormat.DELTA:
            return {"partitionColumns": [], "configuration": {}, **_object(self.metadata, "deltaMetadata")}
        return _metadata_of_parquet(self.metadata)


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """What the last line says."""

    next_page_token: str | None = None
    refresh_token: str | None = None
    min_expiration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ActionLine:
    """A line after the first two: an action of a file, or the protocol or metadata of a later version."""

    kind: str
    fields: dict[str, Json]


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Whole lines after the first two, as they came. `actions` parses them; use it, or read all of `text` otherwise.

    The line that ends an answer is a group of its own, which has to be parsed by `actions`.
    """

    text: bytes = field(repr=False)
    actions: Callable[[], Iterator[ActionLine]] = field(repr=False)


class LineAnswer:
    """One answer: `head`, then `groups` or `actions`, then `end`, in this order. `has_files`: False for an answer that
    ends with its head.
    """

    def __init__(self, reply: Reply, what: str, limits: AnswerLimits, *, has_files: bool = True) -> None:
        self._texts = whole_lines(reply.blocks(limits.answer_bytes, what), limits.line_bytes)
        self._unread = b""
        self._reply, self._what, self._has_files = reply, what, has_files
        self._end: AnswerEnd | None = None
        form, promises = _read_capabilities(reply)
        version = read_version(reply)
        self.head = AnswerHead(version, form, promises, self._first("protocol"), self._first("metaData"))

    def _first(self, kind: str) -> dict[str, Json]:
        try:
            found = self._first_line()
        except AnswerInvalid as fault:
            raise self._cut() if not self._reply.is_framed else fault from fault
        if found is None and not self._reply.is_framed:
            raise self._cut()
        if found is not None and found[0] == _END:
            self._take_end(found[1])
        if found is None or found[0] != kind:
            raise invalid(f"{self._what} does not begin with protocol and metaData", {"expected": kind})
        return found[1]

    def _first_line(self) -> tuple[str, dict[str, Json]] | None:
        """Take the first line that is not empty from what was not read; None at the end of the body."""
        while True:
            while self._unread:
                line, _, self._unread = self._unread.partition(b"\n")
                if line and not line.isspace():
                    return _parse_line(line)
            text = next(self._texts, None)
            if text is None:
                return None
            self._unread = text

    def groups(self) -> Iterator[LineGroup]:
        """Yield the other lines. Raises AnswerInvalid, and AnswerBroken where the answer is incomplete."""
        for text in _without_ends(chain((self._unread,), self._texts)):
            if self._end is not None:
                raise self._continued()
            self._require_whole(text)
            yield LineGroup(text, partial(self._actions_of, text))
        if self._end is None and self.head.promises_end:
            raise AnswerBroken(f"{self._what} ends without endStreamAction")
        if self._end is None and self._has_files and not self._reply.is_framed:
            raise self._cut()

    def _require_whole(self, text: bytes) -> None:
        """Raise AnswerBroken for a part of a line at the end of the connection: the rest of it was not received."""
        if self._reply.is_framed or text.endswith(b"\n"):
            return
        try:
            _parse_line(text.rpartition(b"\n")[2])
        except AnswerInvalid as fault:
            raise self._cut() from fault

    def _cut(self) -> AnswerBroken:
        """Return the error for an answer that may go on behind the end of the connection."""
        return unframed(f"{self._what} may be incomplete: it ended with the connection, and not with endStreamAction")

    def actions(self) -> Iterator[ActionLine]:
        """Yield the other lines, parsed. Raises what `groups` raises."""
        return (action for group in self.groups() for action in group.actions())

    def _actions_of(self, text: bytes) -> Iterator[ActionLine]:
        for kind, fields in parse_lines(text):
            if self._end is not None:
                raise self._continued()
            if kind == _END:
                self._take_end(fields)
            else:
                yield ActionLine(kind, fields)

    def _continued(self) -> AnswerInvalid:
        return invalid(f"{self._what} continues after endStreamAction")

    @property
    def end(self) -> AnswerEnd:
        """The last line, once all actions are read."""
        return self._end or AnswerEnd()

    def _take_end(self, fields: dict[str, Json]) -> None:
        if fields.get("errorMessage"):
            raise AnswerBroken(f"the server could not complete {self._what}: {clean(fields['errorMessage'])}")
        self._end = AnswerEnd(
            _token(fields, "nextPageToken"),
            _token(fields, "refreshToken"),
            _number(fields, "minUrlExpirationTimestamp"),
        )


def read_version(reply: Reply) -> int:
    """Return the version in the header of an answer. Raises AnswerInvalid."""
    text = reply.headers.get(VERSION_HEADER, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_VERSION):
        raise invalid(f"the header {VERSION_HEADER} is not a version", {"found": text or "no such header"})
    return int(text)


def _without_ends(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield texts that are not empty, a last line that can be the end of the answer on its own."""
    for text in texts:
        start = text.rfind(b"\n", 0, len(text) - 1) + 1
        parts = (text[:start], text[start:]) if _END.encode() in text[start:] else (text,)
        yield from (part for part in parts if part and not part.isspace())


def _read_capabilities(reply: Reply) -> tuple[ResponseFormat, bool]:
    """Return the format of an answer, and whether it promises `endStreamAction`. Servers without the header answer in
    parquet format.
    """
    values = {}
    for part in reply.headers.get(wire.HEADER, "").split(";"):
        name, _, value = part.partition("=")
        values[name.strip().lower()] = value.strip().lower()
    form = values.get("responseformat") or ResponseFormat.PARQUET
    if form not in list(ResponseFormat):
        raise invalid("the format of the answer is unknown", {"responseformat": form})
    return ResponseFormat(form), values.get("includeendstreamaction") == "true"


def _object(fields: dict[str, Json], name: str) -> dict[str, Json]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise invalid(f"{name} is missing")
    return value


def _metadata_of_parquet(fields: dict[str, Json]) -> dict[str, Json]:
    given = fields.get("configuration")
    feed = isinstance(given, dict) and str(given.get("enableChangeDataFeed")).lower() == "true"
    action = {
        "id": fields.get("id"),
        "name": fields.get("name"),
        "description": fields.get("description"),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": fields.get("schemaString"),
        "partitionColumns": fields.get("partitionColumns") or [],
        "configuration": {"delta.enableChangeDataFeed": "true"} if feed else {},
    }
    return {name: value for name, value in action.items() if value is not None}


def _token(fields: dict[str, Json], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid(f"{name} is not a string")
    return value or None


def _number(fields: dict[str, Json], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and type(value) is not int:
        raise invalid(f"{name} is not a number")
    return value


_TEXT_BYTES = 2 << 20
"""Of whole lines that are parsed at once."""


def whole_lines(blocks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the body in texts of whole lines: the first one as soon as it is there, larger ones later.

    Raises AnswerInvalid for a line longer than `most_bytes`.
    """
    held, held_bytes, rest, rest_bytes, least = list[bytes](), 0, list[bytes](), 0, 0
    for block in blocks:
        if end := block.rfind(b"\n") + 1:
            held += [*rest, block[:end]]
            held_bytes += rest_bytes + end
            rest, rest_bytes = [block[end:]], 0
        else:
            rest.append(block)
        rest_bytes += len(block) - end
        if rest_bytes > most_bytes:
            raise too_much("a line of an answer", f"{most_bytes:,} bytes")
        if held and held_bytes >= least:
            yield _short_lines(b"".join(held), most_bytes)
            held, held_bytes, least = [], 0, _TEXT_BYTES
    if held or rest_bytes:
        yield _short_lines(b"".join([*held, *rest]), most_bytes)


def _short_lines(text: bytes, most_bytes: int) -> bytes:
    if len(text) > most_bytes and any(len(line) > most_bytes for line in text.split(b"\n")):
        raise too_much("a line of an answer", f"{most_bytes:,} bytes")
    return text


def _parse_line(line: bytes) -> tuple[str, dict[str, Json]]:
    """Return the only key of a line's object and its value. Raises AnswerInvalid."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as fault:
        raise invalid("a line is not JSON", {"reason": fault}) from fault
    if not isinstance(document, dict):
        raise invalid("a line is not a JSON object")
    found = [(name, value) for name, value in document.items() if value is not None]
    if len(found) != 1 or not isinstance(found[0][1], dict):
        raise invalid("a line is not an object with one action", {"keys": ", ".join(map(str, document))})
    return found[0]


def parse_lines(text: bytes) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the actions of lines; empty ones are skipped."""
    return (_parse_line(line) for line in text.split(b"\n") if line and not line.isspace())
