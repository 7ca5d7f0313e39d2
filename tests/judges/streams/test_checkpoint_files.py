"""Damaged files of a checkpoint directory: those that Spark reads at every start end the query, others do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge
from tests.judges.streams.conftest import Walk
from tests.judges.streams.known import KNOWN
from tests.judges.streams.queries import Queries, copy_checkpoint, remove_batch_file
from tests.judges.streams.verdicts import delete_unneeded_files, streams, verdict_of

WRITTEN = b'v1\n{"nextBatchWatermarkMs":0}'

COMMIT_FILES = {
    "as written": WRITTEN,
    "empty": b"",
    "line end": b"\n",
    "NUL": b"\0\0\0",
    "format only": b"v1",
    "format and line end": b"v1\n",
    "empty second line": b"v1\n\n",
    "blank second line": b"v1\n  ",
    "NUL in the second line": b"v1\n" + b"\0" * 20,
    "spaces around the format": b" v1 \n{}",
    "NUL after the format": b"v1\0\n{}",
    "large V": b"V1\n{}",
    "v01": b"v01\n{}",
    "v+1": b"v+1\n{}",
    "v0": b"v0\n{}",
    "v-1": b"v-1\n{}",
    "v only": b"v",
    "no v": b"1\n{}",
    "v2": b"v2\n{}",
    "v3": b"v3\n{}",
    "v9": b"v9\n{}",
    "a number that is too long": b"v99999999999\n{}",
    "text after the format": b"v1 x\n{}",
    "byte order mark": b"\xef\xbb\xbfv1\n{}",
    "without a format": b'{"nextBatchWatermarkMs":0}',
    "cut in a name": b'v1\n{"next',
    "cut before a value": b'v1\n{"nextBatchWatermarkMs":',
    "cut after a value": WRITTEN[:-1],
    "text behind": WRITTEN + b"x",
    "NUL behind": WRITTEN + b"\0\0\0",
    "third line": WRITTEN + b"\nx",
    "carriage returns": WRITTEN.replace(b"\n", b"\r\n") + b"\r\n",
    "carriage return only": WRITTEN.replace(b"\n", b"\r"),
    "line end in the object": b'v1\n{"nextBatchWatermarkMs":\n0}',
    "watermark as text": b'v1\n{"nextBatchWatermarkMs":"5"}',
    "watermark true": b'v1\n{"nextBatchWatermarkMs":true}',
    "watermark null": b'v1\n{"nextBatchWatermarkMs":null}',
    "watermark with a fraction": b'v1\n{"nextBatchWatermarkMs":1.5}',
    "watermark below 0": b'v1\n{"nextBatchWatermarkMs":-5}',
    "watermark NaN": b'v1\n{"nextBatchWatermarkMs":NaN}',
    "watermark with zeros before": b'v1\n{"nextBatchWatermarkMs":01}',
    "watermark twice": b'v1\n{"nextBatchWatermarkMs":0,"nextBatchWatermarkMs":0}',
    "other field": b'v1\n{"other":{"a":[1]}}',
    "comma at the end": b'v1\n{"nextBatchWatermarkMs":0,}',
    "single quotes": b"v1\n{'nextBatchWatermarkMs':0}",
    "control character": b'v1\n{"a":"\t"}',
    "not UTF-8": b'v1\n{"a":"\xff"}',
    "list": b"v1\n[]",
    "number": b"v1\n3",
    "text": b'v1\n"a"',
}
"""Contents of the newest file of `commits`, by what is odd about them."""


def test_the_newest_commit_file_is_read_as_spark_reads_it(walk: Walk, spark: SparkJudge, tables: Path) -> None:
    """A query of Spark reads the file with the class that is asked here, which saves a restart for each content."""
    is_read: dict[str, bool] = {}
    for name, content in COMMIT_FILES.items():
        checkpoint = copy_checkpoint(walk.states / "finished-4", tables / name)
        (checkpoint / "commits" / "4").write_bytes(content)
        is_read[name] = _can_read_newest_commit(spark.session, checkpoint / "commits")

    queries = streams(walk.table, f"{tables}/*")

    with Comparison("commit files", KNOWN) as comparison:
        for name in COMMIT_FILES:
            query = queries[name]
            comparison.equal(name, "ok" if is_read[name] else "dead", query["verdict"])
            comparison.equal(f"{name}: batch", 4 if query["verdict"] == "ok" else 3, query["batch"])


def _can_read_newest_commit(session: Any, directory: Path) -> bool:  # Any: a SparkSession
    log = session._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CommitLog
    try:
        log(session._jsparkSession, str(directory)).getLatest()
    except Exception:  # noqa: BLE001  (whatever it raises ends a query)
        return False
    return True


def _write(path: str, content: bytes) -> Callable[[Path], object]:
    return lambda checkpoint: (checkpoint / path).write_bytes(content)


def _cut(path: str, count: int) -> Callable[[Path], object]:
    return lambda checkpoint: (checkpoint / path).write_bytes((checkpoint / path).read_bytes()[:-count])


def _extend(path: str, content: bytes) -> Callable[[Path], object]:
    return lambda checkpoint: (checkpoint / path).write_bytes((checkpoint / path).read_bytes() + content)


def _blank(path: str, count: int) -> Callable[[Path], object]:
    """Return a damage after which the last characters are NUL, as if the file had grown without being written."""
    return lambda checkpoint: (checkpoint / path).write_bytes((checkpoint / path).read_bytes()[:-count] + b"\0" * count)


def _rename(path: str, other: str) -> Callable[[Path], object]:
    return lambda checkpoint: (checkpoint / path).rename(checkpoint / other)


def _remove(path: str) -> Callable[[Path], object]:
    return lambda checkpoint: remove_batch_file(checkpoint, path)


def _replace_by_directory(checkpoint: Path) -> None:
    remove_batch_file(checkpoint, "commits/4")
    (checkpoint / "commits" / "4").mkdir()


def _write_source(checkpoint: Path) -> None:
    (checkpoint / "sources" / "0").mkdir(parents=True)
    (checkpoint / "sources" / "0" / "0").write_bytes(b"")


def _empty_commit_before_batch_in_flight(checkpoint: Path) -> None:
    remove_batch_file(checkpoint, "commits/4")
    (checkpoint / "commits" / "3").write_bytes(b"")


DAMAGES = {
    "newest commit empty": _write("commits/4", b""),
    "newest commit cut": _write("commits/4", b'v1\n{"next'),
    "newest commit null": _write("commits/4", b"v1\nnull"),
    "newest commit of format 9": _write("commits/4", b"v9\n{}"),
    "newest commit with format only": _write("commits/4", b"v1"),
    "newest commit with NUL behind": _extend("commits/4", b"\0\0\0"),
    "newest commit misnamed": _rename("commits/4", "commits/04"),
    "newest commit is a directory": _replace_by_directory,
    "newest commit gone": _remove("commits/4"),
    "newest commit gone, last empty": _empty_commit_before_batch_in_flight,
    "older commit empty": _write("commits/3", b""),
    "file of a source": _write_source,
    "temporary commit": _write("commits/.5.0a0a0a0a.tmp", b""),
    "newest offsets empty": _write("offsets/4", b""),
    "newest offsets cut in the last line": _cut("offsets/4", 5),
    "offsets before cut in the last line": _cut("offsets/3", 5),
    "newest offsets with text behind the last line": _extend("offsets/4", b"more"),
    "newest offsets with NUL characters behind": _extend("offsets/4", b"\0" * 20),
    "newest offsets with NUL characters within": _blank("offsets/4", 20),
    "newest offsets misnamed": _rename("offsets/4", "offsets/04"),
    "newest offsets gone": _remove("offsets/4"),
    "older offsets empty": _write("offsets/2", b""),
    "metadata empty": _write("metadata", b""),
    "metadata cut": _cut("metadata", 5),
    "metadata without an id": _write("metadata", b"{}"),
    "metadata gone": _remove("metadata"),
    "checksum of a later commit": _write("commits/.5.crc", b"crc\0\0\0\2\0"),
    "checksum of later offsets": _write("offsets/.5.crc", b"crc\0\0\0\2\0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file(damage: str, walk: Walk, queries: Queries, tables: Path) -> None:
    checkpoint = walk.state("finished-4", tables)
    DAMAGES[damage](checkpoint)

    verdict = verdict_of(walk.table, checkpoint)
    outcome = queries.restart(walk.table, checkpoint)

    with Comparison(f"damage/{damage}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


@pytest.mark.parametrize("content", [b"", b'v1\n{"next', b"v9\n{}"], ids=["empty", "cut", "format 9"])
def test_the_files_of_a_batch_are_kept_while_its_commit_file_cannot_be_read(
    content: bytes, walk: Walk, queries: Queries, tables: Path
) -> None:
    """The only cure is to delete the commit file: Spark runs the batch again, whose files an OPTIMIZE has removed."""
    table, checkpoint = walk.copy_table(tables), walk.state("finished-5", tables)
    (checkpoint / "commits" / "5").write_bytes(content)

    refused = deltacli("vacuum", table, "--protect-streams", checkpoint, "--dry-run", codes=(4,))
    remove_batch_file(checkpoint, "commits/5")
    delete_unneeded_files(table, checkpoint)
    run = queries.run(table, checkpoint)

    with Comparison("cure/delete the commit file", KNOWN) as comparison:
        comparison.equal("code", True, "streams.not-protected" in refused.stderr)
        comparison.equal("error", "", run.error)
        comparison.equal("rows", walk.rows_after("in-flight-5"), run.rows)


def test_the_checksum_of_a_deleted_commit_file_ends_the_next_start(walk: Walk, queries: Queries, tables: Path) -> None:
    """So `streams` names both files that have to be deleted."""
    checkpoint = walk.state("finished-5", tables)
    (checkpoint / "commits" / "5").write_bytes(b"")
    because = streams(walk.table, checkpoint)["finished-5"]["because"]

    (checkpoint / "commits" / "5").unlink()
    outcome = queries.restart(walk.table, checkpoint)

    with Comparison("cure/leave the checksum", KNOWN) as comparison:
        comparison.equal("outcome", "at-risk", outcome.verdict)
        comparison.equal("names both", True, "commits/5 and commits/.5.crc" in because)
