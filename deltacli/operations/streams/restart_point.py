"""From which version a query that is dead can start over with another checkpoint, and what that loses and repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowTable, JsonObject
from deltacli.operations.streams.needs import files_to_deliver
from deltacli.table.live_files import missing_files, whole

if TYPE_CHECKING:
    from deltacli.operations.streams.judge import SourceJudgement


class Delivery(NamedTuple):
    """Versions (first, last; None: none), files and rows; rows are None where the log does not say for all files."""

    versions: tuple[int, int] | None
    files: int
    rows: int | None

    def as_json(self) -> JsonObject:
        return {
            "versions": None if self.versions is None else list(self.versions),
            "files": self.files,
            "rows": self.rows,
        }


@dataclass(frozen=True)
class RestartPoint:
    """`startingVersion` for a new checkpoint: this version's commit and all later ones are delivered. `lost` is what
    was not delivered before it, `repeated` what of it was. `of_feed`: the same for the change feed, where it differs.
    """

    starting_version: int
    lost: Delivery
    repeated: Delivery
    of_feed: int | None = None

    def as_json(self) -> JsonObject:
        return {
            "startingVersion": self.starting_version,
            "startingVersionOfFeed": self.of_feed,
            "lost": self.lost.as_json(),
            "repeated": self.repeated.as_json(),
        }


def find_restart(judgement: SourceJudgement) -> RestartPoint | None:
    """Return the earliest version from which all commits and files are there; None for a table that was created again.

    Raises StorageFailed.
    """
    history, position = judgement.history, judgement.position
    if position.table_id != history.snapshot.metadata.id:
        return None
    start = _earliest(judgement, of_feed=False)
    delivered, first = files_to_deliver(history, position), position.version
    of_snapshot = delivered.of_snapshot
    is_of_snapshot = position.in_snapshot and start == first + 1
    lost = delivered.events.filter(pc.less(delivered.events["version"], start))
    files, rows = lost.num_rows, _rows(lost)
    if of_snapshot is not None:
        files += of_snapshot.files
        rows = None if rows is None or of_snapshot.rows is None else rows + of_snapshot.rows
    versions = (first, start - 1) if start > first and (start - 1 > first or files or is_of_snapshot) else None
    here = history.events.filter(
        pc.and_(
            pc.equal(history.events["version"], start),
            pc.and_(history.events["is_change"], pc.equal(history.events["kind"], "add")),
        )
    )
    again = here.slice(0, position.delivered if start == first and not position.in_snapshot else 0)
    repeated = Delivery((start, start) if again.num_rows else None, again.num_rows, _rows(again))
    feed = None if judgement.feed is None else _earliest(judgement, of_feed=True)
    return RestartPoint(start, Delivery(versions, files, rows), repeated, None if feed == start else feed)


def _rows(files: ArrowTable) -> int | None:
    if not files.num_rows:
        return 0
    return None if files["rows"].null_count else int(pc.sum(files["rows"]).as_py())


def _earliest(judgement: SourceJudgement, *, of_feed: bool) -> int:
    history, position = judgement.history, judgement.position
    first = position.version + position.in_snapshot  # what is left of a snapshot cannot be named
    gone = [version for version in range(first, history.newest + 1) if version not in history.listing.commits]
    gone += [one.version for one in history.commits.values() if one.fault is not None]
    files = files_to_deliver(history, position, of_feed=of_feed).not_live(history)
    if files.num_rows:
        has_path, has_vector = history.live_parts(files)
        paths, vectors = whole(files["path"]), whole(files["vector"])
        lost, _ = missing_files(
            history.table, pc.filter(paths, pc.invert(has_path)), pc.filter(vectors, pc.invert(has_vector))
        )
        missing = pc.or_(pc.is_in(paths, value_set=lost[0]), pc.is_in(vectors, value_set=lost[1]))
        last = pc.max(pc.filter(whole(files["version"]), missing)).as_py()
        gone += [] if last is None else [last]
    start = max([first, *(version + 1 for version in gone)])
    while of_feed and start <= history.newest and not history.is_loadable(start):
        start += 1
    return start
