"""`deltacli repair TABLE`: plan, ask, execute; or save or apply a plan, or put the files of a backup back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.findings import LevelChoice
from deltacli.cli.options.given import given_options
from deltacli.cli.options.tables import (
    AcceptCommitsOption,
    ApplyPlanOption,
    CommitMetadataOption,
    DryRunOption,
    TableArgument,
    YesOption,
)
from deltacli.cli.options.values import (
    join_names,
    join_versions,
    make_choice_parser,
    make_share_parser,
    make_text_parser,
)
from deltacli.cli.output.destination import require_file_outside_tables
from deltacli.cli.output.results import Result
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import repeat_command_with, repeat_command_with_flags
from deltacli.core.errors import Refusal, Refused, UsageError, quote_table, quote_word
from deltacli.core.units import format_size, plural
from deltacli.delta.log.actions import parse_commit_metadata
from deltacli.rules.framework.base import CATALOGUE

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.api.table import Table
    from deltacli.operations.repair.backup import PutBack, UndoPlan
    from deltacli.operations.repair.plan import RepairPlan
    from deltacli.operations.repair.repair import RepairOutcome

app = typer.Typer(add_completion=False)

_PLANNING_OPTIONS = (
    *("level", "select", "sources", "accept_commits", "accept_empty_commits", "accept_loss", "partition_values"),
    *("allow_in_use", "max_missing", "quarantine", "commit_metadata"),
)
"""Parameters that change what is planned, which a saved plan has already."""


@app.command(
    "repair",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="errors are left that repair cannot fix; never with --dry-run",
        unreadable=True,
        refused=True,
        partly="a step failed or was refused; the others are made",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def repair(
    context: typer.Context,
    table: TableArgument,
    *,
    level: Annotated[
        LevelChoice,
        typer.Option(
            "--level",
            metavar="log|storage|footers|data",
            parser=make_choice_parser(LevelChoice),
            help="What to check: the log; also a listing of the table; also footers of data files; also their rows.  "
            "[default: storage]",
        ),
    ] = LevelChoice.STORAGE,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="A,B,…", help="Act only on these rules: globs over rule ids. Repeatable."),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="versions|DIRECTORY|URI",
            parser=make_text_parser("--from"),
            help="Where to look for lost files: versions that the store keeps, a copy of the table or of its log, a "
            "quarantine. Repeatable.",
        ),
    ] = None,
    accept_commits: AcceptCommitsOption = None,
    accept_empty_commits: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-empty-commits",
            metavar="N,N-M,…",
            help="Commits of 0 bytes to write as versions that changed nothing, where no copy and no checkpoint has "
            "them. Repeatable.",
        ),
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Allow steps that give up rows that no source has.")
    ] = False,
    partition_values: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-value",
            metavar="COL=VALUE[ @ GLOB]",
            parser=make_text_parser("--partition-value"),
            help="Partition value, of the files whose path in the log matches GLOB, where the log and the path have "
            "none. Repeatable.",
        ),
    ] = None,
    allow_in_use: Annotated[
        bool, typer.Option("--allow-in-use", help="Repair although others committed within the last hour.")
    ] = False,
    max_missing: Annotated[
        float,
        typer.Option(
            "--max-missing",
            metavar="N%",
            parser=make_share_parser("--max-missing"),
            help="Refuse to give up more than this share of the live files.  [default: 10%]",
        ),
    ] = 0.1,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="DIRECTORY|URI",
            parser=make_text_parser("--quarantine"),
            help="Keep the backup, and the readable rows of damaged files, in this directory outside of all tables.",
        ),
    ] = None,
    commit_metadata: CommitMetadataOption = None,
    save_plan: Annotated[
        str | None, typer.Option("--save-plan", metavar="FILE", help="Write the plan to a file and change nothing.")
    ] = None,
    apply: ApplyPlanOption = None,
    undo: Annotated[
        str | None,
        typer.Option("--undo", metavar="BACKUP", help="Put the files that a repair replaced back from its backup."),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Repair what validate finds: recover first, rebuild next, remove last.

    \b
    Missing and damaged files come back from --from, each verified by size, footer,
    checksum and the history of its log. Checkpoints, checksums and _last_checkpoint
    are written anew from the commits. What no source has is given up in one commit,
    only with --accept-loss. The plan lists each of these files with its rows. Replaced
    files are kept in a backup; --undo puts them back.

    \b
    Examples:
      deltacli repair ./tbl --dry-run
      deltacli repair ./tbl --yes
      deltacli repair ./tbl --from /backups/tbl --yes  # lost files and commits
      deltacli repair s3://lake/events --from versions --level footers
      deltacli repair ./tbl --accept-loss --quarantine /backups/damaged
      deltacli repair ./tbl --save-plan plan.json  # then --apply plan.json

    \b
    A run ends with another look at the table, and a second run has nothing to do.
    It exits with 1 if errors are left that repair cannot fix; each is listed with
    the reason. A dry run lists them, too, and never exits with 1.
    """
    run: CommandContext = context.obj
    how = RepairOptions(save_plan=save_plan, apply=apply, undo=undo, dry_run=dry_run, yes=yes)
    modes = {"--save-plan": how.save_plan, "--apply": how.apply, "--undo": how.undo}
    chosen = [name for name, value in modes.items() if value is not None]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other")
    if how.apply is not None or how.undo is not None:
        planning_options = given_options(context, *_PLANNING_OPTIONS)
        if planning_options:
            raise UsageError(f"{chosen[0]} takes no options for planning: {', '.join(planning_options)}")
    accepted_versions = join_versions(accept_commits, "--accept-commits")
    accepted_empty_versions = join_versions(accept_empty_commits, "--accept-empty-commits")
    added_keys = parse_commit_metadata(commit_metadata or [])
    selected = join_names(select, "--select")
    if selected:
        from deltacli.cli.running.rule_selection import require_known_rules

        require_known_rules(run, "validate", list(CATALOGUE.rules), selected, ())
    mode = Mode(how.dry_run or how.save_plan is not None, how.yes)
    opened = run.open_table(table, writes=not mode.only_plans)
    repair_command = RepairCommand(run, table, opened, how, mode)
    if how.undo is not None:
        repair_command.undo(how.undo)
        return
    if how.apply is not None:
        repair_command.repair(opened.prepare_saved_repair(how.apply, dry_run=mode.dry_run))
        return
    if how.save_plan is not None:
        require_file_outside_tables(how.save_plan, "--save-plan")
    change = opened.prepare_repair(
        level=level,
        select=selected,
        sources=tuple(sources or ()),
        accept_commits=accepted_versions,
        accept_empty_commits=accepted_empty_versions,
        accept_loss=accept_loss,
        partition_values=tuple(partition_values or ()),
        allow_in_use=allow_in_use,
        max_missing=max_missing,
        quarantine=quarantine,
        commit_metadata=added_keys,
        dry_run=mode.dry_run,
    )
    repair_command.repair(change)


@dataclass(frozen=True, eq=False, repr=False)
class RepairOptions:
    """What the command does with the plan."""

    save_plan: str | None = None
    apply: str | None = None
    undo: str | None = None
    dry_run: bool = False
    yes: bool = False


class RepairCommand(NamedTuple):
    """A run of the command: the table and the form of its output.

    Attributes:
        run: The run.
        name: The table as the user wrote it.
        table: The table.
        how: What the command does with the plan.
        mode: The same, as changes know it.
    """

    run: CommandContext
    name: str
    table: Table
    how: RepairOptions
    mode: Mode

    def repair(self, change: PreparedChange[RepairPlan, RepairOutcome]) -> None:
        """Plan; save the plan, or ask, execute and report. Errors that are left are findings."""
        from deltacli.cli.render.validate.repair import repair_result

        plans: list[RepairPlan] = []

        def planned(plan: RepairPlan, is_plan: bool) -> Result:
            plans.append(plan)
            if self.how.save_plan is not None:
                invocation.writes(self.how.save_plan)
                self.table.save_repair_plan(plan, self.how.save_plan)
            return repair_result(plan, None, self.name, is_plan=is_plan)

        def done(outcome: RepairOutcome) -> Result:
            self._note_undo("put the replaced files back", outcome.backup_uri)
            return repair_result(outcome.plan, outcome, self.name)

        def following(outcome: RepairOutcome) -> str | None:
            if outcome.plan.errors:
                return None
            return f"deltacli validate {quote_table(self.name)} --level {outcome.plan.request.level}"

        presentation = ChangePresentation(
            build_question=lambda plan: "; ".join(filter(None, [_question(plan), _stays_refused(plan)])),
            build_plan_result=planned,
            build_outcome_result=done,
            suggest_after_change=following,
            suggest_before_change=self._before,
            list_consent_facts=_way_past,
            is_finding=lambda result: result.has_errors and not self.mode.dry_run,
        )
        try:
            run_change(self.run, change, presentation, self.mode)
        except Refused as refused:
            if plans and len(plans[-1].refusals) > 1 and refused.code == plans[-1].refusals[0].code:
                refused.facts["also"] = "; ".join(refusal.message for refusal in plans[-1].refusals[1:])
                refused.facts.update(_way_past(plans[-1]))
            raise

    def _before(self, plan: RepairPlan) -> str | None:
        """Return the command that executes a saved plan, or names a source where errors are left for lack of one."""
        if self.how.save_plan is not None:
            apply = f"deltacli repair {quote_table(self.name)} --apply {quote_word(self.how.save_plan)} --yes"
            return apply if plan.planned else None
        return (
            repeat_command_with(invocation.arguments, "--from", "COPY") if plan.is_noop and plan.lacks_source else None
        )

    def undo(self, backup: str) -> None:
        """Put the files of a backup back."""
        from deltacli.cli.render.validate.repair import put_back_result

        def question(plan: UndoPlan) -> str:
            amount = f"{plural(plan.amount.files, 'file')} ({format_size(plan.amount.size_bytes)})"
            return f"put {amount} back in {self.table.uri}, as before the repair"

        def done(found: PutBack) -> Result:
            self._note_undo("put back what was replaced", found.kept)
            return put_back_result(self.table.uri, backup, found, dry_run=False)

        presentation = ChangePresentation(
            build_question=question,
            build_plan_result=lambda plan, _: put_back_result(self.table.uri, backup, plan.amount, dry_run=True),
            build_outcome_result=done,
            suggest_after_change=lambda _: None,
        )
        run_change(self.run, self.table.prepare_undo_repair(backup), presentation, self.mode)

    def _note_undo(self, what: str, kept: str | None) -> None:
        from deltacli.cli.render.validate.repair import below_table

        if kept is not None:
            place = quote_table(below_table(kept, self.table.uri, self.name))
            self.run.note(f"note: to {what}: deltacli repair {quote_table(self.name)} --undo {place}")


def _question(plan: RepairPlan) -> str:
    loss = plan.loss
    changes = len({step.work for step in plan.planned})
    what = f"make {plural(changes, 'change')} for {plural(len(plan.planned), 'finding')} of {plan.table.uri}"
    if loss.files:
        rows = "an unknown number of rows" if loss.rows is None else plural(loss.rows, "row")
        what += f", giving up {plural(loss.files, 'file')} with {rows} ({format_size(loss.size_bytes)})"
    return f"{what}, and what follows from them" if plan.is_partial else what


def _stays_refused(plan: RepairPlan) -> str | None:
    """Return how many steps stay refused after the consent, and why; None without one."""
    left = sum(step.is_refused for step in plan.steps)
    if not left:
        return None
    reasons = [
        one.message.partition(", ")[0] + (f" ({_lifting(one)})" if _lifting(one) else "") for one in plan.refusals
    ]
    verb = "stays" if left == 1 else "stay"
    return f"{left:,} of {plural(len(plan.steps), 'step')} {verb} refused: {'; '.join(reasons)}"


def _lifting(refusal: Refusal) -> str | None:
    ways = (way for name, way in refusal.facts.items() if name.startswith(("to give them up", "to repair")))
    return next(ways, None)


def _way_past(plan: RepairPlan) -> dict[str, str]:
    """Return the dry run with every option that a plan lacks; nothing where one of the refusals has no option."""
    lifting = [way for way in map(_lifting, plan.refusals) if way is not None]
    if not lifting or len(lifting) < len(plan.refusals):
        return {}
    words = [word for word in invocation.arguments if word not in ("--dry-run", "--yes")]
    return {"to make all steps": repeat_command_with_flags(words, [*" ".join(lifting).split(), "--dry-run"])}
