"""Which queries of Spark a deletion protects: what was asked for, and what a plan remembers of each query."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, Self

from deltacli.core.errors import UsageError
from deltacli.core.typing import Json


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
        globs, allowed = map(tuple, (map(_absolute, request.protect_streams), request.allow_stream_loss))
        return cls(globs, request.ignore_streams_older_ms, allowed)

    def allows_loss(self, query: str | None, checkpoint: str) -> bool:
        """Return True if a query may be lost, by its id or its directory."""
        places = {_absolute(one).rstrip("/") for one in self.allowed_loss}
        return query in self.allowed_loss or checkpoint.rstrip("/") in places


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
        """Return it for documents."""
        versions = None if self.versions is None else list[Json](self.versions)
        found: dict[str, Json] = {"checkpoint": self.checkpoint, "query": self.query, "state": self.state.value}
        return found | {"versions": versions, "files": self.files, "sizeBytes": self.size_bytes}


class GuardedStreams(NamedTuple):
    """The protection that a plan was made with, and its queries."""

    protection: StreamProtection
    queries: tuple[GuardedQuery, ...]


def require_streams(globs: Sequence[str], ignore_older_ms: int | None, allowed_loss: Sequence[str]) -> None:
    """Raise UsageError for options of the protection without a pattern, for an empty text and a negative age."""
    from deltacli.core.errors import parameter

    if isinstance(globs, str) or isinstance(allowed_loss, str):
        raise UsageError("protect_streams and allow_stream_loss take lists of texts", facts={"expected": '["GLOB"]'})
    of = parameter("vacuum.protect_streams")
    for name, texts in (("protect_streams", globs), ("allow_stream_loss", allowed_loss)):
        if any(not text.strip() or "\0" in text for text in texts):
            raise UsageError(f"{parameter(f'vacuum.{name}')} is empty or has a NUL character")
    if not globs and (ignore_older_ms is not None or allowed_loss):
        name = "ignore_streams_older_ms" if ignore_older_ms is not None else "allow_stream_loss"
        raise UsageError(f"{parameter(f'vacuum.{name}')} needs {of}")
    if ignore_older_ms is not None and ignore_older_ms < 0:
        raise UsageError(f"{parameter('vacuum.ignore_streams_older_ms')} is negative", facts={"expected": "at least 0h"})


def _absolute(text: str) -> str:
    return text if "://" in text or text.startswith("file:") else os.path.abspath(os.path.expanduser(text))
