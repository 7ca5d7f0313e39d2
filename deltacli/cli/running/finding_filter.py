"""The findings of one table, or of one server, sorted as they arrive; baselines are read and written here, too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Container, Sequence
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import open_destination, require_file_outside_tables
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with
from deltacli.core.errors import UsageError, is_shared, nearest_name, quote_table, quote_word
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.cli.running.trend_entries import Tally
    from deltacli.rules.framework.base import Finding, Rule, Severity
    from deltacli.rules.framework.baseline import Baseline

_ALIKE = 0.8


def require_known_rules(
    run: CommandContext, command: str, known: Collection[str], select: Sequence[str], ignore: Sequence[str]
) -> None:
    """Raise UsageError for a selected rule that is not known; an ignored one may belong to another version."""
    from fnmatch import fnmatchcase

    from deltacli.cli.help.topics import is_error_code

    for option, patterns in (("--select", select), ("--ignore", ignore)):
        for pattern in patterns:
            if any(fnmatchcase(rule_id, pattern) for rule_id in known):
                continue
            if option == "--select":
                is_area = any(rule_id.startswith(f"{pattern}.") for rule_id in known)
                nearest = f"{pattern}.*" if is_area else nearest_name(pattern, known, cutoff=_ALIKE)
                is_code = nearest is None and is_error_code(pattern)
                raise UsageError(
                    f"no rule matches {pattern!r}",
                    code="usage.rule",
                    facts={} if nearest else {"error codes": "deltacli help CODE"},
                    hint=f"deltacli help {pattern}" if is_code else f"deltacli {command} --list-rules",
                ).suggest(pattern, nearest, is_quoted=True)
            run.note(f"note: --ignore {quote_word(pattern)} matches no rule of this version")


def list_rules(run: CommandContext, rules: Sequence[Rule], table_format: str) -> None:
    """Write the rules instead of findings. Raises UsageError for a format that cannot have them."""
    from deltacli.cli.render.validate.rules import RulesResult, require_list_format

    require_list_format(run.format)
    run.write(RulesResult(rules, table_format))


def find_next_command(report: ValidationReport, without: Container[str] = ()) -> str | None:
    """Return the command that shows all findings, or what a repair of the worst would do, or corrects one of them, or
    explains the rule of the worst; rules of `without` have no explanation.
    """
    from deltacli.cli.render.validate.report import worst_first
    from deltacli.rules.framework.base import Severity
    from deltacli.rules.framework.repairs import repair_to_try

    if any(table.suppressed for table in report.tables):
        return repeat_command_with(invocation.arguments, "--max-findings", "0")
    pairs = [(table, found) for table in report.tables for found in table.findings if found.rule.id not in without]
    if not pairs:
        return None
    if all(found.severity is Severity.INFO for _, found in pairs):  # remarks are no reason to change a table
        return f"deltacli history {quote_table(pairs[0][0].name)}"
    at_stake = min(worst_first(*pair) for pair in pairs)
    worst = [(table, found) for table, found in pairs if worst_first(table, found) == at_stake]
    commands = (repair_to_try(found.rule, table.name, table.validation.condition) for table, found in worst)
    plans = (_plan_of_repair(table.name, found.rule) for table, found in worst)
    found = next(filter(None, (*commands, *plans)), f"deltacli help {worst[0][1].rule.id}")
    return found + " --dry-run" if found.startswith("deltacli repair ") and "--dry-run" not in found else found


def find_safe_repairs(report: ValidationReport, shown: str | None) -> list[str]:
    """Return commands that show repairs without loss: one for each of a few tables, else a pattern; not `shown`."""
    from deltacli.rules.framework.base import Level, Severity
    from deltacli.rules.framework.repairs import Family, StepKind, row_of

    commands = {}
    for table in report.tables:
        levels = [
            found.rule.level
            for found in table.findings
            if found.severity is not Severity.INFO
            and (row := row_of(found.rule.id)).family is not Family.LOG
            and not row.loses
            and {StepKind.REBUILD, StepKind.QUARANTINE} & {*row.steps}
        ]
        if levels and table.validation.is_readable and not is_shared(table.name):
            deepest = next((one for one in (Level.DATA, Level.FOOTERS) if one in levels), None)
            level = f" --level {deepest.value}" if deepest else ""
            commands[table.name] = f"deltacli repair {quote_table(table.name)}{level} --dry-run"
    if len(commands) > _MOST_REPAIRS:
        return [f"deltacli repair TABLE --dry-run   # {len(commands):,} tables can be repaired without loss"]
    repaired = shown is not None and shown.startswith("deltacli repair ")
    covered = {name for name in commands if repaired and f" {quote_table(name)} " in f"{shown} "}
    return [line for name, line in commands.items() if name not in covered]


_MOST_REPAIRS = 3


def _plan_of_repair(table: str, rule: Rule) -> str | None:
    """Return the command that shows what a repair of a finding would do; None for a rule without steps."""
    from deltacli.cli.options.findings import LevelChoice
    from deltacli.rules.framework.repairs import row_of

    if is_shared(table) or not row_of(rule.id).steps:
        return None
    is_deeper = rule.level.name.lower() in (LevelChoice.FOOTERS, LevelChoice.DATA)
    level = f" --level {rule.level.name.lower()}" if is_deeper else ""
    return f"deltacli repair {quote_table(table)}{level} --dry-run"


class SinkFailedError(BaseException):
    """The result cannot be written. Not an Exception, so that it is not caught as a fault of the reporting rule."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(fault)
        self.fault = fault


class FindingFilter:
    """Sorts the findings of one table: accepted by the baseline, above the limit, or kept."""

    def __init__(
        self,
        fail_on: Severity,
        most: int,
        label: str,
        baseline: Baseline | None,
        tell: Callable[[Finding], None] | None,
    ) -> None:
        self._fail_on = fail_on
        self._most = most
        self._label = label
        self._baseline = baseline
        self._tell = tell
        self._shown: Counter[str] = Counter()
        self.kept: set[int] = set()
        self.suppressed: Counter[str] = Counter()
        self.accepted = 0
        self.fails = False
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[str] = Counter()

    def take(self, finding: Finding) -> None:
        """Sort one finding when it arrives."""
        from deltacli.cli.render.validate.report import reaches

        if self._baseline is not None and self._baseline.take(self._label, finding):
            self.accepted += 1
            return
        self.fails |= reaches(finding.severity, self._fail_on)
        rule = finding.rule.id
        self.by_severity[finding.severity] += 1
        self.by_rule[rule] += 1
        if self._most and self._shown[rule] >= self._most:
            self.suppressed[rule] += 1
            return
        self._shown[rule] += 1
        self.kept.add(id(finding))
        if self._tell is None:
            return
        try:
            self._tell(finding)
        except Exception as fault:
            raise SinkFailedError(fault) from fault

    def tally(self) -> Tally:
        """Return the counts of findings that are not accepted."""
        from deltacli.cli.running.trend_entries import Tally
        from deltacli.rules.framework.base import Severity

        return Tally(
            self.by_severity[Severity.ERROR],
            self.by_severity[Severity.WARNING],
            self.by_severity[Severity.INFO],
            accepted=self.accepted,
            suppressed=sum(self.suppressed.values()),
            rules=dict(sorted(self.by_rule.items())),
        )


def write_or_check_baseline(
    run: CommandContext,
    report: ValidationReport,
    to_accept: Sequence[tuple[str, Finding]],
    target: str | None,
    read: str | None,
) -> None:
    """Write the new baseline to `target`, unless a table could not be checked; note what is stale in the one `read`."""
    from deltacli.rules.framework.baseline import write_baseline

    if target is not None and report.failures:
        run.note(f"note: {target} was not written: not every table could be checked")
    elif target is not None:
        with open_destination(target) as sink:
            sink.write(write_baseline(to_accept))
        run.note(f"note: {plural(len(to_accept), 'finding')} written; accept with --baseline {target}")
    elif report.stale:
        again = repeat_command_with(invocation.arguments, "--write-baseline", read or "")
        run.note(f"note: {plural(report.stale, 'accepted finding')} no longer found; to update the baseline: {again}")


def require_baseline_target(name: str) -> None:
    """Raise UsageError for a target of --write-baseline inside a table, and for a file that is not a baseline."""
    from deltacli.rules.framework.baseline import is_baseline, name_beside

    require_file_outside_tables(name, "--write-baseline")
    if not os.path.isfile(name) or os.path.getsize(name) == 0:
        return
    with open(name, "rb") as file:
        if not is_baseline(file.read()):
            raise UsageError(
                f"--write-baseline {name} would replace a file that is not a baseline",
                code="usage.baseline",
                hint=repeat_command_with(invocation.arguments, "--write-baseline", name_beside(name)),
            )


def read_baseline_file(name: str) -> Baseline:
    """Return the accepted findings of a file. Raises UsageError."""
    from deltacli.rules.framework.baseline import read_baseline

    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as fault:
        raise UsageError(
            f"the baseline {name} cannot be read: {(fault.strerror or str(fault)).lower()}",
            code="usage.baseline",
            facts={"to accept all findings": _writing(name, invocation.arguments)},
            hint=_near(name, invocation.arguments),
        ) from fault
    return read_baseline(data, name)


def _near(name: str, arguments: Sequence[str]) -> str:
    directory, base = os.path.split(name)
    try:
        near = nearest_name(base, [one for one in os.listdir(directory or ".") if one != base], cutoff=_ALIKE)
    except OSError:
        directory, near = "", None
    if near is None:
        return f"ls {quote_table(directory or '.')}"
    meant = os.path.join(directory, near)
    return repeat_command(
        [word.replace(name, meant) if word in (name, f"--baseline={name}") else word for word in arguments]
    )


def _writing(name: str, arguments: Sequence[str]) -> str:
    """Return the command line that writes the baseline which this one reads."""
    if not any(word.startswith("--write-baseline") for word in arguments):
        return repeat_command([word.replace("--", "--write-", word.startswith("--baseline")) for word in arguments])
    pairs = zip(["", *arguments], arguments, strict=False)
    return repeat_command(
        [word for last, word in pairs if "--baseline" not in (last, word) and word != f"--baseline={name}"]
    )
