"""What a step costs: calls of the store, bytes read and written, and seconds. Made from the cheap facts alone.

Data files are not listed, so their number is derived from the size of the newest checkpoint and the commits after it.
"""

from __future__ import annotations

from typing import NamedTuple

from deltacli.fleet.planning.facts import TableFacts
from deltacli.fleet.policy_file.model import VacuumPolicy, ValidatePolicy
from deltacli.typing import Json

_BYTES_PER_ADD = 300
_FOOTER_BYTES = 64 << 10
_LISTED_PER_CALL = 1_000


class StoreCost(NamedTuple):
    """Seconds per call and per byte, with the parallelism of the store."""

    per_call: float
    per_byte: float


NEAR = StoreCost(2e-4, 5e-9)
FAR = StoreCost(0.04 / 16, 1e-8)
"""A disk; a remote store with 40 ms per request, 16 at once, and 100 MB per second, as in docs/performance.md."""

_FIXED_SECONDS = 0.015


class Estimate(NamedTuple):
    """Calls, bytes and seconds. `size_bytes` is None where it depends on data files whose size is not known."""

    calls: int
    size_bytes: int | None
    seconds: float

    def as_json(self) -> dict[str, Json]:
        """Return the estimate for documents."""
        return {"calls": self.calls, "sizeBytes": self.size_bytes, "seconds": round(self.seconds, 3)}


def estimate(step: str, facts: TableFacts, settings: object, cost: StoreCost) -> Estimate:
    """Return what a step of a table is expected to cost."""
    state = facts.checkpoint_bytes + facts.bytes_behind
    replay = 3 + facts.commits_behind
    live = state // _BYTES_PER_ADD
    match step:
        case "checkpoint":
            calls, size = replay + 6, 2 * state
        case "log-expire":
            calls, size = 3 * replay + 4 + facts.expirable_files, 3 * state
        case "vacuum":
            listed = 0 if isinstance(settings, VacuumPolicy) and settings.mode == "lite" else live // _LISTED_PER_CALL
            calls, size = 2 * replay + 6 + listed, facts.log_bytes
        case _:
            assert isinstance(settings, ValidatePolicy)
            return _of_check(settings, facts, live, cost)
    return _priced(calls, size, cost)


def _of_check(settings: ValidatePolicy, facts: TableFacts, live: int, cost: StoreCost) -> Estimate:
    calls, size = facts.log_files + 3, facts.log_bytes
    if settings.level != "log":
        calls += live // _LISTED_PER_CALL + 1
    if settings.level in ("footers", "data"):
        opened = round(live * settings.sample)
        calls += 2 * opened
        size += opened * _FOOTER_BYTES
    found = _priced(calls, size, cost)
    return found._replace(size_bytes=None) if settings.level == "data" else found


def _priced(calls: int, size: int, cost: StoreCost) -> Estimate:
    return Estimate(calls, size, _FIXED_SECONDS + calls * cost.per_call + size * cost.per_byte)
