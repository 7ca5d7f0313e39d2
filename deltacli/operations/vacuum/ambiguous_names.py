"""Files that are removed for deltacli, and live for engines that compare the paths of the log as text.

A vacuum keeps what any engine reads as live. The doubt can only be about a file whose remove is older than the
retention, because what later commits remove is kept anyway. So the log is looked at as it was before these commits.

Spec: Action Reconciliation; Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable, command
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.paths.engine_readings import RULES_OF_SPELLINGS, SEVERAL_SPELLINGS, AmbiguousFile
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import encoded_root
from deltacli.delta.paths.spelling_columns import made_absolute
from deltacli.operations.vacuum.candidates import Window
from deltacli.table.ambiguous_files import describe_ambiguous, find_ambiguous_files
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot


class AmbiguousName(NamedTuple):
    """A file that some engine reads.

    Attributes:
        file: The file.
        table: The address of the table whose log names it.
        hashes: The hashes by which a listing knows it and the files of its vectors.
    """

    file: AmbiguousFile
    table: str
    hashes: ArrowArray


class AmbiguousNames(NamedTuple):
    """All files that some engine reads."""

    names: tuple[AmbiguousName, ...]

    @property
    def hashes(self) -> ArrowArray:
        """Return the hashes of all files."""
        return pa.concat_arrays([name.hashes for name in self.names])

    def notes(self, needed: ArrowArray) -> Iterator[str]:
        """Yield a note for each table whose log is the reason why some of the files are kept.

        Args:
            needed: Hashes of the listed files that are not deleted because something needs them.
        """
        kept: dict[str, list[AmbiguousFile]] = {}
        for file, table, hashes in self.names:
            # What deltacli reads is kept for itself.
            if file.is_read_only_by_others and pc.any(pc.is_in(hashes, value_set=needed)).as_py():
                kept.setdefault(table, []).append(file)
        for table, files in kept.items():
            is_are = "is" if len(files) == 1 else "are"
            yield (
                f"{plural(len(files), 'file')} {is_are} kept for engines that compare paths as text: the log of "
                f"{table} names {describe_ambiguous(files)} [{SEVERAL_SPELLINGS}]; to see more: "
                f"{command('validate', table=table, select=RULES_OF_SPELLINGS)}"
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
    names: list[AmbiguousName] = []
    past = _read_before_retained(snapshot, window)
    for file in _find_read_by_some(past):
        paths = pa.array(file.spellings, pa.string())
        names.append(AmbiguousName(file, snapshot.table.address, _hash_names(keys, file, paths)))
    for other in others:
        root = encoded_root(other.table.uri)
        for file in _find_read_by_some(other):
            paths = made_absolute(pa.array(file.spellings, pa.string()), root)
            names.append(AmbiguousName(file, other.table.address, _hash_names(keys, file, paths)))
    return AmbiguousNames(tuple(names)) if names else None


def _find_read_by_some(snapshot: Snapshot | None) -> Iterator[AmbiguousFile]:
    """Yield the files of a version that some engines read, and others not, or not as often; none without a version."""
    for file in () if snapshot is None else find_ambiguous_files(snapshot):
        if file.live_vector_ids and file.engines_differ:
            yield file


def _hash_names(keys: PathKeys, file: AmbiguousFile, paths: ArrowArray) -> ArrowArray:
    """Return the hashes of a file at these paths, and of the files of its vectors, in every reading."""
    of_paths = keys.compute_keys(paths)
    of_vectors = keys.compute_vector_keys(pa.array(sorted(file.live_vector_ids), pa.string()))
    return pa.concat_arrays(
        [
            pc.drop_null(of_paths.hashes),
            of_paths.alternative_hashes,
            pc.drop_null(of_vectors.hashes),
            of_vectors.alternative_hashes,
        ]
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
