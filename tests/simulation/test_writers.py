"""What the model writers write, other engines read as the oracle does, and it breaks no invariant."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.storage.outcomes import Creation
from tests.differential.test_rows import PEERS
from tests.simulation.oracle import Oracle
from tests.simulation.past import make_past
from tests.simulation.promises import Answer
from tests.simulation.quiet import Quiet, QuietTree
from tests.simulation.reading import Rows, has_feature, is_mapped, row_of
from tests.simulation.stored import PROPERTIES
from tests.simulation.writers import DAY_MS, Writer
from tests.support.builder import TableBuilder
from tests.support.model import State
from tests.support.peers import ENVIRONMENT_VARIABLE, Task, ask_for_rows, has_peer, peer_python

DIFFERENCES: dict[str, Callable[[State], bool]] = {
    "deltalake": lambda state: has_feature(state, "typeWidening"),  # it refuses the feature
    "duckdb": lambda state: is_mapped(state) and bool((state.metadata or {})["partitionColumns"]),  # it reads nulls
}


class Crash(BaseException):
    """The writer ends here."""


class Interrupted(QuietTree):
    """A store in which something happens before a call that writes."""

    def __init__(self, schedule: Quiet) -> None:
        super().__init__(schedule)
        self.calls, self.at, self.happens = 0, -1, self.crash

    def crash(self) -> None:
        raise Crash

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self._step()
        super().put(path, data, modified_ms=modified_ms)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        self._step()
        return super().put_if_absent(path, data, modified_ms=modified_ms)

    def _step(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.happens()


def a_table(features: tuple[str, ...] = (), seed: int = 1) -> tuple[Interrupted, Writer, Oracle]:
    """A table with two files, a writer, and the oracle."""
    time = Quiet(seed)
    tree = Interrupted(time)
    oracle = Oracle(tree, time.now_ms)
    tree.watchers.append(oracle)
    writer = Writer(time, tree, random.Random(seed), witness=oracle)
    writer.create(features)
    writer.append()
    tree.calls = 0
    return tree, writer, oracle


@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_the_rows_that_the_oracle_knows(peer: str, tmp_path: Path) -> None:
    python = peer_python()
    if python is None or not has_peer(python, peer):
        pytest.skip(f"no {peer}: {ENVIRONMENT_VARIABLE} names no interpreter that has it")
    expected: dict[str, Rows] = {}
    tasks = []
    for seed in range(16):
        past = make_past(random.Random(seed))
        time = Quiet(now_ms=past.now_ms)
        oracle = Oracle(QuietTree(time, past.files), time.now_ms)
        if not DIFFERENCES[peer](oracle.truth[oracle.newest].state):
            builder = TableBuilder()
            builder.files = dict(past.files)
            place = builder.write(tmp_path / str(seed))
            tasks.append(Task(str(seed), str(place), oracle.newest))
            expected[str(seed)] = oracle.rows(oracle.newest)

    answers = ask_for_rows(python, PEERS[peer], tasks, tmp_path)

    assert [] == [one.refusal for one in answers if one.place is None]
    assert expected == {one.task.table: rows_in(one.place) for one in answers if one.place is not None}


def rows_in(place: Path) -> Rows:
    """The rows of an Arrow file."""
    with pa.OSFile(str(place)) as source:
        return Counter(row_of(row) for row in pa.ipc.open_file(source).read_all().to_pylist())


@pytest.mark.parametrize("seed", range(12))
def test_writers_break_no_invariant(seed: int) -> None:
    chance = random.Random(seed)
    features = tuple(name for name in PROPERTIES if chance.random() < 0.5)
    time = Quiet(seed)
    tree = QuietTree(time)
    oracle = Oracle(tree, time.now_ms)
    tree.watchers.append(oracle)
    writer = Writer(time, tree, chance, witness=oracle, checksums=chance.random() < 0.5)

    answers = [writer.create(features, is_partitioned=chance.random() < 0.5)]
    for _ in range(15):
        time.time_ms += chance.randrange(5 * DAY_MS)
        answers.append(writer.act())
    oracle.finish()

    assert {Answer.DONE, Answer.NOTHING} >= set(answers)
    assert [] == oracle.violations


@pytest.mark.parametrize("step", ["append", "overwrite", "delete", "update", "rewrite", "checkpoint"])
def test_a_crash_at_any_write_leaves_a_sound_table_and_what_vacuum_finds(step: str) -> None:
    tree, writer, _ = a_table(("deletionVectors",))
    getattr(writer, step)()

    for call in range(1, tree.calls + 1):
        tree, writer, oracle = a_table(("deletionVectors",))
        before, files = oracle.newest, {*tree.files}
        tree.at = call
        with pytest.raises(Crash):
            getattr(writer, step)()
        tree.time.time_ms += 8 * DAY_MS
        oracle.finish()

        assert (before, []) == (oracle.newest, oracle.violations)
        assert oracle.leftovers() == {path for path in tree.files.keys() - files if not path.startswith("_")}
        assert oracle.leftovers() <= oracle.to_vacuum()


LOSES, REBASES = Answer.GAVE_UP, Answer.DONE


@pytest.mark.parametrize(
    "step, other, expected",
    [
        ("append", "append", REBASES),
        ("append", "overwrite", REBASES),
        ("append", "add_column", LOSES),
        ("delete", "append", REBASES),
        ("delete", "overwrite", LOSES),
        ("delete", "set_property", LOSES),
        ("overwrite", "append", LOSES),
        ("overwrite", "delete", LOSES),
        ("rewrite", "append", REBASES),
        ("rewrite", "overwrite", LOSES),
        ("add_column", "append", REBASES),
        ("add_column", "set_property", LOSES),
    ],
)
@pytest.mark.parametrize("features", [(), ("rowTracking", "inCommitTimestamp")], ids=["plain", "tracked"])
def test_a_writer_follows_another_one_unless_it_touched_what_was_read(
    step: str, other: str, expected: Answer, features: tuple[str, ...]
) -> None:
    tree, writer, oracle = a_table(features)
    rival = Writer(tree.time, tree, random.Random(9), name="rival", witness=oracle)

    def wins() -> None:
        tree.at = -1
        tree.by("rival", lambda _: getattr(rival, other)())

    tree.at, tree.happens = (1 if step == "add_column" else 2), wins

    assert expected is getattr(writer, step)()
    assert (3 if expected is REBASES else 2) == oracle.newest
    oracle.finish()
    assert [] == oracle.violations


def test_a_past_is_the_same_for_the_same_seed() -> None:
    first, second = make_past(random.Random(7)), make_past(random.Random(7))

    assert first == second
    assert first.files != first.copy


def test_a_past_ends_before_its_time() -> None:
    past = make_past(random.Random("past 101109"))

    assert past.now_ms >= max(file.modified_ms for file in (*past.files.values(), *past.copy.values()))
