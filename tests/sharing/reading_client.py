"""Reads shared tables by the Python client of Delta Sharing, in its own environment, and writes their rows as JSON.

Run as a program: `python reading_client.py PROFILE JOBS ANSWERS`. It imports nothing of deltacli, whose tests import
`plain_rows` to compare.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

MODES: Mapping[str, bool | None] = {"parquet": False, "delta": True, "auto": None}


def plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return rows as texts, sorted. What pandas cannot tell apart is equal: null and NaN, 1 and 1.0."""
    return sorted(json.dumps({name: plain(value) for name, value in row.items()}, sort_keys=True) for row in rows)


def plain(value: Any) -> Any:
    """Return a value as JSON. Times are UTC."""
    if hasattr(value, "tolist") and not isinstance(value, str | bytes):  # numpy
        value = value.tolist()
    match value:
        case None | bool() | str():
            return value
        case float():
            if math.isnan(value):
                return None
            return int(value) if value.is_integer() else repr(value)
        case int():
            return value
        case Decimal():
            return f"decimal {value.normalize():f}"
        case bytes():
            return f"bytes {value.hex()}"
        case datetime():
            return _moment(value)
        case date():
            return value.isoformat()
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return f"{type(value).__name__} {value}"


def _moment(value: datetime) -> str | None:
    if value != value:  # noqa: PLR0124  (NaT)
        return None
    return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%dT%H:%M:%S.%f")


def main(profile: str, jobs: str, answers: str) -> None:
    """Read each table of a list of jobs and write what came of it."""
    import warnings

    import delta_sharing
    from delta_sharing.rest_client import DataSharingRestClient

    warnings.simplefilter("ignore")
    DataSharingRestClient.__init__.__defaults__ = (0,)  # without repetitions: a failure is to be seen at once
    found: dict[str, dict[str, Any]] = {}
    with open(jobs) as file:
        listed = json.load(file)
    for job in listed:
        began = time.monotonic()
        try:
            if job["kind"] == "changes":
                frame = delta_sharing.load_table_changes_as_pandas(
                    f"{profile}#{job['table']}", use_delta_format=MODES[job["mode"]], **job["options"]
                )
            else:
                frame = delta_sharing.load_as_pandas(
                    f"{profile}#{job['table']}", use_delta_format=MODES[job["mode"]], **job["options"]
                )
            found[job["id"]] = {"rows": plain_rows(frame.to_dict("records")), "columns": list(frame.columns)}
        except BaseException as fault:  # noqa: BLE001  (the client raises anything, a panic of Rust too)
            answer = getattr(getattr(fault, "response", None), "text", "") or str(fault)
            found[job["id"]] = {"error": f"{type(fault).__name__}: {answer}"[:2000]}
        found[job["id"]]["seconds"] = round(time.monotonic() - began, 2)
    with open(answers, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
