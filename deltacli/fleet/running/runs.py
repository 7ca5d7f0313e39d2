"""Names of runs: in the order of their beginnings, and no two are equal."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from deltacli.units import format_timestamp


def new_run_id(now_ms: int, newest: str | None = None) -> str:
    """Return the name of a run: names are in the order of their beginnings, also where the clock was set back, and no
    two are equal.
    """
    last_ms = -1 if newest is None else begin_of(newest)
    moment = format_timestamp(max(now_ms, last_ms + 1)).replace("-", "").replace(":", "").replace(".", "")
    return f"{moment}-{secrets.token_hex(4)}"


def begin_of(run: str) -> int:
    """Return the time in the name of a run, or of its file; -1 if it has no time."""
    try:
        moment = datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)
    except ValueError:
        return -1
    return round(moment.timestamp() * 1_000)
