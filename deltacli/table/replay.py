"""Replaying the tail of a log: the commits after a checkpoint, newest first, small ones by line, large ones in columns.
Of many commits protocol, metadata and domains alone can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt, FileMissing, Refused, command
from deltacli.core.progress import SILENT, Progress, report_items, report_weighed_items
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.actions import Action, read_actions, stream_actions
from deltacli.delta.log.disputed_readings import (
    ADDED_AND_REMOVED,
    ADDED_TWICE,
    TWO_PROTOCOLS,
    find_repeated_kinds,
)
from deltacli.delta.log.file_actions import (
    FileBatch,
    NarrowRows,
    Survivors,
    TouchedFiles,
    decided_keys,
    file_key,
    key_column,
    narrow_batches,
    reconcile_commit,
    stated_records,
    survivors_of_stream,
    texts_of,
    whole_file_batch,
)
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.state import StateBuilder
from deltacli.delta.paths.spelling import canonical
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import commit_location, is_large, read_commit, stream_commit, stream_lines

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex
    from deltacli.table.handle import TableHandle
    from deltacli.work.commits.blocks import NarrowBlock

_ACTIONS_A_BATCH = 8_192
_BYTES_A_BATCH = 32 << 20
"""Of commits, or of statistics: 250 commits with one add and 2 MB of statistics each took 2.5 GB without this limit."""
_BYTES_JOINED = 1 << 30
"""Of rows of a large commit: a column has at most 2 GiB of paths."""
_BYTES_READ_AHEAD = 64 << 20
"""Total bytes of commits that are read at the same time."""
_KINDS = ("protocol", "metaData", "domainMetadata")
_MARKS = tuple(f'"{kind}"'.encode() for kind in _KINDS)
_MARK_WITHIN = 24
"""Bytes at the beginning of a line within which the kind of its action is."""


_APART_MS = 1_000
"""A store over a network tells the time of one file in seconds."""


class LogTail:
    """The result of the commits after a checkpoint: the small actions, the surviving file actions in narrow columns,
    and all of their keys.
    """

    def __init__(self) -> None:
        self.state = StateBuilder()
        self.adds: list[pa.RecordBatch] = []
        self.removes: list[pa.RecordBatch] = []
        self.seen: set[str] = set()
        self.contradicted: set[str] = set()
        """The canonical paths of live files whose older adds have another number of records. Large commits are not
        compared, nor what a checkpoint hides."""
        self._records: dict[str, int | None] = {}
        self.of_other_vectors: set[str] = set()
        """The canonical paths of live files that a newer commit added or removed under another vector, or without one.
        Large commits are not compared."""
        self.with_vectors: set[str] = set()
        """The canonical paths that were added or removed with a vector."""
        self.disputed: set[str] = set()
        """The rules of `validate` for what engines may read otherwise in these commits."""
        self.newest_commit_info: Action | None = None
        self.commit_info_is_first = False
        self.large: dict[int, LargeCommit] = {}
        """By version."""
        self.sums: dict[int, int] = {}
        """The CRC-32 of each small commit, by version: it must be the same where it is read again."""

    def take_small(self, actions: Sequence[tuple[str, Action]], source: str) -> None:
        """Add the small actions of a commit. Newer commits were taken before."""
        for rule in find_repeated_kinds(actions):
            is_decided = self.state.protocol if rule == TWO_PROTOCOLS else self.state.metadata
            if is_decided is None:
                self.disputed.add(rule)
        self.state.take(actions, source)

    def compare_records(self, actions: Sequence[tuple[str, Action]], survived: Survivors) -> None:
        """Compare the adds of a commit with newer ones of the same path, and remember those that older ones are
        compared with: adds that give a file another vector or other statistics. What a repair read from footers is
        right.
        """
        if self._records:
            for kind, add in actions:
                if kind == "add" and (path := canonical(str(add["path"]))) in self._records:
                    older, newer = stated_records(add.get("stats")), self._records[path]
                    if older is not None and newer is not None and older != newer:
                        self.contradicted.add(path)
        compared = [
            add for add in survived.adds if add.get("dataChange") is False or add.get("deletionVector") is not None
        ]
        if compared and not any(kind == "commitInfo" and info.get("operation") == "FSCK" for kind, info in actions):
            for add in compared:
                self._records.setdefault(canonical(str(add["path"])), stated_records(add.get("stats")))

    def decided_otherwise(self, actions: Sequence[tuple[str, Action]]) -> list[Action]:
        """Return the adds of a commit whose path newer commits have decided, with another vector than these have or
        without one, and remember the paths with vectors. It is called before the keys of the commit are known.
        """
        found = list[Action]()
        vectored = [pair for pair in actions if pair[1].get("deletionVector") is not None]
        if not (vectored or self.with_vectors):
            return found
        for kind, add in actions if self.with_vectors else vectored:
            if kind == "add":
                path = canonical(str(add.get("path")))
                if path in self.with_vectors or (add.get("deletionVector") is not None and path in self.seen):
                    found.append(add)
        for kind, action in vectored:
            if kind in ("add", "remove"):
                self.with_vectors.add(canonical(str(action.get("path"))))
        return found

    @property
    def decided(self) -> list[KeyIndex]:
        """The keys of large commits."""
        return [keys for one in self.large.values() for keys in one.keys]

    @property
    def touched(self) -> TouchedFiles:
        """The files that these commits have decided: of those taken so far, so it must not be kept."""
        return TouchedFiles(self.seen, self.decided)


class LargeCommit(NamedTuple):
    """A large commit: the hashes of keys that occur more than once in it, and its keys if older actions follow."""

    contested: frozenset[int]
    keys: Sequence[KeyIndex] = ()


def read_tail(
    storage: ReadStorage, engine: Engine, commits: Sequence[LogFile], *, older_follow: bool, progress: Progress = SILENT
) -> LogTail:
    """Read the commits after a checkpoint (ascending) once and return their result. Raises CommitCorrupt.

    `older_follow`: a checkpoint will be filtered by `seen`, so the keys of the oldest commit are needed, too.
    """
    tail = LogTail()
    held = _Held(tail, storage)
    contents = read_contents(storage, engine, commits, progress)
    for index, (file, content) in enumerate(contents):
        if content is not None:
            tail.sums[file.version] = crc32(content)
            actions = read_actions(content, file.name, disputed=tail.disputed)
            small = [(kind, action) for kind, action in actions if kind not in ("add", "remove")]
            try:
                tail.seen |= decided_keys(actions, tail.decided, file.name)
                suspects = tail.decided_otherwise(actions)
                survived = reconcile_commit(actions, tail.seen, file.name, disputed=tail.disputed)
                if suspects:
                    live = {id(add) for add in survived.adds}
                    tail.of_other_vectors |= {canonical(str(one["path"])) for one in suspects if id(one) in live}
                tail.compare_records(actions, survived)
                tail.take_small(small, file.name)
            except CommitCorrupt as corrupt:
                corrupt.facts = {**corrupt.facts, **_place_of(corrupt, content, file.name)}
                raise
            held.append(file, survived)
            info_is_first = bool(actions) and actions[0][0] == "commitInfo"
        else:
            held.flush()
            remember = older_follow or index < len(commits) - 1
            small = _take_large(storage, engine, file, tail, remember=remember, progress=progress)
            info_is_first = next((kind for kind, _ in stream_commit(storage, file)), "") == "commitInfo"
            tail.take_small(small, file.name)
        if index == 0:
            tail.newest_commit_info = next((action for kind, action in reversed(small) if kind == "commitInfo"), None)
            tail.commit_info_is_first = info_is_first
    held.flush()
    if not older_follow:
        tail.seen.clear()
        tail.with_vectors.clear()
    return tail


def replay_batches(
    storage: ReadStorage,
    engine: Engine,
    commits: Sequence[LogFile],
    tail: LogTail,
    *,
    partitions: tuple[str, ...],
    progress: Progress = SILENT,
) -> Iterator[FileBatch]:
    """Read the same commits again and yield their surviving file actions with all fields, in columns.

    `tail` is theirs, of `read_tail`; `partitions` are the physical names of the partition columns. Raises
    CommitCorrupt, and Refused (`plan.other-past`) where a commit is another one by now: what is taken of both would be
    a third table.
    """
    seen: set[str] = set()
    decided: list[KeyIndex] = []
    held = _HeldWhole()
    for file, content in read_contents(storage, engine, commits, progress):
        if content is not None:
            if crc32(content) != tail.sums[file.version]:
                raise _replaced(file)
            actions = read_actions(content, file.name)
            seen |= decided_keys(actions, decided, file.name)
            yield from held.append(file.name, reconcile_commit(actions, seen, file.name), file.size_bytes)
            continue
        contested, keys = tail.large[file.version]
        if contested:
            hidden = seen.union(*(texts_of(index.keys) for index in decided))
            for survived in survivors_of_stream(stream_commit(storage, file), hidden, contested, file.name):
                size_bytes = sum(len(stats) for add in survived.adds if isinstance(stats := add.get("stats"), str))
                yield from held.append(file.name, survived, size_bytes)
        else:
            yield from _large_batches(storage, engine, file, TouchedFiles(seen, decided), partitions, progress)
        _require_same(storage, file)
        decided += keys
    yield from held.flush()


def _large_batches(
    storage: ReadStorage,
    engine: Engine,
    file: LogFile,
    touched: TouchedFiles,
    partitions: tuple[str, ...],
    progress: Progress,
) -> Iterator[FileBatch]:
    """A large commit in which no key occurs twice."""
    from deltacli.work.commits.blocks import plan_blocks, read_whole_block

    read = partial(read_whole_block, storage, touched=touched, partitions=partitions)
    plan = plan_blocks(file)
    with progress.step(f"reading commit {file.version} again", unit="bytes", total=file.size_bytes) as step:
        for piece, batch in zip(plan, engine.run(read, plan), strict=True):
            yield batch
            step.advance(min(piece.length, file.size_bytes - piece.offset))


def _require_same(storage: ReadStorage, file: LogFile) -> None:
    now = storage.stat(commit_location(file))
    if now.size_bytes != file.size_bytes or abs(now.modified_ms - file.modified_ms) > _APART_MS:
        raise _replaced(file)


def _replaced(file: LogFile) -> Refused:
    said = f"{file.name} was replaced while it was read, so the log has another past"
    return Refused(said, code="plan.other-past", facts={"changed": file.name}, hint=command("history", limit=10))


class _HeldWhole:
    """Collects survivors of many small commits into columns."""

    def __init__(self) -> None:
        self._held: list[tuple[str, Survivors]] = []
        self._count = self._bytes = 0

    def append(self, source: str, survived: Survivors, size_bytes: int) -> Iterator[FileBatch]:
        self._held.append((source, survived))
        self._count += len(survived.adds) + len(survived.removes)
        self._bytes += size_bytes
        if self._count >= _ACTIONS_A_BATCH or self._bytes >= _BYTES_A_BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[FileBatch]:
        if self._count:
            yield whole_batch(self._held)
        self._held, self._count, self._bytes = [], 0, 0


def whole_batch(held: Sequence[tuple[str, Survivors]]) -> FileBatch:
    """Return survivors, each with its commit file. Raises CommitCorrupt, naming the file."""
    adds = [add for _, survived in held for add in survived.adds]
    removes = [remove for _, survived in held for remove in survived.removes]
    try:
        return whole_file_batch(adds, removes, "")
    except CommitCorrupt:
        for source, survived in held:
            whole_file_batch(*survived, source)
        raise


def read_contents(
    storage: ReadStorage, engine: Engine, commits: Sequence[LogFile], progress: Progress
) -> Iterator[tuple[LogFile, bytes | None]]:
    """Yield the commits newest first with their bytes, None for a large one; several at a time where that is faster."""

    def read(file: LogFile) -> tuple[LogFile, bytes | None]:
        return file, None if is_large(file) else read_commit(storage, file)

    largest = max((file.size_bytes for file in commits if not is_large(file)), default=0)
    at_once = min(storage.capabilities.parallel_reads, max(1, _BYTES_READ_AHEAD // max(1, largest)))
    contents = engine.run(read, reversed(commits), at_once=at_once)
    sizes = [file.size_bytes for file in commits]
    return report_weighed_items(
        contents, progress, "reading the log", unit="commits", weights=sizes, weight_of=lambda one: one[0].size_bytes
    )


class _Held:
    """Collects survivors of several small commits: a batch per commit would cost more than the commit."""

    def __init__(self, tail: LogTail, storage: ReadStorage) -> None:
        self._tail = tail
        self._storage = storage
        self._rows = NarrowRows()
        self._ends: list[tuple[LogFile, tuple[int, int]]] = []
        self._bytes = 0

    def append(self, file: LogFile, survived: Survivors) -> None:
        self._rows.take(survived.adds, survived.removes)
        self._ends.append((file, self._rows.position))
        self._bytes += file.size_bytes
        if len(self._rows) >= _ACTIONS_A_BATCH or self._bytes >= _BYTES_A_BATCH:
            self.flush()

    def flush(self) -> None:
        """Append the collected survivors to the tail; where they do not fit, name the faulty commit and its line."""
        rows, ends, self._rows, self._ends = self._rows, self._ends, NarrowRows(), []
        self._bytes = 0
        try:
            adds, removes = rows.batches("")
        except CommitCorrupt:
            start = (0, 0)
            for file, end in ends:
                try:
                    rows.part(start, end).batches(file.name)
                except CommitCorrupt as corrupt:
                    content = read_commit(self._storage, file)
                    corrupt.facts = {**corrupt.facts, **_place_of(corrupt, content, file.name)}
                    raise
                start = end
            raise
        if adds.num_rows:
            self._tail.adds.append(adds)
        if removes.num_rows:
            self._tail.removes.append(removes)


def _place_of(corrupt: CommitCorrupt, content: bytes, source: str) -> dict[str, str]:
    """Return, as facts, the line of a commit with the first action that has a fault, and the byte where it begins."""
    offset = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            for kind, action in stream_actions([line], source):
                _require_fit(kind, action, source)
        except CommitCorrupt as fault:
            if fault.message == corrupt.message:
                return {"line": str(number), "byte": str(offset)}
        offset += len(line) + 1
    return {}


def _require_fit(kind: str, action: Action, source: str) -> None:
    """Raise CommitCorrupt for an action that the state of a table cannot hold."""
    if kind not in ("add", "remove"):
        StateBuilder().take([(kind, action)], source)
        return
    file_key(action, source)
    narrow_batches([action] if kind == "add" else [], [action] if kind == "remove" else [], source)


def _take_large(
    storage: ReadStorage, engine: Engine, file: LogFile, tail: LogTail, *, remember: bool, progress: Progress
) -> list[tuple[str, Action]]:
    """Append a large commit's survivors to the tail, in columns, and return its small actions."""
    from deltacli.delta.encoding.many_values import KeyIndex, repeated
    from deltacli.work.commits.blocks import plan_blocks, read_narrow_block

    read = partial(read_narrow_block, storage, touched=tail.touched)
    blocks: list[NarrowBlock] = []
    hashes: list[ArrowArray] = []
    fault: CommitCorrupt | None = None
    try:
        with progress.step(f"reading commit {file.version}", unit="bytes", total=file.size_bytes) as step:
            plan = plan_blocks(file)
            for piece, block in zip(plan, engine.run(read, plan), strict=True):
                hashes += block.hashes
                blocks.append(block._replace(hashes=[]))
                step.advance(min(piece.length, file.size_bytes - piece.offset))
    except CommitCorrupt as corrupt:
        fault = corrupt.with_traceback(None)  # its frames keep the bytes of a line alive
    if fault is not None:
        for _ in stream_commit(storage, file):  # scan again from the start: the error then names line and byte
            pass
        raise fault
    joined_hashes = pa.concat_arrays(hashes)
    hashes.clear()
    contested = frozenset(repeated(joined_hashes).to_pylist())
    tail.disputed.update(*(block.disputed for block in blocks))
    if contested:
        blocks = _settle(blocks, contested, tail.disputed)
    small = [action for block in blocks for action in block.small]
    keys: list[KeyIndex] = []
    adds, removes = ([getattr(block, kind) for block in blocks] for kind in ("adds", "removes"))
    blocks.clear()
    for rows, kept in ((adds, tail.adds), (removes, tail.removes)):
        if not remember:
            kept += rows
            continue
        for joined in _joined(rows):
            kept.append(joined)
            keys.append(KeyIndex(key_column(joined.column("path"), joined.column("dv_id"))))
    tail.large[file.version] = LargeCommit(contested, keys)
    return small


def _joined(batches: list[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the rows of batches in few, whose paths an index can share. The batches are given up on the way."""
    batches.reverse()
    while batches:
        part: list[RecordBatch] = []
        size = 0
        while batches and (not part or size + batches[-1].nbytes <= _BYTES_JOINED):
            part.append(batches.pop())
            size += part[-1].nbytes
        yield from pa.Table.from_batches(part).combine_chunks().to_batches()


def _settle(blocks: list[NarrowBlock], contested: frozenset[int], disputed: set[str]) -> list[NarrowBlock]:
    """Keep the last add of each contested key, or its last remove if there is no add, as `reconcile_commit` does.

    Args:
        blocks: The file actions of a commit, in its order.
        contested: The hashes of keys that the commit has more than once.
        disputed: Gets the rules of `validate` for what other engines may read otherwise. Two adds of one key count as
            different: only their paths and vectors were kept.
    """
    settled: set[bytes] = set()
    adds = [_keep_last(block.adds, contested, settled) for block in reversed(blocks)][::-1]
    if sum(rows.num_rows for rows in adds) < sum(block.adds.num_rows for block in blocks):
        disputed.add(ADDED_TWICE)
    added = {file for rows in adds for file in _contested_files(rows, contested)}
    if any(file in added for block in blocks for file in _contested_files(block.removes, contested)):
        disputed.add(ADDED_AND_REMOVED)
    removes = [_keep_last(block.removes, contested, settled) for block in reversed(blocks)][::-1]
    return [block._replace(adds=a, removes=r) for a, r, block in zip(adds, removes, blocks, strict=True)]


def _contested_files(rows: RecordBatch, contested: frozenset[int]) -> list[tuple[str, str | None]]:
    """Return the files, by path as the log has it and vector, whose keys have one of the hashes in `contested`."""
    from deltacli.work.commits.blocks import key_hashes

    chosen = rows.filter(pc.is_in(key_hashes(rows), value_set=pa.array(contested, pa.int64())))
    return list(zip(chosen.column("path").to_pylist(), chosen.column("dv_id").to_pylist(), strict=True))


def _keep_last(rows: RecordBatch, contested: frozenset[int], settled: set[bytes]) -> RecordBatch:
    """Drop rows whose contested key is settled already, from the end; each kept row settles its key."""
    from deltacli.work.commits.blocks import key_hashes

    keep = [True] * rows.num_rows
    keys = key_column(rows.column("path"), rows.column("dv_id"))
    hashes = key_hashes(rows).to_pylist()
    for index in range(rows.num_rows - 1, -1, -1):
        if hashes[index] in contested:
            key = keys[index].as_py()
            keep[index] = key not in settled
            settled.add(key)
    return pc.filter(rows, pa.array(keep, pa.bool_()))


def small_actions(table: TableHandle, files: list[LogFile]) -> Iterator[tuple[int, list[tuple[str, Action]] | None]]:
    """Yield the protocol, the metadata and the domains of each commit, None for a damaged one; several commits are read
    at a time where that helps.
    """

    def read(file: LogFile) -> tuple[int, list[tuple[str, Action]] | None]:
        try:
            return file.version, _read(table, file)
        except (CommitCorrupt, FileMissing):
            return file.version, None

    found = table.engine.run(read, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(report_items(found, table.progress, "reading the log", unit="commits", total=len(files)))


def _read(table: TableHandle, file: LogFile) -> list[tuple[str, Action]]:
    """Return the actions of a commit that change protocol, metadata or domains. Other lines are not parsed."""
    lines = stream_lines(table.storage, file) if is_large(file) else read_commit(table.storage, file).split(b"\n")
    kept = []
    for line in lines:
        head = line[:_MARK_WITHIN]
        if not head.startswith(b'{"') and head.strip():
            return [one for one in stream_commit(table.storage, file) if one[0] in _KINDS]
        if any(mark in head for mark in _MARKS):
            kept.append(line)
    return [one for one in read_actions(b"\n".join(kept), file.name) if one[0] in _KINDS] if kept else []
