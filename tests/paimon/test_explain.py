"""`explain` of Paimon tables: what stops a client, since which schema, and that pypaimon does what is said of it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from deltacli.api.paimon import open_paimon
from deltacli.delta.protocol.clients import ClientAccess
from deltacli.operations.paimon.table_files import traits_of_manifests
from deltacli.paimon.snapshots import MAIN_BRANCH
from deltacli.table.known_clients import read_paimon_clients
from tests.paimon.answers import SCHEMAS, Capture, ask
from tests.support.paimon_builder import PaimonBuilder
from tests.support.paimon_corpus import Branch, branches
from tests.support.pypaimon import ENVIRONMENT_VARIABLE
from tools.clients.paimon import ROWS, Case, Probe, cases, measure_cases

MULTISET = (0, "x", {"type": "MULTISET", "element": "STRING"})
KEY = (1, "id", "INT NOT NULL")
ELSEWHERE = {"pk_dv_index_not_in_data_with_external", "pk_dv_index_in_data_with_external"}
"""Tables whose data files are outside of the corpus."""
FEW = {
    *("append", "orc.VARIANT", "parquet.MULTISET", "avro.MAP", "primary-key", "merge-engine=first-row"),
    *("append.deletion-vectors.enabled", "change-type", "manifest.format=orc", "scan.fallback-branch"),
    *("file.format=orc", "file.format=avro", "append.partitioned", "add-column"),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a primary key that got a column of the type MULTISET in schema 1."""
    columns = ((KEY,), (KEY, MULTISET), (KEY, MULTISET, (2, "y", "INT")))
    case = Case("", {"bucket": "1"}, columns, keys=("id",))
    case.write(tmp_path / "tbl")
    for number in range(1, len(columns)):
        case.write_schema(tmp_path / "tbl", number)
    return tmp_path / "tbl"


def test_every_form_tells_what_stops_a_client_and_since_which_schema(table: Path, capsys: Capture) -> None:
    _, out, _ = ask(capsys, "explain", table, "--json")
    found = json.loads(out)
    texts = [ask(capsys, "explain", table, *form)[1] for form in ((), ("--format", "markdown"), ("--format", "csv"))]
    _, lines, _ = ask(capsys, "explain", table, "--format", "ndjson")

    assert [] == [fault.message for fault in SCHEMAS["deltacli.explain"].iter_errors(found)]
    assert [] == [fault.message for fault in SCHEMAS["explain"].iter_errors(json.loads(lines.splitlines()[0]))]
    assert ("paimon", 2, None) == (found["tableFormat"], found["version"], found["protocol"])
    assert {"primary-key", "merge-engine=deduplicate", "parquet.MULTISET", "add-column"} <= {*found["features"]}
    (client,) = found["clients"]
    assert ("pypaimon", False, False) == (client["name"], client["reads"], client["writes"])
    assert [("parquet.MULTISET", 1)] == [(one["trait"], one["since"]) for one in client["blockers"]]
    assert all("parquet.MULTISET since schema 1" in text for text in texts)


def test_a_trait_may_be_older_where_a_schema_is_missing(table: Path) -> None:
    (table / "schema" / "schema-0").unlink()

    (found,) = open_paimon(table).explain().clients

    assert {"parquet.MULTISET": None} == {one.trait: found.since[one.trait] for one in found.access.blockers}


def test_an_option_without_a_fact_makes_a_client_unknown(tmp_path: Path) -> None:
    Case("", {"merge-engine": "newest-of-all", "bucket": "1"}, keys=("id",)).write(tmp_path / "tbl")

    (found,) = open_paimon(tmp_path / "tbl").explain(clients=["pypaimon"]).clients

    assert (None, None) == (found.access.reads, found.access.writes)
    assert ("merge-engine=newest-of-all",) == found.access.unknown


def test_a_key_without_its_column_makes_clients_unknown(tmp_path: Path, capsys: Capture) -> None:
    Case("", {"bucket": "1"}, ((KEY,),), keys=("gone",)).write(tmp_path / "tbl")

    (found,) = open_paimon(tmp_path / "tbl").explain().clients

    assert (None, None, ("schema.key-missing",)) == (found.access.reads, found.access.writes, found.access.unknown)
    assert "gone (no such column)" in ask(capsys, "snapshot", tmp_path / "tbl")[1]


@pytest.mark.parametrize(
    ("file", "reads", "trait"),
    [
        ("schema/schema-2", False, "schema.trailing-text"),
        ("schema/schema-0", None, "schema.older-trailing-text"),
        ("snapshot/snapshot-1", False, "snapshot.trailing-text"),
    ],
)
def test_text_after_the_json_object_stops_pypaimon(
    file: str, reads: bool | None, trait: str, tmp_path: Path, capsys: Capture
) -> None:
    table = PaimonBuilder(tmp_path / "t").schema().schema().schema().snapshot(2)
    (before,) = open_paimon(table.root).explain().clients
    with (table.root / file).open("a") as opened:
        opened.write(" tail")

    (found,) = open_paimon(table.root).explain().clients

    assert (True, reads, reads) == (before.access.reads, found.access.reads, found.access.writes)
    assert trait in [*(blocker.trait for blocker in found.access.blockers), *found.access.unknown]
    assert "text follows the JSON object" in ask(capsys, "explain", table.root)[1]


@pytest.mark.parametrize(
    ("file", "key", "reads", "writes", "trait"),
    [
        ("schema/schema-2", "version", False, False, "schema.version-as-text"),
        ("schema/schema-2", "id", True, False, "schema.id-as-text"),
        ("schema/schema-0", "version", None, None, "schema.older-number-as-text"),
        ("snapshot/snapshot-1", "id", True, False, "snapshot.number-as-text"),
        ("schema/schema-2", "highestFieldId", True, True, None),
        ("snapshot/snapshot-1", "timeMillis", True, True, None),
    ],
)
def test_a_number_as_text_stops_pypaimon(
    file: str, key: str, reads: bool | None, writes: bool | None, trait: str | None, tmp_path: Path
) -> None:
    table = PaimonBuilder(tmp_path / "t").schema().schema().schema().snapshot(2)
    content = json.loads((table.root / file).read_text("utf-8"))
    (table.root / file).write_text(json.dumps(content | {key: str(content[key])}), "utf-8")

    (found,) = open_paimon(table.root).explain().clients

    assert (reads, writes) == (found.access.reads, found.access.writes)
    traits = [*(blocker.trait for blocker in found.access.blockers), *found.access.unknown]
    assert ([] if trait is None else [trait]) == traits


def test_blanks_after_the_json_object_stop_nobody(tmp_path: Path) -> None:
    table = PaimonBuilder(tmp_path / "t").schema().snapshot(0)
    for file in ("schema/schema-0", "snapshot/snapshot-1"):
        with (table.root / file).open("a") as opened:
            opened.write("\n\t \r\n")

    (found,) = open_paimon(table.root).explain().clients

    assert (True, True) == (found.access.reads, found.access.writes)


@pytest.mark.parametrize("directory", ["schema", "manifest"])
def test_a_file_that_cannot_be_read_makes_clients_unknown(directory: str, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus / "pypaimon/append_events", tmp_path / "tbl")
    pattern = "schema-3" if directory == "schema" else "manifest-*-0"
    for file in (tmp_path / "tbl" / directory).glob(pattern):
        file.write_bytes(b"{")

    (found,) = open_paimon(tmp_path / "tbl").explain().clients

    assert (None, None) == (found.access.reads, found.access.writes)
    assert f"{directory}.unreadable" in found.access.unknown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--if", "add=deletionVectors"), "--if works on Delta tables only"),
        (("--client", "duckdb"), "no facts are known about duckdb on tables of this format"),
        (("--client", "pypamion"), "did you mean pypaimon?"),
        (("--client", "pypaimon=x"), "pypaimon=1.2.3"),
    ],
)
def test_what_cannot_be_asked_of_a_paimon_table_is_a_clear_error(
    arguments: tuple[str, ...], said: str, table: Path, capsys: Capture
) -> None:
    code, _, err = ask(capsys, "explain", table, *arguments)

    assert 2 == code
    assert said in err


def test_another_version_than_the_measured_one_is_unknown(table: Path) -> None:
    (found,) = open_paimon(table).explain(clients=["pypaimon=0.9"]).clients

    assert (None, None) == (found.access.reads, found.access.writes)


def sound() -> list[Branch]:
    """Return the tables of the corpus that are not damaged: their data are there, and Java accepts their schemas."""
    found = [one for one in branches() if one.name == MAIN_BRANCH and one.table.rpartition("/")[2] not in ELSEWHERE]
    return [one for one in found if all(schema["valid"] for schema in one.facts["java"])]


def predicted(root: Path) -> ClientAccess:
    (found,) = open_paimon(root).explain().clients
    return found.access


def test_manifests_themselves_tell_their_format(corpus: Path) -> None:
    with_orc, without_columns = [], []
    for branch in sound():
        table = open_paimon(corpus / branch.table)
        snapshot = table.snapshot().snapshot
        traits = traits_of_manifests(table.storage, table.engine, snapshot) if snapshot is not None else frozenset()
        with_orc += [branch.table] if "manifest.format=orc" in traits else []
        without_columns += [branch.table] if "manifest.no-value-stats-cols" in traits else []
        assert not traits - {"manifest.format=orc", "manifest.no-value-stats-cols"}

    written = [one for one in sound() if one.facts["latest_schema"]["options"].get("manifest.format") == "orc"]
    assert [one.table for one in written] == with_orc
    assert len(with_orc) == 35
    (old,) = without_columns
    assert old == "java/parquet/pk_09.db/pk_09"
    assert "manifest.no-value-stats-cols" in open_paimon(corpus / old).explain().features


@pytest.mark.long
def test_what_is_predicted_of_the_corpus_is_what_pypaimon_does(corpus: Path, tmp_path: Path) -> None:
    probe = Probe(tmp_path, python())
    counts: Counter[str] = Counter()
    wrong = []
    for number, branch in enumerate(sound()):
        root = probe.home / f"t{number}"
        shutil.copytree(corpus / branch.table, root)
        said = predicted(root)
        rows = rows_of(root, branch)
        does = probe.measure(root.name, rows)
        for what, one, real in (("reads", said.reads, does.reads), ("writes", said.writes, does.writes)):
            if real is None or (real and not rows and what == "reads"):
                continue  # an empty table shows no wrong value
            counts[f"{what} {'unknown' if one is None else 'known'}"] += 1
            if one is not None and one is not real:
                wrong.append((branch.table, what, one, does.why, said.blockers))
    probe.close()

    assert [] == wrong, "\n".join(map(str, wrong))
    assert {"reads known": 57, "reads unknown": 5, "writes known": 55, "writes unknown": 3} == counts


@pytest.mark.long
def test_a_sample_of_the_facts_is_measured_again(corpus: Path) -> None:
    version, found = measure_cases([one for one in cases() if one.trait in FEW], python())

    (client,) = read_paimon_clients()
    assert client.version == version
    assert FEW == {*found}
    for trait, (reads, writes) in found.items():
        assert (reads, writes) == client.facts[trait][:2], trait


def rows_of(root: Path, branch: Branch) -> int:
    """Return the number of rows of a table."""
    numbers = [one["id"] for one in branch.facts["snapshots"]]
    if not numbers:
        return 0
    content = json.loads((root / "snapshot" / f"snapshot-{max(numbers)}").read_text("utf-8"))
    return ROWS.get(branch.table.rpartition("/")[2], int(content["totalRecordCount"]))


def python() -> Path:
    """Return the interpreter that has pypaimon."""
    found = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if not Path(found).is_file():
        pytest.skip(f"{ENVIRONMENT_VARIABLE} is not set")
    return Path(found)
