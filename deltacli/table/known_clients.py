"""The tables of facts about clients, which are data: `clients.json` in `delta/protocol` and in `paimon`."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol import clients


@cache
def read_known_clients() -> tuple[clients.Client, ...]:
    """Return every client of Delta tables about which something is known, in the order of the table."""
    return _read("deltacli.delta.protocol")


@cache
def read_paimon_clients() -> tuple[clients.Client, ...]:
    """Return the clients of Paimon tables, like `read_known_clients`."""
    return _read("deltacli.paimon")


def _read(package: str) -> tuple[clients.Client, ...]:
    return clients.read_clients(json.loads(files(package).joinpath("clients.json").read_bytes()))


def find_affected_clients(
    added: Collection[str], warnings: Collection[str] = (), *, used: bool = False, before: Collection[str] = ()
) -> tuple[clients.ClientAccess, ...]:
    """Return what a change means for each known client that gives a table with the traits `before` these features,
    and has these warnings: first for those that lose access. `used`: the features are used as well. Warnings that are
    no trait of a table say nothing of clients.
    """
    traits = {*added, *(f"{feature}{clients.USED}" for feature in added if used), *clients.OTHERS.keys() & warnings}
    told = (clients.access_to_change(client, traits, before) for client in read_known_clients()) if traits else ()
    found = [one for one in told if one is not None]
    return tuple(sorted(found, key=lambda one: (not one.loses_reads, not one.loses_writes)))


def find_regaining_clients(
    before: TableConfiguration, after: TableConfiguration, had: Collection[str]
) -> tuple[clients.ClientAccess, ...]:
    """Return the clients that read or write a table again once features are dropped, with what they do then.

    `had` are the traits of the version before, those of its files included: they stay.
    """
    has = clients.traits_without(had, before, after)
    pairs = ((clients.access(client, had), clients.access(client, has)) for client in read_known_clients())
    return tuple(new for old, new in pairs if (new.reads and not old.reads) or (new.writes and not old.writes))
