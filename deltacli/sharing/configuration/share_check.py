"""`share check`: opens every shared table, and says what recipients would meet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from deltacli.core.errors import DeltacliError, command, parameter
from deltacli.core.hosts import is_loopback
from deltacli.core.pools import ThreadPool
from deltacli.core.progress import SILENT, Progress
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.delta.log.state import CHANGE_FEED
from deltacli.rules.framework.repairs import get_repair_row, recover_command
from deltacli.sharing.configuration.recipients import Recipients, TokenState, spelled
from deltacli.sharing.configuration.secrets import others_may_read
from deltacli.sharing.configuration.settings import Configuration, Settings
from deltacli.sharing.model import AccessMode, Problem, SharedTable
from deltacli.sharing.protocol.parameters import ReadingNeeds
from deltacli.sharing.signing.choose import Proxy, choose_access
from deltacli.sharing.tables.snapshots import SharedSnapshot, SharedSnapshots, unavailable_files
from deltacli.storage import ReadStorage
from deltacli.storage.secrets import mask_secrets
from deltacli.storage.signing.delegation import CannotMint
from deltacli.table.find_log import list_log
from deltacli.table.handle import managed_store


class _StartRefusal(NamedTuple):
    """Why the server does not start, and what to do."""

    code: str
    message: str
    hint: str


def refusals_to_start(settings: Settings, *, is_authenticated: bool) -> tuple[_StartRefusal, ...]:
    """Return why a server with these settings must not start; empty if it may. Addresses are not resolved.

    Behind a proxy, and with an https URL that recipients use, plain HTTP is accepted on any address: the proxy has the
    certificate.
    """
    is_local = is_loopback(settings.host)
    refusals = []
    if not is_authenticated and not (is_local and _is_local_url(settings.public_url)):
        refusals.append(
            _StartRefusal(
                "share.unauthenticated",
                f"requests on {settings.host} would need no token, and other machines can connect to it",
                "set recipients in the configuration, then: "
                f"{command('share token create', 'NAME')}; or use {parameter('share serve.host', '127.0.0.1')}",
            )
        )
    if settings.tls is not None and settings.tls.self_signed:
        refusals.append(
            _StartRefusal(
                "share.self-signed",
                "ssl.selfSigned is not supported: clients cannot verify such a certificate",
                "set ssl.certificateFile and ssl.certificateKeyFile; clients must trust the certificate",
            )
        )
    is_behind_tls = settings.behind_proxy and urlsplit(settings.public_url or "").scheme == "https"
    if settings.tls is None and not is_local and not is_behind_tls:
        refusals.append(
            _StartRefusal(
                "share.plain-http",
                f"plain HTTP on {settings.host} would send tokens and data unencrypted",
                f"set ssl; or publicUrl with https, a reverse proxy, and {parameter('share serve.behind_proxy')}",
            )
        )
    return tuple(refusals)


def _is_local_url(url: str | None) -> bool:
    """Return True for no URL and for one of this machine: with another one, a proxy makes the server public."""
    return url is None or is_loopback(urlsplit(url).hostname or "")


_THREADS = 4
"""Tables that are opened at once: each has its files in memory meanwhile."""

_NOTHING_NEEDED = ReadingNeeds((), ())


@dataclass(frozen=True)
class TableReport:
    """A shared table as it was found. Without a version it could not be opened."""

    table: SharedTable
    place: str
    version: int | None = None
    needs: ReadingNeeds = _NOTHING_NEEDED
    clients: tuple[_ClientAccess, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Return True if it was opened, and nothing keeps all or some recipients from reading it."""
        return self.version is not None and not any(problem.is_error for problem in self.problems)

    @property
    def location(self) -> str:
        return mask_secrets(self.table.location)

    @property
    def formats(self) -> tuple[str, ...]:
        if self.version is None:
            return ()
        return ("delta",) if self.needs.not_in_parquet else ("parquet", "delta")

    def as_json(self) -> dict[str, Json]:
        known: dict[str, Json] = {
            "name": self.table.full_name,
            "id": self.table.table_id,
            "location": self.location,
            "place": self.place,
            "historyShared": self.table.history_shared,
            "startVersion": self.table.start_version,
        }
        if self.version is not None:
            features = list(self.needs.features)
            known |= {"version": self.version, "features": features, "formats": list(self.formats)}
        clients = [client.as_json() for client in self.clients]
        return known | {"clients": clients, "problems": [problem.as_json() for problem in self.problems]}


@dataclass(frozen=True)
class CheckReport:
    """Everything that was checked. `has_files`: the files of the newest versions were looked at."""

    configuration: Configuration
    tables: tuple[TableReport, ...]
    problems: tuple[Problem, ...] = ()
    recipients: Recipients | None = field(default=None, repr=False)
    has_files: bool = True

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Return the problems of the configuration, then those of tables."""
        return (*self.problems, *(problem for report in self.tables for problem in report.problems))

    @property
    def has_errors(self) -> bool:
        """Return True if recipients cannot read something that is shared."""
        return any(problem.is_error for problem in self.all_problems)

    def summary(self) -> dict[str, int]:
        """Return counts for documents."""
        errors = sum(problem.is_error for problem in self.all_problems)
        return {
            "shares": len(self.configuration.catalog.shares),
            "tables": len(self.tables),
            "readable": sum(report.is_readable for report in self.tables),
            "recipients": len(self.recipients.items) if self.recipients else 0,
            "errors": errors,
            "warnings": len(self.all_problems) - errors,
        }


def check_configuration(
    configuration: Configuration,
    recipients: Recipients | None,
    now_ms: int,
    *,
    has_files: bool = True,
    progress: Progress = SILENT,
) -> CheckReport:
    """Return what is wrong with a configuration, its tables and its recipients. Raises nothing."""
    tables = [table for share in configuration.catalog.shares for schema in share.schemas for table in schema.tables]
    places, snapshots = configuration.lines, SharedSnapshots(max_bytes=0)
    proxy = configuration.settings.proxy_files
    with progress.step("checking tables", unit="tables", total=len(tables)) as step:

        def check(table: SharedTable) -> TableReport:
            place = places.get(table.full_name.lower(), str(configuration.path))
            report = check_table(table, place, snapshots, proxy, has_files=has_files)
            step.advance()
            return report

        with ThreadPool(_THREADS) as pool:
            reports = tuple(pool.map(check, tables))
    problems = [*_configuration_problems(configuration), *_recipient_problems(configuration, recipients, now_ms)]
    return CheckReport(configuration, reports, tuple(problems), recipients, has_files)


def check_table(
    table: SharedTable, place: str, snapshots: SharedSnapshots, proxy: Proxy, *, has_files: bool = True
) -> TableReport:
    """Return what recipients meet at a table. Raises nothing."""
    try:
        snapshot = snapshots.at(table, snapshots.newest_version(table))
        needs, has_urls = snapshot.needs, AccessMode.URL in table.access_modes
        if has_urls:
            snapshot.require_shareable()
            choose_access(table.location, table.storage_options, proxy=proxy)
        storage = snapshots.handle(table).storage
        gates = tuple(_gate_problems(table, snapshot, storage))
        missing = tuple(_file_problems(table, snapshot, storage) if has_files and has_urls else ())
        gates += tuple(_directory_problems(table, snapshots, snapshot, storage))
        gates += tuple(_catalog_problems(table, snapshot, storage))
    except DeltacliError as fault:
        message = f"{table.full_name} cannot be read: {mask_secrets(fault.message)}"
        if get_repair_row(str(fault.code)).steps and (line := recover_command(mask_secrets(table.location))):
            message += f"; {line} shows what can be done"
        return TableReport(table, place, problems=(Problem(fault.code, message),))
    clients = tuple(_access_of(client, needs.features, needs.not_in_parquet) for client in _CLIENTS)
    problems = (*gates, *missing, *_client_problems(table, needs, clients))
    return TableReport(table, place, snapshot.version, needs, clients, problems)


def _gate_problems(table: SharedTable, snapshot: SharedSnapshot, storage: ReadStorage) -> Iterator[Problem]:
    """Yield what is wrong with `startVersion` and `historyShared`."""
    name = table.full_name
    if table.start_version > snapshot.version:
        message = f"startVersion {table.start_version} of {name} is above its newest version, {snapshot.version}"
        yield Problem("share.start-version", message)
        return
    if not table.history_shared:
        return
    readable = set(list_log(storage).reconstructable)
    missing = [version for version in range(table.start_version, snapshot.version + 1) if version not in readable]
    if missing:
        versions = f"{'version' if len(missing) == 1 else 'versions'} {format_ranges(missing)}"
        message = f"the history of {name} is shared, but its log can no longer rebuild {versions}"
        yield Problem("share.history-gone", message, is_error=False)
    if not snapshot.config.is_on(CHANGE_FEED):
        message = f"the history of {name} is shared without a change data feed, which changes and streams need"
        yield Problem("share.no-change-feed", message, is_error=False)


def _directory_problems(
    table: SharedTable, snapshots: SharedSnapshots, snapshot: SharedSnapshot, storage: ReadStorage
) -> Iterator[Problem]:
    """Yield why a table that is configured so must not be given by directory."""
    if AccessMode.DIR not in table.access_modes:
        return
    from deltacli.sharing.tables.directory_refusals import nested_refusal, refusal_now

    try:
        reason = refusal_now(snapshots, table, snapshot.version) or nested_refusal(table, storage)
    except CannotMint as fault:
        reason = str(fault)
    if reason:
        yield Problem("share.directory", f"{table.full_name} must not be given by directory: {reason}")


def _catalog_problems(table: SharedTable, snapshot: SharedSnapshot, storage: ReadStorage) -> Iterator[Problem]:
    """Yield a warning for a catalog-managed table that is shared by its path: recipients get what is published."""
    if snapshot.protocol.is_catalog_managed and managed_store(storage) is None:
        message = (
            f"a catalog manages {table.full_name}, and newer commits may exist there; "
            "the location uc://CATALOG.SCHEMA.TABLE shares these, too"
        )
        yield Problem("catalog.unpublished-possible", message, is_error=False)


def _file_problems(table: SharedTable, snapshot: SharedSnapshot, storage: ReadStorage) -> Iterator[Problem]:
    """Yield an error for files of the newest version that recipients cannot get."""
    found = unavailable_files(snapshot.files, storage)
    if found:
        reasons = ", ".join(f"{len(paths):,} {reason} (such as {paths[0]})" for reason, paths in found.items())
        count = sum(map(len, found.values()))
        message = f"{plural(count, 'file')} of {table.full_name} cannot be read by recipients: {reasons}"
        if line := recover_command(mask_secrets(table.location)):
            message += f"; {line} shows what can come back"
        yield Problem("share.files", message)


def _client_problems(table: SharedTable, needs: ReadingNeeds, clients: Iterable[_ClientAccess]) -> Iterator[Problem]:
    """Yield an error where no known client reads the table, a warning where some do not."""
    excluded = [client.name for client in clients if not client.reads]
    if not excluded:
        return
    used = ", ".join(needs.features or needs.not_in_parquet)
    if len(excluded) == len(_CLIENTS):
        yield Problem("share.no-client", f"no known client reads {table.full_name}, which uses {used}")
        return
    message = f"{table.full_name} uses {used}, which {', '.join(excluded)} cannot read"
    yield Problem("share.client", message, is_error=False)


def _configuration_problems(configuration: Configuration) -> Iterator[Problem]:
    for refusal in refusals_to_start(configuration.settings, is_authenticated=configuration.is_authenticated):
        yield Problem(refusal.code, f"the server does not start: {refusal.message}")
    for note in configuration.notes:
        yield Problem("share.note", note, is_error=False)
    tls = configuration.settings.tls
    for file in (tls.certificate_file, tls.key_file, tls.password_file) if tls else ():
        if file is not None and not file.is_file():
            yield Problem("share.certificate", f"{file} of ssl is not a file")
    if not any(share.schemas for share in configuration.catalog.shares):
        yield Problem("share.nothing-shared", f"{configuration.path} shares no table", is_error=False)


def _recipient_problems(configuration: Configuration, recipients: Recipients | None, now_ms: int) -> Iterator[Problem]:
    """Yield grants of what is not shared, recipients without a valid token, and a file that others can read."""
    file = configuration.recipients_file
    if recipients is None:
        if file is not None:
            message = (
                f"the file of recipients {file} does not exist here, so recipients were not checked; the server does "
                f"not start without it, and {command('share recipient add', 'NAME')} creates it"
            )
            yield Problem("share.recipients", message, is_error=False)
        return
    if file is not None and others_may_read(file):
        message = f"other users of this machine can read {file}, which has the hashes of tokens"
        yield Problem("share.permissions", message, is_error=False)
    named = _grantable(configuration)
    for recipient in recipients.items:
        for grant in recipient.grants:
            if spelled(grant).casefold() not in named:
                message = f"the recipient {recipient.name} has a grant of {spelled(grant)}, which is not shared"
                yield Problem("share.grant", message, is_error=False)
        states = [token.state(now_ms) for token in recipient.tokens]
        if TokenState.ACTIVE not in states:
            has = plural(len(states), "token") + ", all expired or not yet valid" if states else "no token"
            yield Problem("share.no-token", f"the recipient {recipient.name} has {has}", is_error=False)


def _grantable(configuration: Configuration) -> Mapping[str, None]:
    names: dict[str, None] = {}
    for share in configuration.catalog.shares:
        names[share.name.casefold()] = None
        for schema in share.schemas:
            names[f"{share.name}/{schema.name}".casefold()] = None
            names |= dict.fromkeys(f"{share.name}/{schema.name}/{table.name}".casefold() for table in schema.tables)
    return names


# What clients send: each fact has its source and month. Spec: Delta Sharing Capabilities Header.
_OLD = frozenset({"deletionVectors", "columnMapping"})
_NTZ = _OLD | {"timestampNtz"}


class _Client(NamedTuple):
    """A client: the formats that it reads, and the features that it reads in delta format."""

    name: str
    formats: tuple[str, ...]
    features: frozenset[str]
    source: str
    as_of: str


_CLIENTS = (
    _Client("python", ("parquet", "delta"), _NTZ, "delta-sharing 1.4.2, its requests", "2026-11"),
    _Client(
        "spark",
        ("parquet", "delta"),
        _NTZ | {"typeWidening", "variantType"},
        "delta-sharing-spark 4, its source",
        "2026-11",
    ),
    _Client("duckdb", ("delta",), _OLD, "prequel-co/duckdb-delta-sharing, its source", "2026-11"),
    _Client("node", ("parquet",), frozenset(), "nodejs-sharing-client, its source", "2026-11"),
    _Client("power-bi", ("parquet",), frozenset(), "documentation of Delta Sharing", "2026-11"),
)
"""Other clients exist. One that is not listed reads what its formats and features allow."""


class _ClientAccess(NamedTuple):
    """Whether a client reads a table: in which format, or what it lacks."""

    name: str
    format: str | None
    lacks: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        return self.format is not None

    def as_json(self) -> dict[str, Json]:
        known: dict[str, Json] = {"name": self.name, "reads": self.reads}
        return known | ({"format": self.format} if self.reads else {"lacks": sorted(self.lacks)})


def _access_of(client: _Client, features: Collection[str], not_in_parquet: Collection[str]) -> _ClientAccess:
    """Return a client's access to a table that needs `features`; parquet cannot express its parts `not_in_parquet`."""
    if "parquet" in client.formats and not not_in_parquet:
        return _ClientAccess(client.name, "parquet")
    if "delta" not in client.formats:
        return _ClientAccess(client.name, None, tuple(not_in_parquet))
    lacking = tuple(name for name in features if name not in client.features)
    return _ClientAccess(client.name, None if lacking else "delta", lacking)
