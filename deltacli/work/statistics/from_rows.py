"""Compute the statistics of data files from their rows."""

from __future__ import annotations

import os
from dataclasses import dataclass

from deltacli.core.errors import DataUnreadable, PathExternal, StorageFailed
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import build_arrow_schema, file_schema, stored_columns
from deltacli.delta.stats.collect import (
    StatisticsCollector,
    StatisticsOfRows,
)
from deltacli.delta.stats.merged import UNJUDGED, states_the_same
from deltacli.rules.files.storage import SIZE_MISMATCH
from deltacli.rules.statistics.compared import compare_with_rows
from deltacli.work.facts.footer_files import ListedFile
from deltacli.work.rewrite.exactness import find_broken_rule
from deltacli.work.rewrite.sources import rename_columns
from deltacli.work.rows.claimed_statistics import ClaimedStatistics
from deltacli.work.rows.data_files import DataFile, ReadSpec, open_data_file
from deltacli.work.rows.deletion_vectors import Descriptor
from deltacli.work.rows.row_checks import make_nullable
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.statistics.file_statistics import (
    WANTED,
    FileStatistics,
    StatsPiece,
    WantedStatistics,
    make_judgements,
    make_live_adds,
)
from deltacli.work.task import TaskContext


@dataclass(frozen=True, slots=True)
class StatisticsFromRows:
    """Reads the rows of files. Bounds are those of rows that are not deleted."""

    def __call__(self, piece: StatsPiece, context: TaskContext) -> list[FileStatistics]:
        return [
            self._read(*file_and_add, context)
            for file_and_add in zip(piece.files, piece.vectors, piece.stats, strict=True)
        ]

    def _read(
        self, file: ListedFile, vector: Descriptor | None, stats: str | None, context: TaskContext
    ) -> FileStatistics:
        """Read the rows of one file, and judge the statistics that the log has by them.

        Args:
            file: Its path and size.
            vector: Its deletion vector.
            stats: Its statistics in the log.
            context: The context of the task.
        """
        wanted: WantedStatistics = context.shared(WANTED)
        config = wanted.config
        tops = {path[0] for path, _ in wanted.columns}
        stored = [field for field in stored_columns(config) if config.physical_name(field) in tops]
        fields = tuple(map(make_nullable, stored))
        schema = build_arrow_schema(fields)
        physical = file_schema(config, fields)
        spec = ReadSpec(fields, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
        data_file = DataFile(file.path, file.size, {}, vector)
        collector = StatisticsCollector(config, physical, columns=wanted.columns)
        question = ClaimedStatistics(config)
        try:
            with open_data_file(context.files, data_file) as opened:
                metadata = opened.parquet.metadata
                if file.size != (size := opened.source.seek(0, os.SEEK_END)):
                    return FileStatistics(code=SIZE_MISMATCH.id, reason=f"it has {size} bytes, not {file.size}")
                if (broken := find_broken_rule(config, opened)) is not None:
                    return FileStatistics(code=broken.rule.id, reason=broken.message)
                paths = {path for path, _ in wanted.columns}
                claims = [claim for claim in question.find_claims(stats, opened.schema) if claim.path in paths]
                rows_of_claims = StatisticsOfRows(claims)
                for batch in read_opened(context.files, spec, data_file, opened) if fields else ():
                    collector.take(rename_columns(batch, physical))
                    rows_of_claims.take(batch)
                absent = frozenset(path for path in paths if question.is_absent(opened.schema, path))
        except (DataUnreadable, StorageFailed, PathExternal) as fault:
            return FileStatistics(code=fault.code, reason=fault.facts.get("reason", fault.message))
        has_every_row = vector is None and bool(fields)
        file_rows = None if has_every_row else metadata.num_rows
        text = collector.text(is_tight=vector is None, file_rows=file_rows)
        if stats is None or states_the_same(stats, text):  # most files: a comparison of one takes as long as reading it
            return FileStatistics(text, judgement=UNJUDGED._replace(absent=absent))
        live = make_live_adds([file], [vector], [stats])
        compared = compare_with_rows(live, config, [rows_of_claims.answer()], [metadata.num_rows])
        (judgement,) = make_judgements(compared, [absent])
        return FileStatistics(text, judgement=judgement)
