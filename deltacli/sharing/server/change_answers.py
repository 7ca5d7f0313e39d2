"""Answers about a range of versions: the change data feed, and the files that were added and removed.

Spec: Read Change Data Feed from a Table; Read Data from a Table (startingVersion).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from deltacli.operations.read.separate_versions import Break
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.capabilities import ReadingNeeds, ResponseFormat, find_needs, handed_out_protocol
from deltacli.sharing.protocol.lines import LineStyle, metadata_line, protocol_line
from deltacli.sharing.protocol.parameters import ChangesRequest, QueryRequest
from deltacli.sharing.protocol.wire_errors import invalid, unsupported
from deltacli.sharing.server.interfaces import Access
from deltacli.sharing.server.pages import FileGroup, Page, PageTokens, assemble, digest_of, end_line
from deltacli.sharing.server.table_answers import Answer, TableAnswers, Wishes, headers_of
from deltacli.sharing.tables.changes import Changes, CommitChanges, read_changes
from deltacli.sharing.tables.shared_snapshot import SharedSnapshot
from deltacli.sharing.tables.snapshots import Place, SharedSnapshots, place_of
from deltacli.sharing.tables.versions import first_version_since, last_version_until, require_history, require_in_range

if TYPE_CHECKING:
    import pyarrow

_MOST_RANGES = 8
_MOST_COMMITS = 10_000
"""Per range. A commit takes some hundred bytes."""


class RecentRanges:
    """Keeps ranges without their files, which are read again for each page. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Place, int, int, bool], Changes] = OrderedDict()
        self._lock = Lock()

    def read(self, snapshots: SharedSnapshots, table: SharedTable, first: int, last: int, *, is_feed: bool) -> Changes:
        """Return the changes of a range, as `read_changes` does; without reading where the commits are still those
        that were checked.
        """
        key = (place_of(table), first, last, is_feed)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            commits = snapshots.whole_log(table).listing.commits
            if all(commits.get(commit.version) == commit.files.file for commit in known.commits):
                return known
        found = read_changes(snapshots, table, first, last, is_feed=is_feed)
        if len(found.commits) <= _MOST_COMMITS:
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[Place, int, int, bool], changes: Changes) -> None:
        commits = tuple(replace(commit, held=None) for commit in changes.commits)
        with self._lock:
            self._known[key] = replace(changes, commits=commits)
            self._known.move_to_end(key)
            while len(self._known) > _MOST_RANGES:
                self._known.popitem(last=False)


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A range of versions. `is_feed`: its change data feed. `adds_metadata`, `adds_protocol`: with the metadata and the
    protocols of the versions in between.
    """

    first: int
    last: int
    is_feed: bool
    adds_metadata: bool
    adds_protocol: bool
    max_files: int | None = None
    page_token: str | None = None
    is_paged: bool = False


@dataclass(frozen=True)
class ChangeAnswers:
    """Makes the answers about ranges."""

    tables: TableAnswers
    recent: RecentRanges = field(default_factory=RecentRanges)

    def changes(self, access: Access, table: SharedTable, request: ChangesRequest, wishes: Wishes) -> Answer:
        """Return the change data feed of a range, or a page of it."""
        require_history(table, "a change data feed")
        tokens = self._tokens(access, table, replace(request, max_files=None, page_token=None), wishes)
        first, last = self._ends_of_feed(table, request)
        wanted = RangeRequest(
            first,
            last,
            True,
            request.include_historical_metadata,
            request.include_historical_protocol,
            request.max_files,
            request.page_token,
            request.is_paged,
        )
        return self._answer(access, table, wanted, wishes, tokens)

    def files_since(self, access: Access, table: SharedTable, request: QueryRequest, wishes: Wishes) -> Answer:
        """Return the added and removed files of a query with `startingVersion`, or a page of them."""
        require_history(table, "listing versions")
        tokens = self._tokens(access, table, replace(request, max_files=None, page_token=None), wishes)
        newest = self.tables.snapshots.newest_version(table)
        first = request.starting_version or 0
        last = newest if request.ending_version is None else request.ending_version
        require_in_range(table, first, newest, "startingVersion")
        require_in_range(table, last, newest, "endingVersion")
        protocol = request.include_historical_protocol
        wanted = RangeRequest(
            first, last, False, True, protocol, request.max_files, request.page_token, request.is_paged
        )
        return self._answer(access, table, wanted, wishes, tokens)

    def _ends_of_feed(self, table: SharedTable, request: ChangesRequest) -> tuple[int, int]:
        """Return the first and the last version of a feed. A version after the newest one ends it there."""
        snapshots = self.tables.snapshots
        newest, first, last = snapshots.newest_version(table), request.start.version, request.end.version
        if first is None:
            first = first_version_since(snapshots, table, request.start.timestamp_ms or 0)
        require_in_range(table, first, newest, "startingVersion")
        if last is None and request.end.timestamp_ms is not None:
            last = last_version_until(snapshots, table, request.end.timestamp_ms)
        last = newest if last is None else min(last, newest)
        if last < first:
            raise invalid(f"the range ends at version {last}, before it begins, at version {first}")
        return first, last

    def _tokens(self, access: Access, table: SharedTable, request: object, wishes: Wishes) -> PageTokens:
        return replace(self.tables.tokens_of(access, table), parameters=digest_of(request, wishes))

    def _answer(
        self, access: Access, table: SharedTable, wanted: RangeRequest, wishes: Wishes, tokens: PageTokens
    ) -> Answer:
        start = 0
        if wanted.page_token is not None:
            opened = tokens.open_page(wanted.page_token)
            wanted = replace(wanted, first=int(opened["first"]), last=int(opened["last"]))
            start = int(opened["start"])
        read = self.recent.read if wanted.is_paged else read_changes
        changes = read(self.tables.snapshots, table, wanted.first, wanted.last, is_feed=wanted.is_feed)
        needs = _needs_of(changes)
        form = needs.choose(wishes.capabilities, table.full_name)
        if form is ResponseFormat.PARQUET and changes.lacks_sizes():
            needs = replace(needs, not_in_parquet=("removed files whose sizes neither the log nor the store has",))
            form = needs.choose(wishes.capabilities, table.full_name)
        if changes.apart is not None:
            _require_together(table, changes.apart, wanted, form)
        source = self.tables.source_of(access, table)
        base = LineStyle(form, wishes.hash_for(form), self.tables.expiry_for(access, source), is_change=True)
        groups = _groups(changes, base, needs, wanted, shows_change_data=table.history_shared)
        total = changes.file_count
        page = Page(start, self.tables.rows_of_page(wanted.max_files) if wanted.is_paged else None)
        tail = b""
        if wishes.capabilities.end_stream_action or wanted.is_paged:
            payload = {"first": wanted.first, "last": wanted.last, "start": start + (page.most or 0)}
            following = tokens.next_page(payload) if page.ends_before(total) else None
            tail = end_line(base.expires_ms, next_page_token=following)
        head = self._head(table, changes, form, needs, wanted)
        ends = wishes.capabilities.end_stream_action
        parts = assemble(head, page.parts(groups, total, source), tail, reports_failure=ends)
        about = {"version": wanted.first, "files": total}
        waits = source.signer.waits or not changes.is_held
        return Answer(headers_of(wanted.first, form, wishes), parts, about, waits)

    def _head(
        self, table: SharedTable, changes: Changes, form: ResponseFormat, needs: ReadingNeeds, wanted: RangeRequest
    ) -> bytes:
        """Return protocol and metadata: those at the begin of the range where the client follows their changes, else
        those at its end, which then apply to the whole range.
        """
        state = changes.start if wanted.adds_metadata else _last_state(changes)
        protocol = handed_out_protocol(state.protocol, state.raw_protocol, needs)
        return protocol_line(form, protocol) + metadata_line(
            form,
            state.metadata,
            state.client_metadata,
            version=wanted.first,
            shows_change_data=table.history_shared,
        )


def _require_together(table: SharedTable, apart: Break, wanted: RangeRequest, form: ResponseFormat) -> None:
    """Raise WireError for a range whose files a client would read by the names of other versions."""
    if apart.version == wanted.first:
        raise unsupported(f"the changes of {table.full_name} cannot be read from there: {apart.reason}")
    if wanted.adds_metadata and form is ResponseFormat.DELTA:
        return
    begin = apart.version if apart.is_removal else apart.version + 1
    raise unsupported(
        f"the changes of {table.full_name} cannot be read together: {apart.reason}; ask for those until version "
        f"{apart.version - 1} and for those from version {begin} on"
    )


def _states(changes: Changes) -> Iterator[SharedSnapshot]:
    """Yield protocol and metadata at the beginning of a range, and after each commit that changes them."""
    state = changes.start
    yield state
    for commit in changes.commits:
        if commit.metadata is not None:
            state = replace(state, metadata=commit.metadata, raw_metadata=commit.raw_metadata or {})
        if commit.protocol is not None:
            state = replace(state, protocol=commit.protocol, raw_protocol=commit.raw_protocol or {})
        if commit.metadata is not None or commit.protocol is not None:
            yield state


def _last_state(changes: Changes) -> SharedSnapshot:
    *_, last = _states(changes)
    return last


def _needs_of(changes: Changes) -> ReadingNeeds:
    """Return what clients must support to read all files of a range, each version by its own protocol."""
    features, blocking = set[str](), set[str]()
    for state in _states(changes):
        needs = find_needs(state.config, has_vectors=changes.has_vectors)
        features.update(needs.features)
        blocking.update(needs.not_in_parquet)
    return ReadingNeeds(tuple(sorted(features)), tuple(sorted(blocking)))


def _groups(
    changes: Changes, base: LineStyle, needs: ReadingNeeds, wanted: RangeRequest, *, shows_change_data: bool
) -> Iterator[FileGroup]:
    """Yield the changed files of each commit, after the lines about its metadata and its protocol."""
    for commit in changes.commits:
        before = _lines_before(commit, base.form, needs, wanted, shows_change_data=shows_change_data)
        yield FileGroup(commit.file_count, partial(_styled, commit, base), before)


def _styled(commit: CommitChanges, base: LineStyle) -> Iterator[tuple[LineStyle, pyarrow.RecordBatch]]:
    style = replace(base, version=commit.version, time_ms=commit.time_ms)
    for action, batch in commit.batches():
        fills = action == "remove" and base.form is ResponseFormat.PARQUET
        yield replace(style, action=action), commit.files.with_sizes(batch) if fills else batch


def _lines_before(
    commit: CommitChanges,
    form: ResponseFormat,
    needs: ReadingNeeds,
    wanted: RangeRequest,
    *,
    shows_change_data: bool,
) -> bytes:
    """Return the lines about the metadata and the protocol of a commit. Those of the first one are at the top."""
    if commit.version == wanted.first:
        return b""
    lines = b""
    if wanted.adds_protocol and commit.protocol is not None and form is ResponseFormat.DELTA:
        handed: Mapping[str, Any] = handed_out_protocol(commit.protocol, commit.raw_protocol or {}, needs)
        lines += protocol_line(form, handed, version=commit.version)
    if wanted.adds_metadata and commit.metadata is not None:
        lines += metadata_line(
            form,
            commit.metadata,
            commit.raw_metadata or {},
            version=commit.version,
            shows_change_data=shows_change_data,
        )
    return lines
