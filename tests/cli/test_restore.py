"""`restore` on the command line; the sample table has 15 versions."""

from __future__ import annotations

import json
import re
import shutil
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.pty_session import Session
from tests.cli.support import Result, deltacli
from tests.cli.test_terminal import ESCAPE, on_terminal
from tests.docs.test_schemas import faults, line_faults

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def restore(home: Path, *arguments: str, **environment: str) -> Result:
    return deltacli("restore", "tbl", *arguments, cwd=home, **environment)


def rows(home: Path, *arguments: str) -> list[str]:
    return sorted(deltacli("read", "tbl", "--format", "csv", *arguments, cwd=home).out.splitlines())


def document(result: Result) -> Json:
    found: Json = result.document
    assert [] == faults(found, "deltacli.restore")
    return found


def test_a_dry_run_shows_the_plan_and_changes_nothing(home: Path) -> None:
    done = restore(home, "--version", "3", "--dry-run")

    assert (0, "") == (done.code, done.err)
    assert done.words.startswith(
        f"table file://{home}/tbl version 14, newest restore 3, committed 2026-01-01 21:00:00 UTC files size rows "
        "bring back 6 11.1 KiB 580 remove 18 27.9 KiB 1,070 keep 3 "
        "changes unset delta.deletedFileRetentionDuration commit version 15, would be committed"
    )
    assert 15 == len(list((home / "tbl" / "_delta_log").glob("*.json")))


def test_rows_come_back_and_the_restore_is_undone(home: Path) -> None:
    then, now = rows(home, "--version", "3"), rows(home)

    first = restore(home, "--version", "3", "--yes", "--json")
    assert (0, then) == (first.code, rows(home))
    found = document(first)
    assert (14, 3, 15, False) == (
        *(found[f"{name}Version"] for name in ("current", "target", "committed")),
        found["dryRun"],
    )
    assert {"added": 6, "removed": 18, "unchanged": 3, "addedBytes": 11319, "removedBytes": 28600} == found["files"]
    assert {"added": 580, "removed": 1070} == found["rows"]
    assert "+6 files, -18 files" in deltacli("history", "tbl", "--limit", "1", "--format", "markdown", cwd=home).out

    second = restore(home, "--timestamp", "2026-01-03T17:00:00Z", "--yes", "--format", "ndjson")
    assert (0, now) == (second.code, rows(home))
    assert [] == line_faults(json.loads(second.out.splitlines()[0]))

    third = restore(home, "--version", "14", "--yes")
    assert (0, f"nothing to do  file://{home}/tbl, version 16: nothing differs from version 14\n") == (
        third.code,
        third.out,
    )


def test_a_check_says_by_its_exit_code_whether_the_table_differs(home: Path) -> None:
    codes = [restore(home, "--version", version, "--check").code for version in ("3", "14")]

    shutil.rmtree(home / "tbl" / "day=2026-01-02")
    refused = restore(home, "--version", "3", "--check", "--json")

    assert [1, 0, 4] == [*codes, refused.code]
    found = document(refused)
    assert {"missing"} == {one["problem"] for one in found["missing"]}
    assert ["restore.file-missing"] == [one["code"] for one in found["refusals"]]


def test_consent_is_asked_for_with_the_numbers_of_the_plan(home: Path) -> None:
    without = restore(home, "--version", "3")
    assert 4 == without.code
    assert "hint: deltacli restore tbl --version 3 --yes\n" in without.err

    with Session("restore", home / "tbl", "--version", "3", "--color", "never", size=(200, 60)) as session:
        asked = session.read_until("[y/N] ")
        session.type("n\n")
        ended, _ = session.finish()
    question = " ".join(asked.split()).partition("restore version 3 ")[2]
    numbers = "bring back 6 files (11.1 KiB, 580 rows), remove 18 files (27.9 KiB, 1,070 rows)? [y/N]"
    assert f"of {(home / 'tbl').as_uri()}: {numbers}" == question
    assert 4 == ended
    assert 15 == len(list((home / "tbl" / "_delta_log").glob("*.json")))


def test_some_partitions_come_back(home: Path) -> None:
    others = rows(home, "--where", "day <> '2026-01-03'")
    then = rows(home, "--version", "8", "--where", "day = '2026-01-03'")

    done = restore(home, "--version", "8", "--where", "day = '2026-01-03'", "--yes", "--json")

    assert (0, others, then) == (
        done.code,
        rows(home, "--where", "day <> '2026-01-03'"),
        rows(home, "--where", "day = '2026-01-03'"),
    )
    assert ("day = '2026-01-03'", []) == (document(done)["where"], document(done)["schemaChanges"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "the version to restore is missing"),
        (("--version", "3", "--timestamp", "2026-01-01"), 2, "exclude each other"),
        (("--version", "-1"), 2, "negative"),
        (("--version", "15"), 3, "the newest is 14"),
        (("--timestamp", "2020-01-01"), 3, "2026-01-01"),
        (("--version", "3", "--where", "trip = 1"), 2, "not a partition column"),
        (("--version", "3", "--commit-metadata", "txnId=1"), 2, "txnId"),
    ],
)
def test_bad_input(home: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = restore(home, *arguments, "--yes")

    assert code == done.code
    assert said in done.err
    assert 15 == len(list((home / "tbl" / "_delta_log").glob("*.json")))


def test_paimon_tables_and_shares_are_other_things(tmp_path: Path) -> None:
    (tmp_path / "p" / "schema").mkdir(parents=True)
    (tmp_path / "p" / "schema" / "schema-0").write_text("{}")

    paimon = deltacli("restore", "p", "--version", "1", cwd=tmp_path)
    share = deltacli("restore", "a.share#x.y.z", "--version", "1", "--dry-run", cwd=tmp_path)

    assert (2, 2) == (paimon.code, share.code)
    assert "sys.rollback_to" in paimon.err


def test_the_plan_is_drawn_on_a_terminal(home: Path) -> None:
    for width in (60, 120):
        code, lines = on_terminal(width, "restore", home / "tbl", "--version", "3", "--dry-run")

        text = [ESCAPE.sub("", line) for line in lines]
        drawn = [line for line in text if re.match(r" *bring back +6 +11\.1 KiB +580", line)]
        assert (0, 1) == (code, len(drawn))
        plan = list(takewhile(lambda line: "next: " not in line, text))
        assert max(map(len, plan)) <= width


def test_csv_has_each_file_that_comes_back_or_goes_with_what_is_wrong(home: Path) -> None:
    """
    Version 3 has six files that are not live now. A file of these is missing, and one that stays is cut off.
    """
    listed = restore(home, "--version", "3", "--dry-run", "--format", "csv").out.splitlines()
    paths = [line.partition(",")[0] for line in listed[1:]]
    changes = [line.split(",")[1] for line in listed[1:]]
    assert ("path,change,kind,sizeBytes,problem,why,source", 24) == (listed[0], len(set(paths)))
    assert ["add"] * 6 + ["remove"] * 18 == changes
    (home / "tbl" / paths[0]).unlink()
    live = ("snapshot", "tbl", "--version", "3", "--files", "--format", "csv", "--columns", "path")
    stays = min(set(deltacli(*live, cwd=home).out.splitlines()[1:]) - set(paths))
    (home / "tbl" / stays).write_bytes(b"PAR1")

    refused = restore(home, "--version", "3", "--dry-run", "--format", "csv")

    first, second, *others = refused.out.splitlines()[1:]
    assert 4 == refused.code
    assert f'{stays},,data,,size,"4 bytes instead of 1,793",' in first
    assert f"{paths[0]},add,data," in second
    assert second.endswith(",missing,no such file,")
    assert listed[2:] == others


def test_a_refusal_names_the_table_in_the_command_that_helps(home: Path) -> None:
    """
    A file that comes back is looked for elsewhere first; one that stays is brought back by an undelete.
    """
    shutil.rmtree(home / "tbl" / "day=2026-01-02")
    gone = restore(home, "--version", "8", "--dry-run", "--where", "day = '2026-01-02'", "--json")
    said = document(gone)["refusals"][0]["wayOut"]
    code, lines = on_terminal(400, "restore", home / "tbl", "--version", "14", "--dry-run")
    drawn = ESCAPE.sub("", "\n".join(lines))

    assert (4, 4) == (gone.code, code)
    assert "{table}" not in said + drawn + gone.err
    assert said.startswith(f"deltacli restore file://{home}/tbl --version 8 --from COPY --dry-run --where ")
    assert f"hint: deltacli undelete {home}/tbl --from COPY --dry-run" in drawn


def test_who_reads_rows_again_is_named(home: Path) -> None:
    """
    Version 14 has three files more than 13, so that 15 is restored to it by adds alone.
    """
    restore(home, "--version", "13", "--yes")
    names = [one["effect"] for one in document(restore(home, "--version", "14", "--dry-run", "--json"))["clients"]]

    assert ["read the rows that come back again"] == [one[:34] for one in names if "come back" in one]


def test_a_condition_that_matches_nothing_and_a_source_that_is_not_there_are_told(home: Path) -> None:
    nothing = restore(home, "--version", "3", "--where", "day = '2030-01-01'", "--yes")
    no_source = restore(home, "--version", "14", "--from", str(home / "none"), "--yes")

    assert (0, 3) == (nothing.code, no_source.code)
    assert "no file of version 3 or of version 14 matches day = '2030-01-01'" in nothing.out


def test_the_question_breaks_between_words(home: Path) -> None:
    with Session("restore", home / "tbl", "--version", "3", "--color", "never", size=(80, 60)) as session:
        asked = session.read_until("[y/N] ")
        session.type("n\n")
        session.finish()

    start = asked.index("restore version 3")
    lines = asked[start:].replace("\r", "").split("\n")
    uri = (home / "tbl").as_uri()
    assert max(map(len, lines)) <= max(80, len(uri) + 1)
    assert (
        f"restore version 3 of {uri}: "
        "bring back 6 files (11.1 KiB, 580 rows), remove 18 files (27.9 KiB, 1,070 rows)? [y/N] " == " ".join(lines)
    )


def test_a_version_that_is_not_there_names_those_that_are(home: Path) -> None:
    refused = restore(home, "--version", "99", "--yes")

    assert 3 == refused.code
    assert "\n  readable versions  0-14\nhint: deltacli history tbl\n" in refused.err
