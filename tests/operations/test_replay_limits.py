"""How much of a log is held at a time while its commits become columns, and what large commits hide."""

from __future__ import annotations

import pytest

from deltacli.table import replay, reread_commits
from tests.support.actions import add, birth, remove
from tests.support.builder import TableBuilder
from tests.support.reading import large_commits, live_rows, open_built, state_document, tombstone_rows


def test_large_commits_are_converted_to_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "BYTES_PER_BATCH", 1)
    monkeypatch.setattr(reread_commits, "BYTES_PER_BATCH", 1)
    table = TableBuilder().commits(2)

    snapshot = open_built(table).snapshot()

    assert [1, 1] == [batch.num_rows for batch in snapshot.files()]
    assert 2 == len(snapshot.contents.replayed.adds)


@pytest.mark.parametrize("is_twice", [False, True], ids=["named once", "named twice"])
@pytest.mark.parametrize("many_keys", [0, 1 << 20], ids=["index", "table"])
@pytest.mark.parametrize("start", ["checkpoint", "commits"])
def test_a_large_commit_hides_files_of_older_commits_small_and_large_and_of_a_checkpoint(
    start: str, many_keys: int, *, is_twice: bool
) -> None:
    fill = [add(f"fill-{number}", size=1) for number in range(20)]
    gone = [remove(name) for name in ("old", "of-large", "of-small")]
    builder = TableBuilder().commit(*birth(), add("old", size=1), add("stays", size=1))
    if start == "checkpoint":
        builder.checkpoint(0)
    again = [add("fill-3", size=3), remove("fill-3")] if is_twice else []
    builder.commit(add("of-large", size=1), *fill, *again).commit(add("of-small", size=1), add("hidden", size=1))
    builder.commit(*gone, remove("fill-4"), *[add(f"more-{number}", size=1) for number in range(20)])
    builder.commit(remove("hidden"), remove("more-7"), add("of-small", size=2))

    def found() -> list[object]:
        snapshot = open_built(builder).snapshot()
        return [state_document(open_built(builder)), live_rows(snapshot), tombstone_rows(snapshot)]

    expected = found()

    with large_commits(block_bytes=200, from_bytes=1_000, many_keys=many_keys):
        assert expected == found()

    assert {"stays", "of-small", "fill-3"} == {row["path"] for row in live_rows(open_built(builder).snapshot())} - {
        *(f"fill-{number}" for number in range(20) if number != 3),
        *(f"more-{number}" for number in range(20)),
    }
