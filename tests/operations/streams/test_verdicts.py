"""Whether a query can go on, in given cases, and in directories from seeds, whose restart a model knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.operations.streams.checkpoints import Finding, StreamCheckpoint, Verdict, find_checkpoints, worst
from deltacli.operations.streams.judge import SourceJudgement, judge
from deltacli.operations.streams.needs import read_history
from deltacli.operations.streams.position_checks import is_other_directory
from deltacli.storage import LocalStorage, open_storage
from tests.operations.streams.cases import CASES, Case
from tests.operations.streams.checkpoints import TABLE_ID, Checkpoint, delta, own, standing
from tests.operations.streams.made import expected, make
from tests.operations.streams.tables import History
from tests.support.actions import metadata
from tests.support.builder import commit_path
from tests.support.reading import NOW_MS
from tests.support.s3 import S3Server


def _judged(root: Path, checkpoint: Path) -> tuple[StreamCheckpoint, list[SourceJudgement]]:
    table = Table(LocalStorage(str(root)), clock=fixed_clock(NOW_MS))
    (found,) = find_checkpoints([str(checkpoint)], open_storage, table.engine)
    own = [(found, one) for one in found.sources if one.table_id == TABLE_ID]
    history = read_history(table, own)
    return found, [judge(history, *one) for one in own]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number} {case.what}")
def test_given_cases(case: Case, tmp_path: Path) -> None:
    found, judged = _judged(case.table.write(tmp_path / "table"), case.checkpoint.write(tmp_path / "checkpoint"))

    finding: Finding = worst([found.finding, *(one.rows for one in judged)])
    if case.verdict is None:
        assert (Verdict.OK, []) == (finding.verdict, judged)
        return
    if case.number == 50:
        assert not judged
        return
    assert case.verdict == finding.verdict, finding
    assert all(word in finding.because for word in case.because), finding
    if case.log is not None:
        assert case.log == min(one.needs.log_from for one in judged if one.needs.log_from is not None)
    if case.feed is not None:
        assert [case.feed] == [one.feed.verdict for one in judged if one.feed is not None]


@pytest.mark.parametrize("seed", range(160))
def test_a_verdict_is_what_the_restart_does(seed: int, tmp_path: Path) -> None:
    made = make(seed)
    root, checkpoint = made.write(tmp_path)

    _, (judged,) = _judged(root, checkpoint)

    assert expected(root, checkpoint, feed=False) == judged.rows.verdict, judged.rows
    if judged.feed is not None:
        assert expected(root, checkpoint, feed=True) == judged.feed.verdict, judged.feed


@pytest.mark.parametrize("offset", [delta(21, 5), delta(21, -20, source_version=3)])
def test_a_position_inside_the_next_version_says_that_the_log_was_set_back(offset: str, tmp_path: Path) -> None:
    _, (judged,) = _judged(History().write(tmp_path / "table"), standing(offset).write(tmp_path / "checkpoint"))

    assert Verdict.DEAD == judged.rows.verdict
    assert "set back" in judged.rows.because


@pytest.mark.parametrize(
    ("end", "start", "gone", "skips"),
    [
        # What Delta did with the option: it skips commits, if one of the last finished batch is left.
        (delta(17), delta(14), [14], "loses nothing"),
        (delta(17), delta(14), [14, 15, 16], "loses nothing"),
        (delta(17), delta(14), [14, 15, 16, 17], ""),
        (delta(17), delta(14), [17], "never delivers what version 17"),
        (delta(17), delta(14), [16, 17, 18], "never delivers what versions 17-18"),
        (delta(15, 0), delta(15), [15], ""),
        (delta(15, 0), delta(15), [16], "never delivers what version 16"),
        (delta(16), delta(15, 0), [15], "loses nothing"),
        (delta(16), delta(15, 0), [15, 16], ""),
        (delta(17), delta(10, 3, in_snapshot=True), [12], ""),
        (delta(10, 4, in_snapshot=True), delta(10, 3, in_snapshot=True), [12], "never delivers what version 12"),
        (delta(10, 4, in_snapshot=True), delta(10, 3, in_snapshot=True), [11, 12], ""),
        (delta(10, 4, in_snapshot=True), delta(10, 3, in_snapshot=True), [10, 12], ""),
        (own(17), own(14), [18], ""),
    ],
)
def test_what_the_option_for_lost_data_does(end: str, start: str, gone: list[int], skips: str, tmp_path: Path) -> None:
    table = History(checkpoints=(10, 20), gone=[commit_path(version) for version in gone])

    _, (judged,) = _judged(table.write(tmp_path / "table"), standing(end, start).write(tmp_path / "checkpoint"))

    assert Verdict.DEAD == judged.rows.verdict, judged.rows
    assert bool(skips) == ("failOnDataLoss=false" in judged.rows.because), judged.rows
    assert skips in judged.rows.because


@pytest.mark.parametrize("checkpoint", [standing(delta(17), delta(14), committed=False), standing(delta(11), batch=0)])
def test_the_option_for_lost_data_does_not_help_within_a_batch_or_the_first_one(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    table = History(checkpoints=(10, 20), gone=[commit_path(14)])

    _, (judged,) = _judged(table.write(tmp_path / "table"), checkpoint.write(tmp_path / "checkpoint"))

    assert Verdict.DEAD == judged.rows.verdict, judged.rows
    assert "failOnDataLoss" not in judged.rows.because


def test_our_own_source_waits_where_the_log_was_set_back_and_loses_versions_then(tmp_path: Path) -> None:
    _, (judged,) = _judged(History().write(tmp_path / "table"), standing(own(25)).write(tmp_path / "checkpoint"))

    assert Verdict.AT_RISK == judged.rows.verdict
    assert "new versions below 25 are never delivered" in judged.rows.because


def _entry_of(place: Path | str) -> bytes:
    """Return an entry of a schema tracking log that a query with this checkpoint directory wrote."""
    address = f"file:{place}" if isinstance(place, Path) else place
    entry = {"tableId": TABLE_ID, "deltaCommitVersion": 11, "sourceMetadataPath": f"{address}/sources/0"}
    return b"v1\n" + json.dumps(entry).encode()


@pytest.mark.parametrize(
    ("spelled", "verdict"),
    [
        ("file:{place}/a b/chk/sources/0", "ok"),
        ("file://{place}/a b/chk/sources/0", "ok"),
        ("file://{place}/a%20b/chk/sources/0", "ok"),
        ("{place}/a b/chk/sources/12/", "ok"),
        ("file:{place}/link/chk/sources/0", "ok"),
        ("file:{place}/a b/chk2/sources/0", "dead"),
        ("file:{place}/a b/sources/0", "dead"),
        ("file:{place}/a b/chk/sources/0/more", "dead"),
        ("file:/elsewhere/chk/sources/0", "dead"),
        ("", "dead"),
        ("file:/elsewhere/\ud800/sources/0", "dead"),
        ("file:/elsewhere/\0/sources/0", "dead"),
        ("s3a://lake/a b/chk/sources/0", "ok"),
        ("dbfs:/mnt/lake/chk/sources/0", "ok"),
        ("/dbfs/mnt/lake/chk/sources/0", "ok"),
        ("/Volumes/main/lake/chk/sources/0", "ok"),
        ("file:/Volumes/main/lake/chk/sources/0", "ok"),
        ("hdfs://name/lake/chk/sources/0", "ok"),
        (None, "ok"),
        (7, "ok"),
    ],
)
def test_a_tracked_query_is_dead_in_a_directory_other_than_its_own(
    spelled: object, verdict: str, tmp_path: Path
) -> None:
    """No file has half of a surrogate in its name. An address of another kind of store may be a mount."""
    written_for = spelled.format(place=tmp_path) if isinstance(spelled, str) else spelled
    entry = {"tableId": TABLE_ID, "deltaCommitVersion": 11, "sourceMetadataPath": written_for}
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    checkpoint = standing(delta(21)).file(f"_schema_log_{TABLE_ID}/0", b"v1\n" + json.dumps(entry).encode())

    _, (judged,) = _judged(History().write(tmp_path / "table"), checkpoint.write(tmp_path / "a b" / "chk"))

    assert verdict == judged.rows.verdict, judged.rows
    assert verdict == "ok" or "copied or renamed" in judged.rows.because


def test_a_renamed_directory_of_a_tracked_query_is_dead_and_the_old_name_is_told(tmp_path: Path) -> None:
    root, place = History().write(tmp_path / "table"), tmp_path / "orders"
    checkpoint = standing(delta(21)).file(f"_schema_log_{TABLE_ID}/0", _entry_of(place)).write(place)
    assert Verdict.OK == _judged(root, checkpoint)[1][0].rows.verdict

    _, (judged,) = _judged(root, checkpoint.rename(tmp_path / "orders-2026"))

    assert Verdict.DEAD == judged.rows.verdict
    assert str(place) in judged.rows.because


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_directory_in_a_store_is_known_by_each_scheme_of_hadoop(scheme: str, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    storage = open_storage(f"s3://{bucket}/lake/a b/chk")

    assert not is_other_directory(storage, f"{scheme}://{bucket}/lake/a b/chk")
    assert not is_other_directory(storage, f"{scheme}://{bucket}/lake/a%20b/chk/")
    assert is_other_directory(storage, f"{scheme}://{bucket}/lake/a b/chk2")
    assert is_other_directory(storage, f"{scheme}://another-bucket/lake/a b/chk")


@pytest.mark.parametrize(
    "address",
    [
        "dbfs:/mnt/lake/chk",
        "/dbfs/mnt/lake/chk",
        "/Volumes/main/lake/chk",
        "file:/mnt/lake/chk",
        "gs://lake/chk2",
        "hdfs://name/lake/chk2",
    ],
)
def test_an_address_of_another_kind_of_store_may_be_the_same_directory(address: str, s3: S3Server) -> None:
    storage = open_storage(f"s3://{s3.make_bucket()}/lake/chk")

    assert not is_other_directory(storage, address)


@pytest.mark.parametrize("root", ["/dbfs/mnt/lake/chk", "/Volumes/main/lake/chk"])
@pytest.mark.parametrize("address", ["file:/mnt/lake/chk", "dbfs:/mnt/lake/chk", "s3a://lake/chk"])
def test_a_mount_of_databricks_may_be_any_directory(root: str, address: str) -> None:
    assert not is_other_directory(LocalStorage(root), address)


LONGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    "offset", [delta(LONGEST), delta(LONGEST, in_snapshot=True), delta(15, LONGEST), own(LONGEST, LONGEST)]
)
def test_a_position_after_which_no_other_can_be_named_is_not_readable(offset: str, tmp_path: Path) -> None:
    found, judged = _judged(History().write(tmp_path / "table"), standing(offset).write(tmp_path / "checkpoint"))

    assert Verdict.UNKNOWN == found.finding.verdict
    assert not judged


@pytest.mark.parametrize(
    ("written_for", "verdict"), [("s3a://{bucket}/before", "dead"), ("dbfs:/mnt/lake/chk", "at-risk")]
)
def test_a_copied_directory_in_a_store_is_dead_once_a_commit_ahead_concerns_its_log(
    written_for: str, verdict: str, tmp_path: Path, s3: S3Server
) -> None:
    """Looking for the log is a request, which is made only then. A mount of Databricks may be the same directory."""
    bucket = s3.make_bucket()
    ahead = History({17: [metadata(configuration={"owner": "ops"})]})
    entry = _entry_of(written_for.format(bucket=bucket))
    checkpoint = standing(delta(15)).file(f"_schema_log_{TABLE_ID}/0", entry)
    for path, data in {"metadata": b'{"id":"q"}', **checkpoint.files}.items():
        s3.put(bucket, f"chk/{path}", data)
    table = Table(LocalStorage(str(ahead.write(tmp_path / "table"))), clock=fixed_clock(NOW_MS))
    (found,) = find_checkpoints([f"s3://{bucket}/chk"], open_storage, table.engine)
    (source,) = found.sources

    judged = judge(read_history(table, [(found, source)]), found, source)

    assert verdict == judged.rows.verdict, judged.rows
    assert (verdict == "dead") == ("copied or renamed" in judged.rows.because)
