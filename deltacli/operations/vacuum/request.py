"""The request for a vacuum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.errors import UsageError, require_path
from deltacli.core.hints import command, parameter
from deltacli.core.patterns import pattern
from deltacli.core.request_fields import COMMIT_METADATA, Kind, option, require_word, shared
from deltacli.core.units import format_duration, parse_size
from deltacli.delta.log.commit_metadata import NO_METADATA
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.protocol.property_values import DEFAULT_DELETED_FILE_RETENTION_MS, DELETED_FILE_RETENTION
from deltacli.table.api_arguments import version_number

EXECUTING = frozenset({"log_entries", "threads", "rate", "commit_metadata", "quarantine"})
"""The fields that say how a plan is executed; the others say what is planned."""

_PERCENT = pattern(r"(\d{1,3}(?:\.\d+)?)\s*%")


class Mode(StrEnum):
    """The source of candidates: a listing of the table, or the commits that removed them."""

    FULL = "full"
    LITE = "lite"


class DeletionLimit(NamedTuple):
    """The limit of a deletion: a share of the files and of the bytes, or bytes."""

    share: float | None = None
    size_bytes: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> DeletionLimit:
        """Parse `20%` or `10GiB`. Raises UsageError."""
        if match := _PERCENT.fullmatch(text.strip()):
            share = float(match[1]) / 100
            if share <= 1:
                return cls(share=share, text=text.strip())
        elif "%" not in text:
            with suppress(UsageError):
                return cls(size_bytes=parse_size(text), text=text.strip())
        raise UsageError(
            f"{parameter('vacuum.max_delete')}: {text!r} is not a share or size",
            code="usage.size",
            facts={"expected": "20%, at most 100%, or 10GiB"},
        )


@dataclass(frozen=True, kw_only=True)
class VacuumRequest:
    """What to delete and how. Durations are milliseconds; None: the table's own, what the store prefers, or no limit.

    `allow_retention_below_ms` is the table's own retention, named to allow a shorter one. At most one of `prefix` (a
    directory below the table) and `where` (a condition on partition columns) is given. `inventory` is the path or URI
    of a listing made by the store. `log_entries`: START and END are committed, with the keys of `commit_metadata`.
    """

    retention_ms: int | None = option(
        "Age up to which files are kept, such as 14d.  "
        f"[default: {DELETED_FILE_RETENTION}, else {format_duration(DEFAULT_DELETED_FILE_RETENTION_MS)}]",
        "DURATION",
        Kind.DURATION,
        policy="Age up to which files are kept; without it the table's own property.",
    )
    allow_retention_below_ms: int | None = option(
        "Allow a retention below the table's own, whose value is given here, such as 168h.", "DURATION", Kind.DURATION
    )
    mode: str = option(
        "Source of candidates: full lists the table, lite reads removed files from commits.  [default: full]",
        "full|lite",
        Kind.CHOICE,
        default=Mode.FULL,
        choices=Mode,
        policy="Source of candidates: a listing, or the log only.",
    )
    prefix: str | None = option("Delete only below this directory of the table.", "P")
    where: str | None = option("Delete only in partitions that match: \"date < '2026-01-01'\".", "CONDITION", Kind.TEXT)
    keep_versions: Sequence[int] = option(
        "Versions to keep fully readable, whatever their age. Repeatable.",
        "A,B-C,…",
        Kind.VERSIONS,
        default=(),
    )
    protect_from: Sequence[str] = option(
        "Keep files that another table (a shallow clone) references. Repeatable.",
        "OTHER",
        Kind.TEXTS,
        default=(),
        policy="Tables, such as shallow clones, whose files are kept: URIs.",
    )
    inventory: str | None = option(
        "List of files to use instead of a listing: S3 Inventory (manifest.json), Parquet, CSV.", "FILE", Kind.TEXT
    )
    max_delete: str = option(
        "Refuse to delete more than this share of the table, or more bytes.  [default: 50%]",
        "N%|SIZE",
        Kind.LIMIT,
        default="50%",
        policy="Refuse a plan that would delete more.",
    )
    quarantine: str | None = option(
        "Copy each file to this directory outside of all tables before it is deleted.",
        "DIRECTORY|URI",
        Kind.TEXT,
        policy="Directory or URI outside of all tables that gets a copy of each file before it is deleted.",
    )
    include_foreign: bool = option("Also delete unrecognized files that are older than the retention.", default=False)
    skip_nested_tables: bool = option(
        "Skip directories that are tables of their own instead of refusing.", default=False
    )
    log_entries: bool = option("Do not commit VACUUM START and VACUUM END.", kind=Kind.OPPOSITE, default=True)
    threads: int | None = option("Number of threads that delete.", "N", Kind.COUNT)
    rate: float | None = option("Maximum files to delete per second, such as 500/s.", "N/s", Kind.RATE)
    commit_metadata: Mapping[str, str] = shared(COMMIT_METADATA, NO_METADATA)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the texts to one form. Raises UsageError, also for fields that exclude each other."""
        require_word(self.mode, "mode", Mode)
        if self.quarantine is not None and not self.quarantine.strip():
            raise UsageError(f"{parameter('vacuum.quarantine')} is empty")
        if self.prefix is not None and self.where is not None:
            raise UsageError(
                f"{parameter('vacuum.prefix')} and {parameter('vacuum.where')} exclude each other",
                facts={"instead": "a condition only"},
            )
        if min(self.retention_ms or 0, self.allow_retention_below_ms or 0) < 0:
            raise UsageError("the retention is negative", facts={"expected": "at least 0h"})
        given = [name for name in ("prefix", "where", "inventory", "include_foreign") if getattr(self, name)]
        if self.mode == Mode.LITE and given:
            refused, lite = parameter(f"vacuum.{given[0]}"), parameter("vacuum.mode", "lite")
            raise UsageError(
                f"{refused} cannot be combined with {lite}, which does not list the table",
                hint=command("vacuum", mode="full", dry_run=True),
            )
        settled = {
            "mode": Mode(self.mode),
            "prefix": None if self.prefix is None else _directory(self.prefix),
            "keep_versions": tuple(version_number(version, "keep_versions") for version in self.keep_versions),
            "protect_from": tuple(self.protect_from),
            "max_delete": DeletionLimit.parse(self.max_delete).text,
            "commit_metadata": dict(self.commit_metadata),  # a proxy cannot be sent to executors
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)


def _directory(prefix: str) -> str:
    """Return a directory below the table, as spelled in a listing. Raises UsageError."""
    require_path(prefix, parameter("vacuum.prefix"))
    parts = [part for part in prefix.split("/") if part not in ("", ".")]
    if prefix.startswith("/") or "://" in prefix or ".." in parts or not parts:
        raise UsageError(
            f"{parameter('vacuum.prefix')} {prefix} is not a directory below the table",
            facts={"expected": "date=2026-01-01"},
        )
    if parts[0] == LOG_DIRECTORY:
        raise UsageError(
            f"{parameter('vacuum.prefix')} {prefix} is the log, which vacuum does not change",
            hint=command("log expire"),
        )
    return "/".join(parts)
