"""The statistics of data files that exist, and the judgement about those that the log has.

Whether the statistics that the log has are wrong is decided by the comparison that `validate` reports, so that both
give the same answer: NaN, infinities and years beyond four digits are right bounds, although none of them is written
here.

Spec: Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import DataType
from deltacli.delta.stats.merged import UNJUDGED, Judgement
from deltacli.delta.stats.schema import ColumnPath
from deltacli.rules.framework.data_file_views import LiveAdds
from deltacli.rules.framework.views import OF_CHECKPOINT
from deltacli.rules.statistics.compared import Comparison
from deltacli.work.facts.footer_files import ListedFile
from deltacli.work.rows.deletion_vectors import Descriptor

WANTED = "wanted"
"""The name of the shared `WantedStatistics`."""


@dataclass(frozen=True)
class WantedStatistics:
    """The columns that get statistics, by physical path and type, of a table of this configuration."""

    config: TableConfiguration
    columns: tuple[tuple[ColumnPath, DataType], ...]


class StatsPiece(NamedTuple):
    """Some files.

    Attributes:
        files: Their paths and sizes.
        vectors: The deletion vector of each file; None without one.
        stats: The statistics that the log has of each file; None without any.
    """

    files: tuple[ListedFile, ...]
    vectors: tuple[Descriptor | None, ...]
    stats: tuple[str | None, ...]


class FileStatistics(NamedTuple):
    """The statistics of one file as JSON; empty where it could not be read, or its columns are not known: `code` is the
    rule that it breaks, and `reason` says how. `judgement` is about those that the log has.
    """

    text: str = ""
    code: str = ""
    reason: str = ""
    judgement: Judgement = UNJUDGED


def make_live_adds(
    files: Sequence[ListedFile], vectors: Sequence[Descriptor | None], stats: Sequence[str | None]
) -> LiveAdds:
    """Return files as the rules see them; where in the log they are does not matter."""
    vector_type = action_schemas().add.field("deletionVector").type
    columns = {
        "path": pa.array([file.path for file in files], pa.string()),
        "stats": pa.array(stats, pa.string()),
        "deletionVector": pa.array(vectors, vector_type),
    }
    adds = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return LiveAdds(adds, [OF_CHECKPOINT] * len(files), [None] * len(files), "")


def make_judgements(compared: Comparison, absent: Sequence[Set[ColumnPath]]) -> list[Judgement]:
    """Return which statistics of each file its rows or its footer contradict."""
    bounds: list[set[ColumnPath]] = [set() for _ in absent]
    null_counts: list[set[ColumnPath]] = [set() for _ in absent]
    for fault in compared.faults():
        wrong = null_counts if fault.is_null_count else bounds
        wrong[fault.row].add(fault.path)
    return [Judgement(*each) for each in zip(bounds, null_counts, absent, strict=True)]
