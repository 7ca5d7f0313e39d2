"""Where live files are that are missing under their names: the same files under other names.

Nothing is renamed by a guess. A pair is named only if one file fits and no other: its name is another spelling of the
missing file's name, or it alone has the size, the rows and the statistics that the log records. Vectors are compared by
length, cardinality and checksum.

Spec: Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError, quote_word
from deltacli.delta.data_files import vector_file
from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
from deltacli.delta.paths.lookalikes import common_spelling, common_spellings
from deltacli.delta.paths.spelling import decode_path_bytes, encode_least, encode_path_bytes
from deltacli.operations.recover.verify import faults_within
from deltacli.operations.repair.true_statistics import is_true, true_statistics
from deltacli.storage import folds_names
from deltacli.table.needed_files import FileKind, NeededFiles, build_needed_files, combine_chunks, locate_files
from deltacli.work.facts.footer_files import ListedFile
from deltacli.work.files.walking import batch_listed_files

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.work.rows.deletion_vectors import Descriptor

_MOST_COMPARED = 20
"""Files that are compared with one that is missing. Where more have its size, no pair is named."""


class OtherNames(NamedTuple):
    """The names under which a missing file may be.

    Attributes:
        missing: The name that it should have, below the table.
        names: The files that fit, none of which any log names. The file is one of them if it is only one.
        is_spelling: Whether they are other spellings of the missing name.
        descriptor: For the file of a deletion vector, the vector as the log describes it; None for a data file.
        is_descriptor_wrong: Whether readers cannot resolve the descriptor, so that no file would be found by it.
        is_shared: Whether they fit another missing file as well.
    """

    missing: str
    names: tuple[str, ...]
    is_spelling: bool = False
    descriptor: Descriptor | None = None
    is_descriptor_wrong: bool = False
    is_shared: bool = False

    @property
    def other(self) -> str | None:
        """The only file that fits, and no other missing file; None where that is not known."""
        return self.names[0] if len(self.names) == 1 and not self.is_shared else None

    def describe(self, path: str) -> str:
        """Return what is known of a live file with this path, as the reason of a step that is not made."""
        if self.descriptor is None:
            what = f"{self.missing} is missing"
            match = "is another spelling of its name" if self.is_spelling else "matches what the log records of it"
            cause = ": a path in a commit may be damaged"
        else:
            what = f"the deletion vector of {path} is missing ({self.missing})"
            if self.is_descriptor_wrong:
                what = f"the deletion vector of {path} is not found, because its descriptor in the log names no file"
            match, cause = "has its size and cardinality", ""
        named = f"{_listed(self.names)}, which no log names,"
        if self.other is not None:
            return f"{what}, and {named} {match}{cause}"
        if len(self.names) == 1:
            return f"{what}, and {named} {match}, but also of another missing file"
        return f"{what}, and each of several files that no log names {match}: {_listed(self.names)}"

    def facts(self, path: str) -> dict[str, str]:
        """Return what a person can do. Each operation is right if it is done to the letter."""
        if self.other is None:
            return {"to see which one it is": "compare their rows with a backup of the table"}
        noun = "file" if self.descriptor is None else "vector"
        other, missing = _arguments(self.other, self.missing)
        way = f"copy {other} to {missing}"
        if self.is_descriptor_wrong:
            way = f"leave it where it is: an engine has to commit {path} with a descriptor that names it"
        return {f"if it is the {noun}": way, "if it is another one": f"move {other} out of the table"}


def _arguments(*names: str) -> Sequence[str]:
    """Return names for a shell. Letters that look alike but differ in their composition are written as bytes."""
    if len({normalize("NFC", name) for name in names}) == len(names):
        return [quote_word(name) for name in names]
    escaped = (
        "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}"
            for byte in name.encode("utf-8", "surrogateescape")
        )
        for name in names
    )
    return [f"$'{text}'" for text in escaped]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def find_other_names(
    table: TableHandle,
    now: Snapshot,
    missing: NeededFiles,
    vectors: Sequence[tuple[bytes, Descriptor]],
    statistics: Mapping[bytes, str | None],
    orphans: Sequence[str],
) -> Mapping[bytes, OtherNames]:
    """Return the names under which missing files may be, by the keys of the missing files.

    Args:
        table: The table.
        now: The newest version, whose live files are no other ones.
        missing: The files that are missing.
        vectors: The vectors whose files are missing or unknown, with the keys of these files.
        statistics: The statistics of missing data files as in the log, by their keys.
        orphans: The paths of files that no log names.

    Raises:
        StorageFailed: If files cannot be listed or read.
    """
    if not missing.files.num_rows and not vectors:
        return {}
    search = _Search(table, now, missing, _sizes_of(table, [*orphans, *_list_spellings(table, now, missing)]))
    found = search.match_vectors(vectors)
    found |= search.match_data(statistics)
    return found


def _list_spellings(table: TableHandle, now: Snapshot, missing: NeededFiles) -> list[str]:
    """Return the files of the table whose names are other spellings of missing names, without live ones. Rules about
    orphans leave out names that no Delta table uses, and files that other readings of a path find.
    """
    wanted = common_spellings(combine_chunks(missing.files["path"]))
    found: list[bytes] = []
    for files in batch_listed_files(
        table.storage.walk("", lambda _, names: [name for name in names if name != "_delta_log"])
    ):
        names = encode_paths_as_binary(files.paths) if isinstance(files.paths, list) else files.paths
        found += pc.filter(names, pc.is_in(common_spellings(names), value_set=wanted)).to_pylist()
    if not found:
        return []

    keys = PathKeys((table.storage.uri, *table.storage.aliases), folds_case=folds_names(table.storage))
    hashes = keys.hash_listed_paths(pa.array(found, pa.binary()))
    is_live = pc.is_null(hashes)
    for batch in now.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            for named in (
                keys.compute_keys(batch.adds.column("path")),
                keys.compute_vector_keys(batch.adds.column("dv_id")),
            ):
                is_live = pc.or_(is_live, pc.is_in(hashes, value_set=pc.drop_null(named.hashes)))
    return [decode_path_bytes(name) for name, live in zip(found, is_live.to_pylist(), strict=True) if not live]


def _sizes_of(table: TableHandle, paths: Sequence[str]) -> dict[str, int]:
    """Return the bytes of the files that are there."""
    in_log = pa.array([encode_least(path) for path in dict.fromkeys(paths)], pa.string())
    unknown = pa.nulls(len(in_log), pa.int64())
    needed = build_needed_files((table.storage.uri,), in_log, unknown, unknown)
    there, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    names = map(decode_path_bytes, combine_chunks(there.files["path"]).to_pylist())
    return {name: size for name, size in zip(names, sizes.to_pylist(), strict=True) if size is not None}


class _Search:
    """Compares missing files with files that no log names."""

    def __init__(self, table: TableHandle, now: Snapshot, missing: NeededFiles, sizes: Mapping[str, int]) -> None:
        self._table, self._now, self._missing, self._sizes = table, now, missing, sizes
        self._by_spelling: dict[bytes, list[str]] = {}
        for name in sizes:
            self._by_spelling.setdefault(common_spelling(encode_path_bytes(name)), []).append(name)

    def match_data(self, statistics: Mapping[bytes, str | None]) -> dict[bytes, OtherNames]:
        """Return the data files that fit missing ones."""
        data = self._missing.files.filter(pc.equal(self._missing.files["kind"], FileKind.DATA.value))
        columns = (data[name].to_pylist() for name in ("path", "sizeBytes", "rows"))
        pairs: list[tuple[bytes, str, int | None]] = []
        for key, size, rows in zip(*columns, strict=True):
            same_size = [name for name, seen in self._sizes.items() if seen == size]
            spellings = self._by_spelling.get(common_spelling(key), [])
            same_size.sort(key=lambda name: name not in spellings)
            pairs += ((key, name, rows) for name in same_size[: _MOST_COMPARED + 1])
        footers = [(ListedFile(encode_least(name), self._sizes[name]), rows) for _, name, rows in pairs]
        faults = faults_within(
            footers,
            [],
            {},
            self._table.replace_storage(self._table.storage).stores,
            self._table.engine,
            self._table.progress,
        )
        fitting: dict[bytes, list[str]] = {}
        for (key, name, _), fault in zip(pairs, faults, strict=True):
            if fault is None:
                fitting.setdefault(key, []).append(name)
        return self._choose(fitting, statistics)

    def _choose(
        self, fitting: Mapping[bytes, list[str]], statistics: Mapping[bytes, str | None]
    ) -> dict[bytes, OtherNames]:
        """Return what fits each missing file best: other spellings of its name, else files with its statistics."""
        chosen: dict[bytes, OtherNames] = {}
        taken = set[str]()
        for key, names in fitting.items():
            spellings = [name for name in self._by_spelling.get(common_spelling(key), []) if name in names]
            if spellings:
                chosen[key] = OtherNames(decode_path_bytes(key), tuple(spellings), is_spelling=True)
                taken.update(spellings)
        for key, names in fitting.items():
            others = [name for name in names if name not in taken]
            if key in chosen or not others:
                continue
            if len(names) <= _MOST_COMPARED:
                others = self._same_statistics(others, statistics.get(key)) or others
            chosen[key] = OtherNames(decode_path_bytes(key), tuple(others))
        return _mark_shared(chosen)

    def _same_statistics(self, names: Sequence[str], stated: str | None) -> list[str]:
        """Return the files whose rows have the statistics of the log; all if there are none to compare."""
        if stated is None:
            return list(names)
        files = self._table.files()
        same = []
        for name in names:
            try:
                true = true_statistics(files, self._now.config, encode_least(name), has_vector=False)
            except DeltacliError:
                continue  # a file that cannot be read as one of this table proves nothing
            if is_true(stated, true):
                same.append(name)
        return same

    def match_vectors(self, vectors: Sequence[tuple[bytes, Descriptor]]) -> dict[bytes, OtherNames]:
        """Return the files that have missing vectors."""
        candidates = [name for name in self._sizes if name.lower().endswith(".bin")]
        pairs: list[tuple[bytes, str, Descriptor]] = []
        for key, descriptor in vectors:
            stated = {name: value for name, value in descriptor.items() if value is not None}
            in_order = sorted(candidates, key=lambda name: not _may_be_named(name, key, stated))
            pairs += ((key, name, stated) for name in in_order[:_MOST_COMPARED])
        as_if_there = [
            {**stated, "storageType": "p", "pathOrInlineDv": encode_least(name)} for _, name, stated in pairs
        ]
        stores = self._table.replace_storage(self._table.storage).stores
        faults = faults_within([], as_if_there, self._sizes, stores, self._table.engine, self._table.progress)

        # A file may hold the vectors of several data files: one that is it has all of them.
        fitting: dict[bytes, set[str]] = {}
        for (key, name, _), fault in zip(pairs, faults, strict=True):
            if fault is None:
                fitting.setdefault(key, set()).add(name)
        for (key, name, _), fault in zip(pairs, faults, strict=True):
            if fault is not None and key in fitting:
                fitting[key].discard(name)

        described = dict(vectors)
        chosen = {key: self._choose_vector(key, names, described[key]) for key, names in fitting.items() if names}
        return _mark_shared(chosen)

    def _choose_vector(self, key: bytes, names: set[str], descriptor: Descriptor) -> OtherNames:
        """Return what fits the file of a vector best: names that another reading of its descriptor finds."""
        stated = {name: value for name, value in descriptor.items() if value is not None}
        spellings = [name for name in names if _may_be_named(name, key, stated)]
        best = tuple(sorted(spellings or names))
        is_wrong = not self._is_resolvable(stated)
        return OtherNames(decode_path_bytes(key), best, bool(spellings), stated, is_wrong)

    def _is_resolvable(self, descriptor: Descriptor) -> bool:
        """Return whether readers can resolve a descriptor of a vector in a file."""
        match descriptor.get("storageType"):
            case "u":
                return vector_file(str(descriptor.get("pathOrInlineDv"))) is not None
            case "p":
                return True
            case "r":
                return "adaptiveMetadata" in self._now.config.features
            case _:
                return False


def _mark_shared(chosen: Mapping[bytes, OtherNames]) -> dict[bytes, OtherNames]:
    """Return what fits, with a mark where the only file that fits also fits another missing file."""
    claims: dict[str, int] = {}
    for fit in chosen.values():
        for name in fit.names:
            claims[name] = claims.get(name, 0) + 1
    return {key: fit._replace(is_shared=claims[fit.names[0]] > 1) for key, fit in chosen.items()}


def _may_be_named(name: str, key: bytes, descriptor: Descriptor) -> bool:
    """Return whether a name is another reading of the name of a vector's file, or of its descriptor."""
    text = str(descriptor.get("pathOrInlineDv"))
    readings = [key, encode_path_bytes(text.strip()), encode_path_bytes(f"deletion_vector_{text}.bin")]
    as_relative = vector_file(text)
    if as_relative is not None:
        readings.append(encode_path_bytes(as_relative))
    spelling = common_spelling(encode_path_bytes(name))
    return any(common_spelling(reading) == spelling for reading in readings)
