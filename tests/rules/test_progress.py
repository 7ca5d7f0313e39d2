"""The progress of `validate`: a checkpoint advances the bar by its rows, not once at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltacli.api.table import open_table
from deltacli.progress import WeighedStep
from deltacli.work.commits import inspection
from tests.support.builder import TableBuilder


class Recorded:
    """Records the weight of the log and how it was done, part by part."""

    def __init__(self) -> None:
        self.weight, self.parts = 0, list[int]()

    @contextmanager
    def step(self, *_: object, **__: object) -> Iterator[Recorded]:
        yield Recorded()

    @contextmanager
    def weighed_step(self, *_: object, weight: int, **__: object) -> Iterator[WeighedStep]:
        self.weight = weight
        yield self

    def advance(self, _: int = 1, *, weight: int = 0) -> None:
        self.parts.append(weight)


def test_a_checkpoint_advances_the_bar_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_ROWS_A_BATCH", 4)
    TableBuilder().commits(21).checkpoint(20).write(tmp_path / "t")
    size = sum(path.stat().st_size for path in (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    progress = Recorded()

    open_table(tmp_path / "t", progress=progress).validate()

    largest = sorted(progress.parts)[-4:]
    assert (True, True) == (sum(progress.parts) <= progress.weight, max(largest) < size / 3), progress.parts
    assert sum(progress.parts) >= 0.95 * progress.weight
