"""Checkpoints of corpus tables, written on copies of their logs, and read when nothing else is left."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.delta.checkpoint.layout import Layout, TopFile
from deltacli.delta.log.segment import parse_log_path
from deltacli.operations.checkpoint.checkpoint import (
    CheckpointPlan,
    CheckpointRequest,
    CheckpointResult,
    StatsForm,
    plan_checkpoint,
    write_checkpoint,
)
from deltacli.storage import open_storage
from deltacli.table.version import Snapshot
from tests.support.corpus import CorpusTable, Document

BEFORE_ALL_MS = -1
"""A clock that keeps every tombstone, also one without a deletionTimestamp, which counts as 1970."""

PARTS = 3
ROWS_A_SIDECAR = 7
LOG = "_delta_log"


@dataclass(frozen=True)
class Form:
    """One layout, with its top-level file where there is a choice."""

    name: str
    layout: Layout
    top: TopFile = TopFile.JSON


CLASSIC = Form("classic", Layout.CLASSIC)
MULTI_PART = Form("multi-part", Layout.MULTI_PART)
V2_JSON = Form("v2-json", Layout.V2, TopFile.JSON)
V2_PARQUET = Form("v2-parquet", Layout.V2, TopFile.PARQUET)


def forms_of(table: CorpusTable, version: Document) -> tuple[Form, ...]:
    """The forms that the protocol of a version allows."""
    protocol = table.entry["protocols"][version["protocol"]]
    if "v2Checkpoint" in (protocol.get("writerFeatures") or ()):
        return (CLASSIC, V2_JSON, V2_PARQUET)
    return (CLASSIC, MULTI_PART)


def open_copy(place: Path, *, now_ms: int = BEFORE_ALL_MS) -> Table:
    """A copy, with a clock that stands still."""
    return Table(open_storage(str(place)), clock=fixed_clock(now_ms))


def copy_log(table: CorpusTable, root: Path, place: Path, *, with_data: bool = False) -> Path:
    """Copy the log of a table; with its data as hard links where an engine wants to see them."""
    source = table.path(root)
    shutil.copytree(source / LOG, place / LOG)
    if with_data:
        shutil.copytree(source, place, ignore=shutil.ignore_patterns(LOG), copy_function=_link, dirs_exist_ok=True)
    return place


def _link(source: str, place: str) -> None:
    try:
        os.link(source, place)
    except OSError:  # another file system
        shutil.copy2(source, place)


def plan(
    place: Path,
    version: int,
    form: Form,
    *,
    stats: StatsForm = StatsForm.KEEP,
    now_ms: int = BEFORE_ALL_MS,
) -> CheckpointPlan:
    """Plan a checkpoint in one form; by force where the version has one before V2, or a V2 one, as this is; never over
    its parts.
    """
    names = [file.name for file in (place / LOG).glob(f"{version:020d}.checkpoint.*")]
    kinds = (
        {form.layout.file_kind} if form.layout is Layout.V2 else {CLASSIC.layout.file_kind, Layout.MULTI_PART.file_kind}
    )
    request = CheckpointRequest(
        version=version,
        layout=form.layout,
        parts=PARTS + any(name.endswith(f".{PARTS:010d}.parquet") for name in names) if form is MULTI_PART else None,
        rows_per_file=ROWS_A_SIDECAR if form.layout is Layout.V2 else None,
        v2_top=form.top,
        stats=stats,
        force=any(parse_log_path(name).kind in kinds for name in names),
    )
    return plan_checkpoint(open_copy(place, now_ms=now_ms), request)


def write(
    place: Path,
    version: int,
    form: Form,
    *,
    stats: StatsForm = StatsForm.KEEP,
    now_ms: int = BEFORE_ALL_MS,
) -> CheckpointResult:
    """Write a checkpoint in one form."""
    result = write_checkpoint(plan(place, version, form, stats=stats, now_ms=now_ms))
    assert not result.skipped
    return result


def leave_alone(place: Path, result: CheckpointResult, *, newer_commits: bool = False) -> None:
    """Delete every file of the log but the checkpoint, the commit of its version, and the hint if that names it."""
    version = result.version
    kept = {place / file.path for file in result.files} | {place / LOG / f"{version:020d}.json"}
    if result.hint_version == version:
        kept.add(place / LOG / "_last_checkpoint")
    if newer_commits:
        kept |= {file for file in (place / LOG).glob("*.json") if file.stem.isdigit() and int(file.stem) > version}
    for file in [file for file in (place / LOG).rglob("*") if file.is_file() and file not in kept]:
        file.unlink()


def rows_of(batches: Iterable[Any], leave_out: tuple[str, ...]) -> list[Document]:
    """File actions as dictionaries, in the order of their keys, without fields that checkpoints do not keep."""
    rows = [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]
    kept = [{name: value for name, value in row.items() if name not in leave_out} for row in rows]
    return sorted(kept, key=lambda row: (row["path"], repr(row["deletionVector"]), repr(row)))


def files_of(snapshot: Snapshot) -> list[Document]:
    """Live files; `dataChange` means nothing in a checkpoint."""
    return rows_of(snapshot.files(), ("dataChange",))


def tombstones_of(snapshot: Snapshot) -> list[Document]:
    """Tombstones; checkpoints keep neither their statistics nor their tags."""
    return rows_of(snapshot.tombstones(), ("dataChange", "stats", "tags"))


def digest_of(place: Path) -> str:
    """A digest of all names, times and bytes below a directory."""
    found = hashlib.sha256()
    for text in _described(place):
        found.update(text)
    return found.hexdigest()


def _described(place: Path) -> Iterator[bytes]:
    for path in sorted([place, *place.rglob("*")]):
        yield f"{path.relative_to(place)} {path.lstat().st_mtime_ns}\n".encode()
        if path.is_file():
            yield path.read_bytes()
