"""`checkpoint` that is killed at any of its storage calls: the table is readable before and after it is run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltacli.operations.checkpoint.checkpoint import CheckpointRequest
from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints
from deltacli.storage import LocalStorage
from tests.cli.support import ROOT
from tests.support.builder import TableBuilder
from tests.support.checkpointing import FORMS, Form, any_form_table, expired, write
from tests.support.faulty import Fault
from tests.support.reading import NOW_MS, open_at, state_document

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals that kill here")

KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)


def run_and_die(place: Path, at: int, fault: Fault, form: Form) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.faulty", str(place), str(at), fault, json.dumps(form.request())]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def check_state(place: Path, builder: TableBuilder) -> None:
    state = builder.states[-1]
    table = open_at(LocalStorage(str(place)))
    assert state_document(table) in [found.document(now_ms=NOW_MS) for found in (state, expired(state))]
    assert {"checkpoint.multipart-incomplete"} >= set(table.snapshot().problems)
    assert {CheckpointVerdict.AGREES} >= {found.verdict for found in verify_checkpoints(table)}


def check_killed(place: Path, at: int, fault: Fault, form: Form) -> None:
    builder = any_form_table(form)
    builder.write(place)

    done = run_and_die(place, at, fault, form)

    assert -9 == done.returncode, done.stderr
    check_state(place, builder)
    result = write(open_at(LocalStorage(str(place))), CheckpointRequest(**form.request()))
    assert builder.newest == result.hint_version
    check_state(place, builder)
    assert builder.newest == open_at(LocalStorage(str(place))).snapshot().segment.checkpoint.version  # type: ignore[union-attr]


def call_count(place: Path, form: Form) -> int:
    any_form_table(form).write(place)
    return int(run_and_die(place, 0, Fault.BEFORE, form).stdout)


def kills(places: Iterator[Path], count: int, form: Form) -> None:
    """Each in a table of its own, a few at a time."""
    cases = [(next(places), at, fault, form) for at in range(1, count + 1) for fault in KILLS]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: check_killed(*case), cases))


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_kill_at_any_call(form: Form, tmp_path: Path) -> None:
    count = call_count(tmp_path / "whole", form)

    kills((tmp_path / str(number) for number in range(1_000)), count, form)

    assert count >= 5


def test_a_kill_around_publishing_and_around_the_hint(tmp_path: Path) -> None:
    """The calls that matter most, of the plainest form: begin, publish, stat, reading the hint, writing it."""
    count = call_count(tmp_path / "whole", FORMS[0])
    wanted = [(2, Fault.KILLED_AFTER), (count, Fault.KILLED_BEFORE)]

    for number, (at, fault) in enumerate(wanted):
        check_killed(tmp_path / str(number), at, fault, FORMS[0])
