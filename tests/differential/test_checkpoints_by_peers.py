"""Other engines read our checkpoints, with nothing else left of the log, and see what the manifest says."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from deltacli.operations.checkpoint.checkpoint import StatsForm
from tests.corpus.test_checkpoints import LARGE, STATS, WRITABLE, allowed, is_refused, known_versions
from tests.differential.known import DIFFERENCES
from tests.differential.test_peers import PEERS, relative
from tests.support import corpus
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import (
    CLASSIC,
    MULTI_PART,
    V2_JSON,
    V2_PARQUET,
    Form,
    copy_log,
    leave_alone,
    write,
)
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerAnswer, Task, ask, has_peer, peer_python

LEAST_THAT_AGREE = {
    # (form, columns of statistics) -> how many tables each peer reads as the manifest has them, at the least.
    (CLASSIC, StatsForm.KEEP): 166,
    (MULTI_PART, StatsForm.KEEP): 157,
    (V2_JSON, StatsForm.KEEP): 10,
    (V2_PARQUET, StatsForm.KEEP): 10,
    (CLASSIC, StatsForm.BOTH): 166,
    (CLASSIC, StatsForm.STRUCT): 166,
}

NO_INDEXED_COLUMNS = {
    # dataSkippingNumIndexedCols is 0, so stats_parsed holds numRecords and nothing else; deltalake reads none then.
    ("dat/no_stats", "records"),
    ("golden/data-skipping-change-stats-collected-across-versions", "records"),
}


@pytest.fixture
def root() -> Path:
    """The unpacked corpus."""
    return corpus.unpacked()


@pytest.mark.soak
@pytest.mark.parametrize(
    "form, stats", LEAST_THAT_AGREE, ids=[f"{form.name}-{stats}" for form, stats in LEAST_THAT_AGREE]
)
def test_peers_read_a_checkpoint_alone_as_they_read_the_log(
    form: Form, stats: StatsForm, root: Path, tmp_path: Path
) -> None:
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    if not all(has_peer(python, peer) for peer in PEERS):
        pytest.skip(f"{python} has not all of {', '.join(PEERS)}")
    chosen = [
        table
        for table in WRITABLE
        if table.id not in LARGE and not is_refused(table) and form in allowed(table, known_versions(table)[-1])
    ]
    has_text = {}
    for table in chosen:
        place = copy_log(table, root, tmp_path / table.id, with_data=True)
        keep = STATS.get(table.id, stats) if stats is StatsForm.KEEP else stats
        result = write(place, known_versions(table)[-1]["version"], form, stats=keep)
        leave_alone(place, result)
        has_text[table.id] = result.plan.columns.has_stats
    tasks = [Task(table.id, str(tmp_path / table.id), None) for table in chosen]

    for peer, script in PEERS.items():
        answers = ask(python, script, tasks)
        found = {
            (table.id, what)
            for table, answer in zip(chosen, answers, strict=True)
            if (what := difference(table, answer, counts=has_text[table.id] or peer == "deltalake")) is not None
        }
        known = {(one.table, one.what) for one in DIFFERENCES if one.peer == peer and _is_of_newest(one.versions)}
        if (peer, stats) == ("deltalake", StatsForm.STRUCT):
            known |= NO_INDEXED_COLUMNS
        assert set() == found - known
        assert LEAST_THAT_AGREE[form, stats] <= len(chosen) - len(found)


def _is_of_newest(versions: str) -> bool:
    return versions == "all" or "newest" in versions or versions == "0"


def difference(table: CorpusTable, answer: PeerAnswer, *, counts: bool) -> str | None:
    """Return how a peer's answer differs from the manifest, or None; records only for a peer that `counts`."""
    facts = known_versions(table)[-1]
    if answer.crash is not None:
        return "crashes"
    if answer.files is None:
        return "refuses"
    paths = sorted(relative(file.path, answer.task.path) for file in answer.files)
    digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
    if (facts["live_files"], facts["live_paths_sha256"]) != (len(paths), digest):
        return "paths"
    sizes = [file.size_bytes for file in answer.files]
    if None not in sizes and facts["live_bytes"] != sum(size for size in sizes if size is not None):
        return "sizes"
    records = Counter(file.records is None for file in answer.files)
    counted = sum(file.records or 0 for file in answer.files), records[True]
    if counts and (facts["num_records"], facts["files_without_num_records"]) != counted:
        return "records"
    return None
