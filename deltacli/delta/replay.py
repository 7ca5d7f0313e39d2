"""Action reconciliation: which file actions win. Spec: Action Reconciliation; Add File and Remove File.

Newest first: the first action of a key decides, all older ones are shadowed. Commits are few and taken line by line, with a set of
keys; checkpoint rows are many, already reconciled among themselves, and only looked up in that set, in columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.delta.commit_lines import Action
from deltacli.delta.deletion_vector import unique_id
from deltacli.delta.paths import canonical, canonical_column
from deltacli.errors import CommitCorrupt

if TYPE_CHECKING:
    import pyarrow

_VECTOR_MARK = "\0"
"""Between the path and the deletion vector id of a key; no path holds it."""


def file_key(action: Action, source: str = "") -> str:
    """The key of a logical file: its canonical path, and its deletion vector's id where it has one. Raises CommitCorrupt without a path."""
    path = action.get("path")
    if type(path) is not str:
        raise CommitCorrupt(
            f"{source}: a file action has no path" if path is None else f"{source}: path has the wrong type",
            code="action.missing-required" if path is None else "action.wrong-type",
            hint="deltacli history {table}",
        )
    vector = action.get("deletionVector")
    return f"{canonical(path)}{_VECTOR_MARK}{unique_id(vector)}" if vector else canonical(path)


@dataclass(frozen=True, slots=True)
class Survivors:
    """What is left of one commit after everything newer: adds that are live, removes that are tombstones."""

    adds: list[Action]
    removes: list[Action]


def reconcile_commit(actions: Iterable[tuple[str, Action]], seen: set[str], source: str) -> Survivors:
    """Return the survivors of one commit and put its keys into `seen`.

    Within a commit the order is undefined: of two adds of one key the last counts, and an add beats a remove of the same key, so that
    a file that may be live is never taken for deleted.
    """
    adds: list[Action] = []
    removes: list[Action] = []
    found = [(kind, action) for kind, action in actions if kind in ("add", "remove")]
    for wanted, kept in (("add", adds), ("remove", removes)):
        for kind, action in reversed(found):
            if kind == wanted and (key := file_key(action, source)) not in seen:
                seen.add(key)
                kept.append(action)
    return Survivors(adds, removes)


class LargeCommit:
    """Reconciles a commit too large to hold, in blocks, remembering 8 bytes a file instead of its key.

    The first pass notes which keys occur twice (by hash). Where none does, the rule, it was the answer; otherwise `is_settled` is false,
    its blocks are void, and the next pass keeps the contested keys back and settles them at the end.
    """

    def __init__(
        self,
        open_actions: Callable[[], Iterable[tuple[str, Action]]],
        seen: set[str],
        source: str,
        *,
        contested: frozenset[int] | None = None,
    ) -> None:
        self._open_actions = open_actions
        self._seen = seen
        self._source = source
        self.contested = contested
        self.is_settled = contested is not None

    def survivors(self, *, block: int = 65_536, remember: bool) -> Iterator[Survivors]:
        """Yield the survivors in blocks of about `block` actions. With `remember` (older actions follow) a settled pass puts its keys into `seen`."""
        kept = Survivors([], [])
        held_back: list[tuple[str, Action]] = []
        fresh: list[str] = []
        hashes = array("q")
        known = self.contested
        for kind, action in self._open_actions():
            if kind not in ("add", "remove"):
                continue
            key = file_key(action, self._source)
            if key in self._seen:
                continue
            if known is None:
                hashes.append(hash(key))
            elif known and hash(key) in known:
                held_back.append((kind, action))
                continue
            if remember:
                fresh.append(key)
            (kept.adds if kind == "add" else kept.removes).append(action)
            if len(kept.adds) + len(kept.removes) >= block:
                yield kept
                kept = Survivors([], [])
        own: set[str] = set()
        settled = reconcile_commit(held_back, own, self._source)
        yield Survivors(kept.adds + settled.adds, kept.removes + settled.removes)
        if known is None:
            self.contested = _values_that_repeat(hashes)
        self.is_settled = known is not None or not self.contested
        if remember and self.is_settled:
            self._seen.update(fresh, own)


def _values_that_repeat(hashes: array[int]) -> frozenset[int]:
    import pyarrow
    import pyarrow.compute as pc

    counted = pc.value_counts(pyarrow.Array.from_buffers(pyarrow.int64(), len(hashes), [None, pyarrow.py_buffer(hashes)]))
    return frozenset(counted.filter(pc.greater(counted.field("counts"), 1)).field("values").to_pylist())


class TouchedFiles:
    """The keys that commits after a checkpoint have decided, as columns: what filters its rows."""

    def __init__(self, seen: Iterable[str]) -> None:
        import pyarrow

        keys = list(seen)
        encoded = [key.encode("utf-8", "surrogateescape") for key in keys]
        self.keys = pyarrow.array(encoded, pyarrow.binary())
        mark = _VECTOR_MARK.encode()
        self.paths = pyarrow.array(list({key.partition(mark)[0] for key in encoded}), pyarrow.binary())

    def __len__(self) -> int:
        return len(self.keys)

    def untouched(self, paths: pyarrow.Array, dv_ids: pyarrow.Array) -> pyarrow.Array | None:
        """Return which rows (string paths, string vector ids) no newer commit has decided; None if that is all of them.

        Paths are looked up first (a hit is rare), the exact key of path and vector only for the hits.
        """
        import pyarrow
        import pyarrow.compute as pc

        if not len(self.keys):
            return None
        spelled = canonical_column(paths)
        hits = pc.is_in(spelled, value_set=self.paths)
        if not pc.any(hits).as_py():
            return None
        hit_paths, hit_ids = spelled.filter(hits), dv_ids.filter(hits).cast(pyarrow.binary())
        with_vector = pc.binary_join_element_wise(hit_paths, hit_ids, _VECTOR_MARK.encode())
        hit_keys = pc.if_else(pc.equal(pc.binary_length(hit_ids), 0), hit_paths, with_vector)
        return pc.replace_with_mask(pc.invert(hits), hits, pc.invert(pc.is_in(hit_keys, value_set=self.keys)))
