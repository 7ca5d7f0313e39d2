"""How engines read a log that names one file by several spellings of its path.

The protocol does not say when two paths are one file. deltalake and what else stands on the Rust kernel compare the
texts. Delta for Spark and deltacli decode and normalize them first. The Java kernel does that, too, but for it a remove
takes precedence over an add of the same commit. An absolute and a relative path are two files to all of them:

    log                                             live as text    normalized      normalized, removes first
    add a.parquet, then remove ./a.parquet          a.parquet       nothing         nothing
    add a.parquet, then add ./a.parquet             both            ./a.parquet     ./a.parquet
    add a.parquet, then both of the other commit    ./a.parquet     ./a.parquet     nothing
    add a.parquet, then add file:/table/a.parquet   both            both            both

The third row stands for one commit that removes `a.parquet` and adds `./a.parquet`.

Spec: Action Reconciliation; Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from deltacli.delta.paths.spelling import canonicalize_path

SEVERAL_SPELLINGS = "path.same-file-two-spellings"
"""The rule of `validate` that reports such a log."""
RULES_OF_SPELLINGS = (SEVERAL_SPELLINGS, "action.duplicate-path", "action.add-remove-*", "action.remove-of-*")
"""Globs of this rule, and of those that report the actions of such a file instead: two actions of one commit, and a
remove of a file that is not live."""
OWN_READING = 1
"""The place of deltacli's own reading among those of engines."""
BEFORE_COMMITS = -1
"""The version of the actions of a checkpoint, which the commits follow."""


class SpelledAction(NamedTuple):
    """An add or a remove.

    Attributes:
        path: As the log has it.
        vector_id: The id of the deletion vector, "" without one.
        version: That of the commit, `BEFORE_COMMITS` for an action of the checkpoint.
        is_add: False for a remove.
    """

    path: str
    vector_id: str
    version: int
    is_add: bool


class AmbiguousFile(NamedTuple):
    """A file of which engines do not read the same, or the same rows twice.

    Attributes:
        name: The path below the root, or the absolute path of a file elsewhere (see `resolve_file_names`).
        spellings: The paths that the log has for it, oldest first.
        live_vector_ids: The ids of the deletion vectors with which some engine reads the file, "" for none. Empty if
            the file is removed for all of them.
        engines_differ: True if some engines read the file, and others not, or not as often.
        actions: Everything that the checkpoint and the commits after it have about the file.
    """

    name: str
    spellings: tuple[str, ...]
    live_vector_ids: frozenset[str]
    engines_differ: bool
    actions: tuple[SpelledAction, ...]

    @property
    def live_path(self) -> str | None:
        """Return the path with which a checkpoint by deltacli has the file, that of its newest add.

        None if it is removed for deltacli.
        """
        if not live_vector_ids_of_engines(self.actions)[OWN_READING]:
            return None
        newest = max((action for action in self.actions if action.is_add), key=lambda action: action.version)
        return newest.path

    @property
    def is_read_only_by_others(self) -> bool:
        """Return True if some engine reads the file, and deltacli does not, or not with the same deletion vector."""
        own = live_vector_ids_of_engines(self.actions)[OWN_READING]
        return not self.live_vector_ids.issubset(own)


def read_as_engines(name: str, actions: Sequence[SpelledAction]) -> AmbiguousFile | None:
    """Return the file if there is a doubt about it; None if all its actions mean the same to everybody.

    A file is in doubt, too, if a remove by its absolute path was meant for an add by its relative path, or the reverse.

    Args:
        name: The name of the file.
        actions: All actions that name it, of a checkpoint and the commits after it.
    """
    spellings = tuple(dict.fromkeys(action.path for action in sorted(actions, key=lambda action: action.version)))
    if len(spellings) < 2:
        return None

    of_engines = live_vector_ids_of_engines(actions)
    as_one_file = _live_vector_ids(actions, lambda _: name, adds_win=True)
    if all(vector_ids == as_one_file for vector_ids in of_engines) and len(as_one_file) < 2:
        return None

    is_same = all(vector_ids == of_engines[0] for vector_ids in of_engines)
    live = frozenset(vector_id for vector_ids in of_engines for vector_id in vector_ids)
    return AmbiguousFile(name, spellings, live, not is_same, tuple(actions))


def live_vector_ids_of_engines(actions: Iterable[SpelledAction]) -> tuple[tuple[str, ...], ...]:
    """Return for each way of reading the ids of the vectors with which a file is live, once per live path.

    Args:
        actions: All actions that name the file, in any order.
    """
    every = tuple(actions)
    return (
        _live_vector_ids(every, str, adds_win=True),
        _live_vector_ids(every, canonicalize_path, adds_win=True),
        _live_vector_ids(every, canonicalize_path, adds_win=False),
    )


def _live_vector_ids(
    actions: Sequence[SpelledAction], spell: Callable[[str], str], *, adds_win: bool
) -> tuple[str, ...]:
    """Return the ids of the vectors with which a file is live, in order, for an engine that compares spelled paths."""
    live: set[tuple[str, str]] = set()
    for action in sorted(actions, key=lambda action: (action.version, action.is_add is adds_win)):
        key = spell(action.path), action.vector_id
        if action.is_add:
            live.add(key)
        else:
            live.discard(key)
    return tuple(sorted(vector_id for _, vector_id in live))
