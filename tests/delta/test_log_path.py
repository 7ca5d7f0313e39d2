"""What a file name in the log says, and that every other name says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.log.segment import MAX_VERSION, LogFileKind, LogPath, commit_name, parse_log_path
from tests.support.effort import examples

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("00000000000000000000.json", LogFileKind.COMMIT, {"version": 0, "is_json": True}),
        ("00000000000000000042.json", LogFileKind.COMMIT, {"version": 42, "is_json": True}),
        (f"{MAX_VERSION:020d}.json", LogFileKind.COMMIT, {"version": MAX_VERSION, "is_json": True}),
        ("00000000000000000007.crc", LogFileKind.CHECKSUM, {"version": 7, "is_json": True}),
        ("00000000000000000010.checkpoint.parquet", LogFileKind.CLASSIC_CHECKPOINT, {"version": 10}),
        (
            "00000000000000000010.checkpoint.0000000002.0000000003.parquet",
            LogFileKind.MULTI_PART_CHECKPOINT,
            {"version": 10, "part": 2, "parts": 3},
        ),
        (f"00000000000000000010.checkpoint.{UUID}.parquet", LogFileKind.UUID_CHECKPOINT, {"version": 10}),
        (f"00000000000000000010.checkpoint.{UUID}.json", LogFileKind.UUID_CHECKPOINT, {"version": 10, "is_json": True}),
        (
            "00000000000000000010.checkpoint.any-text.json",
            LogFileKind.UUID_CHECKPOINT,
            {"version": 10, "is_json": True},
        ),
        (
            "00000000000000000003.00000000000000000006.compacted.json",
            LogFileKind.COMPACTED_COMMIT,
            {"version": 3, "last_version": 6, "is_json": True},
        ),
    ],
)
def test_names_of_the_protocol_are_understood(name: str, kind: LogFileKind, said: dict[str, int]) -> None:
    assert LogPath(name, kind, **said) == parse_log_path(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("1.json", LogFileKind.UNPADDED),
        ("000000000000000000001.json", LogFileKind.UNPADDED),
        ("10.checkpoint.parquet", LogFileKind.UNPADDED),
        ("5.crc", LogFileKind.UNPADDED),
        ("99999999999999999999.json", LogFileKind.UNPADDED),
        ("", LogFileKind.OTHER),
        (".00000000000000000001.json.crc", LogFileKind.OTHER),
        ("00000000000000000001.json.tmp", LogFileKind.OTHER),
        ("0000000000000000000a.json", LogFileKind.OTHER),
        ("٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١.json", LogFileKind.OTHER),
        ("00000000000000000010.checkpoint.parquet.tmp", LogFileKind.OTHER),
        ("00000000000000000010.checkpoint", LogFileKind.OTHER),
        ("00000000000000000010.checkpoint.a.b.json", LogFileKind.OTHER),
        ("_last_checkpoint", LogFileKind.OTHER),
        ("_sidecars", LogFileKind.OTHER),
        ("00000000000000000003.compacted.json", LogFileKind.OTHER),
    ],
)
def test_other_names_carry_no_version(name: str, kind: LogFileKind) -> None:
    assert LogPath(name, kind) == parse_log_path(name)


@given(st.integers(0, MAX_VERSION))
@examples(25)
def test_a_commit_name_reads_back(version: int) -> None:
    assert LogPath(commit_name(version), LogFileKind.COMMIT, version, is_json=True) == parse_log_path(
        commit_name(version)
    )


@given(st.one_of(st.text(max_size=40), st.text("0123456789.", max_size=40).map(lambda text: f"{text}.json")))
@examples(100)
def test_any_name_is_understood_or_ignored(name: str) -> None:
    assert name == parse_log_path(name).name
