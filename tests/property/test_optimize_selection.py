"""The files that `optimize` chooses, against a model: bins that save files or purge rows, then nothing to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltacli.operations.optimize.live_files import FilesAtHand, Rules, Selection, select
from tests.support.effort import examples


class File(NamedTuple):
    """A live file: its group, its bytes, its rows and those of its vector (None: it has none)."""

    group: int
    size: int
    rows: int | None
    deleted: int | None = None
    is_excluded: bool = False
    is_named: bool = False
    written_from: int = 0

    @property
    def live_size(self) -> int:
        packed = max(self.size, self.written_from)
        if self.deleted is None or self.rows is None:
            return packed
        return int(packed * (1 - self.deleted / max(self.rows, 1)))

    @property
    def is_dead(self) -> bool:
        return self.rows is not None and self.deleted == self.rows > 0


def columns(files: list[File]) -> FilesAtHand:
    vectors = [file.deleted is not None for file in files]
    return FilesAtHand(
        pa.array([file.size for file in files], pa.int64()),
        pa.array([max(file.size, file.written_from) for file in files], pa.int64()),
        pa.array([file.rows for file in files], pa.int64()),
        pa.array([file.deleted or 0 for file in files], pa.int64()),
        pa.array(vectors, pa.bool_()),
        pa.array([file.group for file in files], pa.int32()),
        pa.array([file.is_excluded for file in files], pa.bool_()),
        pa.array([file.is_named for file in files], pa.bool_()),
    )


def is_chosen(file: File, rules: Rules) -> bool:
    if file.deleted is None:
        return file.is_named
    unknown = file.rows is None
    over = unknown or (file.deleted / max(file.rows or 0, 1)) > rules.purge_ratio
    return over or rules.purge or file.is_dead or file.is_named


def bins_of(selection: Selection, files: list[File]) -> list[list[File]]:
    return [[files[place] for place in selection.places([one])] for one in selection.bins]


def after(selection: Selection, files: list[File], part: float) -> list[File]:
    """The files when every bin has become one file of a part of the live bytes, which remembers these."""
    gone = set(selection.places(selection.bins))
    new = [
        File(
            chosen[0].group,
            max(int(part * sum(file.live_size for file in chosen)), 1),
            sum((file.rows or 0) - (file.deleted or 0) for file in chosen),
            written_from=one.packed_bytes,
        )
        for one, chosen in zip(selection.bins, bins_of(selection, files), strict=True)
        if not all(file.is_dead for file in chosen)
    ]
    return [file for place, file in enumerate(files) if place not in gone] + new


@st.composite
def tables(draw: st.DrawFn) -> list[File]:
    files = []
    for _ in range(draw(st.integers(0, 14))):
        rows = draw(st.none() | st.integers(0, 20))
        most = 9 if rows is None else rows
        deleted = draw(st.none() | st.integers(1, most)) if most else None
        group, size = draw(st.integers(0, 2)), draw(st.integers(1, 130))
        is_excluded, is_named = (draw(st.integers(0, 9)) == 0 for _ in range(2))
        written_from = draw(st.sampled_from((0, 0, 40, 200)))
        files.append(File(group, size, rows, deleted, is_excluded, is_named, written_from))
    return files


@st.composite
def all_rules(draw: st.DrawFn) -> Rules:
    target = draw(st.integers(1, 120))
    return Rules(
        target,
        draw(st.sampled_from((target // 2, target, 60))),
        draw(st.integers(2, 4)),
        draw(st.sampled_from((0.0, 0.05, 0.5, 1.0))),
        purge=draw(st.booleans()),
        max_bytes=None,
    )


@examples(60)
@given(tables(), all_rules())
def test_bins_save_files_or_purge_rows(files: list[File], rules: Rules) -> None:
    found = select(columns(files), rules)

    places = found.places(found.bins)
    assert len(places) == len(set(places))
    for one, chosen in zip(found.bins, bins_of(found, files), strict=True):
        assert 1 == len({file.group for file in chosen})
        assert not any(file.is_excluded for file in chosen)
        assert any(is_chosen(file, rules) for file in chosen) or len(chosen) >= rules.min_files
        assert all(
            is_chosen(file, rules) or (not rules.purge and max(file.size, file.written_from) < rules.min_bytes)
            for file in chosen
        )
        assert len(chosen) == 1 or sum(file.live_size for file in chosen) <= rules.target_bytes
        assert one.outputs == (not all(file.is_dead for file in chosen))
        assert sum(file.size for file in chosen) == one.size_bytes
    for place in set(range(len(files))) - set(places):
        assert files[place].is_excluded or not is_chosen(files[place], rules)
    excluded = sum(file.is_excluded for file in files)
    assert len(files) - excluded == len(places) + sum(found.skipped.values())


@examples(60)
@given(tables(), all_rules(), st.floats(0.01, 2))
def test_a_second_run_has_nothing_to_do(files: list[File], rules: Rules, part: float) -> None:
    """
    Whatever the new files compress to.
    """
    files = [file._replace(is_named=False) for file in files if file.rows is not None]
    left = after(select(columns(files), rules), files, part)

    assert () == select(columns(left), rules).bins


@examples(60)
@given(tables(), all_rules(), st.integers(1, 400))
def test_a_limit_of_bytes_leaves_whole_bins(files: list[File], rules: Rules, most: int) -> None:
    whole = select(columns(files), rules)
    limited = select(columns(files), replace(rules, max_bytes=most))

    assert limited.size_bytes <= most
    assert not Counter(limited.bins) - Counter(whole.bins)
    assert whole.files - limited.files == limited.skipped.get("max-bytes", 0)
