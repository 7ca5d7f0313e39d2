"""Since which version a table has its traits, by the commits of its log.

Spec: Protocol Evolution; Change Metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.log.commit_lines import Action, read_actions
from deltacli.delta.log.state import StateBuilder
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.traits import traits_of
from deltacli.delta.schema.types import parse_schema
from deltacli.errors import CommitCorrupt, DeltacliError, FileMissing
from deltacli.operations.table.find_log import list_log
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.progress import reported
from deltacli.work.commits.reading import is_large, read_commit, stream_commit, stream_lines

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogFile, LogListing
    from deltacli.operations.table.handle import TableHandle

_KINDS = ("protocol", "metaData", "domainMetadata")
_MARKS = tuple(f'"{kind}"'.encode() for kind in _KINDS)
_MARK_WITHIN = 24
"""Bytes at the beginning of a line within which the kind of its action is."""


class State(NamedTuple):
    """The protocol and the metadata of a version, and its live domains. `is_first_known`: what it has may be older."""

    version: int
    config: TableConfiguration
    domains: tuple[str, ...]
    is_first_known: bool

    @property
    def traits(self) -> frozenset[str]:
        """The traits of the version."""
        return traits_of(self.config, self.domains)


def states(table: TableHandle) -> Iterator[State]:
    """Yield the state of the first version from which the log is whole, and of each later one that changes it,
    ascending.

    Raises NotATable, StorageFailed, and what `read_snapshot` raises for the first version.
    """
    listing = list_log(table.storage, progress=table.progress)
    first = _first(listing)
    if first is None:
        return
    state = StateBuilder()
    if first > 0 or 0 not in listing.commits:
        snapshot = read_snapshot(table, version=first)
        state.protocol, state.metadata = snapshot.protocol, snapshot.metadata
        state.raw_protocol, state.raw_metadata = snapshot.raw_protocol, snapshot.raw_metadata
        state.domains = {one.domain: one for one in snapshot.domains}
        yield _state(first, state, is_first_known=True)
        first += 1
    has_hole = False
    files = [listing.commits[version] for version in sorted(listing.commits) if version >= first]
    for version, actions in _small_actions(table, files):
        if actions is None:
            has_hole = True
        elif actions:
            newer = StateBuilder()
            newer.take(actions, f"commit {version}")
            newer.protocol = newer.protocol or state.protocol
            newer.metadata = newer.metadata or state.metadata
            newer.raw_protocol = newer.raw_protocol or state.raw_protocol
            newer.raw_metadata = newer.raw_metadata or state.raw_metadata
            newer.domains = {**state.domains, **newer.domains}
            state = newer
            yield _state(version, state, is_first_known=has_hole)
            has_hole = False


def _first(listing: LogListing) -> int | None:
    """Return the first version from which on every commit is there."""
    known = set(listing.reconstructable)
    if not known:
        return None
    version = max(known)
    while version in listing.commits and version - 1 in known:
        version -= 1
    return int(version)


def _state(version: int, state: StateBuilder, *, is_first_known: bool) -> State:
    schema = None
    if state.metadata is not None and state.metadata.schema_string is not None:
        try:
            schema = parse_schema(state.metadata.schema_string)
        except DeltacliError:
            schema = None
    config = TableConfiguration(state.protocol, state.metadata, schema, state.raw_protocol, state.raw_metadata)
    return State(version, config, tuple(one.domain for one in state.live_domains), is_first_known)


def _small_actions(table: TableHandle, files: list[LogFile]) -> Iterator[tuple[int, list[tuple[str, Action]] | None]]:
    """Yield the small actions of each commit that matter here, None for a damaged one; several commits are read at a
    time where that helps.
    """

    def read(file: LogFile) -> tuple[int, list[tuple[str, Action]] | None]:
        try:
            return file.version, _read(table, file)
        except (CommitCorrupt, FileMissing):
            return file.version, None

    found = table.engine.run(read, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(reported(found, table.progress, "reading the log", unit="commits", total=len(files)))


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


def beginnings(found: Iterable[State], traits: Iterable[str]) -> Mapping[str, int | None]:
    """Return for each trait the version since which the table has it without a break; None where the log begins later.

    `found` are the states of the log, ascending.
    """
    since: dict[str, int | None] = {}
    for state in found:
        since = {trait: since.get(trait, None if state.is_first_known else state.version) for trait in state.traits}
    return {trait: since.get(trait) for trait in traits}
