"""Read the lines of the log that a terminal shows with the findings of `validate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deltacli.cli.output.formats import TABLE
from deltacli.cli.render.validate.arrangement import MAX_QUOTED_LINES, FindingBlock, arrange_findings
from deltacli.cli.render.validate.report import CheckedTable
from deltacli.cli.render.validate.result import FindingsResult
from deltacli.cli.running.context import CommandContext
from deltacli.delta.log.segment import Place

ReadLine = Callable[[CheckedTable, Place], bytes | None]
"""Reads the line of a log file that a finding is about; None if it is not JSON or cannot be read."""


def add_quoted_lines(run: CommandContext, result: FindingsResult, read_line: ReadLine) -> FindingsResult:
    """Return a result with the lines of the log that it quotes.

    Lines are read only if they are going to be drawn: each one is a request to the store. They are read in the order in
    which they are drawn, until `MAX_QUOTED_LINES` have been found.
    """
    if run.format is not TABLE or not result.draws_blocks(run.terminal):
        return result

    arranged = arrange_findings(result.report, brief=result.brief)
    lines: dict[FindingBlock, bytes] = {}
    for block in arranged.iterate_quoting_blocks():
        if len(lines) == MAX_QUOTED_LINES:
            break
        line = read_line(block.table, block.finding.place)
        if line is not None:
            lines[block] = line
    return replace(result, arranged=replace(arranged, lines=lines))
