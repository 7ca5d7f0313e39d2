"""Action reconciliation: which file actions apply.

Spec: Action Reconciliation; Add File and Remove File. Actions are read newest first: the first action of a key decides,
and all older ones are hidden. Commits are few and read line by line, with a set of keys. Checkpoint rows are many and
already reconciled among themselves, so they are only looked up in that set, in columns. The keys of a large commit are
columns, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.errors import CommitCorrupt
from deltacli.core.hints import command
from deltacli.delta.log.action_fields import shown, wrong_type
from deltacli.delta.log.commit_lines import Action, json_type
from deltacli.delta.paths import canonical, canonical_column, decode_column
from deltacli.delta.vectors import fault_of, unique_id

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.encoding.many_keys import KeyIndex

_VECTOR_MARK = "\0"
"Between the path and the deletion vector id of a key; no path contains it."
_MANY = 32_768
"""Keys for which an index takes less time than a hash table per batch."""


def file_key(action: Action, source: str = "") -> str:
    """Return the key of a logical file: its canonical path and the id of its deletion vector, if any.

    Raises CommitCorrupt without a path.
    """
    path = action.get("path")
    if type(path) is not str:
        raise CommitCorrupt(
            f"{source}: a file action has no path"
            if path is None
            else f"{source}: path is {json_type(path)}, expected a string",
            file=source,
            code="action.missing-required" if path is None else "action.wrong-type",
            facts={} if path is None else {"found": shown(path)[:120]},
            hint=command("history"),
        )
    vector = action.get("deletionVector")
    if vector is None:
        key = canonical(path)
        return key if key.isascii() else _encodable(key, source)
    if fault := fault_of(vector):
        raise CommitCorrupt(
            f"{source}: {fault.text}", file=source, code=fault.code, facts={"path": path}, hint=command("history")
        )
    return _encodable(f"{canonical(path)}{_VECTOR_MARK}{unique_id(vector)}", source)


def _encodable(key: str, source: str) -> str:
    """Return the key if it is text: half a surrogate pair is legal JSON, but not the name of a file."""
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as fault:
        raise wrong_type("path or deletionVector", str(fault), source) from fault
    return key


class Survivors(NamedTuple):
    """The actions of one commit that no newer one hides: live adds, and removes that are tombstones."""

    adds: list[Action]
    removes: list[Action]


def reconcile_commit(actions: Iterable[tuple[str, Action]], seen: set[str], source: str) -> Survivors:
    """Return the survivors of one commit and add its keys to `seen`.

    The order within a commit is undefined. Of two adds of one key the last applies, and an add wins over a remove of
    the same key, so that a file that may be live is never treated as deleted.
    """
    adds: list[Action] = []
    removes: list[Action] = []
    late: list[tuple[str, Action]] = []
    for kind, action in reversed(list(actions)):
        if kind == "add":
            if (key := file_key(action, source)) not in seen:
                seen.add(key)
                adds.append(action)
        elif kind == "remove":
            late.append((file_key(action, source), action))
    for key, action in late:
        if key not in seen:
            seen.add(key)
            removes.append(action)
    return Survivors(adds, removes)


def survivors_of_stream(
    actions: Iterable[tuple[str, Action]], seen: set[str], contested: frozenset[int], source: str, *, block: int = 4_096
) -> Iterator[Survivors]:
    """Yield the survivors of a commit that does not fit in memory, block by block, without adding its keys to `seen`.

    `contested` are the hashes of keys that occur more than once in it (see `values_that_repeat`); those actions are
    resolved at the end.
    """
    kept = Survivors([], [])
    held_back: list[tuple[str, Action]] = []
    for kind, action in actions:
        if kind not in ("add", "remove"):
            continue
        key = file_key(action, source)
        if key in seen:
            continue
        if contested and hash(key.encode("utf-8", "surrogateescape")) in contested:
            held_back.append((kind, action))
            continue
        (kept.adds if kind == "add" else kept.removes).append(action)
        if len(kept.adds) + len(kept.removes) >= block:
            yield kept
            kept = Survivors([], [])
    settled = reconcile_commit(held_back, set(seen), source)
    yield Survivors(kept.adds + settled.adds, kept.removes + settled.removes)


def values_that_repeat(hashes: Iterable[array[int]]) -> frozenset[int]:
    """Return the hashes that occur more than once in all of the arrays together."""
    import pyarrow

    from deltacli.delta.encoding.many_keys import repeated

    every = [pyarrow.Array.from_buffers(pyarrow.int64(), len(each), [None, pyarrow.py_buffer(each)]) for each in hashes]
    return frozenset(repeated(pyarrow.concat_arrays([pyarrow.array([], pyarrow.int64()), *every])).to_pylist())


class TouchedFiles:
    """The keys decided by commits after a checkpoint, as columns that filter its rows: some, and those of `large`
    commits.
    """

    def __init__(self, seen: Collection[str], large: Sequence[KeyIndex] = ()) -> None:
        import pyarrow

        encoded = _as_bytes(seen)
        self._indexes = list(large)
        if len(seen) > _MANY:
            from deltacli.delta.encoding.many_keys import KeyIndex

            self._indexes.append(KeyIndex(encoded))
        self._few = encoded if len(seen) <= _MANY else encoded.slice(0, 0)
        mark = _VECTOR_MARK.encode()
        paths = {key.partition(mark)[0] for key in self._few.to_pylist()}
        # Canonicalising never changes a file name, so rows whose last bytes match no touched name cannot be touched.
        # As many bytes as
        # the shortest touched name has, up to 64, tell names apart that end alike.
        self._tail = min([64, *(len(path.rpartition(b"/")[2]) for path in paths)])
        self._tails = pyarrow.array(
            list({path[-self._tail :] if self._tail else b"" for path in paths}), pyarrow.binary()
        )

    def __len__(self) -> int:
        return len(self._few) + sum(map(len, self._indexes))

    def untouched(self, paths: pyarrow.Array, dv_ids: pyarrow.Array) -> pyarrow.Array | None:
        """Return which rows (string paths, string vector ids) no newer commit has decided, or None if all of them."""
        is_touched = self._touched_by_few(paths, dv_ids) if len(self._few) else None
        if self._indexes:
            keys = key_column(paths, dv_ids)
            found = [index.contains(keys) for index in self._indexes]
            is_touched = reduce(pc.or_, found if is_touched is None else [is_touched, *found])
        if is_touched is None or not pc.any(is_touched).as_py():
            return None
        return pc.invert(is_touched)

    def _touched_by_few(self, paths: pyarrow.Array, dv_ids: pyarrow.Array) -> pyarrow.Array | None:
        """Return which rows are among a few keys, None if none is.

        The ends of the file names are looked up first (a hit is rare), the exact key of path and vector only for hits.
        """
        hits = self._hits(decode_column(paths))
        if not pc.any(hits).as_py():
            return None
        hit_keys = key_column(pc.filter(paths, hits), pc.filter(dv_ids, hits))
        return pc.replace_with_mask(hits, hits, pc.is_in(hit_keys, value_set=self._few))

    def _hits(self, decoded: pyarrow.Array) -> pyarrow.Array:
        """Return which rows may be touched: their path ends like a touched one, or has no file name (`x/.` is x)."""
        import pyarrow

        if self._tail == 0:
            return pyarrow.repeat(pyarrow.scalar(True), len(decoded))
        hits = pc.is_in(pc.binary_slice(decoded, -self._tail), value_set=self._tails)
        return pc.or_(hits, pc.or_(pc.ends_with(decoded, b"."), pc.ends_with(decoded, b"/")))


def decided_keys(actions: Iterable[tuple[str, Action]], large: Sequence[KeyIndex], source: str) -> set[str]:
    """Return the keys of a small commit that large commits after it have decided."""
    if not large:
        return set()
    keys = [file_key(action, source) for kind, action in actions if kind in ("add", "remove")]
    column = _as_bytes(keys)
    is_decided = reduce(pc.or_, [index.contains(column) for index in large])
    return {key for key, hit in zip(keys, is_decided.to_pylist(), strict=True) if hit}


def texts_of(keys: pyarrow.Array) -> Iterator[str]:
    """Yield keys of a column as `file_key` returns them."""
    return (key.decode("utf-8", "surrogateescape") for key in keys.to_pylist())


def _as_bytes(keys: Iterable[str]) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array([key.encode("utf-8", "surrogateescape") for key in keys], pyarrow.binary())


def key_column(paths: pyarrow.Array, dv_ids: pyarrow.Array) -> pyarrow.Array:
    """Return `file_key` for columns: string paths and string vector ids in, binary keys out."""
    return spelled_keys(canonical_column(paths), dv_ids)


def spelled_keys(spelled: pyarrow.Array, dv_ids: pyarrow.Array) -> pyarrow.Array:
    """Return the keys of paths (binary) that are in one spelling already."""
    import pyarrow

    ids = pc.cast(dv_ids, pyarrow.binary())
    without = pc.equal(pc.binary_length(ids), 0)
    if pc.all(without).as_py():
        return spelled
    return pc.if_else(without, spelled, pc.binary_join_element_wise(spelled, ids, _VECTOR_MARK.encode()))
