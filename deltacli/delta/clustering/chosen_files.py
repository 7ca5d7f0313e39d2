"""Which files are sorted together: those of a partition by a z-order, those of small cubes by clustering.

A cube is what one run of clustering has sorted as a whole: its files share a tag with an id. Everything that grows with
the number of files is a column. Spec: Clustered Table.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray

CUBE_ID, CUBE_COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
"""The tags of clustered files: the id of their cube, and a JSON list of the logical names of its columns."""
Z_ORDER_TAG = "deltacli.zorderBy"
"""The tag of files that deltacli has sorted by a z-order: a JSON list of physical names, or of paths of them."""
PROVIDER = "liquid"

COMPLETE_CUBE_BYTES, MOST_BYTES = 100 << 30, 150 << 30
"""Live bytes from which on a cube is left alone for ever, and the most that are sorted together."""
SORTED, OTHER_COLUMNS = "sorted", "other-clustering"
"""Why files are left alone: they are in this order, they are clustered by other columns."""


class ChosenFiles(NamedTuple):
    """Files to sort: those at `order[start:stop]` together, for each of the bounds. `skipped` counts the others, apart
    from excluded ones.
    """

    order: ArrowArray
    bounds: Sequence[tuple[int, int]]
    skipped: Mapping[str, int]


def z_order_tag(columns: Sequence[Sequence[str]]) -> str:
    """Return the value of the tag for the paths of columns."""
    return json.dumps([list(path) if len(path) > 1 else path[0] for path in columns], ensure_ascii=False)


def files_to_z_order(
    groups: ArrowArray, live: ArrowArray, tags: ArrowArray, wanted: str, is_excluded: ArrowArray
) -> ChosenFiles:
    """Return the files of each partition in which one lacks the wanted tag.

    `groups` are numbers of partitions, `live` the bytes of live rows, `tags` the values of `Z_ORDER_TAG`.
    """
    is_open = pc.invert(pc.or_(is_excluded, pc.fill_null(pc.equal(tags, wanted), False)))
    due = pc.unique(pc.filter(groups, is_open))
    return _chosen(groups, live, pc.and_not(pc.is_in(groups, value_set=due), is_excluded), is_excluded, {})


def files_to_cluster(
    live: ArrowArray,
    cubes: ArrowArray,
    columns: ArrowArray,
    wanted: Sequence[str],
    is_excluded: ArrowArray,
    *,
    complete_bytes: int = COMPLETE_CUBE_BYTES,
) -> ChosenFiles:
    """Return the files that no cube has, and those of cubes of the wanted columns that are not complete; none if all
    are of one cube. `cubes` and `columns` are the values of `CUBE_ID` and `CUBE_COLUMNS`.
    """
    import pyarrow as pa

    in_cube = pc.and_(pc.is_valid(cubes), pc.is_valid(columns))
    texts = [text for text in pc.unique(columns).to_pylist() if text is not None and _names(text) == list(wanted)]
    is_other = pc.and_not(in_cube, pc.is_in(columns, value_set=pa.array(texts, pa.string())))
    ids = pc.if_else(in_cube, cubes, pa.scalar(None, pa.string()))
    is_left = pc.and_not(pc.invert(is_other), is_excluded)
    sizes = {}
    for cube in pc.drop_null(pc.unique(pc.filter(ids, is_left))):  # most have 100 GiB: there are few
        sizes[cube.as_py()] = pc.sum(pc.filter(live, pc.and_(is_left, pc.equal(ids, cube)))).as_py() or 0
    complete = [cube for cube, size in sizes.items() if size >= complete_bytes]
    is_left = pc.and_not(is_left, pc.is_in(ids, value_set=pa.array(complete, pa.string())))
    if len(sizes) - len(complete) == 1 and not pc.any(pc.and_not(is_left, in_cube)).as_py():
        is_left = pc.and_(is_left, pa.scalar(False))
    skipped = {OTHER_COLUMNS: pc.sum(pc.and_not(is_other, is_excluded)).as_py() or 0}
    ranks = pc.coalesce(pc.cast(pc.dictionary_encode(ids).indices, pa.int64()), len(ids))  # files of no cube are last
    return _chosen(
        pa.repeat(pa.scalar(0, pa.int64()), len(ids)),
        live,
        is_left,
        is_excluded,
        skipped,
        within=ranks,
    )


def _names(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _chosen(
    groups: ArrowArray,
    live: ArrowArray,
    is_chosen: ArrowArray,
    is_excluded: ArrowArray,
    skipped: dict[str, int],
    *,
    within: ArrowArray | None = None,
) -> ChosenFiles:
    """Return chosen files group by group, within these by a rank, then in the order of the version."""
    import pyarrow as pa

    order = pc.cast(pc.indices_nonzero(is_chosen), pa.int64())
    for ranks in (within, groups):  # sorting is stable
        order = order if ranks is None else pc.take(order, pc.sort_indices(pc.take(ranks, order)))
    left = len(live) - len(order) - (pc.sum(is_excluded).as_py() or 0) - sum(skipped.values())
    counts = {**skipped, SORTED: left}
    bounds = list(_packed(pc.take(groups, order).to_pylist(), pc.take(live, order).to_pylist()))
    return ChosenFiles(order, bounds, {reason: count for reason, count in counts.items() if count})


def _packed(groups: Sequence[int], live: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of files of one group, until the next one does not fit."""
    begin = size = 0
    end = bisect_right(groups, groups[0]) if groups else 0
    for place, bytes_ in enumerate(live):
        if place == end or (place > begin and size + bytes_ > MOST_BYTES):
            yield begin, place
            begin, size = place, 0
            end = bisect_right(groups, groups[place], place)
        size += bytes_
    if begin < len(live):
        yield begin, len(live)
