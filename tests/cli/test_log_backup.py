"""`log backup` and `log restore` on the command line: consent, documents, words, and interruptions."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.core.units import format_size
from tests.cli.pty_session import Session
from tests.cli.support import Result, deltacli
from tests.cli.test_documents import lines_of, validate
from tests.support.paimon_builder import ID, NAME, PaimonBuilder

LOG = "_delta_log"
CAPTURE = pytest.CaptureFixture[bytes]


@pytest.fixture
def table(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "trips"))


@pytest.fixture
def backup(table: Path, tmp_path: Path) -> Path:
    assert 0 == deltacli("log", "backup", table, tmp_path / "safe").code
    return tmp_path / "safe"


def commit(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.json"


def names(table: Path) -> list[str]:
    return sorted(path.name for path in (table / LOG).iterdir())


def check(result: Result, kind: str, code: int = 0) -> Any:  # Any: JSON
    assert code == result.code, result.err
    assert kind == result.document["kind"]
    validate(result.document, kind)
    return result.document


def test_documents_match_their_schemas_and_count_the_same(table: Path, tmp_path: Path) -> None:
    would = check(deltacli("log", "backup", table, tmp_path / "safe", "--dry-run", "--json"), "deltacli.log-backup")
    assert not (tmp_path / "safe").exists()
    first = check(deltacli("log", "backup", table, tmp_path / "safe", "--json"), "deltacli.log-backup")
    assert (True, False, would["copied"]) == (would["dryRun"], first["dryRun"], first["copied"])
    assert would["items"] == [item | {"sha256": None} for item in first["items"]]
    commit(table, 3).unlink()
    second = check(deltacli("log", "backup", table, tmp_path / "safe", "--full", "--json"), "deltacli.log-backup")
    planned = check(
        deltacli("log", "restore", table, tmp_path / "safe", "--dry-run", "--yes", "--json"), "deltacli.log-restore"
    )
    done = check(deltacli("log", "restore", table, tmp_path / "safe", "--yes", "--json"), "deltacli.log-restore")
    again = check(deltacli("log", "restore", table, tmp_path / "safe", "--json"), "deltacli.log-restore")

    assert 17 == first["files"]["count"] == first["copied"]["count"] == len(first["items"])
    assert (0, 16, 1) == tuple(second[part]["count"] for part in ("copied", "unchanged", "missing"))
    assert [("missing", commit(table, 3).name)] == [(item["action"], item["name"]) for item in second["items"]]
    assert (True, False, False) == (planned["dryRun"], done["dryRun"], again["dryRun"])
    assert planned["items"] == done["items"]
    assert (1, 0, []) == (done["added"]["count"], again["added"]["count"], again["items"])
    assert (14, 17) == (done["version"], again["unchanged"]["count"])


def test_lines_and_the_list_match_their_schemas(table: Path, tmp_path: Path) -> None:
    copied, end = lines_of(deltacli("log", "backup", table, tmp_path / "safe", "--format", "ndjson"))
    commit(table, 3).unlink()
    planned, _ = lines_of(deltacli("log", "restore", table, tmp_path / "safe", "--dry-run", "--format", "ndjson"))
    rows = deltacli("log", "restore", table, tmp_path / "safe", "--dry-run", "--format", "csv").out.splitlines()
    first, *files = [
        json.loads(line) for line in (tmp_path / "safe" / "_delta_log_backup.ndjson").read_text().splitlines()
    ]

    for line in (*copied, *planned):
        validate(line, str(line["type"]))
    validate(first, "deltacli.log-backup-list")
    assert ["file"] * 17 + ["log-backup"] == [line["type"] for line in copied]
    assert {"type": "end", "complete": True, "count": 18} == end
    assert ["file", "log-restore"] == [line["type"] for line in planned]
    assert files == [
        {k: v for k, v in line.items() if k not in ("type", "action")}
        for line in sorted(copied[:-1], key=lambda line: str(line["name"]))
    ]
    assert ["action,name,sizeBytes,sha256,modificationTimeMs", f"add,{commit(table, 3).name}"] == [
        rows[0],
        rows[1][:29],
    ]


def test_the_text_reports_what_was_done(table: Path, backup: Path) -> None:
    (table / LOG / "_last_checkpoint").write_text("{}")
    commit(table, 14).unlink()
    size = format_size(commit(backup, 14).stat().st_size)

    again = deltacli("log", "backup", table, backup)
    result = deltacli("log", "restore", table, backup, "--yes")

    lines = again.out.splitlines()
    assert ["copied     1 file, 2 B", f"kept       1 file, {size}, no longer in the log"] == [lines[2], lines[4]]
    assert ("unchanged  15 files", "holds      17 files") == (lines[3][:19], lines[5][:19])
    assert f"added      1 file, {size}\n             {commit(table, 14).name}\n" in result.out
    assert ("", "") == (again.err, result.err)


def test_without_consent_the_plan_is_shown_and_nothing_done(table: Path, backup: Path) -> None:
    commit(table, 14).unlink()
    before = names(table)

    text = deltacli("log", "restore", table, backup)
    document = deltacli("log", "restore", table, backup, "--json")

    assert (4, before) == (text.code, names(table))
    assert text.out.splitlines()[2].startswith("would add  1 file, ")
    assert text.err.startswith(f"error: {table}: nothing was changed: confirmation is required to add 1 file (")
    assert f"hint: deltacli log restore {table} {backup} --yes" == text.err.splitlines()[-1]
    assert check(document, "deltacli.log-restore", 4)["dryRun"] is True
    assert ("consent.missing", 4) == (document.error["code"], document.error["exit"])


def test_nothing_to_restore_needs_no_consent(table: Path, backup: Path) -> None:
    result = deltacli("log", "restore", table, backup)

    assert (0, "") == (result.code, result.err)
    assert "added      0 files, 0 B" in result.out


@pytest.mark.parametrize(
    ("answer", "code", "is_back"),
    [("y\n", 0, True), ("YES\n", 0, True), ("\n", 4, False), ("n\n", 4, False), ("\x04", 4, False)],
)
def test_on_a_terminal_the_prompt_repeats_the_numbers(
    answer: str, code: int, is_back: bool, table: Path, backup: Path
) -> None:
    commit(table, 14).unlink()

    with Session("log", "restore", table, backup, "--no-pager", "--color", "never", size=(200, 40)) as session:
        session.read_until("[y/N] ")
        session.type(answer)
        found, seen = session.finish()

    assert (code, is_back) == (found, commit(table, 14).exists())
    plan, _, rest = seen.partition("[y/N] ")
    assert "would add  1 file" in plan
    size = format_size(commit(backup, 14).stat().st_size)
    assert f"add 1 file ({size}) in the log of file://{table}? " == plan.splitlines()[-1]
    assert (
        re.match(r"y\w*\s+added  1 file, [^\n]+\n +0+14\.json\s+next: ", rest, re.IGNORECASE) is not None
    ) == is_back
    assert (f"next: deltacli validate {table}" in rest) == is_back
    assert (f"\nerror: {table}: cancelled; nothing was changed" in rest) != is_back


def test_a_document_on_a_terminal_is_written_once(table: Path, backup: Path) -> None:
    commit(table, 14).unlink()

    with Session("log", "restore", table, backup, "--json", "--no-pager", size=(200, 60)) as session:
        session.read_until("[y/N] ")
        session.type("y\n")
        code, seen = session.finish()

    assert (0, 1) == (code, seen.count('"kind"'))
    assert '"dryRun": false' in seen


def test_a_backup_into_a_paimon_table_is_refused(table: Path, tmp_path: Path) -> None:
    PaimonBuilder(tmp_path / "paimon").schema(ID, NAME)
    before = sorted((tmp_path / "paimon").rglob("*"))

    refused = deltacli("log", "backup", table, tmp_path / "paimon", "--json")

    assert (4, "backup.not-a-backup") == (refused.code, refused.error["code"])
    assert before == sorted((tmp_path / "paimon").rglob("*"))


def test_ctrl_c_at_the_prompt_changes_nothing(table: Path, backup: Path) -> None:
    commit(table, 14).unlink()

    with Session("log", "restore", table, backup, size=(200, 40)) as session:
        session.read_until("[y/N] ")
        session.type("\x03")
        code, seen = session.finish()

    assert (130, False) == (code, commit(table, 14).exists())
    assert seen.rstrip().endswith("\ninterrupted; nothing was changed")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("log", "backup", "trips", "trips/backup"), 2, "cannot contain each other"),
        (("log", "backup", "trips", "."), 2, "cannot contain each other"),
        (("log", "backup", "none", "safe"), 3, "no such file or directory"),
        (("log", "backup", "trips", "other"), 4, "it may be a table"),
        (("log", "backup", "trips", "memory://safe"), 4, "read-only"),
        (("log", "restore", "trips", "other"), 3, "no backup of a log found"),
        (("log", "restore", "trips", "none"), 3, "no backup of a log found"),
        (("log", "restore", "memory://t", "safe"), 4, "read-only"),
        (("log", "backup", "trips", "linked"), 2, "cannot contain each other"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], code: int, words: str, table: Path, backup: Path) -> None:
    shutil.copytree(table, table.parent / "other")
    os.symlink("trips", table.parent / "linked")

    result = deltacli(*arguments, cwd=table.parent)

    assert (code, "") == (result.code, result.out)
    assert words in result.err
    assert names(table) == names(table.parent / "other")


def test_an_interruption_reports_the_progress(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: CAPTURE
) -> None:
    import signal

    from deltacli.storage import LocalStorage

    put, calls = LocalStorage.put, []

    def interrupted(self: LocalStorage, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        put(self, path, data, modified_ms=modified_ms)
        calls.append(path)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LocalStorage, "put", interrupted)

    code = run(["log", "backup", str(table), str(tmp_path / "safe")])

    assert 130 == code
    assert "files copied; run the same command to continue" in capsysbinary.readouterr().err.decode()
    monkeypatch.undo()
    assert 0 == run(["log", "backup", str(table), str(tmp_path / "safe")])
    assert names(table) == names(tmp_path / "safe")
