"""Tell which clients can read and write a table, by tables of facts about clients.

The facts are data: `clients.json` in `delta/protocol` and in `paimon`.
"""

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
    return _read_clients_of("deltacli.delta.protocol")


@cache
def read_paimon_clients() -> tuple[clients.Client, ...]:
    """Return every client of Paimon tables about which something is known, in the order of the table."""
    return _read_clients_of("deltacli.paimon")


def _read_clients_of(package: str) -> tuple[clients.Client, ...]:
    return clients.read_clients(json.loads(files(package).joinpath("clients.json").read_bytes()))


def find_affected_clients(
    added: Collection[str], warnings: Collection[str] = (), *, used: bool = False, before: Collection[str] = ()
) -> tuple[clients.ClientAccess, ...]:
    """Return what a change means for each known client, first for those that lose access.

    Args:
        added: The features that the change gives a table.
        warnings: Warnings about the change. Those that are no trait of a table say nothing of clients.
        used: True if the features are used as well.
        before: The traits of the table before the change.
    """
    traits = {*added, *clients.OTHERS.keys() & warnings}
    if used:
        traits |= {f"{feature}{clients.USED}" for feature in added}
    if not traits:
        return ()
    changes = [clients.access_to_change(client, traits, before) for client in read_known_clients()]
    accesses = [access for access in changes if access is not None]
    return tuple(sorted(accesses, key=lambda access: (not access.loses_reads, not access.loses_writes)))


def find_regaining_clients(
    before: TableConfiguration, after: TableConfiguration, had: Collection[str]
) -> tuple[clients.ClientAccess, ...]:
    """Return the clients that read or write a table again once features are dropped, with what they do then.

    Args:
        before: The configuration with the features.
        after: The configuration without them.
        had: The traits of the version before, those of its files included: they stay.
    """
    has = clients.traits_without(had, before, after)
    regaining = []
    for client in read_known_clients():
        old = clients.access(client, had)
        new = clients.access(client, has)
        if (new.reads and not old.reads) or (new.writes and not old.writes):
            regaining.append(new)
    return tuple(regaining)
