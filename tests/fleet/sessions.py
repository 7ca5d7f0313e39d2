"""A run in this process, without the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltacli.api.table import open_table
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.policy_file.reading import require_fleet_file
from deltacli.fleet.policy_file.requests import FleetRunRequest
from deltacli.fleet.running.run import FleetSession
from deltacli.storage import open_storage
from tests.fleet.lake import NOW_MS, write_lake
from tests.support.faulty import FaultyStorage


def session_of(root: Path, **others: Any) -> FleetSession:  # Any: fields of a session
    """Write a lake, and return a run on it whose leases can fail."""
    write_lake(root)
    return session_on(root, **others)


def session_on(root: Path, **others: Any) -> FleetSession:  # Any: fields of a session
    """Return a run on a lake that was written before."""
    place = str(root / "fleet-state" / "leases")
    leases = FaultyStorage(open_storage(place))
    fields: dict[str, Any] = {
        "file": require_fleet_file(root / "fleet.toml"),
        "open_store": lambda uri: leases if uri == place else open_storage(uri),
        "open_table": open_table,
        "engine": EmbeddedEngine(),
        "clock": lambda: NOW_MS,
        "request": FleetRunRequest(state=str(root / "fleet-state"), jobs=1, yes=True),
    }
    return FleetSession(**(fields | others))
