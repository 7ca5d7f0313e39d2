"""One version of a shared table: protocol, metadata, and the live files in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.replay import key_column
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.state import Metadata
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.delta.schema.names import MODE
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.vectors.descriptor import unique_id_column
from deltacli.errors import DeltacliError
from deltacli.operations.read.separate_versions import is_mapped, may_have_been_mapped
from deltacli.sharing.protocol.lines import TableTotals
from deltacli.sharing.protocol.reading_needs import ReadingNeeds, find_needs, handed_out_protocol
from deltacli.sharing.tables.shareable import find_fault, spelled_alike
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.version import Snapshot

NO_COLUMNS = '{"type":"struct","fields":[]}'
_OWN_BYTES = 64 << 10
"""What a snapshot takes besides its columns: a schema of some hundred columns, parsed."""


@dataclass(frozen=True, eq=False)
class SharedSnapshot:
    """A version of a table. `files` has the fields of add actions, in no particular order. `commit` is the file of its
    commit, by which a log that was replaced is noticed; None where it is missing.
    """

    version: int
    protocol: Protocol
    raw_protocol: Mapping[str, Any]
    metadata: Metadata
    raw_metadata: Mapping[str, Any]
    files: pyarrow.Table
    commit: LogFile | None
    fault: DeltacliError | None = None
    """Why the files cannot be shared."""

    def require_shareable(self) -> None:
        """Raise PathExternal, or DataUnreadable (`partition.*`), where the files cannot be shared."""
        if self.fault is not None:
            raise self.fault

    def without_files(self) -> SharedSnapshot:
        """Return protocol and metadata only."""
        return replace(self, files=self.files.schema.empty_table())

    @cached_property
    def identity(self) -> object:
        """What only this object has, for a key that does not keep it in memory."""
        return object()

    @cached_property
    def config(self) -> TableConfiguration:
        """Protocol, metadata and schema together. Raises Unreadable (`schema.*`)."""
        schema = parse_schema(self.metadata.schema_string or NO_COLUMNS)
        return TableConfiguration(protocol=self.protocol, metadata=self.metadata, schema=schema)

    @cached_property
    def needs(self) -> ReadingNeeds:
        """What clients must support to read this version."""
        vectors = self.files.column("deletionVector")
        return find_needs(self.config, has_vectors=vectors.null_count < len(vectors))

    @cached_property
    def client_protocol(self) -> Mapping[str, Any]:
        """The protocol action that clients get in delta format."""
        return handed_out_protocol(self.protocol, self.raw_protocol, self.needs)

    @cached_property
    def client_metadata(self) -> Mapping[str, Any]:
        """The metadata action that clients get in delta format. Where column mapping may have been removed, it has the
        mode, which their protocol does not show: versions before the removal have other names in files.
        """
        if is_mapped(self.config) or MODE in self.config.properties or not may_have_been_mapped(self.config):
            return self.raw_metadata
        return {**self.raw_metadata, "configuration": {**self.metadata.configuration, MODE: "none"}}

    @cached_property
    def totals(self) -> TableTotals:
        """Number and bytes of the live files."""
        return TableTotals(self.files.num_rows, pc.sum(self.files.column("size")).as_py() or 0)

    @cached_property
    def size_bytes(self) -> int:
        """The memory that it takes, in bytes."""
        return int(self.files.nbytes) + _OWN_BYTES

    @cached_property
    def canonical_order(self) -> ArrowArray:
        """Return the rows in the one order that does not depend on how the version was rebuilt: pages need it."""
        import pyarrow as pa

        keys = [
            key_column(batch.column("path"), unique_id_column(batch.column("deletionVector")))
            for batch in self.files.to_batches()
        ]
        return pc.sort_indices(pa.concat_arrays([pa.array([], pa.binary()), *keys]))


def make_snapshot(snapshot: Snapshot) -> SharedSnapshot:
    """Return a rebuilt version with its files in columns. Raises what reading a checkpoint raises."""
    import pyarrow as pa

    batches = [spelled_alike(batch, snapshot.config) for batch in snapshot.files()]
    files = pa.Table.from_batches(batches, schema=action_schemas().add)
    fault = find_fault(batches, snapshot.config, snapshot.table.uri)
    return replace(make_state(snapshot), files=files, fault=fault)


def make_state(snapshot: Snapshot) -> SharedSnapshot:
    """Return protocol and metadata of a rebuilt version, without its files."""
    return SharedSnapshot(
        version=snapshot.version,
        protocol=snapshot.protocol,
        raw_protocol=snapshot.raw_protocol,
        metadata=snapshot.metadata,
        raw_metadata=snapshot.raw_metadata,
        files=action_schemas().add.empty_table(),
        commit=snapshot.listing.commits.get(snapshot.version),
    )


def batches_of(files: pyarrow.Table, rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a table in batches of at most `rows`, without copying them."""
    yield from (batch for batch in files.to_batches(max_chunksize=rows) if batch.num_rows)
