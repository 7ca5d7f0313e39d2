"""Executing a repair: change by change, each after what it replaces was kept; then another look at the table.

A run ends with the plan that is made afterwards: nothing it acted on is found again, or it is said to have failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deltacli.changing.plan import Amount
from deltacli.errors import (
    ConflictLost,
    DeltacliError,
    OutcomeUnknown,
    PartlyDone,
    Refusal,
    Refused,
    StorageFailed,
    Unreadable,
)
from deltacli.hints import command
from deltacli.operations.repair.kept_files import Backup, open_backup
from deltacli.operations.repair.plan import NotNeededError, RepairPlan, Run, Step, StepState
from deltacli.operations.repair.planning import plan_repair
from deltacli.short_repr import short_repr
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.typing import Json

NOTHING = "nothing was changed: "
_MOST_PASSES = 6
"""A log that is brought back shows damages of data files, and their repair those of checkpoints."""


@short_repr("plan", "done", "failed", "committed_version", "backup=backup_uri")
@dataclass(eq=False)
class RepairOutcome:
    """What was done so far: the steps of all plans that were executed, and the plan that remains."""

    plan: RepairPlan
    steps: list[Step] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    backup: Backup | None = None

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
        content = self.plan.as_json(dry_run=False)
        return content | {
            "steps": [step.as_json() for step in (*self.steps, *left)],
            "committedVersions": list(self.versions),
            "backup": self.backup_uri,
        }

    @property
    def summary(self) -> str:
        """Return in words what was done."""
        if not self.done:
            return "nothing was changed"
        kept = "" if self.backup_uri is None else f"; replaced files are kept in {self.backup_uri}"
        return f"{plural(len(self.done), 'step')} done{kept}"


def execute_repair(
    plan: RepairPlan,
    outcome: RepairOutcome | None = None,
    *,
    agreed: Callable[[RepairPlan], bool] = lambda _: True,
) -> RepairOutcome:
    """Execute a plan and those that follow from it, and return what was done and what remains.

    `agreed` is asked before each further plan. Running it again continues an interrupted run.

    Raises Refused where every step is refused (with nothing changed), what the changes raise where nothing was done
    before, and OutcomeUnknown.
    """
    outcome = outcome or RepairOutcome(plan)
    table, request = plan.table, plan.request
    outcome.backup = outcome.backup or open_backup(table, plan.version, plan.table_id, request.quarantine)
    run = Run(table, request, outcome.backup, outcome.versions)
    tried: set[str] = set()
    for _ in range(_MOST_PASSES):
        fresh = {plan.work[step.work].name for step in plan.planned} - tried
        if not fresh:
            break
        tried |= fresh
        is_whole = _execute(plan, run, outcome, fresh)
        plan = outcome.plan = _planned_again(plan, outcome)
        if not is_whole or not plan.planned or not agreed(plan):
            break
    _mark_found_again(outcome)
    _mark_left(outcome)
    outcome.backup.note_end()
    return outcome


def _planned_again(plan: RepairPlan, outcome: RepairOutcome) -> RepairPlan:
    """Return the plan for what is left. Where none can be made although something was done, it has the reason."""
    try:
        return plan_repair(plan.table, plan.request)
    except (Refused, Unreadable, StorageFailed) as fault:
        if not outcome.done:
            raise
        message = fault.message.removeprefix(NOTHING)
        facts = {key: str(value) for key, value in fault.facts.items()}
        refusal = Refusal(str(fault.code), message, fault.hint, facts=facts)
        return replace(plan, steps=(), unrepaired=(), refusals=(refusal,), is_partial=False)


def _execute(plan: RepairPlan, run: Run, outcome: RepairOutcome, names: set[str]) -> bool:
    """Make the planned changes of these names, in their order; return False after one that failed."""
    begin = len(outcome.steps)
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
        except NotNeededError as why:
            state, reason = StepState.SKIPPED, str(why)
        except OutcomeUnknown:
            raise
        except DeltacliError as fault:
            is_whole = False
            state, reason = StepState.FAILED, fault.message
            if isinstance(fault, ConflictLost | Refused) and not outcome.done and len(by_work) == 1:
                raise
        if version is not None:
            run.versions.append(version)
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


def require_complete(outcome: RepairOutcome) -> None:
    """Raise PartlyDone where steps failed or were refused."""
    plan = outcome.plan
    left = [*outcome.failed, *(step for step in plan.steps if step.state is not StepState.DONE)]
    if not left and not plan.refusals:
        return
    said = (
        f"what is left could not be planned: {plan.refusals[0].message}"
        if not left
        else (f"{plural(len(left), 'step')} could not be made: {left[0].reason or left[0].what}")
    )
    raise PartlyDone(
        said,
        code=plan.refusals[0].code if plan.refusals else "repair.step-failed",
        facts={
            **({"first": left[0].what} if left else {}),
            "so far": outcome.summary,
            **(dict(plan.refusals[0].facts) if plan.refusals else {}),
        },
        hint=command("validate", level=plan.request.level),
    )
