"""Addresses of tables in a catalog, `uc://CATALOG.SCHEMA.TABLE`, of catalogs and schemas; and where a catalog is.

Names are taken as they are written, without any escapes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from deltacli.catalogs.base import TableName
from deltacli.core.errors import UsageError, command, nearest_name, parameter
from deltacli.core.hosts import is_loopback
from deltacli.core.units import plural
from deltacli.storage.secrets import remember_secrets

SCHEME = "uc://"
CODE = "usage.catalog"
FORM = "uc://CATALOG.SCHEMA.TABLE"
_LONGEST = 255
_SPECIAL = frozenset("*?[")


class Container(NamedTuple):
    """A catalog, or one of its schemas, and a pattern for the names of tables in it."""

    catalog: str
    schema: str | None = None
    pattern: str = "*"

    def __str__(self) -> str:
        return SCHEME + ".".join(filter(None, (self.catalog, self.schema)))


def is_address(text: str) -> bool:
    return text[: len(SCHEME)].lower() == SCHEME


def parse_table(text: str) -> TableName:
    """Return the three names of an address. Raises UsageError for any other text."""
    if is_root(text):
        raise _not_a_table(text, "it names no table")
    names = _names(text, FORM)
    if len(names) < 3 and not any(_SPECIAL & {*name} for name in names):
        raise _not_a_table(text, f"it has {plural(len(names), 'name')} instead of three")
    if len(names) != 3:
        raise _not_an_address(text, f"it has {plural(len(names), 'name')} instead of three", FORM)
    if any(_SPECIAL & {*name} for name in names):
        raise UsageError(
            f"{text} is a pattern, and this takes the address of one table", code=CODE, facts={"expected": FORM}
        )
    return TableName(*names)


def is_root(text: str) -> bool:
    """Return True for the address of all catalogs, `uc://`."""
    return text.lower() == SCHEME


def parse_container(text: str) -> Container:
    """Return a catalog, or a schema. Raises UsageError for any other text."""
    names = _names(text, form := "uc://, uc://CATALOG or uc://CATALOG.SCHEMA")
    if len(names) > 2 or any(_SPECIAL & {*name} for name in names):
        raise _not_an_address(text, "it names neither a catalog nor a schema", form)
    return Container(*names)


def parse_pattern(text: str) -> Container:
    """Return the schema of a pattern such as `uc://C.S.*`, with the pattern of its last name. Raises UsageError."""
    names = _names(text, form := "uc://CATALOG.SCHEMA.PATTERN")
    if len(names) != 3 or any(_SPECIAL & {*name} for name in names[:2]):
        raise _not_an_address(text, "only the last of its three names may be a pattern", form)
    return Container(*names)


def _names(text: str, form: str) -> list[str]:
    names = text[len(SCHEME) :].split(".")
    if not is_address(text):
        raise _not_an_address(text, f"it does not begin with {SCHEME}", form)
    for name in names:
        if not name:
            raise _not_an_address(text, "a name is empty", form)
        if not name.isprintable() or any(letter.isspace() or letter in "/\\" for letter in name):
            raise _not_an_address(text, "a name has a space, a slash or a character that is not printable", form)
        if len(name) > _LONGEST:
            raise _not_an_address(text[:80], f"a name has more than {_LONGEST} characters", form)
    return names


def _not_a_table(text: str, why: str) -> UsageError:
    """Return the error for all catalogs, a catalog or a schema in place of a table, with the command that lists it."""
    error = _not_an_address(text, why, FORM)
    error.hint = command("catalog ls", table=text)
    return error


def _not_an_address(text: str, why: str, form: str) -> UsageError:
    return UsageError(f"{text} is not an address of a catalog: {why}", code=CODE, facts={"expected": form})


# -- where a catalog is, and what to sign in with ----------------------------------------------------------------------

KEYS = ("endpoint", "token", "oauth-uri", "client-id", "client-secret")
"""Keys of a catalog in the configuration."""
SECRET_KEYS = ("token", "client-secret")
_BASE = "/api/2.1/unity-catalog"
ENDPOINT = "UC_ENDPOINT"
"""The variable with the endpoint of a catalog, beside that of its token."""
DATABRICKS_HOST = "DATABRICKS_HOST"
"""The variable with the workspace of Databricks."""


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
        return self.endpoint + _BASE

    @property
    def is_local(self) -> bool:
        return is_loopback(urlsplit(self.endpoint).hostname or "")


def profile_of(
    given: Mapping[str, str] | None, environment: Mapping[str, str] | None = None, *, source: str | None = None
) -> CatalogProfile:
    """Return the profile with the keys `KEYS` of `source`, else that of the environment. Raises UsageError."""
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
            raise UsageError(f"{where} has an unknown key: {key}", code=CODE, facts={"known": ", ".join(KEYS)}).suggest(
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
    endpoint = _require_url(host, DATABRICKS_HOST)
    if token := environment.get("DATABRICKS_TOKEN", "").strip():
        return CatalogProfile(endpoint, DATABRICKS_HOST, _require_token(token, "DATABRICKS_TOKEN"))
    client, secret = (
        environment.get("DATABRICKS_CLIENT_ID", "").strip(),
        environment.get("DATABRICKS_CLIENT_SECRET", "").strip(),
    )
    if client and secret:
        return CatalogProfile(endpoint, DATABRICKS_HOST, "", f"{endpoint}/oidc/v1/token", client, secret)
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
