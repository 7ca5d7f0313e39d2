"""Credentials for the directories of tables, and which tables may be given so at the moment.

A credential covers exactly one directory, the root of a table or of its auxiliary locations, or one below them, and
allows reading and listing. What cannot be cut to that is refused. Each answer is for a recipient whose token and grants
were looked at just before, also where the credential is kept from an earlier request.

Spec: Generate Temporary Table Credential; List Tables in a Schema (accessModes, location, auxiliaryLocations).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from deltacli.core.errors import DeltacliError
from deltacli.core.typing import Json
from deltacli.delta.log.segment import LogFile
from deltacli.sharing.configuration.directory_access import roots_of, uri_of
from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.model import URL_ONLY, AccessMode, SharedTable
from deltacli.sharing.protocol.parameters import ErrorCode, WireError, invalid_parameter, unsupported
from deltacli.sharing.server.connections import Metrics, too_many
from deltacli.sharing.server.exchange import NAME, Access, Caller
from deltacli.sharing.tables.directory_refusals import nested_while_served, refusal_now
from deltacli.sharing.tables.snapshots import SharedSnapshots, SingleFlight, place_of
from deltacli.storage.signing.delegation import MIN_SESSION_SECONDS, CannotMint, MintedCredential
from deltacli.storage.signing.values import AzureSource
from deltacli.storage.vended_locations import Location, parse_location

_LOG = logging.getLogger(NAME)

LIST_STALE_MS = 60_000
"""How old what lists say of a table may be. Credentials are only given after another look at its newest version."""
_MOST_KEPT = 10_000
_CLOUDS = {"s3": "aws", "abfss": "azure", "gs": "gcp"}
_AT_ONCE = 8
_RETRY_SECONDS = 5
_NESTED = "its directory is not that of one table alone"


class Vended(NamedTuple):
    """An answer with a credential, and what the audit log says about it."""

    document: Mapping[str, Json]
    about: Mapping[str, Json]


class _Verdict(NamedTuple):
    """Why a version of a table must not be given by directory, None if it may; `at_ms`: when it was looked at."""

    newest: tuple[int, LogFile | None]
    reason: str | None
    at_ms: int


class _Nesting(NamedTuple):
    """Why the directory of a table shows another table, None if it does not; until when that holds."""

    reason: str | None
    until_ms: int


class NotGiven(WireError):
    """The answer for a table that must not be given by its directory. `reason` is for the audit log."""

    def __init__(self, table: SharedTable, reason: str, shown: str = "") -> None:
        message = f"the table {table.full_name} is not given by its directory: {shown or reason}"
        super().__init__(400, ErrorCode.UNSUPPORTED, message)
        self.reason = reason


class _Kept(NamedTuple):
    minted: MintedCredential
    until_ms: int


@dataclass
class Vault:
    """What outlives a change of the settings: credentials for half of their life, what was found out about tables, and
    how many credentials each recipient may still get. In memory only.
    """

    kept: OrderedDict[Hashable, _Kept] = field(default_factory=OrderedDict, repr=False)
    verdicts: dict[Hashable, _Verdict] = field(default_factory=dict)
    nestings: dict[Hashable, _Nesting] = field(default_factory=dict)
    allowances: dict[str, tuple[float, int]] = field(default_factory=dict)
    sources: dict[Hashable, AzureSource] = field(default_factory=dict, repr=False)
    flights: SingleFlight = field(default_factory=SingleFlight)
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class DirectoryAnswers:
    """Says how tables may be read, and gives credentials. `clock` is in epoch milliseconds."""

    snapshots: SharedSnapshots
    clock: Callable[[], int]
    settings: Settings
    metrics: Metrics
    vault: Vault

    def members_of(self, tables: Sequence[SharedTable]) -> list[Mapping[str, Json] | None]:
        """Return how each of some tables may be read, as lists say it; None for one that is shared by its directory
        only and must not be given so. A table that cannot be read is offered by URLs, where these are configured.
        """
        offered = [table for table in tables if AccessMode.DIR in table.access_modes]
        if len(offered) > 1:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self._listed, offered))
        return [self._item(table) if table in offered else _plain(table) for table in tables]

    def _item(self, table: SharedTable) -> Mapping[str, Json] | None:
        reason = self._listed(table)
        return None if reason is not None and not _has_urls(table) else self._members(table, reason)

    def members(self, table: SharedTable) -> Mapping[str, Json]:
        """Return how a table may be read, for its metadata. Raises WireError for one that may not be read in any way,
        and what reading the table raises.
        """
        if AccessMode.DIR not in table.access_modes:
            return _plain(table)
        reason = self._described(table)
        if reason is not None and not _has_urls(table):
            raise NotGiven(table, reason)
        return self._members(table, reason)

    def refusal(self, table: SharedTable) -> str | None:
        """Return why the newest version of a table must not be given by directory. Raises what reading it raises, and
        CannotMint where the cloud does not answer.
        """
        newest, key = self.snapshots.newest_commit(table), (place_of(table), table.auxiliary_locations)
        known = self.vault.verdicts.get(key)
        if known is None or known.newest != newest:
            work = ("verdict", key, newest)
            reason = self.vault.flights.run(work, lambda: refusal_now(self.snapshots, table, newest[0]))
            known = self.vault.verdicts[key] = _Verdict(newest, reason, self.clock())
        return known.reason or self._nested_as_known(table)

    def _nested_as_known(self, table: SharedTable) -> str | None:
        known = self.vault.nestings.get(place_of(table))
        return _NESTED if known is not None and known.reason else None

    def _require_apart(self, table: SharedTable) -> None:
        """Raise NotGiven where the directory of a table shows another table, and what listing it raises. What was found
        holds as long as a credential.
        """
        place = place_of(table)
        known = self.vault.nestings.get(place)
        if known is None or known.until_ms <= self.clock():
            storage, begun_ms = self.snapshots.handle(table).storage, self.clock()
            reason = self.vault.flights.run(("nested", place), lambda: nested_while_served(table, storage))
            until_ms = begun_ms + self.settings.credential_lifetime_seconds * 1_000
            known = self.vault.nestings[place] = _Nesting(reason, until_ms)
        if known.reason:
            raise NotGiven(table, known.reason, _NESTED)

    def _described(self, table: SharedTable) -> str | None:
        """Return why a table is not offered by directory at the moment. Where that is unknown, one without URLs is
        offered, and requests for its credentials are answered by what is wrong.
        """
        try:
            return self.refusal(table)
        except CannotMint as fault:
            return str(fault) if _has_urls(table) else None

    def _listed(self, table: SharedTable) -> str | None:
        known = self.vault.verdicts.get((place_of(table), table.auxiliary_locations))
        if known is not None and 0 <= self.clock() - known.at_ms < LIST_STALE_MS:
            return known.reason or self._nested_as_known(table)
        try:
            return self._described(table)
        except DeltacliError as fault:
            _LOG.warning("%s: %s: %s", table.full_name, fault.code, fault.message)
            return str(fault.code) if _has_urls(table) else None

    @staticmethod
    def _members(table: SharedTable, reason: str | None) -> Mapping[str, Json]:
        if reason is not None:
            return {"accessModes": [mode for mode in table.access_modes if mode is not AccessMode.DIR]}
        root, *others = roots_of(table)
        found: dict[str, Json] = {"location": uri_of(root), "accessModes": list(map(str, table.access_modes))}
        return found | ({"auxiliaryLocations": [uri_of(other) for other in others]} if others else {})

    def credentials(self, access: Access, table: SharedTable, location: str | None) -> Vended:
        """Return a credential for a location of a table, else its root. Raises WireError, and as reading does."""
        name = table.full_name
        if AccessMode.DIR not in table.access_modes:
            raise unsupported(f"the table {name} is not shared by its directory; query it instead")
        try:
            reason = self.refusal(table)
            if reason is not None and reason != _NESTED:  # which is looked at again, and named
                raise NotGiven(table, reason)
            directory = _asked(table, location)
            self._require_apart(table)
            minted = self._minted(access.caller, table, directory, self._seconds(access.caller))
        except CannotMint as fault:
            self.metrics.credentials.labels(_CLOUDS[roots_of(table)[0].family], "failed").inc()
            _LOG.error("no credential for %s: %s", name, fault)
            raise _not_minted(name, is_transient=fault.is_transient) from None
        about: dict[str, Json] = {"cloud": _CLOUDS[directory.family], "credentialExpiresMs": minted.expires_ms}
        about |= {"credentialKey": minted.key_end} if minted.key_end else {}
        given = {"location": uri_of(directory), minted.member: dict(minted.fields), "expirationTime": minted.expires_ms}
        return Vended({"credentials": given}, about)

    def _seconds(self, caller: Caller) -> int:
        """Return for how long a credential is asked for: never longer than the token of the recipient is valid."""
        lifetime = self.settings.credential_lifetime_seconds
        if caller.expires_ms is None:
            return lifetime
        return min(lifetime, (caller.expires_ms - self.clock()) // 1_000)

    def _minted(self, caller: Caller, table: SharedTable, directory: Location, seconds: int) -> MintedCredential:
        """Return a credential that is kept, or another one, of which one is made at a time."""
        owner = (caller.name, caller.epoch, caller.token_epoch, caller.expires_ms)
        key = (owner, table.full_name, table.table_id, place_of(table), table.delegation, uri_of(directory))
        return self._kept(key, directory) or self.vault.flights.run(
            key, lambda: self._kept(key, directory) or self._keep(key, caller, table, directory, seconds)
        )

    def _kept(self, key: Hashable, directory: Location) -> MintedCredential | None:
        with self.vault.lock:
            known = self.vault.kept.get(key)
            if known is None or known.until_ms <= self.clock():
                self.vault.kept.pop(key, None)
                return None
        self.metrics.credentials.labels(_CLOUDS[directory.family], "kept").inc()
        return known.minted

    def _keep(
        self, key: Hashable, caller: Caller, table: SharedTable, directory: Location, seconds: int
    ) -> MintedCredential:
        self._require_allowance(caller)
        begun_ms = self.clock()
        minted = self._mint(caller, table, directory, seconds)
        if caller.expires_ms is not None and minted.expires_ms > caller.expires_ms:
            raise _ends_too_soon(table)
        self.metrics.credentials.labels(_CLOUDS[directory.family], "made").inc()
        with self.vault.lock:
            self.vault.kept[key] = _Kept(minted, begun_ms + (minted.expires_ms - begun_ms) // 2)
            while len(self.vault.kept) > _MOST_KEPT:
                self.vault.kept.popitem(last=False)
        return minted

    def _mint(self, caller: Caller, table: SharedTable, directory: Location, seconds: int) -> MintedCredential:
        def seconds_of() -> float:
            return self.clock() / 1_000

        place = directory.authority, "/".join(directory.segments)
        match directory.family:
            case "s3":
                from deltacli.storage.signing.s3_sessions import mint_session

                if seconds < MIN_SESSION_SECONDS:
                    raise _ends_too_soon(table)
                return mint_session(
                    place, table.storage_options, table.delegation, recipient=caller.name, seconds=seconds
                )
            case "gs":
                from deltacli.storage.signing.gcs_tokens import mint_token

                return mint_token(place, table.storage_options, table.delegation, seconds_of)
        from deltacli.storage.signing.azure_sas import make_delegated_source, mint_directory_sas

        source = self.vault.sources.get(place_of(table))
        if source is None:
            source = make_delegated_source(table.location, table.storage_options, seconds_of)
            self.vault.sources[place_of(table)] = source
        now_ms = self.clock()
        return mint_directory_sas(source, place, expires_ms=now_ms + seconds * 1_000, now_ms=now_ms)

    def _require_allowance(self, caller: Caller) -> None:
        """Count a credential that is made. Raises WireError (429)."""
        most, now_ms = self.settings.limits.credentials_per_minute, self.clock()
        with self.vault.lock:
            left, at_ms = self.vault.allowances.get(caller.name, (float(most), now_ms))
            left = min(most, left + max(now_ms - at_ms, 0) * most / 60_000)
            if left < 1:
                raise too_many("too many credentials", int((1 - left) * 60 / most) + 1)
            self.vault.allowances[caller.name] = left - 1, now_ms


def _plain(table: SharedTable) -> Mapping[str, Json]:
    return {} if table.access_modes == URL_ONLY else {"accessModes": list(map(str, table.access_modes))}


def _has_urls(table: SharedTable) -> bool:
    return AccessMode.URL in table.access_modes


def _asked(table: SharedTable, location: str | None) -> Location:
    """Return the directory that is asked for. Raises WireError, which does not quote it."""
    roots = roots_of(table)
    if location is None:
        return roots[0]
    announced = next((root for root in roots if uri_of(root) == location), None)
    if announced is not None:
        return announced
    try:
        directory = parse_location(location)
    except ValueError:
        raise invalid_parameter("location is not a directory of a store") from None
    if not any(root.covers(directory) for root in roots):
        raise invalid_parameter(f"location is outside the table {table.full_name}")
    return directory


def _ends_too_soon(table: SharedTable) -> WireError:
    return unsupported(
        f"the table {table.full_name} is not given by its directory for now: your token ends before a credential would"
    )


def _not_minted(name: str, *, is_transient: bool) -> WireError:
    if not is_transient:
        return unsupported(f"the cloud gives no credential for the table {name}; its provider has to correct this")
    headers = {"Retry-After": str(_RETRY_SECONDS)}
    message = f"the cloud gives no credential for the table {name} at the moment"
    return WireError(503, ErrorCode.UNAVAILABLE, message, headers=headers)
