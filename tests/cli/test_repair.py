"""`repair` on the command line: plan, consent, exit codes, documents, the way back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import PythonSyntax, use_hint_syntax
from tests.cli.support import Result, deltacli, make_sample
from tests.cli.test_documents import lines_of
from tests.docs.test_schemas import faults
from tests.support.damaged_tables import ADDED, CHECKPOINT, HINT, DamagedTable
from tests.support.two_spellings import DIFFERING, write_two_spellings

NOW = ("--now", "2026-01-10T12:00:00Z")
Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(tmp_path: Path) -> Path:
    DamagedTable().write(tmp_path / "tbl")
    shutil.copytree(tmp_path / "tbl", tmp_path / "copy")
    return tmp_path


def repair(home: Path, *arguments: str, table: str = "tbl") -> Result:
    return deltacli("repair", table, *arguments, *NOW, cwd=home)


def document(result: Result, kind: str = "deltacli.repair") -> Json:
    found: Json = result.document
    assert [] == faults(found, kind)
    return found


def test_a_healthy_table_has_nothing_to_repair(home: Path) -> None:
    done = repair(home, "--yes")

    assert (0, "") == (done.code, done.err)
    assert f"nothing to do  file://{home}/tbl, version 12: no finding that a repair acts on\n" == done.out


def test_a_dry_run_names_the_changes_and_makes_none(home: Path) -> None:
    (home / "tbl" / CHECKPOINT).write_bytes(b"")

    done = repair(home, "--dry-run")

    assert (0, "") == (done.code, done.err)
    assert [
        f"table         file://{home}/tbl",
        "version       12",
        "would repair  write the checkpoint of version 7 from the rest of the log [checkpoint.zero-length]",
        "              write _last_checkpoint for the newest checkpoint [hint.checkpoint-missing]",
    ] == done.out.splitlines()
    assert b"" == (home / "tbl" / CHECKPOINT).read_bytes()
    assert "planned" == document(repair(home, "--dry-run", "--json"))["steps"][0]["state"]


def test_without_consent_nothing_is_changed(home: Path) -> None:
    (home / "tbl" / HINT).write_bytes(b"{")

    done = repair(home)

    assert 4 == done.code
    assert "would repair  write _last_checkpoint" in done.out
    assert "confirmation is required to make 1 change for 1 finding of file://" in done.err
    assert b"{" == (home / "tbl" / HINT).read_bytes()


def test_loss_needs_its_own_consent_and_is_named(home: Path) -> None:
    (home / "tbl" / ADDED).unlink()

    refused = repair(home, "--max-missing", "20%", "--yes")
    planned = repair(home, "--max-missing", "20%", "--accept-loss", "--dry-run", "--json")
    done = repair(home, "--max-missing", "20%", "--accept-loss", "--yes")

    assert 4 == refused.code
    assert "1 file with 10 rows (840 B) would be given up, because no source has it" in refused.err
    again = "deltacli repair tbl --max-missing 20% --dry-run --now 2026-01-10T12:00:00Z"
    assert f"to look elsewhere  {again} --from COPY\n" in refused.err
    assert f"to give them up    {again} --accept-loss\n" in refused.err
    (step,) = document(planned)["steps"]
    assert ("remove-reference", {"files": 1, "rows": 10, "bytes": 840}) == (step["action"], step["loses"])
    assert 0 == done.code
    assert "gave up       1 file, 10 rows, 840 B\n" in done.out
    assert 70 == len(deltacli("read", "tbl", "--format", "csv", cwd=home).out.splitlines()) - 1


def test_all_that_stays_refused_is_named_at_once_with_one_command(home: Path) -> None:
    (home / "tbl" / ADDED).unlink()
    (home / "tbl" / HINT).write_bytes(b"{")
    os.utime(home / "tbl" / f"_delta_log/{12:020d}.json", (1768046100,) * 2)  # 5 minutes before NOW

    asked, dry = repair(home, "--max-missing", "20%"), repair(home, "--max-missing", "20%", "--dry-run")

    reasons = (
        "1 file with 10 rows (840 B) would be given up (--accept-loss); "
        "version 12 was committed within the last hour (--allow-in-use)"
    )
    assert f"; 1 of 2 steps stays refused: {reasons}\n" in asked.err
    way = f"deltacli repair tbl --max-missing 20% {' '.join(NOW)} --accept-loss --allow-in-use --dry-run"
    assert [4, 4] == [asked.code, dry.code]
    assert all(f"to make all steps  {way}\n" in done.err for done in (asked, dry))
    assert "also               version 12 was committed within the last hour, so a writer may be active\n" in dry.err


def test_what_comes_from_a_copy_needs_no_consent_to_loss(home: Path) -> None:
    (home / "tbl" / ADDED).unlink()
    (home / "tbl" / f"_delta_log/{12:020d}.json").unlink()

    done = repair(home, "--from", "copy", "--yes", "--json")

    found = document(done)
    assert 0 == done.code, done.err
    assert {"recover"} == {step["action"] for step in found["steps"]}
    assert {"done"} == {step["state"] for step in found["steps"]}
    assert {"copy"} == {step["source"] for step in found["steps"]}


def test_sizes_have_separators(tmp_path: Path) -> None:
    make_sample(tmp_path / "tbl", damaged=True)

    assert (
        "00018.snappy.parquet: 700 bytes instead of 1,366 [data.size-mismatch]\n" in repair(tmp_path, "--dry-run").out
    )


def test_a_hint_without_any_checkpoint_is_removed_and_the_plan_says_so(home: Path) -> None:
    (home / "tbl" / CHECKPOINT).unlink()

    dry, done = repair(home, "--dry-run"), repair(home, "--yes", "--json")

    words = "remove _last_checkpoint, because the log has no checkpoint"
    assert f"would repair  {words} [hint.checkpoint-missing]" in dry.out.splitlines()
    assert ["quarantine"] == [step["action"] for step in document(done)["steps"]]
    assert (0, False) == (done.code, (home / "tbl" / HINT).exists())


def test_errors_that_are_left_are_findings(home: Path) -> None:
    (home / "tbl" / f"_delta_log/{9:020d}.json").unlink()

    done = repair(home, "--yes", "--json")

    assert 1 == done.code
    assert ["log.gap"] == [one["rule"] for one in document(done)["unrepaired"]]
    dry = repair(home, "--dry-run")
    assert (0, 1, True) == (dry.code, done.code, "cannot repair  " in dry.out)
    assert dry.err.startswith("next: deltacli repair tbl --dry-run ")
    assert dry.err.endswith(" --from COPY\n")


def test_lines_and_columns(home: Path) -> None:
    (home / "tbl" / HINT).write_bytes(b"{")

    (step, whole), _ = lines_of(repair(home, "--dry-run", "--format", "ndjson"))
    columns, row = repair(home, "--dry-run", "--format", "csv").out.splitlines()

    assert ("repair-step", "repair") == (step["type"], whole["type"])
    assert [] == faults(step, "repair-step") + faults(whole, "repair")
    assert "rule,path,action,what,source,rows,state,reason,committedVersion" == columns
    assert row.startswith("hint.bad-json,_delta_log/_last_checkpoint,rebuild,")


def test_the_backup_is_put_back_by_the_command_that_is_named(home: Path) -> None:
    (home / "tbl" / HINT).write_bytes(b"{")
    done = repair(home, "--yes")
    (line,) = [line for line in done.err.splitlines() if "to put the replaced files back: " in line]
    undo = line.partition("back: deltacli repair tbl ")[2].split()

    shown = document(repair(home, *undo, "--dry-run", "--json"), "deltacli.repair-undo")
    back = repair(home, *undo, "--yes")

    assert (1, True) == (shown["files"], shown["dryRun"])
    assert 0 == back.code, back.err
    assert b"{" == (home / "tbl" / HINT).read_bytes()


def test_a_saved_plan_is_applied(home: Path) -> None:
    (home / "tbl" / HINT).write_bytes(b"{")

    saved = repair(home, "--save-plan", "plan.json")
    done = repair(home, "--apply", "plan.json", "--yes")
    again = repair(home, "--apply", "plan.json", "--yes")

    assert 0 == saved.code, saved.err
    assert "deltacli repair tbl --apply plan.json --yes" in saved.out + saved.err
    assert (0, 0) == (done.code, again.code), done.err
    assert again.out.startswith("nothing to do")
    assert "--apply" not in repair(home, "--save-plan", "nothing.json").err
    assert "deltacli.repair-plan" == json.loads((home / "plan.json").read_text())["kind"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("tbl", "--apply", "plan.json", "--level", "log"), 2, "--apply takes no options for planning: --level"),
        (("tbl", "--apply", "a", "--undo", "b"), 2, "--apply and --undo exclude each other"),
        (("tbl", "--max-missing", "120%"), 2, "--max-missing"),
        (("tbl", "--from", ""), 2, "--from is empty"),
        (("tbl", "--apply", ""), 2, "--apply is empty"),
        (("tbl", "--undo", ""), 2, "--undo is empty"),
        (("tbl", "--save-plan", ""), 2, "--save-plan is empty"),
        (("tbl", "--undo", "copy", "--yes"), 3, "has no manifest.json"),
        (("nothing", "--yes"), 3, "no such file or directory"),
    ],
)
def test_what_cannot_be_meant_is_refused(home: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    table, *others = arguments

    done = repair(home, *others, table=table)

    assert code == done.code
    assert said in done.err


def test_paimon_tables_and_shares_are_other_things(tmp_path: Path) -> None:
    (tmp_path / "p" / "schema").mkdir(parents=True)
    (tmp_path / "p" / "schema" / "schema-0").write_text("{}")

    paimon = repair(tmp_path, "--dry-run", table="p")
    share = repair(tmp_path, "--dry-run", table="a.share#x.y.z")

    assert (2, 2) == (paimon.code, share.code)
    assert "deltacli validate p" in paimon.err


def test_a_reason_names_the_table_in_the_command_that_helps(tmp_path: Path) -> None:
    """A command within a sentence is filled in where the sentence is made."""
    table = write_two_spellings(tmp_path / "tbl", *DIFFERING["removed with a dot"])
    table.checkpoint(force=True)
    (tmp_path / "tbl" / "_delta_log" / f"{1:020d}.checkpoint.parquet").write_bytes(b"damaged")

    outputs = [repair(tmp_path, "--dry-run", *form) for form in ((), ("--json",), ("--format", "csv"))]
    with use_hint_syntax(PythonSyntax()):
        reasons = [left.reason for left in table.repair(dry_run=True).plan.unrepaired]

    assert all("{table}" not in output.out + output.err for output in outputs)
    left = document(outputs[1])["unrepaired"]
    assert any(f"deltacli checkpoint file://{tmp_path}/tbl --version 1 --force" in one["reason"] for one in left)
    assert any(f"open_table('file://{tmp_path}/tbl').checkpoint(version=1, force=True)" in one for one in reasons)
    assert not any("{table}" in one for one in reasons)
