"""A process that runs operations of `killed_operations` again and again, and is killed each time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from tests.cli.support import ROOT
from tests.support.waiting import in_time


class Killer:
    """Runs one operation on the table at an address."""

    def __init__(self, uri: str, operation: str, now_ms: int = 0, options: Mapping[str, str] | None = None) -> None:
        module = "tests.support.killed_operations"
        command = [sys.executable, "-m", module, uri, operation, str(now_ms), json.dumps(dict(options or {}))]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, at: int, **request: object) -> str:
        """How a run ended that is killed before a request; `request` is that of a copy."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{at} {json.dumps(request)}\n")
        with in_time(self._process, f"the end of a run that is killed before request {at}"):
            return self._process.stdout.readline().strip()

    def stop(self) -> None:
        with in_time(self._process, "the end of the killed runs"):
            self._process.communicate()
