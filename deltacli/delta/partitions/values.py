"""Partition values in the types of the table, with an error instead of a silent null.

Spec: Partition Value Serialization. A timestamp without a zone is read as UTC. An empty text is null for every type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.core.errors import DataUnreadable, command
from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.to_arrow import arrow_type
from deltacli.delta.schema.types import (
    NameIndex,
    StructField,
    places_of,
)

if TYPE_CHECKING:
    import pyarrow


def partition_columns(
    actions: pyarrow.RecordBatch, config: TableConfiguration, wanted: Sequence[str]
) -> dict[str, pyarrow.Array]:
    """Return the values of the partition columns `wanted` (physical names), one per file action.

    Raises DataUnreadable (`partition.key-missing`, `partition.unparsable`), naming the first faulty file.
    """
    import pyarrow as pa

    if not wanted or not actions.num_rows:
        return {}
    from deltacli.delta.partitions.text import parse_partition_values

    maps = actions.column("partitionValues")
    columns = {name: config.partition_columns[name] for name in wanted}
    kind = pa.struct(
        [pa.field(name, arrow_type(column.data_type, name)) for name, column in columns.items() if column is not None]
    )
    keys = _KeysOf(maps)
    for field in kind:
        keys.require(field.name, actions.column("path"))
    parsed = parse_partition_values(keys.spelled(kind.names), config, kind)
    arrays = {}
    for field, values in zip(kind, parsed.flatten(), strict=True):
        texts = pc.map_lookup(keys.spelled(kind.names), query_key=pa.scalar(field.name), occurrence="first")
        wrong = pc.and_(pc.is_null(values), pc.greater(pc.fill_null(pc.binary_length(texts), 0), 0))
        if pc.any(wrong).as_py():
            raise _unparsable(actions, columns[field.name], texts, pc.indices_nonzero(wrong)[0].as_py())
        arrays[field.name] = values
    return arrays


def constants_of(
    texts: Iterable[tuple[str, str | None]] | None, config: TableConfiguration, path: str
) -> dict[str, ArrowScalar]:
    """Return the values of the partition columns of one file, whose path is `path`, by logical name.

    Raises DataUnreadable as `partition_columns` does.
    """
    import pyarrow as pa

    logical = {name: column.name for name, column in config.partition_columns.items() if column is not None}
    maps = pa.array([None if texts is None else list(texts)], pa.map_(pa.string(), pa.string()))
    one = pa.record_batch([pa.array([path], pa.string()), maps], names=["path", "partitionValues"])
    values = partition_columns(one, config, list(logical))
    return {logical[name]: found[0] for name, found in values.items()}


def lacking_values(remove: Action, names: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns (physical names) whose values a remove lacks, ignoring case."""
    known = remove.get("partitionValues") or {}
    absent = [name for name in names if name not in known]
    if not absent:  # the usual case, which needs no index of the names
        return ()
    index = NameIndex(known)
    return tuple(name for name in absent if not index.places_of(name))


def are_lacking_values_null(remove: Action) -> bool:
    """Return whether values that a remove lacks are certainly null.

    Some writers omit null values from the map. With `extendedFileMetadata` the rest of the map is complete; without it
    the remove may have no values although the file has some. Spec: Add File and Remove File.
    """
    return remove.get("extendedFileMetadata") is True and remove.get("partitionValues") is not None


def with_values(remove: Action, names: Sequence[str], of_add: Mapping[str, str | None] | None) -> Action:
    """Return a remove with a value for each partition column: its own, else that of the file's add, else null.

    Without any map and without an add nothing can be derived, and the remove is returned unchanged.
    """
    own = remove.get("partitionValues")
    if own is None and of_add is None:
        return remove
    known = of_add or {}
    values = {name: next((known[key] for key in _alike(name, known)), None) for name in lacking_values(remove, names)}
    return {**remove, "partitionValues": {**(own or {}), **values}}


def _alike(name: str, known: Mapping[str, str | None]) -> list[str]:
    keys = list(known)
    return [keys[place] for place in places_of(name, keys)]


def with_spelled_keys(maps: ArrowArray, names: Sequence[str]) -> ArrowArray:
    """Return partition values with the keys of these columns (physical names) spelled as the table spells them."""
    return _KeysOf(maps).spelled(names)


class _KeysOf:
    """The maps of some file actions, and the spellings of their keys."""

    def __init__(self, maps: ArrowArray) -> None:
        self._maps = maps
        first, last = maps.offsets[0].as_py(), maps.offsets[len(maps)].as_py()
        self._first = first
        self._keys = maps.keys.slice(first, last - first)
        self._items = maps.items.slice(first, last - first)
        self._distinct = pc.unique(self._keys).to_pylist()

    def require(self, name: str, paths: Any) -> None:
        """Raise unless every map has the key, ignoring case if none has it exactly."""
        count = pc.sum(pc.is_in(self._keys, value_set=_texts(self._spellings(name)))).as_py() or 0
        if count >= len(self._maps):
            return
        import pyarrow as pa

        lists = pa.ListArray.from_arrays(self._maps.offsets, self._maps.keys)
        for row, known in enumerate(lists.to_pylist()):
            if not set(known or ()) & set(self._spellings(name)):
                raise DataUnreadable(
                    f"the log has no value for partition column {name}",
                    code="partition.key-missing",
                    facts={"file": paths[row].as_py(), "keys": ", ".join(known or ()) or "none"},
                    hint=command("validate", select=["partition.*"]),
                )

    def _spellings(self, name: str) -> list[str]:
        return [self._distinct[place] for place in places_of(name, self._distinct)]

    def spelled(self, names: Sequence[str]) -> Any:
        """Return the maps with their keys as the table spells them."""
        import pyarrow as pa

        wrong = {key: name for name in names for key in self._spellings(name) if key != name}
        if not wrong:
            return self._maps
        encoded = pc.dictionary_encode(self._maps.keys)
        keys = pa.array([wrong.get(key, key) for key in encoded.dictionary.to_pylist()], pa.string())
        return pa.MapArray.from_arrays(self._maps.offsets, pc.take(keys, encoded.indices), self._maps.items)


def _texts(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.array(texts, pa.string())


def _unparsable(actions: Any, column: StructField | None, texts: Any, row: int) -> DataUnreadable:
    assert column is not None
    kind = getattr(column.data_type, "name", "value")
    return DataUnreadable(
        f"a value of partition column {column.name} is not a {kind}: {texts[row].as_py()[:80]}",
        code="partition.unparsable",
        facts={"file": actions.column("path")[row].as_py(), "value": texts[row].as_py()[:200]},
        hint=command("validate", select=["partition.*"]),
    )
