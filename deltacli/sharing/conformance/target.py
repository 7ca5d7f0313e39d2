"""What the user types: a URL with a profile, a profile alone, or `PROFILE#SHARE[.SCHEMA[.TABLE]]`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from deltacli.core.clock import Clock
from deltacli.core.errors import UsageError
from deltacli.core.hints import command, parameter
from deltacli.sharing.client.addresses import CODE, require_name
from deltacli.sharing.client.guards import Origin, origin_of
from deltacli.sharing.client.tables.share_storage import open_profile

_SCHEMES = ("http://", "https://")
Names = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server, what the header Authorization has for it, and the names to which a run is limited."""

    endpoint: str
    origin: Origin
    authorize: Callable[[], str]
    names: Names = (None, None, None)


def read_target(
    address: str, profile: str | None, clock: Clock, note: Callable[[str], None] | None = None
) -> ServerTarget:
    """Return the server of an address; `note` gets warnings about the profile. Raises UsageError, also where the token
    would go to another server than that of the profile.
    """
    place, names = split_names(address)
    is_url = place.lower().startswith(_SCHEMES)
    if is_url and profile is None:
        raise UsageError(
            f"the token for {place} is missing",
            code="share.profile",
            facts={"expected": parameter("share test.profile", "FILE")},
            hint=command("share test", address, profile="FILE"),
        )
    if not is_url and profile is not None and profile != place:
        raise UsageError(
            f"{place} is a profile, and {parameter('share test.profile')} names another one", code="share.profile"
        )
    connection = open_profile(profile or place, clock=clock, note=note)
    endpoint = connection.endpoint
    if is_url:
        endpoint = _require_same_origin(place, connection.origin)
    credentials = connection.credentials
    assert credentials is not None  # those of the profile
    return ServerTarget(endpoint.rstrip("/"), connection.origin, credentials.authorization, names)


def split_names(address: str) -> tuple[str, Names]:
    """Return the part before `#`, and share, schema and table. A file of that name wins; a share may contain dots.

    Raises UsageError.
    """
    place, mark, rest = address.rpartition("#")
    if not mark or os.path.lexists(os.path.expanduser(address)):
        return address, (None, None, None)
    parts = rest.rsplit(".", 2)
    if not place or not all(parts):
        raise UsageError(
            f"{address!r} is not an address", code=CODE, facts={"expected": "PROFILE#SHARE[.SCHEMA[.TABLE]]"}
        )
    found = [*map(require_name, parts), None, None][:3]
    return place, (found[0], found[1], found[2])


def _require_same_origin(url: str, of_profile: Origin) -> str:
    """Return the URL of an endpoint. Raises UsageError where a token of a profile would go to another server."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if origin_of(parts) is None or parts.query or parts.username is not None:
        raise UsageError(f"{url} is not the URL of an endpoint", code=CODE)
    if origin_of(parts) != of_profile:
        raise UsageError(
            "the profile is for another server, and its token is not sent elsewhere",
            code="share.profile",
            facts={"URL": url, "server of the profile": str(of_profile)},
            hint="pass the profile for that server",
        )
    return url
