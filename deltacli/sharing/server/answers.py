"""Answers with lines: their headers, and what the headers of a request ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deltacli.sharing.protocol import capabilities as wire
from deltacli.sharing.protocol.capabilities import Capabilities, ResponseFormat
from deltacli.sharing.protocol.file_lines import IdHash
from deltacli.sharing.protocol.wire_errors import invalid

VERSION_HEADER = "Delta-Table-Version"
NDJSON = "application/x-ndjson; charset=utf-8"
HASH_HEADER = "fileidhash"
HINTS_HEADER = "deltacli-hints"


@dataclass(frozen=True)
class Answer:
    """Headers and the parts of the body, and what the audit log says about it. `waits`: making the parts waits for
    other machines.
    """

    headers: Mapping[str, str]
    parts: Iterable[bytes]
    about: Mapping[str, object] = field(default_factory=dict)
    waits: bool = False


@dataclass(frozen=True)
class Wishes:
    """What the headers of a request ask for."""

    capabilities: Capabilities
    id_hash: IdHash | None = None

    def hash_for(self, form: ResponseFormat) -> IdHash:
        """Return how file ids are made."""
        return self.id_hash or IdHash(form.value)


def read_wishes(headers: Mapping[str, str]) -> Wishes:
    """Return what the headers of a request ask for. Raises WireError."""
    hash_by = headers.get(HASH_HEADER)
    if hash_by is not None and hash_by.strip().lower() not in list(IdHash):
        raise invalid(f"{HASH_HEADER} {hash_by[:50]!r} is not available (expected: parquet, delta)")
    chosen = None if hash_by is None else IdHash(hash_by.strip().lower())
    return Wishes(wire.parse_capabilities(headers.get(wire.HEADER)), chosen)


def headers_of(version: int, form: ResponseFormat, wishes: Wishes, *, note: str = "") -> dict[str, str]:
    """Return the headers of an answer with lines. `note`: what was done with hints."""
    ends = wishes.capabilities.end_stream_action
    headers = {
        "Content-Type": NDJSON,
        VERSION_HEADER: str(version),
        wire.HEADER: wire.answer_header(form, end_stream_action=ends),
    }
    if note:
        headers[HINTS_HEADER] = note.encode("ascii", "replace").decode().replace("\n", " ")[:500]
    return headers if wishes.id_hash is None else headers | {HASH_HEADER: wishes.id_hash.value}
