"""The run of `validate` over all of its tables: find them, check one after another, and write the findings."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from deltacli.api.validation import RequestedValidation, read_log_line
from deltacli.cli.command_tree import HERE
from deltacli.cli.errors import report_error
from deltacli.cli.invocation import Exit, invocation, make_pastable_path
from deltacli.cli.options.findings import require_max_findings
from deltacli.cli.options.given import DELTA_FORMAT, PAIMON_FORMAT
from deltacli.cli.output.grids import EncodedItems, WriteItems
from deltacli.cli.running.baseline_files import (
    read_baseline_file,
    require_baseline_target,
    write_or_check_baseline,
)
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.finding_filter import FindingFilter, ResultNotWrittenError
from deltacli.cli.running.table_formats import make_format_error
from deltacli.cli.running.validation_rules import choose_rules
from deltacli.cli.terminal.suggested_commands import repeat_command_with_flags
from deltacli.core.errors import DeltacliError, StorageFailed, UsageError
from deltacli.core.texts import summarize_names
from deltacli.core.units import plural
from deltacli.delta.log.segment import LOG_DIRECTORY, Place
from deltacli.rules.framework.base import UNREAD, Finding, Rule, Severity
from deltacli.storage import LocalStorage, PathKind, Storage
from deltacli.storage.secrets import mask_secrets
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
    from deltacli.cli.running.trend_entries import TableTally, TrendEntry
    from deltacli.operations.validate.validate import Validation
    from deltacli.rules.framework.repairs import Condition
    from deltacli.table.discover import Target, Targets

_MISSING_EXTRA = "usage.missing-extra"
"""The error code for a table that needs an optional package, such as fastavro."""
_MAX_NAMES = 3
_ONE_LINE_FILES = (".crc", "_last_checkpoint")
"""The ends of the names of log files that consist of one JSON document."""


class ProfileChoice(StrEnum):
    """The readers that must accept a Paimon table. `current`: the current protocol of Delta tables."""

    CURRENT = "current"
    JAVA = "java"
    CPP = "cpp"
    PYTHON = "python"


class GroupChoice(StrEnum):
    """The order of findings: by severity and rule, or by file."""

    RULE = "rule"
    PATH = "path"


@dataclass(frozen=True)
class ValidateOptions:
    """The options of `validate` that do not choose what is checked.

    Attributes:
        fail_on: The severity from which a finding makes the command fail.
        baseline: The file with accepted findings.
        write_baseline: The file that gets all findings as accepted.
        trend: The file to which the counts of the run are appended.
        history: The value of `--history`, the former name of `--trend`.
        profile: The reader that must accept Paimon tables.
        refs: Whether manifests of Paimon tables are read.
        max_findings: How many findings of each rule are shown. 0: all.
        exit_zero: Whether findings do not make the command fail.
        brief: Whether a finding takes one line.
        group: The order of findings.
        list_rules: Whether the rules are listed instead.
    """

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
        """The file of `--trend`, or of its former name."""
        return self.history if self.trend is None else self.trend

    @property
    def needs_all_findings(self) -> bool:
        """True if findings above the limit matter, because they are compared or counted."""
        return any(file is not None for file in (self.baseline, self.write_baseline, self.trend_file))


class ValidationRun:
    """One run of `validate` over all of its tables.

    An error on one table does not stop the run. It is reported, and the other tables are checked.
    """

    def __init__(self, run: CommandContext, request: RequestedValidation, options: ValidateOptions) -> None:
        """Prepare a run. The baseline is read, but no table.

        Raises:
            UsageError: If a rule is misspelled, no rule is left, or the baseline cannot be read.
        """
        self._run = run
        self._request = request
        self._options = options
        # Listing the rules imports all of their modules. Without `--select` and `--ignore` that can wait.
        self._rules: list[Rule] | None = None
        if request.select or request.ignore:
            self._rules = choose_rules(run, request, [request.level])
        self._now_ms = run.clock()
        self._baseline = read_baseline_file(options.baseline) if options.baseline is not None else None
        self._failures: list[tuple[str, DeltacliError]] = []
        self._tables: list[CheckedTable] = []
        self._findings_to_accept: list[tuple[str, Finding]] = []
        self._baseline_labels: list[str] = []
        self._tallies: list[TableTally] = []
        self._stores: dict[str, Storage] = {}
        self._tables_lacking_packages: dict[tuple[str, str], list[str]] = {}

    def _get_rules(self) -> list[Rule]:
        """Return the rules of the run. The rules of Paimon tables are added when such a table has been checked."""
        if self._rules is None:
            self._rules = choose_rules(self._run, self._request, [self._request.level])
        return self._rules

    def check_all(self, names: Sequence[str]) -> ValidationReport:
        """Check all tables and write the result.

        Args:
            names: Tables, directories and patterns. Empty: the current directory.

        Raises:
            UsageError: If the file of `--write-baseline` may not be written.
            DeltacliError: If there is only one table, and it cannot be checked.
            Exit: If there are several tables, and none of them can be checked. The errors have been reported.
        """
        from deltacli.table.discover import find_tables, note_log_backups

        if self._options.write_baseline is not None:
            require_baseline_target(self._options.write_baseline)

        targets = find_tables(names or [make_pastable_path(HERE)], self._run.open_either, progress=self._run.progress)
        if not names:
            _require_log(targets)
        for name in targets.skipped_files:
            self._run.note(f"note: {name} is a file next to tables and was skipped")
        note_log_backups(self._run.note, targets.log_backups)
        self._failures += [(mask_secrets(name), error) for name, error in targets.failures]
        self._report_failures(targets.failures, is_last=not targets.tables)

        report = self._check_and_write([self._apply_table_format(target) for target in targets.tables])
        self._note_missing_packages()
        write_or_check_baseline(
            self._run, report, self._findings_to_accept, self._options.write_baseline, self._options.baseline
        )
        return report

    @property
    def has_only_failures(self) -> bool:
        """True if no table could be checked."""
        return bool(self._failures) and not self._tables

    def make_trend_entry(self, exit_code: int) -> TrendEntry:
        """Return the counts of the run for the trend file."""
        from deltacli.cli.running.trend_entries import TrendEntry

        return TrendEntry(
            self._now_ms,
            self._request.level,
            self._collect_limits(),
            self._options.fail_on.value,
            self._tallies,
            [(name, error.code) for name, error in self._failures],
            exit_code,
        )

    def _apply_table_format(self, target: Target) -> Target:
        """Return a table with the format of `--table-format`, if the user has passed it."""
        table_format = self._run.table_format
        return target if table_format is None else target._replace(is_paimon=table_format == "paimon")

    def _check_and_write(self, targets: Sequence[Target]) -> ValidationReport:
        """Check the tables and write the findings. NDJSON is written finding by finding, other formats at the end."""
        from deltacli.cli.render.validate.result import FindingsResult, LiveFindings
        from deltacli.cli.running.quoted_lines import add_quoted_lines

        if self._run.format.is_streamed:
            self._run.write(LiveFindings(partial(self._check_and_stream, targets)))
            return self._make_report()

        # With a total of 0 the progress of a single table is not shown.
        total = len(targets) if len(targets) > 1 else 0
        with self._run.progress.step("validating", unit="tables", total=total) as step:
            for number, target in enumerate(targets, 1):
                self._check_or_report(target, None, is_last=number == len(targets))
                step.advance()

        report = self._make_report()
        shows_findings = self._shows_findings(report)
        result = FindingsResult(report, self._options.brief, shows_findings=shows_findings)
        self._run.write(add_quoted_lines(self._run, result, self._read_line))
        has_hidden_findings = not shows_findings and any(table.findings for table in report.tables)
        if self._run.is_on_screen and has_hidden_findings:
            self._run.note(f"findings of each table: {repeat_command_with_flags(invocation.arguments, ['-v'])}")
        return report

    def _check_and_stream(self, targets: Sequence[Target], write_items: WriteItems) -> bool:
        """Check the tables and write each finding when it is found, and a summary after each table.

        Returns:
            True if the result is complete.
        """
        from deltacli.cli.render.validate.result import summary_line

        for number, target in enumerate(targets, 1):
            stream = _FindingStream(target, write_items)
            is_checked = self._check_or_report(target, stream.add, is_last=number == len(targets))
            stream.write_held_findings(self._tables[-1].validation if is_checked else None)
            if is_checked:
                write_items(summary_line(self._tables[-1], self._request.level))
        return self._make_report().is_complete

    def _shows_findings(self, report: ValidationReport) -> bool:
        """Return whether single findings are shown: for one table always, for several tables if an option asks."""
        is_requested = self._run.verbosity > 0 or self._options.brief or self._options.group is GroupChoice.PATH
        return is_requested or len(report.tables) == 1

    def _read_line(self, table: CheckedTable, place: Place) -> bytes | None:
        """Return the line of a log file that a finding is about. None if it is not JSON or cannot be read."""
        storage = self._stores.get(table.validation.table)
        if storage is None or not place.path.startswith(f"{LOG_DIRECTORY}/"):
            return None
        if place.line is None and not place.path.endswith(_ONE_LINE_FILES):
            return None
        return read_log_line(storage, place.path, place.line or 1)

    def _check_or_report(
        self, target: Target, write_finding: Callable[[Finding], None] | None, *, is_last: bool
    ) -> bool:
        """Check a table, or report the error if it cannot be checked.

        Returns:
            True if the table was checked.

        Raises:
            DeltacliError: If this is the only table.
        """
        try:
            self._check(target, write_finding)
        except DeltacliError as error:
            self._failures.append((mask_secrets(target.name), error))
            self._report_failures([(target.name, error)], is_last=is_last and not self._tables)
            return False
        return True

    def _report_failures(self, failures: Sequence[tuple[str, DeltacliError]], *, is_last: bool) -> None:
        """Report paths that could not be checked.

        Args:
            failures: The paths with their errors.
            is_last: Whether nothing else was checked or will be checked. Then the command ends here.

        Raises:
            DeltacliError: The only error, if the command ends here.
            Exit: If the command ends here after several errors.
        """
        for number, (name, error) in enumerate(failures, 1):
            error.table = error.table or name
            if is_last and number == len(failures) and len(self._failures) == 1:
                raise error

            # The same package may be missing for many tables. It is reported once, and the tables are noted at the end.
            error_key = (error.code, error.message)
            if error_key not in self._tables_lacking_packages:
                report_error(error, invocation.arguments, name)
            if error.code == _MISSING_EXTRA:
                self._tables_lacking_packages.setdefault(error_key, []).append(mask_secrets(name))
        if is_last and failures:
            self._note_missing_packages()
            raise Exit(get_failure_exit_code(self._failures))

    def _note_missing_packages(self) -> None:
        for names in self._tables_lacking_packages.values():
            self._run.note(f"note: not checked for lack of the package: {summarize_names(names, _MAX_NAMES)}")

    def _check(self, target: Target, write_finding: Callable[[Finding], None] | None) -> None:
        """Check a table and record its findings, its tally, and the findings for a new baseline."""
        from deltacli.cli.render.validate.report import CheckedTable

        options = self._options
        baseline_label = _make_label(target, options.baseline)
        finding_filter = FindingFilter(
            options.fail_on, options.max_findings, baseline_label, self._baseline, write_finding
        )
        # The actions of a log may be millions of objects, and they contain no reference cycles. Garbage collections
        # would take a tenth of the time, and would free no memory.
        gc.disable()
        try:
            max_findings = 0 if options.needs_all_findings else options.max_findings
            validation = self._validate(target, max_findings=max_findings, on_finding=finding_filter.add)
        except ResultNotWrittenError as error:
            raise error.cause from None
        finally:
            gc.enable()
        if target.is_paimon:
            self._add_paimon_rules(validation.rules)

        shown_findings = tuple(finding for finding in validation.findings if id(finding) in finding_filter.shown_ids)
        checked_table = CheckedTable(
            mask_secrets(target.name),
            validation,
            shown_findings,
            Counter(validation.suppressed) + finding_filter.suppressed,
            finding_filter.accepted,
            finding_filter.fails or self._may_fail(validation),
        )
        self._tables.append(checked_table)
        self._report_unread_files(checked_table)

        self._baseline_labels.append(baseline_label)
        self._stores[validation.table] = target.storage
        if options.write_baseline is not None:
            label = _make_label(target, options.write_baseline)
            self._findings_to_accept += [(label, finding) for finding in validation.findings]
        if options.trend_file is not None:
            label = _make_label(target, options.trend_file)
            self._tallies.append(_make_tally(label, validation, finding_filter))

    def _validate(self, target: Target, *, max_findings: int, on_finding: Callable[[Finding], None]) -> Validation:
        """Validate a table by the rules of its format. Raises UsageError for a profile of the other format."""
        profile = self._options.profile
        table = self._run.make_table(target.storage)
        if not target.is_paimon:
            if profile not in (None, ProfileChoice.CURRENT):
                raise make_format_error(PAIMON_FORMAT, f"--profile {profile}", {"expected": ProfileChoice.CURRENT})
            return self._request.check_delta(table, max_findings=max_findings, on_finding=on_finding)

        from deltacli.api.either_format import open_as_paimon

        if profile is ProfileChoice.CURRENT:
            expected = ", ".join(choice for choice in ProfileChoice if choice is not ProfileChoice.CURRENT)
            raise make_format_error(DELTA_FORMAT, f"--profile {profile}", {"expected": expected})
        return self._request.check_paimon(
            open_as_paimon(table),
            profile=profile or ProfileChoice.JAVA,
            with_manifests=self._options.refs,
            max_findings=max_findings,
            on_finding=on_finding,
        )

    def _add_paimon_rules(self, checked_ids: Container[str]) -> None:
        """Add the rules that were checked on a Paimon table to the rules of the run."""
        from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

        rules = self._get_rules()
        known_ids = {rule.id for rule in rules}
        for rule in PAIMON_CATALOGUE.rules.values():
            if rule.id in checked_ids and rule.id not in known_ids:
                rules.append(rule)

    def _report_unread_files(self, table: CheckedTable) -> None:
        """Report that files of a table could not be read, so that the table was not checked completely."""
        findings = [finding for finding in table.findings if finding.rule.id == UNREAD]
        if not findings:
            return
        message = f"not checked completely: {findings[0].message}"
        other_files = len(findings) - 1 + table.suppressed.get(UNREAD, 0)
        if other_files:
            message += f", and {plural(other_files, 'other file')} could not be read either"

        error = StorageFailed(message, code=UNREAD)
        self._failures.append((table.name, error))
        self._report_failures([(table.name, error)], is_last=False)

    def _collect_limits(self) -> dict[str, object]:
        """Return the options that restrict what is checked. Only runs with equal limits are compared in a trend."""
        request = self._request
        profile = self._options.profile
        limits: dict[str, object] = {
            "select": list(request.select),
            "ignore": list(request.ignore),
            "profile": profile if profile not in (None, "current") else "",
            "sample": f"{100 * request.sample:g}%" if request.sample != 1 else "",
            "where": request.where,
            "baseline": self._options.baseline is not None,
        }
        return {name: value for name, value in limits.items() if value}

    def _may_fail(self, validation: Validation) -> bool:
        """Return whether a finding that was not returned, because of the limit, may have the severity to fail."""
        from deltacli.cli.render.validate.report import reaches

        suppressed = validation.suppressed
        if not suppressed:
            return False
        suppressed_rules = [rule for rule in self._get_rules() if rule.id in suppressed]
        return any(reaches(rule.severity, self._options.fail_on) for rule in suppressed_rules)

    def _make_report(self) -> ValidationReport:
        """Return the report on the tables that have been checked."""
        from deltacli.cli.render.validate.report import ValidationReport

        stale_findings = None
        if self._baseline is not None:
            checked_ids = {rule.id for rule in self._get_checked_rules()}
            stale_findings = self._baseline.stale(self._baseline_labels, checked_ids.__contains__)
        return ValidationReport(
            self._request.level,
            self._options.fail_on,
            tuple(self._tables),
            tuple(self._failures),
            self._get_checked_rules,
            stale_findings,
            by_path=self._options.group is GroupChoice.PATH,
        )

    def _get_checked_rules(self) -> tuple[Rule, ...]:
        """Return the rules that were checked on any table, and all rules with findings."""
        checked_rules: dict[str, Rule] = {}
        for rule in self._get_rules():
            if any(rule.id in table.validation.rules for table in self._tables):
                checked_rules[rule.id] = rule
        for table in self._tables:
            checked_rules |= {finding.rule.id: finding.rule for finding in table.findings}
        return tuple(checked_rules.values())


class _FindingStream:
    """Writes the findings of one table as lines of NDJSON.

    The command that repairs a finding may depend on the condition of the table, which is known only at the end of the
    check. Such findings are held back until then.
    """

    def __init__(self, target: Target, write_items: WriteItems) -> None:
        self._target = target
        self._write_items = write_items
        self._is_managed = managed_store(target.storage) is not None
        self._held_findings: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Write a finding, or hold it back."""
        from deltacli.rules.framework.repairs import Condition, depends_on_condition

        if depends_on_condition(finding.rule):
            self._held_findings.append(finding)
            return
        self._write(finding, Condition.MANAGED if self._is_managed else Condition.WHOLE)

    def write_held_findings(self, validation: Validation | None) -> None:
        """Write the findings that were held back. `validation` is None if the table could not be checked."""
        from deltacli.rules.framework.repairs import Condition

        condition = Condition.UNREADABLE if validation is None else validation.condition
        for finding in self._held_findings:
            self._write(finding, condition)

    def _write(self, finding: Finding, condition: Condition) -> None:
        self._write_items(_make_finding_line(self._target, finding, condition))


def _require_log(targets: Targets) -> None:
    """Require that the current directory is a table, if no table was named and none was found below it.

    Raises:
        NotATable: If the current directory has no log. It may be a table whose log was deleted.
    """
    from deltacli.table.missing_log import build_missing_log_error

    for target in targets.tables:
        if target.name != make_pastable_path(HERE) or target.is_paimon:
            continue
        if target.storage.kind_of(LOG_DIRECTORY) is PathKind.MISSING:
            raise build_missing_log_error(target.storage)


def _make_tally(label: str, validation: Validation, finding_filter: FindingFilter) -> TableTally:
    from deltacli.cli.running.trend_entries import TableTally

    return TableTally(label, validation.version, len(validation.not_checked), finding_filter.make_tally())


def _make_label(target: Target, file: str | None) -> str:
    """Return the name of a table in a baseline or a trend file.

    A local table gets its path relative to the file, so that the tables can be moved together with the file.
    """
    if file is None or not isinstance(target.storage, LocalStorage):
        return target.storage.uri
    relative_path = os.path.relpath(target.storage.root, os.path.dirname(os.path.abspath(file)))
    return relative_path.replace(os.sep, "/")


def _make_finding_line(target: Target, finding: Finding, condition: Condition) -> EncodedItems:
    from deltacli.cli.render.validate.result import finding_line

    return finding_line(target.storage.uri, finding, mask_secrets(target.name), condition)


def get_failure_exit_code(failures: Sequence[tuple[str, DeltacliError]]) -> int:
    """Return the exit code for paths that could not be checked: the highest one of their errors."""
    return max(error.exit_code for _, error in failures)
