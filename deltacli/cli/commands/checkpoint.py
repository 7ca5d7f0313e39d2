"""`deltacli checkpoint TABLE...`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.given import get_used_options
from deltacli.cli.options.moments import find_chosen_version, parse_timestamp_option
from deltacli.cli.options.tables import TablesArgument, TimestampOption, VersionOption, has_several_tables
from deltacli.cli.options.values import make_choice_parser, parse_whole_number
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import PROBLEM_DESCRIPTIONS
from deltacli.core.errors import EXIT_FINDINGS, UsageError, quote_table
from deltacli.delta.checkpoint.layout import TopFile

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.output.results import SingleResult
    from deltacli.operations.checkpoint.checkpoint import CheckpointPlan, CheckpointResult

app = typer.Typer(add_completion=False)


class LayoutChoice(StrEnum):
    """The layout of a checkpoint; `auto` follows the policy of the table."""

    AUTO = "auto"
    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2 = "v2"


class StatsChoice(StrEnum):
    """The columns of statistics in a checkpoint."""

    KEEP = "keep"
    JSON = "json"
    STRUCT = "struct"
    BOTH = "both"


@app.command(
    "checkpoint",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="with --verify: a checkpoint differs from the log, or is unreadable",
        unreadable=True,
        refused=True,
        partly=True,
        storage=True,
    ),
)
def checkpoint(
    context: typer.Context,
    tables: TablesArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    layout: Annotated[
        LayoutChoice | None,
        typer.Option(
            "--layout",
            metavar="auto|classic|multi-part|v2",
            parser=make_choice_parser(LayoutChoice),
            help="Layout of the checkpoint; auto follows the table's policy.  [default: auto]",
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(
            "--parts", metavar="N", parser=parse_whole_number, help="Number of files of a multi-part checkpoint."
        ),
    ] = None,
    rows_per_file: Annotated[
        int | None,
        typer.Option(
            "--rows-per-file",
            metavar="N",
            parser=parse_whole_number,
            help="Actions per sidecar or part.  [default: 200000 per sidecar]",
        ),
    ] = None,
    v2_top: Annotated[
        TopFile,
        typer.Option(
            "--v2-top",
            metavar="json|parquet",
            parser=make_choice_parser(TopFile),
            help="Format of the main file of a V2 checkpoint.  [default: json]",
        ),
    ] = TopFile.JSON,
    stats: Annotated[
        StatsChoice,
        typer.Option(
            "--stats",
            metavar="keep|json|struct|both",
            parser=make_choice_parser(StatsChoice),
            help="Columns of statistics; keep: as the properties ask, else as in the last checkpoint.  [default: keep]",
        ),
    ] = StatsChoice.KEEP,
    if_behind: Annotated[
        int,
        typer.Option(
            "--if-behind",
            metavar="N",
            parser=parse_whole_number,
            help="Do nothing unless N commits were made since the last checkpoint.",
        ),
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Write it even if a complete one of this version and layout exists.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare existing checkpoints with the log; write nothing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")] = False,
) -> None:
    """Write a checkpoint, so that readers have fewer commits to read.

    \b
    The checkpoint is written under a temporary name, read back and compared with
    the expected content before it gets its final name. The hint
    (_last_checkpoint) is updated last and never to an older version. Memory use
    does not grow with the number of files.

    \b
    Examples:
      deltacli checkpoint ./tbl
      deltacli checkpoint ./tbl --if-behind 10 -q > /dev/null  # in cron
      deltacli checkpoint './lake/**' --if-behind 10  # several tables
      deltacli checkpoint ./tbl --version 12
      deltacli checkpoint ./tbl --version 11 --layout multi-part --parts 2
      deltacli checkpoint ./tbl --verify
    """
    run: CommandContext = context.obj
    if has_several_tables(tables):
        from deltacli.cli.running.many import run_on_tables
        from deltacli.cli.running.table_arguments import require_tables

        require_tables(tables)
    if if_behind < 0:
        raise UsageError(f"--if-behind {if_behind} is negative")
    # Report an invalid timestamp before any table is opened.
    parse_timestamp_option(version, timestamp)

    # `--layout auto` and `--if-behind 0` are the defaults, so they do not contradict `--verify`.
    writing_parameters = ["parts", "rows_per_file", "force", "dry_run"]
    if if_behind:
        writing_parameters.insert(2, "if_behind")
    if layout is not LayoutChoice.AUTO:
        writing_parameters.insert(0, "layout")
    mode = Mode(dry_run)

    def checkpoint_table(run: CommandContext, name: str) -> None:
        """Write a checkpoint of one table, or verify its checkpoints."""
        table = run.open_table(name, writes=not (verify or dry_run))
        if verify:
            writing_options = get_used_options(context, *writing_parameters)
            if writing_options:
                raise UsageError(f"--verify writes nothing; it cannot be combined with {', '.join(writing_options)}")
            _verify(run, name, table, find_chosen_version(table, version, timestamp))
            return

        change = table.prepare_checkpoint(
            version=find_chosen_version(table, version, timestamp),
            layout=None if layout is LayoutChoice.AUTO else layout,
            parts=parts,
            rows_per_file=rows_per_file,
            v2_top=v2_top,
            stats=stats,
            if_behind=if_behind,
            force=force,
        )
        run_change(run, change, _CheckpointPresenter(run, name, table).make_presentation(), mode)

    if has_several_tables(tables):
        run_on_tables(run, tables, checkpoint_table, mode)
    else:
        checkpoint_table(run, tables[0])


def _verify(run: CommandContext, name: str, table: Table, version: int | None) -> None:
    """Compare the existing checkpoints of a version with the log, and write the result.

    Raises:
        Exit: If a checkpoint differs from the log.
    """
    from deltacli.cli.render.checkpoint import verifications

    outcomes = table.verify_checkpoints(version=version)
    if run.table_run is not None:
        files = sum(len(outcome.checkpoint.files) for outcome in outcomes)
        run.table_run.record_outcome(files, None)
    run.write(verifications(table.uri, outcomes))
    if any(outcome.is_wrong for outcome in outcomes):
        run.suggest_command(f"deltacli validate {quote_table(name)}", also_in_pipe=True)
        raise Exit(EXIT_FINDINGS)


class _CheckpointPresenter:
    """Presents the plan and the result of a checkpoint, with notes on the problems of the log.

    If a checkpoint of the same version turns out to be corrupt, the change is planned again. The second plan has that
    problem in addition. Only this problem is noted then.
    """

    def __init__(self, run: CommandContext, name: str, table: Table) -> None:
        self._run = run
        self._name = name
        self._table = table
        self._written_notes: list[str] = []

    def make_presentation(self) -> ChangePresentation[CheckpointPlan, CheckpointResult]:
        """Return the presentation of the change."""
        return ChangePresentation(
            build_question=None,
            build_plan_result=self._build_plan_result,
            build_outcome_result=self._build_result,
            suggest_after_change=self._suggest_verification,
            list_notes=self._list_notes,
            count_changed_files=_count_files,
        )

    def _build_plan_result(self, plan: CheckpointPlan, is_dry_run: bool) -> SingleResult:
        return self._build_result(self._table.preview_checkpoint(plan, dry_run=is_dry_run))

    def _build_result(self, result: CheckpointResult) -> SingleResult:
        from deltacli.cli.render.checkpoint import checkpoint_result

        written_notes = self._written_notes
        for note in self._list_notes(result.plan):
            if note not in written_notes:
                self._run.note(f"note: {note}")
        return checkpoint_result(self._table.uri, result)

    def _list_notes(self, plan: CheckpointPlan) -> list[str]:
        problems = [f"{problem}: {PROBLEM_DESCRIPTIONS[problem]}" for problem in plan.snapshot.problems]
        self._written_notes = [*problems, *plan.notes]
        return self._written_notes

    def _suggest_verification(self, result: CheckpointResult) -> str:
        return f"deltacli checkpoint {quote_table(self._name)} --verify --version {result.version}"


def _count_files(result: CheckpointResult) -> tuple[int, int]:
    return len(result.files), sum(file.size_bytes for file in result.files)
