"""A copy that dies before a call: the target is no table yet or a readable one, and the next run ends the work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.operations.copy.note import read_note
from deltacli.storage import LocalStorage, Storage
from tests.operations.copy.tables import SHAPES, absolute, copy, files_of, require_readable, rows_of, versions_of
from tests.support.effort import InTurn
from tests.support.faulty import Fault
from tests.support.in_memory import MemoryStorage
from tests.support.vacuuming import Killed, MortalStorage

CALLS = ("link", "unlink", "mkdir", "replace", "fsync", "utime", "copy_file_range", "open")


def die_at(call: int, run: Callable[[], object]) -> int | None:
    """Run in another process that is gone before its `call`-th call of the system that changes a disk; return how many
    it made where it came to its end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        return int(told) if told else None
    made = 0

    def counted(original: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal made
            if original is not real_open or arguments[1] & os.O_CREAT:
                made += 1
                if made == call:
                    os._exit(9)
            return original(*arguments, **options)

        return step

    real_open = os.open
    try:
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        run()
        os.write(writing, str(made).encode())
    finally:
        os._exit(1)


@pytest.mark.parametrize(("shape", "is_replica"), [*product(SHAPES, (True, False)), ("absolute", False)])
def test_on_a_disk_a_copy_that_dies_is_readable_or_no_table_and_is_ended_by_the_next(
    shape: str, is_replica: bool, tmp_path: Path, in_turn: InTurn
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (absolute if shape == "absolute" else SHAPES[shape])(source)
    expected = rows_of(open_table(source), versions_of(source))
    calls = die_at(0, lambda: copy(source, tmp_path / "counted", replica=is_replica))
    assert calls is not None
    assert calls > 40

    for call in in_turn(range(1, calls + 1), 24):
        assert die_at(call, lambda: copy(source, target, replica=is_replica)) is None
        require_readable(open_table(target), expected)
        times = {path: path.stat().st_ino for path in target.rglob("*.parquet")}
        copy_again(source, target, is_replica=is_replica)
        assert require_readable(open_table(target), expected)
        assert times.items() <= {path: path.stat().st_ino for path in target.rglob("*.parquet")}.items()
        assert [] == list(target.rglob(".*"))
        if is_replica:
            left_out = "_last_checkpoint" if shape == "checkpoint" else "checkpoint" if shape == "parts" else "none"
            kept = {path: data for path, data in files_of(source).items() if left_out not in path}
            assert kept.items() <= files_of(target).items()
        shutil.rmtree(target)


def copy_again(source: Path, target: Path, *, is_replica: bool) -> None:
    """End a copy, unless it had ended."""
    note = read_note(LocalStorage(str(target)))
    if not is_replica and note is not None and note.is_complete:
        return
    copy(source, target, replica=is_replica)


@pytest.mark.parametrize("shape", SHAPES)
def test_on_a_store_a_copy_that_dies_is_readable_or_no_table_and_is_ended_by_the_next(
    shape: str, tmp_path: Path, in_turn: InTurn
) -> None:
    source = tmp_path / "source"
    SHAPES[shape](source)
    expected = rows_of(open_table(source), versions_of(source))
    counting = MortalStorage(cast("Storage", MemoryStorage()), dies=True)
    copy(source, counting, replica=True)

    for call in in_turn(range(1, len(counting.calls) + 1), 16):
        for fault in (Fault.KILLED_BEFORE, Fault.KILLED_AFTER):
            memory = cast("Storage", MemoryStorage())
            with suppress(Killed):
                copy(source, MortalStorage(memory, call, fault, dies=True), replica=True)
            require_readable(Table(memory), expected)
            sent = MortalStorage(memory, dies=True)
            before = {path for path in cast("Any", memory)._files if path.endswith((".parquet", ".bin", ".json"))}
            copy(source, sent, replica=True)
            assert require_readable(Table(memory), expected)
            again = {path for verb, path in sent.calls if verb in ("put_if_absent", "publish")} & before
            assert set() == again
