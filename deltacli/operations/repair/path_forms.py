"""The step that spells absolute paths of live files as Hadoop does, so that Spark can write deletion vectors for them.

A file is added again under the new spelling. Engines do not agree on whether both spellings are one file: Kernel for
Java and deltacli compare what a path means, the Rust kernel and the state of Delta for Spark compare texts. So each
commit has to leave one live file by both readings, and must not remove and add what may be one logical file: the
protocol forbids it, and Kernel for Java then takes the file for removed. The vector is part of the key of a logical
file, and is changed to tell the two apart:

    before    file:///lake/a.parquet
    commit 1  remove file:///lake/a.parquet, add file:/lake/a.parquet with a vector that deletes no row
    commit 2  remove file:/lake/a.parquet with that vector, add file:/lake/a.parquet

A vector in a file is named by another path in between. If its own path is respelled, too, one commit is enough.

Spec: Action Reconciliation; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.clone_notes import CloneNote, resolve_note_uri
from deltacli.changing.file_owners import (
    FileOwners,
    find_external_directories_of_version,
    find_file_owners,
    write_clone_notes,
)
from deltacli.changing.new_files import NewFiles
from deltacli.core.errors import ConflictLost, FileMissing, Refused, StorageFailed
from deltacli.core.typing import ArrowArray, JsonObject, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.data_files import (
    EMPTY_VECTOR_DIRECTORY,
    describe_empty_vector,
    empty_vector_bytes,
    unique_id_column,
    vector_file,
)
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, NextVersion, encoded_files
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.paths.hadoop import are_spelled_otherwise, respell, spell_as_hadoop, spell_root_as_hadoop
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.operations.repair.plan import Planned, Run, Step, left
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.repairs import StepKind
from deltacli.rules.paths import find_other_spellings
from deltacli.storage import Created, Storage
from deltacli.table.file_keys import build_removes

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_FIELDS = ("path", "stats", "deletionVector")


class _Misspelled(NamedTuple):
    """Live files that have to be added again, and those of them that cannot be."""

    files: int = 0
    with_inline_vectors: int = 0
    without_row_counts: int = 0

    def __add__(self, other: object) -> _Misspelled:
        if not isinstance(other, _Misspelled):
            return NotImplemented
        return _Misspelled(
            files=self.files + other.files,
            with_inline_vectors=self.with_inline_vectors + other.with_inline_vectors,
            without_row_counts=self.without_row_counts + other.without_row_counts,
        )

    @property
    def obstacle(self) -> str | None:
        """Return why not all of the files can be added again; None if they can."""
        if self.with_inline_vectors:
            # Nothing but the vector tells the two spellings apart, and an inline one has no second name.
            return f"{plural(self.with_inline_vectors, 'file')} with inline deletion vectors: optimize writes them anew"
        if self.without_row_counts:
            return f"{plural(self.without_row_counts, 'file')} without a number of rows, which stats computes"
        return None


def plan_path_forms(table: TableHandle, findings: Sequence[Finding], now: Snapshot, obstacle: str | None) -> Planned:
    """Return the step that adds files again whose absolute paths are in another spelling than that of Hadoop."""
    if not findings:
        return Planned()
    misspelled = _count_misspelled(now)
    reason = obstacle or misspelled.obstacle
    if reason is not None:
        return Planned(unrepaired=[left(finding, reason) for finding in findings])

    directories = find_external_directories_of_version(now)
    owners = find_file_owners(table, directories, resolve_note_uri(table.storage)) if directories else FileOwners()
    what = f"add {plural(misspelled.files, 'file')} again, with absolute paths as Hadoop spells them"
    steps = [Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what) for finding in findings]
    return Planned(steps, [RespellPaths(misspelled.files, owners)], notes=owners.warnings)


def _count_misspelled(now: Snapshot) -> _Misspelled:
    """Count the files to add again, and what stands against it."""

    def count(adds: RecordBatch) -> _Misspelled:
        chosen = adds.filter(_find_misspelled(adds))
        vector_ids = unique_id_column(chosen.column("deletionVector"))
        is_inline = pc.starts_with(vector_ids, "i")
        has_no_vector = pc.equal(vector_ids, "")
        is_uncounted = pc.and_(has_no_vector, pc.is_null(extract_num_records_column(chosen.column("stats"))))
        return _Misspelled(
            files=chosen.num_rows,
            with_inline_vectors=pc.sum(is_inline).as_py() or 0,
            without_row_counts=pc.sum(is_uncounted).as_py() or 0,
        )

    counts = now.file_actions.map_actions("add", count, fields=_FIELDS)
    return sum(counts, _Misspelled())


def _find_misspelled(adds: RecordBatch) -> ArrowArray:
    vectors = adds.column("deletionVector")
    cardinalities = pc.struct_field(vectors, ["cardinality"])
    return find_other_spellings(adds.column("path"), unique_id_column(vectors), cardinalities)


@dataclass(frozen=True, eq=False)
class RespellPaths:
    """Adds live files again under the paths that Hadoop would write, in two commits.

    A run that ends between them leaves a table with the same rows. Its next repair makes the second commit.
    """

    files: int
    owners: FileOwners
    is_sensitive: bool = True

    @property
    def name(self) -> str:
        return f"commit the absolute paths of {plural(self.files, 'file')} as Hadoop spells them"

    def run(self, run: Run) -> int | None:
        """Make the commits, and return the version of the last one."""
        table = run.table
        root = spell_root_as_hadoop(table.storage.uri)
        note = CloneNote(
            run.execution.plan.table_id or "",
            resolve_note_uri(table.storage),
            run.execution.plan.version or 0,
            table.clock(),
        )
        write_clone_notes(self.owners.stores, note)

        own_vectors = dict[str, JsonObject | None]()
        empty_vector = _EmptyVector(table, run.execution.store)

        def change_vectors(adds: RecordBatch) -> RecordBatch:
            return _respell(adds, root, empty_vector.write, own_vectors)

        def take_vectors_back(adds: RecordBatch) -> RecordBatch:
            return _take_vectors_back(adds, own_vectors)

        try:
            first = run.commit(lambda now: _request(now, table.clock(), _find_misspelled, change_vectors))
        except (ConflictLost, Refused) as fault:
            # Certainly no version names the file. After a failure of the store one might: then a vacuum decides.
            fault.facts |= empty_vector.discard()
            raise
        if first is None:
            empty_vector.discard()

        # From here on a version names the vector, also if the second commit fails.
        second = run.commit(
            lambda now: _request(now, table.clock(), lambda adds: _find_changed(adds, own_vectors), take_vectors_back)
        )
        return first if second is None else second


class _EmptyVector:
    """The vector that deletes no row, in one file for all files without a vector.

    A file without a vector may come up until the commit, so the plan does not decide whether it is needed.
    """

    def __init__(self, table: TableHandle, storage: Storage) -> None:
        self._table, self._storage = table, storage
        self._descriptor = describe_empty_vector(UUID(table.machine.new_uuid()))
        self._has_begun = False
        self._is_written = False

    def write(self) -> JsonObject:
        """Write the file, unless it was written, and return the descriptor of the vector.

        If the run ends before it commits, a vacuum deletes the file like any other that no version names.

        Raises:
            StorageFailed: If the file is not there, or if that is not known.
        """
        if not self._is_written:
            self._has_begun = True
            path, storage, data = self._find_path(), self._storage, empty_vector_bytes()
            # The answer may be lost. The name is of this run, so the content tells whether the file was written.
            if storage.put_if_absent(path, data) != Created() and not _is_stored(storage, path, data):
                raise StorageFailed(f"{path} may not have been written")
            self._is_written = True
        return self._descriptor

    def discard(self) -> dict[str, str]:
        """Delete the file if no version names it, and return what could not be deleted as facts of an error."""
        files = NewFiles(self._table)
        if self._has_begun:
            files.delete([self._find_path()])
        return files.left_behind_facts

    def _find_path(self) -> str:
        path = vector_file(str(self._descriptor["pathOrInlineDv"]))
        assert path is not None
        return path


def _is_stored(storage: Storage, path: str, data: bytes) -> bool:
    try:
        return storage.read(path) == data
    except FileMissing:
        return False


def _request(
    now: Snapshot,
    now_ms: int,
    choose: Callable[[RecordBatch], ArrowArray],
    change: Callable[[RecordBatch], RecordBatch],
) -> CommitRequest | None:
    """Return the commit that adds chosen live files again with a change; None if no file is chosen.

    The removes have the paths and vectors as they are in the log, because some engines compare these texts.
    """

    def chosen(adds: RecordBatch) -> RecordBatch:
        return adds.filter(choose(adds))

    count = sum(adds.num_rows for adds in now.file_actions.map_actions("add", chosen, fields=_FIELDS))
    if not count:
        return None

    def actions() -> Iterator[tuple[str, RecordBatch]]:
        for adds in now.file_actions.map_actions("add", chosen):
            if adds.num_rows:
                yield "remove", build_removes(adds, now_ms, is_change=False)
                yield "add", _replace_columns(change(adds), dataChange=pa.repeat(False, adds.num_rows))

    def body(slot: NextVersion) -> Iterator[bytes]:
        return encoded_files(actions, slot)

    return CommitRequest("FSCK", {}, {"numAmendedFiles": count}, body=body, reads=EveryFile())


def _respell(
    adds: RecordBatch,
    root: str,
    write_empty_vector: Callable[[], JsonObject],
    own_vectors: dict[str, JsonObject | None],
) -> RecordBatch:
    """Return adds with respelled paths and other vectors, and remember the vectors that are taken back afterwards.

    Args:
        adds: Live files in another spelling.
        root: The URI of the table, as absolute paths begin.
        write_empty_vector: Writes the vector that stands in where a file has none, and returns its descriptor.
        own_vectors: Gets the id of each vector that stands in for another one -> that vector, in its own spelling.
    """
    paths = adds.column("path")
    is_moved = are_spelled_otherwise(paths).to_pylist()
    vectors = adds.column("deletionVector").to_pylist()
    changed = list[JsonObject | None]()
    for vector, path_is_moved in zip(vectors, is_moved, strict=True):
        right = _spell_vector(vector)
        if _is_empty(vector):
            # What an interrupted repair left. Without it the file has another key, too.
            changed.append(None)
        elif right == vector and path_is_moved:
            stand_in = write_empty_vector() if right is None else _name_otherwise(right, root)
            own_vectors[_vector_key(stand_in)] = right
            changed.append(stand_in)
        else:
            changed.append(right)
    column = pa.array(changed, adds.column("deletionVector").type)
    return _replace_columns(adds, path=respell(paths), deletionVector=column)


def _spell_vector(vector: JsonObject | None) -> JsonObject | None:
    """Return a descriptor whose absolute path is as Hadoop spells it."""
    if vector is None or vector["storageType"] != "p":
        return vector
    return {**vector, "pathOrInlineDv": spell_as_hadoop(str(vector["pathOrInlineDv"]))}


def _name_otherwise(vector: JsonObject, root: str) -> JsonObject:
    """Return a descriptor of the same vector in the same file that has another id."""
    text = str(vector["pathOrInlineDv"])
    if vector["storageType"] == "u":
        return {**vector, "storageType": "p", "pathOrInlineDv": spell_as_hadoop(root + (vector_file(text) or text))}

    # Of an absolute path the first letter of the name is escaped, which every reader decodes.
    directory, _, name = text.rpartition("/")
    return {**vector, "pathOrInlineDv": f"{directory}/%{ord(name[0]):02X}{name[1:]}"}


def _take_vectors_back(adds: RecordBatch, own_vectors: dict[str, JsonObject | None]) -> RecordBatch:
    """Return adds with their own vectors instead of those that stood in for them."""
    vectors = adds.column("deletionVector")
    own = [own_vectors[_vector_key(vector)] for vector in vectors.to_pylist()]
    return _replace_columns(adds, deletionVector=pa.array(own, vectors.type))


def _find_changed(adds: RecordBatch, own_vectors: dict[str, JsonObject | None]) -> ArrowArray:
    """Return which live files have a vector that stands in for another one.

    A file of the table's own directory that another writer gave an empty vector is left alone.
    """
    vectors = adds.column("deletionVector").to_pylist()
    is_changed = [vector is not None and _vector_key(vector) in own_vectors for vector in vectors]
    return pc.and_(pa.array(is_changed, pa.bool_()), are_absolute(adds.column("path")))


def _is_empty(vector: JsonObject | None) -> bool:
    if vector is None or vector["cardinality"] != 0:
        return False
    return vector["storageType"] == "u" and str(vector["pathOrInlineDv"]).startswith(EMPTY_VECTOR_DIRECTORY)


def _vector_key(vector: JsonObject) -> str:
    return f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def _replace_columns(adds: RecordBatch, **changed: ArrowArray) -> RecordBatch:
    columns = [changed.get(name, adds.column(name)) for name in adds.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=adds.schema.names)
