"""`deltacli share test`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.conformance_runner import ConformanceChecker, TestLevel, TestOptions
from deltacli.cli.formats import Content, FindingFormat
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again_with, quoted
from deltacli.did_you_mean import nearest_name
from deltacli.errors import EXIT_FINDINGS, PartlyDone, UsageError

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.delta.rules.framework.base import Rule
    from deltacli.sharing.conformance.target import ServerTarget

EXIT_CODES = (0, 1, 2, 3, 5, 7, 70)
FORMATS = FindingFormat
_NAMED = 5


ServerArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="ADDRESS",
        help="URL of a server, with --profile, or PROFILE[#SHARE[.SCHEMA[.TABLE]]].",
        show_default=False,
    ),
]


def test(run: Run, address: ServerArgument = None, *, wanted: TestOptions) -> None:
    """Check a Delta Sharing server against the text of the protocol.

    \b
    Sends requests that only read, one at a time, about 70 per table, and reports
    every deviation with the paragraph it breaks: lists, errors, formats, pages,
    hints, versions, change feeds and file URLs. What the server has no table for
    is reported as not checked.

    \b
    Examples:
      deltacli share test acme.share
      deltacli share test acme.share#sales.eu.orders --level data
      deltacli share test https://share.example.com/api --profile acme.share
      deltacli share test acme.share --select 'share.hint-*' --fail-on warning
      deltacli share test acme.share --format junit --output share.xml
      deltacli share test acme.share --baseline known.json
      deltacli share test --list-rules
    """
    rules = _choose_rules(run, wanted)
    if wanted.list_rules:
        _list_rules(run, rules)
        return
    report = ConformanceChecker(run, wanted, rules).test(_target(run, address, wanted.profile))
    _say_what_next(run, report)
    if code := _exit_code(report, is_accepted=wanted.exit_zero or wanted.write_baseline is not None):
        raise typer.Exit(code)


def _target(run: Run, address: str | None, profile: str | None) -> ServerTarget:
    """Return the server to test. Raises UsageError."""
    from deltacli.sharing.conformance.target import read_target

    if not address:
        raise UsageError("missing argument ADDRESS", code="usage.table", hint="deltacli share test --help")
    return read_target(address, profile, run.clock, run.note)


def _exit_code(report: ValidationReport, *, is_accepted: bool) -> int:
    """Return 1 where a finding reaches `--fail-on`, 5 where there is none and a limit ended the test early."""
    if any(suite.fails for suite in report.tables) and not is_accepted:
        return EXIT_FINDINGS
    return PartlyDone.exit_code if any("limit of" in sentence for sentence in report.left_out) else 0


def _choose_rules(run: Run, wanted: TestOptions) -> list[Rule]:
    """Return the selected rules. Raises UsageError where a pattern of --select matches none, or none is left."""
    from fnmatch import fnmatchcase

    from deltacli.sharing.conformance.run import conformance_rules

    known = conformance_rules()
    for option, patterns in (("--select", wanted.select), ("--ignore", wanted.ignore)):
        for pattern in patterns:
            if any(fnmatchcase(rule, pattern) for rule in known):
                continue
            if option == "--select":
                nearest = nearest_name(pattern, list(known))
                raise UsageError(
                    f"no rule matches {pattern!r}" + (f"; did you mean {nearest!r}?" if nearest else ""),
                    code="usage.rule",
                    hint="deltacli share test --list-rules",
                )
            run.note(f"note: --ignore {quoted(pattern)} matches no rule of this version")
    chosen = [
        rule
        for rule in known.values()
        if (not wanted.select or any(fnmatchcase(rule.id, pattern) for pattern in wanted.select))
        and not any(fnmatchcase(rule.id, pattern) for pattern in wanted.ignore)
    ]
    if not chosen:
        raise UsageError("no rule is left to check", code="usage.rule")
    return chosen


def _list_rules(run: Run, rules: Sequence[Rule]) -> None:
    from deltacli.cli.render.validate.rules import RulesResult, require_list_format

    require_list_format(run.format)
    run.write(RulesResult(rules, "share"))


def _say_what_next(run: Run, report: ValidationReport) -> None:
    """Note what was left out, the counts where the format has no place for them, and the next command."""
    from deltacli.cli.render.validate.findings import summary_sentence

    for sentence in report.left_out:
        run.note(f"note: not checked: {sentence}")
    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")
    if not run.is_on_screen:
        return
    reported = dict.fromkeys(finding.rule.id for suite in report.tables for finding in suite.findings)
    if any(suite.suppressed for suite in report.tables):
        run.note(f"next: {again_with(invocation.arguments, '--max-findings', '0')}")
    elif reported:
        chosen = quoted(",".join(list(reported)[:_NAMED]))
        run.note(f"next: deltacli share test --list-rules --select {chosen}")
    elif report.level != TestLevel.DATA:
        following = TestLevel.FOOTERS if report.level == TestLevel.API else TestLevel.DATA
        run.note(f"next: {again_with(invocation.arguments, '--level', following)}")
