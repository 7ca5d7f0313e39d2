"""Arrange the findings of `validate` for a terminal: in which order they are shown, and which of them are combined.

By default findings are grouped by rule. Within a group, findings that differ only in the names of files, columns or
properties form one block: the first is shown in full, the others are listed below it. With `--group path`, each finding
is a block of its own, in the order of the files.

The arrangement is made before the drawing, because it decides which lines of the log are quoted. The command reads
these lines and passes them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, rank_finding
from deltacli.rules.framework.base import Finding, Severity

MAX_QUOTED_LINES = 12
"""The number of lines of the log that are read for one run. Each of them is a request to a remote store."""

_QUOTED_BLOCKS_PER_GROUP = 2


@dataclass(frozen=True, eq=False, slots=True)
class FindingBlock:
    """A finding that is shown in full. Blocks are compared by identity, because a finding can occur several times.

    Attributes:
        table: The table of the finding.
        finding: The finding.
        similar: Findings that are listed below the block, because they differ only in names.
        explains_fix: Whether the fix is shown. It is the same for all findings of a group.
        quotes_line: Whether the line of the log is shown if it can be read.
    """

    table: CheckedTable
    finding: Finding
    similar: Sequence[Finding] = ()
    explains_fix: bool = True
    quotes_line: bool = True


class FindingGroup(NamedTuple):
    """Findings below one heading, which states their severity and rule.

    Attributes:
        findings: All findings of the group.
        suppressed: The number of findings of the rule above the limit `--max-findings`. They are not in `findings`.
        blocks: The blocks of the group.
        has_gap: Whether the heading follows an empty line.
    """

    findings: Sequence[Finding]
    suppressed: int
    blocks: Sequence[FindingBlock]
    has_gap: bool = True


class TableFindings(NamedTuple):
    """The findings of one table, without remarks that several tables have in common.

    Attributes:
        table: The table.
        groups: The groups, in the order in which they are shown.
        suppressed: The numbers of findings above the limit by rule, for rules without a group.
    """

    table: CheckedTable
    groups: Sequence[FindingGroup]
    suppressed: Mapping[str, int]

    @property
    def has_content(self) -> bool:
        """Return whether anything is shown below the name of the table."""
        return bool(self.groups or self.suppressed or self.table.validation.not_checked)


class CommonRemark(NamedTuple):
    """A remark (a finding of severity `info`) on several tables, which is shown once.

    Attributes:
        tables: The tables.
        finding_count: The number of findings in all of them, including those above the limit.
        block: The finding in the first table.
    """

    tables: Sequence[CheckedTable]
    finding_count: int
    block: FindingBlock


@dataclass(frozen=True)
class ArrangedFindings:
    """The findings of a run in the order in which a terminal shows them.

    Attributes:
        tables: The findings by table, the table with the worst finding first.
        common_remarks: Remarks that several tables have in common.
        lines: The lines of the log that are quoted, without line ends.
    """

    tables: Sequence[TableFindings]
    common_remarks: Sequence[CommonRemark]
    lines: Mapping[FindingBlock, bytes] = field(default_factory=dict)

    def iterate_quoting_blocks(self) -> Iterator[FindingBlock]:
        """Yield the blocks that quote a line of the log, in the order in which they are shown."""
        for table in self.tables:
            for group in table.groups:
                yield from (block for block in group.blocks if block.quotes_line)
        for remark in self.common_remarks:
            yield remark.block


def arrange_findings(report: ValidationReport, *, brief: bool) -> ArrangedFindings:
    """Arrange the findings of a run.

    Args:
        report: The findings. `report.by_path` selects the order.
        brief: Whether fixes, lines of the log and common remarks are omitted.
    """
    remarks: Sequence[CommonRemark] = ()
    if not report.by_path and not brief:
        remarks = _find_common_remarks(report.tables)
    common_rules = {remark.block.finding.rule.id for remark in remarks}

    tables: list[TableFindings] = []
    for table in sorted(report.tables, key=_rank_table):
        shown_table = _remove_remarks(table, common_rules)
        if report.by_path:
            tables.append(_arrange_by_path(shown_table, brief=brief))
        else:
            tables.append(_arrange_by_rule(shown_table, brief=brief))
    return ArrangedFindings(tables, remarks)


def _rank_table(table: CheckedTable) -> int:
    """Return the rank of the worst severity in a table; 0 is the worst."""
    severities = list(Severity)
    return min((severities.index(finding.severity) for finding in table.findings), default=len(severities))


def _is_remark(finding: Finding) -> bool:
    return finding.severity is Severity.INFO


def _find_common_remarks(tables: Sequence[CheckedTable]) -> list[CommonRemark]:
    """Return the remarks that several tables have, one per rule.

    A rule that has a finding of a higher severity in any table is not combined: the heading states one severity.
    """
    tables_by_rule: dict[str, list[CheckedTable]] = {}
    for table in tables:
        remark_rules = dict.fromkeys(finding.rule.id for finding in table.findings if _is_remark(finding))
        for rule_id in remark_rules:
            tables_by_rule.setdefault(rule_id, []).append(table)
    other_rules = {finding.rule.id for table in tables for finding in table.findings if not _is_remark(finding)}

    remarks: list[CommonRemark] = []
    for rule_id, tables_with_rule in tables_by_rule.items():
        if len(tables_with_rule) > 1 and rule_id not in other_rules:
            remarks.append(_make_common_remark(rule_id, tables_with_rule))
    return remarks


def _make_common_remark(rule_id: str, tables: Sequence[CheckedTable]) -> CommonRemark:
    count = 0
    for table in tables:
        count += sum(finding.rule.id == rule_id for finding in table.findings)
        count += table.suppressed.get(rule_id, 0)
    first_table = tables[0]
    first_finding = next(finding for finding in first_table.findings if finding.rule.id == rule_id)
    return CommonRemark(tables, count, FindingBlock(first_table, first_finding))


def _remove_remarks(table: CheckedTable, rule_ids: set[str]) -> CheckedTable:
    """Return a table without its remarks of these rules."""
    findings = [finding for finding in table.findings if not (_is_remark(finding) and finding.rule.id in rule_ids)]
    suppressed = {rule_id: count for rule_id, count in table.suppressed.items() if rule_id not in rule_ids}
    return table._replace(findings=tuple(findings), suppressed=suppressed)


def _arrange_by_path(table: CheckedTable, *, brief: bool) -> TableFindings:
    """Make a group of each finding, in the order of the files. A fix is explained once per table."""
    explained: set[tuple[str, str]] = set()
    groups: list[FindingGroup] = []
    for finding in table.findings:
        explanation = (finding.rule.id, finding.rule.fix.repair)
        block = FindingBlock(
            table, finding, explains_fix=not brief and explanation not in explained, quotes_line=not brief
        )
        explained.add(explanation)
        groups.append(FindingGroup([finding], 0, [block], has_gap=not brief))
    return TableFindings(table, groups, table.suppressed)


def _arrange_by_rule(table: CheckedTable, *, brief: bool) -> TableFindings:
    """Group findings that have the same severity, rule and fix, the worst consequence first."""
    findings_by_group: dict[tuple[Severity, str, str], list[Finding]] = {}
    for finding in sorted(table.findings, key=partial(rank_finding, table)):
        key = (finding.severity, finding.rule.id, finding.rule.fix.repair)
        findings_by_group.setdefault(key, []).append(finding)

    # If a rule has several groups, the first heading states the number of suppressed findings.
    suppressed = dict(table.suppressed)
    groups: list[FindingGroup] = []
    for (_, rule_id, _), findings in findings_by_group.items():
        blocks = _make_blocks(table, findings, brief=brief)
        groups.append(FindingGroup(findings, suppressed.pop(rule_id, 0), blocks))
    return TableFindings(table, groups, suppressed)


def _make_blocks(table: CheckedTable, findings: Sequence[Finding], *, brief: bool) -> list[FindingBlock]:
    """Combine findings of a group that differ only in names. The first block explains the fix."""
    similar_findings: dict[tuple[str, str | None], list[Finding]] = {}
    for finding in findings:
        similar_findings.setdefault((_remove_names(finding), finding.expected), []).append(finding)

    blocks: list[FindingBlock] = []
    for number, (first_finding, *other_findings) in enumerate(similar_findings.values()):
        blocks.append(
            FindingBlock(
                table,
                first_finding,
                other_findings,
                explains_fix=number == 0 and not brief,
                quotes_line=number < _QUOTED_BLOCKS_PER_GROUP and not brief,
            )
        )
    return blocks


def _remove_names(finding: Finding) -> str:
    """Return the message of a finding without the names of its file, column or property."""
    message = finding.message
    # The longer name first, because it may contain the other one.
    for name in sorted({finding.place.path, finding.place.key or ""}, key=len, reverse=True):
        if name:
            message = message.replace(name, "\0")
    return message
