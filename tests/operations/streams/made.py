"""Tables and checkpoint directories from seeds, whose verdicts the model of the reader tells."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tests.operations.streams.checkpoints import Checkpoint, delta, own, standing
from tests.operations.streams.reader import Dies, Log, Newest, first_start, read_checkpoint, restart
from tests.operations.streams.tables import History, adding, changing, removing, vector
from tests.support.actions import Action, Line
from tests.support.builder import commit_path


@dataclass(frozen=True)
class Made:
    """A table with a query that stands in it."""

    seed: int
    table: History
    checkpoint: Checkpoint

    def write(self, place: Path) -> tuple[Path, Path]:
        """Put both into a directory, and return the table and the checkpoint."""
        return self.table.write(place / "table"), self.checkpoint.write(place / "checkpoint")


class _Writer:
    """Makes the commits of a table."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.live = chance, dict[str, Action | None]()
        self.removed: list[str] = []
        self._files = self._vectors = 0

    def commit(self) -> list[Line]:
        """Return the actions of the next commit."""
        act = self.chance.choice(["append"] * 4 + ["optimize", "optimize", "delete", "vector", "feed"])
        if act == "append" or len(self.live) < 3:
            return [self._new() for _ in range(self.chance.randint(1, 3))]
        if act == "optimize":
            chosen = self.chance.sample(sorted(self.live), 2)
            return [*(self._remove(path, data_change=False) for path in chosen), self._new(data_change=False)]
        path = self.chance.choice(sorted(self.live))
        if act == "delete":
            return [self._remove(path)]
        if act == "feed":
            self._files += 1
            return [self._remove(path), self._new(), changing(f"_change_data/c{self._files}.parquet")]
        removal = self._remove(path)
        self._vectors += 1
        self.live[path] = vector(self._vectors)
        return [removal, adding(path, vector=self.live[path])]

    def _new(self, *, data_change: bool = True) -> Line:
        self._files += 1
        path = f"n{self._files}.parquet"
        self.live[path] = None
        return adding(path, data_change=data_change)

    def _remove(self, path: str, *, data_change: bool = True) -> Line:
        before = self.live.pop(path)
        self.removed.append(path)
        return removing(path, vector=before, data_change=data_change)


def make(seed: int) -> Made:
    """Return the table and the query of a seed."""
    chance = random.Random(f"stream {seed}")
    writer, newest = _Writer(chance), chance.randint(6, 16)
    commits = {version: writer.commit() for version in range(newest + 1)}
    checkpoints = sorted(chance.sample(range(1, newest + 1), 2))
    gone: list[str] = []
    if chance.random() < 0.35:
        first = chance.choice([*checkpoints, checkpoints[0] + chance.randint(0, 2)])
        gone += [commit_path(version) for version in range(min(first, newest))]
    lost = [path for path in dict.fromkeys(writer.removed) if path not in writer.live]
    if lost and chance.random() < 0.3:
        gone += chance.sample(lost, 1)
    properties = {"delta.enableChangeDataFeed": "true"} if chance.random() < 0.5 else {}
    table = History(commits, newest=newest, checkpoints=checkpoints, gone=gone, properties=properties)
    return Made(seed, table, _checkpoint(chance, newest))


def _checkpoint(chance: random.Random, newest: int) -> Checkpoint:
    is_own = chance.random() < 0.25
    began = chance.randint(0, newest - 1)
    """The version whose snapshot the stream began with."""
    end = chance.randint(began + 1, newest + 1)
    start = chance.randint(began + 1, end)
    index, is_inside, starts_inside = chance.choice([-1, -1, 0, 1]), chance.random() < 0.25, chance.random() < 0.25
    if end == newest + 1:
        index = -1
    is_finished, log_version = chance.random() < 0.7, chance.choice([1, 1, 2])

    def offset(version: int, position: int, *, in_snapshot: bool) -> str:
        if is_own:
            at = began if in_snapshot else version
            return own(at, max(position + 1, 0), first=began + 1, with_snapshot=True)
        at = began if in_snapshot else version
        return delta(at, position, in_snapshot=in_snapshot, source_version=chance.choice([1, 3]))

    last = offset(end, index, in_snapshot=is_inside)
    if is_inside:
        first = offset(end, min(index, 0), in_snapshot=True)
    else:
        before = -1 if start == end else chance.choice([-1, 0])
        first = offset(start, before, in_snapshot=starts_inside)
    batch = 0 if chance.random() < 0.1 and not is_own else chance.randint(1, 200)
    return standing(last, first, batch=batch, committed=is_finished, log_version=log_version)


def expected(root: Path, checkpoint: Path, *, feed: bool) -> str:
    """Return the verdict by the model: dead, at-risk where a commit ahead stops the plain source, or ok."""
    try:
        restart(root, checkpoint, feed=feed)
    except Dies:
        return "dead"
    log = Log(root)
    is_stopped = any(_stops(log, newest) for newest in read_checkpoint(checkpoint))
    return "at-risk" if is_stopped and not feed else "ok"


def _stops(log: Log, newest: Newest) -> bool:
    """Return True if a commit that is still to be delivered changes or deletes rows."""
    if newest.end is None:
        return False
    position = newest.end if newest.is_finished else newest.start or first_start(newest.end)
    is_passed = position.in_snapshot or position.files > 0  # a commit that is partly delivered did not stop it
    ahead = range(position.version + is_passed, log.newest + 1)
    return any(line.get("remove", {}).get("dataChange") for version in ahead for line in log.lines(version))
