"""`deltacli repair TABLE`: plan, ask, execute; or save or apply a plan, or put the files of a backup back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.request_options import Asked
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.output import require_target
from deltacli.cli.terminal.shell import again_with, again_with_flags, again_without, quoted, quoted_table
from deltacli.errors import EXIT_FINDINGS, DeltacliError, Refused, UsageError
from deltacli.operations.repair.request import RepairRequest
from deltacli.request_fields import option
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.errors import Refusal
    from deltacli.operations.repair.execute import RepairOutcome
    from deltacli.operations.repair.plan import RepairPlan

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70)


def repair(run: Run, table: TableArgument, *, asked: Asked[RepairRequest], how: RepairOptions) -> None:
    """Repair what validate finds: recover first, rebuild next, remove last.

    \b
    Missing and damaged files come back from --from, each verified by size, footer,
    checksum and the history of its log. Checkpoints, checksums and _last_checkpoint
    are written anew from the commits. What no source has is given up in one commit,
    only with --accept-loss, and every file with its rows is named before. Replaced
    files are kept in a backup; --undo puts them back. A run ends with another look
    at the table, and a second run has nothing to do. It exits with 1 if errors are
    left that nothing can be done about here; each is listed with the reason. A dry
    run lists them, too, and never exits with 1.

    \b
    Examples:
      deltacli repair ./tbl --dry-run
      deltacli repair ./tbl --yes
      deltacli repair ./tbl --from /backups/tbl --yes  # lost files and commits
      deltacli repair s3://lake/events --from versions --level footers
      deltacli repair ./tbl --accept-loss --quarantine /backups/damaged
      deltacli repair ./tbl --save-plan plan.json  # then --apply plan.json
    """
    modes = {"--save-plan": how.save_plan, "--apply": how.apply, "--undo": how.undo}
    chosen = [name for name, value in modes.items() if value is not None]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other")
    if (how.apply is not None or how.undo is not None) and (given := asked.given()):
        raise UsageError(f"{chosen[0]} takes no options for planning: {', '.join(given)}")
    if select := asked.request().select:
        from deltacli.cli.finding_filter import require_known
        from deltacli.delta.rules.framework.catalogue import CATALOGUE

        require_known(run, "validate", list(CATALOGUE.rules), select, ())
    opened = run.open_table(table, writes=not (how.dry_run or how.save_plan is not None))
    RepairCommand(run, table, opened, how).carry_out(asked)


@dataclass(frozen=True, eq=False, repr=False)
class RepairOptions:
    """What the command does with the plan."""

    save_plan: str | None = option("Write the plan to a file and change nothing.", "FILE")
    apply: str | None = option("Execute a saved plan, or resume it.", "FILE")
    undo: str | None = option("Put the files that a repair replaced back from its backup.", "BACKUP")
    dry_run: DryRunOption = False
    yes: YesOption = False


class RepairCommand(NamedTuple):
    """A run of the command: the table and the form of its output."""

    run: Run
    name: str
    """The table as the user wrote it."""
    table: Table
    how: RepairOptions

    def carry_out(self, asked: Asked[RepairRequest]) -> None:
        """Run the mode that the options select."""
        from deltacli.operations.repair.planning import plan_repair

        if self.how.undo is not None:
            self.undo(self.how.undo)
        elif self.how.apply is not None:
            self.apply(self.how.apply)
        else:
            plan = plan_repair(self.table, asked.request())
            if self.how.save_plan is not None:
                self.save(plan, self.how.save_plan)
            else:
                self.repair(plan)

    def repair(self, plan: RepairPlan, may_follow: Callable[[RepairPlan], bool] | None = None) -> None:
        """Ask, execute and report."""
        if self.how.dry_run:
            self._show_dry(plan)
            if plan.planned:
                self.run.say_next(again_without(invocation.arguments, "--dry-run"))
            else:
                self._say_source(plan)
            return
        if not plan.planned:
            self._show_dry(plan)
            self._say_source(plan)
            if plan.errors:
                raise typer.Exit(EXIT_FINDINGS)
            return
        self._confirm(plan)
        outcome = self._execute(plan, may_follow or self._agreed)
        self._report(outcome)

    def _say_source(self, plan: RepairPlan) -> None:
        """Name the command with a source, where errors are left for lack of one."""
        if plan.lacks_source:
            self.run.say_next(again_with(invocation.arguments, "--from", "COPY"), also_in_pipe=True)

    def save(self, plan: RepairPlan, path: str) -> None:
        """Save a plan. One with refused steps is saved as well, then Refused is raised."""
        from deltacli.operations.repair.saved import save_plan

        require_target(path, "--save-plan")
        save_plan(plan, path)
        self._show_dry(plan)
        if plan.planned:
            following = f"deltacli repair {quoted_table(self.name)} --apply {quoted(path)} --yes"
            self.run.say_next(following, also_in_pipe=True)

    def apply(self, path: str) -> None:
        """Execute a saved plan, as far as its steps are not done yet."""
        from deltacli.operations.repair.planning import plan_repair
        from deltacli.operations.repair.saved import read_plan

        saved = read_plan(path)
        plan = plan_repair(self.table, saved.request)
        saved.require_covers(plan)
        self.repair(plan, lambda _: saved.is_partial)

    def undo(self, backup: str) -> None:
        """Put the files of a backup back."""
        from deltacli.cli.render.validate.repair import below_table, put_back_result
        from deltacli.operations.repair.backup import Journal, execute_undo, plan_undo

        plan = plan_undo(self.table, backup)
        found = plan.amount
        result = put_back_result(self.table.uri, backup, found, dry_run=self.how.dry_run or not found.files)
        if self.how.dry_run or not found.files:
            self.run.write(result)
            return
        amount = f"{plural(found.files, 'file')} ({format_size(found.size_bytes)})"
        what = f"put {amount} back in {self.table.uri}, as before the repair"
        require_confirmation(self.run, what, yes=self.how.yes, show_plan=lambda: self.run.write(result))
        journal = Journal()
        try:
            done = execute_undo(plan, journal)
        except Interrupted as interruption:
            interruption.outcome = f"{journal.so_far}; run the same command to continue"
            raise
        self.run.write(put_back_result(self.table.uri, backup, done, dry_run=False))
        if done.kept is not None:
            place = below_table(done.kept, self.table.uri, self.name)
            undo = f"deltacli repair {quoted_table(self.name)} --undo {quoted_table(place)}"
            self.run.note(f"note: to put back what was replaced: {undo}")

    def _agreed(self, plan: RepairPlan) -> bool:
        """Ask about the steps that followed from those before."""
        try:
            self._confirm(plan)
        except Refused:
            return False
        return True

    def _confirm(self, plan: RepairPlan) -> None:
        what = "; ".join(filter(None, [_question(plan), _stays_refused(plan)]))
        require_confirmation(
            self.run,
            what,
            yes=self.how.yes,
            show_plan=lambda: self._show(plan, is_plan=True),
            facts=_way_past(plan),
        )

    def _execute(self, plan: RepairPlan, agreed: Callable[[RepairPlan], bool]) -> RepairOutcome:
        from deltacli.operations.repair.execute import RepairOutcome, execute_repair

        outcome = RepairOutcome(plan)
        try:
            return execute_repair(plan, outcome, agreed=agreed)
        except Interrupted as interruption:
            notes = getattr(interruption, "__notes__", None)
            again = "run the same command to continue"
            interruption.outcome = "; ".join([outcome.summary, *(notes or ()), again])
            raise
        except DeltacliError:
            if outcome.done:
                self._show(plan, outcome)
            raise

    def _report(self, outcome: RepairOutcome) -> None:
        from deltacli.cli.render.validate.repair import backup_place
        from deltacli.operations.repair.execute import require_complete

        self._show(outcome.plan, outcome)
        if (place := backup_place(outcome, self.name)) is not None:
            undo = f"deltacli repair {quoted_table(self.name)} --undo {quoted_table(place)}"
            self.run.note(f"note: to put the replaced files back: {undo}")
        require_complete(outcome)
        if outcome.plan.errors:
            raise typer.Exit(EXIT_FINDINGS)
        self.run.say_next(f"deltacli validate {quoted_table(self.name)} --level {outcome.plan.request.level}")

    def _show_dry(self, plan: RepairPlan) -> None:
        """Show a plan. Raises Refused where a guard objects to one of its steps."""

        is_plan = self.how.dry_run or self.how.save_plan is not None or bool(plan.refusals)
        self._show(plan, is_plan=is_plan)
        if plan.refusals:
            refusal = Refused.by(plan.refusals)
            if len(plan.refusals) > 1:
                refusal.facts["also"] = "; ".join(one.message for one in plan.refusals[1:])
                refusal.facts.update(_way_past(plan))
            raise refusal

    def _show(self, plan: RepairPlan, outcome: RepairOutcome | None = None, *, is_plan: bool = False) -> None:
        from deltacli.cli.render.validate.repair import repair_result

        self.run.write(repair_result(plan, outcome, self.name, is_plan=is_plan))


def _question(plan: RepairPlan) -> str:
    """Return what is to be agreed to, with its numbers."""
    loss = plan.loss
    changes = len({step.work for step in plan.planned})
    what = f"make {plural(changes, 'change')} for {plural(len(plan.planned), 'finding')} of {plan.table.uri}"
    if loss.files:
        rows = "an unknown number of rows" if loss.rows is None else plural(loss.rows, "row")
        what += f", giving up {plural(loss.files, 'file')} with {rows} ({format_size(loss.size_bytes)})"
    return f"{what}, and what follows from them" if plan.is_partial else what


def _stays_refused(plan: RepairPlan) -> str | None:
    """Return how many steps stay refused after the consent, and why; None without one."""
    from deltacli.operations.repair.plan import StepState

    left = sum(step.state is StepState.REFUSED for step in plan.steps)
    if not left:
        return None
    reasons = [
        one.message.partition(", ")[0] + (f" ({_lifting(one)})" if _lifting(one) else "") for one in plan.refusals
    ]
    verb = "stays" if left == 1 else "stay"
    return f"{left:,} of {plural(len(plan.steps), 'step')} {verb} refused: {'; '.join(reasons)}"


def _lifting(refusal: Refusal) -> str | None:
    """Return the option that lifts a refusal."""
    ways = (way for name, way in refusal.facts.items() if name.startswith(("to give them up", "to repair")))
    return next(ways, None)


def _way_past(plan: RepairPlan) -> dict[str, str]:
    """Return the dry run with every option that a plan lacks; nothing where one of the refusals has no option."""
    lifting = [way for way in map(_lifting, plan.refusals) if way is not None]
    if not lifting or len(lifting) < len(plan.refusals):
        return {}
    words = [word for word in invocation.arguments if word not in ("--dry-run", "--yes")]
    return {"to make all steps": again_with_flags(words, [*" ".join(lifting).split(), "--dry-run"])}
