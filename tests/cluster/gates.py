"""Gates at which a process of a cluster stops, so that a test can kill or pause it at a known step."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

SITE = Path(__file__).parent / "site"
"""The directory of `sitecustomize.py`, which stops at gates."""

_SECONDS = 120
_TICK = 0.02
_EXECUTOR = b"CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Step:
    """A step of real code: a call of the local store (`begin`, `publish`, `create`, `put`, `delete`, `walk`) of a path
    that contains `path`, before or after it is done, the `number`-th of a process, on an executor or in the driver.
    """

    call: str
    path: str = ""
    moment: str = "before"
    number: int = 1
    executor: bool = False

    def __str__(self) -> str:
        who = "executor" if self.executor else "driver"
        return f"{who} {self.moment} {self.call} {self.path or 'any'} {self.number}"


class Gates:
    """The gates of a cluster, one at a time, in a directory that its processes know from their environment."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._number = 0

    @property
    def environment(self) -> dict[str, str]:
        """What each process needs from its start."""
        return {"DELTACLI_GATES": str(self._place)}

    def close(self, step: Step) -> None:
        """Let the next process that comes to a step wait."""
        self._number += 1
        draft = self._place / "gate.draft"
        draft.write_text(json.dumps({**asdict(step), "id": str(self._number)}))
        draft.replace(self._place / "gate.json")

    def wait(self, is_over: Callable[[], bool] = lambda: False) -> int:
        """Return the id of the process that waits at the gate. Fails where it `is_over` before one does."""
        arrived = self._place / f"{self._number}.arrived"
        wait_until(lambda: arrived.exists() or is_over())
        assert arrived.exists(), "no process came to the gate"
        return int(arrived.read_text())

    def open(self) -> None:
        """Let the process go on, and none stop any more."""
        (self._place / "gate.json").unlink(missing_ok=True)
        (self._place / f"{self._number}.open").touch()


def wait_until(is_so: Callable[[], bool], seconds: float = _SECONDS) -> None:
    """Wait for other processes."""
    last = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < last, f"nothing happened for {seconds} seconds"
        time.sleep(_TICK)


def executor_of(worker: int) -> int:
    """Return the process of the executor that started a Python worker: a JVM of its own on a standalone cluster, the
    worker itself elsewhere, because its JVM is the driver.
    """
    process = worker
    while process > 1:
        if _is_executor(process):
            return process
        process = int(_stat(process)[1])
    return worker


def executors() -> set[int]:
    """Return the running executors of standalone clusters, with the Python processes that they started."""
    parents = {process: int(_stat(process)[1]) for process in _running()}
    found = {process for process in parents if _is_executor(process)}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _is_executor(process: int) -> bool:
    try:
        return _EXECUTOR in Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(process: int) -> None:
    """End a process without warning."""
    os.kill(process, signal.SIGKILL)


def is_running(process: int) -> bool:
    """Return False for a process that has ended, also if nobody has noticed yet."""
    return _stat(process)[0] != "Z"


def of_session(session: int) -> list[int]:
    """Return the running processes of a session: a command, its JVM, and the workers of that."""
    return [process for process in _running() if int(_stat(process)[3]) == session]


def _running() -> list[int]:
    return [process for process in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_running(process)]


def _stat(process: int) -> list[str]:
    """Return state, parent, group, session and more of a process, as those of a zombie where it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["Z", "0", "0", "0"]
