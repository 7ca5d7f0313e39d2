"""Streaming queries of Spark that read several tables. For those of one table there is `Table.streams`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deltacli.core.errors import PaimonTable, Refused
from deltacli.core.progress import SILENT, Progress

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.operations.streams.streams import StreamsReport
    from deltacli.storage import Storage
    from deltacli.table.handle import TableHandle


def find_streams(
    tables: Sequence[TableHandle],
    open_store: Callable[[str], Storage],
    engine: Engine,
    *,
    checkpoints: Sequence[str] = (),
    restart_point: str | None = None,
    leaves_out_others: bool = False,
    progress: Progress = SILENT,
) -> StreamsReport:
    """Return streaming queries, and whether each can continue with what it needs of some tables.

    Args:
        tables: The tables that the queries may read. A checkpoint names a table by its id only.
        open_store: Opens the stores of checkpoint directories.
        engine: Runs the units of work.
        checkpoints: Checkpoint directories of queries, and patterns of them.
        restart_point: Instead of `checkpoints`: the checkpoint directory of one query.
        leaves_out_others: True to leave out queries that read none of the tables.
        progress: Receives the progress.

    Raises:
        UsageError: If neither or both of `checkpoints` and `restart_point` are given, or a table is one of a share.
        Refused: If no query is found (`streams.none-found`).
        Unreadable: If a directory is not a checkpoint of a query (`streams.not-a-checkpoint`).
        NotATable: If a table does not exist.
        StorageFailed: If a store fails.
    """
    from deltacli.operations.streams.streams import StreamsRequest
    from deltacli.operations.streams.streams import find_streams as find_streams_of_request

    request = StreamsRequest(checkpoints=checkpoints, restart_point=restart_point)
    return find_streams_of_request(
        request, tables, open_store, engine, is_one_table=leaves_out_others, progress=progress
    )


def make_paimon_refusal(error: PaimonTable) -> Refused:
    """Return the refusal for a Paimon table: its streams keep their positions in consumers."""
    from deltacli.operations.streams.streams import refuse_paimon

    return refuse_paimon(error)
