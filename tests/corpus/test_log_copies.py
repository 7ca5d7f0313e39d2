"""Real logs: backed up, deleted and restored they read as before; `log cat` writes what stands in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.cli.app import run
from deltacli.core.errors import Unreadable
from deltacli.core.machine import fixed_clock
from deltacli.delta.log.segment import LogFileKind, parse_log_path
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import LocalStorage
from deltacli.storage.hadoop_checksums import is_checksum_name
from tests.operations.log_copies import back_up, restore
from tests.support import corpus

NOW_MS = 1_767_225_600_000
LOG = "_delta_log"
Capture = pytest.CaptureFixture[bytes]

CHOSEN = (
    "dask/empty1",
    "dat/deletion_vectors",
    "delta-rs-err/table_c",
    "delta-rs-err/table_h",
    "delta-rs/cdc_ict_table",
    "delta-rs/table-with-domain-metadata",
    "derived/checkpoint-truncated-a",
    "derived/commit-truncated-a",
    "derived/only-checkpoint-a",
    "derived/sidecar-missing-a",
    "golden/multi-part-checkpoint",
    "golden/type-widening",
    "kernel-java/catalog-owned-preview",
    "kernel-rs/crc-malformed",
    "kernel-rs/v2-checkpoints-parquet-with-sidecars",
    "unitycatalog/managed/unity/default/tables/marksheet",
)
"""Tables with every form of checkpoint, with and without in-commit timestamps, sound and broken."""


def how_it_reads(table: Path) -> Any:  # Any: JSON values
    """The history, and the snapshot with its digests, or the code of the error in its place."""
    opened = Table(LocalStorage(str(table)), clock=fixed_clock(NOW_MS))
    found: list[object] = []
    for ask in (
        lambda: summarize(opened, digest=True).as_json(),
        lambda: [item.as_json() for item in opened.history().items],
    ):
        try:
            found.append(ask())
        except Unreadable as unreadable:
            found.append(unreadable.code)
    return found


def log_files(table: Path) -> dict[str, tuple[bytes, int]]:
    """Each file of a log with its bytes and its time in milliseconds; not the checksum files of Hadoop, which are left
    out of backups.
    """
    return {
        str(path.relative_to(table)): (path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)
        for path in (table / LOG).rglob("*")
        if path.is_file() and not is_checksum_name(path.name)
    }


@pytest.mark.parametrize("name", CHOSEN)
def test_a_real_log_is_restored_unchanged(name: str, root: Path, tmp_path: Path) -> None:
    entry = corpus.table(name)
    table = Path(shutil.copytree(entry.path(root), tmp_path / "t"))
    storage, backup = LocalStorage(str(table)), LocalStorage(str(tmp_path / "b"))
    before, files = how_it_reads(table), log_files(table)

    back_up(storage, backup)
    shutil.rmtree(table / LOG)
    restore(storage, backup)

    assert files == log_files(table) == log_files(tmp_path / "b")
    assert before == how_it_reads(table)


@pytest.mark.long
def test_log_cat_writes_every_commit_and_checkpoint_of_the_corpus(root: Path, capfdbinary: Capture) -> None:
    commits, checkpoints, rows = 0, 0, 0
    for table in corpus.tables():
        log = table.path(root) / LOG
        for path in sorted(log.iterdir()) if log.is_dir() else ():
            name = parse_log_path(path.name)
            if name.kind is LogFileKind.COMMIT:
                assert 0 == run(["log", "cat", "-q", str(log.parent), str(name.version)])
                assert path.read_bytes() == capfdbinary.readouterr().out
                commits += 1
            elif name.kind is LogFileKind.CLASSIC_CHECKPOINT:
                code = run(["log", "cat", "-q", str(log.parent), str(name.version), "--checkpoint"])
                lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
                sidecars = [line["sidecar"]["path"].rsplit("/", 1)[-1] for line in lines if "sidecar" in line]
                if code == 0:
                    files = [path, *(log / "_sidecars" / sidecar for sidecar in sidecars)]
                    stored = [row for file in files for row in pq.read_table(file).to_pylist()]
                    assert [{kind for kind in row if row[kind] is not None} for row in stored] == list(map(set, lines))
                    checkpoints, rows = checkpoints + 1, rows + len(lines)

    assert commits > 700
    assert checkpoints > 30
    assert rows > 1_000
