"""What a directory holds, version by version, and how it follows what the environment does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from tests.simulation.judging import (
    Version,
    is_commit,
)
from tests.simulation.promises import ENVIRONMENT, Tree
from tests.simulation.reading import (
    NOTHING,
    ROW_ID,
    ROW_VERSION,
    Checkpoint,
    Kind,
    Rows,
    Tracked,
    checkpoints_of,
    commits_of,
    configuration_of,
    find_paths_in_manifest,
    has_logical_names,
    info_of,
    is_on,
    lines_of,
    name_of,
    paths_of,
    row_of,
    rows_of,
    shown,
    state_after,
)
from tests.support.actions import Action
from tests.support.builder import Files, StoredFile, commit_path
from tests.support.model import FileKey, State
from tests.world.oracle import DEFAULT_RETENTION_MS, Damaged, duration_ms

_LATE_MS = 3 * 60_000
_LOG_RETENTION_MS = 30 * 24 * 3_600_000


class Truth:
    """The versions of a table as committed."""

    def __init__(self, tree: Tree, now_ms: Callable[[], int]) -> None:
        self.tree = tree
        self.truth: dict[int, Version] = {}
        """Versions as committed: those that are there, that are expired, and those that the environment took away."""
        self._now_ms = now_ms
        self._bytes: Files = {}
        """The files of versions as they were first committed."""
        self._lost: dict[str, int] = {}
        """What the environment took away or damaged, and the number of changes that there had been."""
        self._changed: set[str] = set()
        """What the environment has changed."""
        self._ticks = self._last_environment = self._last_commit = 0
        self._last_of: dict[str, int] = {}
        """The last change of each actor."""
        self._shaken: set[int] = set()
        """Versions whose commits the environment took away or rewrote, perhaps while a file was made from them."""
        self.pinned: dict[str, set[str]] = {}
        """The files that a clone needs, by the path of the note about it."""
        self._rows: dict[tuple[object, ...], tuple[Tracked, ...]] = {}
        self._rewritten: set[int] = set()
        """Versions of which the environment made another one."""
        self._rebuilt: set[int] = set()
        self._once_lost: set[int] = set()
        """Versions that could not be rebuilt any more when the environment had acted."""
        self._had: set[bytes] = set()
        self._once: dict[tuple[int, bytes], Version] = {}
        """Versions of any past, by their numbers and commits."""
        """All commits that there ever were."""
        self._damaged: set[bytes] = set()
        """What the environment made of commits, which cannot be read."""
        self.environment(dict(tree.files))
        self._changed.clear()

    @property
    def newest(self) -> int:
        """The newest version that is there; -1 without any."""
        found = {*commits_of(self.tree.files), *(one.version for one in checkpoints_of(self.tree.files))}
        return max(found, default=-1)

    @property
    def rebuilt(self) -> frozenset[int]:
        """The versions that the log can rebuild."""
        return frozenset(self._rebuilt)

    def rows(self, version: int) -> Rows:
        """The rows of a version by the names of its columns, without nulls."""
        found = self.truth[version]
        return Counter(row_of(shown(one.row, found.state)) for one in found.rows)

    def leftovers(self) -> set[str]:
        """The data files that no version names."""
        named = self._named()
        return {path for path in self.tree.files if name_of(path).kind is Kind.DATA and path not in named}

    def absent(self, paths: Iterable[str]) -> set[str]:
        """Which of some files are not there, or not as they were."""
        return {path for path in paths if path not in self.tree.files or path in self._lost}

    def had(self, path: str, file: StoredFile) -> bool:
        """Whether a file is as it was first committed."""
        known = self._bytes.get(path)
        return known is not None and known.data == file.data

    def committed(self, path: str, file: StoredFile) -> StoredFile:
        """A file as it was first committed, which may have been cut since; as it is where it never was."""
        return self._bytes.get(path, file)

    def is_of_world(self, path: str) -> bool:
        """Whether the world has changed a file."""
        return path in self._changed

    def pinned_files(self) -> set[str]:
        """The files that clones need of which notes are there."""
        return {path for note, paths in self.pinned.items() if note in self.tree.files for path in paths}

    def to_vacuum(self, retention_ms: int | None = None) -> set[str]:
        """The data files that a vacuum of everything deletes now, as the protocol has it.

        Not those with columns under logical names: a `features drop columnMapping` that gave up leaves such files.
        """
        head = self.truth[self.newest]
        cutoff = self._now_ms() - (self._retention_ms(head.state) if retention_ms is None else retention_ms)
        live = find_paths_in_manifest(head.state.live.values()) | self.pinned_files()
        dead = {path: remove for remove in self._visible(head).values() for path in paths_of(remove)}
        return {
            path
            for path, file in self.tree.files.items()
            if name_of(path).kind is Kind.DATA
            and path not in live
            and (dead[path].get("deletionTimestamp", 0) if path in dead else file.modified_ms) <= cutoff
            and not has_logical_names(file, head.state)
        }

    def environment(self, changes: Mapping[str, StoredFile | None]) -> None:
        """The world changed, and the model follows: what `changes` names is in the directory already."""
        self._ticks += 1
        self._last_environment = self._last_of[ENVIRONMENT] = self._ticks
        self._changed.update(changes)
        self._last_commit = self._ticks
        for path, after in changes.items():
            kind = name_of(path).kind
            if kind is Kind.COMMIT and self._ticks > 1:
                self._shaken.add(name_of(path).version)
            is_damaged = kind is Kind.COMMIT and after is not None and not is_commit(after.data)
            known = self.truth.get(name_of(path).version) if kind is Kind.COMMIT else None
            if known is not None and after is not None and not is_damaged and known.data != after.data:
                self._rewritten.add(name_of(path).version)
            if kind is Kind.COMMIT and after is not None:
                self._had.add(after.data)
            is_damaged = is_damaged or (after is not None and self.committed(path, after).data != after.data)
            if is_damaged and after is not None:
                self._damaged.add(after.data)
            if after is None or is_damaged:
                self._lost[path] = self._ticks
            else:
                self._lost.pop(path, None)
            if kind is Kind.DATA and path not in self._bytes:
                self._rows.clear()
        if any(name_of(path).kind in (Kind.COMMIT, Kind.CHECKPOINT, Kind.SIDECAR) for path in changes):
            before = self._rebuilt
            self._follow()
            self._once_lost |= before - self._rebuilt

    def _follow(self) -> None:
        """Believe what the log says, where it says otherwise than the model."""
        files, is_other = self.tree.files, False
        self._once |= {(version, known.data): known for version, known in self.truth.items()}
        commits = commits_of(files)
        starts = {one.version: one for one in checkpoints_of(files) if one.is_readable(files)}
        for version in sorted({*commits, *starts, *self.truth}):
            known, path = self.truth.get(version), commits.get(version)
            if path is None:
                if known is None:
                    self._believe_checkpoint(starts[version])
                elif is_other:
                    del self.truth[version]
                continue
            if known is not None and known.data == files[path].data and not is_other:
                continue
            base = self.truth.get(version - 1)
            if base is None and version > 0 and version in starts:
                self._believe_checkpoint(starts[version])
                self.truth[version].data = files[path].data
                with suppress(Damaged):
                    stamp = info_of(lines_of(files[path].data)).get("inCommitTimestamp")
                    is_stamped = is_on(self.truth[version].state, "delta.enableInCommitTimestamps")
                    self.truth[version].time_ms = stamp if is_stamped and stamp else files[path].modified_ms
                continue
            try:
                made = self._made(version, files[path], base)
            except (Damaged, KeyError):
                continue
            is_other = is_other or known is not None
            self.truth[version] = made
        self._rebuilt = self._rebuildable()

    def _believe_checkpoint(self, start: Checkpoint) -> None:
        state = start.state(self.tree.files)
        time_ms = self.tree.files[start.paths[0]].modified_ms
        self.truth[start.version] = Version(start.version, b"", state, self._rows_of_state(state), time_ms)

    def _made(self, version: int, file: StoredFile, base: Version | None) -> Version:
        lines = lines_of(file.data)
        state = state_after(NOTHING if base is None else base.state, file.data)
        if state.metadata is None or state.protocol is None:
            raise Damaged(f"version {version} has no metadata or no protocol")
        time_ms = info_of(lines).get("inCommitTimestamp") if is_on(state, "delta.enableInCommitTimestamps") else None
        return Version(version, file.data, state, self._rows_of_state(state), time_ms or file.modified_ms)

    def _rows_of_state(self, state: State) -> tuple[Tracked, ...]:
        assert state.metadata is not None
        configuration = configuration_of(state)
        named = (configuration.get(name) for name in ("delta.columnMapping.mode", ROW_ID, ROW_VERSION))
        schema = (state.metadata["schemaString"], *named)
        found: list[Tracked] = []
        for key, add in state.live.items():
            wanted = (key, schema, add.get("baseRowId"), add.get("defaultRowCommitVersion"))
            if wanted not in self._rows:
                self._rows[wanted] = self._rows_of(add, state)
            found += self._rows[wanted]
        return tuple(found)

    def _rows_of(self, add: Action, state: State) -> tuple[Tracked, ...]:
        files = {path: file for path in paths_of(add) if (file := self._file(path)) is not None}
        for path, file in files.items():
            self._bytes.setdefault(path, file)
        try:
            return rows_of(add, state, files)
        except Damaged:
            return ()

    def _file(self, path: str) -> StoredFile | None:
        """A file of a version as it was committed, though it is lost now."""
        return self._bytes.get(path) or self.tree.files.get(path)

    def _rebuild(self, version: int, start: Checkpoint | None) -> State | None:
        """The state of a version from a checkpoint or from the first commit, by what is there now."""
        files = self.tree.files
        try:
            state = NOTHING if start is None else start.state(files)
            for number in range(0 if start is None else start.version + 1, version + 1):
                if commit_path(number) not in files:
                    return None
                state = state_after(state, files[commit_path(number)].data)
        except Damaged:
            return None
        return state if state.protocol and state.metadata else None

    def _rebuildable(self) -> set[int]:
        files = self.tree.files
        commits = {
            version: path
            for version, path in commits_of(files).items()
            if path not in self._lost or is_commit(files[path].data)
        }
        found = set[int]()
        starts = {one.version for one in checkpoints_of(files) if one.is_readable(files)}
        for start in {-1, *starts}:
            version = start
            while True:
                if version >= 0:
                    found.add(version)
                version += 1
                if version not in commits or version in found:
                    break
        return found

    def _is_expired(self, version: int, retention_ms: int | None) -> bool:
        newest = self.newest
        if version >= newest or version not in self.truth:
            return version < newest
        head = self.truth.get(newest, self.truth[version])
        kept = configuration_of(head.state).get("delta.logRetentionDuration")
        span = duration_ms(kept, _LOG_RETENTION_MS) if retention_ms is None else retention_ms
        return self.truth[version].time_ms <= self._now_ms() - span

    def _is_retained(self, version: int) -> bool:
        """Whether a version was the newest within the retention of files."""
        after = self.truth.get(version + 1)
        head = self.truth.get(self.newest, self.truth[version])
        return after is None or after.time_ms > self._now_ms() - self._retention_ms(head.state)

    def _named(self) -> set[str]:
        """The files that any version names."""
        return {
            path
            for version in self.truth.values()
            for actions in (version.state.live, version.state.tombstones)
            for path in find_paths_in_manifest(actions.values())
        }

    def _retention_ms(self, state: State) -> int:
        return duration_ms(configuration_of(state).get("delta.deletedFileRetentionDuration"), DEFAULT_RETENTION_MS)

    def _retention_of_late_ms(self) -> int:
        """The shortest retention of the newest version and of those that were it while a look at the log counts."""
        kept = [self._retention_ms(self.truth[self.newest].state)]
        for version in range(self.newest, 0, -1):
            if version - 1 not in self.truth or self.truth[version].time_ms < self._now_ms() - _LATE_MS:
                break
            kept.append(self._retention_ms(self.truth[version - 1].state))
        return min(kept)

    def _visible(self, head: Version) -> Mapping[FileKey, Action]:
        """The tombstones that a reader sees: a checkpoint leaves the expired ones out."""
        starts = [one for one in checkpoints_of(self.tree.files) if one.version <= head.number]
        state = self._rebuild(head.number, starts[-1]) if starts else None
        return head.state.tombstones if state is None else state.tombstones
