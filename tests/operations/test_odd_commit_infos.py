"""A commitInfo that is not an object: provenance that no engine needs stops no command."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltacli.api.table import Table
from tests.support.actions import add, birth, to_bytes
from tests.support.builder import TableBuilder
from tests.support.reading import large_commits, open_built

ODD = (b"7", b'"WRITE"', b"[1]", b"true", b"1.5", b"[]")


def builder_with(commit_info: bytes) -> TableBuilder:
    """A table whose second commit adds a file, beside a commitInfo of another type."""
    lines = [add("b.parquet", size=1, records=2)]
    made = TableBuilder().commit(*birth(), add("a.parquet", size=1, records=1))
    return made.commit(*lines, raw=b'{"commitInfo":' + commit_info + b"}\n" + to_bytes(lines))


def live_paths(table: Table) -> list[str]:
    return sorted(path for files in table.snapshot().files() for path in files.column("path").to_pylist())


@pytest.mark.parametrize("commit_info", ODD)
def test_the_version_is_read_with_all_its_files(commit_info: bytes) -> None:
    assert ["a.parquet", "b.parquet"] == live_paths(open_built(builder_with(commit_info)))


@pytest.mark.parametrize("commit_info", ODD)
def test_a_commit_that_is_read_in_blocks_is_read_in_the_same_way(commit_info: bytes) -> None:
    with large_commits(block_bytes=64):
        assert ["a.parquet", "b.parquet"] == live_paths(open_built(builder_with(commit_info)))


@pytest.mark.parametrize("commit_info", ODD)
def test_history_shows_a_commit_without_provenance(commit_info: bytes) -> None:
    newest = open_built(builder_with(commit_info)).history(counts=True).items[0]

    assert (1, None, None) == (newest.version, newest.operation, newest.problem)
    assert newest.counts is not None
    assert 1 == newest.counts.added_files


LOOKS: tuple[Callable[[Table], object], ...] = (
    lambda table: table.checkpoint(),
    lambda table: table.set_properties({"delta.appendOnly": "true"}),
    lambda table: table.vacuum(dry_run=True),
    lambda table: table.doctor(),
    lambda table: table.reach(),
)


@pytest.mark.parametrize("look", LOOKS, ids=("checkpoint", "properties", "vacuum", "doctor", "reach"))
@pytest.mark.parametrize("commit_info", ODD[:3])
def test_other_commands_work(commit_info: bytes, look: Callable[[Table], object]) -> None:
    table = open_built(builder_with(commit_info).file("a.parquet", b"x").file("b.parquet", b"x"))

    look(table)

    assert ["a.parquet", "b.parquet"] == live_paths(table)


def test_validate_warns_and_reports_the_log_as_readable() -> None:
    found = open_built(builder_with(b"[1]")).validate(level="log")

    assert "commitinfo.not-object" in {finding.rule.id for finding in found.findings}
    assert found.is_readable
