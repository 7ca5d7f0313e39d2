"""`diff` of versions of real tables, against sets of the live files of both."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.operations.diff import TableDiff
from deltacli.table.version import Snapshot
from tests.support.corpus import tables

LARGE = 3_000
"""Live files above which a version is left out."""
MOST_PAIRS = 3

Key = tuple[str, str]


def files_of(side: Snapshot) -> dict[Key, tuple[int, int | None]]:
    found = {}
    files = side.file_actions
    for batch in (*files.read_narrow_commit_batches(), *files.read_narrow_pieces(files.pieces)):
        for row in batch.adds.to_pylist() if batch.adds is not None else ():
            rows = None if row["num_records"] is None else row["num_records"] - (row["dv_cardinality"] or 0)
            found[row["path"], row["dv_id"]] = (row["size"], rows)
    return found


def expected(before: dict[Key, tuple[int, int | None]], after: dict[Key, tuple[int, int | None]]) -> set[Key]:
    """Return what differs, as pairs of a change and a path."""
    old, new = before.keys() - after.keys(), after.keys() - before.keys()
    changed = {path for path, _ in old} & {path for path, _ in new}
    return {
        *(("add", path) for path, _ in new if path not in changed),
        *(("remove", path) for path, _ in old if path not in changed),
        *(("change", path) for path in changed),
    }


def check(found: TableDiff) -> None:
    before, after = files_of(found.before), files_of(found.after)

    changes = {(change, path) for change, adds in found.files.changes() for path in adds.column("path").to_pylist()}

    assert expected(before, after) == changes
    for side, total in ((before, found.files.totals[0]), (after, found.files.totals[1])):
        rows = [one for _, one in side.values()]
        known = None if None in rows else sum(one for one in rows if one is not None)
        assert (len(side), sum(size for size, _ in side.values()), known) == tuple(total)
    if before.keys() != after.keys():
        assert not found.is_equal


@pytest.mark.long
def test_every_pair_of_versions_differs_in_the_files_that_differ(root: Path) -> None:
    pairs = with_changed_vectors = from_one_checkpoint = 0
    for table in tables():
        versions = [found["version"] for found in table.versions if int(found.get("live_files") or 0) < LARGE]
        chosen = [*pairwise(versions[-MOST_PAIRS:]), *({(versions[0], versions[-1])} if len(versions) > 2 else ())]
        opened = open_table(table.path(root))
        for first, last in chosen:
            for begin, end in ((first, last), (last, first)):
                try:
                    found = opened.diff(from_version=begin, to_version=end)
                except DeltacliError:
                    continue
                check(found)
                pairs += 1
                with_changed_vectors += found.files.revectored.after.files > 0
                from_one_checkpoint += found.files.shared.files > 0
    assert (pairs > 200, with_changed_vectors > 3, from_one_checkpoint > 5) == (True, True, True), (
        pairs,
        with_changed_vectors,
        from_one_checkpoint,
    )
