"""`deltacli validate TABLE...`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.api.validation import RequestedValidation
from deltacli.cli.command_classes import ClusterFindingsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation, make_pastable_path
from deltacli.cli.options.findings import (
    BaselineOption,
    BriefOption,
    ExitZeroOption,
    FailOnOption,
    IgnoreOption,
    LevelChoice,
    MaxFindingsOption,
    SelectOption,
    WriteBaselineOption,
)
from deltacli.cli.options.given import is_option_used
from deltacli.cli.options.paimon import RefsOption
from deltacli.cli.options.values import join_names, make_choice_parser, make_sample_parser
from deltacli.cli.output.formats import Content
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.finding_commands import find_next_command, find_safe_repairs
from deltacli.cli.running.rule_selection import list_rules
from deltacli.cli.running.validation_rules import choose_rules
from deltacli.cli.running.validation_run import (
    GroupChoice,
    ProfileChoice,
    ValidateOptions,
    ValidationRun,
    get_failure_exit_code,
)
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with
from deltacli.core.errors import EXIT_FINDINGS, DeltacliError, UsageError, is_shared
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.choice import OWN_RULES

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.cli.running.trend_file import Trend

app = typer.Typer(add_completion=False)


@app.command(
    "validate",
    cls=ClusterFindingsCommand,
    epilog=exit_codes(
        findings="a finding has the severity of --fail-on, or a higher one",
        unreadable="nothing at a path, or a table that cannot be checked",
        storage=True,
    ),
)
def validate(
    context: typer.Context,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE...",
            parser=make_pastable_path,
            help="Tables, directories with tables below them, or patterns: paths or URIs.  [default: the current "
            "directory]",
        ),
    ] = None,
    *,
    level: Annotated[
        LevelChoice,
        typer.Option(
            "--level",
            metavar="log|storage|footers|data",
            parser=make_choice_parser(LevelChoice),
            help="What to check: the log; also a listing of the table; also footers of data files; also their rows.  "
            "[default: log]",
        ),
    ] = LevelChoice.LOG,
    sample: Annotated[
        float,
        typer.Option(
            "--sample",
            metavar="N%",
            parser=make_sample_parser("--sample"),
            help="Check only this share of the data files, such as 5%; the sample differs per version.",
        ),
    ] = 1.0,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Check only data files that may contain matching rows; all of their rows are checked.",
        ),
    ] = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = Severity.ERROR,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    trend: Annotated[
        str | None,
        typer.Option(
            "--trend",
            metavar="FILE",
            help="Append the counts of this run to FILE and compare them with the previous run.",
        ),
    ] = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="FILE", hidden=True, help="The former name of --trend.")
    ] = None,
    profile: Annotated[
        ProfileChoice | None,
        typer.Option(
            "--profile",
            metavar="current|java|cpp|python",
            parser=make_choice_parser(ProfileChoice),
            help="Reader that must accept Paimon tables; Delta tables take only current.  [default: current; java for "
            "Paimon]",
        ),
    ] = None,
    refs: RefsOption = True,
    max_findings: MaxFindingsOption = 100,
    exit_zero: ExitZeroOption = False,
    brief: BriefOption = False,
    group: Annotated[
        GroupChoice,
        typer.Option(
            "--group",
            metavar="rule|path",
            parser=make_choice_parser(GroupChoice),
            help="Order of findings: by severity and rule, grouped on a terminal, or one by one in the order of the "
            "files.  [default: rule]",
        ),
    ] = GroupChoice.RULE,
    shows_rules: Annotated[bool, typer.Option("--list-rules", help="List the rules instead; takes no TABLE.")] = False,
) -> None:
    """Check tables against the rules of the protocol.

    \b
    Reports every fault, not only the first, with file, line, values and a fix.
    Works on tables that cannot be opened. Directories are searched for tables.

    \b
    Examples:
      deltacli validate ./tbl
      deltacli validate ./tbl --level storage --fail-on warning
      deltacli validate ./tbl --level data --sample 5%
      deltacli validate './lake/**' --format sarif --output validate.sarif
      deltacli validate ./tbl --write-baseline known.json
      deltacli validate ./tbl --baseline known.json
      deltacli validate './lake/**' --trend trend.ndjson
      deltacli validate ./tbl --select 'checkpoint.*,hint.*' --format github
      deltacli validate --list-rules --select 'log.*'
      deltacli validate ./paimon_tbl --profile cpp

    \b
    Nothing is changed. Of Paimon tables the schemas are checked, and whether all
    schemas exist that snapshots and data files name.
    """
    run: CommandContext = context.obj
    request = RequestedValidation(
        level=level,
        sample=sample,
        where=where,
        select=join_names(select, "--select"),
        ignore=join_names(ignore, "--ignore"),
    )
    options = ValidateOptions(
        fail_on=fail_on,
        baseline=baseline,
        write_baseline=write_baseline,
        trend=trend,
        history=history,
        profile=profile,
        refs=refs,
        max_findings=max_findings,
        exit_zero=exit_zero,
        brief=brief,
        group=group,
        list_rules=shows_rules,
    )
    if options.list_rules and tables:
        raise UsageError(
            "--list-rules takes no TABLE",
            hint=repeat_command([word for word in invocation.arguments if word not in tables]),
        )
    if options.list_rules:
        levels = [request.level] if is_option_used(context, "level") else list(LevelChoice)
        rules = choose_rules(run, request, levels)
        has_only_paimon_rules = bool(rules) and all(rule.id.startswith("paimon.") for rule in rules)
        list_rules(run, rules, "paimon" if has_only_paimon_rules else "delta")
        return

    exit_code = _check_tables(run, request, options, tables or [])
    if exit_code:
        raise Exit(exit_code)


def _check_tables(
    run: CommandContext, request: RequestedValidation, options: ValidateOptions, tables: Sequence[str]
) -> int:
    """Check the tables, write the result, and append the counts to the trend file. Returns the exit code."""
    trend = _open_trend(run, options)
    validation_run = ValidationRun(run, request, options)
    try:
        report = validation_run.check_all(tables)
    except (DeltacliError, Exit) as error:
        # A trend without the runs that failed would look better than the tables are.
        if trend is not None and validation_run.has_only_failures:
            trend.append(validation_run.make_trend_entry(error.exit_code))
        raise

    exit_code = _find_exit_code(options, report)
    if trend is not None:
        entry = validation_run.make_trend_entry(exit_code)
        trend.append(entry)
        comparison = trend.compare(entry)
        if comparison is not None and run.is_on_screen:
            run.note(f"note: {comparison}")
    _note_counts(run, report)
    if run.is_on_screen:
        _suggest_commands(run, request, report)
    return exit_code


def _open_trend(run: CommandContext, options: ValidateOptions) -> Trend | None:
    """Return the trend file of the run. Raises UsageError if it is invalid, or another option names the same file."""
    if options.trend_file is None:
        return None
    from deltacli.cli.running.trend_file import Trend

    other_files = {
        "--output": run.output,
        "--baseline": options.baseline,
        "--write-baseline": options.write_baseline,
    }
    for option, file in other_files.items():
        if file is not None and os.path.realpath(file) == os.path.realpath(options.trend_file):
            raise UsageError(f"--trend and {option} are the same file, {file}")
    return Trend(options.trend_file)


def _find_exit_code(options: ValidateOptions, report: ValidationReport) -> int:
    """Return 3 or 7 if a path could not be checked, else 1 if a finding has the severity of `--fail-on`, else 0."""
    if report.failures:
        return get_failure_exit_code(report.failures)
    # Findings that are written to a new baseline are accepted from now on.
    ignores_findings = options.exit_zero or options.write_baseline is not None
    has_failed = any(table.fails for table in report.tables)
    return EXIT_FINDINGS if has_failed and not ignores_findings else 0


def _note_counts(run: CommandContext, report: ValidationReport) -> None:
    """Note the number of findings if the format of the result, such as SARIF, cannot contain it."""
    from deltacli.cli.render.validate.findings import summary_sentence

    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")


def _suggest_commands(run: CommandContext, request: RequestedValidation, report: ValidationReport) -> None:
    """Suggest the repair of a finding, and a check at the next level."""
    next_command = find_next_command(report, OWN_RULES)
    if next_command is not None:
        run.suggest_command(next_command)
        for command in find_safe_repairs(report, next_command):
            run.suggest_command(command)

    if report.table_format == "delta" and _is_next_level_useful(request, report):
        next_levels = dict(pairwise(LevelChoice))
        level = next_levels[LevelChoice(request.level)]
        # The level `storage` compares the log with a listing. A share has no listing.
        if level == LevelChoice.STORAGE and all(is_shared(table.name) for table in report.tables):
            level = LevelChoice.FOOTERS
        run.suggest_command(repeat_command_with(invocation.arguments, "--level", level))


def _is_next_level_useful(request: RequestedValidation, report: ValidationReport) -> bool:
    """Return whether the next level may find more: nothing was found, or only warnings in a log that can be read."""
    counts = report.counts
    if not counts.rules:
        return request.level != LevelChoice.DATA
    is_readable = all(table.validation.is_readable for table in report.tables)
    return request.level == LevelChoice.LOG and bool(counts.warnings) and not counts.errors and is_readable
