"""`log crc` and `log compact`: the checksum file of a version, and the commits of a range in one file.

Before one is written, the state is compared with the one rebuilt from the oldest start of the log.

Spec: Version Checksum File; Log Compaction Files; Action Reconciliation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

import orjson

from deltacli.changing.base_commit_errors import CONTENT_DIFFERS, build_replaced_error
from deltacli.changing.base_version import BaseVersion, build_base_version, can_be_replaced_unnoticed
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.derived_files import create_derived_file
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.plan import PlanWithoutRefusals
from deltacli.changing.protocol_checks import require_derived_files_allowed
from deltacli.core import errors
from deltacli.core.progress import report_weighed_items
from deltacli.core.ranges import find_gaps, format_spans, name_ranges
from deltacli.core.short_repr import short_repr
from deltacli.delta.log.actions import Action, read_actions, too_deep, wrong_type_error
from deltacli.delta.log.disputed_readings import DECISIONS, find_repeated_kinds
from deltacli.delta.log.file_actions import compute_file_key, reconcile_commit
from deltacli.delta.log.segment import (
    LOG_DIRECTORY,
    CheckpointInstance,
    LogFile,
    LogListing,
    checksum_path,
    commit_name,
)
from deltacli.delta.log.state import (
    TRANSACTION_RETENTION,
    find_metadata_differences,
    find_protocol_differences,
    has_in_commit_timestamps,
    read_metadata,
    read_protocol,
)
from deltacli.delta.paths.engine_readings import RULES_OF_SPELLINGS, SEVERAL_SPELLINGS
from deltacli.rules.framework.views import LocatedAction
from deltacli.rules.log.compactions import differences_of_compaction
from deltacli.storage import Existed, ReadStorage, Unknown
from deltacli.storage.base import stat_created
from deltacli.table.ambiguous_files import require_engine_agreement
from deltacli.table.checksum_guard import MAX_CHECKSUM_BYTES
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot, rebuild_version
from deltacli.table.version import Snapshot
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.commits.reading import read_commit

# -- `log crc` ---------------------------------------------------------------------------------------------------------

_COUNTS = ("numFiles", "tableSizeBytes", "numDeletionVectorsOpt", "numDeletedRecordsOpt")
_ANOTHER = "checkpoint.unreadable"


def _other_state(table: TableHandle, snapshot: Snapshot) -> Snapshot | None:
    """Return the version rebuilt from the oldest start, with which `validate` compares; None without another start."""
    if snapshot.segment.checkpoint is None:
        return None
    listing = list_log(table.storage, progress=table.progress)
    oldest = _oldest_start(listing, snapshot.version)
    if oldest == snapshot.segment.checkpoint:
        return None
    unusable = {found: _ANOTHER for found in listing.checkpoints if found != oldest}
    try:
        found = rebuild_version(table, ListedLog(listing), snapshot.version, unusable=unusable)
    except errors.Unreadable:
        return None
    return found if found.segment.checkpoint == oldest else None


def _oldest_start(listing: LogListing, version: int) -> CheckpointInstance | None:
    """Return the oldest checkpoint from which all commits up to a version exist; None: version 0 exists."""
    first = next((first for first, last in listing.commit_runs if first <= version <= last), version + 1)
    if first == 0:
        return None
    return min((found for found in listing.checkpoints if first - 1 <= found.version <= version), default=None)


def _require_same_state(
    snapshot: Snapshot, computed: Mapping[str, Any], other: Snapshot, expected: Mapping[str, Any]
) -> None:
    """Raise Refused (`crc.not-proven`), naming the fields, where the checksums of two states of one version differ."""
    differing = list(_differences(snapshot, computed, other, expected))
    if not differing:
        return
    ours, theirs = _start(snapshot), _start(other)
    raise errors.Refused(
        f"no checksum was written: version {snapshot.version} differs between {ours} and {theirs}",
        code="crc.not-proven",
        facts={name: f"{found} from {ours}, {wanted} from {theirs}" for name, found, wanted in differing[:5]},
        hint=errors.command("validate", select=["checkpoint.*"]),
    )


def _start(snapshot: Snapshot) -> str:
    checkpoint = snapshot.segment.checkpoint
    return "the commits" if checkpoint is None else f"checkpoint {checkpoint.version}"


def _differences(
    snapshot: Snapshot, computed: Mapping[str, Any], other: Snapshot, expected: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Yield the differences that `validate` would report: not those of spellings, or of expired transactions."""
    for name in _COUNTS:
        if computed.get(name) != expected.get(name):
            yield name, computed.get(name), expected.get(name)
    for name in find_protocol_differences(snapshot.protocol, other.protocol):
        yield f"protocol.{name}", _part(computed, "protocol", name), _part(expected, "protocol", name)
    for name in find_metadata_differences(snapshot.metadata, other.metadata):
        yield f"metadata.{name}", _part(computed, "metadata", name), _part(expected, "metadata", name)
    ours = {found.app_id: found.version for found in snapshot.transactions}
    theirs = {found.app_id: found.version for found in other.transactions}
    may_expire = TRANSACTION_RETENTION in other.properties
    for app_id in sorted(ours.keys() & theirs.keys() if may_expire else ours.keys() | theirs.keys()):
        if ours.get(app_id) != theirs.get(app_id):
            yield f"transaction {app_id}", ours.get(app_id), theirs.get(app_id)
    domains, wanted = ({d.domain: d.configuration for d in state.domains} for state in (snapshot, other))
    for domain in sorted(domains.keys() | wanted.keys()):
        if domains.get(domain) != wanted.get(domain):
            yield f"domain {domain}", _cut(domains.get(domain)), _cut(wanted.get(domain))


def _part(checksum: Mapping[str, Any], action: str, name: str) -> str:
    return _cut(checksum[action].get(name.partition(".")[0]))


def _cut(value: object) -> str:
    return str(value)[:80]


class ChecksumStatus(StrEnum):
    """The outcome for the checksum file of a version."""

    WRITTEN = "written"
    MISSING = "missing"
    """It would be written."""
    AGREES = "agrees"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"


@short_repr("version", "status", "fields", "differences")
@dataclass(frozen=True, repr=False)
class ChecksumReport(CompleteOutcome, PlanWithoutRefusals):
    """One checksum file; `differences` are (field, value in the file, value in the log)."""

    base_version: BaseVersion
    computed: Mapping[str, Any]
    status: ChecksumStatus
    differences: tuple[tuple[str, object, object], ...] = ()

    @property
    def version(self) -> int:
        return self.base_version.version

    @property
    def path(self) -> str:
        return checksum_path(self.version)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(sorted(self.computed))

    @property
    def is_wrong(self) -> bool:
        """Whether the file differs from the log, or cannot be read."""
        return self.status in (ChecksumStatus.DIFFERS, ChecksumStatus.UNREADABLE)

    @property
    def is_noop(self) -> bool:
        """True where there is a file, whatever it holds."""
        return self.status is not ChecksumStatus.MISSING

    def effects(self) -> Iterator[str]:
        yield self.path

    def describe_progress(self) -> str:
        return f"{self.path} written"

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.log-crc`, without the envelope."""
        return {
            "version": self.version,
            "path": self.path,
            "status": self.status.value,
            "fields": list(self.fields),
            "differences": [{"field": name, "file": ours, "log": theirs} for name, ours, theirs in self.differences],
        }


@dataclass(frozen=True)
class Checksum:
    """The checksum file of a version, or of the newest one. An existing file is compared and never changed."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    version: int | None = None

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> ChecksumReport:
        """Compare the checksum file with the state of the version, where there is one.

        Raises Refused where there is none and the version has no commit file or needs an unknown writer feature, or the
        log contradicts itself (`crc.not-proven`, `crc.ict`); and what `read_snapshot` raises.
        """
        snapshot = now or read_snapshot(table, version=self.version)
        plan = ChecksumReport(build_base_version(snapshot), compute_checksum(snapshot), ChecksumStatus.MISSING)
        try:
            return _compared(plan, table.storage.read_range(plan.path, 0, MAX_CHECKSUM_BYTES))
        except errors.FileMissing:
            pass
        require_derived_files_allowed(snapshot)
        if plan.version not in snapshot.listing.commits:
            raise errors.Refused(
                f"version {plan.version} has no commit file; a checksum is written only for an existing commit",
                code="crc.without-commit",
                hint=errors.command("validate"),
            )
        _require_provable(table, snapshot, plan.computed)
        return plan

    def outcome(self, plan: ChecksumReport) -> ChecksumReport:
        return plan

    def execute(self, execution: ChangeExecution[ChecksumReport, ChecksumReport]) -> None:
        """Write the file; where another writer was faster, compare its file. Raises StorageFailed, NoAtomicCreate, and
        CommitCorrupt for a value that a checksum file cannot represent.
        """
        plan, data = execution.plan, _encode(execution.plan.computed)
        if can_be_replaced_unnoticed(plan.base_version):
            _require_same_checksum(plan, data)
        execution.outcome = replace(plan, status=ChecksumStatus.WRITTEN)
        match create_derived_file(execution, plan.path, data):
            case Existed():
                execution.outcome = _compared(plan, execution.store.read_range(plan.path, 0, MAX_CHECKSUM_BYTES))
            case Unknown(cause) as made:
                stat_created(execution.store, plan.path, made)
                if execution.store.read_range(plan.path, 0, MAX_CHECKSUM_BYTES) != data:
                    raise errors.StorageFailed(f"{plan.path} may not have been written", facts={"why": cause})


def _require_same_checksum(plan: ChecksumReport, planned: bytes) -> None:
    """Read the version again. Raises Refused (`plan.other-past`) where its checksum is another one by now."""
    snapshot = read_snapshot(plan.base_version.table, version=plan.version)
    if _encode(compute_checksum(snapshot)) != planned:
        raise build_replaced_error(commit_name(plan.version), CONTENT_DIFFERS)


def proven_checksum(table: TableHandle, version: int) -> bytes:
    """Return the checksum file that a version should have. Raises what `Checksum` raises."""
    snapshot = read_snapshot(table, version=version)
    require_derived_files_allowed(snapshot)
    computed = compute_checksum(snapshot)
    _require_provable(table, snapshot, computed)
    return _encode(computed)


def _require_provable(table: TableHandle, snapshot: Snapshot, computed: Mapping[str, Any]) -> None:
    """Raise Refused where `validate` would report the checksum of this state, or engines count other files."""
    require_engine_agreement(snapshot, "a checksum", replaces_actions=False)
    is_stamped = "inCommitTimestampOpt" in computed
    if not is_stamped and has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        raise errors.Refused(
            f"commit {snapshot.version} has no in-commit timestamp, which its checksum needs",
            code="crc.ict",
            hint=errors.command("validate", select=["ict.*"]),
        )
    other = _other_state(table, snapshot)
    if other is not None:
        _require_same_state(snapshot, computed, other, compute_checksum(other))


def _encode(computed: Mapping[str, Any]) -> bytes:
    """Return the bytes of a checksum file. Raises CommitCorrupt for a value that such a file cannot represent."""
    for field, value in computed.items():
        if (odd := next(_beyond_64_bits(value), None)) is not None:
            raise wrong_type_error(field, str(odd), "the state")
    try:
        return orjson.dumps(computed)
    except TypeError as fault:  # a lone surrogate
        raise wrong_type_error("a text", str(fault), "the state") from fault


def _beyond_64_bits(value: object) -> Iterator[int]:
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _beyond_64_bits(item)


def compute_checksum(snapshot: Snapshot) -> dict[str, Any]:
    """Return every field that can be computed exactly from a state."""
    files, _ = snapshot.counts()
    found: dict[str, Any] = {
        "tableSizeBytes": files.size_bytes,
        "numFiles": files.count,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [transaction.as_json() for transaction in snapshot.transactions],
        "domainMetadata": [{**domain.as_json(), "removed": False} for domain in snapshot.domains],
        "metadata": snapshot.metadata.as_json(),
        "protocol": snapshot.protocol.as_json(),
    }
    if "deletionVectors" in snapshot.protocol.supported_features:
        found |= {"numDeletedRecordsOpt": files.deleted_rows, "numDeletionVectorsOpt": files.deletion_vectors}
    commit = snapshot.listing.commits.get(snapshot.version)
    provenance = read_provenance(snapshot.table.storage, commit) if commit is not None else None
    info = (provenance.commit_info if provenance else None) or {}
    if isinstance(info.get("txnId"), str):
        found["txnId"] = info["txnId"]
    stamped = provenance.in_commit_timestamp if provenance else None
    if stamped is not None and has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        found["inCommitTimestampOpt"] = stamped
    return found


def _compared(plan: ChecksumReport, data: bytes) -> ChecksumReport:
    try:
        found = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return replace(plan, status=ChecksumStatus.UNREADABLE)
    theirs, ours = _comparable(found), _comparable(plan.computed)
    differences = tuple(
        (name, _for_a_document(found[name]), value)
        for name, value in plan.computed.items()
        if name in theirs and (type(theirs[name]) is not type(ours[name]) or theirs[name] != ours[name])
    )
    status = ChecksumStatus.DIFFERS if differences else ChecksumStatus.AGREES
    return replace(plan, status=status, differences=differences)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _for_a_document(value: object) -> object:
    """Return a value unchanged, or a description where JSON cannot represent it."""
    try:
        orjson.dumps(value)
    except TypeError:
        try:
            json.dumps(value)
        except RecursionError:
            return "a value nested too deeply to be shown"
    return value


def _comparable(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a checksum so that equivalent values are equal; one of a wrong type is unchanged."""
    found: dict[str, object] = {}
    for name, value in document.items():
        if value is not None:
            found[name] = _READ[name](value) if name in _READ else value
    return found


def _action(read: Callable[[Any, str], object]) -> Callable[[object], object]:
    def parse(value: object) -> object:
        try:
            return read(value, "") if isinstance(value, dict) else value
        except errors.CommitCorrupt:
            return value

    return parse


def _rows(key: str) -> Callable[[object], object]:
    """Return a function that sorts rows by a field and drops their null fields."""

    def parse(value: object) -> object:
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            return value
        return sorted((_plain(row, key) for row in value), key=lambda row: str(row.get(key)))

    return parse


def _plain(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if value is not None}
    return kept | {"removed": bool(kept.get("removed"))} if key == "domain" else kept


_READ: Mapping[str, Callable[[object], object]] = {
    "metadata": _action(read_metadata),
    "protocol": _action(read_protocol),
    "setTransactions": _rows("appId"),
    "domainMetadata": _rows("domain"),
}


# -- `log compact` -----------------------------------------------------------------------------------------------------

MOST_BYTES = 512 << 20
"""Of all commits together, in bytes. Their actions are held in memory, also by readers of compactions."""

Key = tuple[str, str]
_FILES = ("add", "remove")


@short_repr("first", "last", "size_bytes", "commit_bytes", "skipped", "dry_run")
@dataclass(frozen=True, repr=False)
class Compaction(CompleteOutcome, PlanWithoutRefusals):
    """A compaction that was written, existed already, or would be written (`dry_run`)."""

    base_version: BaseVersion
    first: int
    last: int
    path: str
    size_bytes: int
    commit_bytes: int
    actions: dict[str, int]
    kept: Mapping[Key, Action]
    """The reconciled actions."""
    skipped: bool = False
    dry_run: bool = True

    is_noop = False

    def effects(self) -> Iterator[str]:
        yield self.path

    def describe_progress(self) -> str:
        return f"{self.path} written"

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.log-compact`, without the envelope."""
        return {
            "firstVersion": self.first,
            "lastVersion": self.last,
            "path": self.path,
            "sizeBytes": self.size_bytes,
            "commitsSizeBytes": self.commit_bytes,
            "actions": self.actions,
            "skipped": self.skipped,
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True)
class LogCompaction:
    """The compaction of the commits `first` to `last`, both included."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    first: int
    last: int

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> Compaction:  # noqa: ARG002  (the range decides)
        """Read the commits and reconcile their actions.

        Raises UsageError for a range of fewer than two commits, VersionAbsent where one is missing, CommitCorrupt, and
        Refused where the protocol or the size forbids it, or a file has several spellings.
        """
        snapshot = _last_version(table, self.first, self.last)
        require_derived_files_allowed(snapshot)
        chosen = _chosen(snapshot, self.first, self.last)
        size = sum(file.size_bytes for file in chosen)
        kept = _reconciled(table, chosen)
        counts = Counter(kind for kind, _ in kept)
        path, data = f"{LOG_DIRECTORY}/{self.first:020d}.{self.last:020d}.compacted.json", _encoded(kept)
        return Compaction(build_base_version(snapshot), self.first, self.last, path, len(data), size, counts, kept)

    def outcome(self, plan: Compaction) -> Compaction:
        return replace(plan, dry_run=False)

    def execute(self, execution: ChangeExecution[Compaction, Compaction]) -> None:
        """Write the file, read it back and compare it with the commits.

        Raises Refused where another compaction has the name, StorageFailed and NoAtomicCreate.
        """
        plan = execution.plan
        if can_be_replaced_unnoticed(plan.base_version):
            _require_same_actions(plan)
        made = create_derived_file(execution, plan.path, _encoded(plan.kept))
        if isinstance(made, Unknown):
            stat_created(execution.store, plan.path, made)
        _require_equal(execution.store, plan.path, plan.kept)
        execution.outcome = replace(execution.outcome, skipped=made == Existed())


def _require_same_actions(plan: Compaction) -> None:
    """Read the commits again. Raises Refused (`plan.other-past`) where they have other actions by now."""
    table = plan.base_version.table
    chosen = _chosen(read_snapshot(table, version=plan.last), plan.first, plan.last)
    if _reconciled(table, chosen) != plan.kept:
        raise build_replaced_error(chosen[-1].name, CONTENT_DIFFERS)


def _last_version(table: TableHandle, first: int, last: int) -> Snapshot:
    if first >= last:
        raise errors.UsageError(
            f"{errors.parameter('log compact.first', first)} {errors.parameter('log compact.last', last)}: "
            "a compaction needs at least two commits",
            hint=errors.command("log compact", first=last, last=first) if last < first else None,
        )
    try:
        return read_snapshot(table, version=last)
    except errors.VersionAbsent as absent:
        absent.message = f"commits {first} to {last}: {absent.message}"
        if absent.nearest is not None:
            fits = first < absent.nearest
            absent.hint = (
                errors.command("log compact", first=first, last=absent.nearest) if fits else errors.command("history")
            )
        raise


def _chosen(snapshot: Snapshot, first: int, last: int) -> list[LogFile]:
    """Return the commits of a range. Raises VersionAbsent and Refused."""
    listing, table = snapshot.listing, snapshot.table
    if listing.start_version > first:  # it begins at a checkpoint, after which nothing older is needed to read
        listing = list_log(table.storage, start_version=first, progress=table.progress)
    commits = listing.commits
    missing = find_gaps(commits, first, last)
    if missing:
        is_one = len(missing) == 1 and missing[0][0] == missing[0][1]
        raise errors.VersionAbsent(
            f"{'commit' if is_one else 'commits'} {format_spans(missing)} {'is' if is_one else 'are'} missing",
            code="log.gap",
            facts={"found": name_ranges("commit", commits)},
            hint=errors.command("history"),
        )
    chosen = [commits[version] for version in range(first, last + 1)]
    size = sum(file.size_bytes for file in chosen)
    if size > MOST_BYTES:
        raise errors.Refused(
            f"commits {first} to {last} have {size} bytes; the limit of a compaction is {MOST_BYTES >> 20} MiB",
            code="compact.too-large",
            hint=errors.command("checkpoint", version=last),
        )
    return chosen


def _reconciled(table: TableHandle, commits: Sequence[LogFile]) -> dict[Key, Action]:
    """Return the newest action of each key in some commits.

    Raises:
        Refused: What `reconcile` raises, and for a commit that engines read differently: a compaction would have one
            reading for all.
    """
    disputed = set[str]()
    kept = reconcile(_actions(table, commits, disputed))
    if disputed:
        rules = sorted(disputed)
        raise errors.Refused(
            f"engines read these commits differently, and a compaction would settle this as deltacli reads it: "
            f"{DECISIONS[rules[0]]}",
            code=rules[0],
            hint=errors.command("validate", select=rules),
        )
    return kept


def _actions(table: TableHandle, commits: Sequence[LogFile], disputed: set[str]) -> Iterator[tuple[str, Action]]:
    """Yield every action, oldest commit first; adds of a commit follow its removes, so that an add takes precedence.

    `disputed` gets the rules of `validate` for damages of the commits that engines read differently.
    """
    told = report_weighed_items(
        iter(commits),
        table.progress,
        "reading the log",
        unit="commits",
        weights=[file.size_bytes for file in commits],
        weight_of=lambda file: file.size_bytes,
    )
    for file in told:
        actions = read_actions(read_commit(table.storage, file), file.name, disputed_rules=disputed)
        reconcile_commit(actions, set(), file.name, disputed_rules=disputed)
        disputed.update(find_repeated_kinds(actions))
        yield from (pair for pair in actions if pair[0] != "add")
        yield from (pair for pair in actions if pair[0] == "add")


def reconcile(actions: Iterable[tuple[str, Action]]) -> dict[Key, Action]:
    """Return the newest action of each key, which of a file has one kind; nothing expires, removed domains stay.

    Raises:
        Refused: `path.same-file-two-spellings` if the newest action of a file spells its path otherwise than an older
            one. For engines that compare texts both count, and one of them would be lost.
    """
    found: dict[Key, Action] = {}
    for kind, action in actions:
        match kind:
            case "add" | "remove":
                key = compute_file_key(action, "the commits")
                replaced = [found.pop((other, key)) for other in _FILES if (other, key) in found]
                _require_same_spelling(action, replaced)
                found[kind, key] = action
            case "protocol" | "metaData":
                found[kind, ""] = action
            case "txn":
                found[kind, str(action.get("appId"))] = action
            case "domainMetadata":
                found[kind, str(action.get("domain"))] = action
    return found


def _require_same_spelling(newer: Action, older: Iterable[Action]) -> None:
    for action in older:
        if action["path"] != newer["path"]:
            raise errors.Refused(
                f"the commits name one file as {action['path']} and as {newer['path']}, and engines that compare paths "
                "as text need both actions, of which a compaction has one",
                code=SEVERAL_SPELLINGS,
                hint=errors.command("validate", select=RULES_OF_SPELLINGS),
            )


def _encoded(kept: Mapping[Key, Action]) -> bytes:
    return b"".join(_line(kind, action) for (kind, _), action in kept.items())


def _line(kind: str, action: Action) -> bytes:
    try:
        return orjson.dumps({kind: action}) + b"\n"
    except (TypeError, ValueError):  # integers beyond 64 bits, lone surrogates
        try:
            return json.dumps({kind: action}, separators=(",", ":")).encode() + b"\n"
        except RecursionError:
            raise too_deep(f"a field of {kind}", "the commits") from None


def _require_equal(storage: ReadStorage, path: str, kept: Mapping[Key, Action]) -> None:
    """Raise Refused unless the file contains the reconciled actions, as `validate` compares them."""
    name = path.rsplit("/", 1)[-1]
    there = [LocatedAction(kind, action, 0) for kind, action in read_actions(storage.read(path), name)]
    expected = [LocatedAction(kind, action, 0) for (kind, _), action in kept.items()]
    first = next(differences_of_compaction([expected], there), None)
    if first is not None:
        raise errors.Refused(
            f"{name} exists and differs from its commits: it {first[1]}",
            code="compaction.content",
            facts={"file": path},
            hint=errors.command("validate", select=["compaction.*"]),
        )
