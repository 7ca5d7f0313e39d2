"""Examine Spark streaming queries and several tables. For the queries of one table, use `Table.streams`."""

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
    """Return Spark streaming queries, and whether each of them can continue with what several tables still contain.

    Args:
        tables: The tables. A checkpoint of a query only contains the ids of its tables, which are compared with the
            ids of these tables.
        open_store: Opens the store of a checkpoint directory.
        engine: Runs the parallel parts.
        checkpoints: Paths, URIs or glob patterns of the checkpoint directories.
        restart_point: Instead of `checkpoints`: the checkpoint directory of one query that cannot continue.
        leaves_out_others: Whether to omit queries that read none of the tables.
        progress: The listener for the progress.

    Raises:
        UsageError: If not exactly one of `checkpoints` and `restart_point` is passed, or a table is a shared table.
        Refused: If no query is found (`streams.none-found`).
        Unreadable: If a directory is not a checkpoint of a query (`streams.not-a-checkpoint`).
        NotATable: If a table does not exist.
        StorageFailed: If the store, or a source, fails.
    """
    from deltacli.operations.streams.streams import StreamsRequest
    from deltacli.operations.streams.streams import find_streams as find_streams_of_request

    request = StreamsRequest(checkpoints=checkpoints, restart_point=restart_point)
    return find_streams_of_request(
        request, tables, open_store, engine, is_one_table=leaves_out_others, progress=progress
    )


def make_paimon_refusal(error: PaimonTable) -> Refused:
    """Return the error for a Paimon table, whose streaming queries store their positions in consumer files of the
    table.
    """
    from deltacli.operations.streams.streams import refuse_paimon

    return refuse_paimon(error)
