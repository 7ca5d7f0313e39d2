"""The possible forms of a checkpoint, those that a table allows, their file names, and the tags of
`checkpointMetadata`, which let a reader plan without the footers of the sidecars.

The protocol leaves tags to writers. Their names and forms are those of the reference implementation. Spec: Checkpoints;
V2 Spec; Allowed combinations for new checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from deltacli.core.errors import Refused
from deltacli.core.hints import command
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.delta.checkpoint.last_checkpoint_content import short_schema
from deltacli.delta.log.log_path import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.delta.schema.to_arrow import table_schema

if TYPE_CHECKING:
    import pyarrow

CHECKPOINT_POLICY = "delta.checkpointPolicy"

SEVERAL_FORMS = "checkpoint.several-forms"
"""The rule that reports V1 checkpoints of one version in several forms: classic, or different numbers of parts."""

READERS_THAT_FAIL = "DuckDB 1.5.5 and other readers built on delta-kernel-rs, in about half of their starts"
"Measured: such a reader picks any of the forms and fails if `_last_checkpoint` has a different number of parts."


class Layout(StrEnum):
    """The content of a checkpoint."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2 = "v2"

    @property
    def file_kind(self) -> LogFileKind:
        """The form recorded in its file names."""
        return {
            Layout.CLASSIC: LogFileKind.CLASSIC_CHECKPOINT,
            Layout.MULTI_PART: LogFileKind.MULTI_PART_CHECKPOINT,
            Layout.V2: LogFileKind.UUID_CHECKPOINT,
        }[self]


class TopFile(StrEnum):
    """The form of the file that names the sidecars of a V2 checkpoint."""

    JSON = "json"
    PARQUET = "parquet"


def choose_layout(protocol: Protocol, properties: Mapping[str, str], asked: Layout | None) -> Layout:
    """Return the requested layout, or the one of the table's policy. Raises Refused for a layout that the table does
    not allow.
    """
    has_v2 = "v2Checkpoint" in protocol.supported_features
    if asked is None:
        wants_v2 = has_v2 and str(properties.get(CHECKPOINT_POLICY) or "").strip().lower() == "v2"
        return Layout.V2 if wants_v2 else Layout.CLASSIC
    if asked is Layout.V2 and not has_v2:
        raise Refused(
            "a V2 checkpoint requires the feature v2Checkpoint, which this table does not have",
            code="checkpoint.v2-without-feature",
            facts={
                "protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
                "to add it": command("features add", "v2Checkpoint") or "add the feature",
            },
            hint=command("checkpoint", layout="classic"),
        )
    if asked is Layout.MULTI_PART and has_v2:
        raise Refused(
            "a table with the feature v2Checkpoint must not have multi-part checkpoints",
            code="checkpoint.multipart-forbidden",
            hint=command("checkpoint", layout="v2"),
        )
    return asked


def classic_path(version: int) -> str:
    """Below the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def part_path(version: int, part: int, parts: int) -> str:
    """Below the table; parts count from 1."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def top_path(version: int, unique: str, form: TopFile) -> str:
    """The top-level file of a V2 checkpoint, below the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{unique}.{form}"


def sidecar_name(version: int, number: int, unique: str) -> str:
    """Return the name of a sidecar in its directory, numbered as other writers do."""
    return f"{version:020d}.checkpoint.{number:010d}.{unique}.parquet"


def is_sidecar_of(name: str, version: int, unique: str) -> bool:
    """Return True for a name by `sidecar_name` whose unique part is this one, or begins with it and a dot."""
    found, _, rest = name.partition(".checkpoint.")
    _, _, rest = rest.partition(".")
    return found == f"{version:020d}" and rest.startswith(f"{unique}.") and rest.endswith(".parquet")


def sidecar_path(name: str) -> str:
    """Below the table."""
    return f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{name}"


SIDECAR_ACTIONS = "sidecarNumActions"
SIDECAR_BYTES = "sidecarSizeInBytes"
ADDS = "numOfAddFiles"
SIDECAR_SCHEMA = "sidecarFileSchema"


def metadata_tags(actions: Mapping[str, int], size_bytes: int, schema: pyarrow.Schema | None) -> dict[str, str]:
    """Return the tags of a checkpoint whose sidecars have these actions of each kind, total size and schema.

    The schema is left out if there are no sidecars, and if it is too long.
    """
    text = None if schema is None else short_schema(table_schema(schema))
    return {
        SIDECAR_ACTIONS: str(sum(actions.values())),
        SIDECAR_BYTES: str(size_bytes),
        ADDS: str(actions.get("add", 0)),
        **({} if text is None else {SIDECAR_SCHEMA: text}),
    }


def schema_difference(text: str, schema: pyarrow.Schema) -> tuple[str, str] | None:
    """Return how the schema in a tag differs from the one of a sidecar, each in words; None where they are equal.

    Names the first column that differs. The order of columns, whether they may be null, and the kind of timestamp are
    not compared, because a file cannot express all of it; nor are columns of nulls, and what a variant consists of.
    """
    found = dict(_columns(table_schema(schema), ""))
    try:
        recorded = dict(_columns(json.loads(text), ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no schema", plural(len(found), "column")
    variants = tuple(f"{path}." for path, kind in recorded.items() if kind == "variant")
    for path in (*recorded, *found):
        one, other = recorded.get(path), found.get(path)
        if one not in (other, "variant") and other != "null" and not path.startswith(variants):
            return _described(path, one), _described(path, other)
    return None


def _described(path: str, kind: str | None) -> str:
    return f"no {path}" if kind is None else f"{path}: {kind}"


def _columns(kind: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every column, and of the elements of maps and arrays."""
    if isinstance(kind, str):
        yield path, "timestamp" if kind == "timestamp_ntz" else kind
        return
    match kind["type"]:
        case "struct":
            for field in kind["fields"]:
                yield from _columns(field["type"], f"{path}.{field['name']}" if path else str(field["name"]))
        case "map":
            yield from _columns(kind["keyType"], f"{path}.key")
            yield from _columns(kind["valueType"], f"{path}.value")
        case "array":
            yield from _columns(kind["elementType"], f"{path}.element")
        case other:
            raise ValueError(other)
