"""Asking a client, in a process of its own, about many tables; a crash costs one answer. Shared tables are served."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_SECONDS = 1_800
PROBE = Path(__file__).with_name("probe.py")


class Question(NamedTuple):
    """A table to read into an Arrow file `to`, or to append the rows of the Arrow file `append` to. Where a client
    has no types of its own, its columns get those of the Arrow file `like`.
    """

    path: Path | str
    to: Path | None = None
    append: Path | None = None
    like: Path | None = None

    def line(self) -> bytes:
        """Return it as a line for the probe."""
        parts = {"path": self.path, "to": self.to, "append": self.append, "like": self.like}
        return json.dumps({name: str(part) for name, part in parts.items() if part is not None}).encode() + b"\n"


class Asked(NamedTuple):
    """The version of a client, and for each question why it refused; None where it did what was asked."""

    version: str
    refusals: list[str | None]


def ask(python: Path, client: str, questions: Sequence[Question]) -> Asked:
    """Ask a client of an environment. Raises RuntimeError where it does not start."""
    version, refusals = "", list[str | None]()
    while not version or len(refusals) < len(questions):
        left = questions[len(refusals) :]
        lines, end = _run(python, client, b"".join(one.line() for one in left))
        if not lines:
            raise RuntimeError(f"{client} does not start: {end}")
        version = str(lines[0]["version"])
        refusals += [line.get("refused") for line in lines[1:]]
        if len(lines) - 1 < len(left):
            refusals.append(f"crashed: {end}")
    return Asked(version, refusals)


def _run(python: Path, client: str, text: bytes) -> tuple[list[dict[str, str]], str]:
    """Return the whole lines that the client answered before it ended, and how it ended."""
    try:
        done = subprocess.run(
            [python.absolute(), PROBE, client],
            input=text,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            cwd="/",  # chdb reads no files outside of the working directory
        )
        output, end = done.stdout, f"exit {done.returncode}: {done.stderr[-200:].decode(errors='replace')}"
    except subprocess.TimeoutExpired as slow:
        output, end = slow.stdout or b"", f"no answer in {_SECONDS} seconds"
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")], end


@contextmanager
def served(tables: Sequence[Path], work: Path) -> Iterator[list[str]]:
    """Serve tables with `deltacli share serve`, and yield the address of each for clients of Delta Sharing. Raises
    RuntimeError where the server does not start.
    """
    links, profile = work / "served", work / "served.share"
    links.mkdir()
    for number, table in enumerate(tables):
        (links / f"t{number}").symlink_to(table.absolute())  # a name of a share has no dot
    command = [sys.executable, "-m", "deltacli", "share", "serve", str(links), "--profile", str(profile)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            if not any(line.startswith("next: ") for line in server.stderr):
                raise RuntimeError(f"the server of shared tables ended: exit {server.wait()}")
            yield [f"{profile}#local.{links.name}.t{number}" for number in range(len(tables))]
        finally:
            server.terminate()
