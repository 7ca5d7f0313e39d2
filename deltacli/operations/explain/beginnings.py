"""Since which version a table has its traits, by the commits of its log.

Spec: Protocol Evolution; Change Metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.log.state import StateBuilder
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.clients import traits_of
from deltacli.delta.schema.types import parse_schema
from deltacli.errors import DeltacliError
from deltacli.operations.table.find_log import list_log
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.small_actions import small_actions

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.operations.table.handle import TableHandle


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
    for version, actions in small_actions(table, files):
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


def beginnings(found: Iterable[State], traits: Iterable[str]) -> Mapping[str, int | None]:
    """Return for each trait the version since which the table has it without a break; None where the log begins later.

    `found` are the states of the log, ascending.
    """
    since: dict[str, int | None] = {}
    for state in found:
        since = {trait: since.get(trait, None if state.is_first_known else state.version) for trait in state.traits}
    return {trait: since.get(trait) for trait in traits}
