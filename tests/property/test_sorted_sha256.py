"""The digest of a state: the same whatever the order, however little may be held in memory."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.work.checkpoints.state_digest import SortedSha256
from tests.support.effort import examples

LINES = st.lists(
    st.sampled_from([b"", b"a", b"a", b"aa", b"\xc3\xbc", b"\xff", b"a\nb"]) | st.binary(max_size=6), max_size=30
)


@given(st.lists(LINES, max_size=6), st.sampled_from([1, 20, 200, 1 << 20]), st.booleans(), st.sets(st.integers(0, 5)))
@examples(75)
def test_digest_is_sha256_of_the_sorted_lines(
    batches: list[list[bytes]], run_bytes: int, sliced: bool, are_sorted: set[int]
) -> None:
    expected = hashlib.sha256(b"\n".join(sorted(line for lines in batches for line in lines))).hexdigest()

    with closing(SortedSha256(run_bytes=run_bytes)) as digest:
        for number, lines in enumerate(batches):
            is_sorted = number in are_sorted
            shown = sorted(lines) if is_sorted else lines
            column = (
                pa.array([b"x", *shown, b"y"], pa.binary()).slice(1, len(lines))
                if sliced
                else pa.array(shown, pa.binary())
            )
            (digest.add_sorted if is_sorted else digest.add)(column)

        assert expected == digest.hexdigest()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=30))
@examples(25)
def test_text_is_digested_as_utf8(lines: list[str]) -> None:
    expected = hashlib.sha256(b"\n".join(sorted(line.encode() for line in lines))).hexdigest()

    with closing(SortedSha256(run_bytes=10)) as digest:
        digest.add(pa.array(lines, pa.string()))

        assert expected == digest.hexdigest()


def test_nothing_is_the_digest_of_nothing() -> None:
    with closing(SortedSha256()) as digest:
        digest.add(pa.array([], pa.string()))

        assert hashlib.sha256(b"").hexdigest() == digest.hexdigest()


def test_runs_of_several_blocks_are_merged_across_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number * 7919 % 1000:04d}".encode() for number in range(1_000)] * 2
    expected = hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()
    monkeypatch.setattr("deltacli.work.checkpoints.state_digest._ROWS_A_BLOCK", 37)

    with closing(SortedSha256(run_bytes=1_500)) as digest:
        for start in range(0, len(lines), 100):
            digest.add(pa.array(lines[start : start + 100], pa.binary()))

        assert expected == digest.hexdigest()


def test_temporary_files_are_deleted_by_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    digest = SortedSha256(run_bytes=1)
    digest.add(pa.array([b"b", b"a"], pa.binary()))
    spilled = list(tmp_path.iterdir())

    digest.close()

    assert 1 == len(spilled)
    assert [] == list(tmp_path.iterdir())
