"""What the server refuses to start with: settings that show data to everyone, or tokens to everyone on the way."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from deltacli.hints import command, parameter
from deltacli.loopback import is_loopback
from deltacli.sharing.configuration.settings import Settings


class StartRefusal(NamedTuple):
    """Why the server does not start, and what to do."""

    code: str
    message: str
    hint: str


def refusals_to_start(settings: Settings, *, is_authenticated: bool) -> tuple[StartRefusal, ...]:
    """Return why a server with these settings must not start; empty if it may. Addresses are not resolved.

    Behind a proxy, and with an https URL that recipients use, plain HTTP is accepted on any address: the proxy has the
    certificate.
    """
    is_local = is_loopback(settings.host)
    refusals = []
    if not is_authenticated and not (is_local and _is_local_url(settings.public_url)):
        refusals.append(
            StartRefusal(
                "share.unauthenticated",
                f"requests on {settings.host} would need no token, and other machines can connect to it",
                "set recipients in the configuration, then: "
                f"{command('share token create', 'NAME')}; or use {parameter('share serve.host', '127.0.0.1')}",
            )
        )
    if settings.tls is not None and settings.tls.self_signed:
        refusals.append(
            StartRefusal(
                "share.self-signed",
                "ssl.selfSigned is not supported: clients cannot verify such a certificate",
                "set ssl.certificateFile and ssl.certificateKeyFile; clients must trust the certificate",
            )
        )
    if settings.tls is None and not is_local and not _is_behind_tls(settings):
        refusals.append(
            StartRefusal(
                "share.plain-http",
                f"plain HTTP on {settings.host} would show tokens and data to everyone on the way",
                f"set ssl; or publicUrl with https, a reverse proxy, and {parameter('share serve.behind_proxy')}",
            )
        )
    return tuple(refusals)


def _is_behind_tls(settings: Settings) -> bool:
    return settings.behind_proxy and urlsplit(settings.public_url or "").scheme == "https"


def _is_local_url(url: str | None) -> bool:
    """Return True for no URL and for one of this machine: with another one, a proxy makes the server public."""
    return url is None or is_loopback(urlsplit(url).hostname or "")
