"""The request for a restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from deltacli.core.errors import UsageError
from deltacli.core.hints import command, parameter
from deltacli.core.request_fields import COMMIT_METADATA, Kind, option, shared
from deltacli.delta.log.commit_metadata import NO_METADATA
from deltacli.table.api_arguments import moment_ms, version_number

EXECUTING = frozenset({"commit_metadata"})
"""The fields that say how a plan is executed; the others say what is planned."""


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """The version to restore: its number, or a time at which it was the newest, as for `Table.snapshot`.

    `where` is a condition on partition columns. `sources` are where files are looked for that are missing or damaged,
    as for an undelete. With `trust_listing` no footer of a data file is read, with `allow_removals` files of a table
    with `delta.appendOnly` are removed.
    """

    version: int | None = None
    timestamp: datetime | date | None = None
    timestamp_ms: int | None = None
    where: str | None = option("Restore only partitions that match: \"date >= '2026-01-01'\".", "CONDITION", Kind.TEXT)
    sources: Sequence[str] = option(
        "Where to look for missing files: versions that the store keeps, or a copy of the table. Repeatable.",
        "versions|DIRECTORY|URI",
        Kind.TEXTS,
        default=(),
        spelled="--from",
    )
    trust_listing: bool = option("Do not read the footers of files that come back, only their sizes.", default=False)
    allow_removals: bool = option("Remove files also where delta.appendOnly is true.", default=False)
    commit_metadata: Mapping[str, str] = shared(COMMIT_METADATA, NO_METADATA)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError unless there is one target."""
        if isinstance(self.sources, str) or not all(self.sources):
            name = parameter("restore.sources")
            raise UsageError(f"{name} is empty, or a text", facts={"expected": "a list of texts"})
        object.__setattr__(self, "sources", tuple(self.sources))
        given = [name for name in ("version", "timestamp", "timestamp_ms") if getattr(self, name) is not None]
        if len(given) != 1:
            names = " and ".join(parameter(f"restore.{name}") for name in ("version", "timestamp"))
            raise UsageError(
                f"{names} exclude each other" if given else "the version to restore is missing",
                facts={"expected": f"{names.replace(' and ', ' or ')}"},
                hint=None if given else command("history"),
            )
        if self.version is not None and version_number(self.version, "version") < 0:
            raise UsageError(f"{parameter('restore.version')} {self.version} is negative")
        if self.timestamp is not None:
            object.__setattr__(self, "timestamp_ms", moment_ms(self.timestamp, "timestamp"))
            object.__setattr__(self, "timestamp", None)
