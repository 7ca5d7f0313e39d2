"""Write the journal of a fleet after many nightly runs, and measure what reads it.

    python benchmarks/fleet_journal.py DIRECTORY [--tables 10000] [--runs 365] [--share 0.03]

Each run has the facts and steps of a share of the tables. Prints the size of the journal, and the seconds of `fleet
status` and `fleet plan`, before and after the journal is summarized. The plan finds no table and
reads the journal only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from deltacli.core.documents import dumps
from deltacli.core.machine import system_clock
from deltacli.core.times import DAY_MS
from deltacli.fleet.running.journal import new_run_id
from deltacli.fleet.running.run import summarize

POLICY = """\
[policies.base]
checkpoint = {{}}
vacuum = {{ consent = true }}
validate = {{}}
alerts = {{ log-bytes = "500MiB", small-files = "40%" }}
[groups.all]
policy = "base"
globs = ["{lake}/*"]
"""
END_MS = 1_763_800_000_000


def write_journal(root: Path, tables: int, runs: int, share: float) -> int:
    """Write the policy file and the journal, and return the bytes of the journal."""
    (root / "lake").mkdir(parents=True, exist_ok=True)
    (root / "fleet.toml").write_text(POLICY.format(lake=root / "lake"))
    directory = root / "fleet-state" / "journal"
    directory.mkdir(parents=True)
    each = max(1, round(tables * share))
    for number in range(runs):
        now_ms = END_MS - (runs - number) * DAY_MS
        run = new_run_id(now_ms)
        chosen = range(tables) if number == 0 else [(number * each + place) % tables for place in range(each)]
        lines = [_event(run, "run-started", now_ms, groups=["all"], host="elsewhere", process="1@1")]
        for table in chosen:
            lines += _of_table(run, f"/lake/schema-{table % 100}/table-{table:06d}", table, number, now_ms)
        lines.append(_event(run, "run-finished", now_ms + 3_600_000, exit=0, left=0, summary={"tables": tables}))
        (directory / f"{run}.ndjson").write_bytes(b"".join(lines))
    return sum(path.stat().st_size for path in directory.iterdir())


def _of_table(run: str, name: str, table: int, number: int, now_ms: int) -> list[bytes]:
    where = {"table": name, "group": "all"}
    facts = {
        "version": number * 10, "committedMs": now_ms, "logFiles": 20 + number % 9, "logBytes": 10_000 + table + number,
        "commitsBehind": number % 7, "bytesBehind": 3_000, "expirableFiles": 0, "expirableBytes": 0,
        "checkpointVersion": number * 10 - 5, "checkpointMs": now_ms - DAY_MS,
    }  # fmt: skip
    found = [_event(run, "table-facts", now_ms, **where, facts=facts)]
    counts = {
        "errors": 0, "warnings": 1, "infos": 0, "accepted": 0, "rules": {"hint.stale": 1}, "level": "log",
        "version": number * 10, "liveFiles": 100 + number, "liveBytes": 1_000_000 + number, "smallFiles": 30,
        "tombstones": 5, "rows": 100_000 + number,
    }  # fmt: skip
    steps = {"validate": counts, "checkpoint": {"version": number * 10, "files": 1, "sizeBytes": 9_000, "liveFiles": 9}}
    if number % 7 == 0:
        steps["vacuum"] = {"files": 12, "sizeBytes": 50_000, "liveFiles": 100, "retentionMs": 7 * DAY_MS}
    for kind, details in steps.items():
        found.append(_event(run, "step-started", now_ms + 1, **where, step=kind, reason="done 7 days ago (every 7d)"))
        fields = {"state": "done", "exit": 0, "message": "no error at level log", "durationMs": 31, "details": details}
        found.append(_event(run, "step-finished", now_ms + 2, **where, step=kind, **fields))
    return found


def _event(run: str, kind: str, now_ms: int, **fields: object) -> bytes:
    return dumps({"type": kind, "run": run, "timestampMs": now_ms, **fields}) + b"\n"


def measure(root: Path, *arguments: str) -> float:
    """Return the seconds of a command, the least of three."""
    command = [sys.executable, "-m", "deltacli", "fleet", *arguments, str(root / "fleet.toml"), "-q"]
    found = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        found.append(time.perf_counter() - began)
        assert done.returncode < 6, done
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=365)
    parser.add_argument("--share", type=float, default=0.03)
    chosen = parser.parse_args()
    size = write_journal(chosen.directory, chosen.tables, chosen.runs, chosen.share)
    print(f"journal: {size / 2**20:,.0f} MiB in {chosen.runs} files, {chosen.tables:,} tables")
    state = chosen.directory / "fleet-state"
    for when in ("before", "after"):
        for command in ("status", "plan"):
            print(f"fleet {command}, {when}: {measure(chosen.directory, command):.2f} s")
        if when == "before":
            for what in ("first summary", "next summary"):
                began = time.perf_counter()
                summarize(state, system_clock)
                print(f"{what}: {time.perf_counter() - began:.2f} s")
    bytes_of = {path.name: sum(one.stat().st_size for one in [path, *path.glob("*")]) for path in state.iterdir()}
    print(", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in sorted(bytes_of.items())))


if __name__ == "__main__":
    main()
