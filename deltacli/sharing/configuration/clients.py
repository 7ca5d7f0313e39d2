"""Which clients of Delta Sharing can read a table, by the response formats and reader features that they send.

Each fact has its source and the month in which it was checked. Spec: Delta Sharing Capabilities Header.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from deltacli.typing import Json

_OLD = frozenset({"deletionVectors", "columnMapping"})
_NTZ = _OLD | {"timestampNtz"}


class Client(NamedTuple):
    """A client: the formats that it reads, and the features that it reads in delta format."""

    name: str
    formats: tuple[str, ...]
    features: frozenset[str]
    source: str
    as_of: str


CLIENTS = (
    Client("python", ("parquet", "delta"), _NTZ, "delta-sharing 1.4.1, its requests", "2026-11"),
    Client(
        "spark",
        ("parquet", "delta"),
        _NTZ | {"typeWidening", "variantType"},
        "delta-sharing-spark 4, its source",
        "2026-11",
    ),
    Client("duckdb", ("delta",), _OLD, "prequel-co/duckdb-delta-sharing, its source", "2026-11"),
    Client("node", ("parquet",), frozenset(), "nodejs-sharing-client, its source", "2026-11"),
    Client("power-bi", ("parquet",), frozenset(), "documentation of Delta Sharing", "2026-11"),
)
"""Other clients exist. One that is not listed reads what its formats and features allow."""


class ClientAccess(NamedTuple):
    """Whether a client reads a table: in which format, or what it lacks."""

    name: str
    format: str | None
    lacks: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        """Return True if the client reads the table."""
        return self.format is not None

    def as_json(self) -> dict[str, Json]:
        """Return the access for documents."""
        known: dict[str, Json] = {"name": self.name, "reads": self.reads}
        return known | ({"format": self.format} if self.reads else {"lacks": sorted(self.lacks)})


def access_of(client: Client, features: Collection[str], not_in_parquet: Collection[str]) -> ClientAccess:
    """Return the access of a client to a table that needs `features`, and whose parts `not_in_parquet` the parquet
    format cannot express.
    """
    if "parquet" in client.formats and not not_in_parquet:
        return ClientAccess(client.name, "parquet")
    if "delta" not in client.formats:
        return ClientAccess(client.name, None, tuple(not_in_parquet))
    lacking = tuple(name for name in features if name not in client.features)
    return ClientAccess(client.name, None if lacking else "delta", lacking)
