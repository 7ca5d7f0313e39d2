"""Files that a link inside the table leads to: what the log names by way of the link is needed all the same.

No link is followed, so a listing shows such a file only by its other name. Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli import arrow_compute as pc
from deltacli.storage import link_target

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.vacuum.candidates import Judge
    from deltacli.storage import Storage

_LONGEST = 1 << 20
"""Of a path: pyarrow 26.0.1 can't cut up to an end that is not named."""

_MOST_LINKS = 8
"""On the way to one file: more are not gone through."""


def spare_linked(storage: Storage, links: Sequence[str], old: pyarrow.Table, judge: Judge) -> pyarrow.Table:
    """Return the old files without those that the log needs by another name; the judge is told of these."""
    ways = _ways(storage, links)
    if not ways or not old.num_rows:
        return old
    import pyarrow as pa

    rows = pa.array(range(old.num_rows), pa.int64())
    names = old.column("path").combine_chunks()
    needed = pa.repeat(pa.scalar(False), old.num_rows)
    for _ in range(_MOST_LINKS):
        rows, names = _by_other_names(rows, names, ways)
        if not len(rows):
            break
        hashes = judge.keys.of_listing(names)
        is_needed = judge.is_needed(hashes)
        judge.hits.append(pc.filter(hashes, is_needed))
        hit = pc.filter(rows, is_needed)
        needed = pc.or_(needed, pc.is_in(pa.array(range(old.num_rows), pa.int64()), value_set=hit))
    return pc.filter(old, pc.invert(needed))


def _ways(storage: Storage, links: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Where links lead, and the links: those that stay within the table."""
    found = ((link_target(storage, link), link) for link in links)
    return [(_encoded(target), _encoded(link)) for target, link in found if target is not None]


def _by_other_names(
    rows: pyarrow.Array, names: pyarrow.Array, ways: Sequence[tuple[bytes, bytes]]
) -> tuple[pyarrow.Array, pyarrow.Array]:
    """The names that files have by way of one link more, with the numbers of their rows."""
    import pyarrow as pa

    found_rows, found_names = [pa.array([], pa.int64())], [pa.array([], pa.binary())]
    for target, link in ways:
        is_below = pc.starts_with(names, pattern=target + b"/" if target else b"")
        is_led_to = pc.or_(is_below, pc.equal(names, pa.scalar(target, pa.binary())))
        if not pc.any(is_led_to).as_py():
            continue
        rest = (
            pc.binary_slice(pc.filter(names, is_led_to), len(target), _LONGEST)
            if target
            else pc.binary_join_element_wise(pa.scalar(b""), pc.filter(names, is_led_to), b"/")
        )
        found_names.append(pc.binary_join_element_wise(pa.scalar(link), rest, b""))
        found_rows.append(pc.filter(rows, is_led_to))
    return pa.concat_arrays(found_rows), pa.concat_arrays(found_names)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
