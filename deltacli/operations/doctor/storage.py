"""`doctor storage` and `doctor access`: by probes, what the store guarantees and which permissions there are.

They are in the table directory itself, never in `_delta_log`. Readers of a Delta table open only files that the log
names. Readers of plain Parquet directories leave out names that begin with `_`, and so does the vacuum of every engine.
There is no directory of its own, which stores with directories would keep after its files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import uuid4

from deltacli.core.errors import (
    CredentialsMissing,
    FileMissing,
    PermissionRefused,
    StorageFailed,
    command,
    parameter,
)
from deltacli.core.machine import Clock
from deltacli.core.progress import SILENT, Progress, report_items
from deltacli.core.times import CLOCK_SKEW_MS
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.operations.doctor import advice as found
from deltacli.operations.doctor.advice import Severity, StoreFinding, fails
from deltacli.storage import Failed, PathKind, ReadStorage
from deltacli.storage.probing.interface import Identity, Permission, PermissionState, ProbeAnswer, ProbedStore, Reply
from deltacli.table.missing_log import build_missing_log_error, build_missing_path_error

# -- names of scratch files --------------------------------------------------------------------------------------------

PREFIX = "_deltacli-doctor-"


@dataclass
class Scratch:
    """The scratch files of one run. `names` are all that may exist."""

    run: str = field(default_factory=lambda: uuid4().hex[:12])
    names: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{self.run}-"

    def name(self, word: str) -> str:
        """Return the name of a scratch file, which is deleted at the end of the run."""
        name = f"{self.prefix}{word}"
        if name not in self.names:
            self.names.append(name)
        return name

    def clear(self, subject: ProbedStore) -> list[str]:
        """Delete all scratch files and return those that may be left."""
        if not self.names:
            return []
        try:
            outcomes = subject.delete(self.names)
        except StorageFailed:
            return list(self.names)
        failed = [name for name, outcome in outcomes if isinstance(outcome, Failed)]
        try:
            # A file that could not be created cannot be deleted either, as on a read-only file system: it is not left.
            return sorted(subject.list_names(self.prefix))
        except StorageFailed:
            return failed


# -- `doctor storage` --------------------------------------------------------------------------------------------------

_WRITERS = 8
_CONTENT = bytes(range(256)) * 4
_LISTED = ("list-1", "list-10", "list-2", "list-B", "list-a", "list-b", "list-z")
"""In the order of their bytes, which neither numbers nor letters of a language are in."""
_OTHER = b"another content of the same file"
_WRITES_DIRECTLY = "write through another store, or commit by one writer only"


@dataclass
class StorageReport:
    """The results of the probes, in their order."""

    table: str
    store: str
    endpoint: str
    results: list[tuple[Probe, ProbeResult]] = field(default_factory=list)
    findings: list[StoreFinding] = field(default_factory=list)
    scratch: str = PREFIX
    left: list[str] = field(default_factory=list)
    clock_skew_ms: int | None = None
    dry_run: bool = False

    @property
    def has_failed(self) -> bool:
        return fails(self.findings)

    @property
    def is_complete(self) -> bool:
        """Return True where every probe had a usable answer."""
        return all(result.outcome is not Outcome.INCONCLUSIVE for _, result in self.results)

    def as_json(self) -> dict[str, Json]:
        fields: dict[str, Any] = {"store": self.store}
        fields |= {"endpoint": self.endpoint} if self.endpoint else {}
        skew = {} if self.dry_run else {"clockSkewMs": self.clock_skew_ms}
        return {
            **fields,
            "scratch": {"prefix": self.scratch, "left": self.left},
            **skew,
            "findings": [finding.as_json() for finding in self.findings],
            "dryRun": self.dry_run,
        }

    def probes(self) -> list[dict[str, str]]:
        """Return the probes as JSON objects."""
        return [
            {
                "probe": probe.name,
                "what": probe.what,
                "expected": probe.expected,
                "outcome": result.outcome,
                **({"seen": result.seen} if result.seen else {}),
                **({"finding": result.finding.code} if result.finding else {}),
            }
            for probe, result in self.results
        ]


def plan_probes(table: str, subject: ProbedStore) -> StorageReport:
    """Return the probes that would be run."""
    planned = [(probe, ProbeResult(Outcome.PLANNED, "")) for probe in PROBES]
    return StorageReport(table, subject.kind, subject.endpoint, planned, dry_run=True)


def probe_storage(table: str, subject: ProbedStore, clock: Clock, progress: Progress = SILENT) -> StorageReport:
    """Run the probes on scratch files, which are deleted in any case. Raises StorageFailed for an unreachable store."""
    bench = Bench(subject, clock)
    report = StorageReport(table, subject.kind, subject.endpoint, scratch=bench.scratch.prefix)
    try:
        for probe in report_items(iter(PROBES), progress, "probing the store", unit="probes", every=1):
            result = _run(probe, bench)
            report.results.append((probe, result))
            if probe.name == "create" and result.outcome is Outcome.FAILED:
                break  # nothing else can be probed where nothing can be written
    finally:
        report.left = bench.scratch.clear(subject)
    report.clock_skew_ms = bench.clock_skew_ms
    by_code = {result.finding.code: result.finding for _, result in reversed(report.results) if result.finding}
    report.findings = sorted(by_code.values(), key=lambda finding: list(Severity).index(finding.severity))
    if report.left:
        message = f"{plural(len(report.left), 'scratch file')} may be left: {report.left[0]}"
        next_step = f"delete the files whose names begin with {bench.scratch.prefix}"
        report.findings.append(StoreFinding(found.LEFT, Severity.WARNING, message, next_step))
    return report


def _run(probe: Probe, bench: Bench) -> ProbeResult:
    """Return the result of a probe. A fault after the first probe is one of this probe only."""
    try:
        return probe.run(bench)
    except StorageFailed as fault:
        if probe.name == "create":
            raise
        return ProbeResult(Outcome.INCONCLUSIVE, fault.facts.get("store says", fault.message))


def require_directory(storage: ReadStorage) -> None:
    """Raise NotATable where nothing is there, because scratch files are written only next to other files."""
    if storage.kind_of("") is not PathKind.DIRECTORY:
        raise build_missing_path_error(storage)


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The store does not have what is probed."""
    INCONCLUSIVE = "inconclusive"
    """No usable answer."""
    PLANNED = "planned"


class ProbeResult(NamedTuple):
    """What a probe saw. `finding` is set where it failed."""

    outcome: Outcome
    seen: str
    finding: StoreFinding | None = None


@dataclass
class Bench:
    """What probes work with. `clock_skew_ms` is what the clock of the store is ahead, once it was measured."""

    subject: ProbedStore
    clock: Clock
    scratch: Scratch = field(default_factory=Scratch)
    clock_skew_ms: int | None = None

    def made(self, word: str, data: bytes = b"x") -> str:
        """Create a scratch file without a condition, and return its name. Its content may be an earlier one."""
        name = self.scratch.name(word)
        self.subject.replace(name, data, None)
        return name


def create_absent(bench: Bench) -> ProbeResult:
    said = bench.subject.create(bench.scratch.name("create"), _CONTENT)
    if said.reply is Reply.DONE:
        return ProbeResult(Outcome.PASSED, "created")
    return _unexpected(said, found.CREATE, "a file cannot be created on the condition that it is absent")


def create_existing(bench: Bench) -> ProbeResult:
    said = bench.subject.create(bench.scratch.name("create"), _OTHER)
    message = "the store ignores the condition of a creation, so two writers could create the same version"
    if said.reply is Reply.REFUSED:
        if bench.subject.read(bench.scratch.name("create")).data == _CONTENT:
            return ProbeResult(Outcome.PASSED, "refused")
        return ProbeResult(Outcome.FAILED, "refused, but replaced", _error(found.CREATE, message, _WRITES_DIRECTLY))
    return _unexpected(said, found.CREATE, message)


def create_at_once(bench: Bench) -> ProbeResult:
    name = bench.scratch.name("race")
    with ThreadPoolExecutor(_WRITERS) as pool:
        contents = [f"writer {number}".encode() for number in range(_WRITERS)]
        replies = list(pool.map(lambda data: bench.subject.create(name, data), contents))
    winners = [data for data, said in zip(contents, replies, strict=True) if said.reply is Reply.DONE]
    doubtful = [said for said in replies if said.reply not in (Reply.DONE, Reply.REFUSED)]
    seen = f"{plural(len(winners), 'writer')} of {_WRITERS} succeeded"
    if doubtful:
        return ProbeResult(Outcome.INCONCLUSIVE, f"{seen}, {len(doubtful)} without a usable answer: {doubtful[0].text}")
    if len(winners) == 1 and bench.subject.read(name).data == winners[0]:
        return ProbeResult(Outcome.PASSED, seen)
    message = f"{seen} in creating one file at the same time, so versions could be lost"
    return ProbeResult(Outcome.FAILED, seen, _error(found.CREATE, message, _WRITES_DIRECTLY))


def read_back(bench: Bench) -> ProbeResult:
    said = bench.subject.read(bench.scratch.name("create"))
    if said.reply is not Reply.DONE:
        return _unexpected(said, found.CONTENT, "a file that was written cannot be read")
    if said.data == _CONTENT:
        return ProbeResult(Outcome.PASSED, f"{len(said.data):,} bytes, unchanged")
    seen = f"{len(said.data):,} other bytes"
    message = f"a file of {len(_CONTENT):,} bytes was read as {seen}"
    return ProbeResult(Outcome.FAILED, seen, _error(found.CONTENT, message, "do not write to this store"))


def list_created(bench: Bench) -> ProbeResult:
    names = [bench.made(word) for word in _LISTED]
    listed = bench.subject.list_names(f"{bench.scratch.prefix}list-")
    missing = set(names) - set(listed)
    if not missing:
        return ProbeResult(Outcome.PASSED, f"{plural(len(names), 'file')} listed at once")
    message = f"{plural(len(missing), 'file')} of {len(names)} not listed after the write: commits could be overlooked"
    return ProbeResult(Outcome.FAILED, message, _error(found.STALE_LISTING, message, "do not use this store"))


def list_in_order(bench: Bench) -> ProbeResult:
    listed = bench.subject.list_names(f"{bench.scratch.prefix}list-")
    if listed == sorted(set(listed), key=lambda name: name.encode("utf-8", "surrogateescape")):
        return ProbeResult(Outcome.PASSED, "in the order of their bytes, each once")
    shown = ", ".join(name.removeprefix(bench.scratch.prefix) for name in listed)
    message = "names are not listed in the order of their bytes, each once, as in directory buckets of S3"
    return ProbeResult(Outcome.FAILED, shown, _error(found.DISORDER, message, "use a general purpose bucket"))


def list_from_a_name(bench: Bench) -> ProbeResult:
    start = f"{bench.scratch.prefix}list-2"
    listed = set(bench.subject.list_names(f"{bench.scratch.prefix}list-", start))
    wanted = {f"{bench.scratch.prefix}{word}" for word in _LISTED if f"{bench.scratch.prefix}{word}" >= start}
    if wanted <= listed:
        return ProbeResult(Outcome.PASSED, f"{plural(len(wanted), 'name')} from the third one on")
    message = f"a listing from a name onward lacks {plural(len(wanted - listed), 'name')}: commits could be overlooked"
    return ProbeResult(Outcome.FAILED, message, _error(found.SHORT_LISTING, message, "do not use this store"))


def read_range(bench: Bench) -> ProbeResult:
    name = bench.made("range", _CONTENT)
    said = bench.subject.read(name, 100, 199)
    if said.reply is not Reply.DONE:
        return _unexpected(said, found.RANGES_WRONG, "a range of a file cannot be read")
    if said.data == _CONTENT[100:200] and said.offset == 100:
        return ProbeResult(Outcome.PASSED, "100 bytes of 1,024")
    if said.data == _CONTENT and said.offset == 0:
        message = "the store ignores ranges: each read of a part of a file transfers the whole file"
        next_step = "expect slow reads, or check the proxy in front of the store"
        finding = StoreFinding(found.RANGES_IGNORED, Severity.WARNING, message, next_step)
        return ProbeResult(Outcome.FAILED, "the whole file", finding)
    message = f"bytes 100-199 were answered with {plural(len(said.data), 'byte')} of another place"
    return ProbeResult(Outcome.FAILED, message, _error(found.RANGES_WRONG, message, "check the proxy before the store"))


def replace_unchanged(bench: Bench) -> ProbeResult:
    name = bench.made("replace", _CONTENT)
    said = bench.subject.replace(name, _OTHER, bench.subject.read_tag(name) or "none")
    if said.reply is Reply.DONE and bench.subject.read(name).data == _OTHER:
        return ProbeResult(Outcome.PASSED, "replaced")
    return _replacement(said, "a file cannot be replaced on the condition that it is unchanged")


def replace_changed(bench: Bench) -> ProbeResult:
    name = bench.made("replace", _CONTENT)
    old = bench.subject.read_tag(name) or "none"
    bench.subject.replace(name, _OTHER, None)
    said = bench.subject.replace(name, _CONTENT, old)
    if said.reply is Reply.REFUSED:
        return ProbeResult(Outcome.PASSED, "refused")
    return _replacement(said, "the store ignores the condition of a replacement")


def read_changed(bench: Bench) -> ProbeResult:
    name = bench.made("reread", _CONTENT)
    old = bench.subject.read_tag(name) or "none"
    bench.subject.replace(name, _OTHER, None)
    said = bench.subject.read(name, 0, 9, old)
    if said.reply is Reply.REFUSED:
        return ProbeResult(Outcome.PASSED, "refused")
    if said.reply is Reply.UNSUPPORTED:
        return ProbeResult(Outcome.SKIPPED, said.text)
    if said.reply is not Reply.DONE:
        return ProbeResult(Outcome.INCONCLUSIVE, said.text or said.reply)
    message = "the store ignores the condition of a read, so a file that is replaced meanwhile is read as a mixture"
    finding = StoreFinding(found.STALE_READ, Severity.WARNING, message, "do not rewrite files in place")
    return ProbeResult(Outcome.FAILED, "read", finding)


def compare_clocks(bench: Bench) -> ProbeResult:
    before_ms = bench.clock()
    name = bench.made("clock")
    after_ms = bench.clock()
    modified_ms = bench.subject.read_modified_ms(name)
    # Times of many stores are cut to whole seconds.
    ahead = modified_ms - after_ms if modified_ms > after_ms else min(0, modified_ms + 999 - before_ms)
    bench.clock_skew_ms = ahead
    seen = f"{abs(ahead) / 1000:.1f} s {'ahead' if ahead > 0 else 'behind'}" if ahead else "no difference"
    if abs(ahead) <= CLOCK_SKEW_MS:
        return ProbeResult(Outcome.PASSED, seen)
    message = f"the clock of the store and the clock of this machine differ: the store is {seen}"
    next_step = "set the clock of this machine (timedatectl); vacuum and log expire judge ages by both clocks"
    return ProbeResult(Outcome.FAILED, seen, _error(found.CLOCK, message, next_step))


def delete_together(bench: Bench) -> ProbeResult:
    names = [bench.made(f"delete-{number}") for number in range(3)]
    outcomes = bench.subject.delete(names)
    failed = [outcome for _, outcome in outcomes if isinstance(outcome, Failed)]
    if failed:
        message = f"{plural(len(failed), 'file')} of {len(names)} cannot be deleted: {failed[0].reason}"
        if any(outcome.denied for outcome in failed):
            finding = _error(found.PERMISSION, message, "grant the permission to delete")
        else:
            finding = _error(
                found.DELETE_FAILED, message, "do not run vacuum or log expire on this store until it works"
            )
        return ProbeResult(Outcome.FAILED, failed[0].reason, finding)
    left = set(bench.subject.list_names(f"{bench.scratch.prefix}delete-"))
    readable = [name for name in names if bench.subject.read(name).reply is Reply.DONE]
    if not left and not readable:
        gone = f"{plural(len(names), 'file')} gone at once"
        if not bench.subject.has_refused_bulk_deletion(names[0]):
            return ProbeResult(Outcome.PASSED, gone)
        message = (
            "the store refuses to delete several files with one request, so each is deleted by a request of its own"
        )
        finding = StoreFinding(found.DELETE_ALONE, Severity.INFO, message, "expect slow deletions")
        return ProbeResult(Outcome.PASSED, f"{gone}, by a request each", finding)
    message = "files that were reported as deleted are still listed or can be read"
    return ProbeResult(Outcome.FAILED, message, _error(found.DELETE, message, "do not run vacuum on this store"))


class Probe(NamedTuple):
    """A probe: what it does, and what the contract of stores expects."""

    name: str
    what: str
    expected: str
    run: Callable[[Bench], ProbeResult]


PROBES = (
    Probe("create", "create a file on the condition that it is absent", "created", create_absent),
    Probe("read-back", "read the created file", "its content", read_back),
    Probe("create-existing", "create the same file again", "refused", create_existing),
    Probe("create-race", f"create one file by {_WRITERS} writers at once", "1 writer succeeds", create_at_once),
    Probe("list-created", "list files after they were written", "all of them", list_created),
    Probe("list-order", "list names in several pages", "in the order of their bytes", list_in_order),
    Probe("list-from", "list from a name onward", "all names from there on", list_from_a_name),
    Probe("range", "read bytes 100-199 of a file", "100 bytes", read_range),
    Probe("replace", "replace a file on the condition that it is unchanged", "replaced", replace_unchanged),
    Probe("replace-changed", "replace a file that has changed, on that condition", "refused", replace_changed),
    Probe("read-changed", "read a file that has changed, on that condition", "refused", read_changed),
    Probe("clock", "compare the time of a new file with the clock", "at most 5 min apart", compare_clocks),
    Probe("delete", "delete files together, then list and read them", "gone", delete_together),
)


def _replacement(said: ProbeAnswer, message: str) -> ProbeResult:
    if said.reply is Reply.UNSUPPORTED:
        return ProbeResult(Outcome.SKIPPED, said.text)
    if said.reply in (Reply.UNKNOWN, Reply.FAILED):
        return ProbeResult(Outcome.INCONCLUSIVE, said.text or said.reply)
    finding = StoreFinding(found.REPLACE, Severity.INFO, message, "no action: deltacli does not need it")
    return ProbeResult(Outcome.FAILED, said.text or said.reply, finding)


def _unexpected(said: ProbeAnswer, code: str, message: str) -> ProbeResult:
    """Return the result of a request that was not answered as it must be."""
    seen = said.text or said.reply
    match said.reply:
        case Reply.UNKNOWN:
            return ProbeResult(Outcome.INCONCLUSIVE, seen)
        case Reply.DENIED:
            finding = _error(found.PERMISSION, f"access is denied: {seen}", command("doctor access"))
            return ProbeResult(Outcome.FAILED, "denied", finding)
    return ProbeResult(Outcome.FAILED, seen, _error(code, message, _WRITES_DIRECTLY))


def _error(code: str, message: str, next_step: str) -> StoreFinding:
    return StoreFinding(code, Severity.ERROR, message, next_step)


# -- `doctor access` ---------------------------------------------------------------------------------------------------

LOG = "_delta_log"
_PLACES = (LOG, "schema", "")
"""Directories of which one has files that can be read: the logs of both formats, or the table itself."""
_DEPTH = 3
READING, WRITING = ("list", "read"), ("create", "replace", "delete")
_READ_ONLY = "deltacli writes to local directories, S3, Google Cloud Storage and Azure only"


class Command(NamedTuple):
    """Commands, and the permissions that they need."""

    names: str
    needs: tuple[str, ...]


_READERS = (
    "history, snapshot, read, changes, diff, validate, reach, explain, schema, log cat, streams, doctor table, "
    "catalog status, catalog staged"
)


def commands() -> tuple[Command, ...]:
    """Return all commands by what they need."""
    trials = parameter("vacuum.dry_run", True)
    return (
        Command(f"{_READERS} and every {trials}", READING),
        Command(
            "properties, features, widen-type, alter, optimize, stats, restore, clone, convert, log crc, log compact, "
            "catalog publish",
            (*READING, "create"),
        ),
        Command("checkpoint, log restore, undelete", (*READING, "create", "replace")),
        Command("log expire", (*READING, "delete")),
        Command("vacuum, repair, manifest, doctor storage", (*READING, *WRITING)),
    )


@dataclass
class AccessReport:
    """What is known about the access of this process to a table."""

    table: str
    store: str
    endpoint: str = ""
    identity: Identity | None = None
    permits: dict[str, Permission] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    findings: list[StoreFinding] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        return fails(self.findings)

    def missing(self, command: Command) -> list[str]:
        return [name for name in command.needs if self.permits[name].state is PermissionState.NO]

    def state_of(self, command: Command) -> PermissionState:
        states = {self.permits[name].state for name in command.needs}
        return next(
            (state for state in (PermissionState.NO, PermissionState.UNKNOWN) if state in states), PermissionState.YES
        )

    def as_json(self) -> dict[str, Json]:
        return {
            "store": self.store,
            **({"endpoint": self.endpoint} if self.endpoint else {}),
            "identity": None if self.identity is None else _identity(self.identity),
            "permissions": [
                {"permission": name, "state": permit.state, "reason": permit.reason}
                | ({"storeName": self.named[name]} if name in self.named else {})
                for name, permit in self.permits.items()
            ],
            "findings": [finding.as_json() for finding in self.findings],
        }

    @property
    def known_commands(self) -> tuple[Command, ...]:
        """The commands, by what they need."""
        return commands()

    def commands(self) -> list[dict[str, Json]]:
        """Return the commands as JSON objects."""
        return [
            {"commands": one.names, "state": self.state_of(one), "needs": list(one.needs), "missing": self.missing(one)}
            for one in commands()
        ]


def _identity(identity: Identity) -> dict[str, Json]:
    return {
        "name": identity.name,
        "source": identity.source,
        "details": identity.details,
        **({"chain": identity.chain} if identity.chain else {}),
    }


def check_access(storage: ReadStorage, subject: ProbedStore | None, *, writes: bool) -> AccessReport:
    """Return who sends the requests and what they may do. `writes`: find out about writing by scratch files.

    Raises NotATable where nothing is there, and StorageFailed where the store cannot be reached.
    """
    report = AccessReport(storage.uri, subject.kind if subject else storage.uri.partition("://")[0])
    if subject is None:
        report.permits = _read_permits(storage) | dict.fromkeys(WRITING, Permission(PermissionState.NO, _READ_ONLY))
        report.findings = _findings(report)
        return report
    report.endpoint, report.named = subject.endpoint, subject.permission_names
    try:
        report.identity = subject.identity()
    except CredentialsMissing as fault:
        return without_credentials(report, fault)
    report.permits = _read_permits(storage) | subject.permissions()
    if writes:
        report.permits |= _write_permits(subject, report)
    report.findings += _findings(report)
    return report


def without_credentials(report: AccessReport, fault: CredentialsMissing) -> AccessReport:
    """Return the report of a process that has no credentials: the sources that were tried."""
    report.identity = Identity(None, "none", {}, dict(fault.facts))
    reason = Permission(PermissionState.NO, "no credentials")
    report.permits = dict.fromkeys((*READING, *WRITING), reason)
    finding = StoreFinding(found.CREDENTIALS, Severity.ERROR, fault.message, fault.hint or "set credentials")
    report.findings.append(finding)
    return report


def _read_permits(storage: ReadStorage) -> dict[str, Permission]:
    """List and read files of the table, without changing anything. Raises NotATable."""
    for place in _PLACES:
        shown = place or "the table directory"
        try:
            first = next(iter(storage.list_from(place)), None)
            if first is None:
                continue
        except FileMissing:
            continue
        except PermissionRefused as fault:
            return {"list": Permission(PermissionState.NO, _said(fault)), "read": _read_unlisted(storage)}
        path = f"{place}/{first.name}" if place else first.name
        return {"list": Permission(PermissionState.YES, f"{shown} was listed"), "read": _read(storage, path)}
    with suppress(FileMissing):
        if storage.list_directories(""):
            return {
                "list": Permission(PermissionState.YES, "the table directory was listed"),
                "read": Permission(PermissionState.UNKNOWN, "no file to read was found"),
            }
    raise build_missing_log_error(storage)


def _read(storage: ReadStorage, path: str) -> Permission:
    """Read one byte of a file of the log, and of a data file where one is found."""
    paths = [path, *([data] if (data := _data_file(storage, "", _DEPTH)) else [])]
    for each in paths:
        try:
            storage.read_range(each, 0, 1)
        except PermissionRefused as fault:
            return Permission(PermissionState.NO, f"{each}: {_said(fault)}")
        except FileMissing:
            continue
    return Permission(PermissionState.YES, f"{' and '.join(paths)} {'were' if len(paths) > 1 else 'was'} read")


def _read_unlisted(storage: ReadStorage) -> Permission:
    """Read names that most tables have, where nothing can be listed."""
    for path in (f"{LOG}/_last_checkpoint", f"{LOG}/{0:020}.json"):
        try:
            storage.read_range(path, 0, 1)
        except (FileMissing, PermissionRefused):
            continue
        return Permission(PermissionState.YES, f"{path} was read")
    return Permission(PermissionState.UNKNOWN, "no file to read is known, because nothing can be listed")


def _data_file(storage: ReadStorage, directory: str, depth: int) -> str | None:
    """Return a Parquet file of the table in one of its first directories."""
    try:
        names = (file.name for file in storage.list_from(directory))
        name = next((name for name in names if name.endswith(".parquet") and name[0] not in "._"), None)
        if name is not None:
            return f"{directory}/{name}" if directory else name
        below = [name for name in storage.list_directories(directory) if name[0] not in "._"]
    except StorageFailed:
        return None
    return (
        _data_file(storage, f"{directory}/{below[0]}" if directory else below[0], depth - 1)
        if below and depth
        else None
    )


def _write_permits(subject: ProbedStore, report: AccessReport) -> dict[str, Permission]:
    scratch = Scratch()
    name = scratch.name("access")
    try:
        permits = {
            "create": _by_reply(subject.create(name, b"1"), "a scratch file was created"),
            "replace": _by_reply(subject.replace(name, b"2", None), "a scratch file was replaced"),
        }
        if PermissionState.YES in {permit.state for permit in permits.values()}:
            outcome = subject.delete([name])[0][1]
            if isinstance(outcome, Failed):
                permits["delete"] = Permission(
                    PermissionState.NO if outcome.denied else PermissionState.UNKNOWN, outcome.reason
                )
            else:
                permits["delete"] = Permission(PermissionState.YES, "a scratch file was deleted")
        else:
            permits["delete"] = Permission(PermissionState.UNKNOWN, "nothing could be written to delete it")
        return permits
    finally:
        report.left = scratch.clear(subject)
        if report.left:
            message = f"a scratch file may be left: {report.left[0]}"
            report.findings.append(StoreFinding(found.LEFT, Severity.WARNING, message, "delete it"))


def _by_reply(said: ProbeAnswer, done: str) -> Permission:
    match said.reply:
        case Reply.DONE:
            return Permission(PermissionState.YES, done)
        case Reply.DENIED:
            return Permission(PermissionState.NO, said.text)
    return Permission(PermissionState.UNKNOWN, said.text or said.reply)


def _findings(report: AccessReport) -> list[StoreFinding]:
    """Return a finding for each missing permission, with the commands that need it."""
    made = []
    for name, permit in report.permits.items():
        if permit.state is PermissionState.NO:
            names = "; ".join(one.names for one in commands() if name in one.needs)
            message = f"no permission to {name}: {permit.reason}"
            grant = report.named.get(name)
            next_step = f"grant {grant} (needed by {names})" if grant else f"needed by {names}"
            severity = Severity.ERROR if name in READING else Severity.WARNING
            made.append(StoreFinding(found.PERMISSION, severity, message, next_step))
    return made


def _said(fault: PermissionRefused) -> str:
    return fault.facts.get("store says", fault.message)
