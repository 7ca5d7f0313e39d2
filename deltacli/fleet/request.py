"""The request for a run of a fleet, and the tables that any command on a fleet is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.core.hints import parameter
from deltacli.core.request_fields import Kind, option

DEFAULT_JOBS = 4
DEFAULT_STATE = "fleet-state"


@dataclass(frozen=True, kw_only=True)
class FleetChoice:
    """The groups of a policy file (none: all of them), and the directory of their journal."""

    only: Sequence[str] = option("Only the tables of this group. Repeatable.", "GROUP", Kind.TEXTS, default=())
    state: str | None = option(
        f"Directory of the journal and the leases.  [default: state of the policy file, else {DEFAULT_STATE}]", "DIR"
    )


@dataclass(frozen=True, kw_only=True)
class FleetRunRequest(FleetChoice):
    """Which tables are worked on, and how. Without `jobs` the policy file or the cluster says how many at once. After
    `time_budget_ms` no step is started, and none before it that is expected to end later. With `yes`, destructive
    steps run where their policy has consent.
    """

    jobs: int | None = option(
        f"Tables to work on at once.  [default: jobs of the policy file, else {DEFAULT_JOBS}]", "N"
    )
    time_budget_ms: int | None = option(
        "Start no step after this time, nor one that is expected to end later.", "DURATION", Kind.DURATION
    )
    resume: bool = option("Continue the newest run if it was killed, interrupted or out of time.", default=False)
    steal_leases: str | None = option("Take tables that other runs hold; the reason is recorded.", "REASON")
    yes: bool = option("Run destructive steps where their policy has consent = true.", default=False)

    def __post_init__(self) -> None:
        """Raise UsageError for less than one table at once."""
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"{parameter('fleet run.jobs', self.jobs)} is less than 1")
