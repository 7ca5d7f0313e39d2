"""`deltacli validate TABLE...`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.finding_filter import list_rules, next_command, require_known
from deltacli.cli.formats import Content, FindingFormat
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import argument
from deltacli.cli.options.global_options import TableFormat
from deltacli.cli.options.request_options import Asked
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again, again_with
from deltacli.cli.validate_runner import Checker, ValidateOptions, failure_code
from deltacli.core.errors import EXIT_FINDINGS, DeltacliError, UsageError
from deltacli.operations.validate.request import LevelChoice, ValidateRequest

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.cli.trend_file import Trend
    from deltacli.rules.framework.base import Rule

EXIT_CODES = (0, 1, 2, 3, 7, 70)
FORMATS = FindingFormat
RUNS_ON_CLUSTER = True
_NAMED = 5

TablesArgument = Annotated[
    list[str] | None,
    argument("Tables, directories with tables below them, or patterns: paths or URIs.", "TABLE..."),
]


def validate(
    run: Run, tables: TablesArgument = None, *, asked: Asked[ValidateRequest], wanted: ValidateOptions
) -> None:
    """Check tables against the rules of the protocol.

    \b
    Reports every fault, not only the first, with file, line, values and a fix.
    Works on tables that cannot be opened. Directories are searched for tables.
    Nothing is changed. Of Paimon tables the schemas are checked, and whether all
    schemas exist that snapshots and data files name.

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
    """
    request = asked.request()
    if wanted.list_rules and tables:
        raise UsageError(
            "--list-rules takes no TABLE", hint=again([word for word in invocation.arguments if word not in tables])
        )
    if wanted.list_rules:
        rules = _choose_rules(run, request, [request.level] if "level" in asked.values else [*LevelChoice])
        is_paimon = bool(rules) and all(rule.id.startswith("paimon.") for rule in rules)
        list_rules(run, rules, "paimon" if is_paimon else "delta")
    elif not tables:
        raise UsageError("missing argument TABLE", code="usage.table", hint="deltacli validate --help")
    elif code := _check(run, request, wanted, tables):
        raise typer.Exit(code)


def _check(run: Run, request: ValidateRequest, wanted: ValidateOptions, tables: Sequence[str]) -> int:
    """Check the tables, write what was found, and return the exit code."""
    trend = _open_trend(run, wanted)
    checker = Checker(run, request, wanted, partial(_choose_rules, run, request, [request.level]))
    try:
        report = checker.run_all(tables)
    except (DeltacliError, typer.Exit) as ended:
        if trend is not None and checker.has_only_failures:
            trend.append(checker.entry(ended.exit_code))
        raise
    code = _exit_code(wanted, report)
    if trend is not None:
        entry = checker.entry(code)
        trend.append(entry)
        _say_what_changed(run, trend.compare(entry))
    _say_what_next(run, request, report)
    return code


def _open_trend(run: Run, wanted: ValidateOptions) -> Trend | None:
    """Return the trend to append to. Raises UsageError where the file is not a trend, or is named twice."""
    if wanted.trend_file is None:
        return None
    from deltacli.cli.trend_file import Trend

    others = {"--output": run.output, "--baseline": wanted.baseline, "--write-baseline": wanted.write_baseline}
    for flag, name in others.items():
        if name is not None and os.path.realpath(name) == os.path.realpath(wanted.trend_file):
            raise UsageError(f"--trend and {flag} are the same file, {name}")
    return Trend(wanted.trend_file)


def _say_what_changed(run: Run, sentence: str | None) -> None:
    if sentence is not None and run.is_on_screen:
        run.note(f"note: {sentence}")


def _choose_rules(run: Run, request: ValidateRequest, levels: Sequence[str]) -> list[Rule]:
    """Return the selected rules of these levels. Raises UsageError where there are none."""
    from deltacli.operations.validate.findings import RuleChoice

    known = _known_rules(run, request)
    try:
        require_known(run, "validate", list(known), request.select, request.ignore)
    except UsageError as fault:
        meant = known.get(fault.near or "")
        if meant is not None and meant.level not in levels:
            words = [
                meant.id if word in request.select and word not in known else word for word in invocation.arguments
            ]
            fault.reason += f" It is checked at --level {meant.level}"
            fault.near, fault.hint = None, again_with(words, "--level", meant.level)  # which has it
        raise

    def chosen(names: Sequence[str]) -> list[Rule]:
        choices = [RuleChoice(name, request.select, request.ignore) for name in names]
        return [rule for rule in known.values() if any(choice.takes(rule) for choice in choices)]

    rules = chosen(levels)
    if not rules:
        elsewhere = chosen(list(LevelChoice))
        raise UsageError(
            f"no rule is left to check at --level {request.level}",
            code="usage.rule",
            facts={"at other levels": ", ".join(rule.id for rule in elsewhere[:_NAMED])} if elsewhere else None,
            hint=again_with(invocation.arguments, "--level", elsewhere[0].level) if elsewhere else None,
        )
    return rules


def _known_rules(run: Run, request: ValidateRequest) -> Mapping[str, Rule]:
    """Return the rules to choose from: those for Delta tables, and those for Paimon tables where some are named."""
    from deltacli.rules.framework.catalogue import CATALOGUE

    names_paimon = bool(request.select) or any(pattern.startswith("paimon") for pattern in request.ignore)
    if run.table_format is not TableFormat.PAIMON and not names_paimon:
        return CATALOGUE.rules
    from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

    of_paimon = PAIMON_CATALOGUE.rules
    return of_paimon if run.table_format is TableFormat.PAIMON else {**CATALOGUE.rules, **of_paimon}


def _exit_code(wanted: ValidateOptions, report: ValidationReport) -> int:
    """Return 3 or 7 where a path could not be checked, else 1 where a finding reaches `--fail-on`."""
    if report.failures:
        return failure_code(report.failures)
    is_accepted = wanted.exit_zero or wanted.write_baseline is not None
    return EXIT_FINDINGS if any(table.fails for table in report.tables) and not is_accepted else 0


def _say_what_next(run: Run, request: ValidateRequest, report: ValidationReport) -> None:
    """Write the counts where the format has no place for them, or the next command."""
    from deltacli.cli.render.validate.findings import summary_sentence

    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")
    if not run.is_on_screen:
        return
    from deltacli.operations.validate.findings import OWN_RULES

    if (following := next_command(report, OWN_RULES)) is not None:
        run.say_next(following)
    elif not report.counts.rules and request.level != LevelChoice.DATA and report.table_format == "delta":
        level = dict(pairwise(LevelChoice))[LevelChoice(request.level)]
        run.say_next(again_with(invocation.arguments, "--level", level))
