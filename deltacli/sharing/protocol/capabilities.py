"""What a server reads from the header `delta-sharing-capabilities`, which `client/table_requests.py` makes, and what a
client must support to read the files of a table, which decides on the format of answers.

Keys and values of the header are case-insensitive, unrecognized ones are ignored. Features that concern only the log or
writers are of no concern to recipients: they see neither. A feature that a table supports but does not use does not
count either, so more clients can read the table. Spec: Delta Sharing Capabilities Header; Table Features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.feature_use import OF_THE_LOG, used_features
from deltacli.delta.protocol.features import FEATURES, FeatureKind, stable_name
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.sharing.protocol.wire_errors import invalid, unsupported

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


@dataclass(frozen=True, slots=True)
class ReadingNeeds:
    """Reader features that are used, by their stable names, sorted; and why the parquet format cannot express the
    table, empty if it can.
    """

    features: tuple[str, ...]
    not_in_parquet: tuple[str, ...]

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
        lacking = [name for name in self.features if name.lower() not in _of_client(client)]
        if lacking:
            raise unsupported(
                f"the table {table} uses {', '.join(lacking)}, which the client does not list in readerfeatures; use a "
                f"client that supports it (header delta-sharing-capabilities: responseformat=delta;readerfeatures="
                f"{','.join(name.lower() for name in self.features)})"
            )
        return ResponseFormat.DELTA


def _of_client(client: Capabilities) -> frozenset[str]:
    """Return the features of a client by their stable names, in lower case."""
    known = {name.lower(): stable_name(name).lower() for name in FEATURES}
    return frozenset(known.get(name, name) for name in client.reader_features)


def find_needs(config: TableConfiguration, *, has_vectors: bool) -> ReadingNeeds:
    """Return what reading the files of a version needs."""
    return ReadingNeeds(*used_features(config, has_vectors=has_vectors))


def handed_out_protocol(protocol: Protocol, raw: Mapping[str, Any], needs: ReadingNeeds) -> dict[str, Any]:
    """Return the protocol action for clients, with the reader features that they need only.

    It is the original where nothing has to be left out.
    """
    implied = ("columnMapping",) if protocol.min_reader_version == 2 else ()
    original = protocol.reader_features if protocol.reader_features is not None else implied
    needed = [name for name in original if stable_name(name) in needs.features]
    needed += [name for name in needs.features if name not in {stable_name(found) for found in needed}]
    unwanted = {*(protocol.writer_features or ())} & OF_THE_LOG
    is_minimal = needed or protocol.min_reader_version == 1
    if set(needed) == set(original) and is_minimal and not unwanted:
        return dict(raw)
    own = [name for name in protocol.writer_features or () if _is_writers(name) and name not in unwanted]
    document: dict[str, Any] = {"minReaderVersion": 3 if needed else 1}
    if needed or protocol.writer_features is not None:
        document |= {"minWriterVersion": 7, "writerFeatures": sorted({*own, *needed})}
    else:
        document["minWriterVersion"] = min(protocol.min_writer_version, 4)  # 5 would imply column mapping
    return document | ({"readerFeatures": sorted(needed)} if needed else {})


def _is_writers(name: str) -> bool:
    return name not in FEATURES or FEATURES[name].kind is FeatureKind.WRITER
