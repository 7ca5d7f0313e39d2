"""Running targets: a child process for each, restarted where it died or hung, and what was found."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fuzz.worker import Blackboard, save_finding

DEADLINE_SECONDS = 60.0
"""What one input may take. A loaded machine is slow; what hangs, hangs for longer."""

STARTUP_SECONDS = 180.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Round:
    """What one target was put through."""

    target: str
    inputs: int
    findings: int
    seconds: float

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0.0
        return f"{self.target:<18} {self.inputs:>9} inputs  {rate:>8.0f}/s  {self.findings} findings"


def run_target(
    target: str,
    findings: Path,
    *,
    seconds: float = 1e9,
    inputs: int = sys.maxsize,
    seed: int = 1,
    deadline: float = DEADLINE_SECONDS,
) -> Round:
    """Try a target for so long, or with so many inputs; inputs that fail are saved under `findings`."""
    begin = time.monotonic()
    tried, found = 0, 0
    for number in itertools.count(seed):
        left = begin + seconds - time.monotonic()
        if left <= 0 or tried >= inputs:
            break
        with tempfile.TemporaryDirectory(prefix="deltacli-fuzz-") as place:
            board = Path(place) / "blackboard"
            done, own, lost = _run_child(target, findings, board, number, inputs - tried, left, deadline)
        tried, found = tried + done, found + own + lost
    return Round(target, tried, found, time.monotonic() - begin)


def _run_child(
    target: str, findings: Path, path: Path, seed: int, inputs: int, seconds: float, deadline: float
) -> tuple[int, int, int]:
    """Inputs tried by one child, its own findings, and 1 where it had to be buried."""
    board = Blackboard(path)
    command = [sys.executable, "-X", "faulthandler", "-m", "fuzz.worker", target, "--seed", str(seed)]
    command += ["--inputs", str(inputs), "--seconds", str(seconds)]
    command += ["--blackboard", str(path), "--findings", str(findings)]
    with (path.parent / "stderr").open("w+b") as errors, subprocess.Popen(command, stderr=errors) as child:
        cause = _watch(child, board, deadline)
        errors.seek(0)
        said = errors.read()[-4_000:].decode("utf-8", "replace")
    finished, own, data = board.read()
    if cause is None:
        return max(finished, 0), own, 0
    if finished < 0:
        raise RuntimeError(f"fuzz target {target} does not start: {cause}\n{said}")
    lost = save_finding(findings, target, data, said, f"{cause} {_where(said)}") is not None
    return finished + 1, own, int(lost)


def _watch(child: subprocess.Popen[bytes], board: Blackboard, deadline: float) -> str | None:
    """Wait for a child; why it had to end, None where it ended by itself."""
    seen, since = -2, time.monotonic()
    while True:
        try:
            code = child.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            finished = board.read()[0]
            if finished != seen:
                seen, since = finished, time.monotonic()
            elif time.monotonic() - since > (STARTUP_SECONDS if finished < 0 else deadline):
                child.send_signal(signal.SIGABRT)  # faulthandler then says where it was
                try:
                    child.wait(5)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                return f"hang of more than {deadline:.0f} s"
            continue
        return None if code == 0 else f"exit {code}"


def _where(said: str) -> str:
    """The innermost line of the product in what faulthandler wrote."""
    return next((line.strip() for line in said.splitlines() if "/deltacli/" in line), "outside of deltacli")
