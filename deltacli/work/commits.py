"""Reading commits: whole small ones, streams of large ones, and the tail of a log reconciled newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.delta.commit_lines import Action, read_actions, split_lines, stream_actions
from deltacli.delta.file_actions import narrow_adds, narrow_removes
from deltacli.delta.log_path import LOG_DIRECTORY
from deltacli.delta.replay import LargeCommit, Survivors, reconcile_commit
from deltacli.delta.segment import LogFile
from deltacli.delta.state import StateBuilder
from deltacli.errors import CommitCorrupt
from deltacli.storage import Storage

if TYPE_CHECKING:
    import pyarrow

LARGE_COMMIT_BYTES = 32 << 20
"""From here on a commit is streamed instead of held."""

_BLOCK_BYTES = 4 << 20
_ACTIONS_A_BATCH = 4_096


@dataclass(slots=True)
class LogTail:
    """What the commits after a checkpoint decide: the small actions, the survivors in narrow columns, and every key they touched."""

    state: StateBuilder = field(default_factory=StateBuilder)
    adds: list[pyarrow.RecordBatch] = field(default_factory=list)
    removes: list[pyarrow.RecordBatch] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    newest_commit_info: Action | None = None
    commit_info_is_first: bool = False
    contested: dict[int, frozenset[int]] = field(default_factory=dict)


def commit_location(file: LogFile) -> str:
    """Where a commit lies, relative to the table."""
    return f"{LOG_DIRECTORY}/{file.name}"


def require_bytes(file: LogFile) -> None:
    """Raise CommitCorrupt for a commit of zero bytes: a torn write, and skipping it would revive or lose rows."""
    if file.size_bytes == 0:
        raise CommitCorrupt(
            f"{file.name} is empty: a commit of zero bytes is a torn write, and skipping it would revive or lose rows",
            code="commit.empty",
            facts={"file": commit_location(file), "size": "0 bytes", "version": str(file.version)},
            hint=f"deltacli snapshot {{table}} --version {file.version - 1}" if file.version else "deltacli history {table}",
        )


def read_blocks(storage: Storage, path: str, size_bytes: int) -> Iterator[bytes]:
    """Yield a file in blocks of a few MiB."""
    for offset in range(0, size_bytes, _BLOCK_BYTES):
        yield storage.read_range(path, offset, _BLOCK_BYTES)


def stream_commit(storage: Storage, file: LogFile) -> Iterator[tuple[str, Action]]:
    """Yield the actions of a commit of any size, in file order. Raises CommitCorrupt."""
    require_bytes(file)
    if file.size_bytes < LARGE_COMMIT_BYTES:
        yield from read_actions(storage.read(commit_location(file)), file.name)
    else:
        yield from stream_actions(split_lines(read_blocks(storage, commit_location(file), file.size_bytes)), file.name)


def reconcile_commits(
    storage: Storage,
    commits: Sequence[LogFile],
    tail: LogTail,
    contents: Iterable[bytes | None],
    *,
    older_follow: bool,
) -> Iterator[tuple[LogFile, Survivors]]:
    """Yield the survivors of `commits`, newest first, filling `tail.state`, `tail.seen` and the newest commit's provenance.

    `contents` are the bytes of each commit in that order, None for a large one, which is streamed. `older_follow`: a checkpoint will be
    filtered by `tail.seen`.
    """
    for index, (file, content) in enumerate(zip(reversed(commits), contents, strict=True)):
        require_bytes(file)
        if content is not None:
            actions = read_actions(content, file.name)
            small = [(kind, action) for kind, action in actions if kind not in ("add", "remove")]
            survivors: Iterable[Survivors] = (reconcile_commit(actions, tail.seen, file.name),)
            first = actions[0][0] if actions else ""
        else:
            small = []
            remember = older_follow or index < len(commits) - 1
            survivors = _reconcile_large(storage, file, tail, small, remember=remember)
            first = ""
        for survived in survivors:
            yield file, survived
        tail.state.take(small, file.name)
        if index == 0:
            tail.newest_commit_info = next((action for kind, action in reversed(small) if kind == "commitInfo"), None)
            tail.commit_info_is_first = (first or (small[0][0] if small else "")) == "commitInfo"


def _reconcile_large(
    storage: Storage, file: LogFile, tail: LogTail, small: list[tuple[str, Action]], *, remember: bool
) -> Iterator[Survivors]:
    """Yield the survivors of a large commit; a first pass that turns out to hold contested keys is thrown away and done again."""

    def actions() -> Iterator[tuple[str, Action]]:
        small.clear()
        for kind, action in stream_commit(storage, file):
            if kind in ("add", "remove"):
                yield kind, action
            else:
                small.append((kind, action))

    if file.version not in tail.contested:
        scout = LargeCommit(actions, tail.seen, file.name)
        narrow = [narrow_survivors(survived, file.name) for survived in scout.survivors(remember=remember)]
        tail.contested[file.version] = scout.contested or frozenset()
        if scout.is_settled:
            tail.adds.extend(adds for adds, _ in narrow)
            tail.removes.extend(removes for _, removes in narrow)
            return
    yield from LargeCommit(actions, tail.seen, file.name, contested=tail.contested[file.version]).survivors(remember=remember)


def narrow_survivors(survived: Survivors, source: str) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch]:
    """Return the survivors in narrow columns: (adds, removes)."""
    return narrow_adds(survived.adds, source), narrow_removes(survived.removes, source)


def read_tail(storage: Storage, commits: Sequence[LogFile], contents: Iterable[bytes | None], *, older_follow: bool) -> LogTail:
    """Read the commits after a checkpoint (ascending) once and return what they decide. Raises CommitCorrupt."""
    tail = LogTail()
    held: list[tuple[LogFile, Survivors]] = []
    amount = 0
    for file, survived in reconcile_commits(storage, commits, tail, contents, older_follow=older_follow):
        held.append((file, survived))
        amount += len(survived.adds) + len(survived.removes)
        if amount >= _ACTIONS_A_BATCH:
            _append_narrow(tail, held)
            held, amount = [], 0
    _append_narrow(tail, held)
    return tail


def _append_narrow(tail: LogTail, held: Sequence[tuple[LogFile, Survivors]]) -> None:
    """Turn the survivors of several commits into one batch each; where that fails, commit by commit, to name the guilty file."""
    together = Survivors([a for _, survived in held for a in survived.adds], [r for _, survived in held for r in survived.removes])
    try:
        adds, removes = narrow_survivors(together, "")
    except CommitCorrupt:
        for file, survived in held:
            narrow_survivors(survived, file.name)
        raise
    if adds.num_rows:
        tail.adds.append(adds)
    if removes.num_rows:
        tail.removes.append(removes)
