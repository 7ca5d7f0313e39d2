"""The possible forms of a checkpoint, those that a table allows, and their file names.

Spec: Checkpoints; V2 Spec; Allowed combinations for new checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from deltacli.delta.log.log_path import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.errors import Refused
from deltacli.hints import command

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
