"""Find the clients, such as Spark or delta-rs, that a change of a table affects.

A client may support only some tables. The properties of a table that matter are called its traits:

    columnMapping         the protocol lists the table feature
    columnMapping.used    the feature is in use: a column has been renamed or dropped, for example
    type.map              a column has the type map

`clients.json` in `delta/protocol` and in `paimon` records for each client and trait whether the client
can read and write a table with the trait. `TRAIT_DESCRIPTIONS` describes the traits that are not table
features.
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
    return _read_clients_from_package("deltacli.delta.protocol")


@cache
def read_paimon_clients() -> tuple[clients.Client, ...]:
    """Return the clients of Paimon tables, in the order of `clients.json`."""
    return _read_clients_from_package("deltacli.paimon")


def _read_clients_from_package(package: str) -> tuple[clients.Client, ...]:
    return clients.read_clients(json.loads(files(package).joinpath("clients.json").read_bytes()))


def find_affected_clients(
    added: Collection[str], warnings: Collection[str] = (), *, used: bool = False, before: Collection[str] = ()
) -> tuple[clients.ClientAccess, ...]:
    """Return the access of each client after features are added to a table. Clients that lose access come first.

    Args:
        added: Names of the features that the change adds.
        warnings: Codes of the warnings about the change. Some of them are names of traits, such as
            `type.void`: the table has these traits after the change. Other codes are ignored.
        used: True if the change also uses the features. Then the table has the traits `FEATURE.used`, too.
        before: The traits of the table before the change.

    Returns:
        One entry for each client with known facts about the traits. Empty if the change adds no
        trait.
    """
    traits_in_warnings = clients.TRAIT_DESCRIPTIONS.keys() & warnings
    traits = {*added, *traits_in_warnings}
    if used:
        traits |= {f"{feature}{clients.USED_SUFFIX}" for feature in added}
    if not traits:
        return ()
    accesses = [clients.determine_access_after_change(client, traits, before) for client in read_known_clients()]
    # None means that nothing is known about the traits and this client.
    known_accesses = [access for access in accesses if access is not None]
    return tuple(sorted(known_accesses, key=_order_by_loss))


def _order_by_loss(access: clients.ClientAccess) -> tuple[bool, bool]:
    """Return a sort key: clients that lose reads, clients that lose writes, other clients."""
    return not access.loses_reads, not access.loses_writes


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
    # Compare the access of each client before and after the drop.
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
