"""A copy that dies before a call: the target is no table yet or a readable one, and the next run ends the work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.operations.copy.note import NOTE_PATH, read_note
from deltacli.storage import LocalStorage, Storage, open_storage
from tests.operations.copy.states import States, names_in
from tests.operations.copy.tables import SHAPES, absolute, copy, files_of, require_readable, rows_of, versions_of
from tests.support.azurite import PROGRAM, Azurite
from tests.support.builder import HINT
from tests.support.effort import InTurn
from tests.support.faulty import Fault
from tests.support.gcs import GcsServer
from tests.support.in_memory import MemoryStorage
from tests.support.killing import Killer
from tests.support.relay import Relay
from tests.support.s3 import S3Server
from tests.support.vacuuming import Killed, MortalStorage

CALLS = ("link", "unlink", "mkdir", "replace", "fsync", "utime", "copy_file_range", "open")


REPLACED = (NOTE_PATH, HINT)


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


@pytest.mark.halved
@pytest.mark.parametrize(("shape", "is_replica"), [*product(SHAPES, (True, False)), ("absolute", False)])
def test_on_a_disk_a_copy_that_dies_is_readable_or_no_table_and_is_ended_by_the_next(
    shape: str, is_replica: bool, tmp_path: Path, in_turn: InTurn
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (absolute if shape == "absolute" else SHAPES[shape])(source)
    expected = rows_of(open_table(source), versions_of(source))
    states = States(tmp_path / "states", expected)
    calls = die_at(0, lambda: copy(source, tmp_path / "counted", replica=is_replica))
    assert calls is not None
    assert calls > 40

    for call in in_turn(range(1, calls + 1), 24):
        assert die_at(call, lambda: copy(source, target, replica=is_replica)) is None
        if target.exists():
            states.look(LocalStorage(str(target)))
        times = {path: path.stat().st_ino for path in target.rglob("*.parquet")}
        copy_again(source, target, is_replica=is_replica)
        assert require_readable(open_table(target), expected)
        assert times.items() <= {path: path.stat().st_ino for path in target.rglob("*.parquet")}.items()
        assert [] == list(target.rglob(".*"))
        if is_replica:
            left_out = {"whole": "none", "parts": "checkpoint"}.get(shape, "_last_checkpoint")
            kept = {path: data for path, data in files_of(source).items() if left_out not in path}
            assert kept.items() <= files_of(target).items()
        shutil.rmtree(target)
    states.ask_peers()


def copy_again(source: Path | str, target: Path | Storage, *, is_replica: bool) -> None:
    """End a copy, unless it had ended."""
    note = read_note(LocalStorage(str(target)) if isinstance(target, Path) else target)
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


Requests = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def clouds(request: pytest.FixtureRequest) -> Callable[[str], tuple[str, Requests]]:
    """What leads to a place in a store, and the method and the target of each request that it has got."""

    def place(store: str) -> tuple[str, Requests]:
        match store:
            case "s3":
                s3: S3Server = request.getfixturevalue("s3")
                return f"s3://{s3.make_bucket()}", lambda: [(one[0], one[1]) for one in s3.requests]
            case "gcs":
                gcs: GcsServer = request.getfixturevalue("gcs")
                return f"gs://{gcs.make_bucket()}", lambda: [one[:2] for one in gcs.requests]
        emulator: Azurite = request.getfixturevalue("own_azurite")
        relay = Relay(emulator.url)
        request.addfinalizer(relay.stop)
        for name, value in Azurite(relay.url).environment.items():
            request.getfixturevalue("monkeypatch").setenv(name, value)
        return f"az://{emulator.make_container()}", lambda: [one[:2] for one in relay.requests]

    return place


@pytest.mark.long
@pytest.mark.quartered
@pytest.mark.parametrize("is_replica", [True, False])
@pytest.mark.parametrize("origin", ["disk", "same store"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("store", ["s3", "gcs", *(["azurite"] if PROGRAM else [])])
def test_a_copy_that_dies_before_a_request_is_readable_or_no_table_and_nothing_is_sent_twice(
    store: str,
    shape: str,
    origin: str,
    is_replica: bool,
    clouds: Callable[[str], tuple[str, Requests]],
    tmp_path: Path,
    in_turn: InTurn,
) -> None:
    SHAPES[shape](tmp_path / "source")
    expected = rows_of(open_table(tmp_path / "source"), versions_of(tmp_path / "source"))
    root, requests = clouds(store)
    source = str(tmp_path / "source") if origin == "disk" else f"{root}/source"
    if origin != "disk":
        copy(tmp_path / "source", open_storage(source), replica=True)
    states, killer = States(tmp_path / "states", expected), Killer(root, "copy")
    try:
        count = int(killer.run(-1, source=source, target=f"{root}/whole", replica=is_replica))
        whole = names_in(open_storage(f"{root}/whole"))
        assert count > 20
        for at in in_turn(range(count), 32):
            target = open_storage(f"{root}/target-{at}")
            assert "killed" == killer.run(at, source=source, target=target.uri, replica=is_replica)
            there, begun = states.look(target), len(requests())
            copy_again(source, target, is_replica=is_replica)
            sent = [unquote(asked) for method, asked in requests()[begun:] if method in ("PUT", "POST")]
            known = [f"target-{at}/{path}" for path, _ in there if path not in REPLACED]
            assert [] == [path for path in known if any(path in one for one in sent)]
            assert require_readable(open_table(target.uri), expected)
            # A run that dies between the checkpoint that it begins with and the hint to that leaves no hint.
            assert {*whole} - {*names_in(target)} <= {HINT}
            assert {*names_in(target)} <= {*whole}
        states.ask_peers()
    finally:
        killer.stop()
