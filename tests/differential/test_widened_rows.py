"""Other engines on tables whose columns got wider types: duckdb reads the same rows in them, deltalake refuses.

What the facts about these clients say of them is proven here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.table.known_clients import find_affected_clients
from tests.corpus.test_widen_corpus import GUARDED, WIDENED
from tests.differential.test_rows import PEERS
from tests.support import corpus
from tests.support.corpus_checkpoints import copy_log
from tests.support.corpus_widening import Candidate, arrow_type_at, candidates
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerRows, Task, ask_for_rows, has_peer, peer_python
from tests.support.row_counts import count_rows
from tests.support.small_reading import column, new_table

PARTITION_DATE = "Failed to parse value '2021-09-08' as 'timestamp_ntz'"
"""What both peers say of a partition value that is a date without a time, of which the command warns."""

DIFFERENCES = {"golden/data-reader-partition-values": PARTITION_DATE}
"""Table -> why duckdb no longer reads it."""

UNLOADABLE = {
    # Table -> why deltalake does not come so far as to look at its features.
    "derived/checkpoint-part-missing-a": "didn't find any checkpoints",
    "derived/checkpoint-truncated-a": "Corrupt footer",
    "derived/sidecar-missing-a": "not found",
    "golden/data-reader-partition-values": PARTITION_DATE,
}


@dataclass(frozen=True)
class Widened:
    """A copy of a real table, and which of its columns have wider types in its newest version."""

    id: str
    path: Path
    before: int
    chosen: tuple[Candidate, ...]
    features: frozenset[str]

    def task(self, *, before: bool) -> Task:
        return Task(self.id, str(self.path), self.before if before else self.before + 1)


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> list[Widened]:
    """Copies of all tables that can be widened."""
    return [_widened(table, tmp_path_factory.mktemp("t") / "t") for table in WIDENED]


def _widened(table: corpus.CorpusTable, place: Path) -> Widened:
    opened = open_table(str(copy_log(table, corpus.unpacked(), place, with_data=True)))
    before = opened.snapshot()
    found = candidates(json.loads(before.metadata.schema_string or ""), before.metadata.partition_columns)
    chosen = tuple(one for one in found if one.path not in GUARDED.get(table.id, {}))
    opened.widen_type(*(one.change for one in chosen), enable=True, upgrade_protocol=True)
    return Widened(table.id, place, before.version, chosen, opened.snapshot().config.features)


def answers_of(peer: str, tasks: list[Task], directory: Path) -> list[PeerRows]:
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    if not has_peer(python, peer):
        pytest.skip(f"{python} has no {peer}")
    return ask_for_rows(python, PEERS[peer], tasks, directory)


def difference(answer: PeerRows, chosen: tuple[Candidate, ...] = ()) -> str | None:
    """Return how the peer's rows or types differ from ours; None if they agree."""
    if answer.place is None:
        return f"refuses: {answer.refusal}"
    try:
        scan = open_table(answer.task.path).snapshot(version=answer.task.version).scan()
        names, ours = scan.schema.names, count_rows(scan, scan.schema.names)
    except DeltacliError:
        return "reads"
    with pa.memory_map(str(answer.place)) as source:
        theirs = pa.ipc.open_file(source).read_all()
        if set(names) != set(theirs.schema.names):
            return "columns"
        types = [(one, arrow_type_at(theirs.schema, one.steps)) for one in chosen]
        others = [f"{one.path} is {found}" for one, found in types if found != one.arrow_type]
        if others:
            return ", ".join(others)
        return None if ours == count_rows([theirs], names) else "rows"


def test_duckdb_reads_the_same_rows_in_the_wider_types(widened: list[Widened], tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    before = answers_of("duckdb", [one.task(before=True) for one in widened], tmp_path / "before")
    same = [one for one, answer in zip(widened, before, strict=True) if difference(answer) is None]

    after = answers_of("duckdb", [one.task(before=False) for one in same], tmp_path / "after")

    found = {one.id: difference(answer, one.chosen) for one, answer in zip(same, after, strict=True)}
    assert 132 == len(same)
    assert 28 == sum("timestampNtz" in one.features and found[one.id] is None for one in same)
    assert DIFFERENCES.keys() == {table for table, what in found.items() if what is not None}
    assert [] == [table for table, why in DIFFERENCES.items() if why not in str(found[table])]


def test_deltalake_refuses_every_table_with_wider_types(widened: list[Widened], tmp_path: Path) -> None:
    answers = answers_of("deltalake", [one.task(before=False) for one in widened], tmp_path)

    others = [one for one in answers if UNLOADABLE.get(one.task.table, "[TypeWidening") not in said(one)]
    assert [] == [(one.task.table, one.refusal) for one in others]


@pytest.mark.parametrize(
    ("kind", "text", "wider", "is_read"),
    [
        ("integer", "1", "decimal(10,0)", True),
        ("integer", "1", "decimal(12,2)", False),
        ("decimal(5,2)", "1.50", "decimal(10,2)", True),
        ("decimal(5,2)", "1.50", "decimal(7,4)", False),
    ],
)
def test_duckdb_fails_where_partition_values_keep_fewer_decimal_places(
    kind: str, text: str, wider: str, is_read: bool, tmp_path: Path
) -> None:
    table = new_table(tmp_path / "t", column("id", "long", 1), column("p", kind, 2), partition=(2,))
    table.append([table.new_file([{1: 1}], texts={2: text})])
    outcome = open_table(str(table.root)).widen_type(("p", wider), enable=True, upgrade_protocol=True)

    (answer,) = answers_of("duckdb", [Task("t", str(table.root), 2)], tmp_path)

    assert is_read is (answer.refusal is None)
    assert is_read is ("widen.partition-decimal" not in [caution.code for caution in outcome.plan.warnings])
    assert is_read is not any(one.client.name == "duckdb" and one.reads is False for one in outcome.clients)


def said(answer: PeerRows) -> str:
    """Why the peer refuses, its features in one order."""
    return re.sub(r"\[.*(TypeWidening\w*).*\]", r"[\1]", answer.refusal or "")


def test_statements_about_these_clients_are_true() -> None:
    accesses = find_affected_clients(["typeWidening", "timestampNtz"], used=True)
    found = {one.client.name: (one.reads, one.writes) for one in accesses}

    assert (False, False) == found["deltalake"]
    assert (True, False) == found["duckdb"]
