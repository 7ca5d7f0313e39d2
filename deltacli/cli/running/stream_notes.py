"""Notes of other commands on the streaming queries that read a table, where their checkpoint directories are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.running.context import CommandContext
    from deltacli.operations.streams.streams import StreamsReport


def note_streams(run: CommandContext, table: Table, checkpoints: Sequence[str] | None) -> StreamsReport | None:
    """Note each query that cannot continue, or not for long, and return all of them.

    Args:
        run: The run of the command.
        table: The table that the queries read.
        checkpoints: Checkpoint directories of queries, and patterns of them.

    Returns:
        The queries; None without a checkpoint directory.

    Raises:
        DeltacliError: Whatever `Table.streams` raises.
    """
    if not checkpoints:
        return None
    report = table.streams(checkpoints=checkpoints)
    for query in report.queries:
        finding = query.finding
        if not finding.is_ok:
            run.note(f"note: query {query.name} is {finding.verdict.value}: {finding.because}")
    return report
