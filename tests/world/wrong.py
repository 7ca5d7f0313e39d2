"""The cells that are wrong today: `wrong.txt` has them, with what happens, until the change is mended."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from tests.world.cells import Cell
from tests.world.changes import CHANGES
from tests.world.events import EVENTS, Moment

Wrong = dict[Cell, str]
"""What is wrong about a cell."""

_FILE = Path(__file__).with_name("wrong.txt")
_VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,27}|\S*/tmp\S*?/(?=table|source)|\d{4}-\d\d-\d\dT[\d:.]+Z")
_LONGEST = 160


def read_wrong() -> Wrong:
    """Read the list: a change, moments, an event, kinds of stores, and what happens."""
    found: Wrong = {}
    for line in _FILE.read_text().splitlines():
        change, moments, event, kinds, what = line.split(" | ", 4)
        for moment in moments.split():
            found |= {Cell(change, Moment(moment), event, kind): what for kind in kinds.split()}
    return found


def write_wrong(wrong: Wrong, played: Collection[str]) -> None:
    """Replace what the list says of the changes that were played."""
    kept = {cell: what for cell, what in read_wrong().items() if cell.change not in played} if _FILE.exists() else {}
    kinds: dict[tuple[str, str, Moment], list[str]] = defaultdict(list)
    for cell in (all_wrong := kept | wrong):
        kinds[cell.change, cell.event, cell.moment].append(cell.kind)
    lines: dict[tuple[str, str, str], list[Moment]] = defaultdict(list)
    for (change, event, moment), found in kinds.items():
        lines[change, event, " ".join(sorted(found))].append(moment)
    texts = []
    for (change, event, stores), moments in lines.items():
        in_order = [moment for moment in Moment if moment in moments]
        what = _VARYING.sub("…", all_wrong[Cell(change, in_order[0], event, stores.split()[0])])
        texts.append(
            (change, event, f"{change} | {' '.join(in_order)} | {event} | {stores} | {what[:_LONGEST].strip()}")
        )
    order = [*CHANGES], [*EVENTS]
    texts.sort(key=lambda text: (order[0].index(text[0]), order[1].index(text[1])))
    _FILE.write_text("".join(f"{line}\n" for _, _, line in texts))
