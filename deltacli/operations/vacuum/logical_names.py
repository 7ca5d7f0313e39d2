"""Candidates of a vacuum that have columns under their logical names, in a table with column mapping.

Every engine has read such a column as null. So a rewrite, an UPDATE or a MERGE has written nulls into the file that
replaced it, and the file that a vacuum would delete has the only copy of the values.

Whether a file is one of these, its footer tells, and the log where a column was dropped. A footer that cannot be read
because of the store leaves the file in doubt; one that is no footer of Parquet shows no column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from deltacli.core.errors import Unreadable
from deltacli.core.lock_free_property import cached_property
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowField, ArrowTable
from deltacli.delta.footers.columns import read_schema
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.paths.spelling import encode
from deltacli.delta.schema.misnamed_fields import find_misnamed_fields, has_only_known_fields
from deltacli.delta.schema.types import MODE, NO_COLUMNS, StructField, parse_schema
from deltacli.operations.vacuum.plan import Reason
from deltacli.rules.framework.base import UNREAD
from deltacli.table.handle import TableHandle
from deltacli.work.facts.footer_files import FooterPiece, ListedFile, ReadFooters

if TYPE_CHECKING:
    from deltacli.work.facts.footer_files import FooterRead

_NEAR_FILES_A_PIECE, _FAR_FILES_A_PIECE = 256, 8
"""Footers that take about a third of a second together, as in `validate --level footers`."""


class UnmappedSchemas(NamedTuple):
    """The schemas that a table had before column mapping.

    Attributes:
        fields: The columns of each schema.
        until_version: The version from which on the table has column mapping.
    """

    fields: tuple[tuple[StructField, ...], ...]
    until_version: int


class MisnamedSchema(NamedTuple):
    """The columns of files, and what is wrong with the first of them that has a logical name."""

    file_fields: tuple[ArrowField, ...]
    description: str


class LogicalNameFinder:
    """Finds the candidates that have a column under its logical name, so that nobody has read its values."""

    def __init__(self, table: TableHandle, config: TableConfiguration) -> None:
        """`config` is that of the newest version."""
        self._table = table
        self._config = config
        self._known: dict[bytes, MisnamedSchema | None] = {}

    def explain(self, rows: ArrowTable) -> list[str | None]:
        """Return for each candidate why it must be kept, None if it may be deleted.

        Args:
            rows: The candidates, with `path`, `sizeBytes`, `reason` and `removedAtVersion`. Nothing is read for files
                of deletion vectors and change data, and for a table without column mapping.

        Raises:
            StorageFailed: If the log cannot be read to decide.
        """
        reasons: list[str | None] = [None] * rows.num_rows
        if self._config.mapping_mode == "none" or not rows.num_rows:
            return reasons
        kinds = rows.column("reason").to_pylist()
        chosen = [row for row, kind in enumerate(kinds) if kind not in (Reason.VECTOR.value, Reason.CHANGE_DATA.value)]
        paths = [path.decode("utf-8", "surrogateescape") for path in rows.column("path").to_pylist()]
        sizes = rows.column("sizeBytes").to_pylist()
        removed_at = rows.column("removedAtVersion").to_pylist()

        files = (_list_file(paths[row], sizes[row]) for row in chosen)
        unread: list[int] = []
        for row, read in zip(chosen, self._read_footers(files), strict=True):
            reasons[row] = self._explain_file(read, removed_at[row])
            if read[0] is None:
                unread.append(row)

        # A vacuum without a listing has the sizes of the log, which may be missing or wrong.
        actual_sizes, _ = self._table.storage.stat_many([paths[row] for row in unread])
        actual = dict(zip(unread, actual_sizes, strict=True))
        others = [row for row in unread if actual[row] >= 0 and actual[row] != sizes[row]]
        files = (_list_file(paths[row], actual[row]) for row in others)
        for row, read in zip(others, self._read_footers(files), strict=True):
            reasons[row] = self._explain_file(read, removed_at[row])
        return reasons

    def _read_footers(self, files: Iterable[ListedFile]) -> Iterator[FooterRead]:
        """Read the footers of files, many at a time."""
        storage = self._table.storage
        is_near = storage.capabilities.has_cheap_requests
        each = _NEAR_FILES_A_PIECE if is_near else _FAR_FILES_A_PIECE
        remaining = iter(files)
        pieces: Iterator[FooterPiece] = iter(lambda: tuple(islice(remaining, each)), ())
        with self._table.progress.step("reading footers", unit="files") as step:
            for footers in self._table.engine.run_tasks(
                ReadFooters(),
                pieces,
                self._table.stores,
                weigh=len,
                at_once=None if is_near else storage.capabilities.parallel_reads,
            ):
                step.advance(len(footers))
                yield from footers

    def _explain_file(self, read: FooterRead, removed_at: int | None) -> str | None:
        footer, fault = read
        if fault is not None and fault.code == UNREAD:
            return f"cannot be opened, so that its columns are unknown: {fault.message}"
        if footer is None or fault is not None:
            return None
        if footer.schema not in self._known:
            self._known[footer.schema] = self._find_misnamed(footer.schema)
        known = self._known[footer.schema]
        if known is None or self._is_of_unmapped_past(known.file_fields, removed_at):
            return None
        return known.description

    def _find_misnamed(self, footer_schema: bytes) -> MisnamedSchema | None:
        """Return what is wrong with files of a schema; None if no column has a logical name."""
        try:
            file_fields = tuple(read_schema(footer_schema).arrow)
        except (pa.ArrowException, OSError, ValueError) as fault:
            raise_if_out_of_memory(fault)
            return None
        misnamed = find_misnamed_fields(file_fields, self._config)
        return MisnamedSchema(file_fields, misnamed[0].description) if misnamed else None

    def _is_of_unmapped_past(self, file_fields: Sequence[ArrowField], removed_at: int | None) -> bool:
        """Return whether a file has the columns of a schema from before column mapping, when names were logical.

        A table that was replaced by one with column mapping leaves such files behind. A file that was removed later
        was live with column mapping, so that its columns must have physical names.
        """
        if removed_at is not None and removed_at > self._unmapped.until_version:
            return False
        return any(has_only_known_fields(file_fields, fields) for fields in self._unmapped.fields)

    @cached_property
    def _unmapped(self) -> UnmappedSchemas:
        """The schemas before column mapping, as far as the log has them."""
        fields: list[tuple[StructField, ...]] = []
        until_version = -1
        was_mapped = True
        older = self._config.older_metadata
        for stored in () if older is None else older().found:
            try:
                metadata = read_metadata(stored.action, "an older version")
                schema = parse_schema(metadata.schema_string or NO_COLUMNS)
            except Unreadable:
                continue
            is_mapped = metadata.configuration.get(MODE, "none").lower() != "none"
            if not is_mapped:
                fields.append(schema.fields)
            elif not was_mapped:
                until_version = stored.version
            was_mapped = is_mapped
        return UnmappedSchemas(tuple(fields), until_version)


def _list_file(path: str, size_bytes: int | None) -> ListedFile:
    """Return a file as the log would name it, with its size; None or a negative one if it is unknown."""
    name = encode(path)
    return ListedFile(name, size_bytes if size_bytes is not None and size_bytes >= 0 else None)
