"""Notes of other commands on the streaming queries that read a table, where their checkpoint directories are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from deltacli.core.request_fields import OF_DELTA, Option

if TYPE_CHECKING:
    from deltacli.cli.running.run import Run
    from deltacli.table.handle import TableHandle

CheckpointsOption = Annotated[
    list[str] | None,
    Option(
        "Name the streaming queries with these checkpoint directories that it concerns. Repeatable.",
        "GLOB",
        table_format=OF_DELTA,
    ),
]
IF_ROWS_GO = "a commit that removes files stops it, unless it has skipChangeCommits or ignoreChanges"
IF_COLUMNS_CHANGE = "a commit that changes columns or properties may stop it; start it again afterwards"


def note_streams(run: Run, table: TableHandle, checkpoints: Sequence[str] | None, effect: str = "") -> None:
    """Write a note on each query that cannot continue, or may not for long; and with an `effect` of a change on each
    query that reads the table. Raises what `find_streams` raises.
    """
    if not checkpoints:
        return
    from deltacli.operations.streams.checkpoints import Verdict
    from deltacli.operations.streams.streams import StreamsRequest, find_streams

    request = StreamsRequest(checkpoints=checkpoints)
    report = find_streams(request, [table], run.open_other, run.engine, is_one_table=True, progress=run.progress)
    for query in report.queries:
        finding = query.finding
        if finding.verdict is not Verdict.OK:
            run.note(f"note: query {query.name} is {finding.verdict.value}: {finding.because}")
        if effect and finding.verdict is not Verdict.DEAD:
            run.note(f"note: query {query.name} reads the table: {effect}")
