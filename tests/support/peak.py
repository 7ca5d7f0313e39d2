"""How much memory a command takes: `python -m tests.support.peak REPORT ARGUMENT…` runs deltacli and notes its peak."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.support.builder import TableBuilder

MIB = 1 << 20


@dataclass(frozen=True)
class Run:
    """What came of a command. `extra_mib` is its peak above that of a snapshot of a tiny table."""

    code: int
    out: bytes
    error: str
    extra_mib: int
    seconds: float

    @property
    def json(self) -> dict[str, object]:
        """stdout as one document."""
        found: dict[str, object] = json.loads(self.out)
        return found


def deltacli(*arguments: str | Path, keep_output: bool = True) -> Run:
    """Run a command in a process of its own and measure it."""
    run = _run([str(argument) for argument in arguments], keep_output=keep_output)
    return Run(run.code, run.out, run.error, run.extra_mib - _baseline(), run.seconds)


@lru_cache(maxsize=1)
def _baseline() -> int:
    with tempfile.TemporaryDirectory() as place:
        TableBuilder().commits(3).checkpoint(1).write(Path(place))
        return _run(["snapshot", place, "--json"], keep_output=True).extra_mib


def _run(arguments: list[str], *, keep_output: bool) -> Run:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "peak"
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.peak", str(report), *arguments],
            stdout=subprocess.PIPE if keep_output else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        peak = int(report.read_text()) if report.exists() else 1 << 40
    return Run(done.returncode, done.stdout or b"", done.stderr.decode(), peak // MIB, time.monotonic() - begin)


def peak_bytes() -> int:
    """The peak of this process alone; on Linux `ru_maxrss` would count that of the process it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    from deltacli.cli.app import run as run_command

    outcome = run_command(sys.argv[2:])
    Path(sys.argv[1]).write_text(str(peak_bytes()))
    sys.exit(outcome)
