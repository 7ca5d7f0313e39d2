"""`deltacli copy SRC DST`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.tables import DryRunOption
from deltacli.cli.options.values import make_choice_parser, make_duration_parser, make_number_parser, make_text_parser
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.running.changing import Mode, Wording, run_change
from deltacli.cli.running.run import CommandContext
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.errors import EXIT_FINDINGS, quote_table
from deltacli.core.units import plural
from deltacli.operations.copy.request import CopyLevel, CopyRequest

if TYPE_CHECKING:
    from deltacli.operations.copy.execute import CopyResult
    from deltacli.operations.copy.plan import CopyPlan

app = typer.Typer(add_completion=False)


@app.command(
    "copy",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="with --check: the target differs from the source",
        unreadable=True,
        refused=True,
        partly="an error or the time budget ended it; run it again",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def copy(
    context: typer.Context,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Table to copy: a path or URI.")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="Directory of the copy, new or a replica: a path or URI.")],
    *,
    versions: Annotated[
        str | None,
        typer.Option(
            "--versions",
            metavar="N-M",
            parser=make_text_parser("--versions"),
            help="Copy only these versions.  [default: all that can be rebuilt]",
        ),
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Copy only the newest version.")] = False,
    replica: Annotated[
        bool,
        typer.Option("--replica", help="Keep the table id and every commit; run again to bring the target up to date."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare the target with the source; copy nothing.")] = False,
    level: Annotated[
        CopyLevel,
        typer.Option(
            "--level",
            metavar="storage|footers|data",
            parser=make_choice_parser(CopyLevel),
            help="What to compare with the source.  [default: storage]",
        ),
    ] = CopyLevel.STORAGE,
    keep_external: Annotated[
        bool,
        typer.Option("--keep-external", help="Keep paths that lead out of the source, whose files are not copied."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            parser=make_number_parser(at_least=1),
            help="Files to copy at a time.  [default: by the stores]  [x>=1]",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="SIZE/s",
            parser=make_text_parser("--rate"),
            help="Bytes to copy per second, such as 50MiB/s.",
        ),
    ] = None,
    time_budget_ms: Annotated[
        int | None,
        typer.Option(
            "--time-budget",
            metavar="DURATION",
            parser=make_duration_parser("--time-budget", "m"),
            help="Begin no file after this time, such as 30m; run the same command to continue.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Copy a table to another place, and verify the copy.

    \b
    Copies the files that the versions need, then the commits in their order: at any
    time DST is either not yet a table or a readable one. The same command continues
    an interrupted run. The copy gets a table id of its own in one more commit; with
    --replica it keeps the id and every commit, and the same command brings it up to
    date. Sizes and the digest of the state are compared with the source, with
    --level data every byte.

    \b
    Examples:
      deltacli copy ./tbl /backups/tbl --dry-run
      deltacli copy ./tbl /backups/tbl
      deltacli copy ./tbl /backups/newest --newest
      deltacli copy s3://lake/events gs://safe/events --replica
      deltacli copy s3://lake/events gs://safe/events --check --level data
    """
    run: CommandContext = context.obj
    request = CopyRequest(
        versions=versions,
        newest=newest,
        replica=replica,
        check=check,
        level=level,
        keep_external=keep_external,
        threads=threads,
        rate=rate,
        time_budget_ms=time_budget_ms,
    )
    copy_table(run, src, dst, request, dry_run=dry_run)


def copy_table(run: CommandContext, src: str, dst: str, request: CopyRequest, *, dry_run: bool) -> None:
    """Copy a table, or compare it with its copy, and write the result."""
    from deltacli.operations.copy.execute import Copy, CopyResult, check_copy

    opened, target = run.open_table(src), run.open_other(dst, writes=not (dry_run or request.check))
    if request.check:
        checked = check_copy(opened, target, request)
        run.write(copy_result(checked))
        if checked.differences:
            raise Exit(EXIT_FINDINGS)
        return
    wording: Wording[CopyPlan, CopyResult] = Wording(
        question=None,
        planned=lambda plan, is_plan: copy_result(CopyResult(plan, dry_run=is_plan)),
        done=copy_result,
        following=lambda _: f"deltacli validate {quote_table(dst)} --level storage",
        repeats=True,
    )
    run_change(run, opened, Copy(target, request), wording, Mode(dry_run))


# -- what is shown -----------------------------------------------------------------------------------------------------

_NAMED = 10
_COMPARED = {
    "storage": "sizes, and the digest of the state",
    "footers": "sizes, footers, and the digest of the state",
    "data": "every byte, and the digest of the state",
}


def copy_result(result: CopyResult) -> SingleResult:
    """Return what a copy did, would do, or found."""
    content = result.as_json()
    files, lag = content["files"], content["lag"]
    assert isinstance(files, dict)
    assert isinstance(lag, dict)
    columns = ("source", "target", "copied", "sizeBytes", "skipped", "lagVersions", "lagSeconds", "differences")
    row = {
        "source": content["source"],
        "target": content["target"],
        **files,
        "lagVersions": lag["versions"],
        "lagSeconds": lag["seconds"],
        "differences": len(result.differences),
    }
    return SingleResult("copy", result.plan.base_version.table.uri, content, lambda: _sections(result), [row], columns)


def _sections(result: CopyResult) -> list[Section]:
    plan, lag = result.plan, result.lag or result.plan.lag
    amount = plan.to_copy if result.dry_run else result.copied
    verb = "would copy" if result.dry_run else "copied"
    behind = f"{plural(lag.versions, 'version')}" + ("" if lag.seconds is None else f", {lag.seconds:,.0f} s")
    named = [f"{one.path}: {one.problem}, {one.reason}" for one in result.differences[:_NAMED]]
    more = len(result.differences) - len(named)
    is_check = plan.request.check
    return [
        Section("source", [plan.base_version.table.uri]),
        Section("target", [plan.target.uri]),
        Section("version", [str(plan.last)])
        if plan.first == plan.last
        else Section("versions", [f"{plan.first} to {plan.last}"]),
        *(
            []
            if is_check
            else [Section(verb, ["nothing" if plan.is_noop else format_file_totals(*amount[:2])], Style.GOOD)]
        ),
        Section("unchanged", [format_file_totals(*plan.skipped[:2])] if plan.skipped.files else []),
        Section("behind", [behind] if lag.versions and (is_check or lag.seconds is not None) else []),
        Section("compared", [_COMPARED[result.verified]] if result.verified else []),
        Section("committed", [] if result.committed_version is None else [f"version {result.committed_version}"]),
        Section("note", plan.notes, Style.WARNING),
        *([Section("differences", named or ["none"], Style.PROBLEM if named else Style.GOOD)] if is_check else []),
        Section("and", [f"{more:,} more: --json shows all"] if more > 0 else []),
        make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals),
    ]
