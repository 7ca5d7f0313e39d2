"""Texts of a screen padded to one width: the fast ways agree with the definition, character by character."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from deltacli.cli.output.alignment import pad_text
from deltacli.cli.output.columns import Column
from deltacli.cli.render.data.rows import write_aligned
from deltacli.cli.terminal.characters import count_cells, escape_control


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "texts",
    [["a", "bcd"], ["größe", "straße", "é"], ["Жук", "ab"], ["漢字", "a"], ["e\u0301", "ab"], ["\x07é", "\u202ea"]],
)
def test_every_text_is_padded_to_the_widest(texts: list[str], right: bool) -> None:
    sink = io.BytesIO()
    columns = [Column("p", str, align_right=right), Column("q", str)]

    write_aligned(sink, columns, [pa.record_batch({"p": texts, "q": ["|"] * len(texts)})], keep_empty=True)

    width = max(map(count_cells, map(escape_control, texts)))
    expected = [f"{pad_text(escape_control(text), width, right=right)}  |" for text in texts]
    assert expected == sink.getvalue().decode().splitlines()[1:]
