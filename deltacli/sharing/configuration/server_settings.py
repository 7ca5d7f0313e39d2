"""Read how a server works from the keys at the top of `shares.yaml`."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import urlsplit

from deltacli.core.hosts import is_loopback
from deltacli.sharing.configuration.fields import Fields
from deltacli.sharing.configuration.keys import (
    ASYNC_KEYS,
    AUDIT_KEYS,
    KEYS_WITHOUT_EFFECT,
    LIMIT_KEYS,
    SERVER_KEYS,
    TLS_KEYS,
    read_flag,
    read_number,
    read_optional_number,
)
from deltacli.sharing.configuration.settings import AsyncQueries, Audit, Limits, Settings, Tls
from deltacli.sharing.signing.choose import Proxy
from deltacli.storage.signing.delegation import MIN_SESSION_SECONDS

_URL = re.compile(r"[!$&()*+,./0-9:;=@A-Z\[\]_a-z~%-]{1,2000}")
_HOST = re.compile(r"[A-Za-z0-9_.\-:%\[\]]{1,255}")


def read_settings(top: Fields) -> Settings:
    """Return the settings of the server. Raises UsageError."""
    for key, reason in KEYS_WITHOUT_EFFECT.items():
        if key in top:
            top.source.note(top.line_of(key), f"{key} has no effect: {reason}")
    endpoint = _read_endpoint(top)
    admin_host = _read_host(top, "adminHost", Settings.admin_host)
    if not is_loopback(admin_host):
        top.source.note(
            top.line_of("adminHost"), f"metrics on {admin_host} are readable by other machines without a token"
        )
    number = partial(read_number, top, SERVER_KEYS)
    flag = partial(read_flag, top, SERVER_KEYS)
    return Settings(
        host=_read_host(top, "host", Settings.host),
        port=number("port"),
        endpoint=endpoint,
        public_url=_read_public_url(top, endpoint),
        behind_proxy=flag("behindProxy"),
        admin_host=admin_host,
        admin_port=read_optional_number(top, SERVER_KEYS, "adminPort"),
        tls=_read_tls(top),
        url_lifetime_seconds=number("preSignedUrlTimeoutSeconds"),
        page_size=number("queryTablePageSizeLimit"),
        page_token_lifetime_seconds=_round_up_to_seconds(number("queryTablePageTokenTtlMs")),
        refresh_token_lifetime_seconds=_round_up_to_seconds(number("refreshTokenTtlMs")),
        evaluate_sql_hints=flag("evaluatePredicateHints"),
        evaluate_json_hints=flag("evaluateJsonPredicateHints"),
        proxy_files=_read_proxy(top),
        cache_bytes=number("cacheBytes"),
        limits=_read_limits(top),
        audit=_read_audit(top),
        key_file=top.path("keyFile"),
        wildcard_refresh_seconds=number("wildcardRefreshSeconds"),
        credential_lifetime_seconds=_read_credential_lifetime(top),
        async_queries=_read_async_queries(top),
    )


def _round_up_to_seconds(milliseconds: int) -> int:
    return -(-milliseconds // 1_000)


def _read_host(top: Fields, key: str, default: str) -> str:
    host = top.text(key)
    if host is None:
        return default
    if _HOST.fullmatch(host) is None:
        raise top.fault(key, f"is {host[:60]!r}", expected="a host name or an address")
    return host.strip("[]") or default


def _read_endpoint(top: Fields) -> str:
    endpoint = (top.text("endpoint") or Settings.endpoint).rstrip("/")
    if re.fullmatch(r"(/[A-Za-z0-9_.~-]+)*", endpoint) is None or {".", ".."} & set(endpoint.split("/")):
        raise top.fault("endpoint", f"is {endpoint[:60]!r}", expected="a path such as /delta-sharing")
    return endpoint


def _read_public_url(top: Fields, endpoint: str) -> str | None:
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


def _read_proxy(top: Fields) -> Proxy:
    """Return when the server returns files of stores itself; `true` is always, `false` is never."""
    text = top.text("proxyFiles")
    known = {"true": Proxy.ALWAYS, "false": Proxy.NEVER, **{choice.value: choice for choice in Proxy}}
    if text is None:
        return Settings.proxy_files
    if text.lower() not in known:
        raise top.fault("proxyFiles", f"is {text[:40]!r}", expected=", ".join(Proxy))
    return known[text.lower()]


def _read_tls(top: Fields) -> Tls | None:
    fields = top.fields("ssl")
    if fields is None:
        return None
    fields.require_known(TLS_KEYS)
    tls = Tls(
        certificate_file=fields.path("certificateFile"),
        key_file=fields.path("certificateKeyFile"),
        password_file=fields.path("certificatePasswordFile"),
        self_signed=read_flag(fields, TLS_KEYS, "selfSigned"),
    )
    if not tls.self_signed:
        fields.required("certificateFile")
        fields.required("certificateKeyFile")
    return tls


def _read_limits(top: Fields) -> Limits:
    fields = top.fields("limits")
    if fields is None:
        return Limits()

    fields.require_known(LIMIT_KEYS)
    number = partial(read_number, fields, LIMIT_KEYS)
    return Limits(
        body_bytes=number("bodyBytes"),
        header_bytes=number("headerBytes"),
        json_depth=number("jsonDepth"),
        head_seconds=number("headSeconds"),
        body_seconds=number("bodySeconds"),
        idle_seconds=number("idleSeconds"),
        stream_idle_seconds=number("streamIdleSeconds"),
        stream_seconds=number("streamSeconds"),
        requests_per_second=number("requestsPerSecond"),
        concurrent_requests=number("concurrentRequests"),
        connections=number("connections"),
        connections_per_address=number("connectionsPerAddress"),
        credentials_per_minute=number("credentialsPerMinute"),
    )


def _read_audit(top: Fields) -> Audit | None:
    fields = top.fields("audit")
    if fields is None:
        return None

    fields.require_known(AUDIT_KEYS)
    fields.required("file")
    file = fields.path("file")
    assert file is not None
    return Audit(
        file=file,
        rotate_bytes=read_number(fields, AUDIT_KEYS, "rotateBytes"),
        keep=read_number(fields, AUDIT_KEYS, "keep"),
    )


def _read_credential_lifetime(top: Fields) -> int:
    """Return the lifetime of credentials for directories in seconds.

    0 means the default, as on the reference server. No cloud issues credentials for less than `MIN_SESSION_SECONDS`.
    """
    seconds = read_number(top, SERVER_KEYS, "temporaryCredentialValiditySeconds")
    if seconds == 0:
        return Settings.credential_lifetime_seconds
    return max(seconds, MIN_SESSION_SECONDS)


def _read_async_queries(top: Fields) -> AsyncQueries:
    key_file = top.path("keyFile")
    beside_key_file = None if key_file is None else key_file.with_name(f"{key_file.name}.queries")
    fields = top.fields("asyncQueries")
    if fields is None:
        return AsyncQueries(beside_key_file)

    fields.require_known(ASYNC_KEYS)
    return AsyncQueries(
        directory=fields.path("directory") or beside_key_file,
        after_ms=read_number(fields, ASYNC_KEYS, "afterMs"),
        pending_per_recipient=read_number(fields, ASYNC_KEYS, "pendingPerRecipient"),
    )
