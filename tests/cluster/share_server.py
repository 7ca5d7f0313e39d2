"""A sharing server for the tests of shares in Spark: a process of the environment that has its libraries."""

from __future__ import annotations

import json
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
    named = [f"{name}={path}" for name, path in tables.items()]
    with _served(place, "serve", *named) as profile:
        yield f"{profile}#Sales.Main."


@contextmanager
def serving_directory(place: Path, table: Path, life_ms: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a table by URLs and in a bucket, with credentials that are valid for some time, and yield its address and
    the options of its store.
    """
    with _served(place, "serve_directory", str(table), str(life_ms)) as line:
        found = json.loads(line)
        yield found["address"], {"endpoint_url": found["endpoint_url"], "region": "us-east-1"}


@contextmanager
def _served(place: Path, module: str, *arguments: str) -> Iterator[str]:
    """Run a module of a server, and yield the line that it prints."""
    python = os.environ.get(PYTHON) or str(REPOSITORY / ".venv" / "bin" / "python")
    if not Path(python).exists():
        pytest.skip(f"{PYTHON} is not set: no environment has the server")
    place.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DELTACLI_"))}
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [python, "-m", f"tests.sharing.client.{module}", str(place), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=REPOSITORY,
            env=environment,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        with in_time(server, "the line of the server"):
            line = server.stdout.readline().decode().strip()
        assert line, (place / "server.log").read_text()
        yield line
    finally:
        server.stdin.close()
        server.stdout.close()
        with in_time(server, "the end of the server"):
            server.wait()
