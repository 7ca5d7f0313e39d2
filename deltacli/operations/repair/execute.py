"""Executing a repair: change by change, each after what it replaces was kept; then another look at the table.

A run ends with the plan that is made afterwards: nothing it acted on is found again, or it is said to have failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.derived import require_unchanged
from deltacli.changing.plan import Amount
from deltacli.core.errors import ConflictLost, DeltacliError, OutcomeUnknown, PartlyDone, Refused
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.units import plural
from deltacli.operations.recover.sources import Journal
from deltacli.operations.repair.backup import Backup, open_backup
from deltacli.operations.repair.plan import NotNeededError, RepairPlan, Run, Step, StepState
from deltacli.operations.repair.planning import plan_repair

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate
    from deltacli.core.typing import Json
    from deltacli.operations.repair.request import RepairRequest
    from deltacli.operations.repair.saved import SavedPlan
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_MOST_PASSES = 6
"""A log that is brought back shows damages of data files, and their repair those of checkpoints."""


@short_repr("plan", "done", "failed", "committed_version", "backup=backup_uri")
@dataclass(eq=False, repr=False)
class RepairOutcome:
    """What was done so far: the steps of all plans that were executed, and the plan that remains."""

    plan: RepairPlan
    steps: list[Step] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    backup: Backup | None = None
    put: Journal = field(default_factory=Journal)
    """The files that came from sources."""

    @property
    def committed_version(self) -> int | None:
        """The version of the last commit; None where nothing was committed."""
        return self.versions[-1] if self.versions else None

    @property
    def done(self) -> list[Step]:
        return [step for step in self.steps if step.state is StepState.DONE]

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state is StepState.FAILED]

    @property
    def backup_uri(self) -> str | None:
        """Return where replaced files were kept, None where none was replaced."""
        return self.backup.uri if self.backup is not None and self.backup.kept else None

    @property
    def loss(self) -> Amount:
        """Return what was given up."""
        given = {(step.committed_version, step.place.key): step.loses for step in self.done if step.loses is not None}
        return sum(given.values(), Amount(0, 0, 0))

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.repair`."""
        made = {(step.rule, step.place) for step in self.steps}
        left = [
            step
            for step in self.plan.steps
            if step.state is StepState.REFUSED
            or (step.state is StepState.SKIPPED and (step.rule, step.place) not in made)
        ]
        content = self.plan.as_json(dry_run=self.plan.request.dry_run)
        return content | {
            "steps": [step.as_json() for step in (*self.steps, *left)],
            "committedVersions": list(self.versions),
            "backup": self.backup_uri,
        }

    @property
    def summary(self) -> str:
        """Return in words what was done, if anything."""
        return self.so_far() if self.done or self.put.files else "nothing was changed"

    def so_far(self) -> str:
        """Return in words what was done."""
        put = f", {plural(self.put.files, 'file')} put back" if self.put.files else ""
        kept = "" if self.backup_uri is None else f"; replaced files are kept in {self.backup_uri}"
        return f"{plural(len(self.done), 'step')} done{put}{kept}"

    def require_complete(self) -> None:
        """Raise PartlyDone where steps failed or were refused."""
        plan = self.plan
        left = [*self.failed, *(step for step in plan.steps if step.state is not StepState.DONE)]
        if not left and not plan.refusals:
            return
        raise PartlyDone(
            f"{plural(len(left), 'step')} could not be made: {left[0].reason or left[0].what}"
            if left
            else f"what is left could not be planned: {plan.refusals[0].message}",
            code=plan.refusals[0].code if plan.refusals else "repair.step-failed",
            facts={
                **({"first": left[0].what} if left else {}),
                "so far": self.so_far(),
                **(dict(plan.refusals[0].facts) if plan.refusals else {}),
            },
            hint=command("validate", level=plan.request.level),
        )


@dataclass(frozen=True)
class Repair:
    """A repair of what a validation finds; with `saved`, as far as that plan covers it."""

    act: ClassVar[Act] = Act.PUT

    request: RepairRequest
    saved: SavedPlan | None = None

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> RepairPlan:  # noqa: ARG002  (validates anew)
        """Plan it. Raises as `plan_repair`, and Refused where the saved plan does not cover it."""
        plan = plan_repair(table, self.request)
        if self.saved is not None:
            self.saved.require_covers(plan)
        return plan

    def outcome(self, plan: RepairPlan) -> RepairOutcome:
        """Return that nothing was done yet."""
        return RepairOutcome(plan)

    def execute(self, gate: Gate[RepairPlan, RepairOutcome]) -> None:
        """Make the changes of the plan, then those of the plans that follow and that somebody agrees to. Planning and
        running it again continues.

        Raises what the only change raises, what planning again raises, and OutcomeUnknown.
        """
        plan, outcome = gate.plan, gate.outcome
        backup = open_backup(gate.table, plan.version, plan.table_id, self.request.quarantine)
        outcome.backup = backup
        run = Run(gate, self.request, backup, outcome.put)
        tried: set[str] = set()
        try:
            for _ in range(_MOST_PASSES):
                fresh = {plan.work[step.work].name for step in plan.planned} - tried
                if not fresh:
                    break
                tried |= fresh
                require_unchanged(plan.basis)
                is_whole = _execute(plan, run, outcome, fresh)
                outcome.plan = replace(plan, steps=(), unrepaired=(), refusals=(), is_partial=False)
                plan = outcome.plan = plan_repair(gate.table, self.request)
                if not is_whole or not plan.planned or not self._may_follow(gate, plan):
                    break
        except Refused:
            if not gate.has_begun:
                backup.discard()
            raise
        _mark_found_again(outcome)
        _mark_left(outcome)
        backup.note_end()

    def _may_follow(self, gate: Gate[RepairPlan, RepairOutcome], plan: RepairPlan) -> bool:
        return gate.follow(plan) if self.saved is None else self.saved.is_partial


def _execute(plan: RepairPlan, run: Run, outcome: RepairOutcome, names: set[str]) -> bool:
    """Make the planned changes of these names, in their order; return False after one that failed."""
    gate, begin = run.gate, len(outcome.steps)
    mine = [step for step in plan.planned if plan.work[step.work].name in names]
    outcome.steps += mine
    by_work: dict[int, list[int]] = {}
    for position, step in enumerate(mine, begin):
        by_work.setdefault(step.work, []).append(position)
    is_whole = True
    for number, positions in sorted(by_work.items()):
        state, reason, version = StepState.DONE, None, None
        try:
            version = plan.work[number].run(run)
            gate.has_begun = True
        except NotNeededError as why:
            state, reason = StepState.SKIPPED, str(why)
        except OutcomeUnknown:
            raise
        except DeltacliError as fault:
            is_whole = False
            state, reason = StepState.FAILED, fault.message
            if isinstance(fault, ConflictLost | Refused) and not outcome.done and len(by_work) == 1:
                raise
        except BaseException:  # nobody knows whether a file was put
            gate.has_begun = True
            raise
        finally:
            gate.has_begun = gate.has_begun or run.put.files > 0
        if version is not None:
            outcome.versions.append(version)
            run.backup.note_versions([version])
        for position in positions:
            step = outcome.steps[position]
            unneeded = run.unneeded.get(step.place.key or "") if state is StepState.DONE else None
            outcome.steps[position] = (
                step._replace(state=state, reason=reason, committed_version=version)
                if unneeded is None
                else step._replace(state=StepState.SKIPPED, reason=unneeded)
            )
        run.unneeded.clear()
    return is_whole


def _mark_found_again(outcome: RepairOutcome) -> None:
    """Mark the steps as failed whose findings are found again."""
    found = {(step.rule, step.place) for step in outcome.plan.steps}
    for position, step in enumerate(outcome.steps):
        if step.state is StepState.DONE and (step.rule, step.place) in found:
            why = "it is found again"
            outcome.steps[position] = step._replace(state=StepState.FAILED, reason=why)


def _mark_left(outcome: RepairOutcome) -> None:
    """Mark the planned steps that were not made, because their findings came up while the others were."""
    why = "it was found while the repair ran; run the same command again"
    steps = (
        step._replace(state=StepState.SKIPPED, reason=why) if step.state is StepState.PLANNED else step
        for step in outcome.plan.steps
    )
    outcome.plan = replace(outcome.plan, steps=tuple(steps))
