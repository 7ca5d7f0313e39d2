"""What a repair would do, as data: a step for each finding that it acts on, and why it does not act on others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.changing.plan import Amount
from deltacli.core.errors import Refusal, Refused, StorageFailed
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.delta.log.log_path import Place
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.storage import Failed

if TYPE_CHECKING:
    from deltacli.changing.basis import Basis
    from deltacli.changing.gate import Gate
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.operations.recover.sources import Journal
    from deltacli.operations.repair.backup import Backup
    from deltacli.operations.repair.request import RepairRequest
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class NoSource(str):
    """Why a finding is left that only a source can repair, where no source was named."""

    __slots__ = ()


class Undetermined(str):
    """Why a finding is left that only a source can repair, because the rest of the log does not determine it."""

    __slots__ = ()


class StepState(StrEnum):
    """What became of a step. `skipped`: not tried, because one before it failed or the rest of the table changed."""

    PLANNED = "planned"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"


class NotNeededError(Exception):
    """Why a change was not made: what it is about was put right, or replaced by somebody else, since the plan."""


class Work(Protocol):
    """One change, for which several findings may ask."""

    @property
    def name(self) -> str:
        """Return what is changed, in words; the same for the same change."""

    @property
    def is_sensitive(self) -> bool:
        """Return True for a change that a concurrent writer could notice: it commits, or replaces what others made."""

    def run(self, run: Run) -> int | None:
        """Make the change, after what it replaces was kept, and return the version that it committed, if any.

        Raises NotNeededError where nothing is left to do, and what storage and commits raise. Running it again is
        harmless.
        """


@dataclass(eq=False)
class Run:
    """The execution of plans: their gate, the backup, and the files that were put in their places."""

    gate: Gate[RepairPlan, Any]  # Any: the outcome
    request: RepairRequest
    backup: Backup
    put: Journal
    unneeded: dict[str, str] = field(default_factory=dict)
    """Key of a place -> why a change that was made left it out."""

    @property
    def table(self) -> TableHandle:
        return self.gate.table

    def commit(self, make: Callable[[Snapshot], CommitRequest | None]) -> int | None:
        """Commit what is made for the newest version, and return the version; None where nothing is left to do."""
        from deltacli.changing.commit import Committed

        done = self.gate.commit_one(make, commit_metadata=self.request.commit_metadata)
        return done.version if isinstance(done, Committed) else None

    def move(self, paths: Sequence[str]) -> None:
        """Keep files, then delete them from the table. Raises StorageFailed."""
        self.backup.keep(paths)
        for path, outcome in self.gate.store.delete_many(paths):
            if isinstance(outcome, Failed):
                raise StorageFailed(f"{path} could not be moved to the backup: {outcome.reason}")
            self.gate.has_begun = True


class Step(NamedTuple):
    """A step for one finding. `work` is the number of the change in the plan; `what` says in words what is done."""

    rule: str
    place: Place
    action: StepKind
    work: int
    what: str
    source: str | None = None
    loses: Amount | None = None
    state: StepState = StepState.PLANNED
    reason: str | None = None
    """Why it was refused, skipped, or failed."""
    committed_version: int | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the step as in the document `deltacli.repair`."""
        return {
            "rule": self.rule,
            "location": location_of(self.place),
            "action": self.action.value,
            "what": self.what,
            "source": self.source,
            "loses": None if self.loses is None else self.loses.as_json(files="files", rows="rows", bytes="size_bytes"),
            "state": self.state.value,
            "reason": self.reason,
            "committedVersion": self.committed_version,
        }


class Unrepaired(NamedTuple):
    """A finding that a repair does not act on, and why."""

    rule: str
    severity: Severity
    place: Place
    reason: str

    def as_json(self) -> dict[str, Json]:
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "location": location_of(self.place),
            "action": "none",
            "reason": self.reason,
        }


@short_repr("version", "planned", "unrepaired", "refusals", "is_partial")
@dataclass(frozen=True, eq=False, repr=False)
class RepairPlan:
    """The changes in the order in which they are made, and the steps that ask for them.

    `is_partial`: more is planned once these steps are done, because the rest cannot be judged before. `refusals` stop
    the steps that are `refused`.
    """

    basis: Basis
    request: RepairRequest
    version: int | None
    table_id: str | None
    steps: tuple[Step, ...]
    work: tuple[Work, ...]
    unrepaired: tuple[Unrepaired, ...]
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    is_partial: bool = False
    backup: str | None = None
    """Where replaced files are kept; None where nothing is replaced."""

    @property
    def table(self) -> TableHandle:
        """The table, bound to the directory where it was planned."""
        return self.basis.table

    @property
    def is_noop(self) -> bool:
        """Return True where no step would be made."""
        return not self.planned

    def objection(self) -> Refused | None:
        """Return the error for its refusals, which does not stop the steps that none of them is about."""
        return Refused.by(self.refusals) if self.refusals and (self.is_noop or self.request.dry_run) else None

    def effects(self) -> Iterator[str]:
        """Yield what the planned steps do."""
        yield from (f"{step.action}: {step.what}" for step in self.planned)

    @property
    def planned(self) -> tuple[Step, ...]:
        """Return the steps that would be made."""
        return tuple(step for step in self.steps if step.state is StepState.PLANNED)

    @property
    def errors(self) -> tuple[Unrepaired, ...]:
        """Return the errors that remain."""
        return tuple(one for one in self.unrepaired if one.severity is Severity.ERROR)

    @property
    def lacks_source(self) -> bool:
        """Whether errors remain for lack of a source."""
        lacking = NoSource if self.request.sources else (NoSource, Undetermined)
        return any(isinstance(one.reason, lacking) for one in self.errors)

    @property
    def loss(self) -> Amount:
        """Return what the planned steps give up; a file is counted once."""
        of_work = {(step.work, step.place.key): step.loses for step in self.planned if step.loses is not None}
        return sum(of_work.values(), Amount(0, 0, 0))

    def as_json(self, *, dry_run: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.repair`."""
        return {
            "version": self.version,
            "level": str(self.request.level),
            "steps": [step.as_json() for step in self.steps],
            "unrepaired": [one.as_json() for one in self.unrepaired],
            "more": self.is_partial,
            "committedVersions": [],
            "backup": self.backup,
            "notes": list(self.notes),
            "refusals": [one.as_json() for one in self.refusals],
            "dryRun": dry_run,
        }


class Planned(NamedTuple):
    """What one family of findings asks for; `work` of its steps counts from 0."""

    steps: Sequence[Step] = ()
    work: Sequence[Work] = ()
    unrepaired: Sequence[Unrepaired] = ()
    notes: Sequence[str] = ()
    refusals: Sequence[Refusal] = ()


def joined(parts: Iterable[Planned]) -> Planned:
    """Return several families together, in the order in which their work is done."""
    steps: list[Step] = []
    work: list[Work] = []
    unrepaired: list[Unrepaired] = []
    notes: list[str] = []
    refusals: list[Refusal] = []
    for part in parts:
        steps += [step._replace(work=step.work + len(work)) for step in part.steps]
        work += part.work
        unrepaired += part.unrepaired
        notes += part.notes
        refusals += part.refusals
    return Planned(steps, work, unrepaired, notes, refusals)


def left(finding: Finding, reason: str) -> Unrepaired:
    """Return a finding that is not acted on."""
    return Unrepaired(finding.rule.id, finding.severity, finding.place, reason)


def location_of(place: Place) -> dict[str, Json]:
    """Return a place as in documents."""
    return {name: value for name, value in place._asdict().items() if value is not None}
