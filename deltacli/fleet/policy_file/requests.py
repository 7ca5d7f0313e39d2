"""What callers of `fleet` want: which tables, and how a run works on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError, parameter


@dataclass(frozen=True, kw_only=True)
class FleetChoice:
    """The groups of a policy file to work with, and the directory of their journal.

    Attributes:
        only: The names of the groups. Empty: all groups.
        state: The directory of the journal and the leases. None: that of the policy file.
    """

    only: Sequence[str] = ()
    state: str | None = None


@dataclass(frozen=True, kw_only=True)
class FleetRunRequest(FleetChoice):
    """Which tables a run works on, and how.

    Attributes:
        jobs: The number of tables to work on at once. None: that of the policy file or of the cluster.
        time_budget_ms: The time after which no step is started. A step that is expected to end later is not
            started either. None: no limit.
        resume: True to continue the newest run if it was killed, interrupted or out of time.
        steal_leases: The reason to take tables that other runs hold; it is recorded. None: they are left alone.
        yes: True to run destructive steps where their policy has consent.
    """

    jobs: int | None = None
    time_budget_ms: int | None = None
    resume: bool = False
    steal_leases: str | None = None
    yes: bool = False

    def __post_init__(self) -> None:
        """Require a number of tables, which is at least 1."""
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"{parameter('fleet run.jobs', self.jobs)} is less than 1")
