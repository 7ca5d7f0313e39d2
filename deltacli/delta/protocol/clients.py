"""What is known about clients: which features each can read and write, since which version, and the source.

Each fact has its source and the day it was checked. Facts that were neither measured nor documented are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from deltacli.typing import Json


class Knowledge(NamedTuple):
    """What a client does with a feature from a version on. `read_from`, `write_from` are None if no version does."""

    client: str
    feature: str
    read_from: str | None
    write_from: str | None
    source: str
    as_of: str


_DELTA_DOCS = "docs.delta.io, Delta type widening"
_DATABRICKS_DOCS = "docs.databricks.com, Type widening"

_ONLY_QUERIES = "measured: 1.6.6 reads by its query engine, and to_pyarrow_table refuses"

KNOWN: tuple[Knowledge, ...] = (
    Knowledge("Delta Lake for Spark", "typeWidening", "4.0", "4.0", _DELTA_DOCS, "2026-11"),
    Knowledge("Delta Lake for Spark", "typeWidening-preview", "3.2", "3.2", _DELTA_DOCS, "2026-11"),
    Knowledge("Delta Lake for Spark", "timestampNtz", "2.4", "2.4", "docs.delta.io, feature compatibility", "2026-11"),
    Knowledge("Databricks Runtime", "typeWidening", "15.4", "15.4", _DATABRICKS_DOCS, "2026-11"),
    Knowledge("deltalake (delta-rs)", "typeWidening", None, None, "measured: 1.6.6 refuses", "2026-08"),
    Knowledge("deltalake (delta-rs)", "typeWidening-preview", None, None, "measured: 1.6.6 refuses", "2026-08"),
    Knowledge("duckdb delta", "typeWidening", "1.5.5", None, "measured: 1.5.5 reads, and does not write", "2026-11"),
    Knowledge("duckdb delta", "timestampNtz", "1.5.5", None, "measured: 1.5.5 reads, and does not write", "2026-11"),
    Knowledge("polars", "typeWidening", None, None, "measured: 2.1 refuses", "2026-08"),
    Knowledge("Delta Lake for Spark", "columnMapping", "2.3", "2.3", "docs.delta.io, table features", "2026-11"),
    Knowledge("deltalake (delta-rs)", "columnMapping", "1.6.6", None, _ONLY_QUERIES, "2026-11"),
    Knowledge("duckdb delta", "columnMapping", "1.5.5", None, "measured: 1.5.5 reads, and does not write", "2026-11"),
)

_NO_CAST = "measured: 1.5.5 cannot parse the older partition values"

HINDRANCES: tuple[Knowledge, ...] = (
    Knowledge("duckdb delta", "widen.partition-date", None, None, _NO_CAST, "2026-11"),
    Knowledge("duckdb delta", "widen.partition-decimal", None, None, _NO_CAST, "2026-11"),
)
"""What clients do with a change of types that they otherwise read: `feature` is the code of the warning."""


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """Whether some version of a client reads and writes a table with more features (None: unknown), from which version
    on, and the source.
    """

    name: str
    reads: bool | None
    writes: bool | None
    since: str | None
    sources: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "reads": self.reads,
            "writes": self.writes,
            "from": self.since,
            "sources": list(self.sources),
        }


def access_of(added: Sequence[str], warnings: Sequence[str] = ()) -> tuple[ClientAccess, ...]:
    """Return the effect on each client with known facts when all these features are added, and when a change has these
    warnings.
    """
    hindrances = [known for known in HINDRANCES if known.feature in warnings]
    clients = dict.fromkeys(known.client for known in KNOWN if known.feature in added)
    clients |= dict.fromkeys(known.client for known in hindrances)
    return tuple(_hindered(_access(client, added), hindrances) for client in clients)


def _hindered(access: ClientAccess, hindrances: Sequence[Knowledge]) -> ClientAccess:
    """Return the effect on a client that does not support the change itself."""
    own = [known for known in hindrances if known.client == access.name]
    if not own:
        return access
    sources = dict.fromkeys(f"{known.source} ({known.as_of})" for known in own)
    return replace(access, reads=False, writes=False, since=None, sources=(*access.sources, *sources))


def _access(client: str, added: Sequence[str]) -> ClientAccess:
    by_feature = {known.feature: known for known in KNOWN if known.client == client}
    entries = [by_feature.get(feature) for feature in added]
    told = [known for known in entries if known is not None]
    reads = _all_of([None if known is None else known.read_from is not None for known in entries])
    writes = _all_of([None if known is None else known.write_from is not None for known in entries])
    versions = [known.read_from for known in told if known.read_from is not None]
    since = max(versions, key=_numbers) if reads and versions else None
    return ClientAccess(client, reads, writes, since, tuple(f"{known.source} ({known.as_of})" for known in told))


def _all_of(answers: Sequence[bool | None]) -> bool | None:
    """Return False if one is false, else None if one is unknown."""
    if False in answers:
        return False
    return None if None in answers else True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
