"""`deltacli validate TABLE...`."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.api.validation import RequestedValidation, read_log_line
from deltacli.cli.command_classes import ClusterFindingsCommand
from deltacli.cli.command_tree import HERE
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation, outside
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
    require_max_findings,
)
from deltacli.cli.options.given import OF_DELTA, OF_PAIMON, is_given
from deltacli.cli.options.paimon import RefsOption
from deltacli.cli.options.values import join_names, make_choice_parser, make_sample_parser
from deltacli.cli.output.formats import Content
from deltacli.cli.output.grids import EncodedItems, WriteItems
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.finding_filter import (
    FindingFilter,
    SinkFailedError,
    find_next_command,
    find_safe_repairs,
    list_rules,
    read_baseline_file,
    require_baseline_target,
    require_known_rules,
    write_or_check_baseline,
)
from deltacli.cli.running.table_formats import make_format_error
from deltacli.cli.shared_options import TableFormat
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_with_flags
from deltacli.core.errors import EXIT_FINDINGS, DeltacliError, StorageFailed, UsageError, is_shared
from deltacli.core.lock_free_property import cached_property
from deltacli.core.texts import summarize_names
from deltacli.core.units import plural
from deltacli.delta.log.segment import LOG_DIRECTORY, Place
from deltacli.rules.framework.base import CATALOGUE, UNREAD, Finding, Rule, Severity
from deltacli.rules.framework.choice import OWN_RULES, RuleChoice
from deltacli.storage import LocalStorage, PathKind, Storage
from deltacli.storage.secrets import mask_secrets
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
    from deltacli.cli.running.trend_entries import Entry, TableTally
    from deltacli.cli.running.trend_file import Trend
    from deltacli.operations.validate.validate import Validation
    from deltacli.rules.framework.repairs import Condition
    from deltacli.table.discover import Target, Targets

app = typer.Typer(add_completion=False)

# -- one run of `validate` ---------------------------------------------------------------------------------------------

_MISSING_EXTRA = "usage.missing-extra"
_NAMED_LACKS = 3
_OF_ONE_LINE = (".crc", "_last_checkpoint")


class ProfileChoice(StrEnum):
    CURRENT = "current"
    JAVA = "java"
    CPP = "cpp"
    PYTHON = "python"


class GroupChoice(StrEnum):
    RULE = "rule"
    PATH = "path"


@dataclass(frozen=True)
class ValidateOptions:
    """What a run does with findings; of Paimon tables, who reads them."""

    fail_on: Severity = Severity.ERROR
    baseline: str | None = None
    write_baseline: str | None = None
    trend: str | None = None
    history: str | None = None
    profile: ProfileChoice | None = None
    refs: bool = True
    max_findings: int = 100
    exit_zero: bool = False
    brief: bool = False
    group: GroupChoice = GroupChoice.RULE
    list_rules: bool = False

    def __post_init__(self) -> None:
        require_max_findings(self.max_findings)
        if self.trend is not None and self.history is not None and self.trend != self.history:
            raise UsageError(
                f"--history is the former name of --trend; they name different files: {self.history}, {self.trend}"
            )

    @property
    def trend_file(self) -> str | None:
        return self.history if self.trend is None else self.trend


class Checker:
    """One run over all tables."""

    def __init__(
        self,
        run: CommandContext,
        request: RequestedValidation,
        wanted: ValidateOptions,
        choose_rules: Callable[[], list[Rule]],
    ) -> None:
        self._run = run
        self._request = request
        self._wanted = wanted
        self._choose_rules = choose_rules
        if request.select or request.ignore:  # where a name may be wrong
            self._rules  # noqa: B018  (raises UsageError where no rule is left)
        self._now_ms = run.clock()
        self._baseline = read_baseline_file(wanted.baseline) if wanted.baseline is not None else None
        self._failures: list[tuple[str, DeltacliError]] = []
        self._tables: list[CheckedTable] = []
        self._to_accept: list[tuple[str, Finding]] = []
        self._labels: list[str] = []
        self._tallies: list[TableTally] = []
        self._stores: dict[str, Storage] = {}
        self._lacks: dict[tuple[str, str], list[str]] = {}

    @cached_property
    def _rules(self) -> list[Rule]:
        return self._choose_rules()

    def run_all(self, names: Sequence[str]) -> ValidationReport:
        """Check each table, of the current directory without names, and write the result. Raises the fault of all."""
        from deltacli.table.discover import find_tables, note_log_backups

        if self._wanted.write_baseline is not None:
            require_baseline_target(self._wanted.write_baseline)
        found = find_tables(names or [outside(HERE)], self._run.open_either, progress=self._run.progress)
        if not names:
            _require_tables(found)
        for name in found.skipped_files:
            self._run.note(f"note: {name} is a file next to tables and was skipped")
        note_log_backups(self._run.note, found.log_backups)
        self._failures += [(mask_secrets(name), fault) for name, fault in found.failures]
        self._tell_failures(found.failures, is_last=not found.tables)
        report = self._check_and_write([self._with_given_format(target) for target in found.tables])
        self._note_lacks()
        write_or_check_baseline(self._run, report, self._to_accept, self._wanted.write_baseline, self._wanted.baseline)
        return report

    def _with_given_format(self, target: Target) -> Target:
        given = self._run.table_format
        return target if given is None else target._replace(is_paimon=given == "paimon")

    def _check_and_write(self, targets: Sequence[Target]) -> ValidationReport:
        """Validate the tables, and write what was found: each finding at once where the format is a stream of lines."""
        from deltacli.cli.render.validate.result import FindingsResult, LiveFindings

        if self._run.format.is_streamed:
            self._run.write(LiveFindings(partial(self._check_as_it_goes, targets)))
            return self._report()
        many = len(targets) if len(targets) > 1 else 0  # a step of nothing is not shown
        with self._run.progress.step("validating", unit="tables", total=many) as step:
            for number, target in enumerate(targets, 1):
                self._check_or_fail(target, None, is_last=number == len(targets))
                step.advance()
        report = self._report()
        shows_findings = self._shows_findings(report)
        self._run.write(FindingsResult(report, self._wanted.brief, self._read_line, shows_findings))
        if self._run.is_on_screen and not shows_findings and any(table.findings for table in report.tables):
            self._run.note(f"findings of each table: {repeat_command_with_flags(invocation.arguments, ['-v'])}")
        return report

    def _shows_findings(self, report: ValidationReport) -> bool:
        """Return True for one table, and where an option asks for the findings of several."""
        is_asked = self._run.verbosity > 0 or self._wanted.brief or self._wanted.group is GroupChoice.PATH
        return is_asked or len(report.tables) == 1

    def _read_line(self, table: CheckedTable, place: Place) -> bytes | None:
        """Return the line of the log at a place, None where it is not to be had."""
        storage = self._stores.get(table.validation.table)
        is_json = place.path.startswith("_delta_log/") and (place.line is not None or place.path.endswith(_OF_ONE_LINE))
        return None if storage is None or not is_json else read_log_line(storage, place.path, place.line or 1)

    @property
    def has_only_failures(self) -> bool:
        return bool(self._failures) and not self._tables

    def entry(self, exit_code: int) -> Entry:
        """Return the run as a line of a trend."""
        from deltacli.cli.running.trend_entries import Entry

        return Entry(
            self._now_ms,
            self._request.level,
            self._left_out_by(),
            self._wanted.fail_on.value,
            self._tallies,
            [(name, fault.code) for name, fault in self._failures],
            exit_code,
        )

    def _check_or_fail(self, target: Target, tell: Callable[[Finding], None] | None, *, is_last: bool) -> bool:
        """Check a table; report one that cannot be checked, and continue with the others."""
        try:
            self._check(target, tell)
        except DeltacliError as fault:
            self._failures.append((mask_secrets(target.name), fault))
            self._tell_failures([(target.name, fault)], is_last=is_last and not self._tables)
            return False
        return True

    def _tell_failures(self, failures: Sequence[tuple[str, DeltacliError]], *, is_last: bool) -> None:
        """Report a path that could not be checked; if it is the only one, its fault becomes that of the run."""
        from deltacli.cli.errors import report_error

        for number, (name, fault) in enumerate(failures, 1):
            fault.table = fault.table or name
            if is_last and number == len(failures) and len(self._failures) == 1:
                raise fault
            if (fault.code, fault.message) not in self._lacks:
                report_error(fault, invocation.arguments, name)
            if fault.code == _MISSING_EXTRA:  # once for all tables, whose names follow at the end
                self._lacks.setdefault((fault.code, fault.message), []).append(mask_secrets(name))
        if is_last and failures:
            self._note_lacks()
            raise Exit(failure_code(self._failures))

    def _note_lacks(self) -> None:
        for names in self._lacks.values():
            self._run.note(f"note: not checked for lack of the package: {summarize_names(names, _NAMED_LACKS)}")

    def _check(self, target: Target, tell: Callable[[Finding], None] | None) -> None:
        from deltacli.cli.render.validate.report import CheckedTable

        wanted = self._wanted
        needs_all = any(name is not None for name in (wanted.baseline, wanted.write_baseline, wanted.trend_file))
        label = _label(target, wanted.baseline)
        sieve = FindingFilter(wanted.fail_on, wanted.max_findings, label, self._baseline, tell)
        gc.disable()  # actions are millions of objects and no cycles: a tenth of the time, no more memory
        try:
            most = 0 if needs_all else wanted.max_findings
            found = self._validate(target, max_findings=most, on_finding=sieve.take)
        except SinkFailedError as failed:
            raise failed.fault from None
        finally:
            gc.enable()
        if target.is_paimon:
            self._add_rules_of_paimon(found.rules)
        suppressed = Counter(found.suppressed) + sieve.suppressed
        fails = sieve.fails or self._may_fail(found)
        kept = tuple(finding for finding in found.findings if id(finding) in sieve.kept)
        self._tables.append(CheckedTable(mask_secrets(target.name), found, kept, suppressed, sieve.accepted, fails))
        self._tell_unread(self._tables[-1])
        self._labels.append(label)
        self._stores[found.table] = target.storage
        if wanted.write_baseline is not None:
            own = _label(target, wanted.write_baseline)
            self._to_accept += [(own, finding) for finding in found.findings]
        if wanted.trend_file is not None:
            self._tallies.append(_tally(_label(target, wanted.trend_file), found, sieve))

    def _validate(self, target: Target, *, max_findings: int, on_finding: Callable[[Finding], None]) -> Validation:
        """Check a table. Raises UsageError for a profile of the other format."""
        profile = self._wanted.profile
        table = self._run.make_table(target.storage)
        if not target.is_paimon:
            if profile not in (None, ProfileChoice.CURRENT):
                raise make_format_error(OF_PAIMON, f"--profile {profile}", {"expected": ProfileChoice.CURRENT})
            return self._request.check_delta(table, max_findings=max_findings, on_finding=on_finding)

        from deltacli.api.either_format import open_as_paimon

        if profile is ProfileChoice.CURRENT:
            expected = ", ".join(choice for choice in ProfileChoice if choice is not ProfileChoice.CURRENT)
            raise make_format_error(OF_DELTA, f"--profile {profile}", {"expected": expected})
        return self._request.check_paimon(
            open_as_paimon(table),
            profile=profile or ProfileChoice.JAVA,
            with_manifests=self._wanted.refs,
            max_findings=max_findings,
            on_finding=on_finding,
        )

    def _add_rules_of_paimon(self, checked: Container[str]) -> None:
        """Add the rules that were checked of a Paimon table to those of the run, which are known for Delta tables."""
        from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

        known = {rule.id for rule in self._rules}
        rules = PAIMON_CATALOGUE.rules.values()
        self._rules += [rule for rule in rules if rule.id in checked and rule.id not in known]

    def _tell_unread(self, table: CheckedTable) -> None:
        """Report that files of a table could not be read; their number, as the findings name them."""
        unread = [finding for finding in table.findings if finding.rule.id == UNREAD]
        if not unread:
            return
        rest = len(unread) - 1 + table.suppressed.get(UNREAD, 0)
        others = f", and {plural(rest, 'other file')} could not be read either" if rest else ""
        fault = StorageFailed(f"not checked completely: {unread[0].message}{others}", code=UNREAD)
        self._failures.append((table.name, fault))
        self._tell_failures([(table.name, fault)], is_last=False)

    def _left_out_by(self) -> dict[str, object]:
        request, profile = self._request, self._wanted.profile
        named: dict[str, object] = {
            "select": list(request.select),
            "ignore": list(request.ignore),
            "profile": profile if profile not in (None, "current") else "",
            "sample": f"{100 * request.sample:g}%" if request.sample != 1 else "",
            "where": request.where,
            "baseline": self._wanted.baseline is not None,
        }
        return {name: value for name, value in named.items() if value}

    def _may_fail(self, found: Validation) -> bool:
        """Return True if a finding above the limit of shown ones may reach `--fail-on`."""
        from deltacli.cli.render.validate.report import reaches

        above = found.suppressed
        return bool(above) and any(
            reaches(rule.severity, self._wanted.fail_on) for rule in self._rules if rule.id in above
        )

    def _check_as_it_goes(self, targets: Sequence[Target], write_items: WriteItems) -> bool:
        """Write findings as they are found and a summary after each table; return whether the result is complete."""
        from deltacli.cli.render.validate.result import summary_line
        from deltacli.rules.framework.repairs import Condition

        for number, target in enumerate(targets, 1):
            so_far = Condition.WHOLE if managed_store(target.storage) is None else Condition.MANAGED
            held: list[Finding] = []
            tell = partial(_hold_or_emit, target, held, so_far, write_items)
            is_checked = self._check_or_fail(target, tell, is_last=number == len(targets))
            condition = self._tables[-1].validation.condition if is_checked else Condition.UNREADABLE
            for finding in held:
                write_items(_line(target, finding, condition))
            if is_checked:
                write_items(summary_line(self._tables[-1], self._request.level))
        return self._report().is_complete

    def _report(self) -> ValidationReport:
        from deltacli.cli.render.validate.report import ValidationReport

        stale = None
        if self._baseline is not None:
            stale = self._baseline.stale(self._labels, {rule.id for rule in self._checked_rules()}.__contains__)
        return ValidationReport(
            self._request.level,
            self._wanted.fail_on,
            tuple(self._tables),
            tuple(self._failures),
            self._checked_rules,
            stale,
            by_path=self._wanted.group is GroupChoice.PATH,
        )

    def _checked_rules(self) -> tuple[Rule, ...]:
        """Return the rules that were checked, and any other that reported."""
        checked: dict[str, Rule] = {
            rule.id: rule for rule in self._rules if any(rule.id in table.validation.rules for table in self._tables)
        }
        checked |= {finding.rule.id: finding.rule for table in self._tables for finding in table.findings}
        return tuple(checked.values())


def _require_tables(found: Targets) -> None:
    """Raise NotATable where the only table is a directory that may have lost its log, which nobody has named."""
    from deltacli.table.missing_log import build_missing_log_error

    for name, storage, is_paimon in found.tables:
        if name == outside(HERE) and not is_paimon and storage.kind_of(LOG_DIRECTORY) is PathKind.MISSING:
            raise build_missing_log_error(storage)


def _tally(label: str, found: Validation, sieve: FindingFilter) -> TableTally:
    from deltacli.cli.running.trend_entries import TableTally

    return TableTally(label, found.version, len(found.not_checked), sieve.tally())


def _label(target: Target, baseline: str | None) -> str:
    """Return the name of a table in a baseline or a trend: relative where it is local, so that both can move."""
    if baseline is None or not isinstance(target.storage, LocalStorage):
        return target.storage.uri
    return os.path.relpath(target.storage.root, os.path.dirname(os.path.abspath(baseline))).replace(os.sep, "/")


def _hold_or_emit(
    target: Target, held: list[Finding], so_far: Condition, write_items: WriteItems, finding: Finding
) -> None:
    """Write a finding of a table; hold it where its command depends on what is known at the end."""
    from deltacli.rules.framework.repairs import depends_on_condition

    if depends_on_condition(finding.rule):
        held.append(finding)
    else:
        write_items(_line(target, finding, so_far))


def _line(target: Target, finding: Finding, condition: Condition) -> EncodedItems:
    from deltacli.cli.render.validate.result import finding_line

    return finding_line(target.storage.uri, finding, mask_secrets(target.name), condition)


def failure_code(failures: Sequence[tuple[str, DeltacliError]]) -> int:
    return max(fault.exit_code for _, fault in failures)


# -- `deltacli validate TABLE...` --------------------------------------------------------------------------------------

_NAMED = 5


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
            parser=outside,
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
    wanted = ValidateOptions(
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
    if wanted.list_rules and tables:
        raise UsageError(
            "--list-rules takes no TABLE",
            hint=repeat_command([word for word in invocation.arguments if word not in tables]),
        )
    if wanted.list_rules:
        rules = _choose_rules(run, request, [request.level] if is_given(context, "level") else [*LevelChoice])
        is_paimon = bool(rules) and all(rule.id.startswith("paimon.") for rule in rules)
        list_rules(run, rules, "paimon" if is_paimon else "delta")
    elif code := _check(run, request, wanted, tables or []):
        raise Exit(code)


def _check(run: CommandContext, request: RequestedValidation, wanted: ValidateOptions, tables: Sequence[str]) -> int:
    trend = _open_trend(run, wanted)
    checker = Checker(run, request, wanted, partial(_choose_rules, run, request, [request.level]))
    try:
        report = checker.run_all(tables)
    except (DeltacliError, Exit) as ended:
        if trend is not None and checker.has_only_failures:
            trend.append(checker.entry(ended.exit_code))
        raise
    code = _exit_code(wanted, report)
    if trend is not None:
        entry = checker.entry(code)
        trend.append(entry)
        sentence = trend.compare(entry)
        if sentence is not None and run.is_on_screen:
            run.note(f"note: {sentence}")
    _say_what_next(run, request, report)
    return code


def _open_trend(run: CommandContext, wanted: ValidateOptions) -> Trend | None:
    """Return the trend to append to. Raises UsageError where the file is not a trend, or is named twice."""
    if wanted.trend_file is None:
        return None
    from deltacli.cli.running.trend_file import Trend

    others = {"--output": run.output, "--baseline": wanted.baseline, "--write-baseline": wanted.write_baseline}
    for flag, name in others.items():
        if name is not None and os.path.realpath(name) == os.path.realpath(wanted.trend_file):
            raise UsageError(f"--trend and {flag} are the same file, {name}")
    return Trend(wanted.trend_file)


def _choose_rules(run: CommandContext, request: RequestedValidation, levels: Sequence[str]) -> list[Rule]:
    known = _known_rules(run, request)
    try:
        require_known_rules(run, "validate", list(known), request.select, request.ignore)
    except UsageError as fault:
        meant = known.get(fault.suggestion or "")
        if meant is not None and meant.level not in levels:
            words = [
                meant.id if word in request.select and word not in known else word for word in invocation.arguments
            ]
            fault.reason += f" It is checked at --level {meant.level}"
            fault.suggestion, fault.hint = None, repeat_command_with(words, "--level", meant.level)  # which has it
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
            hint=repeat_command_with(invocation.arguments, "--level", elsewhere[0].level) if elsewhere else None,
        )
    return rules


def _known_rules(run: CommandContext, request: RequestedValidation) -> Mapping[str, Rule]:
    """Return the rules to choose from: those for Delta tables, and those for Paimon tables where some are named."""
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


def _say_what_next(run: CommandContext, request: RequestedValidation, report: ValidationReport) -> None:
    """Write the counts where the format has no place for them, or the next command."""
    from deltacli.cli.render.validate.findings import summary_sentence

    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")
    if not run.is_on_screen:
        return
    if (following := find_next_command(report, OWN_RULES)) is not None:
        for line in (following, *find_safe_repairs(report, following)):
            run.suggest_command(line)
    if _may_hide_more(request, report) and report.table_format == "delta":
        level = dict(pairwise(LevelChoice))[LevelChoice(request.level)]
        if level == "storage" and all(is_shared(one.name) for one in report.tables):  # which checks no file there
            level = LevelChoice.FOOTERS
        run.suggest_command(repeat_command_with(invocation.arguments, "--level", level))


def _may_hide_more(request: RequestedValidation, report: ValidationReport) -> bool:
    """Return whether the next level is worth a look: nothing was found, or only warnings of a readable log."""
    counts = report.counts
    if not counts.rules:
        return request.level != LevelChoice.DATA
    are_readable = all(table.validation.is_readable for table in report.tables)
    return request.level == LevelChoice.LOG and bool(counts.warnings) and not counts.errors and are_readable
