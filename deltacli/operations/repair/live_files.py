"""What is wrong with live files that findings name, where else they are, and steps where only the log is wrong.

Each file is looked at: what a listing said is not enough. A source is trusted by size, footer, checksum and
cardinality. A bitmap is intact where its checksum is right. Which one of a file of deletion vectors is meant is known
only where two of length, offset and cardinality point to it and to no other: deleted rows must not come back, and
others not vanish.

What is true is read from the files. One commit adds them again, with `dataChange` false: their rows stay. Statistics
are those of the collector of `optimize`.

Spec: Deletion Vectors; Add File and Remove File; Per-file Statistics.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError
from deltacli.core.typing import ArrowArray, JsonObject, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.data_files import unique_id_column, vector_file
from deltacli.delta.log.commit_content import CommitRequest, FilesAt, NextVersion, encoded_files
from deltacli.delta.log.file_actions import action_schemas, extract_num_records_column
from deltacli.delta.log.segment import LogListing, parse_log_path
from deltacli.delta.paths.keys import PathKeys
from deltacli.operations.log.log_copy import list_whole_log
from deltacli.operations.recover.log_files import data_sources, open_sources, require_usable
from deltacli.operations.recover.sources import find_in, tags_of
from deltacli.operations.recover.verify import Problem, verify, without_nulls
from deltacli.operations.repair.plan import Planned, RepairRequest, Run, Step, Unrepaired, left
from deltacli.operations.repair.renamed_files import OtherNames, find_other_names
from deltacli.operations.repair.true_statistics import true_statistics
from deltacli.operations.restore.missing_files import Brought
from deltacli.rules.actions.commit_contents import DUPLICATE_PATH
from deltacli.rules.actions.row_tracking import is_enabled
from deltacli.rules.files.deletion_vectors import ORPHAN as ORPHAN_VECTOR
from deltacli.rules.files.storage import ORPHAN, ORPHAN_YOUNG
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.table.file_keys import build_removes, hash_file_actions
from deltacli.table.needed_files import NeededFiles, build_needed_files, combine_chunks, locate_files
from deltacli.work.commits.reading import stream_commit
from deltacli.work.rewrite.exactness import find_broken_rule
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.rows.deletion_vectors import (
    FRAME_BYTES,
    Descriptor,
    VectorFaultError,
    decode_inline_vector,
    parse_deleted_rows,
)
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.log.state import TableConfiguration
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- faults of live files ----------------------------------------------------------------------------------------------

CONTENT = "content"
"""A file whose size and footer are right, and whose rows cannot be read."""
INTACT = "intact"
"""A file of another size than in the log, whose content is complete."""
_OF_VECTORS = "dv."
_DIRECTORY = r"/?[^/]*$"
_VERSION = b"\x01"
_MOST_BYTES = 256 << 20
ORPHANS = (ORPHAN.id, ORPHAN_YOUNG.id, ORPHAN_VECTOR.id)
"""The rules about files that no log names."""


class Named(NamedTuple):
    """The live files that findings name: whole adds, with the keys of their data files and of the files of their
    vectors below the root (null: elsewhere, inline, or none). The key of a vector whose descriptor names no file is the
    text of the descriptor.

    `live` is the number of all live files, `directories` that of live files per directory of a named one.
    """

    adds: pyarrow.Table
    data: Sequence[bytes | None]
    vectors: Sequence[bytes | None]
    live: int
    directories: Mapping[str, int]

    @property
    def paths(self) -> list[str]:
        found: list[str] = self.adds["path"].to_pylist()
        return found


NOTHING: Mapping[bytes, str] = {}


class Looked(NamedTuple):
    """What is wrong with files, by their keys, why, and the source that has each of them as it should be."""

    problems: Mapping[bytes, str]
    reasons: Mapping[bytes, str]
    sources: Mapping[bytes, str] = NOTHING
    brought: Brought | None = None
    notes: Sequence[str] = ()
    renamed: Mapping[bytes, OtherNames] = {}
    """Missing files that may be there under names that no log has."""
    sizes: Mapping[bytes, int] = {}
    """The bytes of the files of which only the size differs from the log."""
    descriptors: Mapping[int, JsonObject] = {}
    """The vectors of adds as their bitmaps are, where only the descriptors differ."""


def named_files(table: TableHandle, now: Snapshot, names: set[str]) -> Named | None:
    """Return the live files with these paths, None if there are none."""
    wanted = pa.array(sorted(names), pa.string())
    directories = pc.unique(pc.replace_substring_regex(wanted, _DIRECTORY, ""))

    def read(adds: RecordBatch) -> tuple[int, ArrowArray, RecordBatch | None]:
        paths = pc.cast(adds.column("path"), pa.string())
        chosen = pc.is_in(paths, value_set=wanted)
        below = pc.replace_substring_regex(paths, _DIRECTORY, "")
        near = pc.value_counts(pc.filter(below, pc.is_in(below, value_set=directories)))
        return adds.num_rows, near, pc.filter(adds, chosen) if pc.any(chosen).as_py() else None

    live, counts, parts = 0, dict[str, int](), []
    for count, near, part in now.file_actions.map_actions("add", read):
        live += count
        for one in near.to_pylist():
            counts[one["values"]] = counts.get(one["values"], 0) + one["counts"]
        if part is not None:
            parts.append(part)
    if not parts:
        return None
    adds = pa.concat_tables([pa.Table.from_batches([part]) for part in parts]).combine_chunks()
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    vectors = keys.compute_vector_keys(
        combine_chunks(unique_id_column(combine_chunks(adds["deletionVector"])))
    ).keys.to_pylist()
    for row, descriptor in enumerate(adds["deletionVector"].to_pylist()):
        if vectors[row] is None and descriptor and descriptor["storageType"] not in ("i", "p", None):
            vectors[row] = str(descriptor["pathOrInlineDv"]).encode("utf-8", "surrogatepass")
    return Named(adds, keys.compute_keys(combine_chunks(adds["path"])).keys.to_pylist(), vectors, live, counts)


def needed_of(table: TableHandle, adds: pyarrow.Table) -> NeededFiles:
    columns = [combine_chunks(adds[name]) for name in ("path", "size", "stats", "deletionVector")]
    paths, sizes, stats, vectors = columns
    uris = (table.storage.uri, *table.storage.aliases)
    return build_needed_files(uris, paths, sizes, extract_num_records_column(stats), vectors)


def look_at(
    table: TableHandle,
    request: RepairRequest,
    named: Named,
    now: Snapshot,
    findings: Sequence[Finding],
    orphans: Sequence[str],
) -> Looked:
    """Look at the named files, and for those that cannot be used in the sources."""
    needed = needed_of(table, named.adds)
    keys = combine_chunks(needed.files["path"]).to_pylist()
    there, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    stores = table.replace_storage(table.storage).stores
    verified = verify(there, sizes, stores, table.engine, table.progress)
    problems = dict(zip(keys, verified.problems.to_pylist(), strict=True))
    reasons = {key: why for key, why in zip(keys, verified.reasons.to_pylist(), strict=True) if why is not None}
    intact = frozenset(_intact(table, there, sizes, keys, problems))
    problems |= dict.fromkeys(intact, INTACT)
    known = zip(keys, sizes.to_pylist(), needed.files["rows"].to_pylist(), strict=True)
    seen = {key: size for key, size, rows in known if key in intact and rows is not None}
    for key, why in _unreadable_content(named, findings):
        if problems.get(key) is None:
            problems[key], reasons[key] = CONTENT, why
    is_lost = pa.array([problems[key] not in (None, INTACT) for key in keys], pa.bool_())
    is_gone = pa.array([problems[key] == Problem.MISSING.value for key in keys], pa.bool_())
    found = {key: problem for key, problem in problems.items() if problem is not None}
    statistics = {key: text for key, text in zip(named.data, named.adds["stats"].to_pylist(), strict=True) if key}
    gone = needed.where(is_gone)
    renamed = find_other_names(table, now, gone, _lost_vectors(named, gone, keys), statistics, orphans)
    looked = Looked(found, reasons, renamed=renamed, sizes=seen)
    if not request.sources or not pc.any(is_lost).as_py():
        return looked
    present = list_whole_log(table.storage) or {}
    opened = open_sources(table, request.sources, present, now.metadata.id)
    notes = require_usable(opened)
    lost = there.where(is_lost)
    sources = data_sources(table, opened, lost, now.metadata.id)
    elsewhere = find_in(sources, lost, table.engine, table.progress)
    damaged = pc.filter(combine_chunks(lost.files["path"]), pc.is_valid(pc.filter(sizes, is_lost)))
    lost_keys = pc.filter(pa.array(keys, pa.binary()), is_lost).to_pylist()
    by_key = {
        key: sources[number].name
        for key, number in zip(lost_keys, elsewhere.sources.to_pylist(), strict=True)
        if number is not None
    }
    brought = Brought(elsewhere, sources, tags_of(table.storage, damaged, table.engine)) if by_key else None
    return looked._replace(sources=by_key, brought=brought, notes=notes)


def _lost_vectors(named: Named, gone: NeededFiles, keys: Sequence[bytes]) -> list[tuple[bytes, Descriptor]]:
    """Return the keys and the descriptors of vectors whose files are gone, or whose descriptors name no file."""
    columns = (gone.vectors[name].to_pylist() for name in ("path", "deletionVector"))
    lost = list(zip(*columns, strict=True))
    known = set(keys)
    descriptors = zip(named.vectors, named.adds["deletionVector"].to_pylist(), strict=True)
    lost += ((key, descriptor) for key, descriptor in descriptors if key is not None and key not in known)
    return lost


def right_descriptors(
    table: TableHandle, named: Named, now: Snapshot, looked: Looked, findings: Sequence[Finding]
) -> Iterator[tuple[int, JsonObject]]:
    """Yield the rows of adds of which only the descriptor of the vector is wrong, with the right one."""
    wrong = {one.place.key for one in findings if is_of_vector(one)}
    stated = [vector and without_nulls(vector) for vector in named.adds["deletionVector"].to_pylist()]
    rows = [
        row
        for row, vector in enumerate(stated)
        if vector
        and named.paths[row] in wrong
        and looked.problems.get(named.data[row] or b"") is None
        and looked.problems.get(named.vectors[row] or b"") != Problem.MISSING.value
    ]
    if not rows:
        return
    files, live = table.files(), _vectors_in(now, {str(stated[row].get("pathOrInlineDv")) for row in rows})
    records = extract_num_records_column(combine_chunks(named.adds["stats"])).to_pylist()
    for row in rows:
        place = str(stated[row].get("pathOrInlineDv"))
        taken = {offset for path, offset in live.get(place, ()) if path != named.paths[row] and offset is not None}
        found = true_descriptor(files, stated[row], records[row], taken)
        if found is not None and dict(found) != stated[row]:
            yield row, found


def _vectors_in(now: Snapshot, places: set[str]) -> Mapping[str, Sequence[tuple[str, int | None]]]:
    """Return the live files whose vectors are in some files, and the offsets of these."""
    wanted = pa.array(sorted(places), pa.string())

    def read(adds: RecordBatch) -> list[tuple[str, str, int | None]]:
        vectors = adds.column("deletionVector")
        if vectors.null_count == len(vectors):
            return []
        chosen = adds.filter(pc.is_in(pc.struct_field(vectors, ["pathOrInlineDv"]), value_set=wanted))
        return [
            (vector["pathOrInlineDv"], path, vector.get("offset"))
            for path, vector in zip(*(chosen.column(n).to_pylist() for n in ("path", "deletionVector")), strict=True)
        ]

    found: dict[str, list[tuple[str, int | None]]] = {}
    for part in now.file_actions.map_actions("add", read):
        for place, path, offset in part:
            found.setdefault(place, []).append((path, offset))
    return found


def _intact(
    table: TableHandle, needed: NeededFiles, sizes: ArrowArray, keys: Sequence[bytes], problems: Mapping[bytes, str]
) -> Iterator[bytes]:
    """Yield the keys of files of another size than in the log, whose footer and rows are as they should be."""
    other = pa.array([problems[key] == Problem.SIZE.value for key in keys], pa.bool_())
    if not pc.any(other).as_py():
        return
    column = needed.files.schema.get_field_index("sizeBytes")
    as_found = needed._replace(files=needed.files.set_column(column, "sizeBytes", pa.chunked_array([sizes])))
    chosen = as_found.where(other)
    stores = table.replace_storage(table.storage).stores
    found = verify(chosen, pc.filter(sizes, other), stores, table.engine, table.progress)
    chosen_keys = pc.filter(pa.array(keys, pa.binary()), other).to_pylist()
    yield from (key for key, sound in zip(chosen_keys, found.is_sound.to_pylist(), strict=True) if sound)


def _unreadable_content(named: Named, findings: Sequence[Finding]) -> Iterator[tuple[bytes, str]]:
    """Yield the keys of data files with unreadable rows and of vectors that do not apply, whose files are sound."""
    keys: dict[tuple[str, bool], list[bytes]] = {}
    for path, data, vector in zip(named.paths, named.data, named.vectors, strict=True):
        for is_vector, key in ((False, data), (True, vector)):
            if key is not None:
                keys.setdefault((path, is_vector), []).append(key)
    for finding in findings:
        is_vector = is_of_vector(finding)
        if (is_vector or finding.rule.id == "data.not-parquet") and not finding.rule.id.endswith("missing"):
            yield from ((key, finding.message) for key in keys.get((finding.place.key or "", is_vector), ()))


def is_of_vector(finding: Finding) -> bool:
    return finding.rule.id.startswith(_OF_VECTORS)


class _Stored(NamedTuple):
    """A vector as it is in its file."""

    offset: int
    size: int
    rows: int
    last: int

    def agreement(self, stated: Descriptor) -> int:
        """Return how many of the three values of a descriptor it has."""
        return sum(
            (
                self.offset == (1 if stated.get("offset") is None else stated["offset"]),
                self.size == stated.get("sizeInBytes"),
                self.rows == stated.get("cardinality"),
            )
        )


def true_descriptor(files: TableFiles, stated: Descriptor, records: int | None, taken: Set[int]) -> JsonObject | None:
    """Return a descriptor with the values of its bitmap, None where it is not known which bitmap is meant, or where it
    is damaged. `records` are the rows of the data file, `taken` the offsets of the vectors of other live files there.
    """
    if stated.get("storageType") == "i":
        return _inline(stated, records)
    path = stated.get("pathOrInlineDv")
    if stated.get("storageType") == "u" and isinstance(path, str):
        path = vector_file(path)
    if not isinstance(path, str):
        return None
    try:
        storage, inner = files.locate_below_root(path) if stated["storageType"] == "u" else files.locate(path)
        if storage.stat(inner).size_bytes > _MOST_BYTES:
            return None
        found = list(_vectors(storage.read(inner)))
    except (DeltacliError, VectorFaultError):
        return None
    close = [one for one in found if one.offset not in taken and one.agreement(stated) >= 2]
    if len(close) != 1 or (records is not None and close[0].last >= records):
        return None
    (meant,) = close
    return {**stated, "offset": meant.offset, "sizeInBytes": meant.size, "cardinality": meant.rows}


def _inline(stated: Descriptor, records: int | None) -> Mapping[str, Any] | None:
    """Return the descriptor of an inline vector of another length. It has no checksum: its cardinality proves it."""
    try:
        data = decode_inline_vector({**stated, "sizeInBytes": None})
        rows = parse_deleted_rows(data)
    except (VectorFaultError, KeyError, TypeError):
        return None
    if rows.count != stated.get("cardinality") or (records is not None and rows.last >= records):
        return None
    return {**stated, "sizeInBytes": len(data)}


def _vectors(data: bytes) -> Iterator[_Stored]:
    """Yield the vectors of a file. Raises VectorFaultError for one that is damaged anywhere."""
    if data[:1] != _VERSION:
        raise VectorFaultError("", "it has another version")
    offset = 1
    while offset < len(data):
        size = int.from_bytes(data[offset : offset + 4], "big")
        end = offset + size + FRAME_BYTES
        bitmap = data[offset + 4 : offset + 4 + size]
        if end > len(data) or zlib.crc32(bitmap) != int.from_bytes(data[end - 4 : end], "big"):
            raise VectorFaultError("", "its checksum does not match its bytes")
        rows = parse_deleted_rows(bitmap)
        yield _Stored(offset, size, rows.count, rows.last)
        offset = end


# -- steps for intact files --------------------------------------------------------------------------------------------

_WITHOUT_COUNT = "stats.num-records-missing"
"""Its finding is about the first of several files."""
_MAY_DIFFER = ("stats", "tags", "modificationTime", "dataChange")
"""Fields of an add that do not change which rows it has."""
_COUNTS = ".num-records-"
"""What the ids of rules about the number of records have in common."""


@dataclass(frozen=True, eq=False)
class Amendment:
    """What of the add of a file is replaced: its vector, its size, and, as they are read then, its statistics."""

    vector: JsonObject | None = None
    size: int | None = None
    statistics: bool = False


@dataclass(frozen=True, eq=False)
class AddAgain:
    """Adds live files again in one commit, with what is true of them."""

    keys: ArrowArray
    amendments: Mapping[bytes, Amendment]
    paths: tuple[str, ...]
    what: str
    is_sensitive: bool = True
    read: dict[bytes, str] = field(default_factory=dict)
    """The statistics that were read; a commit may be tried more than once."""

    @property
    def name(self) -> str:
        more = f" and {plural(len(self.paths) - 1, 'more file')}" if len(self.paths) > 1 else ""
        return f"commit {self.what} of {self.paths[0]}{more}"

    def run(self, run: Run) -> int | None:
        return run.commit(lambda now: self._request(run, now))

    def _request(self, run: Run, now: Snapshot) -> CommitRequest | None:
        """Return the commit; None where none of the files is live as it was any more."""
        found = list(now.file_actions.map_actions("add", self._chosen))
        batches = [(adds, self._amended(run, now, adds)) for adds in found if adds.num_rows]
        if not batches:
            return None
        # Those with another vector than before are removed with the old one.
        moved = [
            (adds.filter(pc.not_equal(hash_file_actions(adds), hash_file_actions(amended))), amended)
            for adds, amended in batches
        ]
        now_ms = run.table.clock()

        def actions() -> Iterator[tuple[str, RecordBatch]]:
            for adds, amended in moved:
                if adds.num_rows:
                    yield "remove", build_removes(adds, now_ms, is_change=False)
                yield "add", amended

        def body(slot: NextVersion) -> Iterator[bytes]:
            return encoded_files(actions, slot)

        metrics = {"numAmendedFiles": sum(adds.num_rows for adds, _ in batches)}
        return CommitRequest("FSCK", {}, metrics, body=body, reads=FilesAt(self.paths))

    def _chosen(self, adds: RecordBatch) -> RecordBatch:
        return adds.filter(pc.is_in(hash_file_actions(adds), value_set=self.keys))

    def _amended(self, run: Run, now: Snapshot, adds: RecordBatch) -> RecordBatch:
        """Return adds as they should be. Raises Unreadable where a file cannot be read."""
        rows = adds.to_pylist()
        for key, row in zip(hash_file_actions(adds).to_pylist(), rows, strict=True):
            wanted = self.amendments[key]
            row["dataChange"] = False
            if wanted.size is not None:
                row["size"] = wanted.size
            if wanted.vector is not None:
                row["deletionVector"] = dict(wanted.vector)
            if wanted.statistics:
                if key not in self.read:
                    has_vector = row["deletionVector"] is not None
                    files = run.table.files()
                    self.read[key] = true_statistics(files, now.config, row["path"], has_vector=has_vector)
                row["stats"] = self.read[key]
        return pa.RecordBatch.from_pylist(rows, schema=adds.schema)


def plan_statistics(
    table: TableHandle, findings: Sequence[Finding], now: Snapshot, listing: LogListing, obstacle: str | None
) -> Planned:
    """Return the steps for wrong statistics of live files: they are computed from the rows. Raises StorageFailed."""
    if not findings:
        return Planned()
    if obstacle is not None:
        return Planned(unrepaired=[left(one, obstacle) for one in findings])
    adds = _live(now, {one.place.key for one in findings if one.place.key}, findings)
    later = added_later(table, findings, listing)
    paths = adds["path"].to_pylist()
    faults = [
        _fault_of_columns(table, now.config, path) if fault is None else fault
        for path, fault in zip(paths, _faults(table, adds), strict=True)
    ]
    keys = [] if not adds.num_rows else combine_chunks(_keys(adds)).to_pylist()
    rows_of: dict[str, list[int]] = {}
    for row, path in enumerate(paths):
        rows_of.setdefault(path, []).append(row)
    keeps_ids = is_enabled(now.config)
    steps, unrepaired, chosen = list[Step](), list[Unrepaired](), dict[int, None]()
    for finding in findings:
        rows = rows_of.get(finding.place.key or "", [])
        is_repeated = finding.rule.id == DUPLICATE_PATH.id
        known = [None] * len(faults) if is_repeated else faults
        reason = _why_not(finding, rows, known, later, keeps_ids=keeps_ids)
        if reason is None and is_repeated and not _says_one_thing(table, finding, listing):
            reason = "the commit does not say which of its actions on this file was meant"
        if reason is not None:
            severity = finding.severity if rows and reason is not _LATER else Severity.WARNING
            unrepaired.append(left(finding, reason)._replace(severity=severity))
            continue
        chosen |= dict.fromkeys(rows)
        what = f"compute the statistics of {finding.place.key} from its rows"
        if is_repeated:
            what = f"add {finding.place.key} once more, alone in a commit"
        steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))
    if any(step.rule == _WITHOUT_COUNT for step in steps):
        counts = extract_num_records_column(combine_chunks(adds["stats"])).to_pylist()
        chosen |= dict.fromkeys(row for row, count in enumerate(counts) if count is None and faults[row] is None)
    if not chosen:
        return Planned(unrepaired=unrepaired)
    amendments = {keys[row]: Amendment(statistics=faults[row] is None) for row in chosen}
    work = AddAgain(
        pa.array(list(amendments), pa.binary()), amendments, tuple(paths[row] for row in chosen), "true statistics"
    )
    return Planned(steps, [work], unrepaired)


_LATER = "a later commit adds the file again and decides; the action stays until the log is cleaned up"


def _why_not(
    finding: Finding, rows: Sequence[int], faults: Sequence[str | None], later: Mapping[str, int], *, keeps_ids: bool
) -> str | None:
    if not rows:
        return "the newest version does not have this file"
    if later.get(finding.place.key or "", -1) > _version_of(finding):
        return _LATER
    fault = next((faults[row] for row in rows if faults[row] is not None), None)
    if fault is not None:
        return f"its rows cannot be read: {fault}"
    if keeps_ids and _COUNTS in finding.rule.id:
        return "its rows have ids that were assigned by the wrong number of records"
    return None


def _says_one_thing(table: TableHandle, finding: Finding, listing: LogListing) -> bool:
    """Return whether a commit only adds a file, more than once, and each time with the same values."""
    file = listing.commits.get(_version_of(finding))
    if file is None:
        return False
    actions = stream_commit(table.storage, file)
    found = [(kind, one) for kind, one in actions if kind in ("add", "remove") and one.get("path") == finding.place.key]
    adds = [{name: value for name, value in one.items() if name not in _MAY_DIFFER} for _, one in found]
    return len(adds) > 1 and all(kind == "add" for kind, _ in found) and all(one == adds[0] for one in adds)


def _version_of(finding: Finding) -> int:
    """Return the version of the action that a finding is about, that of its checkpoint if it is in one."""
    if finding.place.version is not None:
        return finding.place.version
    return parse_log_path(finding.place.path.rpartition("/")[2]).version


def added_later(table: TableHandle, findings: Sequence[Finding], listing: LogListing) -> dict[str, int]:
    """Return the newest version that adds each file which findings are about, where that is after the first finding."""
    wanted = {one.place.key for one in findings if one.place.key}
    first = min(map(_version_of, findings))
    found: dict[str, int] = {}
    for version, file in sorted(listing.commits.items()):
        if version > first:
            for kind, action in stream_commit(table.storage, file):
                if kind == "add" and action.get("path") in wanted:
                    found[str(action["path"])] = version
    return found


def _live(now: Snapshot, names: set[str], findings: Sequence[Finding]) -> pyarrow.Table:
    """Return the live files with these paths, and those without a number of records where a finding is about these."""
    wanted = pa.array(sorted(names), pa.string())
    takes_all = any(one.rule.id == _WITHOUT_COUNT for one in findings)

    def chosen(adds: RecordBatch) -> RecordBatch:
        mask = pc.is_in(pc.cast(adds.column("path"), pa.string()), value_set=wanted)
        if takes_all:
            mask = pc.or_(mask, pc.is_null(extract_num_records_column(adds.column("stats"))))
        return adds.filter(mask)

    found = [pa.Table.from_batches([part]) for part in now.file_actions.map_actions("add", chosen) if part.num_rows]
    if not found:
        return action_schemas().add.empty_table()
    return pa.concat_tables(found).combine_chunks()


def _keys(adds: pyarrow.Table) -> ArrowArray:
    return pa.chunked_array([hash_file_actions(batch) for batch in adds.to_batches()])


def _faults(table: TableHandle, adds: pyarrow.Table) -> list[str | None]:
    """Return why each file cannot be read, None where its size and its footer are right."""
    uris = (table.storage.uri, *table.storage.aliases)
    unknown = pa.nulls(adds.num_rows, pa.int64())
    needed = build_needed_files(uris, combine_chunks(adds["path"]), combine_chunks(adds["size"]), unknown)
    names = needed.files["path"].to_pylist()
    there, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    found = verify(there, sizes, table.replace_storage(table.storage).stores, table.engine, table.progress)
    faults = {
        name: None if problem is None else "it is missing" if problem == Problem.MISSING.value else reason or problem
        for name, problem, reason in zip(names, found.problems.to_pylist(), found.reasons.to_pylist(), strict=True)
    }

    own = PathKeys(uris).compute_keys(combine_chunks(adds["path"])).keys.to_pylist()
    return [None if key is None else faults[key] for key in own]


def _fault_of_columns(table: TableHandle, config: TableConfiguration, path: str) -> str | None:
    """Return the rule of column mapping that a file breaks, so that its rows would be read as null; None without."""
    if config.mapping_mode == "none":
        return None
    with open_data_file(table.files(), DataFile(path, None)) as opened:
        broken = find_broken_rule(config, opened)
    return None if broken is None else f"{broken.message} [{broken.rule.id}]"
