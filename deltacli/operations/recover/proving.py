"""Which files of a log that sources offer are the table's own, by `deltacli.changing.proofs`.

A copy's history is that of the table up to the newest version for which there is a proof: a commit that both have, or
one that adds a file which lies in the table and which nothing else names. What a copy has above is its own, until
somebody accepts it: above the newest version of the table it is left out, between versions of the table it is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.proofs import (
    AcceptedByUser,
    CommonDataFile,
    CommonLaterCommit,
    MatchesLog,
    MatchingBeginning,
    Proof,
    RecordedDigest,
    SameObjectVersion,
    TableWithoutLog,
)
from deltacli.core.errors import CommitCorrupt, DeltacliError, FileMissing
from deltacli.core.ranges import name_ranges
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.listing import HiddenNames
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import CheckpointInstance, LogFileKind, LogListing, commit_name
from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.operations.log.log_copy import StoredFile, digest, list_whole_log, log_location, read_list, versioned
from deltacli.operations.recover.sources import CopySource, FileMap, MappedFile, Source, VersionsSource
from deltacli.storage import PathKind, ReadStorage, Storage, is_address_of
from deltacli.table.file_references import FileReferenceReader
from deltacli.table.find_log import ListedLog
from deltacli.table.handle import TableHandle
from deltacli.table.needed_files import combine_chunks
from deltacli.table.rebuild import rebuild_version
from deltacli.table.version import Snapshot
from deltacli.table.walk import TableWalk

Offer = dict[str, StoredFile]
_TAIL = 64 << 10
"""Bytes at the end of a file that are compared: its footer."""
_NAMED = 3


class Reach(NamedTuple):
    """Up to which version the log of a source is that of the table, and by what; -1 and None without a proof."""

    version: int
    proof: Proof | None


class LeftOut(NamedTuple):
    """Commits of a source that are above the newest version of the table, and that nothing proves. `loss` says what
    indicates that the table lost commits there, None where nothing does.
    """

    source: str
    versions: tuple[int, ...]
    newest: int
    loss: str | None

    @property
    def note(self) -> str:
        verb, they = ("is", "it was") if len(self.versions) == 1 else ("are", "they were")
        return (
            f"{name_ranges('commit', self.versions)} of {self.source} {verb} above version {self.newest}, the newest "
            f"of the table, and nothing in the table proves that {they} made there: left out"
        )


@dataclass(frozen=True)
class Proofs:
    """What proves the files that sources offer, by the number of the source."""

    reaches: Sequence[Reach]
    sources: Sequence[Source]
    accepted: frozenset[int]
    begun: Mapping[str, MatchingBeginning]
    left_out: tuple[LeftOut, ...]

    def reach_of(self, source: Source) -> Reach:
        """Return up to where a source is proven."""
        return next(reach for one, reach in zip(self.sources, self.reaches, strict=True) if one is source)

    def proof_of(self, source: Source, file: StoredFile) -> Proof | None:
        """Return what proves a file of a source, None where nothing does."""
        path = file.path
        if isinstance(source, VersionsSource):
            return SameObjectVersion(str(source.chosen[log_location(file.name)].version_id))
        reach, version = self.reach_of(source), path.newest
        if version < 0:  # a sidecar, which a checkpoint names, or the hint, which readers check
            return MatchesLog(file.size_bytes)
        if reach.proof is not None and version <= reach.version:
            proof = reach.proof
            return proof._replace(version=version) if isinstance(proof, CommonLaterCommit | CommonDataFile) else proof
        if file.name in self.begun:
            return self.begun[file.name]
        is_accepted = version in self.accepted and (path.version in self.accepted or path.version <= reach.version)
        return AcceptedByUser(version) if is_accepted else None


def prove(
    table: TableHandle,
    present: Mapping[str, StoredFile],
    cut: Mapping[str, StoredFile],
    sources: Sequence[Source],
    offers: Sequence[Offer],
    *,
    accepted: Collection[int] = (),
    version: int | None = None,
) -> Proofs:
    """Judge what sources offer, and take out of `offers` what is above the newest version of the table and unproven.

    `present` is the log of the table without its commits that are `cut` off. A `version` that was asked for is not
    taken out. Raises StorageFailed.
    """
    own: dict[str, tuple[ReadStorage, StoredFile]] = {name: (table.storage, file) for name, file in present.items()}
    for source, offer in zip(sources, offers, strict=True):
        if isinstance(source, VersionsSource) and source.is_readable:
            own |= {name: (source.files, file) for name, file in offer.items() if name not in own}
    newest = versioned(present.values()).newest_version
    begun = {name: one for name, file in cut.items() if (one := _begun(table.storage, file)) is not None}
    evidence = _Evidence(table, own)
    pairs = list(zip(sources, offers, strict=True))
    reaches = [_reach(table, own, begun, source, offer, evidence) for source, offer in pairs]
    proofs = Proofs(reaches, sources, frozenset(accepted), begun, ())
    if newest < 0:
        return proofs
    limit = newest if version is None else max(newest, version)
    left = [
        LeftOut(source.name, tuple(gone), newest, _loss(newest, reach, present, evidence))
        for (source, offer), reach in zip(pairs, reaches, strict=True)
        if (gone := _without_unproven(proofs, source, offer, limit))
    ]
    return replace(proofs, left_out=tuple(left))


def _without_unproven(proofs: Proofs, source: Source, offer: Offer, limit: int) -> list[int]:
    """Take out of an offer what is above a version and unproven; return the versions of such commits."""
    above = (file for file in offer.values() if file.path.newest > limit)
    unproven = [file for file in above if proofs.proof_of(source, file) is None]
    for file in unproven:
        del offer[file.name]
    return sorted(file.path.version for file in unproven if file.path.kind is LogFileKind.COMMIT)


def _begun(storage: ReadStorage, file: StoredFile) -> MatchingBeginning | None:
    """Return the proof of a commit that is cut off behind an action that is like no other's."""
    try:
        data = storage.read(log_location(file.name))
        actions = read_actions(data[: data.rfind(b"\n") + 1], file.name)
    except (CommitCorrupt, FileMissing):
        return None
    return MatchingBeginning(file.path.version, len(data)) if _is_unlike_others(actions) else None


def _reach(
    table: TableHandle,
    own: Mapping[str, tuple[ReadStorage, StoredFile]],
    begun: Mapping[str, MatchingBeginning],
    source: Source,
    offer: Offer,
    evidence: _Evidence,
) -> Reach:
    if isinstance(source, VersionsSource):
        return Reach(-1, None)
    if not any(file.path.version >= 0 for _, file in own.values() if file.path.kind in _OF_VERSIONS) and not begun:
        return Reach(max((file.path.version for file in offer.values()), default=-1), TableWithoutLog())
    commits = {file.path.version: file for file in offer.values() if file.path.kind is LogFileKind.COMMIT}
    found = Reach(-1, None)
    common = (file for name, file in offer.items() if name in own and file.path.kind in (*_OF_VERSIONS, _COMPACTION))
    for file in sorted(common, key=lambda file: (file.path.newest, file.name), reverse=True):
        newest = file.path.newest
        lacking = any(0 <= other.path.newest < newest and name not in own for name, other in offer.items())
        is_proof = _is_same(own[file.name], source.files, file)
        if is_proof and lacking and file.path.kind is LogFileKind.COMMIT:
            is_proof = evidence.is_unlike_others(source, offer, file)
        if is_proof:
            found = Reach(newest, CommonLaterCommit(newest, newest, file.name))
            break
    noted = _noted(table, source, commits, found.version)
    beginnings = (Reach(one.version, one) for name, one in begun.items() if name in offer)
    found = max([found, noted, *beginnings], key=_version_of)
    if any(version > found.version for version in commits):
        found = max(found, evidence.reach(source, offer, commits, found.version), key=_version_of)
    return found


def _version_of(reach: Reach) -> int:
    return reach.version


def _is_same(ours: tuple[ReadStorage, StoredFile], files: ReadStorage, file: StoredFile) -> bool:
    """Return True for a file of two logs with the same, unique bytes; of a checkpoint size and end are compared."""
    storage, own = ours
    path = log_location(file.name)
    try:
        if own.size_bytes != file.size_bytes:
            return False
        if file.name.endswith(".parquet"):
            return _have_same_end(storage, files, path, file.size_bytes)
        data = files.read(path)
        return storage.read(path) == data and _is_unlike_others(read_actions(data, file.name))
    except (CommitCorrupt, FileMissing):
        return False


def _have_same_end(ours: ReadStorage, theirs: ReadStorage, path: str, size_bytes: int) -> bool:
    begin = max(0, size_bytes - _TAIL)
    return ours.read_range(path, begin, _TAIL) == theirs.read_range(path, begin, _TAIL)


def still_holds(table: TableHandle, source: Source, proof: Proof, replaced: Collection[str]) -> bool:
    """Return False where what a proof compared is not there any more. `replaced` are the paths of damaged files of the
    log, which prove nothing. Raises StorageFailed.
    """
    match proof:
        case CommonLaterCommit(_, _, name):
            path = log_location(name)
            try:
                ours, theirs = (StoredFile(name, one.stat(path).size_bytes, 0) for one in (table.storage, source.files))
            except FileMissing:
                return False
            return _is_same((table.storage, ours), source.files, theirs)
        case CommonDataFile(_, _, file):
            return table.storage.kind_of(file) is PathKind.FILE
        case TableWithoutLog():
            present = (list_whole_log(table.storage) or {}).values()
            return versioned(one for one in present if log_location(one.name) not in replaced).newest_version < 0
        case _:
            return True


def _actions_of(storage: ReadStorage, file: StoredFile) -> Sequence[tuple[str, Action]]:
    try:
        return read_actions(storage.read(log_location(file.name)), file.name)
    except (CommitCorrupt, FileMissing):
        return []


def _is_unlike_others(actions: Iterable[tuple[str, Action]]) -> bool:
    """Return True for actions that no other commit has: a name was made up for them. A time is not enough."""
    return any(kind in ("add", "cdc") or (kind == "commitInfo" and action.get("txnId")) for kind, action in actions)


def _noted(table: TableHandle, source: Source, commits: Mapping[int, StoredFile], above: int) -> Reach:
    """Return up to where the list of a backup of this table has the commits of a source."""
    listed = read_list(source.files) if isinstance(source, CopySource) else None
    if listed is None or not is_address_of(table.storage, listed.table):
        return Reach(-1, None)
    for version in sorted(commits, reverse=True):
        noted = listed.files.get(commits[version].name)
        if version <= above:
            break
        if noted is not None and digest(source.files.read(log_location(noted.name))) == noted.sha256:
            return Reach(version, RecordedDigest(noted.sha256))
    return Reach(-1, None)


_COMPACTION = LogFileKind.COMPACTED_COMMIT
_OF_VERSIONS = (
    LogFileKind.COMMIT,
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
)


class _Evidence:
    """The files that lie in the table, and those that its log names; listed and read when first needed."""

    def __init__(self, table: TableHandle, own: Mapping[str, tuple[ReadStorage, StoredFile]]) -> None:
        self._table, self._own = table, own
        self._keys = PathKeys((table.storage.uri, *table.storage.aliases))
        self._unnamed: set[str] | None = None
        self.explained: set[str] = set()
        """Files that commits of sources name, up to where they are proven."""

    def unnamed(self) -> set[str]:
        """Return the files of the table that nothing in its log names."""
        if self._unnamed is None:
            named, found = self._named(self._own, -1, None), set[str]()
            with self._table.progress.step("listing the table", unit="files") as step, suppress(FileMissing):
                for files in TableWalk(self._table.storage, HiddenNames([])).files():
                    paths = encode_paths_as_binary(files.paths) if isinstance(files.paths, list) else files.paths
                    found |= _texts(pc.filter(paths, pc.invert(pc.is_in(paths, value_set=named))))
                    step.advance(len(paths))
            self._unnamed = found
        return self._unnamed

    def reach(self, source: Source, offer: Offer, commits: Mapping[int, StoredFile], common: int) -> Reach:
        """Return up to where the files that the commits of a source add above a version are the table's own."""
        later = _texts(self._named(self._own, common, None))
        unnamed = self.unnamed()
        if not unnamed and not later:
            return Reach(-1, None)
        files = {name: (source.files, file) for name, file in offer.items()}
        known = _texts(self._named(self._own, -1, common)) | _texts(self._named(files, -1, common))
        found, explained = Reach(-1, None), set[str]()
        above = [one for one in versioned(offer.values()).checkpoints if one.version > common]
        for version in sorted(version for version in commits if version > common):
            known |= self._of_checkpoints(files, [one for one in above if one.version < version])
            above = [one for one in above if one.version >= version]
            added = self._added(source.files, commits[version])
            if added is None:
                break
            fresh = added.keys() - known
            if fresh and all(path in later or self._is_there(source, path, added[path], unnamed) for path in fresh):
                found = Reach(version, CommonDataFile(version, version, min(fresh)))
                explained |= fresh
            known |= added.keys()
        if found.proof is not None:
            self.explained |= explained
        return found

    def later(self, since_ms: int) -> list[str]:
        """Return the files that nothing names, neither a proven commit of a source, and that are not older."""

        def is_later(path: str) -> bool:
            try:
                return self._table.storage.stat(path).modified_ms >= since_ms
            except FileMissing:
                return False

        rest = sorted(self.unnamed() - self.explained)
        at_once = self._table.storage.capabilities.parallel_reads
        return [
            path for path, yes in zip(rest, self._table.engine.run(is_later, rest, at_once=at_once), strict=True) if yes
        ]

    def is_unlike_others(self, source: Source, offer: Offer, file: StoredFile) -> bool:
        """Return True for a commit of a source that no history can have but one with all before it: it has an id, or
        adds a file that the version before it does not name, which a restore would.
        """
        if any(kind == "commitInfo" and one.get("txnId") for kind, one in _actions_of(source.files, file)):
            return True
        before = {name: (source.files, one) for name, one in offer.items() if one.path.newest < file.path.version}
        added, known = self._added(source.files, file) or {}, self._named_at(before, file.path.version - 1)
        return not added.keys() <= known

    def _named_at(self, files: Mapping[str, tuple[ReadStorage, StoredFile]], version: int) -> set[str]:
        """Return the live files and tombstones of a version; where it cannot be rebuilt, all files that are named."""
        view, listing = self._view(files), versioned(file for _, file in files.values())
        try:
            return {
                path
                for keys in self._rows_of(rebuild_version(view, ListedLog(listing), version))
                for path in _texts(keys)
            }
        except DeltacliError:
            return _texts(self._named(files, -1, None))

    def _is_there(self, source: Source, path: str, size_bytes: int | None, unnamed: set[str]) -> bool:
        """Return True for a file of the table that nothing else names and that is the one of the source."""
        if path not in unnamed:
            return False
        storage = self._table.storage
        try:
            there = storage.stat(path).size_bytes
            if size_bytes is not None and there != size_bytes:
                return False
            is_same_size = source.files.stat(path).size_bytes == there
            return is_same_size and _have_same_end(storage, source.files, path, there)
        except FileMissing:
            return size_bytes is not None  # the copy lacks it; in the table it has the size of the log

    def _added(self, storage: Storage, file: StoredFile) -> dict[str, int | None] | None:
        """Return the files that a commit adds, with their bytes; None where it cannot be read."""
        reader = FileReferenceReader(self._table.replace_storage(storage), versioned([file]))
        try:
            rows = [references for references in reader.read() if references.kind != "remove"]
        except CommitCorrupt:
            return None
        if reader.errors:
            return None
        found: dict[str, int | None] = {}
        for one in rows:
            sizes = one.size.to_pylist()
            for path, size in zip(
                self._keys.compute_keys(combine_chunks(one.path)).keys.to_pylist(), sizes, strict=True
            ):
                if path is not None:
                    found[decode_path_bytes(path)] = size
            found |= dict.fromkeys(_texts(self._keys.compute_vector_keys(combine_chunks(one.vector)).keys))
        return found

    def _named(self, files: Mapping[str, tuple[ReadStorage, StoredFile]], above: int, up_to: int | None) -> ArrowArray:
        """Return the files that a log names in a range of versions, by commits and by its checkpoints, as bytes."""
        view = self._view(files)
        listing = versioned(file for _, file in files.values())

        def is_within(version: int) -> bool:
            return version > above and (up_to is None or version <= up_to)

        commits = {version: file for version, file in listing.commits.items() if is_within(version)}
        parts: list[ArrowArray] = [pa.array([], pa.binary())]
        for rows in FileReferenceReader(view, LogListing(commits, ())).read():
            parts += self._keys_of(rows.path, rows.vector)
        for checkpoint in [one for one in listing.checkpoints if is_within(one.version)][-1:]:
            with suppress(DeltacliError):  # one that cannot be read names nothing
                parts += self._rows_of(
                    rebuild_version(view, ListedLog(LogListing({}, (checkpoint,))), checkpoint.version)
                )
        return pc.unique(pc.drop_null(pa.concat_arrays([combine_chunks(part) for part in parts])))

    def _view(self, files: Mapping[str, tuple[ReadStorage, StoredFile]]) -> TableHandle:
        mapped = {
            log_location(name): MappedFile(storage, log_location(name), file.size_bytes, file.modified_ms)
            for name, (storage, file) in files.items()
        }
        storage = self._table.storage
        return self._table.replace_storage(FileMap(storage.uri, mapped, storage.capabilities.parallel_reads))

    def _keys_of(self, paths: ArrowArray, vectors: ArrowArray) -> Iterator[ArrowArray]:
        of_log = self._keys.compute_keys(combine_chunks(paths))
        yield from (of_log.keys, of_log.undecoded, self._keys.compute_vector_keys(combine_chunks(vectors)).keys)

    def _rows_of(self, snapshot: Snapshot) -> Iterator[ArrowArray]:
        """Yield the live files and tombstones of a version. Raises CheckpointUnreadable."""
        for kind in ("add", "remove"):
            for paths, vectors in snapshot.file_actions.map_actions(
                kind,
                lambda rows: (rows.column("path"), unique_id_column(rows.column("deletionVector"))),
                fields=("path",),
            ):
                yield from self._keys_of(paths, vectors)

    def _of_checkpoints(
        self, files: Mapping[str, tuple[ReadStorage, StoredFile]], checkpoints: Sequence[CheckpointInstance]
    ) -> set[str]:
        names = {file.name for one in checkpoints for file in one.files}
        parts = {name: file for name, file in files.items() if name in names or "/" in name}
        return _texts(self._named(parts, -1, None)) if names else set()


def _texts(paths: ArrowArray) -> set[str]:
    return set(map(decode_path_bytes, pc.drop_null(paths).to_pylist()))


def _loss(newest: int, reach: Reach, present: Mapping[str, StoredFile], evidence: _Evidence) -> str | None:
    """Return what indicates that the table lost commits above its newest version, None where nothing does."""
    if reach.version > newest:
        return f"it lost {name_ranges('commit', range(newest + 1, reach.version + 1))}"
    beyond = [name for name, file in present.items() if file.path.newest > newest]
    if beyond:
        return f"its log has {min(beyond)}"
    names = {commit_name(newest), *(file.name for one in versioned(present.values()).checkpoints for file in one.files)}
    since = max(file.modified_ms for name, file in present.items() if name in names)
    later = evidence.later(since)
    if later:
        first = ", ".join(later[:_NAMED]) + ("" if len(later) <= _NAMED else ", …")
        return f"it has {plural(len(later), 'data file')} that no version names, newer than version {newest}: {first}"
    return None
