"""The live files that a commit depends on, and which actions of other writers' commits change them.

Paths are compared in the spelling of replay, without vectors: a new vector of a file changes it for everybody who read
or removes the file. Spec: Delta Log Entries (writers must resolve conflicts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.paths.path_decoding import canonical

PartitionValues = Mapping[str, str | None]
"""The values of a file by the physical names of the partition columns, as in the log."""


class FilesRead(Protocol):
    """The files that a commit was made from, including those that it removes."""

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an add or a remove (`kind`) of another writer changes them, or None."""


class EveryFile(NamedTuple):
    """The set of live files as a whole: no file may come or go."""

    def change(self, _kind: str, _action: Action) -> str | None:
        """Return how an action changes them."""
        return "it adds or removes files"


class FilesOfPartitions(NamedTuple):
    """The files whose partition values are `chosen`. A remove need not have any values, so it may concern them."""

    chosen: Callable[[PartitionValues], bool]

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an action changes them."""
        values = action.get("partitionValues")
        if not isinstance(values, dict):
            return f"it {_DOES[kind]} a file without partition values"
        return f"it {_DOES[kind]} files of the same partitions" if self.chosen(values) else None


class FilesAt:
    """Files by their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(map(canonical, paths))

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an action changes them."""
        path = action.get("path")
        if not isinstance(path, str):
            return f"it {_DOES[kind]} a file without a path"
        return f"it {_DOES[kind]} {path}" if canonical(path) in self._paths else None


_DOES = {"add": "adds", "remove": "removes"}
