"""The model behind docs/scale.md: unit costs of a measured run, what they predict for a larger one, and at 10^9 files.

  .venv/bin/python -m benchmarks.scale [--write docs/scale.md]

Reads two runs of `scale_run.py`. The unit costs of `benchmarks/scale_small.json` predict `benchmarks/scale_large.json`,
which is ten times as large; those of the large one give the extrapolation. They contain the fixed costs of starting
workers and jobs. Every cost is linear in its units: processor seconds of slots and of the driver, memory, bytes, calls.
Only the number of jobs is not: it follows the windows of the engine. Processor time is used, and not wall time, because
other load on the machine does not change it much.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = 10**9
SLOTS = (10, 100, 1_000)
LATENCY = 0.2
"""Seconds per call of the store that are assumed for the table, as in the measurements by slots."""
PRICE_A_THOUSAND = {"LIST": 0.005, "PUT": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETES": 0.0, "DELETE": 0.0}
"""US dollars per 1,000 calls: assumed for S3 Standard in us-east-1 in November 2026. Check the list of the day."""
FLOOR = 1.0
"""Seconds of an empty job that are assumed for the table; 0.3 to 0.5 s on an idle machine."""
CALL_IN_TASKS = {"vacuum, dry run": "LIST", "footers": "GET", "vacuum, execution": "DELETES"}
LEAST_BYTES = 10_000_000
"""Differences of the memory of a process below this many bytes are noise."""
LEVELS = 2
"""The listing of a vacuum sends its values once per level: the root, and its directories."""
BATCHES_A_WAVE, FIRST_PIECES, WINDOW_BYTES = 64, 64, 32 << 20
"""As in the engine and in `operations/vacuum/execute.py`."""
NAMES = ("counts", "checkpoint", "vacuum, dry run", "vacuum, execution", "footers")
UNIT = {"counts": "action", "checkpoint": "action", "vacuum, dry run": "file", "footers": "footer"}
UNIT["vacuum, execution"] = "deleted file"
OF_A_FILE = {"counts": 10.0, "checkpoint": 10.0, "vacuum, dry run": 1.0, "vacuum, execution": 0.1, "footers": 1.0}
"""Units for each file of the table."""


@dataclass(frozen=True)
class UnitCosts:
    """What one unit of an operation costs: seconds of a slot without waiting, of the driver, and bytes. `calls` are the
    calls of tasks, `driver_calls` those of the driver for the whole operation; a piece has `units_a_piece`.
    """

    name: str
    slot_seconds: float
    driver_seconds: float
    driver_bytes: float
    shared_bytes: float
    returned_bytes: float
    piece_bytes: float
    units_a_piece: float
    calls: float
    driver_calls: float
    service: float


@dataclass(frozen=True)
class Forecast:
    """What an operation takes. Times in seconds."""

    jobs: int
    pieces: float
    calls: float
    in_jobs: float
    on_driver: float
    driver_bytes: float
    shared_bytes: float

    @property
    def seconds(self) -> float:
        return self.in_jobs + self.on_driver


def load(name: str) -> dict[str, Any]:
    """Return the figures of a run."""
    found: dict[str, Any] = json.loads((HERE / name).read_text(encoding="utf-8"))
    return found


def unit_costs(run: Mapping[str, Any]) -> dict[str, UnitCosts]:
    """Derive the unit costs of each operation from a run."""
    found = {one["name"]: one for one in run["measured"]}
    return {name: _unit_costs(found[name]) for name in NAMES}


def _unit_costs(one: Mapping[str, Any]) -> UnitCosts:
    name, units, kind = one["name"], one["units"], CALL_IN_TASKS.get(one["name"])
    calls, service = one["calls"].get(kind, [0, 0.0]) if kind else (0, 0.0)
    return UnitCosts(
        name,
        slot_seconds=one["cluster_cpu"] / units,
        driver_seconds=one["driver_cpu"] / units,
        driver_bytes=one["driver_bytes"] / units if one["driver_bytes"] >= LEAST_BYTES else 0.0,
        shared_bytes=one["shared"] / LEVELS / units,
        returned_bytes=one["returned"] / units,
        piece_bytes=one["sent"] / one["pieces"],
        units_a_piece=units / one["pieces"],
        calls=calls / units,
        driver_calls=sum(count for other, (count, _) in one["calls"].items() if other != kind),
        service=service / calls if calls else 0.0,
    )


def jobs_of(cost: UnitCosts, pieces: float, slots: int) -> int:
    """Return the number of jobs: windows grow eightfold while results and pieces are small."""
    if cost.name == "vacuum, execution":
        return max(1, -(-int(pieces) // BATCHES_A_WAVE))
    returned = max(1.0, cost.returned_bytes * cost.units_a_piece)
    most = max(1.0, min(WINDOW_BYTES / returned, WINDOW_BYTES / max(1.0, cost.piece_bytes)))
    jobs, window, left = 0, float(slots * FIRST_PIECES), pieces
    while left > 0:
        if window >= most:
            return jobs + max(1, -(-int(left) // int(most)))
        left -= window
        window *= 8
        jobs += 1
    return max(1, jobs)


def forecast(cost: UnitCosts, units: float, slots: int, latency: float) -> Forecast:
    """Return what an operation of so many units takes with so many slots, each with a processor of its own."""
    pieces = units / cost.units_a_piece
    jobs = jobs_of(cost, pieces, slots)
    useful = min(slots, BATCHES_A_WAVE) if cost.name == "vacuum, execution" else slots
    calls = units * cost.calls
    in_jobs = jobs * FLOOR + (calls * (latency + cost.service) + units * cost.slot_seconds) / useful
    on_driver = cost.driver_calls * latency + units * cost.driver_seconds
    return Forecast(jobs, pieces, calls, in_jobs, on_driver, units * cost.driver_bytes, units * cost.shared_bytes)


def price(cost: UnitCosts, calls: float) -> float:
    """Return the price of the calls of tasks in US dollars."""
    return calls / 1_000 * PRICE_A_THOUSAND.get(CALL_IN_TASKS.get(cost.name, ""), 0.0)


def tables(small: Mapping[str, Any], large: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the lines of each table of the page, by the name of its place."""
    costs = unit_costs(large)
    return {
        "units": list(_units(costs)),
        "check": list(_check(unit_costs(small), large)),
        "extrapolation": list(_hours(costs)),
        "resources": list(_resources(costs)),
    }


def _units(costs: Mapping[str, UnitCosts]) -> Iterator[str]:
    yield "| operation | unit | a slot, per unit | the driver, per unit | memory of the driver | broadcast | result |"
    yield "|---|---|---|---|---|---|---|"
    for name in NAMES:
        cost = costs[name]
        yield (
            f"| {name} | {UNIT[name]} | {_micro(cost.slot_seconds)} | {_micro(cost.driver_seconds)} "
            f"| {cost.driver_bytes:.0f} B | {cost.shared_bytes:.0f} B | {cost.returned_bytes:.1f} B |"
        )


def _check(costs: Mapping[str, UnitCosts], large: Mapping[str, Any]) -> Iterator[str]:
    yield "| operation | units | processor time of slots | of the driver | memory of the driver | calls | wall |"
    yield "|---|---|---|---|---|---|---|"
    found = {one["name"]: one for one in large["measured"]}
    for name in NAMES:
        one, cost = found[name], costs[name]
        slots, driver = one["units"] * cost.slot_seconds, one["units"] * cost.driver_seconds
        calls = one["calls"].get(CALL_IN_TASKS.get(name, ""), [0])[0]
        yield (
            f"| {name} | {one['units']:,} {UNIT[name]}s | {slots:.0f} s / {one['cluster_cpu']:.0f} s "
            f"| {driver:.1f} s / {one['driver_cpu']:.1f} s "
            f"| {_bytes(one['units'] * cost.driver_bytes)} / {_bytes(one['driver_bytes'])} "
            f"| {one['units'] * cost.calls:,.0f} / {calls:,} | {one['seconds']:.0f} s |"
        )


def _hours(costs: Mapping[str, UnitCosts]) -> Iterator[str]:
    heads = " | ".join(f"{slots:,} slots" for slots in SLOTS)
    yield f"| operation | units | calls of tasks | price | {heads} | of it on the driver |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in NAMES:
        cost, units = costs[name], FILES * OF_A_FILE[name]
        forecasts = [forecast(cost, units, slots, LATENCY) for slots in SLOTS]
        times = " | ".join(_hour(one.seconds) for one in forecasts)
        paid = price(cost, forecasts[0].calls)
        yield (
            f"| {name} | 10^{round(math.log10(units))} {UNIT[name]}s | {forecasts[0].calls:,.0f} | {paid:,.0f} USD "
            f"| {times} | {_hour(forecasts[0].on_driver)} |"
        )


def _resources(costs: Mapping[str, UnitCosts]) -> Iterator[str]:
    yield "| operation | pieces | jobs, 100 slots | memory of the driver | broadcast, to each process | results |"
    yield "|---|---|---|---|---|---|"
    for name in NAMES:
        cost, units = costs[name], FILES * OF_A_FILE[name]
        estimate = forecast(cost, units, 100, LATENCY)
        yield (
            f"| {name} | {estimate.pieces:,.0f} | {estimate.jobs:,} | {_bytes(estimate.driver_bytes)} "
            f"| {_bytes(estimate.shared_bytes)} | {_bytes(units * cost.returned_bytes)} |"
        )


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.2f} µs"


def _bytes(size: float) -> str:
    if size < LEAST_BYTES:
        return "small"
    unit, scale = next(known for known in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if size >= known[1])
    return f"{size / scale:,.1f} {unit}"


def _hour(seconds: float) -> str:
    return f"{seconds / 3_600:,.1f} h" if seconds >= 3_600 else f"{seconds / 60:,.0f} min"


def filled(page: str, made: Mapping[str, Sequence[str]]) -> str:
    """Return the page with its tables: each stands between a comment `<!-- table NAME -->` and `<!-- end -->`."""
    for name, lines in made.items():
        text = "\n".join(lines)
        pattern = rf"(<!-- table {name} -->\n\n).*?(\n\n<!-- end -->)"
        page = re.sub(pattern, lambda match, text=text: match[1] + text + match[2], page, flags=re.DOTALL)  # type: ignore[misc]
    return page


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--small", default="scale_small.json")
    parser.add_argument("--large", default="scale_large.json")
    given = parser.parse_args()
    made = tables(load(given.small), load(given.large))
    if given.write:
        given.write.write_text(filled(given.write.read_text(encoding="utf-8"), made), encoding="utf-8")
        return
    for name, lines in made.items():
        print(f"\n{name}\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
