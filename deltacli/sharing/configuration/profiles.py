"""Profile files: what a recipient needs to connect. Spec: Delta Sharing, Profile File Format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from deltacli.core.documents import dumps
from deltacli.core.errors import UsageError
from deltacli.core.hints import command
from deltacli.core.loopback import is_loopback
from deltacli.core.typing import Json
from deltacli.core.units import DAY_MS, EPOCH, format_age, format_timestamp
from deltacli.sharing.configuration.bearer_tokens import has_token_form, is_intact
from deltacli.sharing.configuration.private_files import others_may_read, write_private
from deltacli.sharing.model import Problem

CODE = "share.profile"
_HINT = "ask the provider of the share for a profile file"
SOON_MS = 7 * DAY_MS
_MOST_BYTES = 1024 * 1024
_VERSIONS = (1, 2)
_SECRETS = frozenset({"bearerToken", "clientSecret", "password", "privateKey"})
_TYPES_V2 = ("bearer_token", "oauth_client_credentials", "oauth_jwt_bearer_private_key_jwt", "basic")


@dataclass(frozen=True)
class Profile:
    """A profile as it was found; `credentials` are in no text that is made of it."""

    path: Path
    version: object
    endpoint: object
    kind: str
    expiration: object
    credentials: dict[str, object] = field(repr=False)
    is_readable_by_others: bool = False

    @property
    def expires_ms(self) -> int | None:
        """Return when the token expires, None if the profile has no valid time."""
        return parse_expiration(self.expiration)

    def as_json(self) -> dict[str, Json]:
        """Return the profile for documents, without secrets."""
        expires_ms = self.expires_ms
        return {
            "profile": str(self.path),
            "shareCredentialsVersion": self.version if isinstance(self.version, int) else None,
            "endpoint": self.endpoint if isinstance(self.endpoint, str) else None,
            "type": self.kind,
            "secrets": sorted(name for name in self.credentials if name in _SECRETS),
            **({} if expires_ms is None else {"expiresMs": expires_ms, "expires": format_timestamp(expires_ms)}),
            "readableByOthers": self.is_readable_by_others,
        }


def profile_content(endpoint: str, token: str, expires_ms: int | None) -> bytes:
    """Return the content of a profile file."""
    expiration = {} if expires_ms is None else {"expirationTime": format_timestamp(expires_ms)}
    profile = {"shareCredentialsVersion": 1, "endpoint": f"{endpoint.rstrip('/')}/", "bearerToken": token}
    return dumps({**profile, **expiration}, indent=True) + b"\n"


def write_profile(path: Path, endpoint: str, token: str, expires_ms: int | None) -> None:
    """Write a profile file of mode 0600. Raises StorageFailed, and UsageError where the file exists."""
    if not write_private(path, profile_content(endpoint, token, expires_ms), replace=False):
        raise UsageError(
            f"the profile {path} exists, and is not replaced",
            code=CODE,
            hint=command("share profile show", path),
        )


def read_profile(path: Path) -> Profile:
    """Return a profile. Raises UsageError for a file that is not one, without quoting it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        is_readable = others_may_read(path)
    except (OSError, ValueError) as fault:
        reason = (getattr(fault, "strerror", None) or "invalid path").lower()
        raise UsageError(f"the profile {path} cannot be read: {reason}", code=CODE, hint=_HINT) from fault
    try:
        document = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or "shareCredentialsVersion" not in document:
        raise UsageError(
            f"{path} is not a profile: it is not a JSON object with shareCredentialsVersion", code=CODE, hint=_HINT
        )
    kind = document.get("type", "bearer_token")
    names = ("shareCredentialsVersion", "endpoint", "expirationTime", "type")
    return Profile(
        path=path,
        version=document["shareCredentialsVersion"],
        endpoint=document.get("endpoint"),
        kind=kind if isinstance(kind, str) else "unknown",
        expiration=document.get("expirationTime"),
        credentials={name: value for name, value in document.items() if name not in names},
        is_readable_by_others=is_readable,
    )


def problems_of(profile: Profile, now_ms: int) -> list[Problem]:
    """Return what is wrong with a profile, errors first."""
    found = [*_version_problems(profile), *_endpoint_problems(profile), *_token_problems(profile)]
    found += [*_expiry_problems(profile, now_ms), *_permission_problems(profile)]
    return sorted(found, key=lambda problem: not problem.is_error)


def parse_expiration(value: object) -> int | None:
    """Return an `expirationTime` in epoch milliseconds, None for no or an invalid one. Without an offset it is UTC."""
    if not isinstance(value, str):
        return None
    text = re.sub(r"\.([0-9]{1,9})", lambda match: f".{match[1][:6]:0<6}", value.strip())
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def _version_problems(profile: Profile) -> Iterator[Problem]:
    if profile.version not in _VERSIONS or isinstance(profile.version, bool):
        yield Problem("profile.version", "shareCredentialsVersion is neither 1 nor 2, so clients refuse the profile")
    elif profile.version == 2 and profile.kind not in _TYPES_V2:
        yield Problem("profile.type", "the type of credentials is unknown")


def _endpoint_problems(profile: Profile) -> Iterator[Problem]:
    try:
        parts = urlsplit(profile.endpoint) if isinstance(profile.endpoint, str) else None
        host = parts.hostname if parts and parts.scheme in ("http", "https") else None
    except ValueError:
        parts = host = None
    if parts is None or host is None:
        yield Problem("profile.endpoint", "the endpoint is not an http or https URL")
    elif parts.username is not None:
        yield Problem("profile.endpoint", "the endpoint contains a user name, which clients ignore or leak")
    elif parts.scheme == "http" and not is_loopback(host):
        yield Problem("profile.plain-http", "the endpoint is plain http: the token is sent unencrypted", is_error=False)


def _token_problems(profile: Profile) -> Iterator[Problem]:
    if profile.kind != "bearer_token":
        return
    token = profile.credentials.get("bearerToken")
    if not isinstance(token, str) or not token:
        yield Problem("profile.token", "the profile has no bearerToken")
    elif not token.isascii() or not token.isprintable() or " " in token:
        yield Problem("profile.token", "the bearerToken has characters that a header cannot contain")
    elif has_token_form(token) and not is_intact(token):
        yield Problem("profile.token", "the bearerToken is incomplete or mistyped: its checksum is wrong")


def _expiry_problems(profile: Profile, now_ms: int) -> Iterator[Problem]:
    if profile.expiration is None:
        return
    expires_ms = profile.expires_ms
    if expires_ms is None:
        yield Problem("profile.expiration", "expirationTime is not a time in ISO 8601")
    elif expires_ms <= now_ms:
        yield Problem("profile.expired", f"the token expired {format_age(expires_ms, now_ms)}")
    elif expires_ms - now_ms < SOON_MS:
        yield Problem("profile.expires-soon", f"the token expires {format_age(expires_ms, now_ms)}", is_error=False)


def _permission_problems(profile: Profile) -> Iterator[Problem]:
    if profile.is_readable_by_others:
        yield Problem("profile.permissions", "other users of this machine can read the file", is_error=False)
