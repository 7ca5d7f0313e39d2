"""`deltacli vacuum TABLE...`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import find_mode_option, get_format_options, get_used_options, is_option_used
from deltacli.cli.options.paimon import BranchOption
from deltacli.cli.options.streams import AllowStreamLossOption, IgnoreStreamsOlderOption, ProtectStreamsOption
from deltacli.cli.options.tables import (
    ApplyPlanOption,
    CommitMetadataOption,
    DryRunOption,
    TablesArgument,
    YesOption,
    has_several_tables,
)
from deltacli.cli.options.values import (
    join_versions,
    make_choice_parser,
    make_duration_parser,
    make_number_parser,
    make_rate_parser,
    make_text_parser,
)
from deltacli.cli.running.changing import run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.table_formats import call_with_table
from deltacli.cli.running.vacuum import VacuumCommand, VacuumOptions, suggest_short_retention
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import PaimonTable, UsageError
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table

app = typer.Typer(add_completion=False)


class ModeChoice(StrEnum):
    """The source of candidates: a listing of the table, or the removed files in the log."""

    FULL = "full"
    LITE = "lite"


_EXECUTION_OPTIONS = ("no_log_entries", "threads", "rate", "commit_metadata", "quarantine")
"""Parameters that affect the execution of a plan. They can be combined with `--apply`."""
_REQUEST_OPTIONS = (
    "retention_ms",
    "allow_retention_below_ms",
    "mode",
    "prefix",
    "where",
    "keep_versions",
    "protect_from",
    "protect_streams",
    "ignore_streams_older_ms",
    "allow_stream_loss",
    "inventory",
    "max_delete",
    "quarantine",
    "include_foreign",
    "skip_nested_tables",
    "no_log_entries",
    "threads",
    "rate",
    "commit_metadata",
)
"""Parameters that affect the files to delete, or the execution of the plan."""
_DELTA_OPTIONS = (
    *(name for name in _REQUEST_OPTIONS if name not in ("retention_ms", "allow_retention_below_ms")),
    "save_plan",
    "apply",
    "accept_copy",
    "explain",
    "purge_older_ms",
)
_PAIMON_OPTIONS = ("schemas", "keep_last", "branch")


@app.command(
    "vacuum",
    cls=ClusterCommand,
    epilog=exit_codes(
        unreadable=True,
        refused=True,
        partly="some files could not be deleted; run it again",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def vacuum(
    context: typer.Context,
    tables: TablesArgument,
    *,
    retention_ms: Annotated[
        int | None,
        typer.Option(
            "--retention",
            metavar="DURATION",
            parser=make_duration_parser("--retention"),
            help="Age up to which files are kept, such as 14d.  [default: delta.deletedFileRetentionDuration, else 7d]",
        ),
    ] = None,
    allow_retention_below_ms: Annotated[
        int | None,
        typer.Option(
            "--allow-retention-below",
            metavar="DURATION",
            parser=make_duration_parser("--allow-retention-below"),
            help="Allow a retention below the table's own, whose value is given here, such as 168h.",
        ),
    ] = None,
    mode: Annotated[
        ModeChoice,
        typer.Option(
            "--mode",
            metavar="full|lite",
            parser=make_choice_parser(ModeChoice),
            help="Source of candidates: full lists the table, lite reads removed files from commits.  [default: full]",
        ),
    ] = ModeChoice.FULL,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="P", help="Delete only below this directory of the table.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            parser=make_text_parser("--where"),
            help="Delete only in partitions that match: \"date < '2026-01-01'\".",
        ),
    ] = None,
    keep_versions: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-version", metavar="A,B-C,…", help="Versions to keep fully readable, whatever their age. Repeatable."
        ),
    ] = None,
    protect_from: Annotated[
        list[str] | None,
        typer.Option(
            "--protect-from",
            metavar="OTHER",
            parser=make_text_parser("--protect-from"),
            help="Keep files that another table (a shallow clone) references. Repeatable.",
        ),
    ] = None,
    protect_streams: ProtectStreamsOption = None,
    ignore_streams_older_ms: IgnoreStreamsOlderOption = None,
    allow_stream_loss: AllowStreamLossOption = None,
    inventory: Annotated[
        str | None,
        typer.Option(
            "--inventory",
            metavar="FILE",
            parser=make_text_parser("--inventory"),
            help="List of files to use instead of a listing: S3 Inventory (manifest.json), Parquet, CSV.",
        ),
    ] = None,
    max_delete: Annotated[
        str,
        typer.Option(
            "--max-delete",
            metavar="N%|SIZE",
            help="Refuse to delete more than this share of the table, or more bytes.  [default: 50%]",
        ),
    ] = "50%",
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="DIRECTORY|URI",
            parser=make_text_parser("--quarantine"),
            help="Copy each file to this directory outside of all tables before it is deleted.",
        ),
    ] = None,
    include_foreign: Annotated[
        bool,
        typer.Option("--include-foreign", help="Also delete unrecognized files that are older than the retention."),
    ] = False,
    skip_nested_tables: Annotated[
        bool,
        typer.Option("--skip-nested-tables", help="Skip directories that are tables of their own instead of refusing."),
    ] = False,
    no_log_entries: Annotated[
        bool, typer.Option("--no-log-entries", help="Do not commit VACUUM START and VACUUM END.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            parser=make_number_parser(at_least=1),
            help="Number of threads that delete.  [x>=1]",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            metavar="N/s",
            parser=make_rate_parser("--rate"),
            help="Maximum files to delete per second, such as 500/s.",
        ),
    ] = None,
    commit_metadata: CommitMetadataOption = None,
    files: Annotated[
        bool, typer.Option("--files", help="List every file to delete; csv and ndjson always do.")
    ] = False,
    save_plan: Annotated[
        str | None,
        typer.Option("--save-plan", metavar="FILE", help="Write the plan to a Parquet file; delete nothing."),
    ] = None,
    apply: ApplyPlanOption = None,
    accept_copy: Annotated[
        bool,
        typer.Option(
            "--accept-copy",
            help="With --apply, accept the plan of a table elsewhere of which this one is a copy with the same past.",
        ),
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="PATH", help="Show why a file is kept or deleted; change nothing."),
    ] = None,
    purge_older_ms: Annotated[
        int | None,
        typer.Option(
            "--purge-older",
            metavar="DURATION",
            parser=make_duration_parser("--purge-older"),
            help="Only empty the quarantine of this table: delete copies older than this, such as 30d.",
        ),
    ] = None,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Delete schema files of a Paimon table that nothing needs.")
    ] = False,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last",
            metavar="K",
            parser=make_number_parser(at_least=1),
            help="Keep the last K schemas of a Paimon table, whatever their age.  [default: 10]  [x>=1]",
        ),
    ] = None,
    branch: BranchOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Delete files that no retained version needs.

    \b
    A file is deleted if it is older than the retention and nothing references it:
    not the current version, no tombstone or commit within the retention, no kept
    version and no clone. A plan that looks like an accident (an empty listing, half
    of the table deleted) is refused. Older versions are no longer fully readable:
    the plan lists them.

    \b
    Examples:
      deltacli vacuum ./tbl --dry-run
      deltacli vacuum ./tbl --retention 14d --yes  # in cron
      deltacli vacuum './lake/**' --dry-run  # several tables
      deltacli vacuum ./tbl --save-plan plan.parquet  # to review, then
      deltacli vacuum ./tbl --apply plan.parquet --yes
      deltacli vacuum ./tbl --explain day=2026-01-01/part-0.parquet
      deltacli vacuum ./tbl --quarantine ./quarantine --purge-older 30d --yes

    \b
    Hidden files, links and files that are not part of a Delta table are kept. If a
    directory below is a table itself, the run is refused, or skips it with
    --skip-nested-tables. Of a Paimon table --schemas deletes schema files that nothing has
    needed since the retention began.
    """
    run: CommandContext = context.obj
    if has_several_tables(tables):
        from deltacli.cli.running.many import run_on_tables
        from deltacli.cli.running.table_arguments import require_tables

        require_tables(tables)
    vacuum_options = VacuumOptions(
        files=files,
        save_plan=save_plan,
        apply=apply,
        explain=explain,
        purge_older_ms=purge_older_ms,
        quarantine=quarantine,
        dry_run=dry_run,
        yes=yes,
    )
    _require_one_mode(context, vacuum_options, accept_copy=accept_copy)
    added_keys = parse_commit_metadata(commit_metadata or [])
    if added_keys and no_log_entries:
        raise UsageError("--commit-metadata and --no-log-entries exclude each other")
    kept_versions = join_versions(keep_versions, "--keep-version")

    def vacuum_delta(run: CommandContext, name: str, table: Table) -> None:
        """Run the mode of the options on a Delta table."""
        vacuum_command = VacuumCommand(run, name, table, vacuum_options)
        if apply is not None:
            saved_vacuum = table.prepare_saved_vacuum(
                apply,
                quarantine=quarantine,
                threads=threads,
                rate=rate,
                log_entries=not no_log_entries,
                commit_metadata=added_keys,
                accept_copy=accept_copy,
                tell=lambda text: run.note(f"note: {text}"),
            )
            vacuum_command.apply(saved_vacuum, lambda: saved_vacuum.was_complete)
            return

        change = table.prepare_vacuum(
            retention_ms=retention_ms,
            allow_retention_below_ms=allow_retention_below_ms,
            mode=mode,
            prefix=prefix,
            where=where,
            keep_versions=kept_versions,
            protect_from=tuple(protect_from or ()),
            protect_streams=tuple(protect_streams or ()),
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=tuple(allow_stream_loss or ()),
            inventory=inventory,
            max_delete=max_delete,
            quarantine=quarantine,
            include_foreign=include_foreign,
            skip_nested_tables=skip_nested_tables,
            log_entries=not no_log_entries,
            threads=threads,
            rate=rate,
            commit_metadata=added_keys,
        )
        if purge_older_ms is not None:
            # `_require_one_mode` has checked that `--purge-older` comes with `--quarantine`.
            assert quarantine is not None
            vacuum_command.purge(quarantine, purge_older_ms)
        elif explain is not None:
            vacuum_command.explain(change, explain)
        elif save_plan is not None:
            vacuum_command.save(change, save_plan)
        else:
            vacuum_command.vacuum(change)

    def vacuum_paimon(run: CommandContext, name: str, table: Paimon) -> None:
        """Delete schema files of a Paimon table. Data files are deleted by the engines."""
        from deltacli.cli.render.paimon import make_schema_vacuum_presentation

        if not schemas:
            raise PaimonTable(
                "this is a Paimon table: vacuum deletes its schema files only, with --schemas",
                facts={"path": table.uri},
                hint="deltacli vacuum {table} --schemas --dry-run",
            )
        change = table.prepare_vacuum(
            retention_ms=retention_ms, allow_retention_below_ms=allow_retention_below_ms, keep_last=keep_last
        )
        presentation = replace(
            make_schema_vacuum_presentation(name, lists=files),
            can_be_resumed=True,
            complete_error=lambda error: suggest_short_retention(error, "if no writer is older"),
        )
        run_change(run, change, presentation, vacuum_options.mode)

    format_options = get_format_options(context, delta=_DELTA_OPTIONS, paimon=_PAIMON_OPTIONS)
    changes_table = not dry_run and save_plan is None and explain is None

    def vacuum_table(run: CommandContext, name: str) -> None:
        call_with_table(
            run,
            name,
            delta=partial(vacuum_delta, run, name),
            paimon=partial(vacuum_paimon, run, name),
            options=format_options,
            branch=branch,
            writes=changes_table,
        )

    if not has_several_tables(tables):
        vacuum_table(run, tables[0])
        return
    single_table_options = {
        "--save-plan": save_plan,
        "--apply": apply,
        "--explain": explain,
        "--purge-older": purge_older_ms,
    }
    run_on_tables(run, tables, vacuum_table, vacuum_options.mode, single_table_options, lists_files=files)


def _require_one_mode(context: typer.Context, options: VacuumOptions, *, accept_copy: bool) -> None:
    """Require that the options select one mode of the command: delete, save, apply, explain, or purge.

    Raises:
        UsageError: If options of several modes are combined, or the value of one is empty.
    """
    mode_option = find_mode_option(
        {"--save-plan": options.save_plan, "--apply": options.apply, "--explain": options.explain}
    )
    if options.purge_older_ms is not None:
        _require_purge_options(context, mode_option)
    if accept_copy and options.apply is None:
        raise UsageError("--accept-copy is for a saved plan and needs --apply FILE")
    if options.apply is not None:
        # The plan has been made with its own options. Only those for its execution are accepted.
        planning_parameters = [name for name in _REQUEST_OPTIONS if name not in _EXECUTION_OPTIONS]
        planning_options = get_used_options(context, *planning_parameters)
        if planning_options:
            raise UsageError(
                f"--apply executes a saved plan and takes no options for planning: {', '.join(planning_options)}",
                facts={"instead": "make another plan with these options and --save-plan FILE"},
            )


def _require_purge_options(context: typer.Context, mode_option: str | None) -> None:
    """Require that `--purge-older` comes with `--quarantine`, and with no option about files of the table."""
    if not is_option_used(context, "quarantine"):
        hint = repeat_command_with(invocation.arguments, "--quarantine", "URI")
        raise UsageError("--purge-older empties a quarantine and needs --quarantine URI", hint=hint)
    request_parameters = [name for name in _REQUEST_OPTIONS if name != "quarantine"]
    mode_options = [] if mode_option is None else [mode_option]
    other_options = [*mode_options, *get_used_options(context, *request_parameters, "files")]
    if other_options:
        raise UsageError(f"--purge-older deletes no file of the table and excludes {', '.join(other_options)}")
