"""Notes of other commands on the streaming queries that read a table, where their checkpoint directories are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.operations.streams.checkpoints import Verdict
from deltacli.operations.streams.judge import stop_by
from deltacli.operations.streams.streams import StreamsReport, StreamsRequest, find_streams

if TYPE_CHECKING:
    from deltacli.cli.running.run import CommandContext
    from deltacli.delta.log.actions import Action
    from deltacli.table.handle import TableHandle


def note_streams(run: CommandContext, table: TableHandle, checkpoints: Sequence[str]) -> StreamsReport:
    """Note each query that cannot continue, or not for long, and return all. Raises what `find_streams` raises."""
    request = StreamsRequest(checkpoints=checkpoints)
    report = find_streams(request, [table], run.open_other, run.engine, is_one_table=True, progress=run.progress)
    for query in report.queries:
        finding = query.finding
        if finding.verdict is not Verdict.OK:
            run.note(f"note: query {query.name} is {finding.verdict.value}: {finding.because}")
    return report


def stopped_streams(
    report: StreamsReport, *, metadata: Action | None, protocol: Action | None, removes_files: bool = False
) -> Iterator[str]:
    """Yield a note on each query that a commit stops, which has these actions."""
    for query in report.queries:
        if query.finding.verdict is Verdict.DEAD:
            continue
        judged = [source.judgement for source in query.sources if source.judgement is not None]
        stops = (
            stop_by(one, metadata=metadata, protocol=protocol, removes_files=removes_files)
            for one in judged
            if one.rows.verdict is not Verdict.DEAD
        )
        if (why := next((stop for stop in stops if stop is not None), None)) is not None:
            yield f"query {query.name} reads the table: {why}"


def cut_off_streams(report: StreamsReport, first_kept: int) -> Iterator[str]:
    """Yield a note on each query that needs versions of the log below the first one that a change keeps."""
    for query in report.queries:
        if query.finding.verdict is Verdict.DEAD:
            continue
        judged = [source.judgement for source in query.sources if source.judgement is not None]
        # Whether a query reads rows or the change feed is not known, so what either needs is looked at.
        needs = [need for one in judged for need in (one.needs, one.feed_needs) if need is not None]
        needed = min((need.log_from for need in needs if need.log_from is not None), default=None)
        if needed is not None and needed < first_kept:
            yield (
                f"query {query.name} needs the log from version {needed} on: it cannot continue once the versions "
                f"below {first_kept} are deleted"
            )
