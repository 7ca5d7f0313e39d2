"""`shares.yaml`: the configuration of the reference server as it is, with keys of our own.

Spec: none; the keys are those of the server that the authors of the protocol publish.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from deltacli.core.loopback import is_loopback
from deltacli.sharing.configuration.fields import ConfigurationFile, Fields
from deltacli.sharing.configuration.settings import Audit, Configuration, Limits, Settings, Tls
from deltacli.sharing.configuration.shares import CatalogReader, OpenStore
from deltacli.sharing.signing.choose import Proxy
from deltacli.storage import open_storage
from deltacli.storage.secrets import remember_secrets

_WITHOUT_EFFECT = {
    "deltaTableCacheSize": "the cache is limited by bytes: cacheBytes",
    "stalenessAcceptable": "answers always have the newest version",
    "requestTimeoutSeconds": "answers that have begun are limited by limits.streamSeconds",
    "temporaryCredentialValiditySeconds": "temporary credentials are not handed out",
    "evaluateJsonPredicateHintsV2": "there is one evaluation of hints: evaluateJsonPredicateHints",
}
"""Keys of the reference server that change nothing here -> why."""

_OF_REFERENCE = (
    *("ssl", "host", "port", "endpoint", "preSignedUrlTimeoutSeconds"),
    *("evaluatePredicateHints", "evaluateJsonPredicateHints", "queryTablePageSizeLimit"),
    *("queryTablePageTokenTtlMs", "refreshTokenTtlMs"),
)
_OUR_OWN = (
    *("publicUrl", "behindProxy", "adminHost", "adminPort", "limits", "audit", "cacheBytes", "proxyFiles"),
    *("keyFile", "wildcardRefreshSeconds"),
)
SERVER_KEYS = frozenset({*_OF_REFERENCE, *_OUR_OWN, *_WITHOUT_EFFECT})

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
}
_SSL = frozenset({"selfSigned", "certificateFile", "certificateKeyFile", "certificatePasswordFile"})
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
        url_lifetime_seconds=whole("preSignedUrlTimeoutSeconds", Settings.url_lifetime_seconds, most=7 * 86_400),
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
    fields.require_known(_LIMITS)
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
    fields.require_known({"file", "rotateBytes", "keep"})
    fields.required("file")
    file = fields.path("file")
    assert file is not None
    return Audit(
        file=file,
        rotate_bytes=fields.whole("rotateBytes", Audit.rotate_bytes, least=4_096, most=2**50),
        keep=fields.whole("keep", Audit.keep, least=1, most=10_000),
    )


VERSION = 1
_TOP = frozenset({"version", "shares", "authorization", "recipients", "include", "storageOptions"}) | SERVER_KEYS
_INCLUDED = frozenset({"version", "shares", "storageOptions"})


def read_configuration(
    path: Path | str,
    *,
    environment: Mapping[str, str] = os.environ,
    open_store: OpenStore | None = open_storage,
) -> Configuration:
    """Return the checked configuration of a file and its includes. Without `open_store`, wildcards match nothing.

    Raises UsageError, which names file, line and key, and StorageFailed where the tables of a wildcard cannot be
    listed.
    """
    source = ConfigurationFile(Path(path), environment)
    top = source.read()
    top.require_known(_TOP)
    _require_version(top)
    reader = CatalogReader(open_store)
    options = reader.options_of(top, {})
    reader.add_shares(top, options)
    for included in _included(top):
        reader.add_shares(_read_included(included), options)
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
    if outside := next((key for key in fields if key in _TOP - _INCLUDED), None):
        raise fields.fault(outside, "is allowed in the main file only", expected="version, shares, storageOptions")
    fields.require_known(_INCLUDED)
    _require_version(fields)
    return fields


def _read_authorization(top: Fields) -> str | None:
    """Return the token for everything, None where there is none. Raises UsageError."""
    fields = top.fields("authorization")
    if fields is None:
        return None
    fields.require_known({"bearerToken"})
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
