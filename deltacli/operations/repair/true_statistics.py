"""The statistics that the rows of a data file have, and whether those in the log agree with them.

Spec: Per-file Statistics.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from deltacli.core.typing import Json
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import build_arrow_schema, file_schema, stored_columns
from deltacli.delta.stats.collect import StatisticsCollector
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT
from deltacli.work.rewrite.sources import rename_columns
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.rows.row_reader import read_rows
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    from deltacli.delta.log.state import TableConfiguration

_COMPARED = 23
"""Characters of texts that are compared: a time with milliseconds has so many, and no text is cut to fewer."""


def true_statistics(files: TableFiles, config: TableConfiguration, path: str, *, has_vector: bool) -> str:
    """Return the statistics of all rows of a file; with a vector they are not tight. Raises Unreadable."""
    columns = stored_columns(config)
    schema = build_arrow_schema(columns)
    wanted = ReadSpec(columns, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
    physical = file_schema(config, columns)
    collector = StatisticsCollector(config, physical)
    for batch in read_rows(files, wanted, DataFile(path, None)):
        collector.take(rename_columns(batch, physical))
    return collector.text(is_tight=not has_vector)


def is_true(claimed: str | None, true: str) -> bool:
    """Return whether each value that statistics claim is the true one. Texts and times may be cut."""
    try:
        ours, theirs = json.loads(claimed or ""), json.loads(true)
    except (ValueError, RecursionError):
        return False
    if not isinstance(ours, dict) or ours.get("numRecords") != theirs["numRecords"]:
        return False
    names = (*BOUNDS, NULL_COUNT)
    return all(_agree(ours.get(name) or {}, theirs.get(name, {})) for name in names)


def _agree(ours: Json, theirs: Json) -> bool:
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and all(_agree(value, theirs.get(name)) for name, value in ours.items())
    if isinstance(ours, str) and isinstance(theirs, str):
        length = min(len(ours), len(theirs), _COMPARED)
        return length > 0 and ours[:length] == theirs[:length]
    return bool(ours == theirs)
