"""What `deltacli streams` says of queries, and what it leaves of a table for them."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from tests.judges.commands import deltacli

Json = dict[str, Any]  # Any: JSON values

_COMMIT_OR_CHECKPOINT = re.compile(r"(\d{20})\.(json|checkpoint.*\.parquet)")


def streams(table: Path, checkpoints: str | Path, *arguments: str | Path) -> dict[str, Json]:
    """Return what `deltacli streams` says of each query that reads a table, by the name of its directory."""
    found = deltacli("streams", table, "--checkpoints", checkpoints, *arguments, "--json", codes=(0, 1))
    return {query["name"]: query for query in found.document()["queries"]}


def verdict_of(table: Path, checkpoint: Path, *arguments: str | Path) -> str:
    """Return the verdict of one query; "not shown" if it is not named."""
    queries = streams(table, checkpoint, *arguments)
    return queries[checkpoint.name]["verdict"] if checkpoint.name in queries else "not shown"


def delete_unneeded_files(table: Path, checkpoint: Path) -> None:
    """Delete every data file, deletion vector and change file that neither the newest version nor a query needs."""
    at_once = ("--retention", "0h", "--allow-retention-below", "168h", "--max-delete", "100%", "--no-log-entries")
    deltacli("vacuum", table, "--protect-streams", checkpoint, *at_once, "--yes")


def delete_unneeded_commits(table: Path, needs: Json) -> None:
    """Delete every commit and checkpoint that a query does not need, and from which the newest version is not rebuilt.

    A version that the query needs is rebuilt from the checkpoint at or below it. A query that needs no version needs
    commits only.
    """
    numbers = {
        path: int(match[1]) for path in _log_files(table) if (match := _COMMIT_OR_CHECKPOINT.fullmatch(path.name))
    }
    checkpoints = [number for path, number in numbers.items() if ".checkpoint." in path.name]
    first = max(checkpoints)
    if needs["versions"] is not None:
        first = min(first, needs["versions"][0])
    if (snapshot := needs["initialSnapshot"]) is not None:
        first = min(first, max((number for number in checkpoints if number <= snapshot), default=0))
    for path, number in numbers.items():
        if number < first:
            delete_with_checksum(path)


def expire_log(table: Path, checkpoint: Path) -> None:
    """Delete what `log expire` deletes of a table whose commits are older than the retention."""
    newest = max(int(path.name[:20]) for path in _log_files(table) if path.name[:20].isdigit())
    for path in _log_files(table):
        if path.name[:20].isdigit():
            age = 60 * 86_400 + newest - int(path.name[:20])
            os.utime(path, (time.time() - age, time.time() - age))
    deltacli("log", "expire", table, "--protect-streams", checkpoint, "--yes")


def _log_files(table: Path) -> list[Path]:
    return sorted(path for path in (table / "_delta_log").iterdir() if not path.name.startswith("."))


def delete_with_checksum(path: Path) -> None:
    """Delete a file and the checksum file that Hadoop keeps beside it."""
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def commit_of(table: Path, version: int) -> Path:
    """Return the file of a commit."""
    return table / "_delta_log" / f"{version:020}.json"


def set_back(table: Path, version: int) -> None:
    """Delete all versions of a table after one, as if a backup had been restored."""
    for path in (table / "_delta_log").iterdir():
        name = path.name.removeprefix(".")
        if (name[:20].isdigit() and int(name[:20]) > version) or "_last_checkpoint" in name:
            path.unlink()


def exchange(table: Path, other: Path) -> None:
    """Put another table into the directory of a table, as if it had been dropped and created again."""
    shutil.rmtree(table)
    shutil.copytree(other, table)
