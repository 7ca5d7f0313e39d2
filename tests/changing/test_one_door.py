"""What writes to a table gets its store from a gate. The other places that ask for it are counted here."""

from __future__ import annotations

import re
from pathlib import Path

import deltacli

ROOT = Path(deltacli.__file__).parent
BESIDE_GATES = {
    "operations/checkpoint": 3,
    "operations/log": 2,
    "operations/paimon": 2,
    "operations/recover": 7,
    "operations/repair": 6,
    "operations/restore": 1,
    "operations/vacuum": 2,
    "spark": 1,
}


def test_few_places_besides_the_gate_write_to_a_table() -> None:
    found: dict[str, int] = {}
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("changing/") or name == "operations/table/handle.py":
            continue
        if count := len(re.findall(r"(?<!require_)writable\(\)", path.read_text(encoding="utf-8"))):
            room = "/".join(name.split("/")[: 2 if name.startswith("operations/") else 1])
            found[room] = found.get(room, 0) + count

    assert {} == {room: count for room, count in found.items() if count > BESIDE_GATES.get(room, 0)}
