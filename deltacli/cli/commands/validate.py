"""`deltacli validate TABLE...`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.options import FindingFormat, OutputFormat, Run, invocation
from deltacli.cli.shell import again_with, quoted, quoted_table
from deltacli.errors import EXIT_FINDINGS, UsageError

if TYPE_CHECKING:
    from deltacli.cli.checker import Wanted
    from deltacli.cli.render.checkup import Checkup
    from deltacli.delta.rules.base import Rule

EXIT_CODES = (0, 1, 2, 3, 7, 70)
FORMATS = FindingFormat
DEFAULT_MOST = 100
_NAMED = 5


class LevelChoice(StrEnum):
    LOG = "log"
    STORAGE = "storage"


class ProfileChoice(StrEnum):
    CURRENT = "current"
    DRAFT = "draft"


class FailOn(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


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
        metavar="log|storage",
        help="How far to look: the log's files, or a listing of the table, too.  [default: log]",
        show_default=False,
    ),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="A,B,…", help="Only these rules: globs over their ids. Repeatable.", show_default=False
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="A,B,…", help="Not these rules: globs over their ids. Repeatable.", show_default=False
    ),
]
FailOnOption = Annotated[
    FailOn, typer.Option("--fail-on", metavar="error|warning|info", help="The least severity that is exit 1.")
]
BaselineOption = Annotated[
    str | None,
    typer.Option("--baseline", metavar="FILE", help="Accept the findings written down there.", show_default=False),
]
WriteBaselineOption = Annotated[
    str | None,
    typer.Option(
        "--write-baseline",
        metavar="FILE",
        help="Write today's findings down, to accept them from now on, and exit 0.",
        show_default=False,
    ),
]
ProfileOption = Annotated[
    ProfileChoice,
    typer.Option("--profile", metavar="current|draft", help="The protocol as it is, or only what its old draft asks."),
]
MaxFindingsOption = Annotated[
    int, typer.Option("--max-findings", metavar="N", help="Findings shown for each rule and table, 0 = all.")
]
ExitZeroOption = Annotated[bool, typer.Option("--exit-zero", help="Exit 0 whatever is found.")]
BriefOption = Annotated[bool, typer.Option("--brief", help="One line a finding in a table: no values, no fixes.")]
ListRulesOption = Annotated[bool, typer.Option("--list-rules", help="List the rules instead; needs no TABLE.")]


def validate(
    run: Run,
    tables: TablesArgument = None,
    *,
    level: LevelOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    profile: ProfileOption = ProfileChoice.CURRENT,
    max_findings: MaxFindingsOption = DEFAULT_MOST,
    exit_zero: ExitZeroOption = False,
    brief: BriefOption = False,
    list_rules: ListRulesOption = False,
) -> None:
    """Check tables against the rules of the protocol.

    \b
    Every fault is a finding, not only the first, with file, line, what was seen
    and how to mend it. Works on tables that can't be opened. Directories are
    searched for tables. Nothing is changed.

    \b
    Examples:
      deltacli validate ./tbl
      deltacli validate ./tbl --level storage --fail-on warning
      deltacli validate './lake/**' --format sarif --output validate.sarif
      deltacli validate ./tbl --baseline known.json --write-baseline known.json
      deltacli validate ./tbl --select 'checkpoint.*,hint.*' --format github
      deltacli validate --list-rules --select 'log.*'
    """
    from deltacli.cli.checker import Checker, Wanted
    from deltacli.delta.rules.base import Severity

    if max_findings < 0:
        raise UsageError(f"--max-findings {max_findings} is negative", facts={"expected": "0 (all) or more"})
    wanted = Wanted(
        level=level or LevelChoice.LOG,
        select=_split(select),
        ignore=_split(ignore),
        profile=profile,
        fail_on=Severity(fail_on.value),
        most=max_findings,
        baseline=baseline,
        write_baseline=write_baseline,
        brief=brief,
    )
    if list_rules:
        rules = _choose_rules(run, wanted, (level,) if level else list(LevelChoice))
        from deltacli.cli.render.rules import require_list_format, write_rules

        require_list_format(run.format)
        with run.sink() as sink:
            write_rules(sink, run.terminal, run.format, rules)
        return
    if not tables:
        raise UsageError("there is no TABLE to validate", code="usage.table", hint="deltacli validate --help")
    checkup = Checker(run, wanted, _choose_rules(run, wanted, (wanted.level,))).run_all(tables)
    _say_what_next(run, wanted, checkup)
    code = _exit_code(wanted, checkup, exit_zero=exit_zero)
    if code:
        raise typer.Exit(code)


def _split(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


def _choose_rules(run: Run, wanted: Wanted, levels: Sequence[str]) -> list[Rule]:
    """The rules of these levels that the options ask for. Raises UsageError where that is none."""
    from deltacli.delta.rules.catalogue import catalogue
    from deltacli.operations.findings import Choice

    known = catalogue().rules
    _require_known(run, wanted, list(known))

    def chosen(names: Sequence[str]) -> list[Rule]:
        choices = [Choice(name, wanted.select, wanted.ignore, wanted.profile) for name in names]
        return [rule for rule in known.values() if any(choice.takes(rule) for choice in choices)]

    rules = chosen(levels)
    if not rules:
        elsewhere = chosen(list(LevelChoice))
        raise UsageError(
            f"no rule is left to check at --level {wanted.level}",
            code="usage.rule",
            facts={"at other levels": ", ".join(rule.id for rule in elsewhere[:_NAMED])} if elsewhere else None,
            hint=again_with(invocation.arguments, "--level", "storage") if elsewhere else None,
        )
    return rules


def _require_known(run: Run, wanted: Wanted, known: Sequence[str]) -> None:
    """Raise UsageError for a selected rule that nobody knows; an ignored one may be of another version."""
    from fnmatch import fnmatchcase

    for option, patterns in (("--select", wanted.select), ("--ignore", wanted.ignore)):
        for pattern in patterns:
            if any(fnmatchcase(rule_id, pattern) for rule_id in known):
                continue
            if option == "--select":
                raise _unknown_rule(pattern, known)
            run.note(f"note: --ignore {quoted(pattern)} is no rule of this version")


def _unknown_rule(pattern: str, known: Sequence[str]) -> UsageError:
    from difflib import get_close_matches

    nearest = get_close_matches(pattern, known, 1)
    return UsageError(
        f"there is no rule {pattern!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""),
        code="usage.rule",
        hint="deltacli validate --list-rules",
    )


def _exit_code(wanted: Wanted, checkup: Checkup, *, exit_zero: bool) -> int:
    """3 or 7 where a path could not be looked at, else 1 where a finding weighs enough."""
    from deltacli.cli.checker import failure_code

    if checkup.failures:
        return failure_code(checkup.failures)
    is_accepted = exit_zero or wanted.write_baseline is not None
    return EXIT_FINDINGS if any(table.fails for table in checkup.tables) and not is_accepted else 0


def _say_what_next(run: Run, wanted: Wanted, checkup: Checkup) -> None:
    """End with the counts, where the format has no place for them, or with what to run next."""
    from deltacli.cli.render.findings import summary_sentence
    from deltacli.operations.findings import OWN_RULES

    if run.format in (OutputFormat.SARIF, OutputFormat.JUNIT, OutputFormat.GITHUB):
        run.note(f"note: {summary_sentence(checkup)}")
    if not run.terminal.is_terminal or run.format is not OutputFormat.TABLE:
        return
    found = [finding.rule.id for table in checkup.tables for finding in table.findings]
    reported = dict.fromkeys(rule for rule in found if rule not in OWN_RULES)
    if any(table.suppressed for table in checkup.tables):
        run.note(f"next: all findings: {again_with(invocation.arguments, '--max-findings', '0')}")
    elif reported:
        chosen = quoted(",".join(list(reported)[:_NAMED]))
        run.note(f"next: what the rules mean: deltacli validate --list-rules --select {chosen}")
    elif not found and wanted.level == LevelChoice.LOG:
        names = " ".join(quoted_table(table.name) for table in checkup.tables[:_NAMED])
        run.note(f"next: are the files there: deltacli validate {names} --level storage")
