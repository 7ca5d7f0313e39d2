"""Opening shares: from the address of a table, or from a profile file, to something that answers questions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from deltacli.clock import Clock, system_clock
from deltacli.sharing.client.addresses import ShareAddress, parse_address
from deltacli.sharing.client.credentials import credentials_of, require_usable
from deltacli.sharing.client.limits import DEFAULTS, AnswerLimits
from deltacli.sharing.client.table_requests import TableRequests
from deltacli.sharing.client.tables.share_storage import ShareStorage
from deltacli.sharing.client.transport import Transport
from deltacli.sharing.configuration.profiles import read_profile
from deltacli.storage.retry import Retry


def open_profile(
    path: str | os.PathLike[str],
    *,
    retry: Retry | None = None,
    limits: AnswerLimits = DEFAULTS,
    clock: Clock = system_clock,
    note: Callable[[str], None] | None = None,
) -> Transport:
    """Return the connection of a profile file; nothing is sent yet. `note` gets warnings about the file.

    Raises UsageError for a profile that cannot be used.
    """
    profile = read_profile(Path(os.path.expanduser(path)))
    endpoint, origin, warnings = require_usable(profile, clock)
    for warning in warnings if note is not None else ():
        note(f"note: {warning}")  # type: ignore[misc]
    transport = Transport(endpoint, origin, retry=retry, limits=limits, clock=clock)
    transport.credentials = credentials_of(profile, transport.post_form, clock)
    return transport


def open_address(
    address: ShareAddress,
    *,
    retry: Retry | None = None,
    limits: AnswerLimits = DEFAULTS,
    clock: Clock = system_clock,
    note: Callable[[str], None] | None = None,
) -> ShareStorage:
    """Return the store of a shared table; nothing is sent yet. Raises UsageError for a profile that cannot be used."""
    transport = open_profile(address.profile, retry=retry, limits=limits, clock=clock, note=note)
    return ShareStorage(address, TableRequests(transport, address.name))


def open_share(
    text: str, *, retry: Retry | None = None, note: Callable[[str], None] | None = None
) -> ShareStorage | None:
    """Return the store of a shared table, None where the text is not an address of one. Raises UsageError."""
    address = parse_address(text) if "#" in text else None
    return None if address is None else open_address(address, retry=retry, note=note)
