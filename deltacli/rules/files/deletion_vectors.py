"""Rules about deletion vectors: what descriptors say, and which files exist. Their contents: `vector_contents`.

Their files have their own module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.core.units import format_count, format_size
from deltacli.delta import data_files
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.delta.paths.spelling import canonicalize_path, canonicalize_root, decode
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.rules.framework import views
from deltacli.rules.framework.base import LOST_BY_VACUUM, Area, Finding, Level, by_repair

AREA = Area("deletion_vectors", spec="Deletion Vector Descriptor Schema")

_VECTORS = "Deletion Vectors"
WITHOUT_VECTOR = "rewrite the file without its vector, or restore an older version"
CORRECT_DESCRIPTOR = "commit the same add again with a correct descriptor, and remove the old one"
BAD_DESCRIPTOR = AREA.error(
    "dv.bad-descriptor",
    "A deletion vector descriptor lacks a field, has a negative number, or has an unknown storage type.",
    broken="no reader finds the vector, so the file cannot be read",
    repair=WITHOUT_VECTOR,
    loss="the deletions of the vector",
    example='"deletionVector":{"storageType":"x","pathOrInlineDv":"…","sizeInBytes":34,"cardinality":1}',
)
NAMES_NOTHING = AREA.error(
    "dv.names-nothing",
    "A checkpoint has a deletion vector descriptor of nulls, or of empty texts and zeros, for a file without a vector.",
    spec="Checkpoint Schema",
    broken="some readers refuse the checkpoint; deltacli reads the file without a vector",
    repair="rewrite the checkpoint",
    example='"deletionVector":{"storageType":"","pathOrInlineDv":"","sizeInBytes":0,"cardinality":0} in a checkpoint',
)
BAD_Z85 = AREA.error(
    "dv.bad-z85",
    "The z85 text of a deletion vector descriptor cannot be decoded.",
    broken="no reader finds the vector, so the file cannot be read",
    repair=WITHOUT_VECTOR,
    loss="the deletions of the vector",
    example='"deletionVector":{"storageType":"u","pathOrInlineDv":"tooshort",…}',
)
INLINE_WITH_OFFSET = AREA.error(
    "dv.inline-with-offset",
    "An inline deletion vector has an offset.",
    broken="some readers refuse the descriptor",
    repair=CORRECT_DESCRIPTOR,
    example='"deletionVector":{"storageType":"i","offset":1,…}',
)
ABSOLUTE_NOT_ABSOLUTE = AREA.error(
    "dv.absolute-not-absolute",
    "A deletion vector of storage type p has a path that is not absolute.",
    broken="readers look for the file in different places",
    repair=CORRECT_DESCRIPTOR,
    example='"deletionVector":{"storageType":"p","pathOrInlineDv":"dv/deletion_vector_1.bin",…}',
)
OFFSET_ZERO = AREA.warning(
    "dv.offset-zero-vs-null",
    "A deletion vector in a file has offset 0 or no offset, but the first byte of such a file is its version.",
    spec="Deletion Vector File Storage Format",
    broken="readers start at different bytes, and offsets 0 and null give one vector two ids",
    repair=CORRECT_DESCRIPTOR,
    example='"deletionVector":{"storageType":"u","offset":0,…}',
)
EMPTY = AREA.warning(
    "dv.empty",
    "A deletion vector deletes no row.",
    spec=_VECTORS,
    broken="nothing, but readers open a file unnecessarily",
    repair="commit the add without the vector",
    example='"deletionVector":{…,"cardinality":0}',
)
NUM_RECORDS_MISSING = AREA.error(
    "dv.num-records-missing",
    "The statistics of a file with a deletion vector have no numRecords.",
    spec="Writer Requirements for Deletion Vectors",
    broken="the remaining rows cannot be counted",
    repair="commit the same add again with numRecords from the file's footer",
    example='{"add":{…,"deletionVector":{…}}} without stats',
)
FEATURE_MISSING = AREA.error(
    "dv.feature-missing",
    "A file has a deletion vector, but the protocol does not support them.",
    spec=_VECTORS,
    broken="readers that trust the protocol show the deleted rows again",
    repair="commit a protocol that supports deletionVectors",
    example='"deletionVector":{…} under {"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
)
WRITTEN_WHILE_DISABLED = AREA.warning(
    "dv.written-while-disabled",
    "A commit writes a new deletion vector while delta.enableDeletionVectors is not true.",
    spec="Writer Requirements for Deletion Vectors",
    broken="nothing: readers apply the vector",
    repair="no repair needed",
    example='a new "deletionVector":{…} in a table without delta.enableDeletionVectors',
)
ICEBERG_CONFLICT = AREA.error(
    "dv.iceberg-conflict",
    "A file has a deletion vector while icebergCompatV1 or V2 is on.",
    spec="Writer Requirements for IcebergCompatV1 and V2",
    broken="Iceberg readers show the deleted rows",
    repair="rewrite the files that have vectors (REORG … APPLY (PURGE))",
    example='"deletionVector":{…} under delta.enableIcebergCompatV2=true',
)
ALL_ROWS = AREA.info(
    "dv.all-rows",
    "A deletion vector deletes every row of its file.",
    spec=_VECTORS,
    broken="nothing, but readers open a file that has no rows left",
    repair="commit a remove of the file",
    example='"deletionVector":{…,"cardinality":10},"stats":"{\\"numRecords\\":10}"',
)
HIDDEN_PREFIX = AREA.info(
    "dv.random-prefix-dir",
    "The directory of a deletion vector has a hidden name.",
    broken="tools that skip hidden names miss the vector",
    repair=CORRECT_DESCRIPTOR,
    example='"deletionVector":{"storageType":"u","pathOrInlineDv":"_ab^-aqEH.-t@S}K{vb[*k^",…}',
)


_FEATURE = "deletionVectors"
_ENABLED = "delta.enableDeletionVectors"
_COPIES = frozenset({"CLONE", "RESTORE"})
"""Operations that bring vectors of other versions, or of other tables, and write none."""
_Z85 = r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]"
_SURE_UUID = rf"([0-9a-zA-Z.:+=^!/*?&<>()\[\]{{}}@-]{_Z85}{{4}}){{4}}$"
"""Twenty characters in groups that fit 32 bits whatever follows their first one."""
_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)"
_HIDDEN = rf"(?s)(^|/)[_.].{{{data_files.UUID_LENGTH}}}"
"""A hidden name before the last twenty characters, which are those of the UUID."""


class _Vectors:
    """The descriptors of the rows of a view that have one."""

    def __init__(self, view: views.FilesView) -> None:
        column = view.adds.column("deletionVector")
        if view.versions is None:
            column = data_files.without_empty(column)
        self.rows = pc.indices_nonzero(pc.is_valid(column))
        present = pc.filter(column, pc.is_valid(column))
        self.kind = pc.struct_field(present, ["storageType"])
        self.text = pc.struct_field(present, ["pathOrInlineDv"])
        self.offset = pc.struct_field(present, ["offset"])
        self.size = pc.struct_field(present, ["sizeInBytes"])
        self.cardinality = pc.struct_field(present, ["cardinality"])

    def row(self, index: int) -> int:
        """The row of the view."""
        return int(self.rows[index].as_py())

    def of_kind(self, *kinds: str) -> ArrowArray:
        return pc.is_in(self.kind, value_set=pa.array(kinds, pa.string()))


def _vectors_of(view: views.FilesView) -> _Vectors | None:
    if not view.rows_with_vectors:
        return None
    vectors = view.memory.get("vectors")
    if not isinstance(vectors, _Vectors):
        vectors = view.memory["vectors"] = _Vectors(view)
    return vectors if len(vectors.rows) else None


@AREA.check(views.FilesView, BAD_DESCRIPTOR, EMPTY)
def descriptors_without_sense(view: views.FilesView) -> Iterator[Finding]:
    """Missing fields, unknown storage types and impossible numbers."""
    vectors = _vectors_of(view)
    if vectors is None:
        return
    known = ("u", "i", "p", "r") if "adaptiveMetadata" in view.config.features else ("u", "i", "p")
    unknown = pc.and_(pc.is_valid(vectors.kind), pc.invert(vectors.of_kind(*known)))
    for index in views.rows_where(unknown):
        kind = vectors.kind[index].as_py()
        text = f"the storage type of the deletion vector is {kind!r}"
        place = view.place(vectors.row(index))
        yield BAD_DESCRIPTOR.at(place, text, seen=kind, expected=", ".join(known))
    for name, values in (
        ("storageType", vectors.kind),
        ("pathOrInlineDv", vectors.text),
        ("sizeInBytes", vectors.size),
        ("cardinality", vectors.cardinality),
    ):
        if values.null_count:
            for index in views.rows_where(pc.is_null(values)):
                text = f"the deletion vector has no {name}"
                yield BAD_DESCRIPTOR.at(view.place(vectors.row(index)), text, expected=name)
    for name, values in (
        ("offset", vectors.offset),
        ("sizeInBytes", vectors.size),
        ("cardinality", vectors.cardinality),
    ):
        for index in views.rows_where(pc.less(values, 0)):
            seen = values[index].as_py()
            text = f"{name} of the deletion vector is negative"
            place = view.place(vectors.row(index))
            yield BAD_DESCRIPTOR.at(place, text, seen=seen, expected="0 or more")
    for index in views.rows_where(pc.equal(vectors.cardinality, 0)):
        place = view.place(vectors.row(index))
        has_absolute_path = are_absolute(pa.array([place.key or ""], pa.string()))[0].as_py()
        text = vectors.text[index].as_py() or ""
        if has_absolute_path and text.startswith(data_files.EMPTY_VECTOR_DIRECTORY):
            # A repair of paths gives files this vector for one version; `path.file-uri-form` finds those that kept it.
            continue
        text = "the deletion vector deletes no row"
        yield EMPTY.at(place, text, seen=0, expected="1 or more")


@AREA.check(views.FilesView, NAMES_NOTHING)
def descriptors_of_no_vector(view: views.FilesView) -> Iterator[Finding]:
    """Descriptors in a checkpoint that stand for none."""
    if view.versions is None and view.rows_with_vectors:
        for row in view.rows(data_files.name_nothing(view.adds.column("deletionVector"))):
            text = "the file has no deletion vector, but a descriptor that names nothing"
            yield NAMES_NOTHING.at(view.place(row), text, expected="null")


@AREA.check(views.FilesView, BAD_Z85, INLINE_WITH_OFFSET, ABSOLUTE_NOT_ABSOLUTE, OFFSET_ZERO, HIDDEN_PREFIX)
def places_of_vectors(view: views.FilesView) -> Iterator[Finding]:
    """Where the descriptor says that the vector is."""
    vectors = _vectors_of(view)
    if vectors is None:
        return
    yield from _bad_texts(view, vectors)
    inline = vectors.of_kind("i")
    for index in views.rows_where(pc.and_(inline, pc.is_valid(vectors.offset))):
        text = "the inline deletion vector has an offset"
        seen = vectors.offset[index].as_py()
        yield INLINE_WITH_OFFSET.at(view.place(vectors.row(index)), text, seen=seen, expected="none")
    relative = pc.and_not(vectors.of_kind("p"), pc.match_substring_regex(vectors.text, _ABSOLUTE))
    for index in views.rows_where(relative):
        text = "the path of the deletion vector is not absolute, as its storage type says"
        seen = vectors.text[index].as_py()
        place = view.place(vectors.row(index))
        yield ABSOLUTE_NOT_ABSOLUTE.at(place, text, seen=seen, expected="an absolute path")
    in_file = pc.and_(vectors.of_kind("u", "p"), pc.equal(pc.coalesce(vectors.offset, 0), 0))
    for index in views.rows_where(in_file):
        seen = vectors.offset[index].as_py()
        text = "the deletion vector has no offset in its file" if seen is None else "the offset is that of the version"
        place = view.place(vectors.row(index))
        yield OFFSET_ZERO.at(place, text, seen="none" if seen is None else seen, expected="1 or more")
    for index in views.rows_where(pc.and_(vectors.of_kind("u"), pc.match_substring_regex(vectors.text, _HIDDEN))):
        prefix = vectors.text[index].as_py()[: -data_files.UUID_LENGTH]
        text = f"the directory {prefix} of the deletion vector has a hidden name"
        yield HIDDEN_PREFIX.at(view.place(vectors.row(index)), text, seen=prefix, expected="no leading _ or .")


def _bad_texts(view: views.FilesView, vectors: _Vectors) -> Iterator[Finding]:
    """Texts that do not decode; those of the usual form surely do."""
    sure = pc.and_(vectors.of_kind("u"), pc.match_substring_regex(vectors.text, _SURE_UUID))
    for index in views.rows_where(pc.and_not(pc.and_(vectors.of_kind("u", "i"), pc.is_valid(vectors.text)), sure)):
        descriptor = vectors.text[index].as_py()
        place = view.place(vectors.row(index))
        if vectors.kind[index].as_py() == "i":
            if data_files.inline_bytes(descriptor) is None:
                text = "the inline deletion vector is not z85 text"
                yield BAD_Z85.at(place, text, seen=descriptor, expected="z85, five characters for four bytes")
        elif (
            len(descriptor) < data_files.UUID_LENGTH
            or data_files.decode_z85(descriptor[-data_files.UUID_LENGTH :]) is None
        ):
            text = "the name of the deletion vector's file is not a UUID in z85"
            expected = f"{data_files.UUID_LENGTH} characters of z85, after a prefix if there is one"
            yield BAD_Z85.at(place, text, seen=descriptor, expected=expected)


@AREA.check(views.FilesView, NUM_RECORDS_MISSING, ALL_ROWS)
def records_beside_vectors(view: views.FilesView) -> Iterator[Finding]:
    """Files whose records are unknown, or all deleted."""
    vectors = _vectors_of(view)
    if vectors is None:
        return
    records = pc.take(view.num_records, vectors.rows)
    for index in views.rows_where(pc.and_(pc.equal(records, vectors.cardinality), pc.greater(records, 0))):
        seen = records[index].as_py()
        text = f"the deletion vector deletes all {format_count(seen)} rows of the file"
        yield ALL_ROWS.at(view.place(vectors.row(index)), text, seen=seen, expected=f"fewer than {seen}")
    stats = view.adds.column("stats")
    if not records.null_count or (view.versions is None and stats.null_count == len(stats)):
        return  # a checkpoint may keep its statistics in columns alone
    faulty = {fault.row for fault in views.stats_of(view).faults if fault.what in ("", "numRecords")}
    for index in views.rows_where(pc.is_null(records)):
        if vectors.row(index) not in faulty:
            text = "the file has a deletion vector, but its statistics have no numRecords"
            yield NUM_RECORDS_MISSING.at(view.place(vectors.row(index)), text, expected="numRecords")


@AREA.check(views.FilesView, FEATURE_MISSING, ICEBERG_CONFLICT)
def vectors_that_must_not_be(view: views.FilesView) -> Iterator[Finding]:
    """Vectors under a protocol or properties that rule them out. Once for all files of a view."""
    vectors = _vectors_of(view)
    if vectors is None or view.config.protocol is None:
        return
    count = len(vectors.rows)
    many = f" in {format_count(count)} files" if count > 1 else ""
    place = view.place(vectors.row(0))
    features = view.config.features
    if _FEATURE not in features:
        text = f"there is a deletion vector{many}, but the protocol does not support deletionVectors"
        expected = f"{_FEATURE} among the features"
        yield FEATURE_MISSING.at(place, text, seen=", ".join(sorted(features)), expected=expected)
    for name in ("icebergCompatV1", "icebergCompatV2"):
        key = f"delta.enableI{name[1:]}"
        if name in features and view.config.is_on(key):
            text = f"there is a deletion vector{many}, and {name} is on"
            yield ICEBERG_CONFLICT.at(place, text, seen=f"{key}=true", expected="no deletion vectors")


@AREA.check(views.CommitView, WRITTEN_WHILE_DISABLED)
def vectors_written_while_disabled(view: views.CommitView) -> Iterator[Finding]:
    """Vectors that the file did not have before, in a version that forbids to write any."""
    config = view.after
    if config.metadata is None or config.is_on(_ENABLED) or _FEATURE not in config.features:
        return
    if (view.commit_info or {}).get("operation") in _COPIES:
        return
    for placed in view.adds:
        vector = placed.action.get("deletionVector")
        if vector is None or data_files.find_descriptor_fault(vector) is not None:
            continue
        path = placed.action.get("path")
        live = view.live_before(path) if isinstance(path, str) else None
        if live is not None and data_files.unique_id(vector) not in {file.dv_id for file in live}:
            text = "the commit writes a deletion vector, which the table's properties do not allow"
            place = view.place(placed.line, path)
            yield WRITTEN_WHILE_DISABLED.at(place, text, seen=config.properties.get(_ENABLED), expected="true")


# -- the files of deletion vectors against one listing of the table ----------------------------------------------------

STORAGE_AREA = Area("deletion_vectors", Level.STORAGE)

ABSOLUTE_IN_ROOT = STORAGE_AREA.warning(
    "dv.absolute-in-root",
    "An absolute path of a deletion vector points into the table. The vacuum of Delta-Spark does not protect it.",
    spec="Delta-Spark: VacuumCommand",
    broken="a vacuum may delete the vector, and moving the table breaks the path",
    repair="commit the same add again with storage type u, and remove the old one",
    example='"deletionVector":{"storageType":"p","pathOrInlineDv":"s3://bucket/table/deletion_vector_1.bin",…}',
    level=Level.LOG,
)
VECTOR_FILE_MISSING = STORAGE_AREA.error(
    "dv.file-missing",
    "The file of a deletion vector does not exist.",
    spec="Deletion Vectors",
    broken="the data file cannot be read, or its deleted rows come back",
    repair=by_repair("the vector"),
    loss="the rows of the file, if no copy has the vector",
    example='"deletionVector":{"storageType":"u",…} and no deletion_vector_….bin',
)
ORPHAN = STORAGE_AREA.info(
    "dv.orphan",
    "A file of deletion vectors is not named by any file of the log, and older than the retention of removed files.",
    spec="Deletion Vector Files",
    broken="nothing, but it takes space",
    repair="vacuum the table",
    loss=LOST_BY_VACUUM,
    example="deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin, which no action names",
)


_COLON_ONLY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!/)")
"Begins like a URI but is not one: readers resolve it below the table."


@STORAGE_AREA.check(views.StorageView, VECTOR_FILE_MISSING, ABSOLUTE_IN_ROOT)
def files_of_live_vectors(view: views.StorageView) -> Iterator[Finding]:
    """Check that the vectors of live files exist and have the right kind of name. Each file is looked up once."""
    adds = view.live_adds.combine_chunks()
    kinds, paths = _whole(adds.column("dv_storage")), _whole(adds.column("dv_path"))
    for kind in ("u", "p"):
        rows = pc.indices_nonzero(pc.equal(kinds, kind))
        if not len(rows):
            continue
        encoded = pc.dictionary_encode(pc.take(paths, rows))
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            location, is_there, is_inside = _look(view, kind, text)
            if is_there and not is_inside:
                continue
            for index in pc.indices_nonzero(pc.equal(encoded.indices, number)).to_pylist():
                place = views.place_of_live_file(adds.slice(rows[index].as_py(), 1).to_pylist()[0])
                if not is_there:
                    message = f"the file {location} of the deletion vector does not exist"
                    yield VECTOR_FILE_MISSING.at(place, message, seen="missing", expected=location)
                if is_inside:
                    message = f"the deletion vector is named by an absolute path inside the table: {text}"
                    yield ABSOLUTE_IN_ROOT.at(place, message, seen=text, expected=location)


def _look(view: views.StorageView, kind: str, text: str) -> tuple[str, bool, bool]:
    """Return where the file is, whether it exists (None if unknown), and whether an absolute path leads to it."""
    if kind == "u":
        location = data_files.vector_file(text)
        return (location, view.may_be_there(location), False) if location is not None else (text, True, False)
    inside = _below_root(view, text)
    if inside is not None:
        return inside, view.may_be_there(inside), True
    if _COLON_ONLY.match(text):
        return text, view.may_be_there(decode(text)), False
    return text, view.exists(text) is not False, False


def _below_root(view: views.StorageView, path: str) -> str | None:
    """Return the part of an absolute path below the table, decoded, or None if it points elsewhere."""
    root = f"{canonicalize_root(view.uri)}/"
    for spelling in (canonicalize_path(path), path):
        if spelling.startswith(root):
            return spelling[len(root) :]
    return None


@STORAGE_AREA.check(views.StorageView, ORPHAN)
def files_that_no_vector_names(view: views.StorageView) -> Iterator[Finding]:
    """Report files of vectors that no live file and no tombstone names, and that a vacuum would delete.

    A file that is younger than the retention may be about to be committed, and a vacuum keeps it.
    """
    hidden, nested = views.hidden_names(view), tuple(f"{root}/" for root in view.nested_logs)
    threshold = view.now_ms - deleted_file_retention_ms(view.state.config.properties)
    found = (
        path
        for path, file in view.files.items()
        if file.modified_ms < threshold and data_files.VECTOR_FILE.fullmatch(path)
    )
    candidates = [path for path in found if not (hidden.hides_path(path) or path.startswith(nested))]
    if not candidates:
        return
    named = _named_files(view)
    for path in candidates:
        if path not in named:
            file = view.files[path]
            message = f"{path} ({format_size(file.size_bytes)}) is not named by any live file or tombstone"
            yield ORPHAN.at(Place(path), message, seen="unnamed", expected="a deletion vector that names it")


def _named_files(view: views.StorageView) -> set[str]:
    """Return every file, relative to the table, that holds a vector of a live file or a tombstone."""
    adds = view.live_adds
    pairs: set[tuple[object, object]] = set()
    for kind in ("u", "p"):
        chosen = pc.filter(adds.column("dv_path"), pc.equal(adds.column("dv_storage"), kind))
        pairs.update((kind, text) for text in pc.unique(chosen).to_pylist() if text is not None)
    for remove in view.tombstones:
        vector = remove.get("deletionVector")
        if isinstance(vector, dict):
            pairs.add((str(vector.get("storageType")), str(vector.get("pathOrInlineDv"))))
    named: set[str] = set()
    for storage, text in pairs:
        if not isinstance(text, str):
            continue
        location = (
            data_files.vector_file(text) if storage == "u" else _below_root(view, text) if storage == "p" else None
        )
        if location is not None:
            named.update((location, decode(location)))
    return named


def _whole(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
