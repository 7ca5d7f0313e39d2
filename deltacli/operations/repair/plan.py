"""The request for a repair, and what it would do, as data, also saved: a step for each finding that it acts on.

A plan is made again before it is executed, and must ask for no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.plan import TableHandleMixin
from deltacli.changing.recorded_fields import digest_content, validate_uri
from deltacli.core.documents import dumps
from deltacli.core.errors import (
    NOTHING_CHANGED,
    Refusal,
    Refused,
    StorageFailed,
    Unreadable,
    UsageError,
    command,
    parameter,
)
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.core.units import require_fraction
from deltacli.delta.log.segment import Place
from deltacli.operations.recover.plan import accepted_versions
from deltacli.operations.validate.findings import LevelChoice
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.storage import Failed, is_address_of
from deltacli.storage.output_file import open_replacement
from deltacli.table.api_arguments import require_known_word, require_version

if TYPE_CHECKING:
    from deltacli.changing.base_version import BaseVersion
    from deltacli.changing.execution import ChangeExecution
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.operations.recover.sources import Journal
    from deltacli.operations.repair.backup import Backup
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- the request for a repair ------------------------------------------------------------------------------------------

IN_USE_MS = 3_600_000
"""When a commit of others means that a table is in use."""


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """Which findings of a validation to act on, and what is allowed.

    Attributes:
        level: The level of the validation whose findings are repaired: `log`, `storage`, `footers` or `data`.
        select: Globs over the ids of rules to act on. Empty: all rules.
        sources: Where lost files are looked for: `versions` (what the store keeps of deleted objects), and
            paths or URIs of copies of the table.
        accept_commits: Versions that a copy may bring although nothing proves that they are of this table.
        accept_empty_commits: Versions whose commit has 0 bytes, to write as versions that changed nothing.
        accept_loss: True to allow steps that give up rows which no source has.
        partition_values: Partition values that neither the log nor the path of a file has, as `COL=VALUE` or,
            for paths that match, `COL=VALUE @ GLOB`.
        allow_in_use: True to repair a table that others committed to lately.
        max_missing: The share of the live files above which no file is given up.
        quarantine: A directory outside of all tables for the backup, and for readable rows of damaged files.
        commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
        dry_run: True to plan only, and change nothing.
    """

    level: str = LevelChoice.STORAGE
    select: Sequence[str] = ()
    sources: Sequence[str] = ()
    accept_commits: Sequence[int] = ()
    accept_empty_commits: Sequence[int] = ()
    accept_loss: bool = False
    partition_values: Sequence[str] = ()
    allow_in_use: bool = False
    max_missing: float = 0.1
    quarantine: str | None = None
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the values to one form. Raises UsageError."""
        require_known_word(self.level, "level", LevelChoice)
        object.__setattr__(self, "level", LevelChoice(self.level))
        for name in ("select", "sources", "partition_values"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(value):
                raise UsageError(f"{parameter(f'repair.{name}')} is empty, or a text", facts={"expected": "a list"})
            object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "accept_commits", accepted_versions(self.accept_commits))
        name = parameter("repair.accept_empty_commits")
        accepted = tuple(require_version(version, name) for version in self.accept_empty_commits)
        object.__setattr__(self, "accept_empty_commits", accepted)
        require_fraction(self.max_missing, parameter("repair.max_missing"))


# -- what a repair would do --------------------------------------------------------------------------------------------


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
    """The execution of plans: the change, the backup, and the files that were put in their places."""

    execution: ChangeExecution[RepairPlan, Any]  # Any: the outcome
    request: RepairRequest
    backup: Backup
    put: Journal
    unneeded: dict[str, str] = field(default_factory=dict)
    """Key of a place -> why a change that was made left it out."""
    committed: list[int] = field(default_factory=list)
    """The versions that the change that is being made has committed so far."""

    @property
    def table(self) -> TableHandle:
        return self.execution.table

    def commit(self, make: Callable[[Snapshot], CommitRequest | None]) -> int | None:
        """Commit what is made for the newest version, and return the version; None where nothing is left to do."""
        from deltacli.changing.commit import Committed

        done = self.execution.commit_step(make, options=CommitOptions(metadata=self.request.commit_metadata))
        if not isinstance(done, Committed):
            return None
        self.committed.append(done.version)
        return done.version

    def move(self, paths: Sequence[str]) -> None:
        """Keep files, then delete them from the table. Raises StorageFailed."""
        self.backup.keep(paths)
        for path, outcome in self.execution.store.delete_many(paths):
            if isinstance(outcome, Failed):
                raise StorageFailed(f"{path} could not be moved to the backup: {outcome.reason}")
            self.execution.has_begun = True


class Step(NamedTuple):
    """A step for one finding. `work` is the number of the change in the plan; `what` says in words what is done."""

    rule: str
    place: Place
    action: StepKind
    work: int
    what: str
    source: str | None = None
    loses: FileTotals | None = None
    state: StepState = StepState.PLANNED
    reason: str | None = None
    """Why it was refused, skipped, or failed."""
    committed_version: int | None = None

    @property
    def is_refused(self) -> bool:
        """Whether a guard refused the step."""
        return self.state is StepState.REFUSED

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
class RepairPlan(TableHandleMixin):
    """The changes in the order in which they are made, and the steps that ask for them.

    `is_partial`: more is planned once these steps are done, because the rest cannot be judged before. `refusals` stop
    the steps that are `refused`.
    """

    base_version: BaseVersion
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
    newest: int = -1
    """The version at which the log ended, damaged files included."""

    @property
    def is_noop(self) -> bool:
        return not self.planned

    def build_refusal(self) -> Refused | None:
        """Return the error for its refusals, which does not stop the steps that none of them is about."""
        return (
            Refused.from_refusals(self.refusals) if self.refusals and (self.is_noop or self.request.dry_run) else None
        )

    def effects(self) -> Iterator[str]:
        yield from (f"{step.action}: {step.what}" for step in self.planned)

    @property
    def planned(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.state is StepState.PLANNED)

    @property
    def has_errors(self) -> bool:
        """Whether errors are left that a repair cannot fix."""
        return bool(self.errors)

    @property
    def errors(self) -> tuple[Unrepaired, ...]:
        return tuple(one for one in self.unrepaired if one.severity is Severity.ERROR)

    @property
    def lacks_source(self) -> bool:
        """Whether errors remain for lack of a source."""
        lacking = NoSource if self.request.sources else (NoSource, Undetermined)
        return any(isinstance(one.reason, lacking) for one in self.errors)

    @property
    def loss(self) -> FileTotals:
        """Return what the planned steps give up; a file is counted once."""
        of_work = {(step.work, step.place.key): step.loses for step in self.planned if step.loses is not None}
        return sum(of_work.values(), FileTotals(0, 0, 0))

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


def join_plans(parts: Iterable[Planned]) -> Planned:
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


# -- saved plans of a repair -------------------------------------------------------------------------------------------

KIND = "deltacli.repair-plan"
_NOT_SAVED = ("dry_run",)


@dataclass(frozen=True)
class SavedPlan:
    """What was agreed to: the request, the steps, and whether more follows from them."""

    table: str
    table_id: str | None
    request: RepairRequest
    steps: frozenset[str]
    is_partial: bool

    def require_covers(self, plan: RepairPlan) -> None:
        """Raise Refused where a plan that was made now belongs to another table, or has steps that this one lacks."""
        if not is_address_of(plan.table.storage, self.table):
            raise Refused(
                "the saved plan is of another table",
                code="repair.plan-of-another",
                facts={"table of the plan": self.table, "this table": plan.table.uri},
                hint=command("repair", save_plan=...),
            )
        if None not in (self.table_id, plan.table_id) and self.table_id != plan.table_id:
            raise Refused(
                "the saved plan is of another table",
                code="repair.plan-of-another",
                facts={"table id of the plan": str(self.table_id), "table id of this table": str(plan.table_id)},
                hint=command("repair", save_plan=...),
            )
        fresh = [step for step in plan.planned if _key(step) not in self.steps]
        if fresh:
            raise Refused(
                f"the table has changed since the plan was saved; {fresh[0].what} is new",
                preamble=NOTHING_CHANGED,
                code="repair.plan-stale",
                facts={"new steps": str(len(fresh)), "rule of the first": fresh[0].rule},
                hint=command("repair", save_plan=...),
            )


def save_repair_plan(plan: RepairPlan, path: str) -> None:
    """Write a plan to a local file atomically, replacing an existing one. Raises StorageFailed."""
    request = {
        one.name: value
        for one in fields(plan.request)
        if one.name not in _NOT_SAVED and (value := getattr(plan.request, one.name)) is not None
    }
    content: dict[str, Json] = {
        "kind": KIND,
        "schemaVersion": 1,
        "table": plan.table.uri,
        "tableId": plan.table_id,
        "version": plan.version,
        "request": {name: _plain(value) for name, value in request.items()},
        "more": plan.is_partial,
        "steps": [
            {"rule": step.rule, "location": location_of(step.place), "action": step.action.value, "what": step.what}
            for step in plan.steps
        ],
    }
    text = dumps({**content, "sha256": digest_content(content)})
    with open_replacement(path) as file:
        file.write(text + b"\n")


def read_repair_plan(path: str) -> SavedPlan:
    """Read a saved plan. Raises Unreadable for a file that is not one, or was changed."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
        seen = found.pop("sha256")
        if found["kind"] != KIND or seen != digest_content(found):
            raise ValueError("its digest does not match")
        return SavedPlan(
            validate_uri(found["table"], "table"),
            found["tableId"],
            RepairRequest(**found["request"]),
            frozenset(_text(one["rule"], one["location"], one["action"]) for one in found["steps"]),
            found["more"],
        )
    except FileNotFoundError:
        raise Unreadable(
            f"the plan {path} cannot be read: no such file or directory",
            code="repair.plan-missing",
            hint=command("repair", save_plan=path),
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise Unreadable(
            f"{path} is not a saved plan of a repair",
            code="repair.plan-unreadable",
            facts={"reason": str(fault)[:200]},
            hint=command("repair", save_plan=...),
        ) from fault


def _plain(value: object) -> Json:
    found: Json = json.loads(json.dumps(value, default=dict))
    return found


def _key(step: Step) -> str:
    return _text(step.rule, location_of(step.place), step.action.value)


def _text(rule: str, location: object, action: str) -> str:
    return json.dumps([rule, location, action], sort_keys=True)
