"""The request for a repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.core.hints import parameter
from deltacli.core.request_fields import COMMIT_METADATA, Kind, option, require_word, shared
from deltacli.delta.log.commit_metadata import NO_METADATA
from deltacli.operations.recover.request import ACCEPT_COMMITS, accepted_versions
from deltacli.operations.validate.request import LevelChoice

IN_USE_MS, IN_USE = 3_600_000, "within the last hour"
"""When a commit of others means that a table is in use, also in words."""


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """Which findings of a validation to act on, and what is allowed.

    `sources` are where lost files are looked for: `versions`, or copies of the table. `accept_commits` are versions
    that a copy may bring although nothing proves that they are of this table. `accept_loss` allows steps that
    give up rows, `max_missing` is the share of the live files above which none of these is made. `allow_in_use` allows
    steps that commit or replace files although others committed lately (`IN_USE`). `quarantine` is a directory outside
    of all tables for the backup, and for rows of damaged files that can still be read.
    """

    level: str = option(
        "What to check: the log; also a listing of the table; also footers of data files; also their rows.  "
        "[default: storage]",
        "log|storage|footers|data",
        Kind.CHOICE,
        default=LevelChoice.STORAGE,
        choices=LevelChoice,
    )
    select: Sequence[str] = option(
        "Act only on these rules: globs over rule ids. Repeatable.", "A,B,…", Kind.PATTERNS, default=()
    )
    sources: Sequence[str] = option(
        "Where to look for lost files: versions that the store keeps, a copy of the table or of its log, a "
        "quarantine. Repeatable.",
        "versions|DIRECTORY|URI",
        Kind.TEXTS,
        default=(),
        spelled="--from",
    )
    accept_commits: Sequence[int] = shared(ACCEPT_COMMITS, ())
    accept_loss: bool = option("Allow steps that give up rows that no source has.", default=False)
    allow_in_use: bool = option(f"Repair although others committed {IN_USE}.", default=False)
    max_missing: float = option(
        "Refuse to give up more than this share of the live files.  [default: 10%]",
        "N%",
        Kind.SHARE,
        default=0.1,
    )
    quarantine: str | None = option(
        "Keep the backup, and the readable rows of damaged files, in this directory outside of all tables.",
        "DIRECTORY|URI",
        Kind.TEXT,
    )
    commit_metadata: Mapping[str, str] = shared(COMMIT_METADATA, NO_METADATA)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the values to one form. Raises UsageError."""
        require_word(self.level, "level", LevelChoice)
        object.__setattr__(self, "level", LevelChoice(self.level))
        for name in ("select", "sources"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(value):
                raise UsageError(f"{parameter(f'repair.{name}')} is empty, or a text", facts={"expected": "a list"})
            object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "accept_commits", accepted_versions(self.accept_commits))
        if not 0 < self.max_missing <= 1:
            raise UsageError(
                f"{parameter('repair.max_missing')} {self.max_missing} is not a share",
                facts={"expected": "more than 0, at most 1"},
            )
