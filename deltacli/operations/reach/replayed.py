"""The commits of a log read once, oldest first: which versions can be replayed, and every file that they name.

A version follows from its checkpoint, which a reader begins with, else from the version before it and its commit. Large
checkpoints are read only where nothing else leads to their version. Spec: Action Reconciliation; Checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import CommitCorrupt, FileMissing, ProtocolUnsupported, Unreadable
from deltacli.core.progress import reported
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.file_actions import narrow_batches
from deltacli.delta.log.replay import reconcile_commit
from deltacli.delta.log.state import Metadata, StateBuilder, has_in_commit_timestamps
from deltacli.delta.protocol.protocol_action import Protocol, require_readable
from deltacli.table.find_log import Log
from deltacli.table.rebuild import rebuild
from deltacli.table.replay import read_tail
from deltacli.work.commits.file_references import FileReferences, NamedFiles, commit_actions
from deltacli.work.commits.reading import is_large

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogFile, LogListing
    from deltacli.table.handle import TableHandle


_BYTES_COMPARED = 64 << 20
"""Of checkpoints whose versions follow from commits as well. They agree unless one is damaged."""


class ReadCommit(NamedTuple):
    """A commit: the files that it adds and removes, in narrow columns, its change data, and its small actions; where it
    is damaged, only why.
    """

    version: int
    adds: tuple[RecordBatch, ...] = ()
    removes: tuple[RecordBatch, ...] = ()
    change_data: tuple[FileReferences, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    stamp: int | None = None
    """The in-commit timestamp."""
    fault: str | None = None


class Step(NamedTuple):
    """A version: the run that it belongs to (None: it cannot be replayed), the live files of the checkpoint where it
    begins one, else its commit; what prevents it from being replayed or from being read.
    """

    version: int
    run: int | None = None
    base: tuple[RecordBatch, ...] | None = None
    commit: ReadCommit | None = None
    fault: str | None = None
    is_unsupported: bool = False
    metadata: Metadata | None = None
    stamp: int | None = None
    """When it was committed, where in-commit timestamps are enabled; epoch milliseconds."""


def replayed(table: TableHandle, listing: LogListing) -> Iterator[Step]:
    """Yield every version that has a commit or a checkpoint, ascending. Raises StorageFailed."""
    starts = {one.version for one in listing.checkpoints}
    small = _small(listing)
    versions = sorted(starts | listing.commits.keys())
    commits = _commits(table, listing)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    run: int | None = None
    for place, version in enumerate(versions):
        if place and versions[place - 1] != version - 1:
            run = None
        commit = next(commits) if version in listing.commits else None
        is_sound = commit is not None and commit.fault is None
        if run is None and version == 0 and is_sound:
            run = 0
        if run is not None and is_sound and version not in small:
            assert commit is not None
            protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
            yield _judged(Step(version, run, commit=commit, metadata=metadata), protocol)
            continue
        before, run = run, None
        fault = commit.fault if commit is not None else None
        if version in starts:
            try:
                snapshot = rebuild(table, Log(listing), version)
                narrow = snapshot.file_actions.narrow()
                base = tuple(one.adds for one in narrow if one.adds is not None and one.adds.num_rows)
            except ProtocolUnsupported as error:
                yield Step(version, fault=error.needs, is_unsupported=True, commit=commit)
                continue
            except (Unreadable, CommitCorrupt, FileMissing) as error:
                fault = fault or error.message
            else:
                run, protocol, metadata = version, snapshot.protocol, snapshot.metadata
                yield _judged(Step(version, run, base, commit, metadata=metadata), protocol)
                continue
            if before is not None and is_sound:
                assert commit is not None
                run, protocol, metadata = before, commit.protocol or protocol, commit.metadata or metadata
                yield _judged(Step(version, run, commit=commit, metadata=metadata), protocol)
                continue
        yield Step(version, fault=fault or _absence(listing, version), commit=commit)


def _judged(step: Step, protocol: Protocol | None) -> Step:
    """Return the version with what prevents it from being read although its commits are sound."""
    for found, name in ((protocol, "protocol"), (step.metadata, "metaData")):
        if found is None:
            return step._replace(fault=f"no {name} action")
    assert protocol is not None
    assert step.metadata is not None
    if step.commit is not None and has_in_commit_timestamps(protocol, step.metadata):
        step = step._replace(stamp=step.commit.stamp)
    try:
        require_readable(protocol, step.version)
    except ProtocolUnsupported as error:
        return step._replace(fault=error.needs, is_unsupported=True)
    return step


def _small(listing: LogListing) -> set[int]:
    """Return the versions of the checkpoints that are read although commits lead to them, the newest first."""
    found: set[int] = set()
    left = _BYTES_COMPARED
    for one in sorted(listing.checkpoints, key=lambda one: one.version, reverse=True):
        left -= sum(file.size_bytes for file in one.files)
        if left < 0:
            break
        found.add(one.version)
    return found


def _absence(listing: LogListing, version: int) -> str:
    if version in listing.commits:
        return "commits before it are missing, and no checkpoint covers them"
    return f"commit {version} is missing"


def _commits(table: TableHandle, listing: LogListing) -> Iterator[ReadCommit]:
    """Yield the commits of a log, ascending; several are read at a time where that is faster."""
    files = [listing.commits[version] for version in sorted(listing.commits)]

    def read(file: LogFile) -> ReadCommit:
        try:
            return _read(table, file)
        except CommitCorrupt as error:
            return ReadCommit(file.version, fault=error.message)
        except FileMissing:
            return ReadCommit(file.version, fault=f"commit {file.version} is missing")

    found = table.engine.run(read, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(reported(found, table.progress, "reading the log", unit="commits", total=len(files)))


def _read(table: TableHandle, file: LogFile) -> ReadCommit:
    state, named = StateBuilder(), NamedFiles()
    change_data: list[FileReferences] = []
    if is_large(file):
        tail = read_tail(table.storage, table.engine, [file], older_follow=False)
        adds, removes, state = tuple(tail.adds), tuple(tail.removes), tail.state
        info = tail.newest_commit_info or {}
        recorded = (one for one in commit_actions(table.storage, file, None) if one[0] == "cdc")
        change_data += named.take(recorded, file)
    else:
        actions = list(commit_actions(table.storage, file, None))
        survived = reconcile_commit(actions, set(), file.name)
        batches = narrow_batches(survived.adds, survived.removes, file.name)
        adds, removes = (() if one is None or not one.num_rows else (one,) for one in batches)
        state.take([one for one in actions if one[0] not in ("add", "remove")], file.name)
        info = next((action for kind, action in reversed(actions) if kind == "commitInfo"), {})
        change_data += named.take([one for one in actions if one[0] == "cdc"], file)
    change_data += named.flush()
    stamp = info.get("inCommitTimestamp")
    return ReadCommit(
        file.version,
        adds,
        removes,
        tuple(change_data),
        state.protocol,
        state.metadata,
        stamp if type(stamp) is int else None,
    )
