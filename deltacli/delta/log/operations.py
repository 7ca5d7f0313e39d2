"""What the operation that a commit names means for the table. Spec: Commit Provenance Information."""

from __future__ import annotations

from collections.abc import Mapping

REPLACING_TABLE = ("REPLACE TABLE", "CREATE OR REPLACE", "CLONE", "RESTORE")
"""Beginnings of operations that begin the table anew, or bring the state of another version or table.

Delta for Spark gives the table another id in each of them, also in `… AS SELECT` and where a DataFrameWriterV2 replaces
a table. deltalake does in `CREATE OR REPLACE TABLE` and `RESTORE`. `REPLACE COLUMNS` is none of them: it changes the
schema only.
"""

_REPLACING_FILES = (*REPLACING_TABLE, "CREATE", "TRUNCATE", "CONVERT")


def states_table_replaced(commit_info: Mapping[str, object] | None) -> bool:
    """Return True if a commit states that it replaces, clones or restores the table.

    The schema, the files and the id of the table are then meant to differ from those before.

    Args:
        commit_info: The commitInfo action; None for a commit without one.
    """
    return _begins_with(commit_info, REPLACING_TABLE)


def states_files_replaced(commit_info: Mapping[str, object] | None) -> bool:
    """Return True if a commit states an operation after which no older file is live, or only restored ones."""
    return _begins_with(commit_info, _REPLACING_FILES)


def _begins_with(commit_info: Mapping[str, object] | None, operations: tuple[str, ...]) -> bool:
    # Any JSON value may be there: nothing checks the type of a field that only informs.
    operation = (commit_info or {}).get("operation")
    return isinstance(operation, str) and operation.upper().startswith(operations)
