"""What a new checkpoint may omit: expired tombstones and transactions.

Spec: Add File and Remove File; Transaction Identifiers; Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.log.state import SetTransaction
from deltacli.delta.protocol.intervals import TRANSACTION_RETENTION, deleted_file_retention_ms, parse_interval

if TYPE_CHECKING:
    import pyarrow


def tombstone_cutoff(properties: Mapping[str, str], now_ms: int) -> int:
    """A remove whose deletionTimestamp is greater than this (epoch milliseconds) must be kept."""
    return now_ms - deleted_file_retention_ms(properties)


def unexpired(removes: pyarrow.RecordBatch, cutoff_ms: int) -> pyarrow.RecordBatch:
    """Return the removes (`action_schemas().remove`) that must be kept. One without a deletionTimestamp has expired."""
    return pc.filter(removes, pc.greater(pc.fill_null(removes.column("deletionTimestamp"), 0), cutoff_ms))


def live_transactions(
    transactions: Iterable[SetTransaction], properties: Mapping[str, str], now_ms: int
) -> list[SetTransaction]:
    """Return the transactions that must be kept: all of them, unless the table limits their age.

    One without lastUpdated is kept, so that no stream writes a batch twice.
    """
    retention = parse_interval(properties.get(TRANSACTION_RETENTION) or "")
    if retention is None:
        return list(transactions)
    cutoff = now_ms - retention
    return [
        transaction
        for transaction in transactions
        if transaction.last_updated is None or transaction.last_updated > cutoff
    ]
