"""`snapshot --from-checksum`: a valid checksum answers alone; any other one is told, and the log replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.delta.log.segment import checksum_path
from deltacli.table.version_from_checksum import ReplayNeeded, VersionFromChecksum, read_version_from_checksum
from tests.support.actions import add, commit_info, domain, metadata, protocol, txn
from tests.support.builder import Files, StoredFile, TableBuilder, commit_path
from tests.support.checksums import with_checksum
from tests.support.reading import open_at
from tests.support.storage import FAR, RecordingStorage

Json = dict[str, Any]  # Any: JSON values
Capture = pytest.CaptureFixture[bytes]
HISTOGRAM = {"sortedBinBoundaries": [0, 1000], "fileCounts": [8, 0], "totalBytes": [800, 0]}


def table() -> TableBuilder:
    return TableBuilder().commits(12).checkpoint(10)


def documents(root: Path, capture: Capture, *options: str) -> tuple[Json, Json, list[Json]]:
    """What --from-checksum and a replay say, and the notes of the first."""
    found = []
    for more in (["--from-checksum"], []):
        assert 0 == run(["snapshot", str(root), *options, *more, "--json"])
        out, err = capture.readouterr()
        found.append((json.loads(out), [json.loads(line) for line in err.splitlines()]))
    return found[0][0], found[1][0], found[0][1]


def test_a_valid_checksum_is_all_that_is_read(capsysbinary: Capture, tmp_path: Path) -> None:
    root = with_checksum(table(), histogramOpt=HISTOGRAM, numDeletedRecordsOpt=0, numDeletionVectorsOpt=0).write(
        tmp_path
    )
    checkpoint = next(root.glob("_delta_log/*.parquet"))
    content = checkpoint.read_bytes()

    stated, replayed, notes = documents(root, capsysbinary)
    checkpoint.write_bytes(b"damaged")
    again = (run(["snapshot", str(root), "--from-checksum", "--json"]), json.loads(capsysbinary.readouterr().out))
    checkpoint.write_bytes(content)

    assert (0, stated) == again
    assert ("checksum", HISTOGRAM, []) == (stated.pop("source"), stated["files"].pop("sizeHistogram"), notes)
    missing = {"records", "filesWithoutRecords", "rows"}
    assert replayed["files"].keys() - stated["files"].keys() == missing
    assert replayed.keys() - stated.keys() == {"tombstones", "logSegment"}
    replayed["files"] = {name: replayed["files"][name] for name in stated["files"]}
    assert {name: replayed[name] for name in stated} == stated


def replaced(**fields: Any) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **fields}))

    return damage


def bytes_of(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    elsewhere = path.parents[2] / "elsewhere.crc"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def in_utf_16(path: Path) -> None:
    path.write_bytes(path.read_text().encode("utf-16"))


def of_another_table(path: Path) -> None:
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps({**content, "metadata": {**content["metadata"], "id": "another"}}))


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "negative": (replaced(numFiles=-1), "numFiles is -1"),
    "negative bytes": (replaced(tableSizeBytes=-7), "tableSizeBytes is -7"),
    "huge": (replaced(numFiles=2**63), "numFiles is 9223372036854775808"),
    "endless": (bytes_of(b'{"numFiles":' + b"9" * 5000 + b"}"), "is not a single JSON object"),
    "infinite": (replaced(tableSizeBytes=1e999), "tableSizeBytes has the wrong type"),
    "true": (replaced(numMetadata=True), "numMetadata has the wrong type"),
    "text": (replaced(numFiles="8"), "numFiles has the wrong type"),
    "two protocols": (replaced(numProtocol=2), "numProtocol is 2"),
    "list": (replaced(metadata=[]), "metadata has the wrong type"),
    "null": (replaced(protocol=None), "protocol is missing"),
    "no version of readers": (replaced(protocol={"minWriterVersion": 2}), "protocol.minReaderVersion is missing"),
    "unknown feature": (
        replaced(protocol={"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"]}),
        "needs the reader feature x, which deltacli cannot read",
    ),
    "bytes of no files": (replaced(numFiles=0), "tableSizeBytes is 800"),
    "more vectors than files": (replaced(numDeletionVectorsOpt=9), "numDeletionVectorsOpt is 9"),
    "histogram": (replaced(fileSizeHistogram={**HISTOGRAM, "fileCounts": [7, 0]}), "does not add up"),
    "negative bin": (replaced(fileSizeHistogram={**HISTOGRAM, "fileCounts": [9, -1]}), "does not add up"),
    "short histogram": (replaced(histogramOpt={**HISTOGRAM, "totalBytes": []}), "has lists of 2, 2 and 0 numbers"),
    "files": (replaced(allFiles=[]), "allFiles has another number of files than numFiles"),
    "transactions": (replaced(setTransactions={}), "setTransactions has the wrong type"),
    "transaction": (replaced(setTransactions=[{"version": 1}]), "txn.appId is missing"),
    "timestamp": (replaced(inCommitTimestampOpt=5), "has an in-commit timestamp, unlike its table"),
    "txnId": (replaced(txnId="another"), "has another txnId than commit 11"),
    "no schema": (replaced(metadata={"id": "1", "schemaString": "{"}), "the schema is malformed"),
    "other table": (of_another_table, "another table id than commit 0"),
    "too few files": (replaced(numFiles=0, tableSizeBytes=0), "another number of files or bytes than commit 11"),
    "not UTF-8": (bytes_of(b'{"numFiles":\xff}'), "is not a single JSON object"),
    "UTF-16": (in_utf_16, "is not a single JSON object"),
    "deep": (bytes_of(b'{"a":' * 200_000), "is not a single JSON object"),
    "list of objects": (bytes_of(b"[{}]"), "is not a single JSON object"),
    "empty": (bytes_of(b""), "is not a single JSON object"),
    "30 MB": (bytes_of(b" " * 30_000_000), "is larger than 8 MiB"),
    "directory": (directory, "version 11 has no checksum file"),
    "link": (link, "outside"),
    "missing": (Path.unlink, "version 11 has no checksum file"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_any_other_checksum_is_told_and_the_log_replayed(case: str, capsysbinary: Capture, tmp_path: Path) -> None:
    root = with_checksum(table()).write(tmp_path / "t")
    damage, reason = HOSTILE[case]
    damage(root / checksum_path(11))

    stated, replayed, notes = documents(root, capsysbinary)

    assert "replay" == stated.pop("source")
    assert replayed == stated
    assert ["note"] == [note["type"] for note in notes]
    assert notes[0]["message"].startswith("the log was replayed: ")
    assert reason in notes[0]["message"]


def test_far_away_it_takes_a_listing_the_checksum_and_the_last_commit() -> None:
    recording = RecordingStorage(with_checksum(table()).in_memory(), capabilities=FAR)

    found = read_version_from_checksum(open_at(recording))

    assert isinstance(found, VersionFromChecksum)
    assert {"list_from": 1, "read_range": 1, "read": 1} == recording.calls


REFUSED: dict[str, Callable[[], TableBuilder]] = {
    "gap": lambda: with_checksum(TableBuilder().commits(4)).damaged(lambda files: files.__delitem__(commit_path(2))),
    "torn": lambda: with_checksum(table()).damaged(lambda files: cut(files, commit_path(11))),
    "no table": TableBuilder,
}


def cut(files: Files, path: str) -> None:
    files[path] = StoredFile(files[path].data[:-20])


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_replay_refuses_is_refused_in_its_words(case: str, capsysbinary: Capture, tmp_path: Path) -> None:
    REFUSED[case]().write(tmp_path)
    found = []
    for options in ([], ["--from-checksum"], ["--version", "99"], ["--version", "99", "--from-checksum"]):
        code = run(["snapshot", str(tmp_path), *options, "--json"])
        error = json.loads(capsysbinary.readouterr().err.splitlines()[-1])
        found.append((code, error["code"], error["message"], error.get("details")))

    assert 3 == found[0][0]
    assert found[0::2] == found[1::2]


def test_a_first_commit_too_large_to_be_read_contradicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_at(TableBuilder().commits(1).in_memory())
    opened.write_checksum()
    monkeypatch.setattr("deltacli.table.version_from_checksum._MAX_COMMIT_BYTES", 10)

    assert isinstance(read_version_from_checksum(opened), VersionFromChecksum)


def test_only_the_version_of_a_checksum_is_taken_from_it(tmp_path: Path) -> None:
    """
    A commit after it may add a file again that is live: its numbers cannot be told without the files.
    """
    builder = with_checksum(table()).commits(1)

    newest, older = (
        read_version_from_checksum(open_at(builder.in_memory()), version=version) for version in (None, 11)
    )

    lost = with_checksum(table()).file(f"_delta_log/{12:020}.crc", b"{}")
    assert ReplayNeeded("version 12 has no checksum file") == newest
    assert "seem to be lost" in str(read_version_from_checksum(open_at(lost.in_memory())))
    assert isinstance(older, VersionFromChecksum)
    assert 8 == older.checksum.files


def test_in_commit_timestamps_and_lists_that_expire() -> None:
    """
    The time of the commit is the stated one; transactions are left out where expired ones may be missing.
    """
    born = [
        commit_info(inCommitTimestamp=1_700_000_000_007),
        protocol(1, 7, writer_features=["inCommitTimestamp", "domainMetadata"]),
        metadata(
            configuration={
                "delta.enableInCommitTimestamps": "true",
                "delta.setTransactionRetentionDuration": "interval 1 day",
            }
        ),
        domain("d", "{}"),
        txn("stream", 7),
    ]
    builder = with_checksum(TableBuilder().commit(*born))

    found = read_version_from_checksum(open_at(builder.in_memory()))

    assert isinstance(found, VersionFromChecksum)
    document = found.as_json()
    assert (1_700_000_000_007, "inCommitTimestamp") == (document["timestampMs"], document["timestampSource"])
    assert ([{"domain": "d", "configuration": "{}"}], False) == (document["domains"], "transactions" in document)


@pytest.mark.parametrize(("fields", "expected"), [({}, 3), ({"numDeletionVectorsOpt": None}, 1), ({"txnId": "x"}, 1)])
def test_explain_counts_files_by_a_valid_checksum(fields: Json, expected: int) -> None:
    """
    Two files more than the log has, which the last commit does not contradict, tell where the number is from.
    """
    names = ["deletionVectors", "icebergCompatV3"]
    born = [protocol(3, 7, reader_features=names[:1], writer_features=names), metadata(), add("a.parquet", size=100)]
    stated = {"numFiles": 3, "numDeletionVectorsOpt": 0, "numDeletedRecordsOpt": 0, **fields}
    builder = with_checksum(TableBuilder().commit(*born).commit(commit_info()), **stated)

    found = open_at(builder.in_memory()).explain()

    assert {expected} == {out.files for out in found.ways_out if out.feature == "icebergCompatV3"}
