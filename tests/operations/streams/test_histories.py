"""Histories from seeds: a table is written, compacted, vacuumed and expired beside a stream that stops and lags.

The stream is a small model of Delta's source. Under protection it never dies; without it, it dies exactly where the
verdict is `dead`.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.operations.streams.checkpoints import Verdict, find_checkpoints, worst
from deltacli.operations.streams.judge import judge
from deltacli.operations.streams.needs import read_history
from deltacli.storage import LocalStorage, open_storage
from tests.operations.streams.checkpoints import TABLE_ID, Checkpoint, delta
from tests.operations.streams.reader import Dies, Log, restart
from tests.operations.streams.tables import adding, changing, removing, vector, vector_file
from tests.support.actions import Action, Line, commit_info, metadata, protocol, to_bytes
from tests.support.builder import EPOCH_MS, commit_path
from tests.support.vacuum_hazards import DAY_MS

HISTORIES = 500
PARTS = 20
_PROTECTED, _UNPROTECTED = 9, 5


class _World:
    """A table, a stream in it, and the time."""

    def __init__(self, seed: int, place: Path) -> None:
        self.chance = random.Random(f"history {seed}")
        self.root, self.checkpoint = place / "table", place / "queries" / "q"
        self.now_ms, self.version = EPOCH_MS, -1
        self.live: dict[str, Action | None] = {}
        self.has_feed = self.chance.random() < 0.5
        self.reads_feed = self.has_feed and self.chance.random() < 0.5
        self.batch, self.end = -1, ""
        self._names = self._vectors = 0
        features = ["deletionVectors"]
        properties = {"delta.enableChangeDataFeed": "true"} if self.has_feed else {}
        first = [protocol(3, 7, reader_features=features, writer_features=[*features, "changeDataFeed"])]
        self._commit(*first, metadata(configuration=properties), *(self._new() for _ in range(3)))

    # -- writers

    def append(self) -> None:
        self._commit(*(self._new() for _ in range(self.chance.randint(1, 3))))

    def optimize(self) -> None:
        chosen = self.chance.sample(sorted(self.live), min(3, len(self.live)))
        self._commit(*(self._gone(path, data_change=False) for path in chosen), self._new(data_change=False))

    def delete(self) -> None:
        path = self.chance.choice(sorted(self.live))
        removal = self._gone(path)
        self._vectors = (self._vectors + 1) % 100
        self.live[path] = vector(self._vectors)
        self._write(vector_file(self._vectors))
        self._commit(removal, adding(path, vector=self.live[path], modified_ms=self.now_ms))

    def update(self) -> None:
        if not self.has_feed:
            self.append()
            return
        self._names += 1
        path = f"_change_data/c{self._names}.parquet"
        self._write(path)
        self._commit(self._gone(self.chance.choice(sorted(self.live))), self._new(), changing(path))

    # -- the stream

    def deliver(self) -> None:
        """Plan the next batch; finish it, or be killed before."""
        log = Log(self.root)
        position = json.loads(self.end) if self.end else None
        if position is None:
            version, in_snapshot = log.newest, True
            index = self.chance.choice([0, 1, 10**6])
        else:
            version, in_snapshot = position["reservoirVersion"], position["isStartingVersion"]
            index = max(position["index"], -1) + self.chance.choice([1, 1, 2, 10**6])
            if version > log.newest:
                return
        count = len(log.snapshot(version)) if in_snapshot else self._files_of(log, version)
        if index + 1 >= count or (self.reads_feed and not in_snapshot):
            version, index, in_snapshot = version + 1, -1, False
            while not in_snapshot and version <= log.newest and self.chance.random() < 0.6:
                version += 1
        self.end = delta(version, index, in_snapshot=in_snapshot, source_version=self.chance.choice([1, 3]))
        self.batch += 1
        found = Checkpoint(modified_ms=self.now_ms)
        found.batch(self.batch, self.end, committed=self.chance.random() < 0.7)
        if self.batch:
            (self.checkpoint / "commits" / str(self.batch - 1)).write_bytes(b"v1\n{}")
        found.write(self.checkpoint)

    def _files_of(self, log: Log, version: int) -> int:
        return sum(bool(line.get("add", {}).get("dataChange")) for line in log.lines(version))

    # -- the admin

    def table(self) -> Table:
        return Table(LocalStorage(str(self.root)), clock=fixed_clock(self.now_ms))

    def maintain(self, *, is_protected: bool) -> None:
        act = self.chance.choice(["vacuum", "vacuum", "lite", "expire", "checkpoint"])
        globs = [f"{self.checkpoint.parent}/*"] if is_protected and self.batch >= 0 else []
        table = self.table()
        match act:
            case "checkpoint":
                table.checkpoint(force=True)
            case "expire":
                table.expire_log(protect_streams=globs)
            case _:
                mode = "lite" if act == "lite" and (self.root / commit_path(0)).exists() else "full"
                table.vacuum(protect_streams=globs, max_delete="100%", mode=mode, log_entries=False)
        for path in self.root.rglob("*"):
            if path.stat().st_mtime_ns > self.now_ms * 1_000_000:
                os.utime(path, ns=(self.now_ms * 1_000_000,) * 2)

    # -- files

    def _new(self, *, data_change: bool = True) -> Line:
        self._names += 1
        path = f"n{self._names}.parquet"
        self.live[path] = None
        self._write(path)
        return adding(path, data_change=data_change, modified_ms=self.now_ms)

    def _gone(self, path: str, *, data_change: bool = True) -> Line:
        return removing(path, vector=self.live.pop(path), data_change=data_change, deleted_ms=self.now_ms)

    def _write(self, path: str, data: bytes = b"0123456789") -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, ns=(self.now_ms * 1_000_000,) * 2)

    def _commit(self, *lines: Line) -> None:
        self.version += 1
        self._write(commit_path(self.version), to_bytes([commit_info(timestamp=self.now_ms), *lines]))

    # -- what becomes of the stream

    def fault(self) -> str | None:
        """Return why a restart fails, None if it does not."""
        if self.batch < 0:
            return None
        try:
            restart(self.root, self.checkpoint, feed=self.reads_feed)
        except Dies as fault:
            return str(fault)
        return None

    def verdict(self) -> Verdict:
        table = self.table()
        (found,) = find_checkpoints([str(self.checkpoint)], open_storage, table.engine)
        own = [(found, one) for one in found.sources if one.table_id == TABLE_ID]
        judged = [judge(read_history(table, own), *one) for one in own]
        findings = [one.feed if self.reads_feed and one.feed is not None else one.rows for one in judged]
        return worst([found.finding, *findings]).verdict


def _play(seed: int, place: Path) -> Counter[str]:
    """Play a history, at first under protection, then without, and return what was seen of the second part."""
    world, seen = _World(seed, place), Counter[str]()
    for step in range(_PROTECTED + _UNPROTECTED):
        is_protected = step < _PROTECTED
        world.now_ms += int(world.chance.choice([0.01, 0.5, 2, 5, 12, 40]) * DAY_MS)
        acts = [world.append, world.optimize, world.delete, world.update, world.deliver, world.deliver]
        act = world.chance.choice(acts)
        if len(world.live) > 2 or act == world.append:
            act()
        if world.chance.random() < 0.5:
            world.maintain(is_protected=is_protected)
        fault = world.fault()
        if is_protected or world.batch < 0:
            assert fault is None, f"seed {seed}, version {world.version}: {fault}"
            continue
        is_dead = world.verdict() is Verdict.DEAD
        assert is_dead == (fault is not None), f"seed {seed}, version {world.version}: {fault}"
        seen["dead" if is_dead else "alive"] += 1
        if is_dead:
            break
    return seen


@pytest.mark.long
@pytest.mark.quartered
@pytest.mark.parametrize("part", range(PARTS))
def test_no_stream_dies_under_protection_and_others_where_the_verdict_is_dead(part: int, tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(part, HISTORIES, PARTS):
        seen += _play(seed, tmp_path / str(seed))

    assert min(seen["dead"], seen["alive"]) >= 3, seen
