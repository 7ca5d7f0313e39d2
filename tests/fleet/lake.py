"""A lake for runs: one table for each kind of work, healthy ones and damaged ones."""

from __future__ import annotations

from pathlib import Path

from deltacli.api.table import open_table
from deltacli.core.times import DAY_MS
from tests.support import damage
from tests.support.builder import EPOCH_MS, TableBuilder

NOW_MS = EPOCH_MS + 60 * DAY_MS
HEALTHY = ("behind", "fresh", "garbage", "old")
DAMAGED = ("gap", "torn")
POLICY = """\
[policies.base]
checkpoint = { commits = 8 }
log-expire = { retention = "30d", consent = true }
vacuum = { every = "7d", retention = "14d", max-delete = "100%", consent = true }
validate = { every = "1d", ignore = ["hint.*"] }
[groups.lake]
policy = "base"
globs = ["lake/*"]
"""


def with_files(table: TableBuilder, commits: int) -> TableBuilder:
    """Add the data files of every commit, and two that no commit names."""
    for version in range(commits):
        table.file(f"part-{version:05d}.parquet", b"x" * 100)
    return table.file("left-1.parquet", b"y" * 10).file("left-2.parquet", b"y" * 20)


def write_lake(root: Path, copies: int = 1) -> Path:
    """Write the tables and their policy file into a directory, and return the policy file."""
    lake = root / "lake"
    for number in range(copies):
        end = "" if copies == 1 else f"-{number}"
        with_files(TableBuilder().commits(12), 12).write(lake / f"behind{end}")
        TableBuilder().commits(2).file("part-00000.parquet", b"x").file("part-00001.parquet", b"x").write(
            lake / f"fresh{end}"
        )
        with_files(TableBuilder().commits(5), 5).write(lake / f"garbage{end}")
        with_files(TableBuilder().commits(12).checkpoint(9).hint(9), 12).write(lake / f"old{end}")
        with_files(TableBuilder().commits(6), 6).damaged(damage.gap(3)).write(lake / f"gap{end}")
        with_files(TableBuilder().commits(6), 6).damaged(damage.truncate_commit(5)).write(lake / f"torn{end}")
    (root / "fleet.toml").write_text(POLICY)
    return root / "fleet.toml"


def data_files(table: Path) -> list[str]:
    """Return the names of the data files of a table."""
    return sorted(path.name for path in table.glob("*.parquet"))


def live_digest(table: Path) -> str:
    """Return a digest of the live files of a table."""
    from deltacli.operations.read.snapshot import summarize_with_digests

    found = summarize_with_digests(open_table(table).snapshot(), NOW_MS)
    assert found.digests is not None
    return found.digests.paths


def tree_of(table: Path) -> dict[str, bytes]:
    """Return every file of a table with its content."""
    return {str(path.relative_to(table)): path.read_bytes() for path in sorted(table.rglob("*")) if path.is_file()}
