"""`doctor access`: who sends the requests, and which permission is missing for which command."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.core.errors import CredentialsMissing, FileMissing, PermissionRefused, StorageFailed
from deltacli.core.hints import parameter
from deltacli.core.typing import Json
from deltacli.operations.doctor import findings as found
from deltacli.operations.doctor.findings import Severity, StoreFinding, fails
from deltacli.operations.doctor.scratch import Scratch
from deltacli.storage import Failed, ReadStorage
from deltacli.storage.probing.subject import Granted, Identity, Permit, Reply, Said, Subject
from deltacli.table.find_log import missing_log

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


_READERS = "history, snapshot, read, changes, diff, validate, reach, explain, schema, log cat, doctor table"


def commands() -> tuple[Command, ...]:
    """Return all commands by what they need."""
    trials = parameter("vacuum.dry_run", True)
    return (
        Command(f"{_READERS} and every {trials}", READING),
        Command(
            "properties, features, widen-type, alter, optimize, restore, log crc, log compact", (*READING, "create")
        ),
        Command("checkpoint, log restore, undelete", (*READING, "create", "replace")),
        Command("log expire", (*READING, "delete")),
        Command("vacuum, repair, doctor storage", (*READING, *WRITING)),
    )


@dataclass
class AccessReport:
    """What is known about the access of this process to a table."""

    table: str
    store: str
    endpoint: str = ""
    identity: Identity | None = None
    permits: dict[str, Permit] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    findings: list[StoreFinding] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Return True where the exit code is that of findings."""
        return fails(self.findings)

    def missing(self, command: Command) -> list[str]:
        return [name for name in command.needs if self.permits[name].state is Granted.NO]

    def state_of(self, command: Command) -> Granted:
        """Return whether a command has what it needs."""
        states = {self.permits[name].state for name in command.needs}
        return next((state for state in (Granted.NO, Granted.UNKNOWN) if state in states), Granted.YES)

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

    def commands(self) -> list[dict[str, Json]]:
        """Return the commands as JSON objects."""
        return [
            {
                "commands": one.names,
                "state": self.state_of(one),
                "needs": list(one.needs),
                "missing": self.missing(one),
            }
            for one in commands()
        ]


def _identity(identity: Identity) -> dict[str, Json]:
    return {
        "name": identity.name,
        "source": identity.source,
        "details": identity.details,
        **({"chain": identity.chain} if identity.chain else {}),
    }


def check_access(storage: ReadStorage, subject: Subject | None, *, writes: bool) -> AccessReport:
    """Return who sends the requests and what they may do. `writes`: find out about writing by scratch files.

    Raises NotATable where nothing is there, and StorageFailed where the store cannot be reached.
    """
    report = AccessReport(storage.uri, subject.kind if subject else storage.uri.partition("://")[0])
    if subject is None:
        report.permits = _read_permits(storage) | dict.fromkeys(WRITING, Permit(Granted.NO, _READ_ONLY))
        report.findings = _findings(report)
        return report
    report.endpoint, report.named = subject.endpoint, subject.names_of_permissions
    try:
        report.identity = subject.identity()
    except CredentialsMissing as fault:
        return without_credentials(report, fault)
    report.permits = _read_permits(storage) | subject.permits()
    if writes:
        report.permits |= _write_permits(subject, report)
    report.findings += _findings(report)
    return report


def without_credentials(report: AccessReport, fault: CredentialsMissing) -> AccessReport:
    """Return the report of a process that has no credentials: the sources that were tried."""
    report.identity = Identity(None, "none", {}, dict(fault.facts))
    reason = Permit(Granted.NO, "no credentials")
    report.permits = dict.fromkeys((*READING, *WRITING), reason)
    finding = StoreFinding(found.CREDENTIALS, Severity.ERROR, fault.message, fault.hint or "set credentials")
    report.findings.append(finding)
    return report


def _read_permits(storage: ReadStorage) -> dict[str, Permit]:
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
            return {"list": Permit(Granted.NO, _said(fault)), "read": _read_unlisted(storage)}
        path = f"{place}/{first.name}" if place else first.name
        return {"list": Permit(Granted.YES, f"{shown} was listed"), "read": _read(storage, path)}
    with suppress(FileMissing):
        if storage.list_directories(""):
            return {
                "list": Permit(Granted.YES, "the table directory was listed"),
                "read": Permit(Granted.UNKNOWN, "no file to read was found"),
            }
    raise missing_log(storage)


def _read(storage: ReadStorage, path: str) -> Permit:
    """Read one byte of a file of the log, and of a data file where one is found."""
    paths = [path, *([data] if (data := _data_file(storage, "", _DEPTH)) else [])]
    for each in paths:
        try:
            storage.read_range(each, 0, 1)
        except PermissionRefused as fault:
            return Permit(Granted.NO, f"{each}: {_said(fault)}")
        except FileMissing:
            continue
    return Permit(Granted.YES, f"{' and '.join(paths)} {'were' if len(paths) > 1 else 'was'} read")


def _read_unlisted(storage: ReadStorage) -> Permit:
    """Read names that most tables have, where nothing can be listed."""
    for path in (f"{LOG}/_last_checkpoint", f"{LOG}/{0:020}.json"):
        try:
            storage.read_range(path, 0, 1)
        except (FileMissing, PermissionRefused):
            continue
        return Permit(Granted.YES, f"{path} was read")
    return Permit(Granted.UNKNOWN, "no file to read is known, because nothing can be listed")


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


def _write_permits(subject: Subject, report: AccessReport) -> dict[str, Permit]:
    """Create, replace and delete a scratch file."""
    scratch = Scratch()
    name = scratch.name("access")
    try:
        permits = {
            "create": _by_reply(subject.create(name, b"1"), "a scratch file was created"),
            "replace": _by_reply(subject.replace(name, b"2", None), "a scratch file was replaced"),
        }
        if Granted.YES in {permit.state for permit in permits.values()}:
            outcome = subject.delete([name])[0][1]
            if isinstance(outcome, Failed):
                permits["delete"] = Permit(Granted.NO if outcome.denied else Granted.UNKNOWN, outcome.reason)
            else:
                permits["delete"] = Permit(Granted.YES, "a scratch file was deleted")
        else:
            permits["delete"] = Permit(Granted.UNKNOWN, "nothing could be written to delete it")
        return permits
    finally:
        report.left = scratch.clear(subject)
        if report.left:
            message = f"a scratch file may be left: {report.left[0]}"
            report.findings.append(StoreFinding(found.LEFT, Severity.WARNING, message, "delete it"))


def _by_reply(said: Said, done: str) -> Permit:
    match said.reply:
        case Reply.DONE:
            return Permit(Granted.YES, done)
        case Reply.DENIED:
            return Permit(Granted.NO, said.text)
    return Permit(Granted.UNKNOWN, said.text or said.reply)


def _findings(report: AccessReport) -> list[StoreFinding]:
    """Return a finding for each missing permission, with the commands that need it."""
    made = []
    for name, permit in report.permits.items():
        if permit.state is Granted.NO:
            names = "; ".join(one.names for one in commands() if name in one.needs)
            message = f"no permission to {name}: {permit.reason}"
            grant = report.named.get(name)
            next_step = f"grant {grant} (needed by {names})" if grant else f"needed by {names}"
            severity = Severity.ERROR if name in READING else Severity.WARNING
            made.append(StoreFinding(found.PERMISSION, severity, message, next_step))
    return made


def _said(fault: PermissionRefused) -> str:
    return fault.facts.get("store says", fault.message)
