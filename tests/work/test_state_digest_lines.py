"""The lines of a state's digests, sorted by row group, or read as a stream where a row group is large."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from deltacli.work.checkpoints import state_digest
from tests.support.actions import add, deletion_vector, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.reading import NOW_MS, open_at, state_document

NAMES = ("b b", "ä", "a\x01", "a", "a%41", "z/y=1 2/c", "b\x7f", "a!", "Z", "a%", "b")
"""Names whose order differs between raw paths, decoded paths and keys: a key has a tab after the path."""


@pytest.mark.parametrize("most_rows", [1 << 20, 3, 0])
def test_digests_do_not_depend_on_the_size_of_row_groups(most_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = TableBuilder().commit(protocol(), metadata())
    builder.commit(*(add(quote(f"{name}.parquet"), size=1, records=1) for name in NAMES))
    builder.commit(*(add(f"{name}{name}".replace("%", ""), size=1, records=1) for name in NAMES))
    builder.commit(*(remove(f"{number}.parquet", deleted_ms=NOW_MS) for number in range(5)))
    builder.commit(add("v.parquet", size=9, records=50, vector=deletion_vector("ab^-aqEH.-t@S}K{vb[*k^", rows=1)))
    storage = builder.in_memory()
    expected = builder.states[-1].document(now_ms=NOW_MS)
    open_at(storage).checkpoint()
    monkeypatch.setattr(state_digest, "MOST_ROWS", most_rows)

    assert expected == state_document(open_at(storage))
