"""Documents against their schemas, and the formats against each other."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.cli.support import ROOT, Result, deltacli
from tests.support import damage
from tests.support.actions import add, birth, commit_info, remove
from tests.support.builder import TableBuilder

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs" / "schemas").glob("*.json")}


def validate(document: object, name: str) -> None:
    faults = [fault.message for fault in Draft202012Validator(SCHEMAS[name]).iter_errors(document)]
    assert [] == faults


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("history",), "deltacli.history"),
        (("history", "--counts", "--limit", "3"), "deltacli.history"),
        (("snapshot",), "deltacli.snapshot"),
        (("snapshot", "--digest", "--version", "3"), "deltacli.snapshot"),
        (("snapshot", "--counts"), "deltacli.snapshot"),
        (("snapshot", "--schema"), "deltacli.schema"),
        (("snapshot", "--files"), "deltacli.files"),
        (("snapshot", "--files", "--tombstones"), "deltacli.files"),
    ],
)
def test_documents_match_their_schema(sample: Path, arguments: tuple[str, ...], kind: str) -> None:
    result = deltacli(arguments[0], sample, *arguments[1:], "--json")

    assert 0 == result.code
    assert kind == result.document["kind"]
    validate(result.document, kind)


def test_error_objects_match_their_schema(sample: Path) -> None:
    failures = [
        deltacli("snapshot", sample, "--version", "99", "--json"),
        deltacli("history", sample / "nothing", "--format", "ndjson"),
        deltacli("history", sample, "--columns", "versoin", "--json"),
        deltacli("snapshot", sample, "--no-such-option", "--json"),
    ]

    assert [3, 3, 2, 2] == [failure.code for failure in failures]
    for failure in failures:
        validate(failure.error, "error")
        assert "" == failure.out


def lines_of(result: Result) -> tuple[list[dict[str, object]], dict[str, object]]:
    *items, end = [json.loads(line) for line in result.out.splitlines()]
    return items, end


def test_ndjson_and_json_have_the_same_content(sample: Path) -> None:
    document = deltacli("history", sample, "--json").document
    items, end = lines_of(deltacli("history", sample, "--format", "ndjson"))

    validate(end, "end")
    assert {"type": "end", "complete": True, "count": 15} == end
    assert [{"type": "commit", **item} for item in document["items"]] == items


def test_a_list_of_files_is_the_same_in_every_format(sample: Path) -> None:
    document = deltacli("snapshot", sample, "--files", "--json").document
    items, end = lines_of(deltacli("snapshot", sample, "--files", "--format", "ndjson"))
    rows = list(csv.DictReader(io.StringIO(deltacli("snapshot", sample, "--files", "--format", "csv").out)))
    table = deltacli("snapshot", sample, "--files").out.splitlines()

    paths = sorted(item["path"] for item in document["items"])
    assert 21 == len(paths)
    assert paths == sorted(str(item["path"]) for item in items)
    assert {"type": "end", "complete": True, "count": 21} == end
    assert paths == sorted(row["path"] for row in rows)
    assert paths == sorted(line.rsplit("  ", 1)[-1] for line in table[1:])
    first = document["items"][0]
    row = next(row for row in rows if row["path"] == first["path"])
    assert str(first["size"]) == row["size"]
    assert first["stats"] == row["stats"]
    assert first["partitionValues"] == json.loads(row["partitionValues"])


def test_a_cut_list_is_marked_in_every_format(sample: Path) -> None:
    history = deltacli("history", sample, "--limit", "2", "--json")
    items, end = lines_of(deltacli("history", sample, "--limit", "2", "--format", "ndjson"))
    files = deltacli("snapshot", sample, "--files", "--limit", "4", "--json").document
    file_lines, file_end = lines_of(deltacli("snapshot", sample, "--files", "--limit", "4", "--format", "ndjson"))
    table = deltacli("history", sample, "--limit", "2")

    assert history.document["complete"] is False
    assert [14, 13] == [item["version"] for item in history.document["items"]]
    assert (2, False) == (len(items), end["complete"])
    assert (4, False) == (len(files["items"]), files["complete"])
    assert (4, False) == (len(file_lines), file_end["complete"])
    assert f"showing 2 of 15 versions; all: deltacli history {sample} --limit 0" == table.err.strip()


def test_history_reports_missing_commits(tmp_path: Path) -> None:
    table = TableBuilder().commits(6).damaged(damage.head_cleaned(1), damage.gap(3, 4)).write(tmp_path / "t")

    result = deltacli("history", table, "--format", "ndjson", "--limit", "1")

    missing, limit = [json.loads(line) for line in result.err.splitlines()]
    text = "versions 0, 3-4 are missing from the log, so versions 1-2, 5 cannot be rebuilt"
    assert f"{text}: deltacli validate {table}" == missing["message"]
    assert limit["message"].startswith("showing 1 of 3 versions")
    validate(missing, "note")


def test_history_does_not_count_bytes_that_no_remove_tells(tmp_path: Path) -> None:
    tbl = TableBuilder().commit(*birth(), add("a", size=3), add("b")).commit(remove("a"))
    tbl.commit(remove("b", size=5)).commit(add("c")).write(tmp_path)

    done = deltacli("history", tmp_path, "--counts", "--json")

    validate(done.document, "deltacli.history")
    assert [0, 5, None, 0] == [item["removedBytes"] for item in done.document["items"]]


def test_columns_choose_and_order(sample: Path) -> None:
    rows = deltacli("history", sample, "--format", "csv", "--columns", "operation,VERSION", "--limit", "1").out
    files = deltacli("snapshot", sample, "--files", "--columns", "path,size", "--format", "csv").out
    items, _ = lines_of(deltacli("snapshot", sample, "--files", "--columns", "size", "--format", "ndjson"))

    assert "operation,version\nWRITE,14\n" == rows
    assert "path,size" == files.splitlines()[0]
    document = deltacli("snapshot", sample, "--files", "--columns", "path,size", "--json").document
    schema, _ = lines_of(deltacli("snapshot", sample, "--schema", "--format", "ndjson"))

    assert {"type", "size"} == set(items[0])
    assert ["path", "size"] == document["columns"]
    assert [("field", "trip", "long"), ("field", "day", "date")] == [
        (line["type"], line["name"], line["dataType"]) for line in schema
    ][:2]


def test_a_result_is_written_to_a_file_completely_or_not_at_all(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("before")

    failed = deltacli("snapshot", sample, "--version", "99", "--json", "--output", target)
    kept = target.read_text()
    written = deltacli("snapshot", sample, "--json", "--output", target)

    assert (3, "before") == (failed.code, kept)
    assert (0, "") == (written.code, written.out)
    validate(json.loads(target.read_text()), "deltacli.snapshot")
    assert [target] == list(tmp_path.iterdir())


def test_global_options_are_accepted_before_or_after_the_command(sample: Path) -> None:
    before = deltacli("--format", "json", "--now", "2026-01-04", "snapshot", sample)
    after = deltacli("snapshot", sample, "--format=json", "--now=2026-01-04")
    environment = deltacli("snapshot", sample, "--now", "2026-01-04", DELTACLI_FORMAT="json")

    assert before.document == after.document == environment.document


def test_the_clock_determines_which_tombstones_have_expired(sample: Path) -> None:
    young = deltacli("snapshot", sample, "--counts", "--json", "--now", "2026-01-05T20:59:59.999Z").document
    old = deltacli("snapshot", sample, "--counts", "--json", "--now", "2026-01-05T21:00:00.000Z").document

    assert {"count": 11, "expired": 1} == young["tombstones"]
    assert {"count": 11, "expired": 3} == old["tombstones"]


def test_a_configuration_file_sets_defaults_and_options_override_it(sample: Path, tmp_path: Path) -> None:
    config = tmp_path / "deltacli.toml"
    config.write_text('format = "json"\n')

    from_file = deltacli("history", sample, "--config", config)
    from_environment = deltacli("history", sample, DELTACLI_CONFIG=str(config))
    overruled = deltacli("history", sample, "--config", config, "--format", "csv", "--columns", "version")

    assert 15 == len(from_file.document["items"])
    assert from_file.out == from_environment.out
    assert "version" == overruled.out.splitlines()[0]


@pytest.mark.parametrize(
    ("columns", "exit_code", "expected"),
    [
        ("version,job", 0, "version,job\n1,\n0,nightly\n"),
        ("job,commitInfo", 0, 'job,commitInfo\n,\nnightly,"{""problem"":""none""}"\n'),
        ("version,absent", 2, ""),
        ("version,jbo", 2, ""),
        ("version,clusterId", 0, "version,clusterId\n1,\n0,1018-x\n"),
        ("verison", 2, ""),
    ],
)
def test_history_has_a_column_for_every_key_of_commit_info(
    columns: str, exit_code: int, expected: str, tmp_path: Path
) -> None:
    info = commit_info(job="nightly", problem="none", clusterId="1018-x")
    table = TableBuilder().commit(info, *birth()).commit(commit_info()).write(tmp_path / "t")

    done = deltacli("history", table, "--format", "csv", "--columns", columns)

    assert (exit_code, expected) == (done.code, done.out)
    assert ("no commit shown has the key absent" in done.err) is ("absent" in columns)
    assert ("did you mean job?" in done.err) is ("jbo" in columns)
