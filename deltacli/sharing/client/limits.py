"""How much of an answer the client accepts, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """Bytes, numbers and seconds. An answer above a limit is an error that names it."""

    line_bytes: int = 32 << 20
    """One line of an answer: an action with its statistics."""
    document_bytes: int = 16 << 20
    """A JSON document, such as a page of a list."""
    answer_bytes: int = 64 << 30
    """All lines of an answer."""
    error_bytes: int = 64 << 10
    """The body of an error; more is not read."""
    pages: int = 100_000
    """Pages of one list or query."""
    files: int = 20_000_000
    """Files of one version."""
    items: int = 1_000_000
    """Shares, schemas or tables of one list."""
    connect_seconds: float = 10.0
    read_seconds: float = 120.0
    """Without a byte."""
    head_seconds: float = 120.0
    """For the status and the headers of an answer, all interim answers included; and for each part of the framing of
    its body: a line with the size of a chunk, the trailers."""
    pace_seconds: float = 60.0
    pace_bytes: int = 1_024
    """Least bytes that arrive in `pace_seconds`."""
    redirects: int = 3
    """All of them to the same origin."""


DEFAULTS = AnswerLimits()
