"""The facts about clients: what they say of a table is what its clients really do."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.delta.protocol.clients import ClientAccess, access
from deltacli.delta.protocol.traits import traits_of
from deltacli.operations.explain.known_clients import known_clients
from tests.support import corpus
from tools.clients.facts import ENVIRONMENTS, measure_client
from tools.clients.measure import measure, rows_of
from tools.clients.tables import CHECKS, cases

TOO_LARGE = {
    "golden/parquet-decimal-dictionaries-v2",
    "golden/parquet-decimal-type",
    "delta-rs/COVID-19_NYT",
    "kernel-rs/300k-add-files-100-col-partitioned",
}
"""Tables of a million rows, or of a log only."""
TWO_SPELLINGS = {"kernel-rs-golden/canonicalized-paths-normal-a", "kernel-rs-golden/canonicalized-paths-special-b"}
"""Tables whose log removes a file under another spelling of its path, which these clients do not recognize."""
OF_TODAY = {"dat/generated_columns"}
"""Tables with a generated column of the current date, so that no row of them can be appended again."""
CLIENTS = {client.name: client for client in known_clients()}
FEW = (
    "columnMapping.used",
    "deletionVectors.used",
    "checkConstraints",
    "v2Checkpoint.used",
    "typeWidening",
    "type.void",
)


def python_of(client: str) -> Path:
    python = ENVIRONMENTS[client]
    if not python.exists():
        pytest.skip(f"no environment of {client}: {python}")
    return python


def predicted(client: str, path: Path) -> ClientAccess:
    snapshot = open_table(path).snapshot()
    return access(CLIENTS[client], traits_of(snapshot.config, [one.domain for one in snapshot.domains]))


@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_a_sample_of_the_facts_is_measured_again(client: str) -> None:
    sample = [one for one in cases() if one.trait in FEW]

    found = measure_client(client, python_of(client), sample)

    assert CLIENTS[client].version == found.version
    for trait, (reads, writes) in found.facts.items():
        known = CLIENTS[client].facts[trait]
        assert reads is None or known.reads == reads, trait
        assert writes is None or known.writes == writes, trait


@pytest.mark.long
@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_protocols_of_versions_alone_follow_from_what_they_imply(client: str, tmp_path: Path) -> None:
    paths = [one.write(tmp_path) for one in CHECKS]
    before = [predicted(client, path) for path in paths]
    (tmp_path / "work").mkdir()

    _, found = measure(python_of(client), client, paths, tmp_path / "work")

    assert [(one.reads, one.writes) for one in before] == [(one.reads, one.writes) for one in found]


@pytest.mark.long
@pytest.mark.skipif(not corpus.tables(), reason=corpus.absence())
@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_what_is_predicted_of_real_tables_is_what_a_client_does(client: str, tmp_path: Path) -> None:
    python = python_of(client)
    (tmp_path / "work").mkdir()
    names, paths = [], []
    for number, table in enumerate(corpus.tables()):
        if table.id in TOO_LARGE | TWO_SPELLINGS or not is_sound(table):
            continue
        place = tmp_path / str(number)
        shutil.copytree(table.path(corpus.unpacked()), place)
        names.append(table.id)
        paths.append(place)
    before = [predicted(client, path) for path in paths]
    contents = [content for path in paths if (content := rows_of(path)) is not None]

    _, found = measure(python, client, paths, tmp_path / "work")

    counts: Counter[str] = Counter()
    wrong = []
    for name, one, real, rows_of_table in zip(names, before, found, contents, strict=True):
        for what, said, does, why in (
            ("reads", one.reads, real.reads, real.why_not_read),
            ("writes", one.writes, real.writes, real.why_not_written),
        ):
            if does is None or (does and not rows_of_table.rows) or (what == "writes" and name in OF_TODAY):
                continue  # an empty table shows no wrong value
            counts[f"{what} {'unknown' if said is None else 'known'}"] += 1
            if said is not None and said is not does:
                wrong.append((name, what, said, why, one.blockers))
    assert [] == wrong, "\n".join(map(str, wrong))
    assert counts["reads known"] > 115, counts
    assert counts["writes known"] > 105, counts


def is_sound(table: corpus.CorpusTable) -> bool:
    """True for a table in which nothing is damaged: it is read, and the corpus has no finding about it."""
    return (
        table.entry["outcome"] == "ok"
        and not table.entry["findings"]
        and rows_of(table.path(corpus.unpacked())) is not None
    )
