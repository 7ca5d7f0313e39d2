"""`doctor table`: the command of each advice is run as it stands, and what it promised is reached."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.errors import PythonSyntax, use_hint_syntax
from deltacli.operations.doctor.advice import saves
from tests.cli.support import Result, deltacli
from tests.docs.test_schemas import faults, line_faults
from tests.support import corpus
from tests.support.builder import TableBuilder
from tests.support.sick_tables import SICK, Sick, SickTable, healthy

Json = dict[str, Any]  # Any: JSON values


def doctor(home: Path, *arguments: str) -> Result:
    return deltacli("doctor", "table", "./tbl", *arguments, cwd=home)


def document(home: Path, *arguments: str) -> Json:
    found = doctor(home, *arguments, "--json")
    assert found.code == 0, found.err
    parsed: Json = json.loads(found.out)
    assert not faults(parsed, "deltacli.doctor-table")
    return parsed


def measured(home: Path, code: str) -> Json:
    """What of a table an advice is about, counted without `doctor`: by the API and on the disk."""
    table, log = open_table(home / "tbl"), list((home / "tbl/_delta_log").iterdir())
    snapshot = table.snapshot()
    files, _ = snapshot.counts()
    segment = snapshot.segment
    parts = 0 if segment.checkpoint is None else len(segment.checkpoint.files) + snapshot.sidecars
    opened = len(segment.commits) + parts
    match code:
        case "log.expired":
            return {"files": len(log), "bytes": sum(path.stat().st_size for path in log)}
        case "log.checkpoint-distance":
            return {"files": opened, "requests": 2 + opened + 2 * files.count}
        case "files.unreferenced":
            live = {path for batch in snapshot.files() for path in batch.column("path").to_pylist()}
            left = [path for path in (home / "tbl").glob("*.parquet") if path.name not in live]
            return {"files": len(left), "bytes": sum(path.stat().st_size for path in left)}
        case "features.unused":
            return {"features": len(snapshot.protocol.supported_features)}
        case "retention.out-of-order":
            return {"logMs": document(home)["retention"]["logMs"]}
        case "statistics.columns":
            return {"columns": document(home)["statistics"]["usefulColumns"]}
    found = {"files": files.count, "bytes": files.size_bytes, "requests": 2 + opened + 2 * files.count}
    return found | {"vectors": files.deletion_vectors, "withoutStatistics": files.files_without_records}


@pytest.mark.parametrize("sick", SICK, ids=repr)
def test_the_advice_is_taken_and_reaches_what_it_promises(sick: Sick, tmp_path: Path) -> None:
    sick.build().write(tmp_path / "tbl")
    before = document(tmp_path)
    advice = next(one for one in before["advice"] if one["code"] == sick.code)
    seen = measured(tmp_path, sick.code)
    assert {name: advice["now"][name] for name in seen if advice["now"].get(name) is not None}.items() <= seen.items()
    if advice["command"] is None:
        return

    words = shlex.split(advice["command"])
    assert not {"--yes", "--max-delete"} & {*words}, "nothing is deleted by pasting"
    if "--dry-run" in words:
        words[words.index("--dry-run") :] = ["--max-delete", "100%"]
    agreed = [] if words[1] in ("checkpoint", "validate") else ["--yes"]
    done = deltacli(*words[1:], *agreed, cwd=tmp_path)

    assert (0, "deltacli") == (done.code, words[0]), done.err
    reached = measured(tmp_path, sick.code)
    promised = {name: value for name, value in advice["after"].items() if name in reached and value is not None}
    assert promised
    for name, value in promised.items():
        assert abs(reached[name] - value) <= 0.1 * value, (name, value, reached[name])
    assert sick.code not in [one["code"] for one in document(tmp_path)["advice"]]


def test_there_is_nothing_to_say_about_a_healthy_table(tmp_path: Path) -> None:
    healthy().write(tmp_path / "tbl")

    found = document(tmp_path)

    assert ([], [], True) == (found["advice"], found["notes"], found["complete"])
    assert 0 == doctor(tmp_path, "--check").code
    assert "advice  none" in doctor(tmp_path).out


@pytest.fixture(scope="module")
def ill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with several kinds of advice."""
    home = tmp_path_factory.mktemp("ill")
    made = SickTable(partitions=["day"], features=["deletionVectors"], configuration={})
    for number in range(3):
        made.append(8, partition={"day": f"2023-01-{number:02d}"}, commits=8)
    made.delete(made.names(0, 12)).builder.write(home / "tbl")
    return home


@pytest.mark.halved
def test_every_form_has_the_same_advice(ill: Path) -> None:
    whole = document(ill)
    lines = [json.loads(line) for line in doctor(ill, "--format", "ndjson").out.splitlines()]
    rows = doctor(ill, "--format", "csv").out.splitlines()
    text, markdown = doctor(ill).out, doctor(ill, "--format", "markdown").out

    codes = [one["code"] for one in whole["advice"]]
    assert {"files.small", "log.checkpoint-distance", "files.unreferenced", "features.unused"} <= {*codes}
    assert [] == [fault for line in lines for fault in line_faults(line)]
    assert codes == [line["code"] for line in lines if line["type"] == "advice"]
    assert codes == [row.split(",")[0] for row in rows[1:]]
    for one in whole["advice"]:
        assert one["command"] in text
        assert one["code"] in markdown
    assert all(count_cells(line) <= 80 for line in doctor(ill, "--help").out.splitlines())
    assert "| code | severity | message | now | after | saves | command |" in markdown


def test_what_saves_most_comes_first_and_check_finds_it(ill: Path) -> None:
    found = document(ill)

    of = {one["code"]: max(one["saves"]["requests"], one["saves"]["files"]) for one in found["advice"]}
    first = [*of].index("files.unreferenced")
    assert first < [*of].index("files.small"), "after a compaction a vacuum would be above its limit"
    worth = [value for code, value in of.items() if code != "files.unreferenced"]
    assert worth == sorted(worth, reverse=True)
    assert (1, 0) == (doctor(ill, "--check", "-q").code, doctor(ill, "-q").code)


def test_prices_of_a_file_are_estimates_in_dollars(ill: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        'source = "ours"\nstorage-per-gib-month = 1.5\nget-per-1000 = 2\nreads-per-month = 10\n'
    )
    (tmp_path / "p.json").write_text('{"get-per-1000": 2}')
    (tmp_path / "bad.toml").write_text("get-per-1000 = -1")

    found = document(ill, "--prices", str(tmp_path / "p.toml"))
    part = document(ill, "--prices", str(tmp_path / "p.json"))
    bad = doctor(ill, "--prices", str(tmp_path / "bad.toml"))
    absent = doctor(ill, "--prices", str(tmp_path / "none"))

    cost = found["cost"]
    assert 10 * cost["requestsPerRead"] == cost["requestsPerMonth"]
    assert cost["requestDollarsPerMonth"] == pytest.approx(2 * cost["requestsPerMonth"] / 1000, abs=1e-3)
    assert cost["storageDollarsPerMonth"] == pytest.approx(1.5 * cost["storedBytes"] / 2**30, abs=1e-3)
    small = next(one for one in found["advice"] if one["code"] == "files.small")
    assert small["saves"]["dollars"] == pytest.approx(small["saves"]["requests"] * 10 * 2 / 1000, abs=0.01)
    assert part["cost"]["dollarsPerMonth"] is None
    assert document(ill)["cost"]["prices"]["getPer1000"] is None
    assert (2, 2) == (bad.code, absent.code)
    assert "get-per-1000 is -1, expected a number of at least 0" in bad.err


def test_without_a_listing_nothing_is_known_of_unreferenced_files(ill: Path) -> None:
    found = document(ill, "--no-listing")

    assert found["unreferenced"] is None
    assert "files.unreferenced" not in [one["code"] for one in found["advice"]]


def test_other_tables_are_refused_and_lost_ones_are_unreadable(tmp_path: Path) -> None:
    (tmp_path / "paimon/schema").mkdir(parents=True)
    (tmp_path / "paimon/schema/schema-0").write_text("{}")

    paimon = deltacli("doctor", "table", "./paimon", cwd=tmp_path)
    none = deltacli("doctor", "table", "./none", cwd=tmp_path)

    assert (2, 3) == (paimon.code, none.code)
    assert "Paimon" in paimon.err


def test_from_python_the_command_is_a_method(ill: Path) -> None:
    with use_hint_syntax(PythonSyntax()):
        report = open_table(ill / "tbl").doctor()

        commands = {one.code: one.command_for("t") for one in report.advice}

    assert "open_table('t').optimize()" == commands["files.small"]
    assert "open_table('t').expire_log()" != commands["files.unreferenced"]
    assert report.as_json()["files"]["count"] == 180
    assert "doctor" in dir(open_table(ill / "tbl"))


def test_a_damaged_commit_ends_what_is_known_of_sizes(ill: Path, tmp_path: Path) -> None:
    shutil.copytree(ill / "tbl", tmp_path / "tbl")
    log = tmp_path / "tbl/_delta_log"
    deltacli("checkpoint", "./tbl", cwd=tmp_path)
    (log / f"{5:020d}.json").write_bytes(b"{")

    commits = document(tmp_path)["timeline"]["commits"]

    assert [None] * 5 == [one["sizeBytes"] for one in commits[:5]]
    assert all(one["sizeBytes"] is not None for one in commits[6:])
    assert "unknown" == commits[5]["operation"]


def test_a_table_that_lost_files_is_told_so_first_and_nothing_else_is_advised(tmp_path: Path) -> None:
    made = SickTable().append(30)
    made.builder.write(tmp_path / "tbl")
    absent, cut = made.names(0, 2)
    (tmp_path / "tbl" / absent).unlink()
    (tmp_path / "tbl" / cut).write_bytes(b"PAR1")

    advice = document(tmp_path)["advice"]

    assert [("files.lost", "error", "deltacli repair ./tbl --dry-run")] == [
        (one["code"], one["severity"], one["command"]) for one in advice
    ]
    doctor(tmp_path, "--html", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"deltacli repair {tmp_path}/tbl " in re.sub("<[^>]*>", "", page)
    assert f"<title>{tmp_path}/tbl: 2 live files lost</title>" in page
    assert f'<h1 class="bad">{tmp_path}/tbl: 2 live files lost</h1>' in page
    assert {"lostFiles": 2} == advice[0]["now"]
    assert absent in advice[0]["message"]
    assert cut in advice[0]["message"]


def test_the_page_of_a_table_with_a_gap_has_the_gap_in_its_title(tmp_path: Path) -> None:
    TableBuilder().commits(4).write(tmp_path / "tbl")
    (tmp_path / "tbl" / "_delta_log" / "00000000000000000002.json").unlink()

    deltacli("doctor", "table", "./tbl", "--html", "page.html", cwd=tmp_path)

    expected = r'<h1 class="bad">/[^<]*/tbl: version \d cannot be rebuilt: commit 2 is missing</h1>'
    assert re.search(expected, (tmp_path / "page.html").read_text())


def test_what_is_negative_is_a_cost_and_what_rounds_to_0_is_left_out() -> None:
    found: dict[str, float | None] = {"files": 0, "bytes": 437, "requests": -1, "seconds": -0.01, "dollars": None}

    assert "saves 437 B; costs 1 request more per read" == saves(found)
    found |= {"bytes": 0, "requests": 0, "dollars": -1.5}
    assert "costs about $1.50 more per month" == saves(found)


@pytest.mark.halved
def test_every_form_has_the_costs_of_an_advice(tmp_path: Path) -> None:
    table = corpus.table("derived/dv-inline-a")
    shutil.copytree(table.path(corpus.unpacked()), tmp_path / "tbl")
    doctor(tmp_path, "--html", "page.html")

    gain = "401 B; costs 1 request more per read"
    assert f"\n   saves {gain}\n" in doctor(tmp_path).out
    assert f" | {gain} | " in doctor(tmp_path, "--format", "markdown").out
    assert f"<dt>saves</dt><dd>{gain}</dd>" in (tmp_path / "page.html").read_text().replace("\xa0", " ")


def test_a_lost_deletion_vector_is_a_lost_file(tmp_path: Path) -> None:
    table = corpus.table("delta-rs/table-with-dv-small")
    shutil.copytree(table.path(corpus.unpacked()), tmp_path / "tbl")
    assert "files.lost" not in {one["code"] for one in document(tmp_path)["advice"]}
    vector = next((tmp_path / "tbl").rglob("deletion_vector_*.bin"))
    vector.unlink()

    advice = document(tmp_path)["advice"]

    assert "files.lost" == advice[0]["code"]
    assert vector.name in advice[0]["message"]


def test_a_file_of_several_lost_vectors_is_named_once(tmp_path: Path) -> None:
    table = corpus.table("spark/partitioned-table-with-dv-large")
    shutil.copytree(table.path(corpus.unpacked()), tmp_path / "tbl")

    message = document(tmp_path)["advice"][0]["message"]

    named = re.findall(r"deletion_vector_[-0-9a-f]+.bin", message)
    assert len(named) == len(set(named))


def test_a_page_of_a_log_with_a_gap_names_it_and_the_command_for_it(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, table := tmp_path / "tbl")
    newest = open_table(table).snapshot().version
    (table / "_delta_log" / f"{newest - 1:020}.json").unlink()

    deltacli("doctor", "table", str(table), "--html", "page.html", cwd=tmp_path)

    page = (tmp_path / "page.html").read_text()
    assert "<dt>problems of the log</dt><dd>log.gap" in page
    assert f"<pre>deltacli repair {table}" in page


def test_a_page_names_the_whole_path_of_the_table(tmp_path: Path) -> None:
    TableBuilder().commits(4).write(tmp_path / "tbl")
    (tmp_path / "tbl" / "_delta_log" / "00000000000000000002.json").unlink()

    deltacli("doctor", "table", ".", "--html", "../page.html", cwd=tmp_path / "tbl")

    page = (tmp_path / "page.html").read_text()
    assert f"<title>{tmp_path}/tbl: " in page
    assert f"<pre>deltacli repair {tmp_path}/tbl " in page
