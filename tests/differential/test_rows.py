"""Other engines on the same tables: every version reads the same, row for row, but for the known differences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.core.ranges import format_ranges
from tests.differential.known import (
    CATALOG,
    DANGLING_HINT,
    FEATURE_LISTS,
    NO_FALLBACK,
    NO_SCHEMA,
    VOID,
    Known,
)
from tests.support import corpus
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerRows, Task, ask_for_rows, has_peer, peer_python
from tests.support.row_counts import Rows, count_rows

PEERS = {"deltalake": "rows_with_deltalake.py", "duckdb": "rows_with_duckdb.py"}

TOO_LARGE = {"golden/parquet-decimal-dictionaries-v2", "kernel-rs/300k-add-files-100-col-partitioned"}
"""A million rows, compared with the figures of their source, and a table that consists of a log only."""

LARGE = {"delta-rs/COVID-19_NYT", "golden/parquet-decimal-type"}
"""Compared in the long suite."""


SHREDDING = "the table lists variantShredding-preview, and is refused for it even where nothing is shredded"
WIDENING = "the table lists typeWidening-preview, which the peer does not know"
VARIANT = "the peer can't give variants out"
ABSOLUTE = (
    "a path is removed by its file: spelling: we compare canonical paths like Delta Spark, the peers compare text"
)
SHIFTED_IDS = "the peer looks up a partition column among the ids of the file; the published rows are ours"

DIFFERENCES = (
    *(
        Known(peer, table, what, versions, reason)
        for peer in PEERS
        for table, what, versions, reason in (
            ("delta-rs/delta-live-table", "refuses", "0", NO_SCHEMA),
            ("derived/checkpoint-part-missing-a", "refuses", "5", DANGLING_HINT),
            ("derived/checkpoint-truncated-a", "refuses", "3-5", NO_FALLBACK),
            ("derived/sidecar-missing-a", "refuses", "2", NO_FALLBACK),
            ("golden/canonicalized-paths-normal-a", "refuses", "1", NO_SCHEMA),
            ("golden/canonicalized-paths-special-b", "refuses", "1", NO_SCHEMA),
            ("kernel-java/catalog-owned-preview", "refuses", "0", CATALOG),
            ("kernel-rs-golden/canonicalized-paths-normal-a", "refuses", "1", ABSOLUTE),
            ("kernel-rs-golden/canonicalized-paths-special-b", "refuses", "1", ABSOLUTE),
            ("kernel-rs-uc/catalog_managed_0", "refuses", "0", CATALOG),
        )
    ),
    Known("deltalake", "golden/type-widening", "refuses", "1-2", WIDENING),
    Known("deltalake", "kernel-rs/type-widening", "refuses", "1-2", WIDENING),
    Known("deltalake", "delta-rs/spark-shredded-variant-preview-delta", "refuses", "0-2", SHREDDING),
    Known("deltalake", "kernel-java/spark-shredded-variant-preview-delta", "refuses", "0-2", SHREDDING),
    Known("deltalake", "derived/crc-wrong-a", "refuses", "0-1", SHREDDING),
    Known("deltalake", "spark/variant-stats-nested-no-checkpoint", "refuses", "0-1", SHREDDING),
    Known("deltalake", "spark/variant-stats-with-struct-no-checkpoint", "refuses", "0-1", SHREDDING),
    Known("duckdb", "dat/iceberg_compat_v1", "refuses", "1-2", FEATURE_LISTS),
    Known("duckdb", "derived/void-and-nested-a", "refuses", "0", VOID),
    Known("duckdb", "golden/data-reader-timestamp_ntz-id-mode", "rows", "1", SHIFTED_IDS),
    Known("duckdb", "delta-rs/spark-shredded-variant-preview-delta", "refuses", "0-2", VARIANT),
    Known("duckdb", "duckdb-delta/variant/basic", "refuses", "0-1", VARIANT),
    Known("duckdb", "derived/crc-wrong-a", "refuses", "0-1", VARIANT),
    Known("duckdb", "spark/variant-stats-nested-no-checkpoint", "refuses", "0-1", VARIANT),
    Known("duckdb", "spark/variant-stats-with-struct-no-checkpoint", "refuses", "0-1", VARIANT),
    Known("duckdb", "kernel-java/spark-shredded-variant-preview-delta", "refuses", "0-2", VARIANT),
)


@pytest.fixture(scope="module")
def root() -> Path:
    """The unpacked corpus."""
    return corpus.unpacked()


@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_the_same_rows_of_the_newest_versions(peer: str, root: Path, tmp_path: Path) -> None:
    chosen = [
        versions[-1:] if table.id not in LARGE else []
        for table, versions in zip(corpus.tables(), sound_versions(), strict=True)
    ]
    newest = {table.id: versions[-1] for table, versions in zip(corpus.tables(), chosen, strict=True) if versions}
    expected = {
        (known.table, known.what): str(newest[known.table])
        for known in DIFFERENCES
        if known.peer == peer and known.table in newest and covers(known.versions, newest[known.table])
    }

    assert expected == differences(peer, tasks(root, chosen), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_the_same_rows_of_every_version(peer: str, root: Path, tmp_path: Path) -> None:
    expected = {(known.table, known.what): known.versions for known in DIFFERENCES if known.peer == peer}

    assert expected == differences(peer, tasks(root, sound_versions()), tmp_path)


def covers(ranges: str, version: int) -> bool:
    """True if a version lies in ranges like `0, 3-5`."""
    ends = [[int(end) for end in part.split("-")] for part in ranges.split(", ")]
    return any(end[0] <= version <= end[-1] for end in ends)


def sound_versions() -> list[list[int]]:
    """Of each table of the corpus the versions that can be rebuilt."""
    return [[found["version"] for found in table.versions if "error" not in found] for table in corpus.tables()]


def tasks(root: Path, chosen: Sequence[Sequence[int]]) -> list[Task]:
    """Versions of tables, the large ones left out."""
    return [
        Task(table.id, str(table.path(root)), version)
        for table, versions in zip(corpus.tables(), chosen, strict=True)
        for version in versions
        if table.id not in TOO_LARGE
    ]


def differences(peer: str, asked: list[Task], directory: Path) -> dict[tuple[str, str], str]:
    """(table, what differs) -> in which versions."""
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    if not has_peer(python, peer):
        pytest.skip(f"{python} has no {peer}")
    answers = ask_for_rows(python, PEERS[peer], asked, directory)
    found: dict[tuple[str, str], list[int]] = {}
    compared = 0
    for answer in answers:
        what = difference(answer)
        compared += what is None and answer.place is not None
        if what is not None and answer.task.version is not None:
            found.setdefault((answer.task.table, what), []).append(answer.task.version)
    assert len(asked) == len(answers)
    assert compared > len(asked) / 2
    return {key: format_ranges(versions) for key, versions in found.items()}


def difference(answer: PeerRows) -> str | None:
    """Return how the peer's rows differ from ours; None if they agree or both refuse."""
    ours = our_rows(answer.task)
    if answer.place is None:
        return None if ours is None else "refuses"
    if ours is None:
        return "reads"
    names, rows = ours
    with pa.memory_map(str(answer.place)) as source:
        theirs = pa.ipc.open_file(source).read_all()
        if set(names) != set(theirs.schema.names):
            return "columns"
        return None if rows == count_rows([theirs], names) else "rows"


@cache
def our_rows(task: Task) -> tuple[list[str], Rows] | None:
    """The columns and the rows as deltacli reads them; None where it refuses."""
    try:
        assert task.version is not None
        scan = open_table(task.path).snapshot(version=task.version).scan()
        return scan.schema.names, count_rows(scan, scan.schema.names)
    except DeltacliError:
        return None
