"""`validate --baseline` and `--write-baseline`: known findings are accepted, new ones are reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import BAD, Run
from tests.cli.test_documents import validate as assert_valid

ONLY = ("--select", "commit.*")


def test_a_baseline_accepts_known_findings_and_fails_on_new_ones(lake: Path, validate: Run) -> None:
    written = validate("lake", *ONLY, "--write-baseline", "known.json")
    accepted = validate("lake", *ONLY, "--baseline", "known.json", "--json")
    Path("lake/deep/good/_delta_log/00000000000000000015.json").write_text(BAD)
    found = validate("lake", *ONLY, "--baseline", "known.json", "--json")

    assert_valid(json.loads(Path("known.json").read_text()), "deltacli.baseline")
    assert (0, 0, 1) == (written.code, accepted.code, found.code)
    assert {"accepted": 1, "stale": 0} == accepted.document["baseline"]
    assert [0, 1] == [len(table["findings"]) for table in found.document["tables"]]


def test_a_baseline_still_applies_after_a_move_or_on_another_line(lake: Path, validate: Run) -> None:
    commit = Path("lake/bad/_delta_log/00000000000000000015.json")
    validate("lake", *ONLY, "--write-baseline", "known.json")
    commit.write_text('{"txn":{"appId":"a","version":1}}\n' + BAD)
    (lake / "moved").mkdir()
    for name in ("lake", "known.json"):
        shutil.move(name, lake / "moved" / name)

    result = validate("moved/lake/bad", *ONLY, "--baseline", "moved/known.json")

    assert 0 == result.code, result.out
    assert "2:" not in result.out


def test_the_second_of_two_equal_faults_is_new(lake: Path, validate: Run) -> None:
    commit = Path("lake/bad/_delta_log/00000000000000000015.json")
    validate("lake", *ONLY, "--write-baseline", "known.json")
    commit.write_text(BAD * 2)

    result = validate("lake", *ONLY, "--baseline", "known.json", "--json")

    assert (1, 1) == (result.code, result.document["summary"]["errors"])
    assert {"accepted": 1, "stale": 0} == result.document["baseline"]


def test_accepted_findings_that_disappeared_are_reported_if_they_were_checked(lake: Path, validate: Run) -> None:
    validate("lake", *ONLY, "--write-baseline", "known.json")
    Path("lake/bad/_delta_log/00000000000000000015.json").unlink()

    gone = validate("lake", *ONLY, "--baseline", "known.json")
    elsewhere = validate("lake/deep", *ONLY, "--baseline", "known.json")
    other = validate("lake", "--select", "commit.empty", "--baseline", "known.json")

    assert gone.err.startswith(
        "note: 1 accepted finding no longer found; to update the baseline: deltacli validate lake"
    )
    assert ("", "") == (elsewhere.err, other.err)


def test_accepted_findings_do_not_count_against_the_limit_of_new_ones(lake: Path, validate: Run) -> None:
    commit = Path("lake/bad/_delta_log/00000000000000000015.json")
    commit.write_text(BAD * 5)
    validate("lake/bad", *ONLY, "--write-baseline", "known.json", "--max-findings", "1")
    accepted = json.loads(Path("known.json").read_text())["findings"]
    Path("lake/bad/_delta_log/00000000000000000016.json").write_text(BAD * 3)

    result = validate("lake/bad", *ONLY, "--baseline", "known.json", "--max-findings", "1", "--json")

    assert 5 == sum(item.get("count", 1) for item in accepted)
    (table,) = result.document["tables"]
    assert [16] == [finding["location"]["version"] for finding in table["findings"]]
    assert {"commit.bad-json": 2} == table["suppressed"]


def test_a_baseline_is_not_written_if_a_table_is_missing(lake: Path, validate: Run) -> None:
    result = validate("lake", "none", *ONLY, "--write-baseline", "known.json")

    assert (3, False) == (result.code, Path("known.json").exists())
    assert "was not written" in result.err


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind":"deltacli.baseline","schemaVersion":2,"findings":[]}', "\xff"]
)
def test_a_file_that_is_not_a_baseline_is_refused(text: str, lake: Path, validate: Run) -> None:
    Path("known.json").write_bytes(text.encode("latin-1"))

    result = validate("lake", "--baseline", "known.json", "--json")

    assert (2, "", "usage.baseline") == (result.code, result.out, result.error["code"])


@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
def test_a_baseline_replaces_no_other_file_and_the_hint_names_a_new_one(option: str, lake: Path, validate: Run) -> None:
    Path("README.md").write_text("# lake\n")

    result = validate("lake", *ONLY, option, "README.md")

    hint = "deltacli validate lake" if option == "--baseline" else "deltacli validate lake --select 'commit.*'"
    assert (2, f"hint: {hint} --write-baseline README.baseline.json") == (result.code, result.err.splitlines()[-1])
    assert "# lake\n" == Path("README.md").read_text()
