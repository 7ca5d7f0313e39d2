"""The progress of `validate`: which steps it has, and that a checkpoint advances the bar by its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltacli.api.table import open_table
from deltacli.work.checkpoints import inspection
from tests.support.builder import TableBuilder


class Recorded:
    """Records the steps and how they advanced, part by part."""

    def __init__(self) -> None:
        self.parts: dict[str, list[int]] = {}
        self.running: list[str] = []

    @contextmanager
    def step(self, what: str, *_: object, **__: object) -> Iterator[Recorded]:
        self.running.append(what)
        self.parts.setdefault(what, [])
        yield self
        self.running.pop()

    def advance(self, amount: int = 1) -> None:
        self.parts[self.running[-1]].append(amount)


def test_a_checkpoint_advances_the_bar_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_ROWS_A_BATCH", 4)
    TableBuilder().commits(21).checkpoint(20).write(tmp_path / "t")
    progress = Recorded()

    open_table(tmp_path / "t", progress=progress).validate(level="storage")

    batches = progress.parts["reading the checkpoint"]
    assert len(batches) > 3
    assert max(batches) <= 4
    (rows,) = progress.parts["looking for duplicates"]
    assert [rows] == progress.parts["comparing the checkpoint"]
    assert rows == sum(batches)
    assert [
        "listing the log",
        "checking the log",
        "reading the checkpoint",
        "looking for duplicates",
        "comparing the checkpoint",
        "checking the state",
        "listing the table",
        "comparing files",
    ] == list(progress.parts)
