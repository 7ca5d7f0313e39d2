"""`log cat`: the actions of a version exactly as they stand, and nothing else on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.cli.app import run
from tests.cli.support import deltacli
from tests.support.actions import add, commit_info, domain, metadata, protocol, remove, txn
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind, Shape

Capture = pytest.CaptureFixture[bytes]


def cat(capture: Capture, table: Path, *arguments: object) -> tuple[int, bytes, str]:
    code = run(["log", "cat", str(table), *map(str, arguments)])
    out, err = capture.readouterr()
    return code, out, err.decode()


ODD_LINES = (
    b'{"commitInfo":{"operation":"WRITE","odd":1.0,"big":123456789012345678901234567890}}\r\n'
    b'  { "add" : {"path":"a","size":1} }  \n'
    b"\n"
    b'{"add":{"path":"\xe2\x80\xa8b\\ud800","stats":"{\\"numRecords\\":NaN}"},"future":{"x":null}}\n'
    b'{"remove":null,"txn":{"appId":"a","version":1}}\n'
    b"not json \xff\xfe\n"
    b'["add"]\n'
    b'{"add":{"path":"c"'
)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A table whose one commit is as odd as can be, and that can't be opened."""
    return TableBuilder().file(commit_path(3), ODD_LINES).write(tmp_path / "t")


def test_a_commit_is_written_byte_for_byte(odd: Path, tmp_path: Path, capsysbinary: Capture) -> None:
    out = tmp_path / "out"

    assert (0, ODD_LINES, "") == cat(capsysbinary, odd, 3)
    assert (0, b"", "") == cat(capsysbinary, odd, 3, "--output", out)
    assert ODD_LINES == out.read_bytes()


def test_pretty_lines_keep_every_value_and_what_is_not_json(odd: Path, capsysbinary: Capture) -> None:
    code, out, _ = cat(capsysbinary, odd, 3, "--pretty")

    assert 0 == code
    assert out.startswith(
        b'{\n  "commitInfo": {\n    "operation": "WRITE",\n    "odd": 1.0,\n    "big": 12345678901234567890'
    )
    assert b'    "stats": "{\\"numRecords\\":NaN}"\n  },\n  "future": {\n    "x": null\n  }\n}\n' in out
    assert out.endswith(b'}\nnot json \xff\xfe\n[\n  "add"\n]\n{"add":{"path":"c"')


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 20])
def test_block_boundaries_do_not_affect_the_output(
    odd: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr("deltacli.work.commits.reading.READ_BLOCK_BYTES", block_bytes)
    lines = ODD_LINES.splitlines(keepends=True)

    assert ODD_LINES == cat(capsysbinary, odd, 3)[1]
    assert cat(capsysbinary, odd, 3, "--actions", "ADD")[1].startswith(
        b'  { "add" : {"path":"a","size":1} }  \n{"add":'
    )
    assert lines[0] == cat(capsysbinary, odd, 3, "--actions", "commitinfo")[1]


def test_lines_are_selected_by_kind_and_unparseable_ones_are_counted(odd: Path, capsysbinary: Capture) -> None:
    lines = ODD_LINES.split(b"\n")

    adds = cat(capsysbinary, odd, 3, "--actions", "add")
    removes = cat(capsysbinary, odd, 3, "--actions", "remove, txn")
    future = cat(capsysbinary, odd, 3, "--actions", "future")

    said = "note: 3 lines could not be parsed and were left out\n"
    assert (0, lines[1] + b"\n" + lines[3] + b"\n", said) == adds
    assert (0, lines[4] + b"\n", said) == removes
    assert lines[3] + b"\n" == future[1]
    assert "future: not an action that deltacli recognizes" in future[2]


def test_a_line_too_long_for_memory_is_copied_but_not_parsed(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr("deltacli.work.commits.reading.READ_BLOCK_BYTES", 16)
    monkeypatch.setattr("deltacli.work.commits.raw_lines.MAX_LINE_BYTES", 32)

    assert (0, ODD_LINES, "") == cat(capsysbinary, odd, 3)
    code, _, err = cat(capsysbinary, odd, 3, "--actions", "add")
    assert 3 == code
    assert "00000000000000000003.json has a line longer than" in err


def test_an_empty_commit_is_reported(tmp_path: Path, capsysbinary: Capture) -> None:
    table = TableBuilder().commits(2).file(commit_path(1), b"").write(tmp_path / "t")

    note = "note: the commit file is empty, which indicates an interrupted write\n"
    assert (0, b"", note) == cat(capsysbinary, table, 1)


def state() -> list[dict[str, Any]]:
    """Every kind of action that a checkpoint holds, with everything that may be null, empty or odd in it."""
    return [
        protocol(3, 7, reader_features=["v2Checkpoint"], writer_features=["v2Checkpoint"]),
        metadata(configuration={"a": 'quo"te', "b": ""}),
        txn("app", 7),
        txn("app\\2", 8, last_updated=5),
        domain("d", '{"x":"\u2028"}'),
        *(add(f"p-{n}\u00e4 ü.parquet", size=n, records=n, partition_values={"day": None, "k": "v"}) for n in range(5)),
        add("no-stats", tags={}),
        remove("gone", deleted_ms=5),
        remove("gone too", deleted_ms=None),
    ]


@pytest.mark.parametrize("kind", list(CheckpointKind))
def test_a_checkpoint_in_every_form_gives_its_actions(
    kind: CheckpointKind, tmp_path: Path, capsysbinary: Capture
) -> None:
    builder = (
        TableBuilder()
        .commit(commit_info(), *state())
        .checkpoint(0, kind, actions=state(), shape=Shape(row_group_rows=3))
    )
    table = builder.write(tmp_path / "t")

    code, out, err = cat(capsysbinary, table, 0, "--checkpoint")
    lines = [json.loads(line) for line in out.splitlines()]
    only_files = cat(capsysbinary, table, 0, "--checkpoint", "--actions", "add,remove")[1].splitlines()
    only_small = cat(capsysbinary, table, 0, "--checkpoint", "--actions", "metaData,txn")[1].splitlines()

    def known(lines: list[dict[str, Any]]) -> list[str]:
        return sorted(
            json.dumps(line, sort_keys=True) for line in lines if not line.keys() & {"sidecar", "checkpointMetadata"}
        )

    assert (0, "") == (code, err)
    assert out.endswith(b"\n")
    assert known(state()) == known(lines)
    assert kind.is_v2 == any("checkpointMetadata" in line for line in lines)
    assert (2 if kind.has_sidecars else 0) == sum("sidecar" in line for line in lines)
    assert sorted(only_files) == sorted(line for line in out.splitlines() if line[:6] in (b'{"add"', b'{"remo'))
    assert sorted(only_small) == sorted(line for line in out.splitlines() if line[:6] in (b'{"meta', b'{"txn"'))


def test_lines_of_a_json_checkpoint_are_byte_exact(tmp_path: Path, capsysbinary: Capture) -> None:
    builder = TableBuilder().commits(3).checkpoint(2, CheckpointKind.V2_JSON)
    table = builder.write(tmp_path / "t")
    (path,) = (path for path in (table / LOG).glob("*.checkpoint.*.json"))
    path.write_bytes(b"torn {\n" + path.read_bytes().replace(b":", b" : ").rstrip(b"\n"))

    code, out, _ = cat(capsysbinary, table, 2, "--checkpoint")

    rest = out.removeprefix(path.read_bytes() + b"\n").splitlines()
    assert 0 == code
    assert len(rest) < len(out.splitlines())
    assert {"add", "remove"} == {kind for line in rest for kind in json.loads(line)}


def test_columns_outside_the_specification_are_written_too(tmp_path: Path, capsysbinary: Capture) -> None:
    table = TableBuilder().commits(1).write(tmp_path / "t")
    rows = pa.table(
        {
            "add": pa.array(
                [
                    {"path": "a", "stats_parsed": {"min": b"\x00\xff", "at": 1.5}},
                    None,
                    {"path": None, "stats_parsed": None},
                ],
                pa.struct(
                    [("path", pa.string()), ("stats_parsed", pa.struct([("min", pa.binary()), ("at", pa.float64())]))]
                ),
            ),
            "contentRoot": pa.array([None, None, {"path": "r", "deep": [{"x": None}]}]),
            "number": pa.array([None, None, None], pa.int64()),
        }
    )
    pq.write_table(rows, table / LOG / f"{0:020d}.checkpoint.parquet")

    code, out, _ = cat(capsysbinary, table, 0, "--checkpoint")

    assert 0 == code
    assert [
        {"add": {"path": "a", "stats_parsed": {"min": "\x00ÿ", "at": 1.5}}},
        {"add": {}, "contentRoot": {"path": "r", "deep": [{}]}},
    ] == [json.loads(line) for line in out.splitlines()]


def test_without_a_commit_the_checkpoint_is_read_and_a_note_reports_it(tmp_path: Path, capsysbinary: Capture) -> None:
    table = TableBuilder().commits(4).checkpoint(2).write(tmp_path / "t")
    (table / commit_path(2)).unlink()

    code, out, err = cat(capsysbinary, table, 2)

    assert (0, "note: version 2 has no commit file; these are the actions of its checkpoint\n") == (code, err)
    assert b'\n{"protocol":' in b"\n" + out
    assert "" == cat(capsysbinary, table, 2, "--checkpoint")[2]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            (9,),
            3,
            ("version 9 has neither a commit nor a complete checkpoint", "0-1, 3", "checkpoints  3", "cat {} 3\n"),
        ),
        ((2,), 3, ("version 2 has neither", "log cat {} 1\n")),
        ((1, "--checkpoint"), 3, ("version 1 has no complete checkpoint", "log cat {} 3 --checkpoint\n")),
        (("-1",), 2, ()),
        ((1, "--actions", ","), 2, ("--actions is empty", "commitInfo")),
        ((1, "--json"), 2, ("--json",)),
        ((1, "--format", "ndjson"), 2, ("ndjson",)),
    ],
)
def test_a_missing_version_is_reported_with_the_existing_ones(
    arguments: tuple[object, ...], code: int, words: tuple[str, ...], tmp_path: Path, capsysbinary: Capture
) -> None:
    table = TableBuilder().commits(4).checkpoint(3).write(tmp_path / "t")
    (table / commit_path(2)).unlink()

    found, out, err = cat(capsysbinary, table, *arguments)

    assert (code, b"") == (found, out)
    for word in words:
        assert word.format(table) in err


def test_an_empty_log_and_a_missing_log_are_distinguished(tmp_path: Path, capsysbinary: Capture) -> None:
    (tmp_path / "t" / LOG).mkdir(parents=True)

    assert "the log has no commit and no complete checkpoint" in cat(capsysbinary, tmp_path / "t", 0)[2]
    assert "no such file or directory" in cat(capsysbinary, tmp_path / "u", 0)[2]


def test_a_missing_sidecar_is_named(tmp_path: Path, capsysbinary: Capture) -> None:
    table = TableBuilder().commits(3).checkpoint(2, CheckpointKind.V2_PARQUET).write(tmp_path / "t")
    gone = sorted((table / LOG / "_sidecars").iterdir())[1]
    gone.unlink()

    code, _, err = cat(capsysbinary, table, 2, "--checkpoint", "--output", tmp_path / "out")

    assert (3, False) == (code, (tmp_path / "out").exists())
    assert f"_sidecars/{gone.name} does not exist" in err


def test_the_default_format_applies_to_errors_only(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setenv("DELTACLI_FORMAT", "json")

    assert (0, ODD_LINES, "") == cat(capsysbinary, odd, 3)
    assert "table.version-absent" == json.loads(cat(capsysbinary, odd, 7)[2])["code"]


def test_a_time_selects_the_version(sample: Path) -> None:
    time = ("--timestamp", "2026-01-01T13:00:00Z")

    assert deltacli("log", "cat", sample, "1").out == deltacli("log", "cat", sample, *time).out
    assert 1 == deltacli("log", "crc", sample, *time, "--dry-run", "--json").document["version"]
    assert 1 == deltacli("checkpoint", sample, *time, "--dry-run", "--json").document["version"]
    for command in ("log crc", "checkpoint"):
        assert 2 == deltacli(*command.split(), sample, *time, "--version", "1").code
        assert 3 == deltacli(*command.split(), sample, "--timestamp", "2020-01-01").code
    wrong = ((), ("1", *time), ("--", "-1"), ("1", "--actions", "ad"))
    assert [2] * 4 == [deltacli("log", "cat", sample, *words).code for words in wrong]
