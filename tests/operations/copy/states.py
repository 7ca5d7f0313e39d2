"""What a killed copy leaves: each state once, read by us at once, and by other engines in the end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import FileMissing
from deltacli.storage import Storage
from tests.differential.test_rows import PEERS
from tests.operations.copy.tables import Rows, require_readable, versions_of
from tests.support.peers import Task, ask_for_rows, has_peer, peer_python


def names_in(target: Storage) -> list[str]:
    """The paths of all files in a store."""
    try:
        walked = [*target.walk("", lambda _, names: names)]
    except FileMissing:
        return []
    return sorted(f"{one.directory}/{name}".strip("/") for one in walked for name in one.names)


class States:
    """The states of targets, downloaded where a version can be read in them."""

    def __init__(self, place: Path, expected: Rows) -> None:
        self._place, self._expected = place, expected
        self._known: set[frozenset[tuple[str, int]]] = set()
        self._tables: list[Path] = []

    def look(self, target: Storage) -> frozenset[tuple[str, int]]:
        """The files of a target with their sizes. It is no table yet, or one with the rows of each version."""
        found = names_in(target)
        state = frozenset(zip(found, target.stat_many(found)[0], strict=True))
        if state not in self._known:
            self._known.add(state)
            require_readable(Table(target), self._expected)
            place = self._place / f"state-{len(self._known)}"
            for path in found:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(target.read(path))
            if found and require_readable(open_table(place), self._expected):
                self._tables.append(place)
        return state

    def ask_peers(self) -> int:
        """Let other engines read each version in each state; return how many they read."""
        python, read = peer_python(), 0
        for peer, script in PEERS.items():
            if not self._tables or python is None or not has_peer(python, peer):
                continue
            tasks = [Task(str(place), str(place), version) for place in self._tables for version in versions_of(place)]
            (answers := self._place / peer).mkdir()
            for answer in ask_for_rows(python, script, tasks, answers):
                assert answer.refusal is None, answer
                assert answer.place is not None
                assert answer.task.version is not None
                with pa.ipc.open_file(answer.place) as opened:
                    rows = sorted(tuple(row.items()) for row in opened.read_all().to_pylist())
                # A copy of its own ends with a version more, which has the rows of the one before.
                assert self._expected[min(answer.task.version, max(self._expected))] == rows, answer.task
                read += 1
        return read
