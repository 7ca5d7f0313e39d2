"""What is due for a table, and why: a function of its cheap facts, its policy and its past. Also what each step costs.

The facts are one listing of the log and its checkpoint hint, no commit and no checkpoint. Data files are not listed, so
their number is derived from the size of the newest checkpoint and the commits after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import Json
from deltacli.core.units import format_age, format_duration, format_size, format_timestamp, plural
from deltacli.delta.checkpoint.last_checkpoint_content import Hint
from deltacli.delta.log.segment import choose_segment, read_listing
from deltacli.delta.protocol.property_values import DEFAULT_LOG_RETENTION_MS, log_cutoff_ms
from deltacli.fleet.policy_file.model import (
    DESTRUCTIVE,
    CheckpointPolicy,
    ExpirePolicy,
    OptimizePolicy,
    Policy,
    VacuumPolicy,
    ValidatePolicy,
)
from deltacli.rules.framework.risks import LOST
from deltacli.table.find_log import find_hint, list_log_files

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a log, as far as its listing shows it. Sizes are bytes; versions are -1 where there is none."""

    version: int
    committed_ms: int
    """Modification time of the newest commit, or of the checkpoint where the commit is missing."""
    log_files: int
    log_bytes: int
    checkpoint: int
    """Version of the newest complete checkpoint."""
    checkpoint_ms: int
    checkpoint_bytes: int
    commits_behind: int
    bytes_behind: int
    hint: int
    """Version in `_last_checkpoint`; -1 where the file is missing or invalid."""
    behind_since_ms: int
    """Modification time of the oldest commit that the checkpoint does not contain; 0 where there is none."""
    expirable_files: int
    expirable_bytes: int
    """Versioned files before the newest checkpoint that is older than the cutoff."""

    def as_json(self) -> dict[str, Json]:
        """Return the facts for documents. What does not exist is left out."""
        found: dict[str, Json] = {
            "version": self.version,
            "committedMs": self.committed_ms,
            "committed": format_timestamp(self.committed_ms),
            "logFiles": self.log_files,
            "logBytes": self.log_bytes,
            "commitsBehind": self.commits_behind,
            "bytesBehind": self.bytes_behind,
            "expirableFiles": self.expirable_files,
            "expirableBytes": self.expirable_bytes,
        }
        if self.behind_since_ms:
            found["behindSinceMs"] = self.behind_since_ms
        if self.checkpoint >= 0:
            found |= {"checkpointVersion": self.checkpoint, "checkpointMs": self.checkpoint_ms}
        return found if self.hint < 0 else found | {"hintVersion": self.hint}


def read_facts(store: ReadStorage, at: str, cutoff_ms: int) -> TableFacts:
    """Return the facts of the table in a directory of a store: two calls, and one more per 1,000 files of its log.

    Raises NotATable, LogIncomplete and CommitCorrupt where the listing shows that the newest version cannot be rebuilt,
    and StorageFailed.
    """
    files = list_log_files(store, at)
    listing = read_listing(files)
    segment = choose_segment(listing)
    for file in segment.commits:
        if not file.size_bytes:
            raise CommitCorrupt(f"commit {file.version} is empty", code="commit.empty", facts={"file": file.name})
    start = segment.checkpoint
    newest = listing.commits.get(segment.version) or (start.files[0] if start else files[-1])
    boundary = max(
        (found.version for found in listing.checkpoints if max(one.modified_ms for one in found.files) <= cutoff_ms),
        default=-1,
    )
    hint = find_hint(store, at)
    expirable = [file for file in files if 0 <= file.version < boundary]
    return TableFacts(
        version=segment.version,
        committed_ms=newest.modified_ms,
        log_files=len(files),
        log_bytes=sum(file.size_bytes for file in files),
        checkpoint=start.version if start else -1,
        checkpoint_ms=max(file.modified_ms for file in start.files) if start else 0,
        checkpoint_bytes=sum(file.size_bytes for file in start.files) if start else 0,
        commits_behind=len(segment.commits),
        bytes_behind=sum(file.size_bytes for file in segment.commits),
        behind_since_ms=segment.commits[0].modified_ms if segment.commits else 0,
        hint=hint.version if isinstance(hint, Hint) else -1,
        expirable_files=len(expirable),
        expirable_bytes=sum(file.size_bytes for file in expirable),
    )


_BYTES_PER_ADD = 300
_FOOTER_BYTES = 64 << 10
_LISTED_PER_CALL = 1_000


class _StoreCost(NamedTuple):
    """Seconds per call and per byte, with the parallelism of the store."""

    per_call: float
    per_byte: float


NEAR = _StoreCost(2e-4, 5e-9)
FAR = _StoreCost(0.04 / 16, 1e-8)
"""A disk; a remote store with 40 ms per request, 16 at once, and 100 MB per second, as in docs/performance.md."""

_FIXED_SECONDS = 0.015


class _Estimate(NamedTuple):
    """Calls, bytes and seconds. `size_bytes` is None where it depends on data files whose size is not known."""

    calls: int
    size_bytes: int | None
    seconds: float

    def as_json(self) -> dict[str, Json]:
        return {"calls": self.calls, "sizeBytes": self.size_bytes, "seconds": round(self.seconds, 3)}


def estimate(step: str, facts: TableFacts, settings: object, cost: _StoreCost) -> _Estimate:
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
        case "optimize":
            return _priced(2 * replay + 6, state, cost)._replace(size_bytes=None)
        case _:
            assert isinstance(settings, ValidatePolicy)
            return _of_check(settings, facts, live, cost)
    return _priced(calls, size, cost)


def _of_check(settings: ValidatePolicy, facts: TableFacts, live: int, cost: _StoreCost) -> _Estimate:
    calls, size = facts.log_files + 3, facts.log_bytes
    if settings.level != "log":
        calls += live // _LISTED_PER_CALL + 1
    if settings.level in ("footers", "data"):
        opened = round(live * settings.sample)
        calls += 2 * opened
        size += opened * _FOOTER_BYTES
    found = _priced(calls, size, cost)
    return found._replace(size_bytes=None) if settings.level == "data" else found


def _priced(calls: int, size: int, cost: _StoreCost) -> _Estimate:
    return _Estimate(calls, size, _FIXED_SECONDS + calls * cost.per_call + size * cost.per_byte)


ORDER = ("validate", "optimize", "checkpoint", "log-expire", "vacuum")
"""The order of the steps of a table: what checks comes first, what deletes last."""


NEVER_MS = -1
"""The time of a step that was tried and never done."""


class LastRun(NamedTuple):
    """When a step of a table was last done; `has_findings`: a validation that failed, `has_lost`: because of rows or
    files that are lost or damaged. `tried`: when a later try ended without doing it, and in which state.
    """

    timestamp_ms: int
    has_findings: bool = False
    has_lost: bool = False
    tried: tuple[int, str] | None = None

    @classmethod
    def of(cls, timestamp_ms: int, state: str, code: str | None) -> LastRun:
        """Return a run that ended in a state; `code` is the rule of the worst finding."""
        return cls(timestamp_ms, state == "findings", state == "findings" and code in LOST)


Past = Mapping[str, LastRun]
"""Step -> its last run; steps that never ran are missing."""

NO_PAST: Past = MappingProxyType({})


class Due(NamedTuple):
    """Why a step is due. `urgency` is how far its limit is exceeded: 1 is just due, 2 is twice the limit."""

    reason: str
    urgency: float


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that is due."""

    kind: str
    reason: str
    urgency: float
    estimate: _Estimate
    consent: bool = True
    """False where the step deletes files and its policy does not allow that."""

    @property
    def is_destructive(self) -> bool:
        return self.kind in DESTRUCTIVE

    def as_json(self) -> dict[str, Json]:
        """Return the step for documents."""
        found = {"kind": self.kind, "reason": self.reason, "urgency": round(self.urgency, 3)}
        if self.is_destructive:
            found["consent"] = self.consent
        return found | {"destructive": self.is_destructive, "estimate": self.estimate.as_json()}


def plan_steps(facts: TableFacts, policy: Policy, past: Past, now_ms: int, cost: _StoreCost) -> tuple[PlannedStep, ...]:
    """Return the steps that are due, in the order in which they are done."""
    steps = []
    for kind in [kind for kind in ORDER if kind in policy.steps]:
        settings = policy.steps[kind]
        due = _JUDGES[kind](settings, facts, past.get(kind), now_ms)
        if due is not None:
            costs = estimate(kind, facts, settings, cost)
            steps.append(PlannedStep(kind, due.reason, due.urgency, costs, getattr(settings, "consent", True)))
    return tuple(steps)


def expiry_cutoff_ms(policy: Policy, now_ms: int) -> int:
    """Return the time before which log files may expire, as the listing is judged: by the policy's retention, else by
    the default of tables.
    """
    settings = policy.steps.get("log-expire")
    own = settings.retention_ms if isinstance(settings, ExpirePolicy) else None
    return log_cutoff_ms(now_ms, DEFAULT_LOG_RETENTION_MS if own is None else own)


def _checkpoint(settings: CheckpointPolicy, facts: TableFacts, _: LastRun | None, _now: int) -> Due | None:
    commits, size = facts.commits_behind, facts.bytes_behind
    since = f"since the checkpoint of version {facts.checkpoint}" if facts.checkpoint >= 0 else "without a checkpoint"
    found = []
    if commits >= settings.commits:
        found.append(
            Due(f"{plural(commits, 'commit')} {since} (limit {settings.commits:,})", commits / max(settings.commits, 1))
        )
    if settings.log_bytes is not None and size >= settings.log_bytes:
        limit = format_size(settings.log_bytes)
        found.append(Due(f"{format_size(size)} of commits {since} (limit {limit})", size / max(settings.log_bytes, 1)))
    if not found and facts.hint < facts.checkpoint and commits:
        named = f"names version {facts.hint}" if facts.hint >= 0 else "is missing or invalid"
        found.append(Due(f"_last_checkpoint {named}, and the newest checkpoint is {facts.checkpoint}", 1.0))
    return max(found, key=lambda due: due.urgency, default=None)


def _log_expire(settings: ExpirePolicy, facts: TableFacts, last: LastRun | None, now_ms: int) -> Due | None:
    due = _scheduled(settings, facts, last, now_ms)
    if due is None or not facts.expirable_files:
        return None
    what = f"{plural(facts.expirable_files, 'log file')} ({format_size(facts.expirable_bytes)}) before the retention"
    return Due(f"{what}; {due.reason}", due.urgency)


def _scheduled(settings: Any, _: TableFacts, last: LastRun | None, now_ms: int) -> Due | None:  # Any: has `every`
    every = format_duration(settings.every)
    if last is None:
        return Due(f"never done (every {every})", 1.0)
    tried = ""
    if last.tried is not None:
        tried_ms, state = last.tried
        tried = f", {'partly done' if state == 'partly' else state} {format_age(tried_ms, now_ms)}"
    if last.timestamp_ms == NEVER_MS:
        return Due(f"never done{tried} (every {every})", 1.0)
    if last.has_findings:
        return Due(f"findings {format_age(last.timestamp_ms, now_ms)}{tried}", 1.0)
    elapsed = now_ms - last.timestamp_ms
    if elapsed < 0:
        return Due(f"the last time is in the future (every {every})", 1.0)
    if elapsed < settings.every:
        return None
    urgency = elapsed / settings.every if settings.every else 1.0
    return Due(f"done {format_age(last.timestamp_ms, now_ms)}{tried} (every {every})", urgency)


def _optimize(settings: OptimizePolicy, facts: TableFacts, last: LastRun | None, now_ms: int) -> Due | None:
    is_closed = settings.window is not None and not settings.window.left_ms(now_ms)
    return None if is_closed else _scheduled(settings, facts, last, now_ms)


_JUDGES: Mapping[str, Callable[[Any, TableFacts, LastRun | None, int], Due | None]] = {  # Any: settings of the step
    "checkpoint": _checkpoint,
    "log-expire": _log_expire,
    "vacuum": _scheduled,
    "validate": _scheduled,
    "optimize": _optimize,
}
