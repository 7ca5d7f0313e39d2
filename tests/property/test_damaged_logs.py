"""Random damages of a log: never a crash, and never silence where the replayed state is another one."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.read.snapshot import summarize
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.choice import CHECK_CRASHED
from deltacli.storage import open_storage
from tests.rules.table_builder import NOW_MS, TableBuilder
from tests.support.effort import examples
from tests.support.validating import validate_table

Change = Callable[[bytes, random.Random], bytes]


def flip_a_byte(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def cut_off(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def change_a_digit(data: bytes, chance: random.Random) -> bytes:
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return data
    at = chance.choice(digits)
    return data[:at] + bytes([48 + chance.randrange(10)]) + data[at + 1 :]


def swap_two_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def double_a_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    return b"\n".join([*lines[:at], lines[at], *lines[at:]])


def drop_a_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[chance.randrange(len(lines))]
    return b"\n".join(lines)


CHANGES: tuple[Change, ...] = (flip_a_byte, cut_off, change_a_digit, swap_two_lines, double_a_line, drop_a_line)


def state_of(root: Path) -> Any:  # Any: what can be compared of a state, or the error
    """What replay makes of a table: files, sizes, protocol, metadata, transactions. Record counts and statistics are
    left out: whether they are true only the data files know.
    """
    table = Table(open_storage(str(root)), clock=lambda: NOW_MS)
    try:
        document = summarize(table, digest=True, now_ms=NOW_MS).as_json()
    except DeltacliError as fault:
        return fault.code
    files = {name: document["files"][name] for name in ("count", "sizeBytes", "keysSha256")}
    kept = {name: document[name] for name in ("version", "protocol", "metadata", "transactions", "domains")}
    return kept | files


def inspect(root: Path) -> Validation:
    return validate_table(open_storage(str(root)), EmbeddedEngine(), level="storage", now_ms=NOW_MS)


@examples(30)
@given(seed=st.integers(0, 2**32), change=st.sampled_from(CHANGES), times=st.integers(1, 3))
def test_a_damaged_log_is_reported(seed: int, change: Change, times: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as directory:
        table = TableBuilder()
        table.commit(table.new_add("c", 7, 4), {"txn": {"appId": "loader", "version": 7}})
        root = table.write(Path(directory, "t"))
        before = state_of(root)
        target = chance.choice(sorted(path for path in (root / "_delta_log").iterdir() if path.is_file()))
        stat = target.stat()
        data = target.read_bytes()
        for _ in range(times):
            data = change(data, chance) if data else data
        target.write_bytes(data)
        os.utime(target, ns=(stat.st_mtime_ns, stat.st_mtime_ns))

        found = inspect(root)
        after = state_of(root)
        shutil.rmtree(root)

    crashed = [finding.message for finding in found.findings if finding.rule is CHECK_CRASHED]
    assert [] == crashed
    assert before == after or found.findings, (target.name, change.__name__, before, after)
