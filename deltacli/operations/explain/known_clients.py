"""The table of facts about clients, which is data: `clients.json` in `delta/protocol`."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from deltacli.delta.protocol.clients import Client, ClientAccess, access_to_change, read_clients
from deltacli.delta.protocol.traits import USED


@cache
def known_clients() -> tuple[Client, ...]:
    """Return every client about which something is known, in the order of the table."""
    return read_clients(json.loads(files("deltacli.delta.protocol").joinpath("clients.json").read_bytes()))


def clients_after(
    added: Collection[str], warnings: Collection[str] = (), *, used: bool = False
) -> tuple[ClientAccess, ...]:
    """Return what a change means for each known client that gives a table these features, and has these warnings.
    `used`: the features are used as well.
    """
    traits = {*added, *(f"{feature}{USED}" for feature in added if used), *warnings}
    found = (access_to_change(client, traits) for client in known_clients()) if traits else ()
    return tuple(one for one in found if one is not None)
