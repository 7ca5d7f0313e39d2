"""One version of a shared table: protocol, metadata, and the live files in columns; and what a table must fulfil before
it is shared: files inside the table, and partition values that all clients read alike.

Also where its files are for signers, and whether recipients would get them. Nothing outside the table is ever signed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.core.cached import cached_property
from deltacli.core.errors import DeltacliError, PathExternal
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.replay import key_column
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.partitions.values import partition_columns, with_spelled_keys
from deltacli.delta.paths import locate, text_of
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.delta.schema.names import MODE
from deltacli.delta.schema.stray_partitions import require_partitions
from deltacli.delta.schema.types import NO_COLUMNS, parse_schema
from deltacli.delta.vectors import unique_id_column, vector_file
from deltacli.operations.read.separate_versions import is_mapped, may_have_been_mapped
from deltacli.sharing.protocol.capabilities import ReadingNeeds, find_needs, handed_out_protocol
from deltacli.sharing.protocol.lines import TableTotals
from deltacli.storage import LocalStorage, ReadStorage

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.version import Snapshot


def places_of(actions: pyarrow.RecordBatch, storage: ReadStorage) -> list[str]:
    """Return the path of each file below the table, decoded. Raises PathExternal."""
    raw = actions.column("path")
    keys, _ = locate(raw, storage.uri)
    if keys.null_count:
        raise outside()
    places = [text_of(key) for key in keys.to_pylist()]
    if not isinstance(storage, LocalStorage):
        return places
    return [_as_stored(storage, path, place) for path, place in zip(raw.to_pylist(), places, strict=True)]


def _as_stored(storage: LocalStorage, path: str, place: str) -> str:
    """Return the place, or the path as written where only that exists: some writers do not encode paths."""
    if path == place or "%" not in path or os.path.lexists(os.path.join(storage.root, place)):
        return place
    return path if os.path.lexists(os.path.join(storage.root, path)) else place


_MOST_SINGLE_LOOKS = 1_000
"""Files that are looked at one by one on an object store; of more of them the table is listed, 1,000 per request."""


def unavailable_files(files: pyarrow.Table, storage: ReadStorage) -> dict[str, list[str]]:
    """Return the data files and files of deletion vectors that the server cannot return, by the reason: their paths
    below the table. Raises PathExternal, and what the store raises.
    """
    wanted: dict[str, int | None] = {}
    for batch in files.to_batches():
        vectors = [one for one in vectors_of(batch) if one is not None and one["storageType"] != "i"]
        wanted |= dict.fromkeys((vector_place(one, storage.uri) for one in vectors), None)
        wanted |= zip(places_of(batch, storage), batch.column("size").to_pylist(), strict=True)
    found: dict[str, list[str]] = {}
    for (place, declared), size in zip(wanted.items(), sizes_of(storage, list(wanted)), strict=True):
        reason = _reason(storage, place, declared, size)
        if reason is not None:
            found.setdefault(reason, []).append(place)
    return {reason: sorted(paths) for reason, paths in found.items()}


def _reason(storage: ReadStorage, place: str, declared: int | None, size: int) -> str | None:
    local = os.path.join(storage.root, place) if isinstance(storage, LocalStorage) else None
    if size < 0:
        return "missing" if local is None or not os.path.lexists(local) else "behind a link or not a regular file"
    if declared not in (None, size):
        return "of another size than in the log"
    return None if local is None or os.access(local, os.R_OK) else "not readable by this user"


def sizes_of(storage: ReadStorage, places: Sequence[str]) -> Sequence[int]:
    """Return the size of each file, -1 for one that the server does not return."""
    if not storage.capabilities.lists_flat or len(places) <= _MOST_SINGLE_LOOKS:
        return storage.stat_many(places)[0]
    left = dict.fromkeys(places, -1)
    for entry in storage.walk("", lambda _, names: names):
        for name, size in zip(entry.names, entry.sizes or (), strict=bool(entry.sizes)):
            place = f"{entry.directory}/{name}" if entry.directory else name
            if place in left:
                left[place] = size
    return list(left.values())


def outside() -> PathExternal:
    """Return the fault of a table whose log names a file that is not below the table."""
    return PathExternal("the log names files outside the table, which are not shared")


def spelled_alike(actions: pyarrow.RecordBatch, config: TableConfiguration) -> pyarrow.RecordBatch:
    """Return file actions whose partition values have the names of the columns as the schema spells them: clients
    compare them exactly, and would take a value under another spelling for null.
    """
    names = list(config.partition_columns)
    place = actions.schema.get_field_index("partitionValues")
    if not names or place < 0 or not actions.num_rows:
        return actions
    maps = actions.column(place)
    spelled = with_spelled_keys(maps, names)
    return actions if spelled is maps else actions.set_column(place, actions.schema.field(place), spelled)


def find_fault(
    batches: Iterable[pyarrow.RecordBatch], config: TableConfiguration, version: int, uri: str
) -> DeltacliError | None:
    """Return why file actions cannot be shared: a partition column that the schema lacks, a file or a vector outside
    the table, a missing or invalid partition value. None if they can.
    """
    try:
        require_partitions(config, version)
        for actions in batches:
            require_inside(actions, uri)
            partition_columns(actions, config, list(config.partition_columns))
    except DeltacliError as fault:
        return fault.with_traceback(None)
    return None


def require_inside(actions: pyarrow.RecordBatch, uri: str) -> None:
    """Raise PathExternal if a file or a deletion vector is outside the table."""
    if locate(actions.column("path"), uri)[0].null_count:
        raise outside()
    for descriptor in vectors_of(actions):
        if descriptor is not None and descriptor["storageType"] != "i":
            vector_place(descriptor, uri)


def vectors_of(actions: pyarrow.RecordBatch) -> list[dict[str, Json] | None]:
    """Return the descriptor of each row; an empty list where no row has one."""
    place = actions.schema.get_field_index("deletionVector")
    column = None if place < 0 else actions.column(place)
    return [] if column is None or column.null_count == len(column) else column.to_pylist()


def vector_place(descriptor: dict[str, Any], uri: str) -> str:
    """Return the path of the file of a deletion vector below the table, decoded. Raises PathExternal."""
    import pyarrow as pa

    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "u":
        path = vector_file(text)
        text = "" if path is None else path.replace("%", "%25")
    key = locate(pa.array([text], pa.string()), uri)[0][0].as_py()
    if not key:
        raise outside()
    return text_of(key)


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
    fault = find_fault(batches, snapshot.config, snapshot.version, snapshot.table.uri)
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
