"""Other engines read tables whose properties and protocol we changed as they read them before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import DataUnreadable, Refused
from tests.corpus.test_checkpoints import LARGE, WRITABLE
from tests.corpus.test_settings import REFUSALS
from tests.differential.test_peers import PEERS, relative
from tests.support import corpus
from tests.support.corpus_checkpoints import copy_log
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerAnswer, Task, ask, has_peer, peer_python

CHOSEN = [table for table in WRITABLE if table.id not in LARGE and table.id not in REFUSALS][::4]
LEAST_THAT_READ = {"deltalake": 25, "duckdb": 25}

Files = set[tuple[str, int | None, int | None]] | None


def change_settings(table: Table) -> None:
    table.set_properties({"delta.checkpointInterval": "17", "owner": "me"})
    table.add_features(["domainMetadata"])
    table.unset_properties(["owner"])


def track_rows(table: Table) -> None:
    try:
        table.set_properties({"delta.enableRowTracking": "true"}, upgrade_protocol=True)
    except DataUnreadable as fault:
        if fault.code != "data.file-missing":  # of the plan: one whose rows the log does not count
            raise
        return
    except Refused as refused:
        if refused.code != "path.same-file-two-spellings":  # engines would read other rows behind files that come again
            raise
        return
    assert table.snapshot().scan(row_ids=True).schema.names[-2:] == ["_row_id", "_row_commit_version"]


@pytest.mark.parametrize("change", [change_settings, track_rows])
@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_what_we_changed_as_before(peer: str, change: Callable[[Table], None], tmp_path: Path) -> None:
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    if not has_peer(python, peer):
        pytest.skip(f"{python} has no {peer}")
    root = corpus.unpacked()
    places = [copy_log(table, root, tmp_path / str(number), with_data=True) for number, table in enumerate(CHOSEN)]
    tasks = [Task(table.id, str(place), None) for table, place in zip(CHOSEN, places, strict=True)]

    before = [files(answer) for answer in ask(python, PEERS[peer], tasks)]
    for place in places:
        change(open_table(str(place)))
    after = [files(answer) for answer in ask(python, PEERS[peer], tasks)]

    if change is track_rows:  # it counts the rows of files where the log does not
        before, after = (
            [found and {(*one[:2], None) for one in found} for found in every] for every in (before, after)
        )
    assert before == after
    assert LEAST_THAT_READ[peer] <= sum(1 for found in after if found is not None)


def files(answer: PeerAnswer) -> Files:
    if answer.files is None:
        return None
    return {(relative(file.path, answer.task.path), file.size_bytes, file.records) for file in answer.files}
