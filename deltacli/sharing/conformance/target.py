"""What the user types: a URL with a profile, a profile alone, or `PROFILE#SHARE[.SCHEMA[.TABLE]]`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from deltacli.errors import UsageError
from deltacli.sharing.configuration.profiles import Profile, problems_of, read_profile
from deltacli.sharing.configuration.settings import is_loopback

_SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the names to which a run is limited. `warnings` are about the profile."""

    endpoint: str
    token: str = field(repr=False)
    names: tuple[str | None, str | None, str | None] = (None, None, None)
    warnings: tuple[str, ...] = ()


def read_target(address: str, profile: str | None, now_ms: int) -> Target:
    """Return the server of an address. Raises UsageError, also where the token would go to another server than that of
    the profile, or unencrypted over a network.
    """
    place, names = split_names(address)
    is_url = place.startswith(_SCHEMES)
    if is_url and profile is None:
        raise UsageError(
            "the profile is missing, which has the token", code="share.profile", hint=f"{address} --profile FILE"
        )
    if not is_url and profile is not None and profile != place:
        raise UsageError(f"{place} is a profile, and --profile names another one", code="share.profile")
    found = read_profile(Path(profile or place))
    problems = problems_of(found, now_ms)
    errors = [problem.message for problem in problems if problem.is_error]
    if errors:
        raise UsageError(
            f"the profile {found.path} cannot be used: {errors[0]}",
            code="share.profile",
            hint=f"deltacli share profile check {found.path}",
        )
    endpoint = str(found.endpoint)
    if is_url:
        _require_same_origin(place, endpoint)
        endpoint = place
    _require_encryption(endpoint)
    warnings = tuple(problem.message for problem in problems)
    return Target(endpoint.rstrip("/"), _token_of(found), names, warnings)


def split_names(address: str) -> tuple[str, tuple[str | None, str | None, str | None]]:
    """Return the part before `#`, and share, schema and table. A file of that name wins; a share may contain dots."""
    place, separator, rest = address.rpartition("#")
    if not separator or os.path.exists(address):
        return address, (None, None, None)
    parts = rest.split(".")
    if not all(parts):
        raise UsageError(
            f"{rest or 'nothing'} after # is not a name",
            code="share.name",
            facts={"expected": "SHARE[.SCHEMA[.TABLE]]"},
        )
    if len(parts) > 2:
        return place, (".".join(parts[:-2]), parts[-2], parts[-1])
    return place, (parts[0], parts[1] if len(parts) > 1 else None, None)


def _token_of(profile: Profile) -> str:
    if profile.kind != "bearer_token":
        raise UsageError(
            f"the profile {profile.path} has credentials of the type {profile.kind}",
            code="share.profile",
            facts={"expected": "bearer_token"},
        )
    return str(profile.credentials["bearerToken"])


def _require_same_origin(url: str, endpoint: str) -> None:
    """Raise UsageError where the token of a profile would go to another server."""
    if _origin(url) != _origin(endpoint):
        raise UsageError(
            "the profile is of another server, and its token is not sent elsewhere",
            code="share.profile",
            facts={"URL": url, "endpoint of the profile": endpoint},
            hint="pass the profile of that server",
        )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as fault:
        raise UsageError(f"{url} is not a URL: {fault}", code="share.url") from fault
    return parts.scheme, parts.hostname, port or {"http": 80, "https": 443}.get(parts.scheme)


def _require_encryption(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise UsageError(
            f"the endpoint {endpoint} is plain http: everyone on the way could read the token",
            code="share.plain-http",
            facts={"expected": "https, except for addresses of this machine"},
        )
