"""Files that the log names by several spellings of their path, and what engines read of them after a restore.

deltacli restores its own reading of a version. For a file with several spellings other engines may have read something
else in that version, or read something else after the restore:

    version 0                 version 1                 version 2, restored to version 0
    add a.parquet             add ./a.parquet           nothing differs, if the paths mean the same
    live as text: a           a and ./a                 a and ./a, so that the rows stay doubled

No commit undoes that for all engines: a remove of one spelling beside an add of the other one is a removed file for
those that let removes win. Such a restore is refused until a checkpoint has settled what the newest version is.

Spec: Action Reconciliation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Refusal, command
from deltacli.core.typing import ArrowArray
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.paths.engine_readings import (
    BEFORE_COMMITS,
    OWN_READING,
    RULES_OF_SPELLINGS,
    SEVERAL_SPELLINGS,
    AmbiguousFile,
    SpelledAction,
    live_vector_ids_of_engines,
)
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.delta.paths.spelling_columns import resolve_file_names
from deltacli.operations.restore.difference import Difference
from deltacli.table.ambiguous_files import describe_ambiguous, find_ambiguous_files, find_live_names
from deltacli.table.file_keys import read_selected_adds
from deltacli.table.partition_condition import Mask
from deltacli.table.version import Snapshot

Actions = Mapping[str, Sequence[SpelledAction]]
"""Name of a file -> its actions."""
Readings = Sequence[tuple[str, ...]]
"""What `live_vector_ids_of_engines` returns."""


def find_spelling_refusals(
    now: Snapshot, target: Snapshot, difference: Difference, where: Mask | None
) -> Iterator[Refusal]:
    """Yield a refusal if an engine would not read after a restore what it reads in the version to restore.

    Args:
        now: The newest version.
        target: The version to restore.
        difference: The files that the restore adds and removes.
        where: Chooses the files of a partial restore. Files of other partitions are not looked at. Those that deltacli
            reads in neither version are, because it is not known in which partition they are.

    Raises:
        CommitCorrupt: If a commit is damaged.
        StorageFailed: If the log cannot be read.
    """
    ambiguous_now = {file.name: file for file in find_ambiguous_files(now)}
    ambiguous_then = {file.name: file for file in find_ambiguous_files(target)}
    names = ambiguous_now.keys() | ambiguous_then.keys()
    if not names:
        return

    every_now = pa.repeat(pa.scalar(True), len(difference.now.keys))
    every_then = pa.repeat(pa.scalar(True), len(difference.target.keys))
    live_now = _read_adds(now, difference.now.keys, every_now, where, names)
    live_then = _read_adds(target, difference.target.keys, every_then, where, names)
    removed = _read_adds(now, difference.now.keys, difference.removed, where, names)
    added = _read_adds(target, difference.target.keys, difference.added, where, names)

    elsewhere: Set[str] = frozenset()
    if where is not None:
        # These are live, and not in the chosen partitions.
        elsewhere = find_live_names(now, names) | find_live_names(target, names)
        elsewhere -= live_now.keys() | live_then.keys()

    differing: list[AmbiguousFile] = []
    for name in sorted(names - elsewhere):
        file = ambiguous_now.get(name) or ambiguous_then[name]
        actions_now = ambiguous_now[name].actions if name in ambiguous_now else live_now.get(name, ())
        actions_then = ambiguous_then[name].actions if name in ambiguous_then else live_then.get(name, ())
        restored = [action._replace(version=now.version + 1, is_add=False) for action in removed.get(name, ())]
        restored += [action._replace(version=now.version + 1) for action in added.get(name, ())]
        after = live_vector_ids_of_engines((*actions_now, *restored))
        then = live_vector_ids_of_engines(actions_then)
        # If engines read the version differently, the restored one may also be what deltacli reads, for all of them.
        if after != then and not _is_own_reading_of_all(after, then):
            differing.append(file)
    if not differing:
        return
    message = (
        f"the log names {describe_ambiguous(differing)}, and after the restore some engines would read other rows "
        f"than in version {target.version}, doubled ones or too few"
    )
    checkpoint = now.segment.checkpoint
    if checkpoint is not None and checkpoint.version == now.version:
        # The doubt is within the checkpoint. Another one would change what engines read now.
        yield Refusal(SEVERAL_SPELLINGS, message, command("validate", select=RULES_OF_SPELLINGS))
        return
    yield Refusal(
        SEVERAL_SPELLINGS,
        f"{message}; a checkpoint makes what deltacli reads now the state for all of them",
        command("checkpoint", force=True),
    )


def _is_own_reading_of_all(after: Readings, then: Readings) -> bool:
    """Return whether every engine reads after a restore what deltacli reads in the version restored."""
    return all(vector_ids == then[OWN_READING] for vector_ids in after)


def _read_adds(
    snapshot: Snapshot, keys: ArrowArray, chosen: ArrowArray, where: Mask | None, names: Set[str]
) -> Actions:
    """Return those live files of a version that are chosen and have one of some names."""
    found: dict[str, list[SpelledAction]] = defaultdict(list)
    if not pc.any(chosen).as_py():
        return found
    storage = snapshot.table.storage
    uris = (storage.uri, *storage.aliases)
    wanted = pa.array([encode_path_bytes(name) for name in names], pa.binary())
    for adds in read_selected_adds(snapshot, keys, chosen, where, ("path", "deletionVector")):
        names_of_adds = resolve_file_names(adds.column("path"), uris)
        is_wanted = pc.is_in(names_of_adds, value_set=wanted)
        columns = (names_of_adds, adds.column("path"), unique_id_column(adds.column("deletionVector")))
        for name, path, vector_id in zip(
            *(pc.filter(column, is_wanted).to_pylist() for column in columns), strict=True
        ):
            found[decode_path_bytes(name)].append(SpelledAction(path, vector_id, BEFORE_COMMITS, is_add=True))
    return found
