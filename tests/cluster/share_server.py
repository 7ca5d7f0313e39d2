"""A sharing server for the tests of shares in Spark: a process of the environment that has its libraries."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.material import REPOSITORY
from tests.support.waiting import in_time

PYTHON = "DELTACLI_SERVER_PYTHON"
"""The variable with the Python that has the extra `share`."""


@contextmanager
def serving(place: Path, tables: Mapping[str, Path]) -> Iterator[str]:
    """Serve tables on loopback, and yield the beginning of their addresses: `PROFILE#Sales.Main.`."""
    python = os.environ.get(PYTHON) or str(REPOSITORY / ".venv" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip(f"{PYTHON} is not set: no environment has the server")
    place.mkdir(parents=True, exist_ok=True)
    named = [f"{name}={path}" for name, path in tables.items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DELTACLI_"))}
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [python, "-m", "tests.sharing.client.serve", str(place), *named],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=REPOSITORY,
            env=environment,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        with in_time(server, "the profile of the server"):
            profile = server.stdout.readline().decode().strip()
        assert profile, (place / "server.log").read_text()
        yield f"{profile}#Sales.Main."
    finally:
        server.stdin.close()
        server.stdout.close()
        with in_time(server, "the end of the server"):
            server.wait()
