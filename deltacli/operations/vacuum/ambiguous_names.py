"""Files that are removed for deltacli, and live for engines that compare the paths of the log as text.

A vacuum keeps what any engine reads as live. The doubt can only be about a file whose remove is older than the
retention, because what later commits remove is kept anyway. So the log is looked at as it was before these commits.

Spec: Action Reconciliation; Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.arrow import compute as pc
from deltacli.arrow import pa
from deltacli.core.errors import Unreadable, command
from deltacli.core.made_once import NamedTuple
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.data_files import encoded_root, made_absolute
from deltacli.delta.listing import PathKeys
from deltacli.delta.log.path_readings import SEVERAL_SPELLINGS, AmbiguousFile
from deltacli.operations.vacuum.candidates import Window
from deltacli.table.ambiguous_files import describe_ambiguous, find_ambiguous_files
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot


class AmbiguousNames(NamedTuple):
    """Files that some engine reads.

    Attributes:
        files: The files.
        hashes_of_files: For each of them the hashes by which a listing knows it and the files of its vectors.
    """

    files: tuple[AmbiguousFile, ...]
    hashes_of_files: tuple[ArrowArray, ...]

    @property
    def hashes(self) -> ArrowArray:
        """Return the hashes of all files."""
        return pa.concat_arrays(self.hashes_of_files)

    def notes(self, table: str, needed: ArrowArray) -> Iterator[str]:
        """Yield a note if some of the files are there.

        Args:
            table: The address of the table.
            needed: Hashes of the listed files that are not deleted because something needs them.
        """
        kept = [
            file
            for file, hashes in zip(self.files, self.hashes_of_files, strict=True)
            if pc.any(pc.is_in(hashes, value_set=needed)).as_py()
        ]
        if not kept:
            return
        is_are = "is" if len(kept) == 1 else "are"
        yield (
            f"{plural(len(kept), 'file')} {is_are} kept for engines that compare paths as text: the log names "
            f"{describe_ambiguous(kept)} [{SEVERAL_SPELLINGS}]; to see more: "
            f"{command('validate', table=table, select=[SEVERAL_SPELLINGS])}"
        )


def find_ambiguous_names(
    snapshot: Snapshot, window: Window, others: Sequence[Snapshot], keys: PathKeys
) -> AmbiguousNames | None:
    """Return the files that some engines read by another spelling of their paths, or None without such files.

    Args:
        snapshot: The newest version of the table.
        window: Which of its commits are retained.
        others: The newest versions of other tables that need files of this one.
        keys: How the names of this table are hashed.

    Raises:
        CommitCorrupt: If a commit is damaged.
        StorageFailed: If the log cannot be read.
    """
    named: list[tuple[AmbiguousFile, pa.Array]] = []
    past = _read_before_retained(snapshot, window)
    for file in () if past is None else find_ambiguous_files(past):
        named.append((file, pa.array(file.spellings, pa.string())))
    for other in others:
        root = encoded_root(other.table.uri)
        for file in find_ambiguous_files(other):
            named.append((file, made_absolute(pa.array(file.spellings, pa.string()), root)))

    read_by_some = [(file, paths) for file, paths in named if file.live_vector_ids and file.engines_differ]
    if not read_by_some:
        return None
    files = tuple(file for file, _ in read_by_some)
    return AmbiguousNames(files, tuple(_hash_names(keys, file, paths) for file, paths in read_by_some))


def _hash_names(keys: PathKeys, file: AmbiguousFile, paths: ArrowArray) -> ArrowArray:
    """Return the hashes of a file at these paths, and of the files of its vectors, in every reading."""
    of_paths = keys.of_log(paths)
    of_vectors = keys.of_vectors(pa.array(sorted(file.live_vector_ids), pa.string()))
    return pa.concat_arrays(
        [pc.drop_null(of_paths.hashes), of_paths.spare, pc.drop_null(of_vectors.hashes), of_vectors.spare]
    )


def _read_before_retained(snapshot: Snapshot, window: Window) -> Snapshot | None:
    """Return the newest version whose commit is not retained, or the newest one of all if the log cannot give that.

    None if all commits are retained.
    """
    version = window.last_before
    if version is None:
        return None
    if version == snapshot.version:
        return snapshot
    try:
        return read_snapshot(snapshot.table, version=version)
    except Unreadable:
        return snapshot
