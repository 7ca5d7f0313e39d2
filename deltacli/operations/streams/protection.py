"""Which queries of Spark a deletion protects: what was asked for, and what a plan remembers of each query."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, Self

from deltacli.core.errors import UsageError, parameter
from deltacli.core.times import duration_argument
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, plural


class _Request(Protocol):
    @property
    def protect_streams(self) -> Sequence[str]: ...

    @property
    def ignore_streams_older_ms(self) -> int | None: ...

    @property
    def allow_stream_loss(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class StreamProtection:
    """Patterns of the checkpoint directories, absolute; the age in milliseconds from which a query that is behind is
    not protected, None without one; and the queries (id or directory) that may be lost.
    """

    globs: tuple[str, ...]
    ignore_older_ms: int | None = None
    allowed_loss: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: _Request) -> Self:
        """Return the protection that a request asks for."""
        globs = tuple(map(absolute, request.protect_streams))
        allowed = dict.fromkeys(name for one in request.allow_stream_loss for name in (one, absolute(one)))
        return cls(globs, request.ignore_streams_older_ms, tuple(allowed))

    @property
    def allowed_names(self) -> list[str]:
        """Return the queries whose loss is allowed, each once: `allowed_loss` also has paths as absolute ones."""
        others = {absolute(name) for name in self.allowed_loss if absolute(name) != name}
        return [name for name in self.allowed_loss if name not in others]


@dataclass(frozen=True, kw_only=True)
class ProtectionRequest:
    """Which streaming queries to protect from a command that deletes parts of a log and has no retention.

    Attributes:
        protect_streams: Patterns of checkpoint directories of Spark queries. Whatever these queries still need
            is kept.
        ignore_streams_older_ms: The age of a checkpoint, in milliseconds, from which its query is not protected
            if it is behind. None: every matching query is protected.
        allow_stream_loss: Queries, by their ids or checkpoint directories, that may become unable to continue.
    """

    protect_streams: Sequence[str] = ()
    ignore_streams_older_ms: int | None = None
    allow_stream_loss: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for an empty text and a negative age."""
        _require_values(self.protect_streams, self.ignore_streams_older_ms, self.allow_stream_loss)
        object.__setattr__(self, "protect_streams", tuple(self.protect_streams))
        object.__setattr__(self, "allow_stream_loss", tuple(self.allow_stream_loss))

    def require_patterns(self) -> None:
        """Raise UsageError for an option that needs a pattern, where none is given.

        The caller asks for it once it knows that its other options allow any protection, so that a user does not learn
        first that a pattern is missing, and then that there must be none.
        """
        _require_patterns(self.protect_streams, self.ignore_streams_older_ms, self.allow_stream_loss)

    @property
    def options(self) -> dict[str, Any]:  # Any: values of the options of a command
        """Return the options that are set, for a command that repeats them."""
        options: dict[str, Any] = {}  # Any: as above
        if self.protect_streams:
            options["protect_streams"] = list(self.protect_streams)
        if self.ignore_streams_older_ms is not None:
            options["ignore_streams_older_ms"] = duration_argument(self.ignore_streams_older_ms)
        if self.allow_stream_loss:
            options["allow_stream_loss"] = list(self.allow_stream_loss)
        return options


class QueryState(StrEnum):
    """What a plan does about a query."""

    PROTECTED = "protected"
    """What it needs is kept."""
    CAUGHT_UP = "caught-up"
    """It needs nothing that could be deleted."""
    IGNORED = "ignored"
    """It is behind and was not touched for a long time."""
    LOST = "lost"
    """It may be lost."""
    REFUSED = "refused"
    """It cannot be protected, so nothing is deleted."""


Place = tuple[str, int, bool, int]
"""A source of a query, and its position: the version, whether its snapshot is delivered, and the number of files."""


class GuardedQuery(NamedTuple):
    """A query of a plan: its checkpoint directory and id, where its sources in the table begin at a restart, the first
    and last version that it needs, and the files that are kept for it alone or together with other queries.
    """

    checkpoint: str
    query: str | None
    state: QueryState
    places: tuple[Place, ...] = ()
    versions: tuple[int, int] | None = None
    files: int = 0
    size_bytes: int = 0
    lag_ms: int = 0
    """The age of the oldest commit with files that it has not delivered."""

    @property
    def name(self) -> str:
        """Return its directory and its id."""
        return self.checkpoint if self.query is None else f"{self.query} ({self.checkpoint})"

    def covers(self, later: GuardedQuery) -> bool:
        """Return True if a plan that protects this query keeps all that it needs later: it only moved on."""
        before = {source: place for source, *place in self.places}
        return (
            self.state in (QueryState.PROTECTED, QueryState.CAUGHT_UP)
            and self.query == later.query
            and all(source in before and place >= before[source] for source, *place in later.places)
        )

    def as_json(self) -> dict[str, Json]:
        versions = None if self.versions is None else list[Json](self.versions)
        found: dict[str, Json] = {"checkpoint": self.checkpoint, "query": self.query, "state": self.state.value}
        return found | {"versions": versions, "files": self.files, "sizeBytes": self.size_bytes, "lagMs": self.lag_ms}


class GuardedStreams(NamedTuple):
    """The protection that a plan was made with, the id of its table, and the queries that stand in it."""

    protection: StreamProtection
    table_id: str
    queries: tuple[GuardedQuery, ...]

    def notes(self) -> Iterator[str]:
        """Yield a note on each query for which something or nothing is kept."""
        for one in self.queries:
            match one.state:
                case QueryState.PROTECTED if one.versions is not None and one.files:
                    first, last = one.versions
                    each = format_size(one.size_bytes // max(1, last - first + 1))
                    yield (
                        f"query {one.name} needs versions {first}-{last}: {plural(one.files, 'file')} "
                        f"({format_size(one.size_bytes)}) kept, {each} per version"
                    )
                case QueryState.IGNORED:
                    older = parameter(
                        "vacuum.ignore_streams_older_ms", duration_argument(self.protection.ignore_older_ms or 0)
                    )
                    yield f"query {one.name} is behind and is ignored by {older}: nothing is kept for it"
                case QueryState.LOST:
                    yield f"query {one.name} may be lost, as allowed: nothing is kept for it"

    def as_json(self) -> JsonObject:
        """Return it for the file of a plan."""
        return {
            "globs": list(self.protection.globs),
            "ignoreOlderMs": self.protection.ignore_older_ms,
            "allowedLoss": list(self.protection.allowed_loss),
            "tableId": self.table_id,
            "queries": [
                [*one[:3], [list(place) for place in one.places], list(one.versions or ()), *one[5:]]
                for one in self.queries
            ],
        }

    @classmethod
    def of_json(cls, value: JsonObject) -> Self:
        """Read it from the file of a plan. Raises ValueError, LookupError and TypeError for another value."""
        globs, older, allowed = (value[name] for name in ("globs", "ignoreOlderMs", "allowedLoss"))
        queries = []
        for checkpoint, query, state, places, versions, *numbers in value["queries"]:
            _require_types((checkpoint, str), (query or "", str), *zip(numbers, (int, int, int), strict=True))
            for place in places:
                _require_types(*zip(place, (str, int, bool, int), strict=True))
            span = None if not versions else (int(versions[0]), int(versions[1]))
            own = tuple((name, version, is_after, files) for name, version, is_after, files in places)
            queries.append(GuardedQuery(checkpoint, query, QueryState(state), own, span, *numbers))
        _require_types((older or 0, int), (value["tableId"], str), *((text, str) for text in (*globs, *allowed)))
        return cls(StreamProtection(tuple(globs), older, tuple(allowed)), value["tableId"], tuple(queries))


def _require_types(*pairs: tuple[object, type]) -> None:
    if any(type(value) is not kind for value, kind in pairs):
        raise ValueError("its streams are of a wrong type")


def numbers_of(queries: Iterable[GuardedQuery]) -> dict[str, Json]:
    """Return what a journal keeps of queries: the longest lag in milliseconds, and how many cannot be protected."""
    present = [one for one in queries if one.state in (QueryState.PROTECTED, QueryState.CAUGHT_UP, QueryState.REFUSED)]
    refused = sum(one.state is QueryState.REFUSED for one in present)
    return {"streamLagMs": max((one.lag_ms for one in present), default=0), "deadStreams": refused}


def require_streams(globs: Sequence[str], ignore_older_ms: int | None, allowed_loss: Sequence[str]) -> None:
    """Raise UsageError for options of the protection without a pattern, for an empty text and a negative age."""
    _require_values(globs, ignore_older_ms, allowed_loss)
    _require_patterns(globs, ignore_older_ms, allowed_loss)


def _require_patterns(globs: Sequence[str], ignore_older_ms: int | None, allowed_loss: Sequence[str]) -> None:
    if not globs and (ignore_older_ms is not None or allowed_loss):
        name = "ignore_streams_older_ms" if ignore_older_ms is not None else "allow_stream_loss"
        raise UsageError(f"{parameter(f'vacuum.{name}')} needs {parameter('vacuum.protect_streams')}")


def _require_values(globs: Sequence[str], ignore_older_ms: int | None, allowed_loss: Sequence[str]) -> None:
    if isinstance(globs, str) or isinstance(allowed_loss, str):
        raise UsageError("protect_streams and allow_stream_loss take lists of texts", facts={"expected": '["GLOB"]'})
    for name, texts in (("protect_streams", globs), ("allow_stream_loss", allowed_loss)):
        if any(not text.strip() or "\0" in text for text in texts):
            raise UsageError(f"{parameter(f'vacuum.{name}')} is empty or has a NUL character")
    if ignore_older_ms is not None and ignore_older_ms < 0:
        raise UsageError(
            f"{parameter('vacuum.ignore_streams_older_ms')} is negative", facts={"expected": "at least 0h"}
        )


def absolute(text: str) -> str:
    return text if "://" in text or text.startswith("file:") else os.path.abspath(os.path.expanduser(text))
