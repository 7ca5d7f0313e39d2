"""The process that tries inputs, one after the other: it may die or hang, and its parent then knows on which input.

`python -m fuzz.worker TARGET --replay FILE` tries one saved input again.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import random
import resource
import struct
import sys
import time
import traceback
from pathlib import Path

from fuzz.mutate import MAX_BYTES, mutate
from fuzz.targets import load

HEAD = struct.Struct("<qqI")
"""What the parent reads: inputs finished (-1 before the first begins), findings, bytes of the input being tried."""

ADDRESS_SPACE = 6 << 30
"""pyarrow's allocator reserves 1-2 GiB of addresses that it never touches."""


class Blackboard:
    """A file both processes see: the counters, then the input being tried."""

    def __init__(self, path: Path) -> None:
        size = HEAD.size + MAX_BYTES
        if not path.exists():
            path.write_bytes(HEAD.pack(-1, 0, 0).ljust(size, b"\0"))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), size)

    def read(self) -> tuple[int, int, bytes]:
        """Inputs finished, findings, and the input being tried."""
        finished, findings, length = HEAD.unpack_from(self._memory, 0)
        return finished, findings, self._memory[HEAD.size : HEAD.size + length]

    def write(self, finished: int, findings: int, data: bytes | None = None) -> None:
        """Replace the counters, and the input where there is a new one."""
        if data is not None:
            self._memory[HEAD.size : HEAD.size + len(data)] = data
        length = HEAD.unpack_from(self._memory, 0)[2] if data is None else len(data)
        HEAD.pack_into(self._memory, 0, finished, findings, length)


def save_finding(home: Path, target: str, data: bytes, report: str, signature: str) -> Path | None:
    """Keep an input and what it did; None where one with the same signature is there already."""
    home.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{target} {signature}".encode()).hexdigest()[:12]
    place = home / f"{target}-{name}.bin"
    if place.exists():
        return None
    place.write_bytes(data)
    place.with_suffix(".txt").write_text(f"{signature}\n\n{report}", "utf-8", "backslashreplace")
    return place


def signature_of(fault: BaseException) -> str:
    """What makes two faults the same: the kind, and the innermost line of the product they passed."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "/deltacli/" in frame.filename]
    last = frames[-1] if frames else traceback.extract_tb(fault.__traceback__)[-1]
    return f"{type(fault).__name__} in {last.name}: {last.line}"


def main(arguments: list[str]) -> int:
    """Try inputs until there were enough or the time is over; 0 however many findings there were."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=sys.maxsize)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--blackboard", type=Path)
    parser.add_argument("--findings", type=Path)
    chosen = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    target = load(chosen.target)
    if chosen.replay is not None:
        target.test_one_input(chosen.replay.read_bytes())
        return 0
    rng, board, findings = random.Random(chosen.seed), Blackboard(chosen.blackboard), 0
    end = time.monotonic() + chosen.seconds
    for number in range(chosen.inputs):
        # The seeds themselves first, by the worker that starts at the beginning.
        is_seed = chosen.seed == 1 and number < len(target.seeds)
        data = target.seeds[number] if is_seed else mutate(rng, target.seeds, target.tokens)
        data = data[:MAX_BYTES]
        board.write(number, findings, data)
        try:
            target.test_one_input(data)
        except Exception as fault:  # noqa: BLE001  (whatever it is, it is a finding)
            report = "".join(traceback.format_exception(fault, limit=40))
            findings += save_finding(chosen.findings, target.name, data, report, signature_of(fault)) is not None
        board.write(number + 1, findings)
        if time.monotonic() > end:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
