"""Offsets and entries of offset logs: every spelling of a position is one position, and nothing else raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.streams import (
    OffsetEntry,
    OtherOffset,
    Position,
    SourceKind,
    Unread,
    batch_of,
    read_commit,
    read_offset,
    read_offsets,
    read_query_id,
    read_schema_entry,
    schema_log_of,
)

_LONG = st.integers(0, (1 << 63) - 2)
"""But the longest, which no version follows."""


@st.composite
def _offsets(draw: st.DrawFn) -> tuple[dict[str, object], Position]:
    """An offset of Delta and what it means."""
    written_as = draw(st.sampled_from([1, 3]))
    version, in_snapshot = draw(_LONG), draw(st.booleans())
    index = draw(st.sampled_from([-19, -20, -1 if written_as == 1 else -100]) | st.integers(0, (1 << 63) - 101))
    fields = {"sourceVersion": written_as, "reservoirId": "T", "reservoirVersion": version, "index": index}
    is_barrier = index in (-19, -20)
    meaning = Position(SourceKind.DELTA, "T", version, max(index + 1, 0), in_snapshot, is_barrier)
    return {**fields, "isStartingVersion": in_snapshot}, meaning


@given(_offsets(), st.randoms(use_true_random=False), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_every_spelling_of_a_position_is_the_position(
    written: tuple[dict[str, object], Position], random: object, line_end: str, is_named: bool
) -> None:
    fields, meaning = written
    keys = [*fields, "more"]
    random.shuffle(keys)  # type: ignore[attr-defined]
    spelled = json.dumps({key: fields.get(key, {"a": ":"}) for key in keys})
    lines = ["v2", "", f"orders:{spelled}", "files:-"] if is_named else ["v1", "", spelled, "-"]

    found = read_offsets(line_end.join([*lines, ""]).encode())

    assert isinstance(found, OffsetEntry)
    assert [*found.offsets.values()] == [meaning, None]
    assert [*found.offsets] == (["orders", "files"] if is_named else ["0", "1"])


@given(st.binary() | st.text().map(str.encode), st.sampled_from([b"", b"v1\n", b"v1\n\n", b"v2\n\n", b"v2\n{}\na:"]))
def test_any_bytes_are_read_or_have_a_reason(data: bytes, before: bytes) -> None:
    for read in (read_offsets, read_commit, read_query_id, read_schema_entry):
        found = read(before + data)
        assert not isinstance(found, Unread) or found.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"reservoirId":"T","reservoirVersion":5,"index":-1,"isStartingVersion":false}', "sourceVersion"),
        (
            '{"sourceVersion":true,"reservoirId":"T","reservoirVersion":5,"index":-1,"isStartingVersion":false}',
            "number",
        ),
        ('{"sourceVersion":1,"reservoirId":"T","index":-1,"isStartingVersion":false}', "reservoirVersion"),
        (
            '{"sourceVersion":1,"reservoirId":"T","reservoirVersion":9223372036854775807,"index":-19,"isStartingVersion":true}',
            "reservoirVersion",
        ),
        (
            '{"sourceVersion":1,"reservoirId":"T","reservoirVersion":9223372036854775808,"index":0,"isStartingVersion":true}',
            "reservoirVersion",
        ),
        ('{"sourceVersion":1,"reservoirId":"T","reservoirVersion":-1,"index":-1,"isStartingVersion":false}', "-1"),
        ('{"sourceVersion":3,"reservoirId":"T","reservoirVersion":5,"index":-1,"isStartingVersion":false}', "-1"),
        ('{"sourceVersion":2,"reservoirId":"T","reservoirVersion":5,"index":-1,"isStartingVersion":false}', "reserved"),
        ('{"sourceVersion":4,"reservoirId":"T","reservoirVersion":5,"index":-1,"isStartingVersion":false}', "newer"),
        ('{"sourceVersion":1,"reser', "JSON"),
        ('{"format":2,"table":"T","schema":"s","first":1,"snapshot":true,"version":0,"index":0}', "format 2"),
        ('{"format":1,"table":"T","schema":"s","first":1,"snapshot":true,"version":0,"index":-1}', "index"),
        ("[" * 100_000, ""),
    ],
)
def test_what_is_not_a_position_says_why(text: str, reason: str) -> None:
    found = read_offset(text)

    assert isinstance(found, Unread) if reason else isinstance(found, OtherOffset)
    assert not isinstance(found, Unread) or reason in found.reason


_OFFSET = '{"sourceVersion":1,"reservoirId":"T","reservoirVersion":5,"index":-1,"isStartingVersion":false}'


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        *((_OFFSET[:length], True) for length in (1, 2, 12, 40, len(_OFFSET) - 1)),
        (_OFFSET[:20] + "\0" * 20, True),
        ("\0" * 20, True),
        ("", True),
        ('{"logOffset":1}more', False),
        ('{"format": 1, "table": "T", "sch', True),
        ('{"logOffset":', True),
    ],
)
@pytest.mark.parametrize("log_version", [1, 2])
def test_an_offset_that_is_cut_can_be_read_by_no_program(text: str, is_cut: bool, log_version: int) -> None:
    line = text if log_version == 1 else f"0:{text}"
    alone = read_offset(text)
    entry = read_offsets(f"v{log_version}\n{{}}\n{line}".encode()) if line else None

    assert isinstance(alone, Unread)
    assert is_cut == alone.is_cut
    assert entry is None or (isinstance(entry, OffsetEntry) and [alone] == [*entry.offsets.values()])


@pytest.mark.parametrize("behind", ["\0" * 20, "more", " {}"])
def test_text_behind_an_offset_of_delta_is_ignored_as_delta_does(behind: str) -> None:
    assert read_offset(_OFFSET) == read_offset(_OFFSET + behind)


@pytest.mark.parametrize(("last", "is_cut"), [("orders", True), ("o", True), ('{"logOffset"}', False)])
def test_an_entry_with_names_may_be_cut_within_one(last: str, is_cut: bool) -> None:
    found = read_offsets(f"v2\n{{}}\n0:{_OFFSET}\n{last}".encode())

    assert isinstance(found, Unread)
    assert is_cut == found.is_cut


def test_our_own_offset_is_exclusive_and_has_its_beginning() -> None:
    text = '{"format": 1, "table": "T", "schema": "s", "first": 8, "snapshot": true, "version": 7, "index": 2}'

    found = read_offset(text)

    assert isinstance(found, Position)
    assert (7, 2, True, 2) == (found.version, found.delivered, found.in_snapshot, found.index)
    assert found.first_of_source is not None
    assert (7, True, 0) == (
        found.first_of_source.version,
        found.first_of_source.in_snapshot,
        found.first_of_source.delivered,
    )


@pytest.mark.parametrize(
    "text", ["3", '{"logOffset":2}', '{"orders":{"0":5}}', '{"format":1,"snapshot":4}', "null", "[1]", '{"version":1}']
)
def test_offsets_of_other_sources_are_no_fault(text: str) -> None:
    assert OtherOffset() == read_offset(text)


def test_a_share_in_the_parquet_form_is_named() -> None:
    text = '{"sourceVersion":1,"tableId":"T","tableVersion":3,"index":-1,"isStartingVersion":true}'

    assert OtherOffset(SourceKind.SHARING) == read_offset(text)


def test_only_digits_are_batches() -> None:
    names = ["0", "007", "14", ".14.crc", "15.tmp", "-1", "1_0", "١", "9" * 30, "9" * 9000, ""]

    assert [0, 7, 14] == [number for name in names if (number := batch_of(name)) is not None]


def test_a_schema_log_is_known_by_the_whole_id() -> None:
    names = ["_schema_log_T", "_schema_log_T_orders", "_schema_log_T2", "_schema_log_", "T"]

    assert [True, True, False, False, False] == [schema_log_of(name, "T") for name in names]


@pytest.mark.parametrize(
    "text",
    [
        "v1",
        "v1\n",
        " v1 \n{}",
        "v01\n{}",
        'v1\n{"nextBatchWatermarkMs":0}',
        'v1\r\n{"nextBatchWatermarkMs":5}\r\n',
        'v1\n{"nextBatchWatermarkMs":null,"later":[1]}\nmore lines are not read',
        'v1\n{"nextBatchWatermarkMs":0}\0\0\0',
        'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"]]}}',
        "v3\n{}",
    ],
)
def test_commit_files_that_spark_reads(text: str) -> None:
    assert read_commit(text.encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0\0\0",
        b"v",
        b"v0\n{}",
        b"v99999999999\n{}",
        b"V1\n{}",
        b"v1 x\n{}",
        b'{"nextBatchWatermarkMs":0}',
        b"\xef\xbb\xbfv1\n{}",
        b"v1\n\n",
        b"v1\n  \n{}",
        b'v1\n{"next',
        b'v1\n{"nextBatchWatermarkMs":0',
        b"v1\n" + b"\0" * 20,
        b'v1\n{"nextBatchWatermarkMs":\n0}',
        b'v1\n{"nextBatchWatermarkMs":"5"}',
        b'v1\n{"nextBatchWatermarkMs":true}',
        b'v1\n{"nextBatchWatermarkMs":NaN}',
        b'v1\n{"nextBatchWatermarkMs":0,"nextBatchWatermarkMs":0}',
        b'v1\n{"a":"\xff"}',
        b"v1\nnull",
    ],
)
def test_commit_files_that_no_spark_reads(data: bytes) -> None:
    found = read_commit(data)

    assert found is not None
    assert found.is_cut, found


@pytest.mark.parametrize("data", [b"v4\n{}", b"v9", b"v1\n[]", b"v1\n3", b'v1\n"a"'])
def test_commit_files_that_another_spark_may_read(data: bytes) -> None:
    found = read_commit(data)

    assert found is not None
    assert not found.is_cut, found
