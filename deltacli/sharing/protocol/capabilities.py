"""The header `delta-sharing-capabilities`: what a client understands, and what an answer has.

Keys and values are case-insensitive, unrecognized ones are ignored. Spec: Delta Sharing Capabilities Header.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deltacli.sharing.protocol.wire_errors import invalid

HEADER = "delta-sharing-capabilities"


class ResponseFormat(StrEnum):
    """The two formats of answers."""

    PARQUET = "parquet"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The formats that a client reads, in its order; the reader features it supports, in lower case; whether it expects
    `endStreamAction` as the last line.
    """

    formats: tuple[ResponseFormat, ...] = (ResponseFormat.PARQUET,)
    reader_features: frozenset[str] = frozenset()
    end_stream_action: bool = False


def parse_capabilities(header: str | None) -> Capabilities:
    """Return the capabilities of a client; without the header it reads parquet only.

    Raises WireError where it names formats, but none that exists.
    """
    values: dict[str, list[str]] = {}
    for part in (header or "").split(";"):
        key, separator, listed = part.partition("=")
        if separator:
            found = [value.strip().lower() for value in listed.split(",")]
            values.setdefault(key.strip().lower(), []).extend(value for value in found if value)
    named = values.get("responseformat", [])
    formats = tuple(dict.fromkeys(ResponseFormat(name) for name in named if name in list(ResponseFormat)))
    if named and not formats:
        raise invalid(f"responseformat={','.join(named)[:100]} is not available (expected: parquet, delta)")
    return Capabilities(
        formats or (ResponseFormat.PARQUET,),
        frozenset(values.get("readerfeatures", [])),
        values.get("includeendstreamaction", [])[-1:] == ["true"],
    )


def answer_header(chosen: ResponseFormat, *, end_stream_action: bool) -> str:
    """Return the value of the same header in an answer. Clients look for its text in lower case."""
    return f"responseformat={chosen}" + (";includeendstreamaction=true" if end_stream_action else "")
