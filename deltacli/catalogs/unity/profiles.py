"""Where a catalog is, and what to sign in with: from the configuration, or from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from deltacli.catalogs.unity.addresses import CODE
from deltacli.core.errors import UsageError, nearest_name, parameter
from deltacli.core.process import is_loopback
from deltacli.storage.secrets import remember_secrets

KEYS = ("endpoint", "token", "oauth-uri", "client-id", "client-secret")
"""Keys of a catalog in the configuration."""
SECRET_KEYS = ("token", "client-secret")
_BASE = "/api/2.1/unity-catalog"
ENDPOINT = "UC_ENDPOINT"
"""The variable with the endpoint of a catalog, beside that of its token."""


@dataclass(frozen=True, slots=True)
class CatalogProfile:
    """The endpoint of a catalog without its last slash, and how to sign in: a token, an OAuth client, or neither.

    `source` says where it was found.
    """

    endpoint: str
    source: str
    token: str = field(default="", repr=False)
    oauth_uri: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)

    @property
    def base(self) -> str:
        """Return the URL that all paths are below."""
        return self.endpoint + _BASE

    @property
    def is_local(self) -> bool:
        """Return True for a catalog on this machine."""
        return is_loopback(urlsplit(self.endpoint).hostname or "")


def profile_of(
    given: Mapping[str, str] | None, environment: Mapping[str, str] | None = None, *, source: str | None = None
) -> CatalogProfile:
    """Return the profile with the keys `KEYS`, which `source` names in messages, else that of the environment. Raises
    UsageError where there is none, or one that cannot work.
    """
    environment = os.environ if environment is None else environment
    if given is not None:
        found = _of_keys(given, source or parameter("open_table.catalog_profile"))
    elif host := environment.get("DATABRICKS_HOST"):
        found = _of_databricks(host, environment)
    elif endpoint := environment.get(ENDPOINT):
        token = environment.get("UC_TOKEN", "").strip()
        found = CatalogProfile(_require_url(endpoint, ENDPOINT), ENDPOINT, _require_token(token, "UC_TOKEN"))
    else:
        raise UsageError(
            "no catalog is configured: its endpoint is unknown",
            code=CODE,
            facts={
                "needed": f"{parameter('open_table.catalog_profile')}, DATABRICKS_HOST with DATABRICKS_TOKEN, or "
                "UC_ENDPOINT with UC_TOKEN"
            },
        )
    remember_secrets({"token": found.token, "client_secret": found.client_secret})
    return found


def _of_keys(given: Mapping[str, str], where: str) -> CatalogProfile:
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is not a table of keys, such as endpoint and token", code=CODE)
    for key, value in given.items():
        if key not in KEYS:
            raise UsageError(f"{where} has an unknown key: {key}", code=CODE, facts={"known": ", ".join(KEYS)}).asking(
                key, nearest_name(key, KEYS)
            )
        if not isinstance(value, str):
            raise UsageError(f"{where}: {key} is not a string", code=CODE)
    if not given.get("endpoint"):
        raise UsageError(f"{where} has no endpoint", code=CODE)
    token, client, secret = (given.get(key, "").strip() for key in ("token", "client-id", "client-secret"))
    if bool(client) != bool(secret):
        raise UsageError(f"{where} has only one of client-id and client-secret", code=CODE)
    if token and client:
        raise UsageError(f"{where} has both a token and a client-id", code=CODE)
    endpoint = _require_url(given["endpoint"], f"{where}: endpoint")
    oauth = _require_url(given.get("oauth-uri") or f"{endpoint}/oidc/v1/token", f"{where}: oauth-uri") if client else ""
    return CatalogProfile(endpoint, where, _require_token(token, f"{where}: token"), oauth, client, secret)


def _of_databricks(host: str, environment: Mapping[str, str]) -> CatalogProfile:
    endpoint = _require_url(host, "DATABRICKS_HOST")
    if token := environment.get("DATABRICKS_TOKEN", "").strip():
        return CatalogProfile(endpoint, "DATABRICKS_HOST", _require_token(token, "DATABRICKS_TOKEN"))
    client, secret = (
        environment.get("DATABRICKS_CLIENT_ID", "").strip(),
        environment.get("DATABRICKS_CLIENT_SECRET", "").strip(),
    )
    if client and secret:
        return CatalogProfile(endpoint, "DATABRICKS_HOST", "", f"{endpoint}/oidc/v1/token", client, secret)
    raise UsageError(
        "DATABRICKS_HOST is set, but no credentials",
        code=CODE,
        facts={"needed": "DATABRICKS_TOKEN, or DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET"},
    )


def _require_url(text: str, name: str) -> str:
    """Return an endpoint. Raises UsageError unless it is https, or http on this machine."""
    text = text.strip()
    url = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        parts, has_port = urlsplit(""), False
    is_plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    has_more = "@" in parts.netloc or "?" in url or "#" in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port or not is_plain or has_more:
        raise UsageError(f"{name} is not an https URL", code=CODE, facts={"expected": "https://HOST"})
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise UsageError(
            f"{name} is plain http: the token would be sent unencrypted",
            code=CODE,
            facts={"found": f"http://{parts.hostname}", "expected": "https"},
        )
    return url.rstrip("/").removesuffix(_BASE).rstrip("/")


def _require_token(token: str, name: str) -> str:
    if token and not is_header_text(token):
        raise UsageError(f"{name} contains characters that are invalid in a token", code=CODE)
    return token


def is_header_text(text: str) -> bool:
    """Return True for a text that a header can contain."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
