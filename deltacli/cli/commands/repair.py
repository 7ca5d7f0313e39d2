"""`deltacli repair TABLE`: plan, ask, execute; or save or apply a plan, or put the files of a backup back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.findings import LevelChoice
from deltacli.cli.options.given import find_mode_option, get_used_options
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
    "level",
    "select",
    "sources",
    "accept_commits",
    "accept_empty_commits",
    "accept_loss",
    "partition_values",
    "allow_in_use",
    "max_missing",
    "quarantine",
    "commit_metadata",
)
"""Parameters that affect the plan. A saved plan was made with its own ones."""


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
    options = RepairOptions(save_plan=save_plan, apply=apply, undo=undo, dry_run=dry_run, yes=yes)
    _require_one_mode(context, options)
    accepted_versions = join_versions(accept_commits, "--accept-commits")
    accepted_empty_versions = join_versions(accept_empty_commits, "--accept-empty-commits")
    added_keys = parse_commit_metadata(commit_metadata or [])
    selected_rules = join_names(select, "--select")
    if selected_rules:
        from deltacli.cli.running.rule_selection import require_known_rules

        require_known_rules(run, "validate", list(CATALOGUE.rules), selected_rules, ())

    delta_table = run.open_table(table, writes=not options.mode.only_plans)
    repair_command = RepairCommand(run, table, delta_table, options)
    if undo is not None:
        repair_command.undo(undo)
        return
    if apply is not None:
        repair_command.repair(delta_table.prepare_saved_repair(apply, dry_run=options.mode.dry_run))
        return

    if save_plan is not None:
        require_file_outside_tables(save_plan, "--save-plan")
    change = delta_table.prepare_repair(
        level=level,
        select=selected_rules,
        sources=tuple(sources or ()),
        accept_commits=accepted_versions,
        accept_empty_commits=accepted_empty_versions,
        accept_loss=accept_loss,
        partition_values=tuple(partition_values or ()),
        allow_in_use=allow_in_use,
        max_missing=max_missing,
        quarantine=quarantine,
        commit_metadata=added_keys,
        dry_run=options.mode.dry_run,
    )
    repair_command.repair(change)


@dataclass(frozen=True, eq=False, repr=False)
class RepairOptions:
    """The options of `repair` that choose its mode.

    Attributes:
        save_plan: The file to which the plan is saved.
        apply: The file of a saved plan to execute.
        undo: The backup whose files are put back.
        dry_run: Whether nothing is changed.
        yes: Whether the user has agreed on the command line.
    """

    save_plan: str | None = None
    apply: str | None = None
    undo: str | None = None
    dry_run: bool = False
    yes: bool = False

    @property
    def mode(self) -> Mode:
        """The mode for `run_change`. A plan that is saved is not executed."""
        return Mode(self.dry_run or self.save_plan is not None, self.yes)


def _require_one_mode(context: typer.Context, options: RepairOptions) -> None:
    """Require that the options select one mode, and that a saved plan or a backup comes without planning options.

    Raises:
        UsageError: If options of several modes are combined, or the value of one is empty.
    """
    mode_option = find_mode_option({"--save-plan": options.save_plan, "--apply": options.apply, "--undo": options.undo})
    if options.apply is None and options.undo is None:
        return
    planning_options = get_used_options(context, *_PLANNING_OPTIONS)
    if planning_options:
        raise UsageError(f"{mode_option} takes no options for planning: {', '.join(planning_options)}")


class RepairCommand(NamedTuple):
    """One run of `repair` on a table.

    Attributes:
        run: The run of the command.
        name: The table as the user typed it.
        table: The table.
        options: The mode of the command.
    """

    run: CommandContext
    name: str
    table: Table
    options: RepairOptions

    def repair(self, change: PreparedChange[RepairPlan, RepairOutcome]) -> None:
        """Plan the repair; then save the plan, or ask and execute it.

        Raises:
            Refused: If steps of the plan are refused, and no step can be executed.
            Exit: If errors remain that cannot be repaired.
        """
        plans: list[RepairPlan] = []

        def build_plan_result(plan: RepairPlan, is_dry_run: bool) -> Result:
            from deltacli.cli.render.validate.repair import repair_result

            plans.append(plan)
            if self.options.save_plan is not None:
                invocation.record_output(self.options.save_plan)
                self.table.save_repair_plan(plan, self.options.save_plan)
            return repair_result(plan, None, self.name, is_plan=is_dry_run)

        presentation = ChangePresentation(
            build_question=_build_question,
            build_plan_result=build_plan_result,
            build_outcome_result=self._build_outcome_result,
            suggest_after_change=self._suggest_validation,
            suggest_before_change=self._suggest_before_change,
            list_consent_facts=_list_overrides,
            is_finding=lambda result: result.has_errors and not self.options.mode.dry_run,
        )
        try:
            run_change(self.run, change, presentation, self.options.mode)
        except Refused as refused:
            if plans:
                _add_other_refusals(refused, plans[-1])
            raise

    def undo(self, backup: str) -> None:
        """Put the files of a backup back.

        Args:
            backup: The directory of the backup.
        """
        from deltacli.cli.render.validate.repair import put_back_result

        def build_question(plan: UndoPlan) -> str:
            files = f"{plural(plan.amount.files, 'file')} ({format_size(plan.amount.size_bytes)})"
            return f"put {files} back in {self.table.uri}, as before the repair"

        def build_outcome_result(outcome: PutBack) -> Result:
            self._note_undo("put back what was replaced", outcome.kept)
            return put_back_result(self.table.uri, backup, outcome, dry_run=False)

        presentation = ChangePresentation(
            build_question=build_question,
            build_plan_result=lambda plan, _: put_back_result(self.table.uri, backup, plan.amount, dry_run=True),
            build_outcome_result=build_outcome_result,
            suggest_after_change=lambda _: None,
        )
        run_change(self.run, self.table.prepare_undo_repair(backup), presentation, self.options.mode)

    def _build_outcome_result(self, outcome: RepairOutcome) -> Result:
        from deltacli.cli.render.validate.repair import repair_result

        self._note_undo("put the replaced files back", outcome.backup_uri)
        return repair_result(outcome.plan, outcome, self.name)

    def _suggest_validation(self, outcome: RepairOutcome) -> str | None:
        if outcome.plan.errors:
            return None
        return f"deltacli validate {quote_table(self.name)} --level {outcome.plan.request.level}"

    def _suggest_before_change(self, plan: RepairPlan) -> str | None:
        """Return the command that executes a saved plan, or the same command with a source of the missing files."""
        if self.options.save_plan is not None:
            if not plan.planned:
                return None
            return f"deltacli repair {quote_table(self.name)} --apply {quote_word(self.options.save_plan)} --yes"
        if plan.is_noop and plan.lacks_source:
            return repeat_command_with(invocation.arguments, "--from", "COPY")
        return None

    def _note_undo(self, purpose: str, backup_uri: str | None) -> None:
        """Note the command that undoes a change, if replaced files were kept in a backup."""
        from deltacli.cli.render.validate.repair import below_table

        if backup_uri is not None:
            backup = quote_table(below_table(backup_uri, self.table.uri, self.name))
            self.run.note(f"note: to {purpose}: deltacli repair {quote_table(self.name)} --undo {backup}")


def _build_question(plan: RepairPlan) -> str:
    """Return the question, which names the loss of rows and the steps that stay refused."""
    changes = len({step.work for step in plan.planned})
    question = f"make {plural(changes, 'change')} for {plural(len(plan.planned), 'finding')} of {plan.table.uri}"
    loss = plan.loss
    if loss.files:
        rows = "an unknown number of rows" if loss.rows is None else plural(loss.rows, "row")
        question += f", giving up {plural(loss.files, 'file')} with {rows} ({format_size(loss.size_bytes)})"
    if plan.is_partial:
        question += ", and what follows from them"

    refused_steps = sum(step.is_refused for step in plan.steps)
    if refused_steps:
        question += f"; {_describe_refused_steps(plan, refused_steps)}"
    return question


def _describe_refused_steps(plan: RepairPlan, refused_steps: int) -> str:
    """Return the number of steps that will not be executed, and the reasons with the options that override them."""
    reasons = []
    for refusal in plan.refusals:
        reason = refusal.message.partition(", ")[0]
        override = _find_override(refusal)
        reasons.append(f"{reason} ({override})" if override else reason)
    verb = "stays" if refused_steps == 1 else "stay"
    return f"{refused_steps:,} of {plural(len(plan.steps), 'step')} {verb} refused: {'; '.join(reasons)}"


def _find_override(refusal: Refusal) -> str | None:
    """Return the option that overrides a refusal, such as `--accept-loss`; None if there is none."""
    for name, option in refusal.facts.items():
        if name.startswith(("to give them up", "to repair")):
            return option
    return None


def _list_overrides(plan: RepairPlan) -> dict[str, str]:
    """Return the dry run that overrides all refusals of a plan. Empty if one of them cannot be overridden."""
    overrides = [option for option in map(_find_override, plan.refusals) if option is not None]
    if not overrides or len(overrides) < len(plan.refusals):
        return {}
    words = [word for word in invocation.arguments if word not in ("--dry-run", "--yes")]
    override_words = " ".join(overrides).split()
    return {"to make all steps": repeat_command_with_flags(words, [*override_words, "--dry-run"])}


def _add_other_refusals(refused: Refused, plan: RepairPlan) -> None:
    """Add the other refusals of a plan to the error, which is about the first one."""
    if len(plan.refusals) > 1 and refused.code == plan.refusals[0].code:
        refused.facts["also"] = "; ".join(refusal.message for refusal in plan.refusals[1:])
        refused.facts.update(_list_overrides(plan))
