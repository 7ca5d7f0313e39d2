"""`clone` of real tables: its rows, also for delta-rs, are those of the source, and a refusal leaves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.operations.vacuum.clones import NOTES_DIRECTORY
from tests.corpus.test_optimize_corpus import BY_ID, CHOSEN, NAMES, rows_of
from tests.differential.test_rows import PEERS
from tests.support.corpus_checkpoints import copy_log
from tests.support.peers import Task, ask_for_rows, peer_python
from tests.support.row_counts import count_rows

PEER = "deltalake"  # of those that are asked here, it alone reads absolute paths (clients.json)


def cloned(name: str, root: Path, place: Path) -> str | None:
    """Clone a copy of a table and compare the rows; return why that is refused."""
    source, target = place / "a b%é", place / "clone"
    copy_log(BY_ID[name], root, source, with_data=True)
    table, clone = open_table(source), open_table(target, allow_external=[source.as_uri()])
    refused = None
    try:
        expected = rows_of(table)
    except DeltacliError:
        expected = None
    try:
        table.clone(target)
    except DeltacliError as error:
        refused = error.code
    if refused is not None:
        assert not target.exists(), refused
        assert not (source / NOTES_DIRECTORY).exists(), refused
        return "unreadable" if expected is None else refused
    assert expected is not None
    assert expected == rows_of(clone)
    errors, ours = (
        {one.rule.id for one in each.validate().findings if one.severity == "error"} for each in (clone, table)
    )
    assert errors <= ours
    return None


@pytest.mark.parametrize("name", CHOSEN)
def test_a_clone_has_the_rows_of_its_source(name: str, root: Path, tmp_path: Path) -> None:
    cloned(name, root, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(peer_python() is None, reason="no environment with peers")
@pytest.mark.halved
def test_delta_rs_reads_the_rows_of_every_clone(root: Path, tmp_path: Path) -> None:
    refused = {name: cloned(name, root, tmp_path / str(number)) for number, name in enumerate(NAMES)}
    made = [number for number, why in enumerate(refused.values()) if why is None]

    assert {"catalog.managed", "unreadable", "clone.source-incomplete"} == {
        why for why in refused.values() if why is not None
    }
    assert len(made) > len(NAMES) * 0.6
    assert not read_differently([tmp_path / str(number) for number in made], tmp_path)


def read_differently(places: Sequence[Path], work: Path) -> list[object]:
    """Return the tables whose clone delta-rs reads otherwise."""
    python = peer_python()
    assert python is not None
    tasks = [Task(name, str(place / name), None) for place in places for name in ("a b%é", "clone")]
    (work / "rows").mkdir()
    answers = ask_for_rows(python, PEERS[PEER], tasks, work / "rows")
    differs: list[object] = []
    for source, clone in zip(answers[::2], answers[1::2], strict=True):
        if source.place is None:
            continue
        if clone.place is None:
            differs.append((clone.task, clone.refusal))
            continue
        tables = [pa.ipc.open_file(str(one.place)).read_all() for one in (source, clone)]
        if count_rows([tables[0]], tables[0].schema.names) != count_rows([tables[1]], tables[0].schema.names):
            differs.append((clone.task, "other rows"))
    assert any(one.place is not None for one in answers[1::2])
    return differs
