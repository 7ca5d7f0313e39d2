"""`optimize` as a command: plan, consent, documents, exit codes, and what it says when something is in its way."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.pty_session import Session
from tests.cli.support import ROOT, Result, deltacli
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import commit_info
from tests.support.optimizing import Ids
from tests.support.small_vectors import z85

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table of two partitions with two small files each."""
    return Ids().append("a", "b", deleted=(0,)).append("c", "d", p="1").builder.write(tmp_path / "tbl")


def optimize(place: Path, *arguments: str) -> Result:
    return deltacli("optimize", place.name, *arguments, cwd=place.parent)


def document(result: Result) -> Json:
    found: Json = result.document
    assert [] == faults(found, "deltacli.optimize")
    return found


def rows(place: Path) -> list[str]:
    return sorted(deltacli("read", place, "--format", "csv").out.splitlines())


def newest(place: Path) -> int:
    return max(int(path.stem) for path in (place / "_delta_log").glob("*.json"))


def test_a_plan_changes_nothing_and_a_check_says_by_its_exit_code_whether_something_is_due(place: Path) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}

    plan, due = optimize(place, "--dry-run", "--json"), optimize(place, "--check")
    shown = optimize(place, "--dry-run")

    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert (0, 1, 0) == (plan.code, due.code, shown.code)
    assert (True, None, {"removed": 4, "added": 2, "skipped": 0}) == tuple(
        document(plan)[name] for name in ("dryRun", "verified", "files")
    )
    assert re.search("^would rewrite  4 files, .* KiB$", shown.out, re.MULTILINE)
    assert "a query opens  1.0 files per partition, now 2.0\ntakes          about 1s with two threads" in shown.out


def test_without_consent_nothing_is_done_and_the_error_has_the_word(place: Path) -> None:
    without = optimize(place)

    assert (4, True) == (without.code, "hint: deltacli optimize tbl --yes\n" in without.err)
    with Session("optimize", place, "--color", "never", size=(200, 60)) as session:
        asked = session.read_until("[y/N] ")
        session.type("n\n")
        ended, _ = session.finish()
    assert re.search(r"rewrite 4 files \(.* KiB\) of file:\S+: 2 new files in 1 commit\? \[y/N\]", asked)
    assert (4, 2) == (ended, newest(place))


def test_rows_stay_are_verified_and_a_second_run_has_nothing_to_do(place: Path) -> None:
    before = rows(place)

    done = optimize(place, "--yes", "--verify", "--json")
    again = optimize(place, "--yes")
    undone = deltacli("restore", place, "--version", "2", "--yes")
    lines = optimize(place, "--yes", "--format", "ndjson").out.splitlines()

    found = document(done)
    assert (0, [3], 10, 2) == (done.code, found["committedVersions"], found["rows"], found["vectorsPurged"])
    assert {"rows": 10, "scope": "table"} == found["verified"]
    assert (0, "nothing to do") == (again.code, again.out[:13])
    assert (0, []) == (undone.code, line_faults(json.loads(lines[0])))
    assert before == rows(place)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--where", "id = 1"), "not a partition column"),
        (("--where", "id = 1"), "\n  example            p = "),
        (("--where", "p ="), "p ="),
        (("--min-files", "1"), "--min-files"),
        (("--target-size", "much"), "--target-size"),
        (("--purge-ratio", "200%"), "--purge-ratio"),
        (("--commit-metadata", "txnId=1"), "txnId"),
    ],
)
def test_bad_input_ends_with_2(place: Path, arguments: tuple[str, ...], said: str) -> None:
    done = optimize(place, *arguments, "--yes")

    assert (2, True, 2) == (done.code, said in done.err, newest(place))


def test_other_formats_and_shares_end_with_2(tmp_path: Path) -> None:
    (tmp_path / "p" / "schema").mkdir(parents=True)
    (tmp_path / "p" / "schema" / "schema-0").write_text("{}")

    paimon = deltacli("optimize", "p", "--yes", cwd=tmp_path)
    share = deltacli("optimize", "a.share#x.y.z", "--yes", cwd=tmp_path)

    assert (2, 2) == (paimon.code, share.code)
    assert "ompact" in paimon.err


def test_a_table_of_a_catalog_is_refused_with_4_also_as_a_plan(place: Path) -> None:
    log = place / "_delta_log" / f"{0:020}.json"
    text = log.read_text().replace('"readerFeatures":[', '"readerFeatures":["catalogManaged",')
    log.write_text(text.replace('"writerFeatures":[', '"writerFeatures":["catalogManaged","inCommitTimestamp",'))

    done = [optimize(place, *words, "--json") for words in (("--yes",), ("--dry-run",), ("--check",))]

    assert [(4, "catalog.managed")] * 3 == [(one.code, one.error["code"]) for one in done]


def test_a_table_that_is_not_there_ends_with_3_and_a_damaged_file_with_5(place: Path) -> None:
    (place / "c").write_bytes(b"PAR1 nothing PAR1")

    absent, damaged = deltacli("optimize", place / "no", "--yes"), optimize(place, "--yes", "--json")
    done = optimize(place, "--yes")
    in_words = done.out

    assert "1 file could not be read and was left alone\n" in done.err
    assert "\n  before another run  deltacli repair tbl --dry-run\nhint:" in done.err
    assert "optimize files that cannot be read are left; repair them first" in " ".join(
        deltacli("help", "5").out.split()
    )
    assert re.search(r"^refused +c cannot be read as a Parquet file", in_words, re.MULTILINE)
    assert (3, 5, 3) == (absent.code, damaged.code, newest(place))
    assert ("c", "data.not-parquet") == tuple(document(damaged)["refused"][0][name] for name in ("path", "code"))
    assert ("data.not-parquet", "deltacli validate tbl --level data") == tuple(
        damaged.error[name] for name in ("code", "hint")
    )


@pytest.mark.parametrize("mode", ["--yes", "--check"])
@pytest.mark.parametrize("options", [(), ("--purge",), ("--zorder", "id")])
def test_a_run_that_commits_nothing_because_files_cannot_be_read_ends_with_4(
    options: tuple[str, ...], mode: str, place: Path
) -> None:
    for name in "abcd":
        (place / name).write_bytes(b"PAR1 nothing PAR1")

    done = optimize(place, *options, mode, "--json")

    assert (4, 2) == (done.code, newest(place))
    assert "data.not-parquet" == done.error["code"]
    assert done.error["message"].startswith("nothing was changed: ")


def test_what_is_advised_about_a_not_null_column_that_files_lack_lets_them_be_rewritten(place: Path) -> None:
    first = place / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    (action,) = [line["metaData"] for line in lines if "metaData" in line]
    schema = json.loads(action["schemaString"])
    schema["fields"].append({"name": "new", "type": "long", "nullable": False, "metadata": {}})
    action["schemaString"] = json.dumps(schema)
    first.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    planned, refused = optimize(place, "--dry-run"), optimize(place, "--yes", "--json")
    (advised,) = re.findall("^next: deltacli (.*) --dry-run$", planned.err, re.MULTILINE)
    followed = deltacli(*shlex.split(advised), "--yes", cwd=place.parent)

    assert (0, 4, "data.column-missing") == (planned.code, refused.code, refused.error["code"])
    assert {"new"} == {one["column"] for one in document(refused)["refused"]}
    assert ("alter tbl nullable new", 0, 0) == (advised, followed.code, optimize(place, "--yes").code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no limits of file sizes here")
def test_a_disk_without_room_ends_with_7_and_leaves_nothing(tmp_path: Path) -> None:
    place = Ids(partitioned=False).append("a", "b", rows=5_000).builder.write(tmp_path / "tbl")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    words = [sys.executable, "-m", "deltacli", "optimize", str(place), "--yes"]

    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 4; exec "$@"', "-", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (7, True) == (done.returncode, "error: " in done.stderr), done.stderr
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_plan_leaves_out_a_file_that_is_cut_short(place: Path) -> None:
    (place / "c").write_bytes((place / "c").read_bytes()[:-9])

    plan, done = (document(optimize(place, how, "--json")) for how in ("--dry-run", "--yes"))

    assert [("c", "data.not-parquet")] == [(one["path"], one["code"]) for one in plan["refused"]]
    assert plan["files"] == done["files"]


def test_a_plan_names_files_that_are_not_in_storage_and_the_repair(tmp_path: Path) -> None:
    ids = Ids().append("a", "b", "e", "f", "g").append("d", "h", deleted=(0,), p="1")
    in_a_file = {"storageType": "u", "pathOrInlineDv": f"ab{z85(bytes(16))}", "offset": 1}
    vector = {**in_a_file, "sizeInBytes": 34, "cardinality": 1}
    ids.builder.commit(commit_info("WRITE"), ids.line("c", p="1", deletionVector=vector))
    place = ids.builder.write(tmp_path / "tbl")
    (place / "g").unlink()

    plan, shown = document(optimize(place, "--dry-run", "--json")), optimize(place, "--dry-run")

    lost = {"g": "data.file-missing", "c": "dv.file-missing"}
    assert lost == {one["path"]: one["code"] for one in plan["refused"]}
    assert (6, 2) == (plan["files"]["removed"], plan["files"]["added"])
    name = "ab/deletion_vector_00000000-0000-0000-0000-000000000000.bin"
    assert f"c: {name} does not exist [dv.file-missing]\n" in shown.out
    assert "1 file: not in storage\n" in shown.out
    assert shown.err == "next: deltacli repair tbl --dry-run\n"
