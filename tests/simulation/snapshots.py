"""How the model writers read a table: its newest version, through the storage port."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltacli.core.errors import FileMissing
from deltacli.storage.base import ReadStorage
from tests.simulation.reading import (
    NOTHING,
    Checkpoint,
    Tracked,
    checkpoints_of,
    commits_of,
    configuration_of,
    deleted_rows,
    info_of,
    is_on,
    lines_of,
    paths_of,
    rows_of,
    state_after,
)
from tests.support.actions import Action, Line
from tests.support.builder import LOG, Files, StoredFile, commit_path
from tests.support.model import State
from tests.world.oracle import Damaged


@dataclass(frozen=True)
class Snapshot:
    """A version as a writer read it."""

    version: int
    state: State
    time_ms: int
    """That of its commit: in it, or of its file."""
    listed: Files
    """The names of the log, with their times."""

    def after(self, lines: tuple[Line, ...], modified_ms: int) -> Snapshot:
        """The next version."""
        state = self.state.after(lines)
        return replace(self, version=self.version + 1, state=state, time_ms=time_of(state, lines, modified_ms))

    @property
    def properties(self) -> dict[str, str]:
        return dict(configuration_of(self.state))

    @property
    def live(self) -> list[Action]:
        return list(self.state.live.values())


def time_of(state: State, lines: tuple[Line, ...], modified_ms: int) -> int:
    """The time of a commit."""
    found = info_of(lines).get("inCommitTimestamp") if is_on(state, "delta.enableInCommitTimestamps") else None
    return found or modified_ms


def read_snapshot(storage: ReadStorage) -> Snapshot:
    """The newest version. Raises Damaged where the log does not say it."""
    try:
        listed = {f"{LOG}/{one.name}": StoredFile(b"", one.modified_ms) for one in storage.list_from(LOG)}
    except FileMissing as fault:
        raise Damaged(str(fault)) from fault
    commits = commits_of(listed)
    for start in [*reversed(checkpoints_of(listed)), None]:
        try:
            version = -1 if start is None else start.version
            state = NOTHING if start is None else _state_of(storage, start)
            time_ms = 0 if start is None else listed[start.paths[0]].modified_ms
            if version in commits:
                lines = lines_of(storage.read(commit_path(version)))
                time_ms = time_of(state, lines, listed[commits[version]].modified_ms)
            while version + 1 in commits:
                version += 1
                data = storage.read(commits[version])
                state = state_after(state, data)
                time_ms = time_of(state, lines_of(data), listed[commits[version]].modified_ms)
        except (Damaged, FileMissing):
            continue
        if state.metadata and state.protocol and version >= max(commits, default=version):
            return Snapshot(version, state, time_ms, listed)
    raise Damaged("no version can be read")


def _state_of(storage: ReadStorage, start: Checkpoint) -> State:
    files = {path: StoredFile(storage.read(path)) for path in start.paths}
    sidecars = [
        Checkpoint.sidecar_path(line["sidecar"])
        for line in Checkpoint(start.version, start.paths).top_lines(files)
        if line.get("sidecar")
    ]
    files |= {path: StoredFile(storage.read(path)) for path in sidecars}
    return start.state(files)


def read_rows(storage: ReadStorage, add: Action, state: State) -> tuple[Tracked, ...]:
    """The rows of a live file."""
    return rows_of(add, state, {path: StoredFile(storage.read(path)) for path in sorted(paths_of(add))})


def read_vector(storage: ReadStorage, add: Action) -> frozenset[int]:
    """The rows that the vector of a live file takes from it."""
    vectors = sorted(path for path in paths_of(add) if path.endswith(".bin"))
    return deleted_rows(add.get("deletionVector"), {path: StoredFile(storage.read(path)) for path in vectors})
