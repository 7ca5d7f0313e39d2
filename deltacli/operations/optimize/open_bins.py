"""Bins as pieces of work: the actions of their files, read again in rounds, where the new files go, and what commits of
them contain.

Spec: Add File and Remove File; Column Mapping (new files need not be in directories of partitions).
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.machine import Machine
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.text import directory_of
from deltacli.delta.partitions.values import with_spelled_keys
from deltacli.delta.protocol.property_values import is_true, parse_integer
from deltacli.delta.schema.to_arrow import iceberg_compat
from deltacli.operations.optimize.live_files import ORDER_TAGS, PACKED_TAG
from deltacli.operations.optimize.plan import OptimizePlan
from deltacli.operations.optimize.select import Bin
from deltacli.table.keyed_files import chosen_actions
from deltacli.work.rewrite.pieces import NewFile, RewritePiece, SourceFile
from deltacli.work.rows.data_files import DataFile

_FILES_AT_ONCE = 50_000
"""Files whose actions are in memory, apart from those of one larger group of bins."""

_LONGEST_NAME = 255
_LETTERS = string.ascii_letters + string.digits


class OpenBin(NamedTuple):
    """A bin with the actions of its files, in the order of the new file's rows."""

    bin: Bin
    piece: RewritePiece
    adds: RecordBatch
    own_fields: Action
    """What the adds of new files say about the order of their rows."""

    @property
    def paths(self) -> list[str]:
        """Return the paths of the files, as in the log."""
        found: list[str] = self.adds.column("path").to_pylist()
        return found


def open_groups(plan: OptimizePlan, groups: Iterable[Sequence[Bin]]) -> Iterator[list[OpenBin]]:
    """Yield the bins of each group with their actions, reading those of several groups at once."""
    number = 0
    for together in _rounds(groups):
        opened = _opened(plan, [one for group in together for one in group], number)
        for group in together:
            yield [next(opened) for _ in group]
        number += sum(map(len, together))


def _rounds(groups: Iterable[Sequence[Bin]]) -> Iterator[list[Sequence[Bin]]]:
    together, files = list[Sequence[Bin]](), 0
    for group in groups:
        count = sum(one.files for one in group)
        if together and files + count > _FILES_AT_ONCE:
            yield together
            together, files = [], 0
        together.append(group)
        files += count
    if together:
        yield together


def _opened(plan: OptimizePlan, bins: Sequence[Bin], number: int) -> Iterator[OpenBin]:
    """Yield bins with their actions. The version is read once."""
    import pyarrow as pa

    places = plan.selection.places(bins)
    keys = plan.live.keys
    is_wanted = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(places, pa.int64()))
    batches = list(chosen_actions(plan.snapshot, keys, is_wanted, plan.condition))
    adds = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    rank = {place: row for row, place in enumerate(sorted(places))}
    begin = 0
    for count, one in enumerate(bins, number):
        rows = pa.array([rank[place] for place in places[begin : begin + one.files]], pa.int64())
        begin += one.files
        yield _open(plan, one, count, pc.take(adds, rows))


def _open(plan: OptimizePlan, one: Bin, number: int, adds: RecordBatch) -> OpenBin:
    config, machine = plan.snapshot.config, plan.table.machine
    values = _partition_values(config, adds)
    paths, sizes = adds.column("path").to_pylist(), adds.column("size").to_pylist()
    vectors = adds.column("deletionVector").to_pylist()
    ids, versions = (adds.column(name).to_pylist() for name in ("baseRowId", "defaultRowCommitVersion"))
    sources = tuple(
        SourceFile(DataFile(path, sizes[row], {}, vectors[row]), ids[row], versions[row])
        for row, path in enumerate(paths)
    )
    piece = RewritePiece(number, sources, values, new_directory(config, values, machine))
    return OpenBin(one, piece, adds, own_fields(adds) if plan.order is None else plan.order.fields_of_a_bin(machine))


def _partition_values(config: TableConfiguration, adds: RecordBatch) -> Mapping[str, str | None]:
    """Return the values of the first file, in the spelling of the table's columns; empty text is null."""
    names = list(config.partition_columns)
    if not names:
        return {}
    known = dict(with_spelled_keys(adds.column("partitionValues"), names)[0].as_py())
    return {name: known.get(name) or None for name in names}


def own_fields(adds: RecordBatch) -> Action:
    """Return the fields that all files of a bin have in common because they are grouped by them."""
    tags = dict(adds.column("tags")[0].as_py() or ())
    kept = {name: tags[name] for name in ORDER_TAGS if tags.get(name) is not None}
    provider = adds.column("clusteringProvider")[0].as_py()
    return {**({"tags": kept} if kept else {}), **({} if provider is None else {"clusteringProvider": provider})}


def new_directory(config: TableConfiguration, values: Mapping[str, str | None], machine: Machine) -> str:
    """Return the directory of new files: that of their partition, or a random one, as the reference implementation
    does with column mapping and for `delta.randomizeFilePrefixes`.
    """
    properties = config.properties
    directory = directory_of(values)
    is_too_long = any(len(part.encode()) > _LONGEST_NAME for part in directory.split("/"))
    if config.mapping_mode == "none" and not is_true(properties, "delta.randomizeFilePrefixes") and not is_too_long:
        return directory
    length = parse_integer(properties, "delta.randomPrefixLength") or 2
    number = int.from_bytes(machine.random_bytes(64), "big")  # so long that each letter is as likely
    return "".join(_LETTERS[number // len(_LETTERS) ** at % len(_LETTERS)] for at in range(min(max(length, 1), 32)))


def parameters_of(plan: OptimizePlan) -> tuple[str, Mapping[str, object]]:
    """Return the operation and its parameters."""
    predicate = [] if plan.request.where is None else [plan.request.where]
    if plan.rules.purge:
        return "REORG", {"predicate": predicate, "applyPurge": True}
    by = {"zOrderBy": plan.z_order_by, "clusterBy": plan.cluster_by}
    full = {"isFull": False} if plan.cluster_by else {}
    return "OPTIMIZE", {"predicate": predicate, **by, "auto": False, **full}


def size_metrics(removed: Sequence[RecordBatch], added: Sequence[NewFile]) -> dict[str, int | str]:
    """Return the metrics of a commit."""
    sizes = sorted(file.size_bytes for file in added)
    quartiles = {f"p{25 * part}FileSize": sizes[len(sizes) * part // 4] for part in (1, 2, 3)} if sizes else {}
    bounds = {"minFileSize": sizes[0], "maxFileSize": sizes[-1]} if sizes else {}
    return {
        "numRemovedFiles": sum(adds.num_rows for adds in removed),
        "numRemovedBytes": sum(pc.sum(adds.column("size")).as_py() or 0 for adds in removed),
        "numAddedFiles": len(sizes),
        "numAddedBytes": sum(sizes),
        **bounds,
        **quartiles,
        "numDeletionVectorsRemoved": sum(adds.num_rows - adds.column("deletionVector").null_count for adds in removed),
    }


def _tags(own: Action, file: NewFile, written_from: int) -> Action:
    """Return the tags with the bytes that a file was written from, where it has become smaller."""
    if written_from <= file.size_bytes:
        return {}
    return {"tags": {**own.get("tags", {}), PACKED_TAG: str(written_from)}}


def added_files(plan: OptimizePlan, opened: OpenBin, files: Sequence[NewFile], used_bytes: int) -> RecordBatch:
    """Return the adds of the new files of a bin, of whose bytes so many were used. They get row ids when they are
    committed.
    """
    compat = iceberg_compat(plan.snapshot.config)
    own = dict(opened.own_fields)
    if compat >= 2:
        own["tags"] = {**own.get("tags", {}), "ICEBERG_COMPAT_VERSION": str(compat)}
    written_from = opened.bin.packed_bytes * used_bytes // max(opened.bin.size_bytes, 1)
    if len(files) > 1:
        written_from = max(written_from, plan.rules.target_bytes)
    actions = [
        {
            "path": file.path,
            "partitionValues": dict(opened.piece.partition_values),
            "size": file.size_bytes,
            "modificationTime": file.modification_ms,
            "dataChange": False,
            "stats": file.stats,
            **own,
            **_tags(own, file, written_from),
        }
        for file in files
    ]
    return whole_actions(actions, action_schemas().add, "")
