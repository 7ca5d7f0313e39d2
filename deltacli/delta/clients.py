"""What is known of clients: which features each can read and write, since which version, and who says so.

A table of facts, each with its source and the day it was looked at; what nobody measured or wrote down is not in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Knowledge(NamedTuple):
    """What a client does with a feature from a version on. `read_from`, `write_from` are None where no version does."""

    client: str
    feature: str
    read_from: str | None
    write_from: str | None
    source: str
    as_of: str


_DELTA_DOCS = "docs.delta.io, Delta type widening"
_DATABRICKS_DOCS = "docs.databricks.com, Type widening"

KNOWN: tuple[Knowledge, ...] = (
    Knowledge("Delta Lake for Spark", "typeWidening", "4.0", "4.0", _DELTA_DOCS, "2026-11"),
    Knowledge("Delta Lake for Spark", "typeWidening-preview", "3.2", "3.2", _DELTA_DOCS, "2026-11"),
    Knowledge("Delta Lake for Spark", "timestampNtz", "2.4", "2.4", "docs.delta.io, feature compatibility", "2026-11"),
    Knowledge("Databricks Runtime", "typeWidening", "15.4", "15.4", _DATABRICKS_DOCS, "2026-11"),
    Knowledge("deltalake (delta-rs)", "typeWidening", None, None, "measured: 1.6.6 refuses", "2026-08"),
    Knowledge("deltalake (delta-rs)", "typeWidening-preview", None, None, "measured: 1.6.6 refuses", "2026-08"),
    Knowledge("duckdb delta", "typeWidening", "1.5.5", None, "measured: 1.5.5 reads, and does not write", "2026-11"),
    Knowledge("polars", "typeWidening", None, None, "measured: 2.1 refuses", "2026-08"),
)


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """Whether some version of a client reads and writes a table that supports a feature, and from which on."""

    name: str
    feature: str
    reads: bool
    writes: bool
    since: str | None
    source: str
    as_of: str

    def as_json(self) -> dict[str, Any]:  # Any: JSON values
        return {
            "name": self.name,
            "feature": self.feature,
            "reads": self.reads,
            "writes": self.writes,
            "from": self.since,
            "source": self.source,
            "asOf": self.as_of,
        }


def access_of(added: Sequence[str], before: Collection[str]) -> tuple[ClientAccess, ...]:
    """What becomes of each known client where features are added; those that were supported before change nothing."""
    return tuple(
        ClientAccess(
            known.client,
            known.feature,
            known.read_from is not None,
            known.write_from is not None,
            known.read_from,
            known.source,
            known.as_of,
        )
        for feature in added
        if feature not in before
        for known in KNOWN
        if known.feature == feature
    )
