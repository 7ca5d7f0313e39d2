"""The task that finds out how large a new file would be, by writing it to a temporary file."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from deltacli.delta.partitions.values import constants_of
from deltacli.delta.schema.file_schema import keeps_partition_columns
from deltacli.errors import DeltacliError
from deltacli.tempfiles import forget, remember
from deltacli.work.rewrite.exactness import SPEC
from deltacli.work.rewrite.new_files import write_file
from deltacli.work.rewrite.pieces import RewritePiece
from deltacli.work.rewrite.sources import SourceRefusedError, Sources
from deltacli.work.rewrite.spec import RewriteSpec
from deltacli.work.task import TaskContext


@dataclass(frozen=True, slots=True)
class MeasureRewrite:
    """Returns the bytes of the file that the live rows of a piece's files would become, as the shared `RewriteSpec`
    says; None where one of them cannot be read or kept exactly.
    """

    def __call__(self, piece: RewritePiece, context: TaskContext) -> int | None:
        """Return the bytes; nothing of the table is written."""
        spec: RewriteSpec = context.shared(SPEC)
        try:
            return _measured(spec, piece, context)
        except (DeltacliError, SourceRefusedError):
            return None


def _measured(spec: RewriteSpec, piece: RewritePiece, context: TaskContext) -> int | None:
    constants = {}
    if keeps_partition_columns(spec.config):
        constants = constants_of(piece.partition_values.items(), spec.config, piece.sources[0].file.path)
    sources = Sources(context.files, spec, constants)
    rows = (table for table in sources.tables(piece.sources) if table.num_rows)
    first = next(rows, None)
    size = 0
    if first is not None:
        place = Path(tempfile.mkdtemp(prefix="deltacli-"))
        remember(place)
        try:
            size = write_file(spec, str(place / "sample"), "a temporary file", chain([first], rows)).size_bytes
        finally:
            shutil.rmtree(place, ignore_errors=True)
            forget(place)
    return None if sources.refused else size
