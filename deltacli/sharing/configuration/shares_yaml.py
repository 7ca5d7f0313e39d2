"""`shares.yaml`: shares, and how they are served, as the reference server has it, with keys of our own.

Spec: none; the keys are those of the server that the authors of the protocol publish.
"""

from __future__ import annotations

import glob
import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from deltacli.core.errors import FileMissing
from deltacli.core.hosts import is_loopback
from deltacli.core.pools import ThreadPool
from deltacli.sharing.configuration.directory_access import (
    Inherited,
    read_about,
    read_delegation,
    read_modes,
    static_refusal,
)
from deltacli.sharing.configuration.fields import ConfigurationFile, Fields, Node, fault_in_name
from deltacli.sharing.model import Catalog, Share, SharedSchema, SharedTable
from deltacli.sharing.signing.choose import LONGEST_SECONDS, Proxy
from deltacli.storage import Storage, open_storage
from deltacli.storage.base import PathKind
from deltacli.storage.secrets import is_secret_name, remember_secrets
from deltacli.storage.signing.values import LEAST_SECONDS


@dataclass(frozen=True)
class Limits:
    """What one connection, one request and one recipient may use. A limit of 0 is none where that is allowed."""

    body_bytes: int = 2 * 1024 * 1024
    header_bytes: int = 32 * 1024
    json_depth: int = 100
    head_seconds: int = 20
    body_seconds: int = 10
    idle_seconds: int = 75
    stream_idle_seconds: int = 60
    stream_seconds: int = 3_600
    requests_per_second: int = 50
    concurrent_requests: int = 64
    connections: int = 1_000
    connections_per_address: int = 256
    credentials_per_minute: int = 60


@dataclass(frozen=True)
class Tls:
    """The certificate that the server presents. `self_signed` is a setting of other servers, which is refused."""

    certificate_file: Path | None = None
    key_file: Path | None = None
    password_file: Path | None = None
    self_signed: bool = False

    def password(self) -> str | None:
        """Return the password of the private key, or None. Raises OSError and UnicodeDecodeError."""
        return self.password_file.read_text("utf-8").strip() if self.password_file else None


@dataclass(frozen=True)
class Audit:
    """Where requests are recorded: the file, the size at which it is rotated, and how many old files are kept."""

    file: Path
    rotate_bytes: int = 64 * 1024 * 1024
    keep: int = 10


@dataclass(frozen=True)
class AsyncQueries:
    """Which queries are answered later, and where they are kept meanwhile. Without a directory, none is."""

    directory: Path | None = None
    after_ms: int = 10_000
    pending_per_recipient: int = 100


@dataclass(frozen=True)
class Settings:
    """Everything about the server that is not a share or a recipient. Times are seconds."""

    host: str = "localhost"
    port: int = 80
    endpoint: str = "/delta-sharing"
    public_url: str | None = None
    behind_proxy: bool = False
    admin_host: str = "127.0.0.1"
    admin_port: int | None = None
    tls: Tls | None = None
    allowed_hosts: tuple[str, ...] = ()
    """If not empty, requests with another Host header are refused."""

    url_lifetime_seconds: int = 3_600
    page_size: int = 10_000
    page_token_lifetime_seconds: int = 3 * 86_400
    refresh_token_lifetime_seconds: int = 3_600
    evaluate_sql_hints: bool = True
    evaluate_json_hints: bool = True
    proxy_files: Proxy = Proxy.WHEN_NEEDED
    """Whether file URLs lead to this server, which reads the store itself."""

    cache_bytes: int = 512 * 1024 * 1024
    limits: Limits = field(default_factory=Limits)
    audit: Audit | None = None
    key_file: Path | None = None
    """The key that page tokens and file URLs are signed with; None: one that lives as long as the server."""
    wildcard_refresh_seconds: int = 300
    credential_lifetime_seconds: int = 3_600
    """For how long credentials for directories are asked for."""
    async_queries: AsyncQueries = field(default_factory=AsyncQueries)

    @property
    def base_url(self) -> str:
        """Return the URL of the endpoint for profiles, without a trailing slash."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.endpoint}"


@dataclass(frozen=True)
class Configuration:
    """A checked `shares.yaml` with its includes. `notes` are remarks for the operator, one sentence each."""

    path: Path
    catalog: Catalog
    settings: Settings
    bearer_token: str | None = field(default=None, repr=False)
    recipients_file: Path | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """Every file that was read for it: a change of any of them is a change of the configuration."""
    has_wildcards: bool = False
    lines: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Full name of a table in lower case -> `file:line` of its entry."""

    @property
    def is_authenticated(self) -> bool:
        return self.bearer_token is not None or self.recipients_file is not None


# -- the shares of `shares.yaml` and its includes ----------------------------------------------------------------------

OpenStore = Callable[[str, Mapping[str, str]], "Storage"]

MOST_TABLES = 200_000
_NAMESPACE = uuid.UUID("6d5b7a0e-6a0b-4d0c-9a53-0c7b7d9f3c11")


class ShareKey(NamedTuple):
    """A key of a mapping of the file. `of`: the keys of the mapping, or of each mapping of the list, that it has.
    `limits`: the least and the greatest number.
    """

    kind: Literal["text", "texts", "modes", "flag", "number", "mapping", "list", "options", "proxy"]
    meaning: str
    of: Mapping[str, ShareKey] = MappingProxyType({})
    is_required: bool = False
    limits: tuple[int, int] | None = None


Keys = Mapping[str, ShareKey]
_OPTIONS = ShareKey("options", "Options of the store for everything below. Secrets are ${NAME} or file:PATH.")
_DIRECTORY_ACCESS: Keys = {
    "roleArn": ShareKey("text", "AWS: the role that sessions for a directory are made with."),
    "externalId": ShareKey("text", "AWS: the external id that the role asks for."),
    "stsEndpoint": ShareKey("text", "AWS, Google: URL of the token service, where it is not the usual one."),
    "kmsDecrypt": ShareKey("flag", "AWS: the bucket is encrypted with a key of KMS. Default: false."),
}
_ACCESS: Keys = {
    "accessModes": ShareKey("modes", "url: by URLs of files; dir: by credentials for the directory. Default: [url]."),
    "directoryAccess": ShareKey("mapping", "With what credentials for directories are made.", _DIRECTORY_ACCESS),
}
_TABLE: Keys = {
    "name": ShareKey("text", "Name of the table. Where location has a wildcard, it contains ${dir}."),
    "location": ShareKey("text", "Path or URI of the table; * in one directory shares every match.", is_required=True),
    "id": ShareKey("text", "Id of the table. Default: one made from its name."),
    "historyShared": ShareKey("flag", "Share older versions and changes, too. Default: false."),
    "cdfEnabled": ShareKey("flag", "The former name of historyShared."),
    "startVersion": ShareKey("number", "The oldest version that is shared. Default: 0."),
    "storageOptions": _OPTIONS,
    **_ACCESS,
    "auxiliaryLocations": ShareKey("texts", "Where files are that the log names outside the table; for dir only."),
}
_SCHEMA: Keys = {
    "name": ShareKey("text", "Name of the schema.", is_required=True),
    "tables": ShareKey("list", "Tables of the schema.", _TABLE),
    "storageOptions": _OPTIONS,
    **_ACCESS,
}
_SHARE: Keys = {
    "name": ShareKey("text", "Name of the share.", is_required=True),
    "id": ShareKey("text", "Id of the share."),
    "schemas": ShareKey("list", "Schemas of the share.", _SCHEMA),
    "storageOptions": _OPTIONS,
    **_ACCESS,
    "displayName": ShareKey("text", "Name of the share for people; recipients use its name. At most 255 characters."),
    "comment": ShareKey("text", "What the share is, for people. At most 65,536 characters."),
    "properties": ShareKey("options", "Texts by name, for recipients. At most 50."),
}


@dataclass
class CatalogReader:
    """Collects shares from several files. `lines` has the place of each table, by its full name in lower case."""

    open_store: OpenStore | None
    has_wildcards: bool = False
    lines: dict[str, str] = field(default_factory=dict)
    _shares: dict[str, Share] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)
    _ids: set[tuple[str, str]] = field(default_factory=set)

    def catalog(self) -> Catalog:
        """Return everything that was added."""
        return Catalog(tuple(self._shares.values()))

    def add_shares(self, top: Fields, inherited: Inherited) -> None:
        """Add the shares of a file. Raises UsageError, and StorageFailed for wildcards."""
        inherited = self.inherit(top, inherited)
        for node in top.items("shares"):
            fields = Fields(top.source, node, "the share")
            fields.require_known(_SHARE)
            name = self._name(fields, "share", (), may_have_dots=True)
            below = self.inherit(fields, inherited)
            schemas = tuple(self._schema(fields, name, item, below) for item in fields.items("schemas"))
            self._shares[name.casefold()] = Share(name, schemas, fields.text("id") or None, read_about(fields))

    def inherit(self, fields: Fields, above: Inherited) -> Inherited:
        """Return what is below takes from a mapping, and from what that is in. Raises UsageError."""
        options = self.options_of(fields, above.options)
        return Inherited(options, read_modes(fields, above.modes), read_delegation(fields, above.delegation))

    def options_of(self, fields: Fields, inherited: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options of the store for what is below, with references to secrets resolved. Raises UsageError."""
        given = fields.fields("storageOptions")
        if given is None:
            return inherited
        options = dict(inherited)
        for key in given:
            value, is_clear = given.secret(key)
            if value is None:
                options.pop(key, None)
                continue
            if is_clear and is_secret_name(key):
                message = f"the secret {key} is in clear text; ${{NAME}} and file:PATH refer to it elsewhere"
                given.source.note(given.line_of(key), message)
            options[key] = value
        remember_secrets(options)
        return options

    def _schema(self, share: Fields, share_name: str, node: Node, inherited: Inherited) -> SharedSchema:
        fields = Fields(share.source, node, "the schema")
        fields.require_known(_SCHEMA)
        name = self._name(fields, "schema", (share_name,))
        below = self.inherit(fields, inherited)
        tables: list[SharedTable] = []
        for item in fields.items("tables"):
            tables += self._tables(Fields(share.source, item, "the table"), (share_name, name), below)
        return SharedSchema(share_name, name, tuple(tables))

    def _tables(self, fields: Fields, above: tuple[str, str], inherited: Inherited) -> list[SharedTable]:
        """Return the tables of an entry: one, or those that its wildcard matches."""
        fields.require_known(_TABLE)
        location = _location(fields)
        below = self.inherit(fields, inherited)
        if not _is_wildcard(location):
            if DIRECTORY in (fields.text("name") or ""):
                raise fields.fault("name", f"contains {DIRECTORY}, but location has no wildcard")
            return [self._table(fields, above, fields.required("name"), location, below)]
        self.has_wildcards = True
        if "id" in fields:
            raise fields.fault("id", "is the same for all tables of a wildcard", hint="omit id")
        pattern = fields.text("name") or DIRECTORY
        if DIRECTORY not in pattern:
            raise fields.fault("name", f"is the same for all tables of a wildcard; it must contain {DIRECTORY}")
        if self.open_store is None:
            return []
        found = _find_directories(fields, location, below.options, self.open_store)
        return [
            self._table(fields, above, pattern.replace(DIRECTORY, one.directory), one.location, below)
            for one in found
            if self._is_nameable(fields, pattern.replace(DIRECTORY, one.directory), one.location)
        ]

    @staticmethod
    def _is_nameable(fields: Fields, name: str, location: str) -> bool:
        """Return True if the directory of a wildcard gives a valid name; others are noted and left out."""
        reason = fault_in_name(name)
        if reason is not None:
            fields.source.note(fields.line, f"{location} is not shared: the name {name!r} is refused, {reason}")
        return reason is None

    def _table(
        self, fields: Fields, above: tuple[str, str], name: str, location: str, inherited: Inherited
    ) -> SharedTable:
        self._require_name(fields, "table", above, name)
        full_name = ".".join((*above, name))
        self.lines[full_name.lower()] = f"{fields.source.path}:{fields.line}"
        if len(self.lines) > MOST_TABLES:
            raise fields.source.fault(fields.line, f"there are more than {MOST_TABLES:,} tables")
        table = SharedTable(
            share=above[0],
            schema=above[1],
            name=name,
            location=location,
            table_id=self._table_id(fields, above[0], full_name),
            history_shared=self._shares_history(fields),
            start_version=fields.whole("startVersion", 0),
            storage_options=inherited.options,
            access_modes=inherited.modes,
            auxiliary_locations=fields.texts("auxiliaryLocations"),
            delegation=inherited.delegation,
            is_feed_hidden=not fields.flag("cdfEnabled", default=True),
        )
        if reason := static_refusal(table):
            key = "accessModes" if "accessModes" in fields else "location"
            hint = f"accessModes: [url] for {full_name}"
            raise fields.fault(key, f"{full_name} must not be given by directory: {reason}", hint=hint)
        return table

    @staticmethod
    def _shares_history(fields: Fields) -> bool:
        """Return `historyShared`, or its former name where that is used."""
        if "cdfEnabled" in fields:
            fields.source.note(fields.line_of("cdfEnabled"), "cdfEnabled is the former name of historyShared")
        return fields.flag("historyShared", default=fields.flag("cdfEnabled"))

    def _table_id(self, fields: Fields, share: str, full_name: str) -> str:
        """Return the configured id, or one that follows from the name. Ids that a share uses twice are replaced."""
        own = fields.text("id")
        if own:
            if len(own) > 255 or not own.isprintable():
                raise fields.fault("id", "has more than 255 characters, or control characters")
            if (share.casefold(), own) not in self._ids:
                self._ids.add((share.casefold(), own))
                return own
            fields.source.note(fields.line_of("id"), f"{full_name} gets another id: {own!r} is used twice in the share")
        return str(uuid.uuid5(_NAMESPACE, full_name.casefold()))

    def _name(self, fields: Fields, kind: str, above: tuple[str, ...], *, may_have_dots: bool = False) -> str:
        name = fields.required("name")
        self._require_name(fields, kind, above, name, may_have_dots=may_have_dots)
        return name

    def _require_name(
        self, fields: Fields, kind: str, above: tuple[str, ...], name: str, *, may_have_dots: bool = False
    ) -> None:
        """Raise UsageError for an invalid name, and for one that is used before, without regard to case."""
        if reason := fault_in_name(name, may_have_dots=may_have_dots):
            raise fields.fault("name", f"is {name[:60]!r}: {reason}")
        key = "/".join((*above, name)).casefold()
        if first := self._places.get(key):
            raise fields.fault("name", f"is {name!r}, and {first} has the same {kind} (names ignore case)")
        self._places[key] = f"{fields.source.path}:{fields.line_of('name')}"


def _location(fields: Fields) -> str:
    """Return the location of a table; a relative path starts at the directory of the file. Raises UsageError."""
    location = fields.required("location")
    if not location.strip() or not location.isprintable():
        raise fields.fault("location", "is empty or contains control characters", expected="a path or a URI")
    if "://" in location or location.startswith(("file:", "~")):
        return location
    return os.path.abspath(fields.source.place_of(location))


DIRECTORY = "${dir}"
"""What stands for the matching directory in the name of a table."""


class _Match(NamedTuple):
    """A directory that matches, and the location of the table at or below it."""

    directory: str
    location: str


def _is_wildcard(location: str) -> bool:
    return "*" in location


def _find_directories(
    fields: Fields, location: str, options: Mapping[str, str], open_store: Callable[[str, Mapping[str, str]], Storage]
) -> list[_Match]:
    """Return the tables that a wildcard matches, by the name of their directory. Directories without a log are left
    out.

    Raises UsageError for more than one directory with a wildcard, and StorageFailed where the store cannot be listed.
    """
    prefix, pattern, rest = _split(fields, location)
    store = open_store(prefix, options)
    matches = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    try:
        names = [name for name in store.list_directories("") if matches.fullmatch(name) and not name.startswith("_")]
    except FileMissing:
        names = []

    def has_log(name: str) -> bool:
        return store.kind_of("/".join(filter(None, (name, rest, "_delta_log")))) is PathKind.DIRECTORY

    with ThreadPool(store.capabilities.parallel_reads) as pool:
        found = [name for name, is_table in zip(names, pool.map(has_log, names), strict=True) if is_table]
    if not found:
        fields.source.note(fields.line_of("location"), f"no table matches {location}")
    return [_Match(name, "/".join(filter(None, (prefix.rstrip("/"), name, rest)))) for name in found]


def _split(fields: Fields, location: str) -> tuple[str, str, str]:
    """Return the directory above the wildcard, the name with the wildcard, and the path below it."""
    scheme, separator, path = location.partition("://")
    if not separator:
        scheme, path = "", location
    parts = path.rstrip("/").split("/")
    places = [place for place, part in enumerate(parts) if _is_wildcard(part)]
    is_in_bucket = bool(separator) and places[0] == 0
    if len(places) != 1 or is_in_bucket or _is_wildcard(scheme):
        raise fields.fault("location", "must have * in one directory", expected="s3://bucket/tenant_*/orders")
    place = places[0]
    return f"{scheme}{separator}{'/'.join(parts[:place])}" or "/", parts[place], "/".join(parts[place + 1 :])


# -- `shares.yaml` -----------------------------------------------------------------------------------------------------

_WITHOUT_EFFECT = {
    "deltaTableCacheSize": "the cache is limited by bytes: cacheBytes",
    "stalenessAcceptable": "answers always have the newest version",
    "requestTimeoutSeconds": "answers that have begun are limited by limits.streamSeconds",
    "evaluateJsonPredicateHintsV2": "there is one evaluation of hints: evaluateJsonPredicateHints",
}
"""Keys of the reference server that change nothing here -> why."""

_LIMITS = {
    "bodyBytes": ("body_bytes", 1, 2**30),
    "headerBytes": ("header_bytes", 1_024, 2**20),
    "jsonDepth": ("json_depth", 1, 1_000),
    "headSeconds": ("head_seconds", 1, 3_600),
    "bodySeconds": ("body_seconds", 1, 3_600),
    "idleSeconds": ("idle_seconds", 1, 86_400),
    "streamIdleSeconds": ("stream_idle_seconds", 1, 86_400),
    "streamSeconds": ("stream_seconds", 1, 7 * 86_400),
    "requestsPerSecond": ("requests_per_second", 0, 1_000_000),
    "concurrentRequests": ("concurrent_requests", 0, 100_000),
    "connections": ("connections", 1, 1_000_000),
    "connectionsPerAddress": ("connections_per_address", 0, 1_000_000),
    "credentialsPerMinute": ("credentials_per_minute", 1, 1_000_000),
}
_LIMIT_KEYS: Keys = {
    key: ShareKey("number", f"Default: {getattr(Limits, name):,}.", limits=(least, most))
    for key, (name, least, most) in _LIMITS.items()
}
_SSL: Keys = {
    "selfSigned": ShareKey("flag", "A setting of other servers, which is refused."),
    "certificateFile": ShareKey("text", "File with the certificate and those above it."),
    "certificateKeyFile": ShareKey("text", "File with the private key."),
    "certificatePasswordFile": ShareKey("text", "File with the password of the private key."),
}
_AUDIT: Keys = {
    "file": ShareKey("text", "File in which requests are recorded.", is_required=True),
    "rotateBytes": ShareKey("number", "Size at which the file is rotated.", limits=(4_096, 2**50)),
    "keep": ShareKey("number", "Number of old files that are kept.", limits=(1, 10_000)),
}
_ASYNC: Keys = {
    "directory": ShareKey("text", "Where queries are kept, for all workers. Default: beside keyFile, else none."),
    "afterMs": ShareKey("number", "Milliseconds after which a query is answered later. Default: 10,000.",
                        limits=(0, 600_000)),
    "pendingPerRecipient": ShareKey("number", "Queries of a recipient that are not done. Default: 100.",
                                    limits=(1, 10_000)),
}  # fmt: skip
_AUTHORIZATION: Keys = {
    "bearerToken": ShareKey("text", "Token for everything, as ${NAME} or file:PATH.", is_required=True)
}
_OF_REFERENCE: Keys = {
    "ssl": ShareKey("mapping", "The certificate of the server.", _SSL),
    "host": ShareKey("text", "Address to listen on. Default: localhost."),
    "port": ShareKey("number", "Port to listen on. Default: 80.", limits=(0, 65_535)),
    "endpoint": ShareKey("text", "Path of the endpoint. Default: /delta-sharing."),
    "preSignedUrlTimeoutSeconds": ShareKey("number", "Seconds for which URLs of files are valid."),
    "evaluatePredicateHints": ShareKey("flag", "Leave out files by SQL hints. Default: true."),
    "evaluateJsonPredicateHints": ShareKey("flag", "Leave out files by JSON hints. Default: true."),
    "queryTablePageSizeLimit": ShareKey("number", "Files per page of an answer."),
    "queryTablePageTokenTtlMs": ShareKey("number", "Milliseconds for which the token of a page is valid."),
    "refreshTokenTtlMs": ShareKey("number", "Milliseconds for which a refresh token is valid."),
    "temporaryCredentialValiditySeconds": ShareKey(
        "number", "Seconds for which credentials for directories are valid. Default: 3,600.", limits=(0, 604_800)
    ),
}
_OUR_OWN: Keys = {
    "publicUrl": ShareKey("text", "The address in profiles, where recipients reach the server by another one."),
    "behindProxy": ShareKey("flag", "A proxy in front of the server terminates https. Default: false."),
    "adminHost": ShareKey("text", "Address of the metrics. Default: 127.0.0.1."),
    "adminPort": ShareKey("number", "Port of the metrics. Default: none.", limits=(1, 65_535)),
    "limits": ShareKey("mapping", "What one connection, request and recipient may use.", _LIMIT_KEYS),
    "audit": ShareKey("mapping", "Where requests are recorded.", _AUDIT),
    "cacheBytes": ShareKey("number", "Bytes of the cache of snapshots."),
    "proxyFiles": ShareKey("proxy", "Whether URLs of files lead to this server, which reads the store itself."),
    "keyFile": ShareKey("text", "File with the keys that sign tokens and URLs of files."),
    "wildcardRefreshSeconds": ShareKey("number", "Seconds after which wildcards are looked up again."),
    "asyncQueries": ShareKey("mapping", "Which queries clients ask about again until they are done.", _ASYNC),
}
_SERVER: Keys = {
    **_OF_REFERENCE,
    **_OUR_OWN,
    **{key: ShareKey("text", f"Has no effect: {reason}.") for key, reason in _WITHOUT_EFFECT.items()},
}
SERVER_KEYS = frozenset(_SERVER)

_URL = re.compile(r"[!$&()*+,./0-9:;=@A-Z\[\]_a-z~%-]{1,2000}")
_HOST = re.compile(r"[A-Za-z0-9_.\-:%\[\]]{1,255}")


def read_settings(top: Fields) -> Settings:
    """Return the settings of the server. Raises UsageError."""
    for key, reason in _WITHOUT_EFFECT.items():
        if key in top:
            top.source.note(top.line_of(key), f"{key} has no effect: {reason}")
    endpoint = _endpoint(top)
    admin_host = _host(top, "adminHost", Settings.admin_host)
    if not is_loopback(admin_host):
        top.source.note(
            top.line_of("adminHost"), f"metrics on {admin_host} are readable by other machines without a token"
        )
    whole = partial(top.whole, least=1)
    return Settings(
        host=_host(top, "host", Settings.host),
        port=top.whole("port", Settings.port, most=65_535),
        endpoint=endpoint,
        public_url=_public_url(top, endpoint),
        behind_proxy=top.flag("behindProxy"),
        admin_host=admin_host,
        admin_port=top.whole("adminPort", 0, least=1, most=65_535) if "adminPort" in top else None,
        tls=_tls(top),
        url_lifetime_seconds=whole("preSignedUrlTimeoutSeconds", Settings.url_lifetime_seconds, most=LONGEST_SECONDS),
        page_size=whole("queryTablePageSizeLimit", Settings.page_size, most=10_000_000),
        page_token_lifetime_seconds=_seconds(top, "queryTablePageTokenTtlMs", Settings.page_token_lifetime_seconds),
        refresh_token_lifetime_seconds=_seconds(top, "refreshTokenTtlMs", Settings.refresh_token_lifetime_seconds),
        evaluate_sql_hints=top.flag("evaluatePredicateHints", default=Settings.evaluate_sql_hints),
        evaluate_json_hints=top.flag("evaluateJsonPredicateHints", default=Settings.evaluate_json_hints),
        proxy_files=_proxy(top),
        cache_bytes=top.whole("cacheBytes", Settings.cache_bytes, most=2**45),
        limits=_limits(top),
        audit=_audit(top),
        key_file=top.path("keyFile"),
        wildcard_refresh_seconds=whole("wildcardRefreshSeconds", Settings.wildcard_refresh_seconds, most=86_400),
        credential_lifetime_seconds=_credential_lifetime(top),
        async_queries=_async_queries(top),
    )


def _seconds(top: Fields, key: str, default: int) -> int:
    """Return a lifetime that the file has in milliseconds, rounded up."""
    return -(-top.whole(key, default * 1_000, least=1, most=365 * 86_400_000) // 1_000)


def _host(top: Fields, key: str, default: str) -> str:
    host = top.text(key)
    if host is None:
        return default
    if _HOST.fullmatch(host) is None:
        raise top.fault(key, f"is {host[:60]!r}", expected="a host name or an address")
    return host.strip("[]") or default


def _endpoint(top: Fields) -> str:
    endpoint = (top.text("endpoint") or Settings.endpoint).rstrip("/")
    if re.fullmatch(r"(/[A-Za-z0-9_.~-]+)*", endpoint) is None or {".", ".."} & set(endpoint.split("/")):
        raise top.fault("endpoint", f"is {endpoint[:60]!r}", expected="a path such as /delta-sharing")
    return endpoint


def _public_url(top: Fields, endpoint: str) -> str | None:
    """Return the URL of the endpoint as recipients see it; a URL without a path gets that of the endpoint."""
    url = top.text("publicUrl")
    if url is None:
        return None
    expected = "https://HOST, or https://HOST/PATH, as recipients reach the server"
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_server = False
    if not is_server or "@" in parts.netloc or _URL.fullmatch(url) is None:
        raise top.fault("publicUrl", "is not a URL of a server", expected=expected)
    url = url.rstrip("/")
    return url if urlsplit(url).path else url + endpoint


def _proxy(top: Fields) -> Proxy:
    """Return when the server returns files of stores itself; `true` is always, `false` is never."""
    text = top.text("proxyFiles")
    known = {"true": Proxy.ALWAYS, "false": Proxy.NEVER, **{choice.value: choice for choice in Proxy}}
    if text is None:
        return Settings.proxy_files
    if text.lower() not in known:
        raise top.fault("proxyFiles", f"is {text[:40]!r}", expected=", ".join(Proxy))
    return known[text.lower()]


def _tls(top: Fields) -> Tls | None:
    fields = top.fields("ssl")
    if fields is None:
        return None
    fields.require_known(_SSL)
    tls = Tls(
        certificate_file=fields.path("certificateFile"),
        key_file=fields.path("certificateKeyFile"),
        password_file=fields.path("certificatePasswordFile"),
        self_signed=fields.flag("selfSigned"),
    )
    if not tls.self_signed:
        fields.required("certificateFile")
        fields.required("certificateKeyFile")
    return tls


def _limits(top: Fields) -> Limits:
    fields = top.fields("limits")
    if fields is None:
        return Limits()
    fields.require_known(_LIMIT_KEYS)
    defaults = Limits()
    return Limits(
        **{
            name: fields.whole(key, getattr(defaults, name), least=least, most=most)
            for key, (name, least, most) in _LIMITS.items()
        }
    )


def _audit(top: Fields) -> Audit | None:
    fields = top.fields("audit")
    if fields is None:
        return None
    fields.require_known(_AUDIT)
    fields.required("file")
    file = fields.path("file")
    assert file is not None
    return Audit(
        file=file,
        rotate_bytes=fields.whole("rotateBytes", Audit.rotate_bytes, least=4_096, most=2**50),
        keep=fields.whole("keep", Audit.keep, least=1, most=10_000),
    )


def _credential_lifetime(top: Fields) -> int:
    """Return seconds of a credential; 0 is the default, as on the reference server. No cloud gives less than 900."""
    seconds = top.whole("temporaryCredentialValiditySeconds", 0, most=7 * 86_400)
    return max(seconds, LEAST_SECONDS) if seconds else Settings.credential_lifetime_seconds


def _async_queries(top: Fields) -> AsyncQueries:
    key_file = top.path("keyFile")
    beside = None if key_file is None else key_file.with_name(f"{key_file.name}.queries")
    fields = top.fields("asyncQueries")
    if fields is None:
        return AsyncQueries(beside)
    fields.require_known(_ASYNC)
    return AsyncQueries(
        directory=fields.path("directory") or beside,
        after_ms=fields.whole("afterMs", AsyncQueries.after_ms, most=600_000),
        pending_per_recipient=fields.whole(
            "pendingPerRecipient", AsyncQueries.pending_per_recipient, least=1, most=10_000
        ),
    )


VERSION = 1
_INCLUDED: Keys = {
    "version": ShareKey("number", "Version of the format of this file.", is_required=True, limits=(VERSION, VERSION)),
    "shares": ShareKey("list", "What is shared.", _SHARE),
    "storageOptions": _OPTIONS,
}
TOP_KEYS: Keys = {
    **_INCLUDED,
    "authorization": ShareKey("mapping", "One token for everything; recipients have one each.", _AUTHORIZATION),
    "recipients": ShareKey("text", "File with the recipients and their grants."),
    "include": ShareKey("texts", "Other files with shares; patterns are allowed."),
    **_SERVER,
}
"""The keys of the file, with those of its mappings below them."""


def read_configuration(
    path: Path | str, *, environment: Mapping[str, str] = os.environ, open_store: OpenStore | None = open_storage
) -> Configuration:
    """Return the checked configuration of a file and its includes. Without `open_store`, wildcards match nothing.

    Raises UsageError, which names file, line and key, and StorageFailed where the tables of a wildcard cannot be
    listed.
    """
    source = ConfigurationFile(Path(path), environment)
    top = source.read()
    top.require_known(TOP_KEYS)
    _require_version(top)
    reader = CatalogReader(open_store)
    above = Inherited(reader.options_of(top, {}))
    reader.add_shares(top, above)
    for included in _included(top):
        reader.add_shares(_read_included(included), above)
    token = _read_authorization(top)
    recipients = top.path("recipients")
    if token is None and recipients is None:
        source.note(top.line, "neither authorization nor recipients is set, so requests need no token")
    return Configuration(
        path=source.path,
        catalog=reader.catalog(),
        settings=read_settings(top),
        bearer_token=token,
        recipients_file=recipients,
        notes=tuple(source.notes),
        files=tuple(dict.fromkeys(source.files)),
        has_wildcards=reader.has_wildcards,
        lines=reader.lines,
    )


def remember_secrets_of(configuration: Configuration) -> None:
    """Mask the secrets of a configuration that another process has read in all later texts of this one."""
    remember_secrets({"bearer_token": configuration.bearer_token or ""})
    for share in configuration.catalog.shares:
        for schema in share.schemas:
            for options in {id(table.storage_options): table.storage_options for table in schema.tables}.values():
                remember_secrets(options)


def _require_version(fields: Fields) -> None:
    if "version" not in fields:
        raise fields.source.fault(fields.line, f"{fields.what} has no version", expected=f"version: {VERSION}")
    if (version := fields.whole("version", 0)) != VERSION:
        raise fields.fault("version", f"is {version}", expected=str(VERSION))


def _included(top: Fields) -> list[ConfigurationFile]:
    """Return the files that `include` names, in the order of the patterns and then by name. Raises UsageError."""
    found: list[Path] = []
    for pattern in top.texts("include"):
        place = top.source.place_of(pattern)
        matches = sorted(glob.glob(str(place))) if glob.has_magic(pattern) else [str(place)]
        found += map(Path, matches)
        if not matches:
            top.source.note(top.line_of("include"), f"no file matches {pattern!r}")
    return [top.source.other(path) for path in dict.fromkeys(found)]


def _read_included(source: ConfigurationFile) -> Fields:
    fields = source.read()
    if outside := next((key for key in fields if key in TOP_KEYS and key not in _INCLUDED), None):
        raise fields.fault(outside, "is allowed in the main file only", expected="version, shares, storageOptions")
    fields.require_known(_INCLUDED)
    _require_version(fields)
    return fields


def _read_authorization(top: Fields) -> str | None:
    """Return the token for everything, None where there is none. Raises UsageError."""
    fields = top.fields("authorization")
    if fields is None:
        return None
    fields.require_known(_AUTHORIZATION)
    token, is_clear = fields.secret("bearerToken")
    if token is None:
        raise fields.source.fault(fields.line, "authorization has no bearerToken")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise fields.fault("bearerToken", "is empty or has characters that a header cannot contain")
    if is_clear:
        message = "bearerToken is in clear text: anyone who can read the file can read every share"
        fields.source.note(fields.line_of("bearerToken"), message)
    remember_secrets({"bearer_token": token})
    return token
