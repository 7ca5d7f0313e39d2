"""`widen-type` on the command line; the sample table has 15 versions, and knows nothing of type widening."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.pty_session import Session
from tests.cli.screen import as_pasted
from tests.cli.support import Result, deltacli
from tests.cli.test_terminal import ESCAPE, on_terminal
from tests.docs.test_schemas import faults, line_faults

FARE = ("ride.fare", "decimal(10,2)")
OF_AN_ERROR = re.compile(r"error: |hint: |  \S")
CONSENT = ("--enable", "--upgrade-protocol")

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def widen(home: Path, *arguments: str, **environment: str) -> Result:
    return deltacli("widen-type", "tbl", *arguments, cwd=home, **environment)


def document(result: Result) -> Json:
    found: Json = result.document
    assert [] == faults(found, "deltacli.widen-type")
    return found


def content(home: Path) -> dict[str, bytes]:
    """Every file of the table."""
    table = home / "tbl"
    return {str(path.relative_to(table)): path.read_bytes() for path in table.rglob("*") if path.is_file()}


def commit(home: Path, version: int) -> dict[str, Json]:
    """The actions of a commit; there is one of each kind."""
    lines = (home / "tbl" / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    assert len(actions) == len({kind for action in actions for kind in action})
    return {kind: value for action in actions for kind, value in action.items()}


def add_commit(home: Path, *actions: Json) -> None:
    """Another version, by somebody else."""
    log = home / "tbl" / "_delta_log"
    version = max(int(path.stem) for path in log.glob("*.json") if path.stem.isdigit()) + 1
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def columns(home: Path) -> dict[str, str]:
    lines = deltacli("snapshot", "tbl", "--schema", "--format", "csv", cwd=home).out.splitlines()
    rows = list(csv.DictReader(lines))
    return {row["column"]: row["type"] for row in rows}


def test_a_dry_run_shows_the_plan_and_changes_nothing(home: Path) -> None:
    before = content(home)

    done = widen(home, *FARE, *CONSENT, "--dry-run")

    assert (0, "", before) == (done.code, done.err, content(home))
    assert [
        f"table     file://{home}/tbl",
        "commit    version 15, would be committed",
        "",
        "column     type",
        "ride.fare  decimal(8,2) -> decimal(10,2)",
        "",
        "to     version  features",
        "read   1 -> 3   +typeWidening",
    ] == done.out.splitlines()[:8]
    assert "property delta.enableTypeWidening (not set) -> true" in done.words
    assert "deltalake loses loses " in done.words
    assert "spark yes yes 4.0 " in done.words
    assert "files 21 files, 32.9 KiB, 1,270 rows keep the older types" in done.words


def test_a_dry_run_overrides_consent(home: Path) -> None:
    before = content(home)

    done = widen(home, *FARE, *CONSENT, "--dry-run", "--yes", "--json")

    assert (0, True, None) == (done.code, document(done)["dryRun"], document(done)["committedVersion"])
    assert before == content(home)


@pytest.mark.parametrize("options", [("--dry-run",), (), ("--check",)], ids=lambda options: " ".join(options) or "-")
def test_a_refused_plan_is_shown_and_names_the_options_that_are_missing(options: tuple[str, ...], home: Path) -> None:
    before = content(home)

    done = widen(home, *FARE, *options)
    found = document(widen(home, *FARE, *options, "--json"))

    assert (4, before) == (done.code, content(home))
    assert "commit    none, the change is refused" in done.out
    assert "[widen.protocol-upgrade-needed]\n          override: --upgrade-protocol\n" in done.out
    assert "[widen.not-enabled]\n          override: --enable\n" in done.out
    said = "" if "--dry-run" in options else "nothing was changed: "
    assert done.err.startswith(f"error: tbl: {said}the protocol lacks typeWidening")
    assert [("widen.protocol-upgrade-needed", "--upgrade-protocol"), ("widen.not-enabled", "--enable")] == [
        (refusal["code"], refusal["wayOut"]) for refusal in found["refusals"]
    ]
    assert (True, True, None) == (found["dryRun"], found["changes"][0]["allowed"], found["committedVersion"])


def test_an_impossible_change_is_refused_without_proposing_an_upgrade(home: Path) -> None:
    alone = widen(home, "trip", "int")
    with_another = widen(home, "trip", "int", *FARE)

    assert 4 == alone.code
    assert alone.err.splitlines()[0].startswith("error: tbl: nothing was changed: trip cannot become integer")
    assert "upgrade-protocol" not in alone.out + alone.err
    assert "--enable" not in alone.out + alone.err
    assert "nothing was changed: trip cannot become integer" in with_another.err
    assert "--upgrade-protocol" in with_another.err


@pytest.mark.parametrize(("missing", "given"), [CONSENT, CONSENT[::-1]])
def test_each_consent_is_required_separately_even_with_yes(missing: str, given: str, home: Path) -> None:
    before = content(home)

    done = widen(home, *FARE, given, "--yes", "--json")

    assert (4, before) == (done.code, content(home))
    assert [] != json.loads(done.out)["refusals"] + json.loads(done.out)["changes"][0]["refusals"]
    assert done.error["hint"].endswith(f" --dry-run --json {missing}")


def test_without_consent_the_plan_is_shown_and_nothing_is_written(home: Path) -> None:
    before = content(home)

    done = widen(home, *FARE, *CONSENT)

    assert (4, before) == (done.code, content(home))
    assert "commit    version 15, would be committed" in done.out
    assert (
        f"confirmation is required to widen 1 column of file://{home}/tbl: ride.fare from decimal(8,2) to decimal(10,2)"
        in done.err
    )
    assert "hint: deltacli widen-type tbl ride.fare 'decimal(10,2)' --enable --upgrade-protocol --yes" in done.err


def test_consent_commits_one_version_and_keeps_the_rows(home: Path) -> None:
    before = content(home)
    rows = deltacli("read", "tbl", "--format", "csv", cwd=home).out

    done = widen(home, *FARE, *CONSENT, "--yes")

    after = content(home)
    added = commit(home, 15)
    assert (0, "") == (done.code, done.err)
    assert "commit    version 15, committed" in done.out
    assert [f"_delta_log/{15:020d}.json"] == sorted(after.keys() - before.keys())
    assert before == {name: after[name] for name in before}
    assert ["commitInfo", "protocol", "metaData"] == list(added)
    assert "CHANGE COLUMN" == added["commitInfo"]["operation"]
    assert "decimal(10,2)" == columns(home)["ride.fare"]
    assert rows == deltacli("read", "tbl", "--format", "csv", cwd=home).out
    assert 0 == deltacli("validate", "tbl", "--select", "typewidening.*", cwd=home).code


def test_several_columns_are_one_commit(home: Path) -> None:
    done = widen(home, *FARE, "DAY", "timestamp_ntz", "trip", "decimal(20,0)", *CONSENT, "--yes", "--json")

    found = document(done)
    added = commit(home, 15)
    assert (0, 15) == (done.code, found["committedVersion"])
    assert ["ride.fare", "day", "trip"] == [change["column"] for change in found["changes"]]
    assert "CHANGE COLUMNS" == added["commitInfo"]["operation"]
    assert {"typeWidening", "timestampNtz"} == set(added["protocol"]["readerFeatures"])
    codes = ["widen.partition-date", "alter.streams", "alter.shares", "alter.shares"]
    assert codes == [warning["code"] for warning in found["warnings"]]
    assert ("decimal(10,2)", "timestamp_ntz", "decimal(20,0)") == tuple(
        columns(home)[name] for name in ("ride.fare", "day", "trip")
    )


@pytest.mark.parametrize("columns_to_widen", [FARE, (*FARE, "trip", "decimal(20,0)")])
def test_the_ids_of_columns_are_numbers_in_the_commit(home: Path, columns_to_widen: tuple[str, ...]) -> None:
    """
    As Spark writes them.
    """
    mapped = deltacli("alter", "tbl", "mapping", "name", "--upgrade-protocol", "--yes", cwd=home)
    done = widen(home, *columns_to_widen, *CONSENT, "--yes")
    parameters = commit(home, 16)["commitInfo"]["operationParameters"]

    assert (0, 0) == (mapped.code, done.code)
    described = json.loads(parameters.get("columns") or f"[{parameters['column']}]")
    assert [int] * len(described) == [type(one["metadata"]["delta.columnMapping.id"]) for one in described]


def test_one_refused_column_blocks_the_change_of_the_others(home: Path) -> None:
    before = content(home)

    dry = widen(home, *FARE, "trip", "double", *CONSENT, "--dry-run", "--json")
    done = widen(home, *FARE, "trip", "double", *CONSENT, "--yes")

    assert (4, 4, before) == (dry.code, done.code, content(home))
    assert [(True, []), (False, ["widen.not-allowed"])] == [
        (change["allowed"], [refusal["code"] for refusal in change["refusals"]]) for change in document(dry)["changes"]
    ]
    assert "trip cannot become double" in done.err


def test_a_check_reports_whether_a_change_is_due(home: Path) -> None:
    before = content(home)
    due = widen(home, *FARE, *CONSENT, "--check")
    refused = widen(home, *FARE, "--check")
    with_yes = widen(home, *FARE, *CONSENT, "--check", "--yes")
    untouched = content(home)
    widen(home, *FARE, *CONSENT, "--yes")
    done = widen(home, *FARE, "--check")

    assert (1, 4, 1, 0) == (due.code, refused.code, with_yes.code, done.code)
    assert "" == due.err
    assert before == untouched


def test_a_column_that_already_has_the_type_needs_no_consent(home: Path) -> None:
    before = content(home)

    done = widen(home, "ride.fare", "DECIMAL( 8, 2 )")
    found = document(widen(home, "ride.fare", "decimal(8,2)", "--yes", "--json"))

    line = f"nothing to do  file://{home}/tbl, version 14: ride.fare is decimal(8,2)\n"
    assert (0, line, before) == (done.code, done.out, content(home))
    assert (None, [], []) == (found["committedVersion"], found["refusals"], found["clients"])


def test_a_second_run_does_nothing(home: Path) -> None:
    widen(home, *FARE, *CONSENT, "--yes")
    before = content(home)

    done = widen(home, *FARE, *CONSENT, "--yes")

    assert (0, before) == (done.code, content(home))
    assert "nothing to do" in done.out


@pytest.mark.parametrize("options", [("--dry-run",), ("--yes",), ("--check",)], ids=lambda options: options[0])
def test_json_ndjson_and_csv_have_the_same_content(options: tuple[str, ...], home: Path) -> None:
    words = (*FARE, "trip", "decimal(22,0)", *CONSENT, *options)
    for other in ("second", "third"):
        shutil.copytree(home / "tbl", home / other / "tbl")

    found = document(widen(home, *words, "--json"))
    line, end = map(json.loads, widen(home / "second", *words, "--format", "ndjson").out.splitlines())
    rows = list(csv.DictReader(io.StringIO(widen(home / "third", *words, "--format", "csv").out)))

    assert [] == line_faults(line) + line_faults(end)
    same = {name: value for name, value in line.items() if name not in ("type", "table")}
    assert same == {name: found[name] for name in same}
    assert [
        {"column": "ride.fare", "fromType": "decimal(8,2)", "toType": "decimal(10,2)", "allowed": "true"},
        {"column": "trip", "fromType": "long", "toType": "decimal(22,0)", "allowed": "true"},
    ] == rows
    assert ("--dry-run" in options) == ("impact" in found)


USAGE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("ride.fare",), "usage.column", "a column without a type: columns and types are given in pairs"),
    ((*FARE, "trip"), "usage.column", "a column without a type: columns and types are given in pairs"),
    (("fare", "double"), "usage.column", "there is no column fare"),
    (("ride", "double"), "usage.column", "only its parts can be widened"),
    ((*FARE, "RIDE.FARE", "decimal(12,2)"), "usage.column", "ride.fare is named twice"),
    (("trip", "text"), "usage.type", "it is not a type that a column can be widened to"),
    (("trip", "decimal(39,0)"), "usage.type", "a decimal has a precision of 1 to 38"),
    (("trip", "decimal(20,2"), "usage.type", "')' is missing"),
    (("day", "timestamp"), "usage.type", "a date can become timestamp_ntz"),
)


@pytest.mark.parametrize(("words", "code", "said"), USAGE, ids=[" ".join(words) for words, _, _ in USAGE])
def test_arguments_that_name_no_change_are_refused(words: tuple[str, ...], code: str, said: str, home: Path) -> None:
    before = content(home)

    done = widen(home, *words, *CONSENT, "--yes", "--json")

    assert (2, code, "", before) == (done.code, done.error["code"], done.out, content(home))
    assert said in done.error["message"]


def test_every_line_fits_a_terminal_of_80_columns(home: Path) -> None:
    table, words = home / "tbl", (*FARE, "day", "timestamp_ntz")
    runs = [
        on_terminal(80, "widen-type", table, *words, *options)
        for options in (("--dry-run",), (*CONSENT, "--dry-run"), (*CONSENT, "--yes"), ("trip", "double"))
    ]
    screens = [[ESCAPE.sub("", line) for line in lines] for _, lines in runs]
    of_plans = [line for lines in screens for line in lines if not OF_AN_ERROR.match(line)]

    assert [4, 0, 0, 4] == [code for code, _ in runs]
    assert [] == [line for line in of_plans if len(line) > 80 and str(table) not in line]
    assert any(line.startswith("next: deltacli widen-type") for line in screens[1])
    assert "--dry-run" not in "".join(screens[1])
    assert as_pasted("\n".join(screens[2])).endswith(f"next: deltacli checkpoint {table}")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 4)])
def test_the_prompt_repeats_columns_and_types(answer: str, code: int, home: Path) -> None:
    before = content(home)
    with Session("widen-type", home / "tbl", *FARE, *CONSENT, "--color", "never", size=(200, 60)) as session:
        asked = session.read_until("[y/N] ")
        unchanged = content(home)
        session.type(answer)
        ended, _ = session.finish()

    assert "version 15, would be committed" in asked
    assert "ride.fare from decimal(8,2) to decimal(10,2)? [y/N]" in asked
    assert (code, before) == (ended, unchanged)
    assert (code == 0) == (before != content(home))


def test_files_are_read_on_request_and_a_file_of_another_type_is_named(home: Path) -> None:
    agreed = widen(home, *FARE, *CONSENT, "--check-files", "--check")
    path = sorted(name for name in content(home) if "day=2026-01-02/part-00012" in name)[0]
    file = pq.ParquetFile(home / "tbl" / path).read()
    rides = file["ride"].combine_chunks()
    wrong = pa.StructArray.from_arrays([rides.field("city"), rides.field("fare").cast(pa.float64())], ["city", "fare"])
    pq.write_table(file.set_column(1, "ride", wrong), home / "tbl" / path)
    before = content(home)

    dry = widen(home, *FARE, *CONSENT, "--check-files", "--dry-run", "--json")
    done = widen(home, *FARE, *CONSENT, "--check-files", "--yes")
    unasked = widen(home, *FARE, *CONSENT, "--dry-run")

    assert (1, 4, 4, 0) == (agreed.code, dry.code, done.code, unasked.code)
    assert before == content(home)
    (refusal,) = document(dry)["refusals"]
    assert "widen.file-type" == refusal["code"]
    assert path in refusal["message"]
    assert refusal["wayOut"].startswith(f"deltacli validate {(home / 'tbl').as_uri()} --level footers ")
    assert path in done.err
    assert "ride.fare" in refusal["message"]


def test_the_suggested_command_names_the_table(home: Path) -> None:
    metadata = commit(home, 5)["metaData"]
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"] = {"delta.typeChanges": [{"fromType": "byte", "toType": "short"}]}
    add_commit(home, {"metaData": {**metadata, "schemaString": json.dumps(schema)}})

    done = widen(home, "trip", "decimal(20,0)", *CONSENT, "--dry-run", "--json")

    (refusal,) = document(done)["changes"][0]["refusals"]
    assert "widen.history-broken" == refusal["code"]
    assert f"deltacli validate file://{home}/tbl --select 'typewidening.*'" == refusal["wayOut"]


def test_a_table_whose_writer_feature_is_unknown_is_refused(home: Path) -> None:
    features = {"readerFeatures": [], "writerFeatures": ["neverHeardOf"]}
    add_commit(home, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    before = content(home)

    done = widen(home, *FARE, *CONSENT, "--yes", "--json")

    assert (4, "protocol.unknown-feature", before) == (done.code, done.error["code"], content(home))
