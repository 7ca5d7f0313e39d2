"""Cutting statistics into pieces around the texts that Arrow's reader does not take."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltacli.delta.stats.columns import read_in_pieces


def test_pieces_stay_in_order_and_only_few_texts_are_not_read() -> None:
    texts = pa.array([str(row) for row in range(5_000)])

    def read(piece: Any) -> int | None:
        return None if "4321" in piece.to_pylist() else len(piece)

    found = list(read_in_pieces(texts, read))

    assert texts.to_pylist() == [text for _, piece, _ in found for text in piece.to_pylist()]
    assert [piece[0].as_py() for _, piece, _ in found] == [str(start) for start, _, _ in found]
    (unread,) = [piece for _, piece, parsed in found if parsed is None]
    assert len(unread) <= 64
