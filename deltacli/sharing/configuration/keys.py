"""The keys of `shares.yaml`: what each means, its default and its limits. Each fact is declared here once.

The reader of the file, the JSON Schema for editors and the tables of docs/sharing-recipients.md are made from these
declarations. Defaults come from the classes of `settings.py` and `deltacli.sharing.model`, which are also used without
a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from deltacli.sharing.configuration.fields import Fields
from deltacli.sharing.configuration.settings import AsyncQueries, Audit, Limits, Settings
from deltacli.sharing.model import URL_ONLY, SharedTable
from deltacli.sharing.protocol.directories import LONGEST_COMMENT, LONGEST_DISPLAY_NAME, MOST_PROPERTIES
from deltacli.sharing.protocol.names import LONGEST_NAME
from deltacli.sharing.signing.choose import LONGEST_SECONDS
from deltacli.storage.signing.delegation import MIN_SESSION_SECONDS, Delegation

FORMAT_VERSION = 1
"""The version of the format of the file."""

_DAY_SECONDS = 86_400
_LARGEST_NUMBER = 2**53
"""The limit of numbers without another one: readers of JSON keep whole numbers exactly up to here."""


@dataclass(frozen=True, kw_only=True)
class ShareKey:
    """A key of a mapping in the file.

    Attributes:
        kind: The form of the value.
        meaning: What the value says, in one or two sentences without its default.
        of: The keys of the mapping that is the value, or of each mapping in a list.
        is_required: Whether the mapping must have the key.
        limits: The smallest and the largest number that is allowed.
        default: The value without the key; None if there is none, or if `meaning` says what happens then.
        unit: The unit of a number, if people read it more easily in a larger one.
    """

    kind: Literal["text", "texts", "modes", "flag", "number", "mapping", "list", "options", "proxy"]
    meaning: str
    of: Mapping[str, ShareKey] = field(default_factory=dict)
    is_required: bool = False
    limits: tuple[int, int] = (0, _LARGEST_NUMBER)
    default: str | int | bool | None = None
    unit: Literal["bytes", "milliseconds"] | None = None

    @property
    def default_text(self) -> str | None:
        """The default as the file has it, or None."""
        if isinstance(self.default, bool):
            return "true" if self.default else "false"
        return None if self.default is None else str(self.default)


Keys = Mapping[str, ShareKey]


def read_number(fields: Fields, keys: Keys, name: str) -> int:
    """Return the number of a key, or its default. Raises UsageError for one outside the limits."""
    key = keys[name]
    assert isinstance(key.default, int), name
    least, most = key.limits
    return fields.whole(name, key.default, least=least, most=most)


def read_optional_number(fields: Fields, keys: Keys, name: str) -> int | None:
    """Return the number of a key without default, or None. Raises UsageError for one outside the limits."""
    if name not in fields:
        return None
    least, most = keys[name].limits
    return fields.whole(name, 0, least=least, most=most)


def read_flag(fields: Fields, keys: Keys, name: str) -> bool:
    """Return the flag of a key, or its default. Raises UsageError for another value."""
    default = keys[name].default
    assert isinstance(default, bool), name
    return fields.flag(name, default=default)


STORAGE_OPTIONS = ShareKey(
    kind="options", meaning="Options of the store for everything below. Secrets are ${NAME} or file:PATH."
)

DIRECTORY_ACCESS_KEYS: Keys = {
    "roleArn": ShareKey(kind="text", meaning="AWS: the role that sessions for a directory are made with."),
    "externalId": ShareKey(kind="text", meaning="AWS: the external id that the role asks for."),
    "stsEndpoint": ShareKey(
        kind="text", meaning="AWS, Google: URL of the token service, where it is not the usual one."
    ),
    "kmsDecrypt": ShareKey(
        kind="flag", meaning="AWS: the bucket is encrypted with a key of KMS.", default=Delegation().uses_kms
    ),
}

_ACCESS_KEYS: Keys = {
    "accessModes": ShareKey(
        kind="modes",
        meaning="url: by URLs of files; dir: by credentials for the directory.",
        default=f"[{', '.join(URL_ONLY)}]",
    ),
    "directoryAccess": ShareKey(
        kind="mapping", meaning="With what credentials for directories are made.", of=DIRECTORY_ACCESS_KEYS
    ),
}

TABLE_KEYS: Keys = {
    "name": ShareKey(kind="text", meaning="Name of the table. Where location has a wildcard, it contains ${dir}."),
    "location": ShareKey(
        kind="text", meaning="Path or URI of the table; * in one directory shares every match.", is_required=True
    ),
    "id": ShareKey(
        kind="text",
        meaning=f"Id of the table, of at most {LONGEST_NAME} characters. Default: one made from its name.",
    ),
    "historyShared": ShareKey(
        kind="flag", meaning="Share older versions and changes, too.", default=SharedTable.history_shared
    ),
    "cdfEnabled": ShareKey(kind="flag", meaning="The former name of historyShared."),
    "startVersion": ShareKey(
        kind="number", meaning="The oldest version that is shared.", default=SharedTable.start_version
    ),
    "storageOptions": STORAGE_OPTIONS,
    **_ACCESS_KEYS,
    "auxiliaryLocations": ShareKey(
        kind="texts", meaning="Where files are that the log names outside the table; for dir only."
    ),
}

SCHEMA_KEYS: Keys = {
    "name": ShareKey(kind="text", meaning="Name of the schema.", is_required=True),
    "tables": ShareKey(kind="list", meaning="Tables of the schema.", of=TABLE_KEYS),
    "storageOptions": STORAGE_OPTIONS,
    **_ACCESS_KEYS,
}

SHARE_KEYS: Keys = {
    "name": ShareKey(kind="text", meaning="Name of the share.", is_required=True),
    "id": ShareKey(kind="text", meaning="Id of the share."),
    "schemas": ShareKey(kind="list", meaning="Schemas of the share.", of=SCHEMA_KEYS),
    "storageOptions": STORAGE_OPTIONS,
    **_ACCESS_KEYS,
    "displayName": ShareKey(
        kind="text",
        meaning=f"Name of the share for people; recipients use its name. At most {LONGEST_DISPLAY_NAME} characters.",
    ),
    "comment": ShareKey(kind="text", meaning=f"What the share is, for people. At most {LONGEST_COMMENT:,} characters."),
    "properties": ShareKey(kind="options", meaning=f"Texts by name, for recipients. At most {MOST_PROPERTIES}."),
}

LIMIT_KEYS: Keys = {
    "bodyBytes": ShareKey(
        kind="number",
        meaning="Bytes of the body of a request.",
        default=Limits.body_bytes,
        limits=(1, 2**30),
        unit="bytes",
    ),
    "headerBytes": ShareKey(
        kind="number",
        meaning="Bytes of the first line and the headers of a request.",
        default=Limits.header_bytes,
        limits=(1_024, 2**20),
        unit="bytes",
    ),
    "jsonDepth": ShareKey(
        kind="number", meaning="Nesting of the body of a request.", default=Limits.json_depth, limits=(1, 1_000)
    ),
    "headSeconds": ShareKey(
        kind="number",
        meaning="Seconds in which the headers of a request must arrive.",
        default=Limits.head_seconds,
        limits=(1, 3_600),
    ),
    "bodySeconds": ShareKey(
        kind="number",
        meaning="Seconds in which the body of a request must arrive.",
        default=Limits.body_seconds,
        limits=(1, 3_600),
    ),
    "idleSeconds": ShareKey(
        kind="number",
        meaning="Seconds between two requests of a connection.",
        default=Limits.idle_seconds,
        limits=(1, _DAY_SECONDS),
    ),
    "streamIdleSeconds": ShareKey(
        kind="number",
        meaning="Seconds for which a client may stop reading its answer.",
        default=Limits.stream_idle_seconds,
        limits=(1, _DAY_SECONDS),
    ),
    "streamSeconds": ShareKey(
        kind="number",
        meaning="Seconds that a whole answer may take.",
        default=Limits.stream_seconds,
        limits=(1, 7 * _DAY_SECONDS),
    ),
    "requestsPerSecond": ShareKey(
        kind="number",
        meaning="Requests of a recipient per second and worker; 0 for no limit.",
        default=Limits.requests_per_second,
        limits=(0, 1_000_000),
    ),
    "concurrentRequests": ShareKey(
        kind="number",
        meaning="Requests of a recipient at a time, per worker; 0 for no limit.",
        default=Limits.concurrent_requests,
        limits=(0, 100_000),
    ),
    "connections": ShareKey(
        kind="number", meaning="Connections per worker.", default=Limits.connections, limits=(1, 1_000_000)
    ),
    "connectionsPerAddress": ShareKey(
        kind="number",
        meaning="Connections per worker from an IPv4 address or a /64 network of IPv6; 0 for no limit. "
        "Not for loopback, nor behind a proxy.",
        default=Limits.connections_per_address,
        limits=(0, 1_000_000),
    ),
    "credentialsPerMinute": ShareKey(
        kind="number",
        meaning="New credentials for directories, per recipient and worker.",
        default=Limits.credentials_per_minute,
        limits=(1, 1_000_000),
    ),
}

TLS_KEYS: Keys = {
    "selfSigned": ShareKey(kind="flag", meaning="A setting of other servers, which is refused.", default=False),
    "certificateFile": ShareKey(kind="text", meaning="File with the certificate and those above it."),
    "certificateKeyFile": ShareKey(kind="text", meaning="File with the private key."),
    "certificatePasswordFile": ShareKey(kind="text", meaning="File with the password of the private key."),
}

AUDIT_KEYS: Keys = {
    "file": ShareKey(kind="text", meaning="File in which requests are recorded.", is_required=True),
    "rotateBytes": ShareKey(
        kind="number",
        meaning="Size at which the file is rotated.",
        default=Audit.rotate_bytes,
        limits=(4_096, 2**50),
        unit="bytes",
    ),
    "keep": ShareKey(
        kind="number", meaning="Number of old files that are kept.", default=Audit.keep, limits=(1, 10_000)
    ),
}

ASYNC_KEYS: Keys = {
    "directory": ShareKey(
        kind="text", meaning="Where queries are kept, for all workers. Default: beside keyFile, else none."
    ),
    "afterMs": ShareKey(
        kind="number",
        meaning="Milliseconds after which a query is answered later.",
        default=AsyncQueries.after_ms,
        limits=(0, 600_000),
        unit="milliseconds",
    ),
    "pendingPerRecipient": ShareKey(
        kind="number",
        meaning="Queries of a recipient that are not done.",
        default=AsyncQueries.pending_per_recipient,
        limits=(1, 10_000),
    ),
}

AUTHORIZATION_KEYS: Keys = {
    "bearerToken": ShareKey(kind="text", meaning="Token for everything, as ${NAME} or file:PATH.", is_required=True)
}

_REFERENCE_SERVER_KEYS: Keys = {
    "ssl": ShareKey(kind="mapping", meaning="The certificate of the server.", of=TLS_KEYS),
    "host": ShareKey(kind="text", meaning="Address to listen on.", default=Settings.host),
    "port": ShareKey(kind="number", meaning="Port to listen on.", default=Settings.port, limits=(0, 65_535)),
    "endpoint": ShareKey(kind="text", meaning="Path of the endpoint.", default=Settings.endpoint),
    "preSignedUrlTimeoutSeconds": ShareKey(
        kind="number",
        meaning="Seconds for which URLs of files are valid; up to 10 seconds or 1 % less, so that equal queries share "
        "them.",
        default=Settings.url_lifetime_seconds,
        limits=(1, LONGEST_SECONDS),
    ),
    "evaluatePredicateHints": ShareKey(
        kind="flag", meaning="Leave out files by SQL hints.", default=Settings.evaluate_sql_hints
    ),
    "evaluateJsonPredicateHints": ShareKey(
        kind="flag", meaning="Leave out files by JSON hints.", default=Settings.evaluate_json_hints
    ),
    "queryTablePageSizeLimit": ShareKey(
        kind="number", meaning="Files per page of an answer.", default=Settings.page_size, limits=(1, 10_000_000)
    ),
    "queryTablePageTokenTtlMs": ShareKey(
        kind="number",
        meaning="Milliseconds for which the token of a page is valid.",
        default=Settings.page_token_lifetime_seconds * 1_000,
        limits=(1, 365 * _DAY_SECONDS * 1_000),
        unit="milliseconds",
    ),
    "refreshTokenTtlMs": ShareKey(
        kind="number",
        meaning="Milliseconds for which a refresh token is valid.",
        default=Settings.refresh_token_lifetime_seconds * 1_000,
        limits=(1, 365 * _DAY_SECONDS * 1_000),
        unit="milliseconds",
    ),
    "temporaryCredentialValiditySeconds": ShareKey(
        kind="number",
        meaning=f"Seconds for which credentials for directories are valid, at least {MIN_SESSION_SECONDS}; "
        "0 means the default.",
        default=Settings.credential_lifetime_seconds,
        limits=(0, 7 * _DAY_SECONDS),
    ),
}
"""The keys of the server that the authors of the protocol publish."""

_OUR_KEYS: Keys = {
    "publicUrl": ShareKey(
        kind="text",
        meaning="The address in profiles, where recipients reach the server by another one; without a path, the "
        "endpoint is added.",
    ),
    "behindProxy": ShareKey(
        kind="flag", meaning="A proxy in front of the server terminates https.", default=Settings.behind_proxy
    ),
    "adminHost": ShareKey(kind="text", meaning="Address of the metrics and health.", default=Settings.admin_host),
    "adminPort": ShareKey(kind="number", meaning="Port of the metrics and health. Default: none.", limits=(1, 65_535)),
    "limits": ShareKey(kind="mapping", meaning="What one connection, request and recipient may use.", of=LIMIT_KEYS),
    "audit": ShareKey(kind="mapping", meaning="Where requests are recorded.", of=AUDIT_KEYS),
    "cacheBytes": ShareKey(
        kind="number",
        meaning="Bytes of the cache of snapshots.",
        default=Settings.cache_bytes,
        limits=(0, 2**45),
        unit="bytes",
    ),
    "proxyFiles": ShareKey(
        kind="proxy",
        meaning="Whether URLs of files lead to this server, which reads the store itself: always (true), never "
        "(false), or where URLs of the store cannot be signed.",
        default=Settings.proxy_files.value,
    ),
    "keyFile": ShareKey(
        kind="text",
        meaning="File with the keys that sign tokens and URLs of files, so that they survive a restart.",
    ),
    "wildcardRefreshSeconds": ShareKey(
        kind="number",
        meaning="Seconds after which wildcards are looked up again.",
        default=Settings.wildcard_refresh_seconds,
        limits=(1, _DAY_SECONDS),
    ),
    "asyncQueries": ShareKey(
        kind="mapping", meaning="Which queries clients ask about again until they are done.", of=ASYNC_KEYS
    ),
}

KEYS_WITHOUT_EFFECT = {
    "deltaTableCacheSize": "the cache is limited by bytes: cacheBytes",
    "stalenessAcceptable": "answers always have the newest version",
    "requestTimeoutSeconds": "answers that have begun are limited by limits.streamSeconds",
    "evaluateJsonPredicateHintsV2": "there is one evaluation of hints: evaluateJsonPredicateHints",
}
"""Keys of the reference server that change nothing here, with the reason."""

SERVER_KEYS: Keys = {**_REFERENCE_SERVER_KEYS, **_OUR_KEYS}
"""The keys at the top of the file that change how the server works."""

INCLUDED_KEYS: Keys = {
    "version": ShareKey(
        kind="number",
        meaning="Version of the format of this file.",
        is_required=True,
        limits=(FORMAT_VERSION, FORMAT_VERSION),
    ),
    "shares": ShareKey(kind="list", meaning="What is shared.", of=SHARE_KEYS),
    "storageOptions": STORAGE_OPTIONS,
}
"""The keys of a file that another one includes."""

TOP_KEYS: Keys = {
    **INCLUDED_KEYS,
    "authorization": ShareKey(
        kind="mapping", meaning="One token for everything; recipients have one each.", of=AUTHORIZATION_KEYS
    ),
    "recipients": ShareKey(kind="text", meaning="File with the recipients and their grants."),
    "include": ShareKey(kind="texts", meaning="Other files with shares; patterns are allowed."),
    **SERVER_KEYS,
    **{
        name: ShareKey(kind="text", meaning=f"Has no effect: {reason}.") for name, reason in KEYS_WITHOUT_EFFECT.items()
    },
}
"""The keys of the main file, with those of its mappings below them."""
