"""Commands of deltacli, each in a process of its own, as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.judges.figures import FIGURES
from tests.support.material import REPOSITORY

SECONDS = 300


@dataclass(frozen=True)
class Finished:
    """A command that has ended, with its output as text."""

    arguments: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    def document(self) -> Any:  # Any: a JSON value
        """Return the JSON document that the command has printed."""
        return json.loads(self.stdout)

    def lines(self) -> list[Any]:  # Any: JSON values
        """Return the JSON documents of a command that prints one per line."""
        return [json.loads(line) for line in self.stdout.splitlines() if line.strip()]


def deltacli(*arguments: str | Path, codes: tuple[int, ...] = (0,), **environment: str) -> Finished:
    """Run a command and return what it printed.

    Args:
        arguments: The command line, without the name of the program.
        codes: The exit codes that the test expects. Any other one fails the test, with the output of the command.
        environment: Variables in addition to those of this process.
    """
    FIGURES["commands"] += 1
    words = tuple(map(str, arguments))
    settings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "DELTACLI_PAGER": "", **environment}
    done = subprocess.run(
        [sys.executable, "-m", "deltacli", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=settings,
        timeout=SECONDS,
        check=False,
    )
    finished = Finished(words, done.returncode, done.stdout, done.stderr)
    if finished.code not in codes:
        shown = f"{finished.stdout[-2000:]}\n{finished.stderr[-3000:]}"
        raise AssertionError(f"deltacli {' '.join(words)} ended with {finished.code}, not {codes}:\n{shown}")
    return finished


def find_errors(table: Path) -> list[str]:
    """Return the rules of the errors that `validate` reports about a table, its listing included."""
    validation = deltacli("validate", table, "--level", "storage", "--format", "json", codes=(0, 1)).document()
    findings = [finding for one in validation["tables"] for finding in one["findings"]]
    return [finding["rule"] for finding in findings if finding["severity"] == "error"]
