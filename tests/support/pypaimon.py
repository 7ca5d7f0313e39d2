"""pypaimon as a second reader and writer of tables, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.support.waiting import in_time

ROOT = Path(__file__).parents[2]
ENVIRONMENT_VARIABLE = "DELTACLI_PAIMON_PYTHON"


class PypaimonError(Exception):
    """What pypaimon raised."""


class Pypaimon:
    """A process of pypaimon on a warehouse; the tables are in `db.db`. Orders are methods of `peers.pypaimon_peer`."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        python = os.environ.get(ENVIRONMENT_VARIABLE, "")
        if not python or not Path(python).exists():
            pytest.skip(f"{ENVIRONMENT_VARIABLE} is not set")
        self._errors = (warehouse.parent / f"{warehouse.name}-{id(self)}.err").open("wb")
        self._process = subprocess.Popen(
            [python, "-m", "tests.paimon.peers.pypaimon_peer", str(warehouse)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def root(self, table: str) -> Path:
        """Return the directory of a table."""
        return self.warehouse / "db.db" / table

    def start(self, do: str, **order: object) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:  # Any: JSON values
        """Return the answer to the oldest order. Raises PypaimonError."""
        assert self._process.stdout is not None
        with in_time(self._process, "an answer of pypaimon", 300):
            line = self._process.stdout.readline()
        assert line, Path(self._errors.name).read_text("utf-8", "replace")[-2_000:]
        found = json.loads(line)
        if "error" in found:
            raise PypaimonError(found["error"])
        return found["answer"]

    def ask(self, do: str, **order: object) -> Any:  # Any: JSON values
        """Send an order and return the answer."""
        self.start(do, **order)
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._errors.close()
