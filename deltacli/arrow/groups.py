"""Groups of the rows of a table, as `Table.group_by` makes them, without importing Acero's module.

That module loads datasets, all of Arrow's file systems and TLS, which takes 60 ms of a command that takes 250
ms. If a pyarrow release defines the nodes of its engine elsewhere, it is imported instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def grouped(table: pyarrow.Table, keys: Sequence[str], wanted: Sequence[tuple[str, str]]) -> pyarrow.Table:
    """Return a row for each combination of the keys, in the order in which they occur first: the keys, then for each
    column and function (`sum`, `min`, `max`, `count`) a column like `size_sum`.
    """
    try:
        from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions
    except ImportError:
        return table.group_by(list(keys), use_threads=False).aggregate(list(wanted))
    functions = [([column], f"hash_{function}", None, f"{column}_{function}") for column, function in wanted]
    nodes = [
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("aggregate", AggregateNodeOptions(functions, keys=list(keys))),
    ]
    return Declaration.from_sequence(nodes).to_table(use_threads=False)
