"""Adds that are spelled alike are read at once as they are read one by one; whatever else a block holds is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.actions import stream_actions
from deltacli.delta.log.file_actions import build_narrow_batches
from deltacli.work.commits.blocks import parse_uniform_adds
from tests.support.effort import examples

ALIKE = (
    (
        b'{"add":{"path":"p=%/a","partitionValues":{"p":"%"},"size":%,"modificationTime":5,"dataChange":true,'
        b'"stats":"{\\"numRecords\\":%,\\"minValues\\":{\\"c\\":\\"{}%}\\"}}"}}'
    ),
    (
        b'{"add": {"stats": "{\\"numRecords\\":%}", "size": %, "future": [-0, null, {"path": "%"}], "path":'
        b' "\xc3\xa9-%", "tags": {"size": "%"}, "deletionVector": null, "baseRowId": %} }'
    ),
)
"""Lines of two writers, with numbers in place of %."""
CUTS = (
    *(bytes([byte]) for byte in b'"\\\n\r\x01\xff}{,:0-7 '),
    b'\\"',
    b"\\\\",
    b'"}',
    b'x":"',
    b'"}}\n{"add":{"path":"',
)


def alike_lines(line: bytes, numbers: list[int]) -> bytes:
    return b"".join(line.replace(b"%", b"%d" % number) + b"\n" for number in numbers)


def read_one_by_one(lines: bytes) -> RecordBatch | None:
    """Return the adds of a block as the line-by-line parser reads them; None if they are refused or not all."""
    try:
        actions = list(stream_actions(lines.split(b"\n"), "a commit"))
        adds = build_narrow_batches([action for kind, action in actions if kind == "add"], [], "a commit")[0]
    except CommitCorrupt:
        return None
    return adds if len(actions) == adds.num_rows == lines.count(b"\n") else None


@pytest.mark.parametrize("line", ALIKE)
def test_alike_lines_are_read_at_once(line: bytes) -> None:
    for numbers in ([3], [1, 20, 0, 300], [10**18 - 1, 5]):
        lines = alike_lines(line, numbers)

        found = parse_uniform_adds(lines)

        assert found is not None
        assert found.equals(read_one_by_one(lines))


def test_of_two_adds_on_a_line_the_first_one_is_not_read() -> None:
    lines = alike_lines(ALIKE[0][:-1] + b',"add":{"future":%}}', [1, 2])

    assert parse_uniform_adds(lines) is None
    assert read_one_by_one(lines) is None


@pytest.mark.long
@pytest.mark.parametrize("line", ALIKE)
def test_lines_that_differ_in_any_byte_are_read_like_one_by_one_or_not_at_once(line: bytes) -> None:
    first, lines = alike_lines(line, [12]), alike_lines(line, [3])
    read = 0

    for place in range(len(lines)):
        for cut in CUTS:
            for rest in (place, place + 1):
                changed = first + lines[:place] + cut + lines[rest:]
                found = parse_uniform_adds(changed)
                if found is not None:
                    read += 1
                    assert found.equals(read_one_by_one(changed)), changed

    assert read > 200


@given(st.sampled_from(ALIKE), st.lists(st.tuples(st.integers(0, 900), st.sampled_from(CUTS)), min_size=2, max_size=4))
@examples(30)
def test_lines_with_several_changes_are_read_like_one_by_one(line: bytes, cuts: list[tuple[int, bytes]]) -> None:
    lines = alike_lines(line, [12, 3])
    for place, cut in cuts:
        lines = lines[: place % len(lines)] + cut + lines[place % len(lines) :]

    found = parse_uniform_adds(lines)

    assert found is None or found.equals(read_one_by_one(lines))
