"""Tables for the tests that kill processes, and what must hold for them before, between and after."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from deltacli.api.table import Table, open_table
from deltacli.changing.change import execute_change
from deltacli.core.machine import fixed_clock
from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.storage import open_storage
from deltacli.table.find_log import list_log
from deltacli.work.checkpoints.reading import open_checkpoint
from deltacli.work.table_stores import TableStores
from tests.support import peers
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.reading import state_document

SIDECARS = f"{LOG}/_sidecars"
FILES = 120
ROWS_PER_FILE = 5
DIRECTORIES = 40
ORPHANS = 60 * DIRECTORIES
"""More files than two batches of deletions have, in more directories than the driver lists itself."""
_ROOMY = {"delta.deletedFileRetentionDuration": "interval 5000 weeks"}
_FEATURES = ["v2Checkpoint"]
_DAY_MS = 86_400_000


def with_checkpoint(place: Path, *, layout: str) -> Path:
    """A table with a checkpoint of many row groups, and a newer commit that adds a file and removes one."""
    first = [protocol(3, 7, reader_features=_FEATURES, writer_features=_FEATURES)] if layout == "v2" else [protocol()]
    adds = (add(f"part-{number:05d}.parquet", size=100 + number, records=number) for number in range(FILES))
    builder = TableBuilder().commit(*first, metadata(configuration=_ROOMY), *adds)
    builder.write(place)
    options: dict[str, Any] = {"rows_per_file": ROWS_PER_FILE} if layout == "v2" else {}  # Any: of the API
    open_table(str(place)).checkpoint(layout="v2" if layout == "v2" else "classic", **options)
    builder.commit(add("newer.parquet", size=7, records=7), remove("part-00003.parquet", deleted_ms=EPOCH_MS))
    newest = f"{builder.newest:020d}.json"
    (place / LOG / newest).write_bytes(builder.files[f"{LOG}/{newest}"].data)
    return place


def with_orphans(place: Path, files: int = ORPHANS) -> Path:
    """A table with files that nothing references, in many directories, and some that are needed."""
    builder = TableBuilder().commits(3)
    for name in ("part-00001.parquet", "part-00002.parquet"):
        builder.file(name, b"x")
    builder.write(place)
    for number in range(files):
        path = place / f"p={number % DIRECTORIES:02d}" / f"orphan-{number:05d}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"xx")
        os.utime(path, ns=(EPOCH_MS * 1_000_000,) * 2)
    return place


def orphans(place: Path) -> int:
    """Return how many of the files are left that nothing references."""
    return sum(1 for _ in place.glob("p=*/orphan-*.parquet"))


def state(place: Path) -> dict[str, Any]:  # Any: JSON values
    """The state of a table by the embedded engine, with digests."""
    return state_document(open_table(str(place)))


def plan_document(table: Table) -> Any:  # Any: JSON values
    """The plan of a vacuum, the same for every engine."""
    request = VacuumRequest(retention_ms=0, allow_retention_below_ms=10**15, max_delete="100%")
    plan = plan_vacuum(table, request)
    return plan.as_json(), plan.candidates.column("path").to_pylist()


def require_sound(place: Path, before: dict[str, Any]) -> None:  # Any: as above
    """Check that a table has the same state as before, and that its checkpoints agree with its log."""
    table = open_table(str(place))
    assert before == state(place)
    assert {"checkpoint.multipart-incomplete"} >= set(table.snapshot().problems)
    assert {CheckpointVerdict.AGREES} >= {found.verdict for found in verify_checkpoints(table)}
    assert [] == [found for found in table.validate(level="log").findings if found.severity == "error"]


def named_sidecars(place: Path) -> set[str]:
    """Return the names of the sidecars that any checkpoint references."""
    stores = TableStores(open_storage(str(place)))
    checkpoints = list_log(stores.storage).checkpoints
    return {path.rpartition("/")[2] for found in checkpoints for path in open_checkpoint(stores, found).sidecars}


def present_sidecars(place: Path) -> set[str]:
    """Return the names of all files in the directory of sidecars, drafts included."""
    return {path.name for path in (place / SIDECARS).iterdir()} if (place / SIDECARS).exists() else set()


def drafts(place: Path) -> list[str]:
    """Return the temporary files of writers that lie in the log."""
    return sorted(path.name for path in (place / LOG).rglob(".*.tmp"))


def expire_later(place: Path) -> None:
    """Expire the log of a table as if it were some days after its last change."""
    changed = max(path.stat().st_mtime for path in (place / LOG).rglob("*"))
    later = fixed_clock(int(changed * 1_000) + 3 * _DAY_MS)
    table = Table(open_storage(str(place)), clock=later)
    execute_change(LogExpiry(ExpiryRequest(), proves=False), table)


def last_commit(place: Path) -> dict[str, Any]:  # Any: JSON values
    """Return the commitInfo of the newest commit."""
    newest = max(path for path in (place / LOG).iterdir() if path.name[:20].isdigit() and path.suffix == ".json")
    line = next(line for line in newest.read_text().splitlines() if "commitInfo" in line)
    info: dict[str, Any] = json.loads(line)["commitInfo"]
    return info


def require_readable_by_others(place: Path, live: int) -> None:
    """Check that deltalake and duckdb see the live files, where their environment is installed."""
    python = peers.peer_python()
    if python is None:
        return
    for script in ("with_deltalake.py", "with_duckdb.py"):
        (answer,) = peers.ask(python, script, [peers.Task(place.name, str(place), None)])
        assert answer.files is not None, (script, answer.refusal, answer.crash)
        assert live == len(answer.files), script
