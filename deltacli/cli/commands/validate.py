"""`deltacli validate TABLE...`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.formats import Content, FindingFormat
from deltacli.cli.invocation import invocation
from deltacli.cli.options.findings import (
    DEFAULT_MOST,
    BaselineOption,
    BriefOption,
    ExitZeroOption,
    FailOn,
    FailOnOption,
    IgnoreOption,
    ListRulesOption,
    MaxFindingsOption,
    SelectOption,
    WriteBaselineOption,
    most_findings,
    split_patterns,
)
from deltacli.cli.options.global_options import TableFormat
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import RefsOption
from deltacli.cli.terminal.shell import again_with, quoted
from deltacli.did_you_mean import nearest_name
from deltacli.errors import EXIT_FINDINGS, DeltacliError, UsageError

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.cli.trend_file import Trend
    from deltacli.cli.validate_runner import ValidateOptions
    from deltacli.delta.rules.framework.base import Rule
    from deltacli.operations.validate.validate import FileLimits

EXIT_CODES = (0, 1, 2, 3, 7, 70)
FORMATS = FindingFormat
RUNS_ON_CLUSTER = True
_NAMED = 5


class LevelChoice(StrEnum):
    LOG = "log"
    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"


_NEXT_LEVEL = {
    LevelChoice.LOG: LevelChoice.STORAGE,
    LevelChoice.STORAGE: LevelChoice.FOOTERS,
    LevelChoice.FOOTERS: LevelChoice.DATA,
}


class ProfileChoice(StrEnum):
    CURRENT = "current"
    DRAFT = "draft"
    JAVA = "java"
    CPP = "cpp"
    PYTHON = "python"


class GroupChoice(StrEnum):
    RULE = "rule"
    PATH = "path"


TablesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE...",
        help="Tables, directories with tables below them, or patterns: paths or URIs.",
        show_default=False,
    ),
]
LevelOption = Annotated[
    LevelChoice | None,
    typer.Option(
        "--level",
        metavar="log|storage|footers|data",
        help="What to check: the log; also a listing of the table; also footers of data files; also their rows.  "
        "[default: log]",
        show_default=False,
    ),
]
SampleOption = Annotated[
    str | None,
    typer.Option(
        "--sample",
        metavar="N%",
        help="Check only a sample of the data files, a number or a share; it differs per version.",
        show_default=False,
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Check only data files that may contain matching rows; all of their rows are checked.",
        show_default=False,
    ),
]
TrendOption = Annotated[
    str | None,
    typer.Option(
        "--trend",
        metavar="FILE",
        help="Append the counts of this run to FILE and compare them with the previous run.",
        show_default=False,
    ),
]
HistoryOption = Annotated[
    str | None,
    typer.Option("--history", metavar="FILE", help="The former name of --trend.", hidden=True, show_default=False),
]
ProfileOption = Annotated[
    ProfileChoice | None,
    typer.Option(
        "--profile",
        metavar="current|draft|java|cpp|python",
        help="Check the current protocol, or only its old draft; of Paimon tables, the reader that has to accept "
        "them.  [default: current; java for Paimon]",
        show_default=False,
    ),
]
GroupOption = Annotated[
    GroupChoice,
    typer.Option(
        "--group",
        metavar="rule|path",
        help="Order of findings on a terminal: grouped by severity and rule, or one by one in the order of the files.",
    ),
]


def validate(
    run: Run,
    tables: TablesArgument = None,
    *,
    level: LevelOption = None,
    sample: SampleOption = None,
    where: WhereOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    trend: TrendOption = None,
    history: HistoryOption = None,
    profile: ProfileOption = None,
    refs: RefsOption = True,
    max_findings: MaxFindingsOption = DEFAULT_MOST,
    exit_zero: ExitZeroOption = False,
    brief: BriefOption = False,
    group: GroupOption = GroupChoice.RULE,
    list_rules: ListRulesOption = False,
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
      deltacli validate ./tbl --baseline known.json --write-baseline known.json
      deltacli validate './lake/**' --trend trend.ndjson
      deltacli validate ./tbl --select 'checkpoint.*,hint.*' --format github
      deltacli validate --list-rules --select 'log.*'
      deltacli validate ./paimon_tbl --profile cpp
    """
    from deltacli.cli.validate_runner import ValidateOptions
    from deltacli.delta.rules.framework.base import Severity

    wanted = ValidateOptions(
        level=level or LevelChoice.LOG,
        limits=_limits(level, sample, where),
        select=split_patterns(select),
        ignore=split_patterns(ignore),
        profile=profile,
        fail_on=Severity(fail_on.value),
        most=most_findings(max_findings),
        baseline=baseline,
        write_baseline=write_baseline,
        trend=_one_trend(trend, history),
        brief=brief,
        by_path=group is GroupChoice.PATH,
        refs=refs,
    )
    if list_rules:
        _list_rules(run, _choose_rules(run, wanted, (level,) if level else list(LevelChoice)))
    else:
        _check_tables(run, wanted, tables, exit_zero=exit_zero)


def _list_rules(run: Run, rules: Sequence[Rule]) -> None:
    from deltacli.cli.render.validate.rules import RulesResult, require_list_format

    require_list_format(run.format)
    is_paimon = bool(rules) and all(rule.id.startswith("paimon.") for rule in rules)
    run.write(RulesResult(rules, "paimon" if is_paimon else "delta"))


def _check_tables(run: Run, wanted: ValidateOptions, tables: Sequence[str] | None, *, exit_zero: bool) -> None:
    """Check the tables. Raises typer.Exit where the exit code is not 0, and UsageError where no table is given."""
    if not tables:
        raise UsageError("missing argument TABLE", code="usage.table", hint="deltacli validate --help")
    if code := _check(run, wanted, tables, exit_zero=exit_zero):
        raise typer.Exit(code)


def _check(run: Run, wanted: ValidateOptions, tables: Sequence[str], *, exit_zero: bool) -> int:
    """Check the tables, write what was found, and return the exit code."""
    from deltacli.cli.validate_runner import Checker

    trend = _open_trend(run, wanted)
    checker = Checker(run, wanted, partial(_choose_rules, run, wanted, (wanted.level,)))
    try:
        report = checker.run_all(tables)
    except (DeltacliError, typer.Exit) as ended:
        if trend is not None and checker.has_only_failures:
            trend.append(checker.entry(ended.exit_code))
        raise
    code = _exit_code(wanted, report, exit_zero=exit_zero)
    if trend is not None:
        entry = checker.entry(code)
        trend.append(entry)
        _say_what_changed(run, trend.compare(entry))
    _say_what_next(run, wanted, report)
    return code


def _limits(level: LevelChoice | None, sample: str | None, where: str | None) -> FileLimits:
    """Return which data files are opened. Raises UsageError (`usage.sample`)."""
    from deltacli.operations.validate.validate import FileLimits
    from deltacli.units import parse_share

    option = "--sample" if sample is not None else "--where" if where is not None else None
    if option is not None and level not in (LevelChoice.FOOTERS, LevelChoice.DATA):
        raise UsageError(
            f"{option} limits the data files, and --level {level or LevelChoice.LOG} opens none",
            code="usage.sample",
            hint=again_with(invocation.arguments, "--level", "data"),
        )
    try:
        return FileLimits(1.0 if sample is None else parse_share(sample), where)
    except ValueError as fault:
        raise UsageError(
            f"--sample {fault}", code="usage.sample", facts={"expected": "more than 0%, up to 100%"}
        ) from fault


def _one_trend(trend: str | None, history: str | None) -> str | None:
    """Return the file of `--trend`, or of its former name. Raises UsageError where they differ."""
    if trend is not None and history is not None and trend != history:
        raise UsageError(f"--history is the former name of --trend; they name different files: {history}, {trend}")
    return history if trend is None else trend


def _open_trend(run: Run, wanted: ValidateOptions) -> Trend | None:
    """Return the trend to append to. Raises UsageError where the file is not a trend, or is named twice."""
    if wanted.trend is None:
        return None
    from deltacli.cli.trend_file import Trend

    others = {"--output": run.output, "--baseline": wanted.baseline, "--write-baseline": wanted.write_baseline}
    for option, name in others.items():
        if name is not None and os.path.realpath(name) == os.path.realpath(wanted.trend):
            raise UsageError(f"--trend and {option} are the same file, {name}")
    return Trend(wanted.trend)


def _say_what_changed(run: Run, sentence: str | None) -> None:
    if sentence is not None and run.is_on_screen:
        run.note(f"note: {sentence}")


def _choose_rules(run: Run, wanted: ValidateOptions, levels: Sequence[str]) -> list[Rule]:
    """Return the selected rules of these levels. Raises UsageError where there are none."""
    from deltacli.cli.render.validate.report import LEVEL_NAMES
    from deltacli.operations.validate.findings import RuleChoice

    known = _known_rules(run, wanted)
    _require_known(run, wanted, list(known))

    def chosen(names: Sequence[str]) -> list[Rule]:
        profile = wanted.profile or ProfileChoice.CURRENT
        choices = [RuleChoice(name, wanted.select, wanted.ignore, profile) for name in names]
        return [rule for rule in known.values() if any(choice.takes(rule) for choice in choices)]

    rules = chosen(levels)
    if not rules:
        elsewhere = chosen(list(LevelChoice))
        raise UsageError(
            f"no rule is left to check at --level {wanted.level}",
            code="usage.rule",
            facts={"at other levels": ", ".join(rule.id for rule in elsewhere[:_NAMED])} if elsewhere else None,
            hint=again_with(invocation.arguments, "--level", LEVEL_NAMES[elsewhere[0].level]) if elsewhere else None,
        )
    return rules


def _known_rules(run: Run, wanted: ValidateOptions) -> Mapping[str, Rule]:
    """Return the rules to choose from: those for Delta tables, and those for Paimon tables where some are named."""
    from deltacli.delta.rules.framework.catalogue import CATALOGUE

    names_paimon = bool(wanted.select) or any(pattern.startswith("paimon") for pattern in wanted.ignore)
    if run.table_format is not TableFormat.PAIMON and not names_paimon:
        return CATALOGUE.rules
    from deltacli.paimon.rules.catalogue import PAIMON_CATALOGUE

    of_paimon = PAIMON_CATALOGUE.rules
    return of_paimon if run.table_format is TableFormat.PAIMON else {**CATALOGUE.rules, **of_paimon}


def _require_known(run: Run, wanted: ValidateOptions, known: Sequence[str]) -> None:
    """Raise UsageError for an unknown selected rule; an ignored one may belong to another version."""
    from fnmatch import fnmatchcase

    for option, patterns in (("--select", wanted.select), ("--ignore", wanted.ignore)):
        for pattern in patterns:
            if any(fnmatchcase(rule_id, pattern) for rule_id in known):
                continue
            if option == "--select":
                raise _unknown_rule(pattern, known)
            run.note(f"note: --ignore {quoted(pattern)} matches no rule of this version")


def _unknown_rule(pattern: str, known: Sequence[str]) -> UsageError:
    nearest = nearest_name(pattern, known)
    return UsageError(
        f"no rule matches {pattern!r}" + (f"; did you mean {nearest!r}?" if nearest else ""),
        code="usage.rule",
        hint="deltacli validate --list-rules",
    )


def _exit_code(wanted: ValidateOptions, report: ValidationReport, *, exit_zero: bool) -> int:
    """Return 3 or 7 where a path could not be checked, else 1 where a finding reaches `--fail-on`."""
    from deltacli.cli.validate_runner import failure_code

    if report.failures:
        return failure_code(report.failures)
    is_accepted = exit_zero or wanted.write_baseline is not None
    return EXIT_FINDINGS if any(table.fails for table in report.tables) and not is_accepted else 0


def _say_what_next(run: Run, wanted: ValidateOptions, report: ValidationReport) -> None:
    """Write the counts where the format has no place for them, or the next command."""
    from deltacli.cli.render.validate.findings import summary_sentence
    from deltacli.cli.render.validate.report import worst_first
    from deltacli.operations.validate.findings import OWN_RULES

    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")
    if not run.is_on_screen:
        return
    findings = [finding for table in report.tables for finding in table.findings]
    ids = [finding.rule.id for finding in sorted(findings, key=worst_first)]
    reported = dict.fromkeys(rule for rule in ids if rule not in OWN_RULES)
    if any(table.suppressed for table in report.tables):
        run.note(f"next: {again_with(invocation.arguments, '--max-findings', '0')}")
    elif reported:
        chosen = quoted(",".join(list(reported)[:_NAMED]))
        run.note(f"next: deltacli validate --list-rules --select {chosen}")
    elif not ids and wanted.level in _NEXT_LEVEL and report.table_format == "delta":
        level = _NEXT_LEVEL[LevelChoice(wanted.level)]
        run.note(f"next: {again_with(invocation.arguments, '--level', level)}")
