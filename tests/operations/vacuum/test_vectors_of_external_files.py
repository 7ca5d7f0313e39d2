"""Deletion vectors in the table of files outside of it, as a shallow clone has them after a DELETE."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.machine import fixed_clock
from deltacli.core.times import DAY_MS
from deltacli.delta.data_files import vector_file
from tests.rules.table_builder import NOW_MS
from tests.support.actions import Action, add, commit_info, deletion_vector, metadata, protocol, remove
from tests.support.builder import TableBuilder

VECTOR = deletion_vector()
OUTSIDE = "file:///elsewhere/a.parquet"


def vacuumed_vectors(root: Path, *removes: Action) -> tuple[int, tuple[str, ...]]:
    """Write a table with an external file and its vector; return how many files a vacuum deletes, and its notes."""
    features = ["deletionVectors"]
    path = vector_file(VECTOR["pathOrInlineDv"])
    assert path is not None
    builder = TableBuilder().file(path, b"a vector")
    builder.commit(protocol(3, 7, reader_features=features, writer_features=features), metadata())
    builder.commit(commit_info("DELETE"), add(OUTSIDE, vector=VECTOR))
    builder.commit(commit_info("PURGE"), *removes)
    table = open_table(builder.write(root), clock=fixed_clock(NOW_MS + 30 * DAY_MS))
    plan = table.vacuum(dry_run=True, max_delete="100%").plan
    return plan.files, tuple(plan.notes)


def test_a_vector_is_deleted_once_its_file_was_removed(tmp_path: Path) -> None:
    assert (1, ()) == vacuumed_vectors(tmp_path / "t", remove(OUTSIDE, vector=VECTOR))


@pytest.mark.parametrize(
    "removes",
    [
        [],
        [remove(OUTSIDE)],
        [remove("file:///elsewhere/b.parquet", vector=VECTOR)],
        [remove("file:/elsewhere/a.parquet", vector=VECTOR)],
        [remove(OUTSIDE, vector={**VECTOR, "offset": 2})],
    ],
    ids=["live", "without the vector", "another file", "another spelling", "another vector"],
)
def test_a_vector_is_kept_unless_the_same_file_was_removed_with_it(removes: list[Action], tmp_path: Path) -> None:
    files, _ = vacuumed_vectors(tmp_path / "t", *removes)

    assert 0 == files
