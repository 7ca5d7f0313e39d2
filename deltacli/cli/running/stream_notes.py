"""Notes on streaming queries that read a table, for commands with the option `--checkpoints`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.running.context import CommandContext
    from deltacli.operations.streams.streams import StreamsReport


def note_streams(run: CommandContext, table: Table, checkpoints: Sequence[str] | None) -> StreamsReport | None:
    """Note each streaming query that cannot continue, or whose files are deleted soon.

    Args:
        run: The run of the command.
        table: The table that the queries read.
        checkpoints: Checkpoint directories of queries, and patterns such as `chk/*`.

    Returns:
        The report on all queries. None if there are no checkpoint directories.

    Raises:
        DeltacliError: If a checkpoint directory cannot be read.
    """
    if not checkpoints:
        return None
    report = table.streams(checkpoints=checkpoints)
    for query in report.queries:
        finding = query.finding
        if not finding.is_ok:
            run.note(f"note: query {query.name} is {finding.verdict.value}: {finding.because}")
    return report
