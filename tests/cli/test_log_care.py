"""`log crc`, `log compact` and `log expire` on the command line; the sample table has 15 commits and a checkpoint."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.documents import dumps
from deltacli.operations.log.crc_and_compact import Checksum, ChecksumStatus
from deltacli.storage import open_storage
from tests.cli.support import ROOT, Result, deltacli

LOG = "tbl/_delta_log"
Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def document(result: Result, kind: str) -> Json:
    found: Json = json.loads(result.out)
    schema = json.loads((ROOT / "docs" / "schemas" / f"deltacli.{kind}.json").read_text(encoding="utf-8"))
    assert [] == [fault.message for fault in Draft202012Validator(schema).iter_errors(found)]
    return found


def names(home: Path) -> list[str]:
    return sorted(path.name for path in (home / LOG).iterdir())


def validated(home: Path, select: str) -> list[str]:
    result = deltacli("validate", "tbl", "--select", select, "--format", "ndjson", "--fail-on", "info", cwd=home)
    return [line["rule"] for line in map(json.loads, result.out.splitlines()) if line["type"] == "finding"]


def test_a_missing_checksum_is_written_once_and_then_compared(home: Path) -> None:
    would = document(deltacli("log", "crc", "tbl", "--dry-run", "--json", cwd=home), "log-crc")
    before = names(home)
    first = document(deltacli("log", "crc", "tbl", "--json", cwd=home), "log-crc")
    again = deltacli("log", "crc", "tbl", "--json", cwd=home)
    path = home / "tbl" / first["path"]

    assert ["missing", "written", "agrees"] == [one["status"] for one in (would, first, document(again, "log-crc"))]
    assert 0 == again.code
    assert [path.name] == sorted(set(names(home)) - set(before))
    assert [] == validated(home, "crc.*")


def test_a_wrong_checksum_is_reported_and_not_replaced(home: Path) -> None:
    path = home / LOG / f"{14:020d}.crc"
    deltacli("log", "crc", "tbl", cwd=home)
    wrong = json.loads(path.read_text()) | {"numFiles": 1}
    path.write_text(json.dumps(wrong))

    result = deltacli("log", "crc", "tbl", "--json", cwd=home)
    torn = path.write_text("{")
    unreadable = deltacli("log", "crc", "tbl", "--json", cwd=home)

    assert 1 == result.code == unreadable.code == torn
    assert [{"field": "numFiles", "file": 1, "log": 21}] == document(result, "log-crc")["differences"]
    assert "unreadable" == document(unreadable, "log-crc")["status"]
    assert "next: deltacli validate tbl --select 'crc.*'" in result.err
    assert "{" == path.read_text()


def test_a_compaction_equals_its_commits(home: Path) -> None:
    first = document(deltacli("log", "compact", "tbl", "--from", "2", "--to", "9", "--json", cwd=home), "log-compact")
    again = document(deltacli("log", "compact", "tbl", "--from", "2", "--to", "9", "--json", cwd=home), "log-compact")

    assert (False, True) == (first["skipped"], again["skipped"])
    assert {"add": 15, "metaData": 1, "remove": 3} == first["actions"]
    assert [] == validated(home, "compaction.*")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("log compact tbl --from 9 --to 9", 2, "at least two commits"),
        ("log compact tbl --from 9 --to 99", 3, "commits 9 to 99: version 99 does not exist; the newest is 14"),
        ("log compact tbl --from 9 --to 99", 3, "hint: deltacli log compact tbl --from 9 --to 14"),
        ("log compact tbl --from 20 --to 99", 3, "hint: deltacli history tbl"),
        ("log crc tbl --version 99", 3, "version 99 does not exist"),
        ("log expire tbl --retention 1h --yes", 4, "hint: deltacli log expire tbl --dry-run"),
        ("log expire tbl --retention 1d --dry-run", 4, "--allow-retention-below 30d"),
        ("log expire tbl --retention soon", 2, "is not a duration"),
        ("log expire tbl --keep-versions 3-1", 2, "is not a version"),
        ("log expire tbl --keep-versions 99 --yes", 3, "version 99 cannot be kept"),
    ],
)
def test_impossible_changes_are_refused_and_change_nothing(arguments: str, code: int, said: str, home: Path) -> None:
    before = names(home)

    result = deltacli(*arguments.split(), cwd=home)

    assert (code, True) == (result.code, said in result.err), result.err
    assert before == names(home)


def test_a_compaction_that_differs_from_its_commits_is_never_replaced(home: Path) -> None:
    path = home / LOG / f"{2:020d}.{9:020d}.compacted.json"
    path.write_text('{"add":{"path":"ghost","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}\n')

    result = deltacli("log", "compact", "tbl", "--from", "2", "--to", "9", cwd=home)

    assert (4, True) == (result.code, "exists and differs from its commits" in result.err)
    assert "ghost" in path.read_text()


@pytest.mark.parametrize("changed", [True, False], ids=["nulls", "and what writers choose"])
def test_an_equal_compaction_of_another_writer_is_already_there(changed: bool, home: Path) -> None:
    compact = ("log", "compact", "tbl", "--from", "2", "--to", "9", "--json")
    deltacli(*compact, cwd=home)
    path = home / LOG / f"{2:020d}.{9:020d}.compacted.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for kind in line.keys() & {"add", "remove"}:  # as delta-rs writes them
            more = {"baseRowId": None, "defaultRowCommitVersion": None, "deletionVector": None, "tags": None}
            line[kind] = {**more, **line[kind]} if changed else {**line[kind], "dataChange": False}
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))

    again = document(deltacli(*compact, cwd=home), "log-compact")

    assert True is again["skipped"]
    assert [] == validated(home, "compaction.*")


@pytest.mark.parametrize("fault", ["size", "lacks", "twice"])
def test_what_validate_reports_of_a_compaction_is_refused(fault: str, home: Path) -> None:
    compact = ("log", "compact", "tbl", "--from", "2", "--to", "9")
    deltacli(*compact, cwd=home)
    path = home / LOG / f"{2:020d}.{9:020d}.compacted.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = next(place for place, line in enumerate(lines) if "add" in line)
    if fault == "size":
        lines[at]["add"]["size"] += 1
    else:
        lines[at : at + 1] = [] if fault == "lacks" else [lines[at]] * 2
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    refused = deltacli(*compact, cwd=home)

    assert 4 == refused.code
    assert ["compaction.content"] == validated(home, "compaction.*")


def test_expiry_requires_consent_and_shows_its_plan_without_it(home: Path) -> None:
    before = names(home)

    dry = document(deltacli("log", "expire", "tbl", "--dry-run", "--json", cwd=home), "log-expire")
    asked = deltacli("log", "expire", "tbl", cwd=home)
    done = document(deltacli("log", "expire", "tbl", "--yes", "--json", cwd=home), "log-expire")

    assert (4, True) == (asked.code, re.search(r"^delete +commit +10 ", asked.out, re.MULTILINE) is not None)
    assert "hint: deltacli log expire tbl --yes" in asked.err
    assert (10, [[0, 9]], 5) == (dry["boundaryVersion"], dry["lostVersions"], dry["keptVersions"])
    assert dry["planId"] == done["planId"]
    assert (0, 10) == (dry["deleted"]["files"], done["deleted"]["files"])
    assert [f"{version:020d}.json" for version in range(10)] == sorted(set(before) - set(names(home)))
    assert [] == document(deltacli("log", "expire", "tbl", "--yes", "--json", cwd=home), "log-expire")["items"]


def test_expiry_skips_tables_that_keep_their_log_or_have_a_torn_commit(home: Path) -> None:
    torn = home / LOG / f"{3:020d}.json"
    written = torn.stat().st_mtime_ns
    torn.write_bytes(b"")
    os.utime(torn, ns=(written, written))
    before = names(home)

    dry = document(deltacli("log", "expire", "tbl", "--dry-run", "--json", cwd=home), "log-expire")
    result = deltacli("log", "expire", "tbl", "--yes", cwd=home)

    assert ["commit.empty"] == [refusal["code"] for refusal in dry["refusals"]]
    assert (4, before) == (result.code, names(home))


def test_a_log_without_a_checkpoint_below_the_cutoff_is_offered_one(home: Path) -> None:
    for path in (home / LOG).glob("*checkpoint*"):
        path.unlink()

    result = deltacli("log", "expire", "tbl", "--yes", cwd=home)
    made = deltacli("checkpoint", "tbl", "--version", "14", cwd=home)
    done = document(deltacli("log", "expire", "tbl", "--yes", "--json", cwd=home), "log-expire")

    assert (0, 0) == (result.code, made.code)
    assert "next: deltacli checkpoint tbl --version 14" in result.err
    assert (14, 14) == (done["boundaryVersion"], done["deleted"]["files"])


def test_a_dry_run_of_expiry_shows_the_refusal_of_the_real_run(home: Path) -> None:
    drop_adds_of_checkpoint(home)
    before = names(home)

    dry = deltacli("log", "expire", "tbl", "--dry-run", "--json", cwd=home)
    asked = deltacli("log", "expire", "tbl", cwd=home)
    done = deltacli("log", "expire", "tbl", "--yes", cwd=home)

    refusals = document(dry, "log-expire")["refusals"]
    assert [4, 4, 4] == [dry.code, asked.code, done.code]
    assert ["expire.not-proven"] == [refusal["code"] for refusal in refusals]
    assert '"hint":"deltacli validate tbl"' in dry.err
    assert refusals[0]["message"] in asked.err
    assert f"nothing was changed: {refusals[0]['message']}" in done.err
    assert before == names(home)


def test_a_refused_plan_names_one_rule_per_reason(home: Path) -> None:
    crc = json.dumps({"numFiles": 99, "tableSizeBytes": 1, "numMetadata": 1, "numProtocol": 1})
    (home / LOG / f"{14:020d}.crc").write_text(crc)

    shown = deltacli("log", "expire", "tbl", "--dry-run", cwd=home).out

    assert "[crc.num-files]\n" in shown
    assert "[expire.not-proven]" not in shown


def test_a_checksum_is_not_written_where_the_checkpoint_contradicts_the_commits(home: Path) -> None:
    (home / LOG / f"{14:020d}.crc").unlink(missing_ok=True)
    drop_adds_of_checkpoint(home)
    before = names(home)

    done = deltacli("log", "crc", "tbl", "--json", cwd=home)
    dry = deltacli("log", "crc", "tbl", "--dry-run", cwd=home)

    assert (4, "crc.not-proven", 4) == (done.code, done.error["code"], dry.code)
    assert {"numFiles", "tableSizeBytes"} <= done.error["details"].keys()
    assert before == names(home)


def drop_adds_of_checkpoint(home: Path) -> None:
    """Write the newest checkpoint of the table without its live files; the commits stay."""
    path = max((home / LOG).glob("*.checkpoint.parquet"))
    found = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist([row for row in found.to_pylist() if not row["add"]], found.schema), path)
    (home / LOG / "_last_checkpoint").unlink(missing_ok=True)


FIELDS = ("protocol", "metadata", "setTransactions", "domainMetadata", "numFiles", "tableSizeBytes", "numMetadata")
WRONG_VALUES = (
    *("7", '"x"', "[1]", "true", "{}", '[{"appId":[1]}]', '{"minReaderVersion":"a"}', '{"format":7}', "1.5", "1e400"),
    *("-1", '[{"domain":{"a":1},"removed":"x"}]', "[" * 800 + "]" * 800, "99999999999999999999", '"\\ud800"'),
)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", WRONG_VALUES, ids=lambda value: value[:20])
def test_a_checksum_with_wrong_types_differs(field: str, value: str, home: Path) -> None:
    path = home / LOG / f"{14:020d}.crc"
    table = Table(open_storage(str(home / "tbl")))
    execute_change(Checksum(), table)
    content = path.read_text()
    right = json.dumps(json.loads(content)[field], separators=(",", ":"))
    assert f'"{field}":{right}' in content
    path.write_text(content.replace(f'"{field}":{right}', f'"{field}":{value}'))

    report = execute_change(Checksum(), table)

    assert (ChecksumStatus.DIFFERS, [field]) == (report.status, [name for name, _, _ in report.differences])
    assert json.loads(dumps(report.as_json()))


def test_a_checksum_with_wrong_types_is_reported_by_the_command(home: Path) -> None:
    path = home / LOG / f"{14:020d}.crc"
    deltacli("log", "crc", "tbl", cwd=home)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"protocol": 7, "setTransactions": [1]}))

    report = deltacli("log", "crc", "tbl", "--json", cwd=home)

    assert 1 == report.code
    assert {"protocol", "setTransactions"} == {one["field"] for one in document(report, "log-crc")["differences"]}
    assert "crc.txns" in validated(home, "crc.*")
