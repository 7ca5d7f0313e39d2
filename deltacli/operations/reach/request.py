"""The request for the reach of a table."""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.core.request_fields import Kind, option
from deltacli.table.api_arguments import optional_count


@dataclass(frozen=True, kw_only=True)
class ReachRequest:
    """What is asked: with `retention_ms` also what a log expiry and a vacuum with this retention would delete."""

    retention_ms: int | None = option(
        "Show as well what a retention of the log and of removed files, such as 7d, would free and cost.",
        "DURATION",
        Kind.DURATION,
    )

    def __post_init__(self) -> None:
        """Raise UsageError for what is no duration."""
        object.__setattr__(self, "retention_ms", optional_count(self.retention_ms, "retention_ms"))
