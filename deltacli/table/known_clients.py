"""Find the clients, such as Spark or delta-rs, that a change of a table affects.

A trait is a property of a table that some client does not support: a table feature such as
`columnMapping`, a feature in use (`columnMapping.used`), or a property such as "a column has the
type map". `clients.json` in `delta/protocol` and in `paimon` records for each client and trait
whether the client can read and write a table with the trait.
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
    """Return the clients of Delta tables, in the order of `clients.json`."""
    return _read_clients_of("deltacli.delta.protocol")


@cache
def read_paimon_clients() -> tuple[clients.Client, ...]:
    """Return the clients of Paimon tables, in the order of `clients.json`."""
    return _read_clients_of("deltacli.paimon")


def _read_clients_of(package: str) -> tuple[clients.Client, ...]:
    return clients.read_clients(json.loads(files(package).joinpath("clients.json").read_bytes()))


def find_affected_clients(
    added: Collection[str], warnings: Collection[str] = (), *, used: bool = False, before: Collection[str] = ()
) -> tuple[clients.ClientAccess, ...]:
    """Return the access of each client after features are added to a table. Clients that lose access come first.

    Args:
        added: Names of the features that the change adds.
        warnings: Codes of the warnings about the change. Codes that are also traits are included in
            the traits of the table, and others are ignored.
        used: True if the change also uses the features: the traits `FEATURE.used` are added.
        before: The traits of the table before the change.

    Returns:
        One entry for each client with known facts about the traits. Empty if the change adds no
        trait.
    """
    traits = {*added, *clients.TRAIT_DESCRIPTIONS.keys() & warnings}
    if used:
        traits |= {f"{feature}{clients.USED_SUFFIX}" for feature in added}
    if not traits:
        return ()
    changes = [clients.determine_access_after_change(client, traits, before) for client in read_known_clients()]
    known_changes = [change for change in changes if change is not None]
    return tuple(sorted(known_changes, key=lambda change: (not change.loses_reads, not change.loses_writes)))


def find_regaining_clients(
    before: TableConfiguration, after: TableConfiguration, traits: Collection[str]
) -> tuple[clients.ClientAccess, ...]:
    """Return the clients that can read or write a table again after features are dropped.

    Args:
        before: The configuration with the features.
        after: The configuration without the features.
        traits: The traits of the version before the drop. Traits of data files remain after the
            drop.

    Returns:
        The access of each of these clients after the drop.
    """
    remaining_traits = clients.find_remaining_traits(traits, before, after)
    regaining = []
    for client in read_known_clients():
        old_access = clients.determine_access(client, traits)
        new_access = clients.determine_access(client, remaining_traits)
        regains_reads = new_access.reads and not old_access.reads
        regains_writes = new_access.writes and not old_access.writes
        if regains_reads or regains_writes:
            regaining.append(new_access)
    return tuple(regaining)
