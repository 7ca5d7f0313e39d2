"""What copies and clones of a table have to be, at every moment, and the files that a table keeps for its clones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from tests.simulation.judging import difference
from tests.simulation.oracle import Oracle
from tests.simulation.reading import Kind, find_paths_in_manifest, info_of, lines_of, name_of
from tests.simulation.store import Tree, Watcher
from tests.simulation.truth import Truth
from tests.support.builder import LOG, StoredFile, commit_path

REPLICA, CLONE = "replica", "clone"
"""Where they are, beside the table; clones have numbers."""


class Replica(Watcher):
    """Watches the replica of a table: it is no table yet, or one with the rows of the version that it ends with."""

    def __init__(self, tree: Tree, oracles: Callable[[], Iterable[Oracle]], now_ms: Callable[[], int]) -> None:
        self._tree, self._oracles, self._now_ms = tree, oracles, now_ms
        self._gone = set[str]()
        """Files that a table was without at some time."""
        self.problems: list[str] = []

    def changed(self, tree: Tree, path: str, before: StoredFile | None, after: StoredFile | None, actor: str) -> None:
        if tree is not self._tree:
            self._gone |= {path} if after is None else set()
        elif after is None or (before is not None and not path.startswith(f"{LOG}/")):
            self.problems.append(f"{actor}: {path} of the replica was {'deleted' if after is None else 'replaced'}")
        elif name_of(path).kind in (Kind.COMMIT, Kind.CHECKPOINT) and (wrong := self.wrong()) is not None:
            self.problems.append(f"{actor}: {path} of the replica was written, and {wrong}")

    def environment(self, changes: Mapping[str, StoredFile | None]) -> None:
        self._gone |= set(changes)

    def _is_cut(self, path: str) -> bool:
        """Whether it has a file as the environment had damaged it in a table, which an unfinished copy found."""
        return path in self._gone and not any(one.had(path, self._tree.files[path]) for one in self._oracles())

    def wrong(self, last: int = -1) -> str | None:
        """What is wrong about it now. `last`: the version that it must have, with all files, because a copy is done."""
        copied = Truth(self._tree, self._now_ms)
        newest = copied.newest
        if newest < last:
            return f"ends with version {newest}, not {last}"
        if newest < 0:
            return None
        if newest not in copied.rebuilt:
            return f"version {newest} cannot be rebuilt"
        made = copied.truth[newest]
        origins = [
            one.truth[newest]
            for one in self._oracles()
            if newest in one.truth and one.truth[newest].data == made.data != b""
        ]
        named = find_paths_in_manifest(made.state.live.values())
        missing = {path for path in named if path not in self._tree.files or self._is_cut(path)}
        if lost := missing - self._gone - {path for one in self._oracles() for path in one.absent(missing)}:
            return f"version {newest} is without {', '.join(sorted(lost)[:3])}"
        if last >= 0 and missing and origins:
            return f"a copy is done without {', '.join(sorted(missing)[:3])}"
        if origins and not missing and all(one.counted != made.counted for one in origins):
            return f"version {newest}: {difference(origins[0].counted, made.counted)}"
        return None


class Clones(Watcher):
    """Watches for clones: from its commit on, the table at whose files it points has to keep these."""

    def __init__(self, root: str, oracles: Callable[[], Iterable[Oracle]]) -> None:
        self._root, self._oracles = root, oracles

    def changed(self, tree: Tree, path: str, before: StoredFile | None, after: StoredFile | None, actor: str) -> None:  # noqa: ARG002  (of a watcher)
        if path != commit_path(0) or after is None:
            return
        lines = lines_of(after.data)
        if (info := info_of(lines)).get("operation") != "CLONE":
            return
        (table_id,) = (line["metaData"]["id"] for line in lines if line.get("metaData"))
        roots = self._root, str(info["operationParameters"]["source"])
        for oracle in self._oracles():  # another table may be at the address by now
            note = f"{LOG}/_deltacli_clones/{table_id}.json"
            if note in oracle.tree.files:
                oracle.pinned[note] = {
                    unquote(found.removeprefix(f"{one}/"))
                    for line in lines
                    if line.get("add")
                    for found in _paths_of(line["add"])
                    for one in roots
                    if found.startswith(f"{one}/")
                }

    def environment(self, changes: Mapping[str, StoredFile | None]) -> None:
        """Nothing happens to clones from outside."""


def _paths_of(add: Mapping[str, object]) -> Iterable[str]:
    yield str(add["path"])
    vector = add.get("deletionVector")
    if isinstance(vector, dict) and vector["storageType"] == "p":
        yield str(vector["pathOrInlineDv"])
