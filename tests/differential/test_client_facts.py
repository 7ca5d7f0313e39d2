"""The facts about clients: what they say of a table is what its clients really do."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.delta.protocol.clients import ClientAccess, determine_access
from deltacli.table.known_clients import read_known_clients
from deltacli.table.version_traits import find_version_traits
from tests.judges.engines import require_jars
from tests.support import corpus
from tests.support.effort import is_soaking, sampled
from tools.clients.facts import ENVIRONMENTS, measure_client
from tools.clients.measure import OF_SHARES, measure
from tools.clients.tables import CHECKS, Case, cases

TOO_LARGE = {
    "golden/parquet-decimal-dictionaries-v2",
    "golden/parquet-decimal-type",
    "delta-rs/COVID-19_NYT",
    "kernel-rs/300k-add-files-100-col-partitioned",
}
"""Tables of a million rows, or of a log only."""
TWO_SPELLINGS = {"kernel-rs-golden/canonicalized-paths-normal-a", "kernel-rs-golden/canonicalized-paths-special-b"}
"""Tables whose log removes a file under another spelling of its path, which clients that read the log themselves do not
recognize.
"""
OF_TODAY = {"dat/generated_columns"}
"""Tables with a generated column of the current date, so that no row of them can be appended again."""
UNPREDICTED = {
    "spark": {"kernel-rs/type-widening": "`explain` says no, because of a change that only the preview allowed"},
    "kernel": {
        "kernel-rs/type-widening": "the same",
        "delta-rs/http_requests": "its files have timestamps without a zone, which Kernel refuses: a damage (E27)",
        "kernel-rs/partition_cm/none": "its schema has fields without metadata, which Kernel refuses (E27)",
        "golden/data-reader-partition-values": "the probe makes no literals of bytes and shorts for Kernel",
    },
}
"""Tables about which facts by traits say too much, with the reason: facts do not look into files, nor at damages."""
IN_THE_GATE = 70
"""Of these tables, so many."""
OF_JAVA = {"spark", "kernel"}
"""Clients that are jars, which `dev.py prepare` fetches."""
CLIENTS = {client.name: client for client in read_known_clients()}
FEW = (
    "columnMapping.used",
    "deletionVectors.used",
    "checkConstraints",
    "v2Checkpoint.used",
    "typeWidening",
    "type.void",
    "columnMapping.by-name-partition",
    "partition.columns",
    "partition.decimal",
    "values.times-beyond-nanoseconds",
)


def python_of(client: str) -> Path:
    python = ENVIRONMENTS[client]
    if not python.exists():
        pytest.skip(f"no environment of {client}: {python}")
    if client in OF_JAVA:
        require_jars()
    return python


def predicted(client: str, path: Path) -> ClientAccess:
    snapshot = open_table(path).snapshot()
    return determine_access(CLIENTS[client], find_version_traits(snapshot))


@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_a_sample_of_the_facts_is_measured_again(client: str) -> None:
    sample = [one for one in cases() if one.trait in FEW]

    found = measure_client(client, python_of(client), sample)

    assert CLIENTS[client].version == found.version
    measured, reasons = CLIENTS[client].measured or CLIENTS[client].facts, CLIENTS[client].reasons
    for trait, (reads, writes) in found.facts.items():
        known = measured[trait]
        for kind, does, known_does in (("reads", reads, known.reads), ("writes", writes, known.writes)):
            expected = None if kind in reasons.get(trait, {}) else does
            assert does is None or known_does == expected, (trait, kind)
    assert {(trait, kind) for trait in reasons for kind in reasons[trait]} >= found.depends


@pytest.mark.long
@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_protocols_of_versions_alone_follow_from_what_they_imply(client: str, tmp_path: Path) -> None:
    paths = [one.write(tmp_path) for one in CHECKS]
    before = [predicted(client, path) for path in paths]
    (tmp_path / "work").mkdir()

    _, found = measure(python_of(client), client, paths, tmp_path / "work")

    assert [one.reads for one in before] == [one.reads for one in found]
    if CLIENTS[client].writes:
        assert [one.writes for one in before] == [one.writes for one in found]


@pytest.mark.long
def test_what_pandas_cannot_express_is_no_other_value(tmp_path: Path) -> None:
    small = pa.table(
        {
            "i": pa.array([1, None], pa.int32()),
            "b": [True, None],
            "f": [math.nan, None],
            "d": pa.array([date(2021, 9, 8), None]),
            "n": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "xs": pa.array([[1, None], None], pa.list_(pa.int64())),
            "s": pa.array([{"i": 1}, None], pa.struct([("i", pa.int32())])),
        }
    )
    rounded = pa.table({"i": pa.array([2**53 + 1, None], pa.int64())})
    paths = [Case(name, rows, None).write(tmp_path) for name, rows in (("small", small), ("rounded", rounded))]
    (tmp_path / "work").mkdir()

    _, found = measure(python_of(OF_SHARES), OF_SHARES, paths, tmp_path / "work")

    assert [(True, None), (None, "integers that pandas has as floats")] == [
        (one.reads, one.why_not_read) for one in found
    ]


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_what_is_predicted_of_real_tables_is_what_a_client_does(client: str, tmp_path: Path) -> None:
    python = python_of(client)
    (tmp_path / "work").mkdir()
    names, paths = [], []
    left_out = TOO_LARGE if client == OF_SHARES else TOO_LARGE | TWO_SPELLINGS
    sound = [table for table in corpus.tables() if table.id not in left_out and is_sound(table)]
    for number, table in enumerate(sampled(sound, IN_THE_GATE)):
        place = table.path(corpus.unpacked())
        if CLIENTS[client].writes:
            place = shutil.copytree(place, tmp_path / str(number))
        names.append(table.id)
        paths.append(place)
    before = [predicted(client, path) for path in paths]

    _, found = measure(python, client, paths, tmp_path / "work")

    counts: Counter[str] = Counter()
    wrong = []
    for name, one, real in zip(names, before, found, strict=True):
        for what, said, does, why in (
            ("reads", one.reads, real.reads, real.why_not_read),
            ("writes", one.writes, real.writes, real.why_not_written),
        ):
            if does is None or (what == "writes" and name in OF_TODAY) or name in UNPREDICTED.get(client, {}):
                continue
            counts[f"{what} {'unknown' if said is None else 'known'}"] += 1
            if said is not None and said is not does:
                wrong.append((name, what, said, why, one.blockers))
    assert [] == wrong, "\n".join(map(str, wrong))
    assert counts["reads known"] > (115 if is_soaking() else 55), counts
    assert counts["writes known"] > (80 if is_soaking() else 40) or not CLIENTS[client].writes, counts


def is_sound(table: corpus.CorpusTable) -> bool:
    """True for a table in which nothing is damaged: its log is read, and the corpus has no finding about it."""
    return table.entry["outcome"] == "ok" and not table.entry["findings"]
