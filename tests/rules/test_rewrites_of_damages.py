"""No command that writes makes an error of `validate` silent: the error is found afterwards as well, or the command
refused, or it is about what a new file states anew, or the document names it. Then the rows are those of before.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.framework.base import Severity
from deltacli.storage import AllowedPrefixes, open_storage
from tests.rules.corruptions import DAMAGES, Damage, load_all
from tests.rules.table_builder import NOW_MS
from tests.support.appending import append
from tests.support.effort import InTurn
from tests.support.repairing import open_damaged
from tests.support.validating import validate_table

load_all()

Rows: TypeAlias = "Counter[str]"
UNTRIED = {
    "no_log_at_all": "there is no table",
    "stored_row_id_is_above_the_mark": "only rows tell it; a commit with new rows raises the mark",
}
STATED_ANEW = ("stats.", "data.partition-column-differs", "data.size-mismatch", "data.t", "dv.")
"""What a rewritten file no longer has: it has its own size and statistics, the types of the table and no vector."""
FOLLOWED_BY = {
    "checkpoint.without-commit": "log.checkpoint-commit-missing",
    "rowtracking.high-water-mark": "rowtracking.overlap",
}
"""What is found instead once a commit follows."""
_SHARE = 24
"""One in so many damages is tried by a run of the ordinary suite."""


def optimized(table: Table) -> object:
    return table.optimize(min_files=2).as_json()


def purged(table: Table) -> object:
    return table.optimize(purge=True).as_json()


def dropped(table: Table) -> object:
    features = table.snapshot().config.features & {"columnMapping", "deletionVectors", "typeWidening"}
    return [table.drop_features(name).as_json() for name in sorted(features)]


def restored(table: Table) -> object:
    return table.restore(version=1).as_json()


def altered(table: Table) -> object:
    return table.alter([{"change": "tableComment", "comment": "c"}]).as_json(dry_run=False)


def repaired(table: Table) -> object:
    return table.repair(level="footers").as_json()


def appended(table: Table) -> object:
    rows = pa.table({"id": pa.array([1], pa.int64())})
    return str(append(table, rows))


COMMANDS: Mapping[str, Callable[[Table], object]] = {
    one.__name__: one for one in (optimized, purged, dropped, restored, altered, repaired, appended)
}


def filled(root: Path) -> Path:
    """A table whose files of placeholders are Parquet files of the same size."""
    for number, path in enumerate(sorted(root.rglob("*.parquet"))):
        data = path.read_bytes()
        if "_delta_log" not in path.parts and data and not data.strip(b"x"):
            stat = path.stat()
            if (made := parquet_of(number, len(data))) is not None:
                path.write_bytes(made)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return root


def parquet_of(number: int, size: int) -> bytes | None:
    """A Parquet file of so many bytes with ten rows; None where there is none."""
    ids = range(number * 10, number * 10 + 10)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "name": [None, "a", *"bcdefgh"[:7], "z"]})
    spare = size // 2
    for _ in range(5):
        sink = io.BytesIO()
        # The schema of Arrow is left out: the file is to be small.
        how: Any = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
        with pq.ParquetWriter(sink, rows.schema, **how) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"pad": "x" * spare})
        data = sink.getvalue()
        if len(data) == size:
            return data
        spare = max(spare + size - len(data), 0)
    return None


def findings_of(root: Path, level: str) -> tuple[set[str], set[str]]:
    """The rules of errors, and those of all findings."""
    everywhere = AllowedPrefixes(directories=("/",))
    found = validate_table(open_storage(str(root)), EmbeddedEngine(), level=level, now_ms=NOW_MS, allowed=everywhere)
    errors = {one.rule.id for one in found.findings if one.severity is Severity.ERROR}
    return errors, {one.rule.id for one in found.findings}


def rows_before(root: Path, version: int | None) -> Rows | None:
    """The rows of a version; None where it is so damaged that a plain reader cannot read it."""
    try:
        return plain_rows(root, version)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, pa.ArrowException, DeltacliError):
        return None


def plain_rows(root: Path, version: int | None = None) -> Rows | None:
    """The rows of a version by its commits alone, with vectors or nested columns by deltacli; None where commits are
    missing.
    """
    live: dict[tuple[str, str], dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    commits = sorted((root / "_delta_log").glob(f"{'[0-9]' * 20}.json"))
    for number, path in enumerate(commits):
        if int(path.stem) != number:
            return None
        if version is not None and number > version:
            break
        for kind, action in (pair for line in path.read_bytes().splitlines() for pair in json.loads(line).items()):
            if kind in ("add", "remove"):
                key = (_name_of(action), json.dumps(action.get("deletionVector"), sort_keys=True))
                live.pop(key, None)
                if kind == "add":
                    live[key] = action
            metadata = action if kind == "metaData" else metadata
    is_nested = any(isinstance(field["type"], dict) for field in json.loads(metadata["schemaString"])["fields"])
    if any(vector != "null" for _, vector in live) or is_nested:
        snapshot = open_damaged(root).snapshot(version=version)
        return Counter(repr(row) for batch in snapshot.scan() for row in batch.to_pylist())
    return Counter(row for add in live.values() for row in _rows_of(root, add, metadata))


def _name_of(action: dict[str, Any]) -> str:
    """Return the path of a file in the log, decoded and without `file:`."""
    return re.sub("^file:/+", "/", unquote(action["path"]))


def _rows_of(root: Path, add: dict[str, Any], metadata: dict[str, Any]) -> Iterator[str]:
    fields = json.loads(metadata["schemaString"])["fields"]
    mode = metadata.get("configuration", {}).get("delta.columnMapping.mode", "none")
    rows = pq.read_table(root / _name_of(add), partitioning=None)
    for row in rows.to_pylist():
        values = {}
        for field in fields:
            stored = field["name"] if mode == "none" else field["metadata"]["delta.columnMapping.physicalName"]
            held = add["partitionValues"].get(stored)
            value = row.get(stored) if stored not in add["partitionValues"] else held
            values[field["name"]] = value.replace(tzinfo=None) if isinstance(value, datetime) else value
        yield repr(values)


def judge(damage: Damage, name: str, root: Path, before: set[str]) -> str | None:
    """Run a command on a table, and say what it did wrong; None where nothing."""
    rows = rows_before(root, 1 if name == "restored" else None)
    log = sorted(path.name for path in root.glob("_delta_log/*"))
    try:
        document = dumps(COMMANDS[name](open_damaged(root))).decode()
    except DeltacliError as refused:
        document = f"{refused} {refused.code} {refused.facts}"
    if log == sorted(path.name for path in root.glob("_delta_log/*")):
        return None
    errors, found = findings_of(root, damage.make().level)
    lost = {rule for rule in before - errors if FOLLOWED_BY.get(rule) not in found}
    if not lost:
        return None
    unnamed = {rule for rule in lost if rule not in document and not rule.startswith(STATED_ANEW)}
    after = rows_before(root, None)
    was_unreadable = name == "repaired" and rows is None and not unnamed
    if was_unreadable:
        return None
    if rows is None or after is None or not (rows <= after if name == "appended" else rows == after):
        return f"{damage.rule} {damage.name}: {name} lost {sorted(lost)} and changed rows"
    if unnamed and name != "restored":  # it says that an earlier version is what is left
        return f"{damage.rule} {damage.name}: {name} does not name {sorted(unnamed)}"
    return None


@pytest.mark.long
def test_no_command_makes_an_error_silent(tmp_path: Path, in_turn: InTurn) -> None:
    wrong = []
    for number, damage in enumerate(in_turn([one for one in DAMAGES if one.name not in UNTRIED], _SHARE)):
        table = damage.make()
        root = filled(table.write(tmp_path / str(number)))
        before, _ = findings_of(root, table.level)
        for name in COMMANDS if before else ():
            # Absolute paths lead to this place, and not into a copy.
            unchanged = shutil.copytree(root, tmp_path / "unchanged", symlinks=True)
            fault = judge(damage, name, root, before)
            wrong += [] if fault is None else [fault]
            shutil.rmtree(root)
            unchanged.rename(root)

    assert [] == wrong
