"""The lines of the files that a commit adds and removes: row ids assigned, no file twice.

Spec: Add File and Remove File; Row Tracking.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import NOTHING_CHANGED, Refused
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.commit_content import Slot, encode_line
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.replay import key_column
from deltacli.delta.paths import canonical, canonical_column
from deltacli.delta.stats.record_counts import num_records_column, parse_num_records
from deltacli.delta.vectors import unique_id, unique_id_column

if TYPE_CHECKING:
    import pyarrow

Batches = Callable[[], Iterable[tuple[str, "pyarrow.RecordBatch"]]]
"""Returns batches of whole adds or removes with their kind, `add` or `remove`; the same ones each time."""

_ID, _VERSION = "baseRowId", "defaultRowCommitVersion"


def body_lines(actions: Iterable[Action], slot: Slot) -> Iterator[bytes]:
    """Yield actions, `{"add": …}` and `{"remove": …}`, as lines; adds with row ids where the slot has any.

    Raises Refused for an add that needs ids and has no number of records, and for a file that comes twice.
    """
    ids, seen = _RowIds(slot), set[int]()
    for line in actions:
        for kind, action in line.items():
            path, vector = canonical(str(action.get("path"))), unique_id(action.get("deletionVector"))
            claims = {hash((kind, path)), hash((path, vector))}
            if not seen.isdisjoint(claims):
                raise _twice(str(action.get("path")))
            seen |= claims
            yield encode_line({kind: ids.in_action(action) if kind == "add" else action})
    ids.require_all()


def encoded_files(batches: Batches, slot: Slot) -> Iterator[bytes]:
    """Yield file actions in columns as lines, in pieces of bounded size; adds with row ids where the slot has any.

    Raises Refused as `body_lines` does, for a file that comes twice at the end.
    """
    from deltacli.delta.encoding.arrow_json import pieces

    ids, once = _RowIds(slot), _OnlyOnce()
    for kind, batch in batches():
        once.take(kind, batch)
        for piece in pieces([batch]):
            yield _encoded(kind, ids.in_columns(piece) if kind == "add" else piece)
    ids.require_all()
    once.require(batches)


def rows_of(add: Action) -> int:
    """Return the number of rows in a file, deleted ones included. Raises Refused where it is not known."""
    records = parse_num_records(add.get("stats") or "")
    if records is None or records < 0:
        raise rows_unknown(str(add.get("path")))
    return records


def rows_unknown(path: str) -> Refused:
    """Return the error for an add that needs row ids and has no number of records."""
    return Refused(
        f"{path} has no number of records, and the table gives ids to its rows",
        code="rowtracking.base-row-id-missing",
        facts={"file": path, "needed": "numRecords in its statistics: so many ids are assigned"},
    )


class _RowIds:
    """Assigns the ids of a slot. Adds of a version without ids lose those that they have: other rows could get them
    once ids are assigned again.
    """

    def __init__(self, slot: Slot) -> None:
        self._slot, self._next = slot, slot.first_row_id

    def in_action(self, add: Action) -> Action:
        if self._next is None:
            return {name: value for name, value in add.items() if name not in (_ID, _VERSION)}
        fresh: Action = {}
        if add.get(_ID) is None:
            fresh[_ID] = self._next
            self._next += rows_of(add)
        if add.get(_VERSION) is None:
            fresh[_VERSION] = self._slot.version
        return add | fresh

    def in_columns(self, adds: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow as pa

        if self._next is None:
            return adds.select([name for name in adds.schema.names if name not in (_ID, _VERSION)])
        ids = adds.column(_ID)
        if ids.null_count:
            needed = pc.is_null(ids)
            records = num_records_column(adds.column("stats"))
            if unknown := pc.indices_nonzero(pc.and_(needed, pc.fill_null(pc.less(records, 0), True))).to_pylist():
                raise rows_unknown(adds.column("path")[unknown[0]].as_py())
            counted = pc.if_else(needed, records, pa.scalar(0, pa.int64()))
            ends = pc.cumulative_sum(counted)
            first = pc.add(pc.subtract(ends, counted), self._next)
            adds = _with(adds, _ID, pc.coalesce(ids, first))
            self._next += ends[len(ends) - 1].as_py()
        return _with(adds, _VERSION, pc.fill_null(adds.column(_VERSION), self._slot.version))

    def require_all(self) -> None:
        """Raise ValueError unless as many ids were assigned as the high-water mark was raised by."""
        first = self._slot.first_row_id
        if self._next is not None and first is not None and self._next - first != self._slot.new_rows:
            raise ValueError(f"{self._next - first} rows got ids, not {self._slot.new_rows}")


def _with(batch: pyarrow.RecordBatch, name: str, column: ArrowArray) -> pyarrow.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), column)


def _encoded(kind: str, actions: pyarrow.RecordBatch) -> bytes:
    from deltacli.delta.encoding.arrow_json import escaped, json_lines, text_of

    others = actions.select([name for name in actions.schema.names if name != "path"])
    rest = json_lines(others, "", "}}\n")
    lines = pc.binary_join_element_wise(f'{{"{kind}":{{"path":"', escaped(actions.column("path")), '"', rest, "")
    return bytes(text_of(lines))


class _OnlyOnce:
    """Finds files that come twice in millions, of each of which it keeps 16 bytes."""

    def __init__(self) -> None:
        self._prints: dict[str, list[ArrowArray]] = {"add": [], "remove": [], "": []}

    def take(self, kind: str, batch: pyarrow.RecordBatch) -> None:
        paths, keys = _names(batch)
        prints = _hashes(paths)
        self._prints[kind].append(prints)
        self._prints[""].append(prints if keys is paths else _hashes(keys))

    def require(self, batches: Batches) -> None:
        """Raise Refused, naming it, where a path is added twice or removed twice, or a file is added and removed."""
        import pyarrow as pa

        from deltacli.delta.encoding.many_keys import repeated

        for claimed, prints in self._prints.items():
            suspects = repeated(pa.concat_arrays(prints)) if prints else ()
            if not len(suspects):
                continue
            seen = set[bytes]()
            for kind, batch in batches():
                if claimed not in ("", kind):
                    continue
                names = _names(batch)[0 if claimed else 1]
                for row in pc.indices_nonzero(pc.is_in(_hashes(names), value_set=suspects)).to_pylist():
                    if (name := names[row].as_py()) in seen:
                        raise _twice(batch.column("path")[row].as_py())
                    seen.add(name)


def _names(batch: pyarrow.RecordBatch) -> tuple[ArrowArray, ArrowArray]:
    """Return the paths, and the paths with vectors, as replay compares them: one column if there are no vectors."""
    paths, vectors = canonical_column(batch.column("path")), batch.column("deletionVector")
    if vectors.null_count == len(vectors):
        return paths, paths
    return paths, key_column(batch.column("path"), unique_id_column(vectors))


def _hashes(names: ArrowArray) -> ArrowArray:
    import pyarrow as pa

    hashes = array("q", map(hash, names.to_pylist()))
    return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])


def _twice(path: str) -> Refused:
    """Return the error for a file that a commit would add or remove twice, or add and remove."""
    return Refused(
        f"the commit would contain {path} twice, in an order that readers do not know",
        said_first=NOTHING_CHANGED,
        code="action.duplicate-path",
        facts={"file": path},
    )
