"""Steps for commits that are gone or damaged and that the rest of the log determines: what a checkpoint or a compaction
has, and neither the version before nor later commits have, is what the commit did.

A commit is written only where that is exact. Otherwise the reason says what stays unknown: actions that a later commit
hides, removes that have expired, whether rows were changed or only rewritten.

Spec: Checkpoints; Log Compaction Files; Action Reconciliation; Add File and Remove File.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.commit_sender import ENGINE_INFO
from deltacli.core.errors import CommitCorrupt, FileMissing, Refused, StorageFailed, Unreadable
from deltacli.core.texts import add_article
from deltacli.core.typing import ArrowArray, JsonObject
from deltacli.delta.checkpoint.comparison import comparable_adds, compare, keys_of
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.commit_content import NextVersion, encode_line, encoded_files
from deltacli.delta.log.file_actions import (
    action_schemas,
    build_action_batch,
    compute_file_key,
    extract_num_records_column,
)
from deltacli.delta.log.row_ids import DOMAIN, NO_MARK, mark_action, read_mark
from deltacli.delta.log.segment import CheckpointInstance, LogFileKind, LogListing, checksum_path, commit_name
from deltacli.delta.log.state import (
    CHANGE_FEED,
    TRANSACTION_RETENTION,
    find_metadata_differences,
    find_protocol_differences,
    has_in_commit_timestamps,
    is_true,
    read_checksum,
    read_metadata,
    read_protocol,
)
from deltacli.delta.protocol.features import require_commits_supported
from deltacli.operations.log.crc_and_compact import reconcile
from deltacli.operations.log.log_copy import StoredFile, log_location, versioned
from deltacli.operations.repair.plan import Planned, Run, Step, Unrepaired, Work
from deltacli.rules.framework.repairs import StepKind
from deltacli.storage import Created
from deltacli.storage.base import stat_created
from deltacli.table.find_log import ListedLog
from deltacli.table.rebuild import rebuild_version
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- what has a commit's changes ---------------------------------------------------------------------------------------


class UnknownError(Exception):
    """What of a commit the rest of the log does not determine, in words."""


class After(NamedTuple):
    """What a checkpoint or a compaction has of the versions up to `version`."""

    name: str
    version: int
    adds: pyarrow.Table
    removes: pyarrow.Table
    protocol: Action | None
    metadata: Action | None
    transactions: Mapping[str, Action]
    domains: Mapping[str, Action]
    is_whole: bool
    """It has every live file, as a checkpoint, and not only what commits of a range changed."""


def find_sources(
    version: int, files: Mapping[str, StoredFile], listing: LogListing
) -> Iterator[tuple[str, Callable[[TableHandle], After]]]:
    """Yield what has the changes of a commit: a checkpoint of its version, compactions, and the next checkpoint."""
    found: list[tuple[int, int, str, Callable[[TableHandle], After]]] = []
    for one in listing.checkpoints:
        if one.version >= version:
            found.append((one.version, 0, f"the checkpoint of version {one.version}", _reader_of(one)))
    for name, file in files.items():
        path = file.path
        is_of_it = path.kind is LogFileKind.COMPACTED_COMMIT and path.version <= version <= path.last_version
        if is_of_it:
            found.append((path.last_version, 1, name, _compaction(name, path.version, path.last_version, listing)))
    for last, _, name, read in sorted(found, key=lambda one: one[:3]):
        if all(later in listing.commits for later in range(version + 1, last + 1)):
            yield name, read


def of_several(version: int, files: Mapping[str, StoredFile]) -> str:
    """Return what stays unknown where a compaction has the changes of several missing commits together."""
    for name, file in files.items():
        path = file.path
        if path.kind is LogFileKind.COMPACTED_COMMIT and path.version <= version <= path.last_version:
            return (
                f"{name} has what versions {path.version} to {path.last_version} changed together, but more than one "
                "of these commits is missing, and it does not record which of them changed what"
            )
    return ""


def version_at(table: TableHandle, listing: LogListing, version: int) -> Snapshot:
    """Return a version that was rebuilt without anything newer."""
    commits = {one: file for one, file in listing.commits.items() if one <= version}
    checkpoints = tuple(one for one in listing.checkpoints if one.version <= version)
    return rebuild_version(table, ListedLog(LogListing(commits, checkpoints)), version)


def _reader_of(checkpoint: CheckpointInstance) -> Callable[[TableHandle], After]:
    def read(table: TableHandle) -> After:
        found = rebuild_version(table, ListedLog(LogListing({}, (checkpoint,))), checkpoint.version)
        require_commits_supported(found.protocol, found.properties, found.version)
        return After(
            f"the checkpoint of version {checkpoint.version}",
            checkpoint.version,
            whole_files(found, "add"),
            whole_files(found, "remove"),
            dict(found.raw_protocol),
            dict(found.raw_metadata),
            {one.app_id: transaction_of(one.app_id, one.version, one.last_updated) for one in found.transactions},
            {one.domain: domain_of(one.domain, one.configuration) for one in found.domains},
            is_whole=True,
        )

    return read


def _compaction(name: str, first: int, last: int, listing: LogListing) -> Callable[[TableHandle], After]:
    def read(table: TableHandle) -> After:
        kept = reconcile(read_actions(table.storage.read(log_location(name)), name))
        for version in range(first, last + 1):
            if version in listing.commits:
                _require_within(table, listing, version, kept)
        of_kind: dict[str, dict[str, Action]] = {}
        for (kind, key), action in kept.items():
            of_kind.setdefault(kind, {})[key] = action
        schemas = action_schemas()
        return After(
            name,
            last,
            table_of(list(of_kind.get("add", {}).values()), schemas.add, name),
            table_of(list(of_kind.get("remove", {}).values()), schemas.remove, name),
            of_kind.get("protocol", {}).get(""),
            of_kind.get("metaData", {}).get(""),
            of_kind.get("txn", {}),
            of_kind.get("domainMetadata", {}),
            is_whole=False,
        )

    return read


def _require_within(
    table: TableHandle, listing: LogListing, version: int, kept: Mapping[tuple[str, str], Action]
) -> None:
    """Raise UnknownError where a compaction lacks something that a commit of its range did."""
    for kind, key in reconcile(stream_commit(table.storage, listing.commits[version])):
        kinds = ("add", "remove") if kind in ("add", "remove") else (kind,)
        if not any((each, key) in kept for each in kinds):
            raise UnknownError(f"it lacks {add_article(kind)} of commit {version}, so it may be incomplete")


def transaction_of(app_id: str, version: int, last_updated: int | None) -> Action:
    updated: Action = {} if last_updated is None else {"lastUpdated": last_updated}
    return {"appId": app_id, "version": version, **updated}


def domain_of(domain: str, configuration: str, *, removed: bool = False) -> Action:
    return {"domain": domain, "configuration": configuration, "removed": removed}


def whole_files(snapshot: Snapshot, kind: str) -> pyarrow.Table:
    schema = action_schemas().add if kind == "add" else action_schemas().remove
    found = [pa.Table.from_batches([one]) for one in snapshot.file_actions.map_actions(kind, lambda rows: rows)]
    return pa.concat_tables([schema.empty_table(), *(one.select(schema.names).cast(schema) for one in found)])


def table_of(actions: Sequence[Action], schema: pyarrow.Schema, source: str) -> pyarrow.Table:
    return pa.Table.from_batches([build_action_batch(actions, schema, source)], schema)


# -- the steps ---------------------------------------------------------------------------------------------------------

_RULES = ("log.gap", "log.checkpoint-commit-missing")
_DAMAGED = ("commit.empty", "commit.not-utf8", "commit.bad-json", "commit.line-not-object")
_MEANING = {
    "txn": ("appId", "version"),
    "domainMetadata": ("domain", "configuration", "removed"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("id", "schemaString", "partitionColumns", "configuration"),
}
"""The fields in which a line of a damaged commit and the line that is written must agree."""


@dataclass(frozen=True, eq=False)
class RebuildCommit:
    """Writes a commit that is gone, or in the place of a damaged one, which is kept."""

    version: int
    data: bytes
    modified_ms: int
    damaged: bytes | None
    source: str
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        return f"write commit {self.version} from {self.source}"

    def run(self, run: Run) -> None:
        path, storage = log_location(commit_name(self.version)), run.execution.store
        try:
            found = storage.read(path)
        except FileMissing:
            found = None
        if found == self.data:
            return
        if found != self.damaged:
            raise StorageFailed(f"{path} was changed meanwhile")
        if found is not None:
            run.backup.keep([path])
            storage.put(path, self.data, modified_ms=self.modified_ms)
        else:
            outcome = storage.put_if_absent(path, self.data, modified_ms=self.modified_ms)
            if not isinstance(outcome, Created):
                stat_created(storage, path, outcome)
            if not isinstance(outcome, Created) and storage.read(path) != self.data:
                raise StorageFailed(f"{path} was created by another writer meanwhile")
        run.backup.note_versions([self.version])


@dataclass(eq=False)
class _Later:
    """What the commits after the one that is rebuilt did, up to those that a source has."""

    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    older: list[Action] = field(default_factory=list)
    """File actions that are about files which were there before."""
    first: list[Action] = field(default_factory=list)
    """Adds of files that none of these commits touched before: new ones, unless the rebuilt commit removed them."""
    transactions: dict[str, Any] = field(default_factory=dict)
    row_ids: list[int] | None = None
    """The ids of the first rows of files, in the first commit that raised the high-water mark."""


def plan_rebuilt(
    table: TableHandle, log: Planned, files: Mapping[str, StoredFile], damaged: Collection[str]
) -> Planned:
    """Return the steps for commits that no source has, after those of sources: they are written from the rest of the
    log where it determines them. `damaged` are the names of files of the log from which nothing is taken.

    Raises StorageFailed.
    """
    sound = {name: file for name, file in files.items() if name not in damaged}
    listing = versioned(sound.values())
    steps, unrepaired = list[Step](), list[Unrepaired]()
    work: list[Work] = []
    for one in log.unrepaired:
        version = one.place.version
        if one.rule not in (*_RULES, *_DAMAGED) or not version:
            unrepaired.append(one)
            continue
        if one.rule in _RULES and version > max(listing.commits, default=-1):
            reason = f"{one.reason}; no later commit exists, so it may never have been made"
            unrepaired.append(one._replace(reason=reason))
            continue
        found, why = rebuilt_commit(table, version, sound, listing, is_damaged=one.rule in _DAMAGED)
        if found is None:
            why = why or of_several(version, sound)
            unrepaired.append(one._replace(reason=f"{one.reason}; {why}" if why else one.reason))
            continue
        steps.append(Step(one.rule, one.place, StepKind.REBUILD, len(work), found.name))
        work.append(found)
    return Planned(steps, work, unrepaired, log.notes, log.refusals if unrepaired else ())


def rebuilt_commit(
    table: TableHandle, version: int, files: Mapping[str, StoredFile], listing: LogListing, *, is_damaged: bool
) -> tuple[RebuildCommit | None, str]:
    """Return the change that writes a commit anew, or None and what stays unknown; an empty text where nothing has its
    changes. `listing` and `files` are without damaged files.

    Raises StorageFailed.
    """
    sources = list(find_sources(version, files, listing))
    if not sources:
        return None, ""
    path = log_location(commit_name(version))
    why = ""
    try:
        damaged = table.storage.read(path) if is_damaged else None
        before = version_at(table, listing, version - 1)
        require_commits_supported(before.protocol, before.properties, before.version)
    except (Unreadable, CommitCorrupt, Refused, FileMissing) as fault:
        return None, f"version {version - 1}, which it follows, cannot be used: {fault.message}"
    for name, read in sources:
        try:
            return _Rebuilding(table, version, listing, before, damaged).work(read(table)), ""
        except UnknownError as unknown:
            why = why or f"{name} does not determine it: {unknown}"
        except (Unreadable, CommitCorrupt, Refused, FileMissing) as fault:
            why = why or f"{name} cannot be used: {fault.message}"
    return None, why


def _keys(rows: pyarrow.Table) -> ArrowArray:
    parts = [keys_of(one) for one in rows.to_batches()]
    return pa.concat_arrays([pa.array([], pa.binary()), *(pc.cast(part, pa.binary()) for part in parts)])


def _is_in(keys: ArrowArray, known: ArrowArray) -> ArrowArray:
    return pc.is_in(keys, value_set=known)


def _first(rows: pyarrow.Table, mask: ArrowArray) -> str | None:
    found = rows.filter(mask)["path"]
    return found[0].as_py() if len(found) else None


class _Rebuilding:
    """What a commit did, from the version before it and what has its changes."""

    def __init__(
        self, table: TableHandle, version: int, listing: LogListing, before: Snapshot, damaged: bytes | None
    ) -> None:
        self._table, self._version, self._listing, self._before = table, version, listing, before
        self._damaged = damaged
        self._adds, self._tombstones = whole_files(before, "add"), whole_files(before, "remove")
        self._keys, self._dead = _keys(self._adds), _keys(self._tombstones)
        self._checksum = self._read_checksum()

    def work(self, after: After) -> RebuildCommit:
        """Return the change that writes the commit. Raises UnknownError where it is not exact."""
        later = self._later(after)
        adds, removes, gone = self._changes(after, later)
        small = [*self._configuration(after), *self._transactions(after, later), *self._domains(after, adds, later)]
        self._require_checksum(adds, gone)
        is_change = self._is_change(adds, removes, gone)
        self._require_lines(adds, removes, small)
        time_ms = self._time(adds, removes)
        info = self._found_info() or {
            "timestamp": time_ms,
            "operation": "FSCK",
            "operationParameters": {"rebuiltFrom": after.name},
            "engineInfo": ENGINE_INFO,
        }
        lines = [encode_line(one) for one in ({"commitInfo": info | self._stamp()}, *small)]
        lines += self._file_lines(adds, removes, is_change=is_change)
        return RebuildCommit(self._version, b"".join(lines), time_ms, self._damaged, after.name)

    def _later(self, after: After) -> _Later:
        """Return what the commits up to those of a source did."""
        found, touched = _Later(), set[str]()
        for version in range(self._version + 1, after.version + 1):
            actions = list(stream_commit(self._table.storage, self._listing.commits[version]))
            removes = [action for kind, action in actions if kind == "remove"]
            found.older += [one for one in removes if compute_file_key(one) not in touched]
            for kind, action in actions:
                if kind == "domainMetadata" and action.get("domain") == DOMAIN:
                    if found.row_ids is None:
                        ids = (one.get("baseRowId") for each, one in actions if each == "add")
                        found.row_ids = [one for one in ids if type(one) is int]
                elif kind in ("protocol", "metaData", "domainMetadata"):
                    raise UnknownError(
                        f"commit {version} has another {kind}, so that of commit {self._version} is unknown"
                    )
                if kind == "txn":
                    found.transactions.setdefault(str(action.get("appId")), action.get("version"))
                if kind == "add":
                    if compute_file_key(action) not in touched:
                        is_update = action.get("dataChange") is False and not removes
                        (found.older if is_update else found.first).append(action)
                    touched.add(compute_file_key(action))
                    found.adds.append(action)
            touched.update(map(compute_file_key, removes))
            found.removes += removes
        return found

    def _changes(self, after: After, later: _Later) -> tuple[pyarrow.Table, pyarrow.Table, pyarrow.Table]:
        """Return the adds and the removes of the commit, and the adds of the files that it removes."""
        version, schemas = self._version, action_schemas()
        older = table_of(later.older, schemas.remove, "the commits")
        if (path := _first(older, pc.invert(_is_in(_keys(older), self._keys)))) is not None:
            raise UnknownError(f"what commit {version} recorded of {path} is hidden by a later commit")
        first = table_of(later.first, schemas.add, "the commits")
        if (path := _first(first, _is_in(_keys(first), self._keys))) is not None:
            raise UnknownError(f"whether commit {version} removed {path} is hidden by a later commit, which adds it")
        touched = pa.concat_arrays(
            [_keys(table_of(actions, schemas.remove, "the commits")) for actions in (later.adds, later.removes)]
        )
        theirs, gone_there = _keys(after.adds), _keys(after.removes)
        of_adds = table_of(later.adds, schemas.add, "the commits")
        survived = pc.invert(_is_in(_keys(of_adds), _keys(table_of(later.removes, schemas.remove, ""))))
        if (path := _first(of_adds, pc.and_(survived, pc.invert(_is_in(_keys(of_adds), theirs))))) is not None:
            raise UnknownError(f"it does not have {path}, which a later commit adds")
        is_fresh = pc.and_not(pc.invert(_is_in(theirs, self._keys)), _is_in(theirs, touched))
        adds = after.adds.filter(is_fresh)
        if (path := _first(adds, _is_in(_keys(adds), self._dead))) is not None:
            raise UnknownError(f"it has {path}, which was removed before version {version}")
        kept = pc.and_not(_is_in(theirs, self._keys), _is_in(theirs, touched))
        self._require_same(after.adds.filter(kept))
        removed = pc.and_not(_is_in(gone_there, self._keys), _is_in(gone_there, touched))
        removes = after.removes.filter(removed)
        gone = _is_in(self._keys, _keys(removes))
        if after.is_whole:
            lost = pc.and_not(pc.invert(pc.or_(_is_in(self._keys, theirs), gone)), _is_in(self._keys, touched))
            if (path := _first(self._adds, lost)) is not None:
                raise UnknownError(
                    f"it has neither an add nor a remove of {path}, which was live before: a remove may have expired"
                )
        return adds, removes, self._adds.filter(gone)

    def _require_same(self, theirs: pyarrow.Table) -> None:
        """Raise UnknownError where a source says something else of a file that was live before."""
        if not theirs.num_rows:
            return
        ours = self._adds.filter(_is_in(self._keys, _keys(theirs)))
        found = compare(_comparable(theirs), _comparable(ours), self._before.config)
        if found.different:
            first = found.different[0]
            raise UnknownError(f"it has another {first.field} of {first.path} than the commits")

    def _configuration(self, after: After) -> Iterator[Action]:
        before, source = self._before, after.name
        protocol, metadata = before.protocol, before.metadata
        if after.protocol is not None:
            protocol = read_protocol(after.protocol, source)
            if find_protocol_differences(protocol, before.protocol):
                yield {"protocol": after.protocol}
        if after.metadata is not None:
            metadata = read_metadata(after.metadata, source)
            if find_metadata_differences(metadata, before.metadata):
                yield {"metaData": after.metadata}
        require_commits_supported(protocol, metadata.configuration, self._version)
        self._is_stamped = has_in_commit_timestamps(protocol, metadata)
        self._has_changes = any(is_true(one, CHANGE_FEED) for one in (before.properties, metadata.configuration))

    def _transactions(self, after: After, later: _Later) -> Iterator[Action]:
        if after.is_whole and TRANSACTION_RETENTION in self._before.properties:
            raise UnknownError("whether it had transactions that have expired")
        known = {one.app_id: one.version for one in self._before.transactions}
        for app_id, version in later.transactions.items():
            if version != known.get(app_id, -1) + 1:
                raise UnknownError(
                    f"the version of transaction {app_id} at version {self._version} is hidden by a later commit"
                )
        for app_id, action in sorted(after.transactions.items()):
            if app_id not in later.transactions and action.get("version") != known.get(app_id):
                yield {"txn": action}

    def _domains(self, after: After, adds: pyarrow.Table, later: _Later) -> Iterator[Action]:
        known = {one.domain: one.configuration for one in self._before.domains}
        if later.row_ids is not None:
            yield from self._mark(read_mark(known.get(DOMAIN)), adds, later.row_ids)
        for name, action in sorted(after.domains.items()):
            if name == DOMAIN and later.row_ids is not None:
                continue
            is_removed = action.get("removed") is True
            if (None if is_removed else action.get("configuration")) != known.get(name):
                yield {"domainMetadata": action}
        if after.is_whole:
            for name in sorted(known.keys() - after.domains.keys()):
                yield {"domainMetadata": domain_of(name, known[name], removed=True)}

    def _mark(self, before: int | None, adds: pyarrow.Table, later: Sequence[int]) -> Iterator[Action]:
        """Yield the high-water mark that a later commit raised: the last id, where its first row id follows."""
        old = NO_MARK if before is None else before
        starts, records = adds["baseRowId"].to_pylist(), _records(adds)
        ends = [start + rows - 1 for start, rows in zip(starts, records, strict=True) if None not in (start, rows)]
        mark = max([old, *ends])
        if mark + 1 != min((start for start in later if start > old), default=None):
            raise UnknownError("the high-water mark of its row ids is hidden by a later commit")
        if mark != old:
            yield {"domainMetadata": mark_action(mark)}

    def _read_checksum(self) -> JsonObject:
        try:
            return read_checksum(self._table.storage.read(checksum_path(self._version))) or {}
        except FileMissing:
            return {}

    def _require_checksum(self, adds: pyarrow.Table, gone: pyarrow.Table) -> None:
        """Raise UnknownError where the checksum file of the version counts other files than it has by the commit."""
        counted = {
            "numFiles": self._adds.num_rows + adds.num_rows - gone.num_rows,
            "tableSizeBytes": _sum(self._adds["size"]) + _sum(adds["size"]) - _sum(gone["size"]),
        }
        for name, value in counted.items():
            if self._checksum.get(name, value) != value:
                raise UnknownError(
                    f"version {self._version} would have {name} {value:,}, and its checksum file says otherwise"
                )

    def _is_change(self, adds: pyarrow.Table, removes: pyarrow.Table, gone: pyarrow.Table) -> bool:
        """Return `dataChange` of the files: rows that only come or only go are changes, and so are those that become
        more or fewer. Raises UnknownError where files were replaced by others with as many rows.
        """
        if not adds.num_rows or not removes.num_rows:
            return True
        if self._has_changes:
            raise UnknownError("it does not have the change data of the commit")
        came, went = _rows(adds), _rows(gone)
        if came is None or went is None or came == went:
            raise UnknownError("whether its rows were changed or only rewritten")
        return True

    def _require_lines(self, adds: pyarrow.Table, removes: pyarrow.Table, small: Sequence[Action]) -> None:
        """Raise UnknownError where lines of the damaged commit that can still be read are not among those written."""
        known = {"add": _keys(adds), "remove": _keys(removes)}
        for line in self._lines():
            for kind in known.keys() & line.keys():
                actions = [line[kind]] if isinstance(line[kind], dict) else []
                rows = table_of(actions, getattr(action_schemas(), kind), commit_name(self._version))
                if not pc.all(_is_in(_keys(rows), known[kind])).as_py() and rows.num_rows:
                    raise UnknownError(f"the damaged commit has another {kind} that can be read")
            for kind in line.keys() - known.keys() - {"commitInfo"}:
                written = [one[kind] for one in small if kind in one]
                fields, action = _MEANING.get(kind, ()), line[kind] if isinstance(line[kind], dict) else {}
                if not any(all(one.get(name) == action.get(name) for name in fields) for one in written):
                    raise UnknownError(f"the damaged commit has another {kind} that can be read")

    def _lines(self) -> Iterator[Action]:
        for line in (self._damaged or b"").split(b"\n"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

    def _found_info(self) -> Action | None:
        found = next((line["commitInfo"] for line in self._lines() if "commitInfo" in line), None)
        return found if isinstance(found, dict) else None

    def _stamp(self) -> Action:
        """Return the in-commit timestamp as a field of the commitInfo: from the damaged commit, or from the checksum
        file of the version, if it is between those of the commits before and after.
        """
        if not self._is_stamped:
            return {}
        recorded = (self._found_info() or {}).get("inCommitTimestamp"), self._checksum.get("inCommitTimestampOpt")
        found = {one for one in recorded if type(one) is int}
        if not found:
            raise UnknownError("it does not have the in-commit timestamp")
        stamp = found.pop()
        lower, upper = self._stamp_of(self._version - 1), self._stamp_of(self._version + 1)
        is_between = (lower is None or lower < stamp) and (upper is None or stamp < upper)
        if found or not is_between:
            raise UnknownError(
                f"the in-commit timestamp: {stamp} is recorded, which the commits beside it, or its checksum file, "
                "contradict"
            )
        return {"inCommitTimestamp": stamp}

    def _stamp_of(self, version: int) -> int | None:
        file = self._listing.commits.get(version)
        return None if file is None else read_provenance(self._table.storage, file).in_commit_timestamp

    def _time(self, adds: pyarrow.Table, removes: pyarrow.Table) -> int:
        """Return when the commit was made: when its files came or went, between the times of its neighbours."""
        commits = self._listing.commits
        known = [one for one in (removes["deletionTimestamp"], adds["modificationTime"]) if len(one) > one.null_count]
        lower = commits[self._version - 1].modified_ms if self._version - 1 in commits else None
        upper = commits[self._version + 1].modified_ms if self._version + 1 in commits else None
        found = pc.max(known[0]).as_py() if known else lower if lower is not None else upper or self._table.clock()
        if upper is not None:
            found = min(found, upper)
        return found if lower is None else max(found, lower)

    def _file_lines(self, adds: pyarrow.Table, removes: pyarrow.Table, *, is_change: bool) -> Iterator[bytes]:
        without_id = adds["baseRowId"].null_count
        if without_id not in (0, adds.num_rows) or adds["defaultRowCommitVersion"].null_count != without_id:
            raise UnknownError("the row ids of some of its files")
        slot = NextVersion(self._version, None if without_id else 0)
        named = [(kind, _with_change(rows, is_change=is_change)) for kind, rows in (("remove", removes), ("add", adds))]
        return encoded_files(lambda: ((kind, one) for kind, rows in named for one in rows.to_batches()), slot)


class _Unchanged(_Rebuilding):
    """A commit of 0 bytes that is accepted as one that changed nothing."""

    def __init__(self, table: TableHandle, file: StoredFile, listing: LogListing, before: Snapshot) -> None:
        super().__init__(table, file.path.version, listing, before, damaged=b"")
        self._modified_ms = file.modified_ms

    def _time(self, _adds: pyarrow.Table, _removes: pyarrow.Table) -> int:
        """Return the time of the file, which is the time of the version already."""
        return self._modified_ms

    def _stamp(self) -> Action:
        """Return an in-commit timestamp between those of the commits beside it: that of the checksum file, or the time
        of the file.
        """
        if not self._is_stamped:
            return {}
        time = self._before.time
        upper = self._stamp_of(self._version + 1)
        if time is None:
            raise UnknownError("the version before has no time that its in-commit timestamp has to exceed")
        recorded = self._checksum.get("inCommitTimestampOpt")
        stamp = recorded if type(recorded) is int else max(time.timestamp_ms + 1, self._modified_ms)
        if upper is not None and recorded is None:
            stamp = min(stamp, upper - 1)
        if stamp <= time.timestamp_ms or (upper is not None and stamp >= upper):
            raise UnknownError("no in-commit timestamp fits between those of the commits beside it")
        return {"inCommitTimestamp": stamp}


def unchanged_commit(table: TableHandle, file: StoredFile, listing: LogListing, before: Snapshot) -> RebuildCommit:
    """Return the change that writes a commit of 0 bytes as a version without changes.

    Args:
        table: The table.
        file: The empty commit.
        listing: The log without damaged files.
        before: The version before.

    Raises:
        UnknownError: If the checksum file of the version, or the time of the commits beside it, does not allow that.
        Refused: If deltacli may not commit to the table.
    """
    require_commits_supported(before.protocol, before.properties, before.version)
    schemas = action_schemas()
    nothing = After(
        f"version {before.version} (accepted as a version without changes)",
        file.path.version,
        schemas.add.empty_table(),
        schemas.remove.empty_table(),
        protocol=None,
        metadata=None,
        transactions={},
        domains={},
        is_whole=False,
    )
    work = _Unchanged(table, file, listing, before).work(nothing)
    # A writer that creates its file before it writes may still be at it.
    return replace(work, is_sensitive=True)


def _with_change(rows: pyarrow.Table, *, is_change: bool) -> pyarrow.Table:
    place = rows.schema.get_field_index("dataChange")
    return rows.set_column(place, rows.schema.field(place), pa.repeat(is_change, rows.num_rows)).combine_chunks()


def _comparable(rows: pyarrow.Table) -> pyarrow.Table:
    return pa.concat_tables([comparable_adds(one) for one in rows.to_batches()])


def _rows(files: pyarrow.Table) -> int | None:
    """Return the rows of files without deleted ones, None where some number is not known."""
    records = _records(files)
    if None in records:
        return None
    return sum(records) - _sum(pc.struct_field(files["deletionVector"], ["cardinality"]))  # type: ignore[arg-type]


def _records(files: pyarrow.Table) -> list[int | None]:
    return [
        count for batch in files.to_batches() for count in extract_num_records_column(batch.column("stats")).to_pylist()
    ]


def _sum(values: ArrowArray) -> int:
    total: int | None = pc.sum(values).as_py()
    return total or 0
