"""Memory that is refused: an error of its own, never a verdict on the bytes that were being read."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.core.errors import CheckpointUnreadable, MemoryExhausted
from deltacli.core.memory import is_out_of_memory, raise_if_out_of_memory
from tests.support.actions import add, birth
from tests.support.builder import TableBuilder
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at

REFUSED = pa.ArrowMemoryError("malloc of size 4194304 failed")
ABSURD = pa.ArrowMemoryError(f"malloc of size {1 << 60} failed")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are enforced on Linux")


class _RefusingFile(io.BytesIO):
    """A file whose bytes find no room."""

    def __init__(self, data: bytes, fault: BaseException) -> None:
        super().__init__(data)
        self._fault = fault

    def read(self, _size: int | None = -1, /) -> bytes:
        raise self._fault


class RefusingStorage(MemoryStorage):
    """A store in which opening Parquet files runs out of memory."""

    fault: BaseException

    def open(self, path: str) -> Any:  # Any: a binary file
        if path.endswith(".parquet"):
            return _RefusingFile(self.read(path), self.fault)
        return super().open(path)


def refusing(fault: BaseException) -> RefusingStorage:
    """A table of three commits and a checkpoint of the second, whose versions can be had without the checkpoint."""
    builder = TableBuilder().commits(3).checkpoint(1)
    storage = RefusingStorage()
    storage.fault = fault
    for path, file in builder.files.items():
        storage.write(path, file.data, modified_ms=file.modified_ms)
    return storage


@pytest.mark.parametrize("fault", [REFUSED, MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")], ids=repr)
def test_a_checkpoint_is_never_set_aside_for_want_of_memory(fault: BaseException) -> None:
    storage = refusing(fault)

    with pytest.raises(MemoryExhausted) as raised:
        open_at(storage).snapshot().counts()

    assert ("memory.exhausted", 7) == (raised.value.code, raised.value.exit_code)


def test_a_checkpoint_that_asks_for_an_absurd_amount_is_damaged() -> None:
    snapshot = open_at(refusing(ABSURD)).snapshot()

    assert 2 == snapshot.counts()[0].count
    assert ["checkpoint.unreadable"] == [str(problem) for problem in snapshot.problems]


@pytest.mark.parametrize("level", ["log", "storage"])
def test_validate_reports_no_finding_for_want_of_memory(level: str) -> None:
    with pytest.raises(MemoryExhausted):
        open_at(refusing(REFUSED)).validate(level=level)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (REFUSED, True),
        (ABSURD, False),
        (MemoryError(), True),
        (MemoryExhausted("not enough memory"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("libarrow.so.2600: failed to map segment from shared object"), True),
        (OSError("Couldn't deserialize thrift: no more data"), False),
        (pa.ArrowInvalid("the column bad_alloc"), False),
        (KeyError("malloc of size 4194304 failed"), False),
    ],
    ids=repr,
)
def test_memory_errors_are_distinguished_from_invalid_bytes(fault: BaseException, *, expected: bool) -> None:
    assert expected == is_out_of_memory(fault)


def test_an_error_of_invalid_bytes_does_not_end_the_run() -> None:
    raise_if_out_of_memory(CheckpointUnreadable("damaged"))


def limited(limit_bytes: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command within a limit of its address space, and with the allocator that it chooses there."""
    limiting = f'ulimit -v {limit_bytes // 1024} && exec "$@"'
    return subprocess.run(
        ["sh", "-c", limiting, "sh", sys.executable, "-m", "deltacli", *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"},
        capture_output=True,
        text=True,
        check=False,
    )


@LINUX
def test_a_limit_that_is_too_low_is_reported_at_the_start(tmp_path: Path) -> None:
    table = TableBuilder().commits(3).write(tmp_path)

    run = limited(200_000_000, "snapshot", table, "--json")

    assert 7 == run.returncode
    error = json.loads(run.stderr)
    assert ("memory.exhausted", "not enough memory") == (error["code"], error["message"])
    assert {"limit": "190.7 MiB of address space (ulimit -v)", "needed": "at least 250.0 MiB"}.items() <= (
        error["details"].items()
    )


@LINUX
def test_a_command_that_needs_no_pyarrow_runs_within_a_low_memory_limit(tmp_path: Path) -> None:
    table = TableBuilder().commits(3).write(tmp_path)

    run = limited(120_000_000, "history", table)

    assert (0, "") == (run.returncode, run.stderr)


@LINUX
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("snapshot", 0),
        pytest.param("checkpoint --force --stats both", 0, marks=pytest.mark.long),
        pytest.param("vacuum --dry-run", 4, marks=pytest.mark.long),
        pytest.param("validate", 0, marks=pytest.mark.long),
    ],
)
def test_tables_of_some_size_fit_within_450_megabytes(tmp_path: Path, command: str, code: int) -> None:
    """
    Arenas and stacks of threads took the addresses: these commands ended in an abort, or in a damaged checkpoint. A
    table without its files is refused by vacuum.
    """
    stats = json.dumps({"numRecords": 1, "minValues": {"text": "a" * 200}, "maxValues": {"text": "b" * 200}})
    adds = [add(f"part-{number:06d}.parquet", size=1, stats=stats) for number in range(40_000)]
    table = TableBuilder().commit(*birth(), *adds).write(tmp_path)
    assert 0 == limited(1 << 40, "checkpoint", table).returncode
    name, *options = command.split()

    run = limited(450_000_000, name, table, *options)

    assert code == run.returncode, run.stderr
