"""The summary of a journal: what later runs and `fleet status` need of the runs that have ended.

It is rewritten atomically at the end of a run. Then the files of old runs are compressed, and kept.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from deltacli.clock import Clock
from deltacli.fleet.running.journal import Journal, RunRecord, read_record
from deltacli.fleet.running.journal_files import (
    MOST_BYTES,
    SUFFIX,
    JournalFiles,
    Record,
    Summary,
    TableLines,
    archive,
    read_summary,
)
from deltacli.fleet.running.leases import process_is_alive
from deltacli.fleet.status import StatusReader
from deltacli.units import DAY_MS

_SILENT_MS = DAY_MS
"""Time without an event after which a run of another machine counts as ended."""


def summarize(state: Path, clock: Clock, *, most_bytes: int = MOST_BYTES) -> None:
    """Add the runs that have ended to the summary, and archive old ones. Raises StorageFailed and UsageError.

    Runs are taken in their order, up to the first one that may go on or has events in the future.
    """
    before = read_summary(state)
    files, journal, status = JournalFiles(state, before), Journal(state, clock, before), StatusReader(before)
    names = files.names()
    offsets, unfinished = dict(before.files), list(before.unfinished)
    for name in names:
        records = [record for line in files.lines(name) if (record := read_record(line)) is not None]
        if not records:
            continue
        run, is_newest = name.removesuffix(SUFFIX), name == names[-1]
        if not _has_ended(records, clock(), is_newest=is_newest):
            break
        for record in records:
            journal.take(run, record)
            status.take(run, record)
        offsets[name] = files.offsets[name]
        if records[-1]["type"] == "run-finished":
            unfinished = [other for other in unfinished if other != name]
        elif name not in unfinished:
            unfinished.append(name)
    newest = journal.newest
    of_runs = {
        **status.kept_of_runs,
        "newest": None if newest is None else {field: getattr(newest, field) for field in RunRecord.KEPT},
    }
    known = {name: size for name, size in offsets.items() if name in names}
    after = Summary(known, tuple(unfinished), of_runs, _tables(journal, status))
    if after.files != before.files:
        after.write(state)
    if names:
        archive(state, after, names[-1], clock(), most_bytes=most_bytes)


def _has_ended(records: Sequence[Record], now_ms: int, *, is_newest: bool) -> bool:
    """Return True if nothing is added to the events of a run any more, as far as this machine can tell."""
    if any(record["timestampMs"] > now_ms for record in records):
        return False
    last = records[-1]
    if last["type"] == "run-finished":
        return not is_newest or not last.get("left", 0)
    if is_newest:
        return False
    begin = next((one for one in reversed(records) if one["type"] in ("run-started", "run-resumed")), {})
    is_here = begin.get("host") == socket.gethostname()
    return not process_is_alive(str(begin.get("process"))) if is_here else now_ms - last["timestampMs"] > _SILENT_MS


def _tables(journal: Journal, status: StatusReader) -> Iterator[TableLines]:
    for name in sorted({*journal.tables, *status.tables}):
        state, trends = status.kept(name)
        yield TableLines({"table": name, **state, **journal.kept(name)}, trends)
