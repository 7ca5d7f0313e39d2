"""Whether a query can go on in a table: verdict, reason, until when it is safe, and how far it is behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deltacli.operations.streams.checkpoints import Finding, SourceOffsets, StreamCheckpoint
    from deltacli.operations.streams.needs import Needs, TableHistory


class Lag(NamedTuple):
    """How far a source is behind: versions, bytes of the files to deliver, and milliseconds since the first commit that
    it has not delivered and that has files for it.
    """

    versions: int
    size_bytes: int
    age_ms: int


@dataclass(frozen=True)
class SourceJudgement:
    """A source in one table. `feed` and `feed_needs` are None where the change feed cannot be read from its position;
    protection keeps `needs` and `feed_needs`.

    `safe_until_ms` is when the first of what it needs may be deleted, by the retentions of the table or by Spark's own
    cleanup of the log, as `safe_until_by` says; None where nothing is known to end it.
    """

    history: TableHistory
    checkpoint: StreamCheckpoint
    source: SourceOffsets
    rows: Finding
    feed: Finding | None
    needs: Needs
    feed_needs: Needs | None
    lag: Lag | None
    safe_until_ms: int | None
    safe_until_by: str | None
    is_ambiguous: bool = False
    """Several tables asked about have the id; each is judged, and all are protected."""


def judge(history: TableHistory, checkpoint: StreamCheckpoint, source: SourceOffsets) -> SourceJudgement:
    """Return the judgement of a source whose offsets are positions in the table (its `table_id` is that of the table,
    now or formerly). Looks for the files that are not live. Raises StorageFailed.
    """
    raise NotImplementedError
