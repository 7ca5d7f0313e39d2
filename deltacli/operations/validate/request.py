"""The request for a validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deltacli.core.errors import UsageError
from deltacli.core.hints import adding, parameter
from deltacli.core.request_fields import Kind, Option, option, require_word, shared

DEFAULT_MOST = 100

SELECT = Option(
    "Check only these rules: globs over rule ids. Repeatable.",
    "A,B,…",
    Kind.PATTERNS,
    policy="Rules to check: globs over rule ids.",
)
IGNORE = Option(
    "Skip these rules: globs over rule ids. Repeatable.",
    "A,B,…",
    Kind.PATTERNS,
    policy="Rules to skip: globs over rule ids.",
)


class LevelChoice(StrEnum):
    """What is checked of a table; each level also checks what those before it do."""

    LOG = "log"
    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"


@dataclass(frozen=True, kw_only=True)
class ValidateRequest:
    """What to check of a table, and the number of findings that are kept for each rule (0: all).

    Of the data files a share is checked (1: all), or those that may contain rows that match `where`.
    """

    level: str = option(
        "What to check: the log; also a listing of the table; also footers of data files; also their rows.  "
        "[default: log]",
        "log|storage|footers|data",
        Kind.CHOICE,
        default=LevelChoice.LOG,
        choices=LevelChoice,
        policy="Level of the check.",
    )
    sample: float = option(
        "Check only this share of the data files, such as 5%; the sample differs per version.",
        "N%",
        Kind.SHARE,
        default=1.0,
        policy="Share of the data files to open, at the levels footers and data.",
    )
    where: str | None = option(
        "Check only data files that may contain matching rows; all of their rows are checked.", "CONDITION"
    )
    select: Sequence[str] = shared(SELECT, ())
    ignore: Sequence[str] = shared(IGNORE, ())
    max_findings: int = DEFAULT_MOST

    def __post_init__(self) -> None:
        """Raise UsageError for invalid values and combinations."""
        require_word(self.level, "level", LevelChoice)
        require_limit(self.max_findings)
        object.__setattr__(self, "level", LevelChoice(self.level))
        self.require_files()

    def require_files(self) -> None:
        """Raise UsageError for limits of data files at a level that opens none."""
        if not self.limits or self.opens_files:
            return
        limit = parameter("validate.sample" if self.sample != 1 else "validate.where")
        raise UsageError(
            f"{limit} limits the data files, and {parameter('validate.level', str(self.level))} opens none",
            code="usage.sample",
            hint=adding(parameter("validate.level", "data")),
        )

    @property
    def opens_files(self) -> bool:
        return self.level in (LevelChoice.FOOTERS, LevelChoice.DATA)

    @property
    def limits(self) -> list[str]:
        """The limits of data files as the caller gave them."""
        sample = [] if self.sample == 1 else [parameter("validate.sample", f"{100 * self.sample:g}%")]
        return sample if self.where is None else [*sample, f"{parameter('validate.where')} {self.where!r}"]


def require_limit(findings: int) -> None:
    """Raise UsageError for a negative limit of findings."""
    if findings < 0:
        limit = parameter("validate.max_findings")
        raise UsageError(f"{limit} {findings} is negative", facts={"expected": "0 (all) or more"})
