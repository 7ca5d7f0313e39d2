"""Pulling a version of a shared table into a local one: the difference first, then all data, then one commit.

The pull is continued whenever it is run again. Files that are there are not downloaded, and a commit has either the
whole difference to the version or is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from deltacli.changing.base_version import MAX_FILE_CHECK_AGE_SECONDS, BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.preflight import require_valid_metadata
from deltacli.core import errors
from deltacli.core.machine import Clock, system_clock
from deltacli.core.pools import ThreadPool
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, plural
from deltacli.delta.data_files import vector_file
from deltacli.delta.log.actions import Action
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, body_lines
from deltacli.delta.log.file_actions import parse_num_records
from deltacli.delta.log.state import APPEND_ONLY, is_true
from deltacli.delta.schema.types import NO_COLUMNS, parse_schema
from deltacli.sharing.client.faults import DIFFERS, FilesMovedOn, PullRefused, invalid_answer
from deltacli.sharing.protocol.parameters import NEWEST_POINT, Point
from deltacli.sharing.pulling import local_table
from deltacli.sharing.pulling.downloading import Destination, WantedFile, decode, verify
from deltacli.sharing.pulling.sources import DirectoryVersion, Share, UrlVersion, version_of
from deltacli.storage import LocalStorage
from deltacli.storage.directory_identity import require_same_directory
from deltacli.storage.os_errors import translate_write_errors
from deltacli.table.api_errors import name_table
from deltacli.table.handle import TableHandle
from deltacli.table.scan_requests import ScanRequest
from deltacli.table.version import Snapshot
from deltacli.work.commits.provenance import read_provenance

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution

# -- which rows of a shared table to write -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RowRequest(ScanRequest):
    """The rows of a shared table to write.

    Attributes:
        form: The form of the files: `parquet`, `csv` or `ndjson`.
        version: The version whose rows are written. None: the newest, or the one at `at_ms`.
        at_ms: The time, in epoch milliseconds, at which the version was the newest. None: `version` says it.
    """

    form: str
    version: int | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """A file or directory of rows. For a dry run, `files` and `size_bytes` are those of the shared files to read."""

    target: str
    form: str
    shared_version: int
    files: int
    size_bytes: int
    rows: int | None = None
    is_directory: bool = False
    dry_run: bool = False

    @property
    def pattern(self) -> str:
        """Return what other tools take for all files of it."""
        return f"{self.target.rstrip('/')}/*.parquet" if self.is_directory else self.target

    def as_json(self) -> dict[str, Json]:
        """Return the fields of a document."""
        read = {"filesToDownload": self.files, "bytesToDownload": self.size_bytes}
        written = {"rows": self.rows, "filesWritten": self.files, "bytesWritten": self.size_bytes}
        return {
            "target": self.target,
            "as": self.form,
            "sharedVersion": self.shared_version,
            **(read if self.dry_run else written),
            "dryRun": self.dry_run,
        }


# -- the difference between a version of a shared table and its local copy ---------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The live files of the local table: their keys, and their sizes by name."""

    keys: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)


NO_FILES = LocalFiles()


def read_local_files(table: local_table.PulledTable, directory: str) -> LocalFiles:
    """Return the live files of a local table. Raises PullRefused where some of them were not pulled."""
    keys, sizes = set[str](), dict[str, int]()
    for add in local_table.list_adds(table.snapshot.files()):
        if local_table.TAG not in add["tags"]:
            raise PullRefused(
                f"{directory} has rows of its own: it was written to after it was pulled",
                facts={"file": str(add["path"]), "why": "a pull would remove files that are not of the shared table"},
                hint="pull into another directory",
            )
        keys.add(local_table.key_of(add))
        sizes[add["path"]] = add["size"]
    return LocalFiles(frozenset(keys), sizes)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a pull does. `wanted` are the files to download, whose declared sizes add up to `wanted_bytes`; `present`
    is the number of files that are there already; `added_rows` counts the rows of files that say how many they have.
    """

    keys: frozenset[str]
    wanted: tuple[WantedFile, ...]
    present: int
    added: int = 0
    removed: int = 0
    added_bytes: int = 0
    added_rows: int = 0

    @property
    def wanted_bytes(self) -> int:
        """Return the bytes to download. Files of deletion vectors count with what is needed of them."""
        return sum(file.least_bytes for file in self.wanted)


def compare(
    adds: Iterable[dict[str, Any]], local: LocalFiles, directory: str, *, decodes: bool = False
) -> Difference:  # Any: fields of an add
    """Return the difference of the files of a version to the local ones. `decodes`: files whose data is damaged count
    as not there.

    Raises DataUnreadable, and AnswerInvalid for files without a name.
    """
    keys, added, added_bytes, added_rows = set[str](), 0, 0, 0
    data: dict[str, WantedFile] = {}
    vectors: dict[str, list[JsonObject]] = {}
    for add in adds:
        name, key = add["path"], local_table.key_of(add)
        require_plain_name(name)
        keys.add(key)
        records = parse_num_records(add.get("stats") or "")
        if key not in local.keys:
            added, added_bytes, added_rows = added + 1, added_bytes + add["size"], added_rows + (records or 0)
        if local.sizes.get(name, add["size"]) != add["size"]:
            raise invalid_answer("it changed the size of a file", {"file": name, "code": DIFFERS})
        data[name] = WantedFile(name, add["size"], records)
        if (vector := add.get("deletionVector")) is not None and vector["storageType"] == "u":
            vectors.setdefault(_vector_name(vector), []).append(vector)
    files = [*data.values(), *(WantedFile(name, vectors=tuple(found)) for name, found in vectors.items())]
    wanted = tuple(file for file in files if not _is_present(directory, file))
    if decodes:
        missing = {file.name for file in wanted}
        present = [file for file in files if file.name not in missing]
        with ThreadPool() as pool:
            flags = pool.map(lambda file: _is_intact(directory, file), present)
            wanted += tuple(file for file, is_intact in zip(present, flags, strict=True) if not is_intact)
    in_place, removed = len(files) - len(wanted), len(local.keys - keys)
    return Difference(frozenset(keys), wanted, in_place, added, removed, added_bytes, added_rows)


def require_plain_name(name: str) -> None:
    """Raise AnswerInvalid unless a path is one plain name. The client makes them; this holds whatever it does."""
    if "/" in name or "\\" in name or "\0" in name or "%" in name or name.startswith((".", "_")) or not name.isascii():
        raise invalid_answer("a file has a name that a local table cannot have", {"file": name})


def _vector_name(vector: Mapping[str, Any]) -> str:
    name = vector_file(vector["pathOrInlineDv"])
    if name is None:
        raise invalid_answer("a deletion vector has no name")
    require_plain_name(name)
    return name


def _is_present(directory: str, file: WantedFile) -> bool:
    """Return True for a regular file of the right size. A pull gives files their names only when they are verified."""
    try:
        found = os.stat(f"{directory}/{file.name}", follow_symlinks=False)
    except OSError:
        return False
    is_whole = found.st_size == file.size_bytes if file.size_bytes is not None else found.st_size >= file.least_bytes
    return is_whole and (found.st_mode & 0o170000) == 0o100000


def _is_intact(directory: str, file: WantedFile) -> bool:
    """Return True for a file that passes the checks of a download, all of its data decoded."""
    try:
        with open(f"{directory}/{file.name}", "rb") as opened:
            number, size_bytes = opened.fileno(), os.fstat(opened.fileno()).st_size

            def read(offset: int, length: int) -> bytes:
                return os.pread(number, length, offset)

            verify(file, size_bytes, read)
            if not file.vectors:
                decode(file, size_bytes, read)
    except (errors.DataUnreadable, OSError):
        return False
    return True


def file_actions(
    shared: UrlVersion | DirectoryVersion,
    table: local_table.PulledTable | None,
    local: LocalFiles,
    difference: Difference,
    source: local_table.PullSource,
    now_ms: int,
) -> Iterator[Action]:
    """Yield the tombstones of files that the version does not have, then the files that the local table lacks."""
    if table is not None:
        for add in local_table.list_adds(table.snapshot.files()):
            if local_table.key_of(add) not in difference.keys:
                yield local_table.remove_line(add, now_ms)
    for add in shared.adds():
        if local_table.key_of(add) not in local.keys:
            yield local_table.add_line(add, source, now_ms)


# -- pulling a version of a shared table into a local one --------------------------------------------------------------

OPERATION = "SHARE PULL"
_MOST_LISTINGS = 3


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The version to pull, and the directory of the local copy.

    Attributes:
        directory: The directory of the local table. It may be missing.
        point: The version of the shared table, by its number or a time.
        resumes: True to pull the version of the unfinished pull of the directory, if there is one.
        decodes: True to decode all data of each file of the version, also of files that are there already.
    """

    directory: str
    point: Point = NEWEST_POINT
    resumes: bool = False
    decodes: bool = False

    @property
    def place(self) -> str:
        """The path of the directory, without links."""
        return os.path.realpath(os.path.expanduser(self.directory))

    def target(self, clock: Clock = system_clock) -> TableHandle:
        """Return the local table, which may not be there yet."""
        return TableHandle(LocalStorage(self.place), clock=clock)


@dataclass(frozen=True, slots=True)
class PullResult(CompleteOutcome):
    """What a pull did or would do. `local_version` is None before the first commit, and in a dry run of one."""

    directory: str
    source: local_table.PullSource
    shared_version: int
    before: int | None
    local_version: int | None
    difference: Difference
    received_bytes: int = 0
    is_committed: bool = False
    dry_run: bool = False
    decodes: bool = False
    cautions: tuple[str, ...] = ()

    @property
    def is_unchanged(self) -> bool:
        """Return True where the local table has the version already, with all of its files."""
        return self.before == self.shared_version and not self.difference.wanted

    def describe_progress(self) -> str:
        """Return what was committed."""
        return f"version {self.local_version} of the local table was committed"

    def as_json(self) -> dict[str, Json]:
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
            **({"cautions": list(self.cautions)} if self.cautions else {}),
            "verified": "data" if self.decodes else "footers",
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True, eq=False)
class PullPlan:
    """A version of a shared table, compared with the directory that it is pulled into."""

    base_version: BaseVersion
    request: PullRequest
    source: local_table.PullSource
    shared_version: int
    target: local_table.PullTarget
    local: LocalFiles
    difference: Difference
    shared: UrlVersion | DirectoryVersion | None = None
    """None where one request has shown that there is nothing to do."""
    compared_at: float = 0.0
    """When files were looked for, by the monotonic clock of this process."""

    @property
    def has_version(self) -> bool:
        """Whether the local table is this version already."""
        table, difference = self.target.table, self.difference
        if table is None or table.shared_version != self.shared_version or difference.added or difference.removed:
            return False
        return self.shared is None or _has_columns(table.snapshot.raw_metadata, self.shared.snapshot.raw_metadata)

    @property
    def is_noop(self) -> bool:
        """True where all is there, and nothing that an interrupted pull has left."""
        return self.has_version and not self.difference.wanted and not self.target.has_workspace

    def build_refusal(self) -> None:
        """Return None: what objects to it is an error of the plan."""

    def effects(self) -> Iterator[str]:
        """Yield which version is pulled, and what the commit does."""
        difference = self.difference
        yield f"pull version {self.shared_version} of {self.source.table}, table id {self.source.table_id}"
        yield f"add {plural(difference.added, 'file')}, remove {plural(difference.removed, 'file')}"

    def result(self, *, dry_run: bool = False) -> PullResult:
        """Return what would be done, or that nothing was done yet."""
        table = self.target.table
        return PullResult(
            self.target.directory,
            self.source,
            self.shared_version,
            None if table is None else table.shared_version,
            None if table is None else table.snapshot.version,
            self.difference,
            dry_run=dry_run,
            decodes=self.request.decodes,
            cautions=tuple(self.base_version.warnings),
        )


@dataclass(frozen=True)
class Pull:
    """Bringing a local table to a version of a shared one."""

    kind: ClassVar[ChangeKind] = ChangeKind.ADD_FILES

    store: Share
    request: PullRequest
    progress: Progress = SILENT

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PullPlan:
        """List the version and compare it with the directory. `now` is the local table, if that was read already.

        Raises PullRefused for a directory that has something else, Refused where the metadata is not trusted, and what
        requests and `read_snapshot` raise.
        """
        place = self.request.place
        target = local_table.read_target(table, place, now)
        point = self.request.point
        if self.request.resumes and target.unfinished is not None:
            point = Point(target.unfinished.version)
        if target.table is not None and self._has_newest(target.table, target, point):
            local = read_local_files(target.table, place)
            version = target.table.shared_version
            all_there = Difference(local.keys, (), present=len(local.sizes))
            base_version = build_base_version(target.table.snapshot)
            return PullPlan(base_version, self.request, target.table.source, version, target, local, all_there)
        shared = version_of(self.store, point, table, self.progress)
        return self._compared(table, target, shared, decodes=self.request.decodes)

    def _has_newest(self, table: local_table.PulledTable, target: local_table.PullTarget, point: Point) -> bool:
        """Return True where one request shows that a complete table has the newest version."""
        if not point.is_newest or self.request.decodes or target.has_workspace:
            return False
        if table.source != self._source(table.source.table_id) or not _is_as_pulled(table.snapshot):
            return False
        if self.store.requests.version() != table.shared_version:
            return False
        local = read_local_files(table, target.directory)
        return not compare(local_table.list_adds(table.snapshot.files()), local, target.directory).wanted

    def _source(self, table_id: str) -> local_table.PullSource:
        return local_table.PullSource(self.store.requests.transport.endpoint, str(self.store.address.name), table_id)

    def _compared(
        self,
        table: TableHandle,
        target: local_table.PullTarget,
        shared: UrlVersion | DirectoryVersion,
        *,
        decodes: bool = False,
    ) -> PullPlan:
        there, version = target.table, shared.snapshot.version
        nameless = self._source("")
        source = self._source(local_table.table_id_of(shared.snapshot.raw_metadata, nameless.endpoint, nameless.table))
        local_table.require_same_table(target, source)
        local_table.require_not_backwards(target, version)
        local = NO_FILES if there is None else read_local_files(there, target.directory)
        compared_at = table.machine.monotonic()
        difference = compare(shared.adds(), local, target.directory, decodes=decodes)
        base_version = BaseVersion(table, -1, table.clock()) if there is None else build_base_version(there.snapshot)
        plan = PullPlan(base_version, self.request, source, version, target, local, difference, shared, compared_at)
        if (request := _request(plan)) is not None:
            require_valid_metadata(self.kind, None if there is None else there.snapshot, request)
        return plan

    def outcome(self, plan: PullPlan) -> PullResult:
        """Return that nothing was done yet."""
        return plan.result()

    def execute(self, execution: ChangeExecution[PullPlan, PullResult]) -> None:
        """Download, verify and commit; list the newest version again where its files are gone meanwhile.

        Raises NoSpace before anything is downloaded, what downloads and `ChangeExecution.commit_plan` raise, and
        PullRefused.
        """
        listings = 1
        while True:
            try:
                return self._pull(execution)
            except FilesMovedOn:
                # The newest version may be listed again: its files are there, or are downloaded once.
                if listings == _MOST_LISTINGS or not self.request.point.is_newest or self.request.resumes:
                    raise
            listings += 1
            execution.accept_new_plan(self.plan(execution.table))

    def _pull(self, execution: ChangeExecution[PullPlan, PullResult]) -> None:
        plan = execution.plan
        directory = plan.target.directory
        execution.recheck_clock()
        execution.recheck_table()
        _require_space(directory, plan.difference.wanted_bytes)
        with translate_write_errors(directory, directory):
            os.makedirs(directory, exist_ok=True)
        execution.table = execution.table.bind_to_directory()
        if plan.target.table is None:
            local_table.read_target(execution.table, directory)  # others may have written there since
        with local_table.open_workspace(directory) as workspace:
            workspace.mark(plan.source, plan.shared_version)
            with _Received() as received:
                self._download(execution, workspace.place, received)
                received.may_have_committed = True
                self._commit(execution)
        execution.outcome = replace(execution.outcome, received_bytes=received.size_bytes)

    def _download(self, execution: ChangeExecution[PullPlan, PullResult], workspace: str, received: _Received) -> None:
        plan = execution.plan
        assert plan.shared is not None
        with self.progress.step("downloading", unit="bytes", total=plan.difference.wanted_bytes) as step:
            look, decodes = partial(require_same_directory, execution.table.storage), self.request.decodes
            to = Destination(workspace, plan.target.directory, step.advance, look, decodes)
            for size in plan.shared.downloads(to).run(plan.difference.wanted):
                received.files += 1
                received.size_bytes += size

    def _commit(self, execution: ChangeExecution[PullPlan, PullResult]) -> None:
        """Commit the difference; after another writer, compare again with what it has left."""
        try:
            execution.recheck_clock()
            done = execution.commit_plan(
                _request,
                update_plan=self._again,
                options=CommitOptions(recheck=lambda: _require_present(execution.plan)),
            )
        except (errors.ConflictLost, errors.OutcomeUnknown, errors.Refused) as fault:
            name_table(fault, execution.plan.target.directory)
            raise
        result = execution.plan.result()
        if isinstance(done, Committed):
            result = replace(result, local_version=done.version, is_committed=True)
        execution.outcome = result

    def _again(self, plan: PullPlan, snapshot: Snapshot) -> PullPlan:
        """Return the plan for the local table as another writer has left it."""
        assert plan.shared is not None
        directory = plan.target.directory
        target = replace(plan.target, table=local_table.pulled_table(snapshot, directory))
        found = self._compared(snapshot.table, target, plan.shared)
        _require_none(found.difference, directory)
        return replace(found, difference=replace(found.difference, wanted=plan.difference.wanted))


def _has_columns(local: Action, shared: Action) -> bool:
    """Return False where the schema of a copy is another one: it was restored, or altered."""
    there, wanted = (parse_schema(one.get("schemaString") or NO_COLUMNS) for one in (local, shared))
    return there == wanted and (local.get("partitionColumns") or []) == (shared.get("partitionColumns") or [])


def _is_as_pulled(snapshot: Snapshot) -> bool:
    """Return False where something else than a vacuum was committed after the last pull, such as RESTORE or DELETE: the
    transaction still names the shared version then, and the files are those of another one.
    """
    version = snapshot.version
    while (file := snapshot.listing.commits.get(version)) is not None:
        operation = (read_provenance(snapshot.table.storage, file).commit_info or {}).get("operation")
        if operation not in ("VACUUM START", "VACUUM END"):
            return bool(operation == OPERATION)
        version -= 1
    return False


def _require_present(plan: PullPlan) -> bool:
    """Return True. Raises PullRefused where files of the version are gone, which is looked at after a minute."""
    if (
        plan.shared is not None
        and plan.base_version.table.machine.monotonic() - plan.compared_at > MAX_FILE_CHECK_AGE_SECONDS
    ):
        directory = plan.target.directory
        _require_none(compare(plan.shared.adds(), plan.local, directory), directory)
    return True


def _require_none(found: Difference, directory: str) -> None:
    if found.wanted:
        raise PullRefused("files disappeared while they were pulled", facts={"in": directory})


class _Received:
    """What was downloaded so far; errors and interruptions name it."""

    def __init__(self) -> None:
        self.files = self.size_bytes = 0
        self.may_have_committed = False

    def __enter__(self) -> _Received:
        return self

    def __exit__(self, _: object, stop: BaseException | None, __: object) -> None:
        said = f"{plural(self.files, 'file')} downloaded ({format_size(self.size_bytes)})"
        if isinstance(stop, errors.DeltacliError):
            if self.files:
                stop.facts["kept"] = f"{said}; they are not downloaded again"
        elif stop is not None and not isinstance(stop, Exception):
            committed = "" if self.may_have_committed else "; nothing was committed"
            stop.add_note(f"{said}{committed}")
            stop.add_note(errors.CONTINUE)


def _require_space(directory: str, needed: int) -> None:
    """Raise NoSpace where the files cannot fit, before anything is downloaded."""
    place = directory
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    if needed > free:
        raise errors.NoSpace(
            f"{directory} has no room for the files to download",
            facts={"needed": format_size(needed), "free": format_size(free)},
            hint=f"df -h {place}",
        )


def _request(plan: PullPlan) -> CommitRequest | None:
    """Return the commit that makes the next version; None where the table is as it should be. Raises PullRefused."""
    if plan.has_version:
        return None
    assert plan.shared is not None
    version, shared = plan.shared, plan.shared.snapshot
    table, source, difference = plan.target.table, plan.source, plan.difference
    now_ms = plan.base_version.table.clock()
    before = None if table is None else table.snapshot
    old_protocol, old_metadata = (None, None) if before is None else (before.raw_protocol, before.raw_metadata)
    metadata = local_table.local_metadata(shared.raw_metadata, source, old_metadata, now_ms)
    if before is not None:
        _require_allowed(before, difference.removed, plan.target.directory)
    return CommitRequest(
        OPERATION,
        {**source.facts, "version": str(shared.version)},
        {
            "numAddedFiles": difference.added,
            "numRemovedFiles": difference.removed,
            "numAddedBytes": difference.added_bytes,
        },
        protocol=local_table.local_protocol(shared.raw_protocol, metadata, old_protocol),
        metadata=None if metadata == old_metadata else metadata,
        transactions=({"appId": local_table.APP_ID, "version": shared.version, "lastUpdated": now_ms},),
        body=lambda slot: body_lines(file_actions(version, table, plan.local, difference, source, now_ms), slot),
        new_rows=difference.added_rows,
        reads=EveryFile(),
    )


def _require_allowed(snapshot: Snapshot, removed: int, directory: str) -> None:
    """Raise PullRefused where the local table was changed so that a pull cannot commit to it."""
    for key in (APPEND_ONLY, "delta.enableRowTracking"):
        if is_true(snapshot.properties, key) and (removed or key != APPEND_ONLY):
            message = f"the local table does not allow this pull: {key} is true"
            raise PullRefused(message, hint=errors.command("properties set", {key: "false"}, table=directory))
