"""Spark verifies its checksum files when it reads a table on a disk: what deltacli leaves and says fits that."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.operations.validate.inspect_checksums import find_unfit_checksum
from deltacli.storage import LocalStorage
from tests.judges.answers import Comparison
from tests.judges.commands import deltacli, find_errors
from tests.judges.engines import require_jars, running_java
from tests.judges.spark import SparkJudge, copy_table, name_of
from tests.support.hadoop import checksum_content, checksum_file, orphaned_checksums, unfit_checksums, write_checksum

LOG = "_delta_log"
PROPERTIES = "'delta.enableDeletionVectors'='false', 'delta.checkpointInterval'='3'"
STATEMENTS = (
    "INSERT INTO {table} SELECT id, id * 10 FROM range(4)",
    "INSERT INTO {table} SELECT id, id * 10 FROM range(4, 8)",
    "DELETE FROM {table} WHERE id = 3",
    "UPDATE {table} SET v = -1 WHERE id = 7",
)
CHECKPOINT = 3

Act = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(spark: SparkJudge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of Spark with a checkpoint, tombstones and commits behind the checkpoint."""
    table = tmp_path_factory.mktemp("made") / "table"
    spark.create(table, "id INT, v INT", *STATEMENTS, properties=PROPERTIES)
    assert (table / LOG / f"{CHECKPOINT:020d}.checkpoint.parquet").exists()
    assert checksum_file(table / LOG / f"{CHECKPOINT:020d}.json").exists()
    return table


def _log_file(table: Path, name: str) -> Path:
    return table / LOG / name


def _newest(table: Path) -> int:
    return max(int(path.stem) for path in (table / LOG).glob("*.json") if path.stem.isdigit())


def _repair(table: Path) -> None:
    deltacli("repair", table, "--allow-in-use", "--yes", codes=(0, 1))


def _repair_checkpoint(table: Path) -> None:
    checkpoint = _log_file(table, f"{CHECKPOINT:020d}.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    _repair(table)


def _repair_commit(table: Path) -> None:
    commit = _log_file(table, f"{2:020d}.json")
    commit.write_bytes(commit.read_bytes()[:60])
    _repair(table)
    assert commit.read_bytes().endswith(b"\n")


def _repair_hint(table: Path) -> None:
    _log_file(table, "_last_checkpoint").write_text("{bad")
    _repair(table)


def _commit_over_an_old_checksum_file(table: Path) -> None:
    """The commit before was lost, and its checksum file is there."""
    write_checksum(_log_file(table, f"{_newest(table) + 1:020d}.json"), b"of a lost commit")
    deltacli("properties", table, "set", "x=1", "--yes")


def _expire(table: Path) -> None:
    deltacli("log", "expire", table, "--retention", "0s", "--allow-retention-below", "30d", "--yes")


def _move_away_and_back(table: Path) -> None:
    """A vacuum copies every file that only older versions need to a quarantine; undelete brings them back."""
    quarantine = table.with_name("quarantine")
    options = ("--retention", "0s", "--allow-retention-below", "7d", "--max-delete", "100%", "--yes")
    deltacli("vacuum", table, "--quarantine", quarantine, *options)
    deltacli("undelete", table, "--version", "2", "--from", quarantine, "--yes")


ACTS: dict[str, Act] = {
    "checkpoint": lambda table: deltacli("checkpoint", table),
    "checkpoint --force": lambda table: deltacli("checkpoint", table, "--version", str(CHECKPOINT), "--force"),
    "repair of a checkpoint": _repair_checkpoint,
    "repair of a commit": _repair_commit,
    "repair of the hint": _repair_hint,
    "log crc": lambda table: deltacli("log", "crc", table),
    "log compact": lambda table: deltacli("log", "compact", table, "--from", "1", "--to", "2"),
    "log expire": _expire,
    "a commit over an old checksum file": _commit_over_an_old_checksum_file,
    "optimize": lambda table: deltacli("optimize", table, "--yes"),
    "restore": lambda table: deltacli("restore", table, "--version", "2", "--yes"),
    "moved away and back": _move_away_and_back,
}


@pytest.mark.parametrize("name", ACTS, ids=lambda name: name.replace(" ", "-"))
def test_spark_reads_and_writes_afterwards(name: str, spark: SparkJudge, tables: Path, made: Path) -> None:
    table = copy_table(made, tables / "table")
    expected = spark.rows(made)
    if name == "restore":
        expected = sorted((tuple(row) for row in spark.sql(f"SELECT * FROM {name_of(made)} VERSION AS OF 2")), key=repr)

    ACTS[name](table)

    with Comparison(f"hadoop/{name}") as compared:
        compared.equal("files that Hadoop does not read", [], unfit_checksums(table))
        compared.equal("checksum files without a file", [], orphaned_checksums(table))
        asked = copy_table(table, tables / "asked")
        compared.equal("rows", expected, spark.rows(asked))
        if name != "log expire":
            compared.equal("history", True, len(spark.sql(f"DESCRIBE HISTORY {name_of(asked)}")) >= _newest(made) + 1)
            past = spark.outcome(f"SELECT count(*) FROM {name_of(asked)} VERSION AS OF 2")
            compared.equal("rows of version 2", [(8,)], past if isinstance(past, str) else [tuple(past[0])])
        spark.run(asked, "UPDATE {table} SET v = 1 WHERE id = 1")
        compared.equal("rows after an update", len(expected), len(spark.rows(asked)))


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "fits": checksum_content,
    "of other bytes": lambda data: checksum_content(data[::-1]),
    "of other bytes at the end": lambda data: checksum_content(data[:-1] + bytes([data[-1] ^ 1])),
    "cut off by a byte": lambda data: checksum_content(data)[:-1],
    "cut off by a checksum": lambda data: checksum_content(data)[:-4],
    "longer by a checksum": lambda data: checksum_content(data) + b"\0\0\0\0",
    "longer by a byte": lambda data: checksum_content(data) + b"\0",
    "with another header": lambda data: b"crc\1" + checksum_content(data[::-1])[4:],
    "empty": lambda _: b"",
    "with chunks of another size": lambda data: _in_chunks(data, 100),
    "with chunks of another size of other bytes": lambda data: _in_chunks(data[::-1], 100),
}
SIZES = (1, 300, 512, 513, 1500, 70_000)


def _in_chunks(data: bytes, size: int) -> bytes:
    """Return a checksum file with chunks of another size, which is a setting of Hadoop."""
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    return b"crc\0" + struct.pack(">I", size) + b"".join(checksum_content(chunk)[8:] for chunk in chunks)


def test_validate_says_what_hadoop_does_not_read(tmp_path: Path) -> None:
    """Hadoop's own file system reads each file to its end, with each form of checksum file."""
    storage = LocalStorage(str(tmp_path))
    with running_java(require_jars("hadoop-")) as jvm, Comparison("hadoop/forms") as compared:
        hadoop = jvm.org.apache.hadoop.fs.FileSystem.getLocal(jvm.org.apache.hadoop.conf.Configuration())
        for size in SIZES:
            file = tmp_path / f"file-{size}"
            file.write_bytes(random.Random(size).randbytes(size))
            for form, content in FORMS.items():
                checksum = checksum_file(file)
                checksum.write_bytes(content(file.read_bytes()))
                expected = _is_read(jvm, hadoop, file)
                for is_whole in (True, False):
                    unfit = find_unfit_checksum(storage, checksum.name, is_whole=is_whole)
                    compared.equal(f"{size} bytes, {form}, {is_whole}", expected, unfit is None)


def _is_read(jvm: Any, hadoop: Any, file: Path) -> bool:  # Any: objects of Java
    """Return whether Hadoop reads a file without a ChecksumException."""
    try:
        stream = hadoop.open(jvm.org.apache.hadoop.fs.Path(str(file)))
        jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, jvm.java.io.ByteArrayOutputStream(), 4096, True)
    except Exception as error:
        if "ChecksumException" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("file", ["newest commit", "checkpoint", "data file"], ids=lambda name: name.replace(" ", "-"))
def test_repair_lets_spark_read_a_table_again(file: str, spark: SparkJudge, tables: Path, made: Path) -> None:
    table = copy_table(made, tables / "table")
    path = _file_of(table, file)
    write_checksum(path, b"other" + path.read_bytes())

    with Comparison(f"hadoop/{file}") as compared:
        asked = copy_table(table, tables / "asked")
        compared.equal("Spark fails", True, isinstance(spark.outcome(f"SELECT * FROM {name_of(asked)}"), str))
        compared.equal("validate", ["storage.hadoop-checksum"], find_errors(table))
        deltacli("repair", table, "--yes", codes=(0, 1))
        compared.equal("rows after repair", spark.rows(made), spark.rows(table))


def _file_of(table: Path, what: str) -> Path:
    if what == "newest commit":
        return _log_file(table, f"{_newest(table):020d}.json")
    if what == "checkpoint":
        return _log_file(table, f"{CHECKPOINT:020d}.checkpoint.parquet")
    return max(table.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
