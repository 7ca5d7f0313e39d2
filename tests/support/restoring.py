"""Restores of built tables, and what they must lead to."""

from __future__ import annotations

from typing import Any

from deltacli.api.table import Table
from deltacli.operations.restore.restore import RestoreOutcome
from deltacli.storage import Storage
from tests.support.actions import Line, add, commit_info
from tests.support.builder import TableBuilder
from tests.support.model import FileKey, State
from tests.support.reading import open_at


class Restoring:
    """A built table in memory whose data files are there: of the size that their add says, without content."""

    def __init__(self, builder: TableBuilder) -> None:
        self.builder = builder
        for state in builder.states:
            for action in state.live.values():
                builder.file(action["path"], b"x" * action["size"])
        self.storage: Storage = builder.in_memory()

    @property
    def table(self) -> Table:
        return open_at(self.storage)

    def restore(self, version: int, **options: Any) -> RestoreOutcome:  # Any: fields of the request
        return self.table.restore(version=version, trust_listing=True, **options)

    def state(self) -> State:
        """The newest version by the model, from the bytes of the commits."""
        from tests.support.committing import commits

        state = State()
        for actions in commits(self.storage):
            state = state.after([{kind: action} for kind, action in actions])
        return state

    def newest_commit(self) -> dict[str, list[dict[str, Any]]]:
        """The actions of the newest commit by kind."""
        from tests.support.committing import commits

        found: dict[str, list[dict[str, Any]]] = {}
        for kind, action in commits(self.storage)[-1]:
            found.setdefault(kind, []).append(action)
        return found


def keys(state: State) -> set[FileKey]:
    """The live files of a version."""
    return set(state.live)


def append(builder: TableBuilder, *names: str, **fields: Any) -> TableBuilder:  # Any: fields of adds
    """One more commit that adds files of ten rows."""
    lines: list[Line] = [add(name, records=10, size=7, **fields) for name in names]
    return builder.commit(commit_info(), *lines)
