"""Pulling a version of a shared table into a local one: all data first, then one commit.

The pull is continued whenever it is run again. Files that are there are not downloaded, and a commit has either the
whole difference to the version or is not there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deltacli.changing.commit import Committed, NothingToDo, commit
from deltacli.clock import Clock, system_clock
from deltacli.delta.log.body_lines import body_lines
from deltacli.delta.log.commit_content import CommitRequest, EveryFile
from deltacli.delta.protocol.property_values import APPEND_ONLY, is_true
from deltacli.errors import ConflictLost, NoSpace, OutcomeUnknown, Refused
from deltacli.hints import command
from deltacli.operations.table.api_arguments import name_table
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.progress import SILENT, Progress
from deltacli.sharing.client.faults import FilesMovedOn, PullRefused
from deltacli.sharing.client.table_requests import Query
from deltacli.sharing.client.tables.share_storage import ShareStorage
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.sharing.protocol.parameters import NEWEST_POINT, Point
from deltacli.sharing.pulling.difference import (
    NO_FILES,
    Difference,
    LocalFiles,
    compare,
    file_actions,
    read_local_files,
)
from deltacli.sharing.pulling.downloading import Downloads
from deltacli.sharing.pulling.local_actions import APP_ID, PullSource, local_metadata, local_protocol, table_id_of
from deltacli.sharing.pulling.local_table import (
    PulledTable,
    PullTarget,
    read_target,
    require_not_backwards,
    require_same_table,
)
from deltacli.sharing.pulling.unfinished_downloads import WORKSPACE, Workspace, open_workspace
from deltacli.storage import LocalStorage
from deltacli.storage.disk_faults import writing_faults
from deltacli.typing import Json

OPERATION = "SHARE PULL"
FORMATS = (ResponseFormat.DELTA,)
"""Ids of files depend on the format, so every pull asks for the same one. A server without it answers in the other."""
_MOST_LISTINGS = 3


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What to pull, and where to. `resumes`: the version of the unfinished pull of the target, if there is one.

    `decodes`: decode all data of each file of the version, of those that are there already too.
    """

    directory: str
    point: Point = NEWEST_POINT
    resumes: bool = False
    dry_run: bool = False
    decodes: bool = False


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a pull did or would do. `local_version` is None before the first commit, and in a dry run of one."""

    directory: str
    source: PullSource
    shared_version: int
    before: int | None
    local_version: int | None
    difference: Difference
    received_bytes: int = 0
    is_committed: bool = False
    dry_run: bool = False
    decodes: bool = False

    @property
    def is_unchanged(self) -> bool:
        """Return True where the local table has the version already, with all of its files."""
        return self.before == self.shared_version and not self.difference.wanted

    def as_json(self) -> dict[str, Json]:
        """Return the result as in documents."""
        difference = self.difference
        return {
            "target": self.directory,
            "tableId": self.source.table_id,
            "sharedVersion": self.shared_version,
            "sharedVersionBefore": self.before,
            "localVersion": self.local_version,
            "committed": self.is_committed,
            "filesToDownload" if self.dry_run else "filesDownloaded": len(difference.wanted),
            "bytesToDownload" if self.dry_run else "bytesDownloaded": (
                difference.wanted_bytes if self.dry_run else self.received_bytes
            ),
            "filesPresent": difference.present,
            "filesAdded": difference.added,
            "filesRemoved": difference.removed,
            "verified": "data" if self.decodes else "footers",
            "dryRun": self.dry_run,
        }


class _Plan(NamedTuple):
    """A version that was listed and compared with the target."""

    store: ShareStorage
    shared: Snapshot
    source: PullSource
    target: PullTarget
    local: LocalFiles
    difference: Difference


@dataclass
class Pull:
    """One run. `done_files` are the downloads that are finished, for the message of an interrupted run."""

    store: ShareStorage
    request: PullRequest
    clock: Clock = system_clock
    progress: Progress = SILENT
    done_files: int = 0
    received_bytes: int = 0
    _directory: str = field(init=False)
    _target: LocalStorage = field(init=False)
    """Bound to the directory from the comparison on, or from when it is made."""

    def __post_init__(self) -> None:
        self._directory = os.path.realpath(os.path.expanduser(self.request.directory))
        self._target = LocalStorage(self._directory)

    def run(self) -> PullResult:
        """Pull, or only compare for a dry run. Raises PullRefused, and what requests and downloads raise."""
        for attempt in range(1, _MOST_LISTINGS + 1):
            try:
                return self._run_once()
            except FilesMovedOn:
                # The newest version may be listed again: its files are there, or are downloaded once.
                if attempt == _MOST_LISTINGS or not self.request.point.is_newest or self.request.resumes:
                    raise
        raise AssertionError

    def _run_once(self) -> PullResult:
        self._target = self._target.held()
        target = read_target(self._handle(), self._directory)
        point = self._point(target)
        if self._has_newest(target, point):
            assert target.table is not None
            return self._result_of(target.table)
        plan = self._plan(target, point)
        if self.request.dry_run:
            return self._result(plan, None)
        self._require_space(plan.difference.wanted_bytes)
        with writing_faults(self._directory, self._directory):
            os.makedirs(self._directory, exist_ok=True)
        self._target = self._target.held()
        with open_workspace(self._directory) as workspace:
            return self._do(plan, workspace)

    def _handle(self) -> TableHandle:
        return TableHandle(self._target, clock=self.clock)

    def _point(self, target: PullTarget) -> Point:
        """Return what to pull. Raises PullRefused where there is nothing to resume."""
        if not self.request.resumes or target.unfinished is None:
            return self.request.point
        return Point(target.unfinished.version)

    def _has_newest(self, target: PullTarget, point: Point) -> bool:
        """Return True where one request shows that a complete table has the newest version."""
        table = target.table
        if table is None or not point.is_newest or self.request.dry_run or self.request.decodes:
            return False
        if os.path.lexists(f"{self._directory}/{WORKSPACE}"):
            return False  # what an interrupted pull left is removed by a whole one
        source = self._source(table.source.table_id)
        return table.source == source and self.store.newest_version() == table.shared_version and self._is_whole(table)

    def _is_whole(self, table: PulledTable) -> bool:
        return not compare(table.snapshot, read_local_files(table, self._directory), self._directory).wanted

    def _source(self, table_id: str) -> PullSource:
        return PullSource(self.store.requests.transport.endpoint, str(self.store.address.name), table_id)

    def _plan(self, target: PullTarget, point: Point) -> _Plan:
        store = ShareStorage(self.store.address, self.store.requests, Query(point, FORMATS), progress=self.progress)
        shared = read_snapshot(TableHandle(store, clock=self.clock))
        metadata = shared.raw_metadata
        endpoint, table = self.store.requests.transport.endpoint, str(self.store.address.name)
        source = self._source(table_id_of(metadata, endpoint, table))
        return _Plan(store, shared, source, target, *self._compared(target, shared, source))

    def _compared(
        self, target: PullTarget, shared: Snapshot, source: PullSource, *, is_again: bool = False
    ) -> tuple[LocalFiles, Difference]:
        require_same_table(target, source)
        require_not_backwards(target, shared.version)
        local = NO_FILES if target.table is None else read_local_files(target.table, self._directory)
        return local, compare(shared, local, self._directory, decodes=self.request.decodes and not is_again)

    def _require_space(self, needed: int) -> None:
        """Raise NoSpace where the files cannot fit, before anything is downloaded."""
        place = self._directory
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        found = os.statvfs(place)
        free = found.f_bavail * found.f_frsize
        if needed > free:
            from deltacli.units import format_size

            raise NoSpace(
                f"{self._directory} has no room for the files to download",
                facts={"needed": format_size(needed), "free": format_size(free)},
                hint=f"df -h {place}",
            )

    def _do(self, plan: _Plan, workspace: Workspace) -> PullResult:
        workspace.mark(plan.source, plan.shared.version)
        wanted = plan.difference.wanted
        self.done_files = self.received_bytes = 0
        shared = plan.store.shared
        with self.progress.step("downloading", unit="bytes", total=plan.difference.wanted_bytes) as step:
            downloads = Downloads(
                self.store.requests.transport,
                lambda name, not_this: shared.url_of(name, not_this=not_this),
                workspace.place,
                self._directory,
                step.advance,
                decodes=self.request.decodes,
            )
            for received in downloads.run(wanted):
                self.done_files += 1
                self.received_bytes += received
        return self._commit(plan)

    def _commit(self, plan: _Plan) -> PullResult:
        """Commit the difference; after another writer, compare again with what it has left."""
        reads = 0

        def read(_table: TableHandle) -> Snapshot | None:
            nonlocal plan, reads
            plan, reads = self._compared_again(plan) if reads else plan, reads + 1
            return None if plan.target.table is None else plan.target.table.snapshot

        def make(_snapshot: Snapshot | None = None) -> CommitRequest | None:
            return None if _is_there(plan) else self._request(plan)

        try:
            done = commit(self._handle(), make, read=read, create=make)
        except (ConflictLost, OutcomeUnknown, Refused) as fault:
            name_table(fault, self._directory)
            raise
        match done:
            case NothingToDo(version):
                return self._result(plan, version)
            case Committed(version=version):
                return replace(self._result(plan, version), is_committed=True)

    def _compared_again(self, plan: _Plan) -> _Plan:
        """Return the plan for the local table as another writer has left it."""
        target = read_target(self._handle(), self._directory)
        local, difference = self._compared(target, plan.shared, plan.source, is_again=True)
        if difference.wanted:
            raise PullRefused("files disappeared while they were pulled", facts={"in": self._directory})
        return plan._replace(target=target, local=local, difference=replace(difference, wanted=plan.difference.wanted))

    def _request(self, plan: _Plan) -> CommitRequest:
        """Return the commit that makes the next version. Raises PullRefused."""
        table, shared, source, difference = plan.target.table, plan.shared, plan.source, plan.difference
        now_ms = self.clock()
        before = None if table is None else table.snapshot
        old_protocol, old_metadata = (None, None) if before is None else (before.raw_protocol, before.raw_metadata)
        metadata = local_metadata(shared.raw_metadata, source, old_metadata, now_ms)
        if before is not None:
            _require_allowed(before, difference.removed, self._directory)
        return CommitRequest(
            OPERATION,
            {**source.facts, "version": str(shared.version)},
            {
                "numAddedFiles": difference.added,
                "numRemovedFiles": difference.removed,
                "numAddedBytes": difference.added_bytes,
            },
            protocol=local_protocol(shared.raw_protocol, metadata, old_protocol),
            metadata=None if metadata == old_metadata else metadata,
            transactions=({"appId": APP_ID, "version": shared.version, "lastUpdated": now_ms},),
            body=lambda slot: body_lines(file_actions(shared, table, plan.local, difference, source, now_ms), slot),
            new_rows=difference.added_rows,
            reads=EveryFile(),
        )

    def _result(self, plan: _Plan, version: int | None) -> PullResult:
        table = plan.target.table
        return PullResult(
            self._directory,
            plan.source,
            plan.shared.version,
            None if table is None else table.shared_version,
            version if version is not None or table is None else table.snapshot.version,
            plan.difference,
            self.received_bytes,
            dry_run=self.request.dry_run,
            decodes=self.request.decodes,
        )

    def _result_of(self, table: PulledTable) -> PullResult:
        local = read_local_files(table, self._directory)
        difference = Difference(local.keys, (), present=len(local.sizes))
        version = table.shared_version
        return PullResult(self._directory, table.source, version, version, table.snapshot.version, difference)


def _is_there(plan: _Plan) -> bool:
    table = plan.target.table
    return (
        table is not None
        and table.shared_version == plan.shared.version
        and not plan.difference.added
        and not plan.difference.removed
    )


def _require_allowed(snapshot: Snapshot, removed: int, directory: str) -> None:
    """Raise PullRefused where the local table was changed so that a pull cannot commit to it."""
    for key in (APPEND_ONLY, "delta.enableRowTracking"):
        if is_true(snapshot.properties, key) and (removed or key != APPEND_ONLY):
            raise PullRefused(
                f"the local table does not allow this pull: {key} is true",
                hint=command("properties set", {key: "false"}, table=directory),
            )
