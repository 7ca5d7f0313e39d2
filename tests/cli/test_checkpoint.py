"""`checkpoint` on the command line; the sample table has 15 commits and a checkpoint of version 10."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.delta.protocol.known_properties import CODEC
from tests.cli.screen import as_pasted
from tests.cli.support import ROOT, Result, deltacli
from tests.cli.test_terminal import ESCAPE, on_terminal
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.checkpointing import FORMS, Form, any_form_table

LOG = Path("tbl/_delta_log")
NOW = ("--now", "2026-01-04")


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def checkpoint(home: Path, *options: str) -> Result:
    return deltacli("checkpoint", "tbl", *options, *NOW, cwd=home)


def names(home: Path) -> list[str]:
    return sorted(path.name for path in (home / LOG).iterdir())


def without_sizes(text: str) -> list[str]:
    """The lines, their sizes and the place of the table left out."""
    lines = text.replace("KiB", "").splitlines()
    return [
        " ".join("…" if word[:1].isdigit() and "." in word else word for word in line.split()) for line in lines[1:]
    ]


def test_a_checkpoint_in_a_pipe(home: Path) -> None:
    done = checkpoint(home)

    assert (0, "") == (done.code, done.err)
    assert [
        "version 14",
        "checkpoint classic, written and read back",
        "",
        "file size rows",
        "_delta_log/00000000000000000014.checkpoint.parquet … 34",
        "",
        "actions 21 add, 1 metaData, 1 protocol, 11 remove",
        "readers begin at version 14; 4 commits fewer to replay",
        "hint _last_checkpoint names version 14",
    ] == without_sizes(done.out)
    assert 14 == json.loads((home / LOG / "_last_checkpoint").read_text())["version"]


def test_a_second_run_does_nothing(home: Path) -> None:
    checkpoint(home)
    before = [(path.name, path.stat().st_mtime_ns) for path in sorted((home / LOG).iterdir())]

    done = checkpoint(home)

    assert "version 14: its classic checkpoint exists; --force writes it again" in done.out
    assert before == [(path.name, path.stat().st_mtime_ns) for path in sorted((home / LOG).iterdir())]
    assert "checkpoint classic, written and read back" in without_sizes(checkpoint(home, "--force").out)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    "options", [(), ("--dry-run",), ("--verify",)], ids=lambda options: " ".join(options) or "write"
)
def test_every_line_fits_a_terminal_of_80_columns(form: Form, options: tuple[str, ...], tmp_path: Path) -> None:
    any_form_table(form).checkpoint(2).write(tmp_path / "t")
    chosen = [word for name, value in form.request().items() for word in (f"--{name.replace('_', '-')}", str(value))]
    if "--verify" in options:
        deltacli("checkpoint", tmp_path / "t", *chosen, *NOW)
        chosen = []

    code, lines = on_terminal(80, "checkpoint", tmp_path / "t", *chosen, *options, *NOW, "-q")

    assert 0 == code
    assert [] == [line for line in lines if len(ESCAPE.sub("", line)) > 80 and str(tmp_path) not in line]
    assert len(lines) > 2


def last_of(lines: list[str]) -> str:
    return as_pasted(ESCAPE.sub("", "\n".join(lines))).splitlines()[-1]


def test_on_a_terminal_the_next_command_is_named(home: Path) -> None:
    _, lines = on_terminal(80, "checkpoint", home / "tbl", *NOW)
    _, dry = on_terminal(80, "checkpoint", home / "tbl", "--dry-run", *NOW)

    assert f"next: deltacli checkpoint {home / 'tbl'} --verify --version 14" == last_of(lines)
    assert f"next: deltacli checkpoint {home / 'tbl'} {' '.join(NOW)}" == last_of(dry)


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--if-behind", "5"), ("--version", "3"), ("--stats", "both")])
def test_json_ndjson_and_csv_have_the_same_content(options: tuple[str, ...], home: Path) -> None:
    shutil.copytree(home / "tbl", home / "other" / "tbl")
    shutil.copytree(home / "tbl", home / "third" / "tbl")

    document = checkpoint(home, *options, "--json").document
    line, end = map(json.loads, checkpoint(home / "other", *options, "--format", "ndjson").out.splitlines())
    rows = list(csv.DictReader(io.StringIO(checkpoint(home / "third", *options, "--format", "csv").out)))

    assert [] == faults(document, "deltacli.checkpoint") + line_faults(line) + line_faults(end)
    same = {name: value for name, value in line.items() if name not in ("type", "table")}
    assert same == {name: document[name] for name in same}
    assert rows == [{name: str(value) for name, value in file.items()} for file in document["files"]]
    assert document["skipped"] == ("--if-behind" in options)
    assert document["dryRun"] == ("--dry-run" in options)
    assert (document["hintVersion"] is None) == (options != () and options[0] != "--stats")


def test_a_dry_run_writes_nothing_and_lists_what_would_be_written(home: Path) -> None:
    before = names(home)

    done = checkpoint(home, "--dry-run")

    assert before == names(home)
    assert "checkpoint classic, would be written" in without_sizes(done.out)
    assert "actions 21 add, 1 metaData, 1 protocol, 11 remove" in without_sizes(done.out)


def test_a_checkpoint_that_is_not_due_is_skipped_with_a_short_message(home: Path) -> None:
    before = names(home)

    done = checkpoint(home, "--if-behind", "5", "-q")

    assert (0, "", before) == (done.code, done.err, names(home))
    line = f"nothing to do  file://{home}/tbl, version 14: 4 commits since the last checkpoint, --if-behind is 5\n"
    assert line == done.out
    assert 0 == checkpoint(home, "--if-behind", "4", "-q").code
    assert before != names(home)


def test_verification_reports_what_agrees_and_what_differs(tmp_path: Path) -> None:
    other = TableBuilder().commits(1).states[0].actions()
    builder = TableBuilder().commits(6).checkpoint(1).checkpoint(3, actions=other).checkpoint(4)
    builder.write(tmp_path / "tbl")
    broken = tmp_path / LOG / f"{4:020d}.checkpoint.parquet"
    broken.write_bytes(broken.read_bytes()[:-20] + b"x" * 20)
    before = sorted((tmp_path / LOG).iterdir())

    done = checkpoint(tmp_path, "--verify", "--json")
    lines = [json.loads(line) for line in checkpoint(tmp_path, "--verify", "--format", "ndjson").out.splitlines()]
    text = checkpoint(tmp_path, "--verify")
    rows = list(csv.DictReader(io.StringIO(checkpoint(tmp_path, "--verify", "--format", "csv").out)))

    assert [1, 1] == [done.code, text.code]
    assert [] == faults(done.document, "deltacli.checkpoint-verification")
    assert [] == [fault for line in lines for fault in line_faults(line)]
    found = done.document["checkpoints"]
    assert [(1, "agrees"), (3, "differs"), (4, "unreadable")] == [(one["version"], one["verdict"]) for one in found]
    assert {"files.count", "files.sizeBytes"} < {one["field"] for one in found[1]["differences"]}
    assert found == [{name: line[name] for name in line if name != "type"} for line in lines[:-1]]
    assert ["agrees", "differs", "unreadable"] == [row["verdict"] for row in rows]
    assert "next: deltacli validate tbl\n" == text.err
    assert ["1", "agrees"] == text.out.splitlines()[1].split()[::3]
    assert before == sorted((tmp_path / LOG).iterdir())


@pytest.mark.parametrize(("written", "verdict"), [("false", "agrees"), ("true", "differs")])
def test_a_checkpoint_without_statistics_agrees_if_the_table_disables_them(
    written: str, verdict: str, tmp_path: Path
) -> None:
    settings = {"delta.checkpoint.writeStatsAsJson": written}
    bare = [protocol(), metadata(configuration=settings), add("a.parquet")]
    table = TableBuilder().commit(*bare[:2], add("a.parquet", records=3)).checkpoint(0, actions=bare)
    table.write(tmp_path / "tbl")

    done = checkpoint(tmp_path, "--verify", "--json")

    assert [verdict] == [one["verdict"] for one in done.document["checkpoints"]]


def test_a_checkpoint_without_older_commits_cannot_be_compared(tmp_path: Path) -> None:
    TableBuilder().commits(4).checkpoint(2).write(tmp_path / "tbl")
    (tmp_path / LOG / f"{0:020d}.json").unlink()

    done = checkpoint(tmp_path, "--verify", "--json")

    assert (0, ["alone"]) == (done.code, [one["verdict"] for one in done.document["checkpoints"]])


USAGE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--verify", "--force", "--layout", "v2"), "--layout, --force"),
    (("--verify", "--dry-run"), "--dry-run"),
    (("--verify", "--if-behind", "3"), "--if-behind"),
    (("--verify", "--parts", "3", "--rows-per-file", "2"), "--parts, --rows-per-file"),
    (("--version", "-1"), "--version -1 is negative"),
    (("--if-behind", "-1"), "--if-behind -1 is negative"),
    (("--parts", "2"), "--parts requires"),
    (("--layout", "odd"), "odd"),
)


@pytest.mark.parametrize(
    ("options", "said"), USAGE, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_contradictory_options_are_a_usage_error(options: tuple[str, ...], said: str, home: Path) -> None:
    before = names(home)

    done = checkpoint(home, *options, "--format", "json")

    assert (2, before) == (done.code, names(home))
    assert said in done.error["message"]


def test_notes_name_what_was_worked_around_and_what_is_lost(tmp_path: Path) -> None:
    properties = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "false"}
    builder = TableBuilder().commits(2)
    builder.commit({"metaData": builder.states[-1].metadata | {"configuration": properties}})  # type: ignore[operator]
    builder.checkpoint(1).write(tmp_path / "tbl")
    broken = tmp_path / LOG / f"{1:020d}.checkpoint.parquet"
    broken.write_bytes(b"x" * 100)

    done = checkpoint(tmp_path)

    first, second = done.err.splitlines()
    assert 0 == done.code
    assert first.startswith("note: checkpoint.unreadable: ")
    assert second.startswith("note: delta.checkpoint.writeStatsAsJson and delta.checkpoint.writeStatsAsStruct are both")
    assert "" == checkpoint(tmp_path, "--force", "--stats", "json", "-q").err


def test_an_interruption_reports_what_was_done(home: Path) -> None:
    """The first signal comes when the file has its name and the hint has not moved."""
    program = """
import os, signal, sys
from deltacli.cli.app import run
from deltacli.operations.checkpoint import checkpoint as execute
def interrupt(*_):
    os.kill(os.getpid(), signal.SIGTERM)
execute.update_last_checkpoint = interrupt
sys.exit(run(sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, "checkpoint", "tbl", "--json"]
    done = subprocess.run(
        command, cwd=home, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )

    error: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    assert 128 + signal.SIGTERM == done.returncode
    assert (
        "terminated; 1 file of the checkpoint written, _last_checkpoint not updated; run the same command to continue"
        == (error["message"])
    )
    assert 14 == checkpoint(home, "--json").document["hintVersion"]


def test_the_path_of_a_table_need_not_be_utf_8(home: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(home) + b"/odd\xff"))
    (home / "tbl").rename(odd)

    done = deltacli("checkpoint", odd, "--force", *NOW)
    verified = deltacli("checkpoint", odd, "--verify")

    assert (0, 0) == (done.code, verified.code), done.err + verified.err


def test_a_dry_run_that_only_force_allows_shows_the_plan_and_is_refused(home: Path) -> None:
    checkpoint(home)

    done = checkpoint(home, "--layout", "multi-part", "--parts", "2", "--dry-run")

    assert 4 == done.code
    assert "multi-part" in done.out
    assert "in another form (classic)" in done.err


@pytest.mark.parametrize(("version", "code"), [("2", 4), ("3.0.0", 4), ("", 4), ("2.6.0", 0), ("1.0.0", 0)])
def test_an_invalid_version_of_the_parquet_format_aborts_the_checkpoint(
    version: str, code: int, tmp_path: Path
) -> None:
    settings = {"delta.parquet.format.version": version}
    TableBuilder().commit(protocol(), metadata(configuration=settings), add("a.parquet")).write(tmp_path / "t")

    result = deltacli("checkpoint", tmp_path / "t", "--log-format", "json")

    assert code == result.code, result.err
    assert ("property.parquet-version" in result.err) == (code == 4)
    assert (code == 0) == bool(list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")))


@pytest.mark.parametrize(
    ("settings", "codec", "is_noted"),
    [
        ({}, "ZSTD", False),
        ({CODEC: "SNAPPY"}, "SNAPPY", False),
        ({CODEC: "none"}, "UNCOMPRESSED", False),
        ({CODEC: "zip"}, "ZSTD", True),
        ({CODEC: "lzo"}, "ZSTD", True),
        ({CODEC: ""}, "ZSTD", True),
    ],
)
def test_the_codec_is_that_of_the_property_or_a_note_says_which_it_is(
    settings: dict[str, str], codec: str, is_noted: bool, tmp_path: Path
) -> None:
    TableBuilder().commit(protocol(), metadata(configuration=settings), add("a.parquet")).write(tmp_path / "t")

    result = deltacli("checkpoint", tmp_path / "t")

    (file,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    footer = pq.ParquetFile(file).metadata
    assert {codec} == {footer.row_group(0).column(index).compression for index in range(footer.num_columns)}
    assert (f"note: {CODEC} is {settings.get(CODEC)!r}, which cannot be written; " in result.err) == is_noted
    assert 0 == result.code
