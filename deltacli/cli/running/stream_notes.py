"""Notes of other commands on the streaming queries that read a table, where their checkpoint directories are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.operations.streams.checkpoints import Verdict
from deltacli.operations.streams.streams import StreamsRequest, find_streams

if TYPE_CHECKING:
    from deltacli.cli.running.run import Run
    from deltacli.table.handle import TableHandle


def note_streams(run: Run, table: TableHandle, checkpoints: Sequence[str], effect: str = "") -> None:
    """Write a note on each query that cannot continue, or may not for long; and with an `effect` of a change on each
    query that reads the table. Raises what `find_streams` raises.
    """
    request = StreamsRequest(checkpoints=checkpoints)
    report = find_streams(request, [table], run.open_other, run.engine, is_one_table=True, progress=run.progress)
    for query in report.queries:
        finding = query.finding
        if finding.verdict is not Verdict.OK:
            run.note(f"note: query {query.name} is {finding.verdict.value}: {finding.because}")
        if effect and finding.verdict is not Verdict.DEAD:
            run.note(f"note: query {query.name} reads the table: {effect}")
