"""Targets of links inside the table, which are needed if the log names them through the link.

Links are not followed, so a listing contains such a file only by its other name. Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.operations.vacuum.surroundings.walk import TableWalk
from deltacli.storage import link_targets

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.vacuum.candidates import CandidateClassifier
    from deltacli.storage import Storage

_LONGEST = 1 << 20
"""Maximum length of a path, because pyarrow 26.0.1 cannot slice without an end."""

_MOST_LINKS = 8
"""Maximum number of links in the path of one file."""

_MOST_NAMES = 4_000_000
"""Maximum number of names of files through links, which may form cycles; with more names the files are kept."""


def spare_linked(judge: CandidateClassifier, walk: TableWalk | None, *, names_hidden: bool) -> pyarrow.Table:
    """Return the old files without those that the log needs by another name, which are passed to the judge.

    `walk` has listed the whole table, None if nothing has; with `names_hidden` the log names files in hidden
    directories, so that links in these count, too.
    """
    old, storage = judge.old_files(), judge.storage
    if not old.num_rows or not storage.capabilities.has_directories:
        return old
    if walk is None:
        walk = TableWalk(storage, judge.names)
        for _ in walk.files():
            pass
    links = [*walk.links, *(walk.hidden_links if names_hidden else ())]
    ways = [(_encoded(target), _encoded(link)) for target, link in link_targets(storage, links)]
    if not ways:
        return old

    def is_needed(names: pyarrow.Array) -> pyarrow.Array:
        hashes = judge.keys.of_listing(names)
        found = judge.is_needed(hashes)
        judge.hits.append(pc.filter(hashes, found))
        return found

    return pc.filter(old, pc.invert(_has_needed_name(old, ways, is_needed)))


def is_live_by_links(
    rows: pyarrow.Table, storage: Storage, directories: Iterable[str], is_live: Callable[[pyarrow.Array], pyarrow.Array]
) -> pyarrow.Array:
    """Return which files are live by another name, because the path of one of these directories contains a link."""
    names = [name for name in directories if "\0" not in name]
    found = link_targets(storage, names)
    ways = [(_encoded(target), _encoded(name)) for target, name in found if target != name]
    return _has_needed_name(rows, ways, is_live)


def _has_needed_name(
    old: pyarrow.Table, ways: Sequence[tuple[bytes, bytes]], is_wanted: Callable[[pyarrow.Array], pyarrow.Array]
) -> pyarrow.Array:
    """Return which files have a wanted name through these links (target, link)."""
    import pyarrow as pa

    numbers = rows = pa.array(range(old.num_rows), pa.int64())
    names = old.column("path").combine_chunks()
    is_needed = pa.repeat(pa.scalar(False), old.num_rows)
    for _ in range(_MOST_LINKS if ways else 0):
        rows, names = _by_other_names(rows, names, ways)
        if len(rows) > _MOST_NAMES:
            return pc.or_(is_needed, pc.is_in(numbers, value_set=rows))
        if not len(rows):
            break
        is_needed = pc.or_(is_needed, pc.is_in(numbers, value_set=pc.filter(rows, is_wanted(names))))
    return is_needed


def _by_other_names(
    rows: pyarrow.Array, names: pyarrow.Array, ways: Sequence[tuple[bytes, bytes]]
) -> tuple[pyarrow.Array, pyarrow.Array]:
    """Return the names of files through one more link, with the indices of their rows."""
    import pyarrow as pa

    found_rows, found_names = [pa.array([], pa.int64())], [pa.array([], pa.binary())]
    for target, link in ways:
        below, start = (target + b"/", len(target) + 1) if target else (b"", 0)
        is_below = pc.starts_with(names, pattern=below)
        is_target = pc.equal(names, pa.scalar(target, pa.binary()))
        inner = pc.binary_slice(pc.filter(names, is_below), start, _LONGEST)
        found_names += [
            pc.binary_join_element_wise(pa.scalar(link), inner, b"/"),
            pa.array([link] * is_target.true_count, pa.binary()),
        ]
        found_rows += [pc.filter(rows, is_below), pc.filter(rows, is_target)]
    return pa.concat_arrays(found_rows), pa.concat_arrays(found_names)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
