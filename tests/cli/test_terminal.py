"""A real terminal: widths, colour, limits, and a reader that closes the pipe."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.wrapping import wrap_command, wrap_with_commands
from tests.cli.screen import as_pasted
from tests.cli.support import ROOT, deltacli, start_with

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(width: int, *arguments: str | Path, **environment: str) -> tuple[int, list[str]]:
    """Run the command line in a pseudo-terminal of `width` columns and return its exit code and lines."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    settings |= {"PYTHONPATH": str(ROOT), "TERM": "xterm", "DELTACLI_PROGRESS": "never", "PAGER": "cat", **environment}
    process = subprocess.Popen(
        [*start_with(settings), *map(str, arguments)],
        stdin=child,
        stdout=child,
        stderr=child,
        env=settings,
        close_fds=True,
    )
    os.close(child)
    received = b""
    while True:
        try:
            block = os.read(parent, 65536)
        except OSError:
            break
        if not block:
            break
        received += block
    os.close(parent)
    return process.wait(), received.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.halved
def test_every_line_fits_the_terminal_at_every_width(sample: Path) -> None:
    for width in (40, 80, 160):
        for arguments in (("history",), ("snapshot",), ("snapshot", "--files"), ("snapshot", "--schema")):
            code, lines = on_terminal(width, arguments[0], sample, *arguments[1:], "-q")

            assert 0 == code
            assert lines
            assert [] == [line for line in lines if len(ESCAPE.sub("", line)) > width]


def test_the_key_of_a_property_is_never_folded(sample: Path) -> None:
    key, other = "delta.checkpoint.writeStatsAsStruct", "delta.deletedFileRetentionDuration"
    settings = ("set", f"{key}=true", f"{other}=interval 30 days", "--dry-run", "-q")

    narrow, wide = (on_terminal(width, "properties", sample, *settings)[1] for width in (60, 80))

    assert [key, "  (not set) → true"] == [ESCAPE.sub("", line).rstrip() for line in narrow[-4:-2]]
    assert f"{key}  (not set) → true" == ESCAPE.sub("", wide[-2]).rstrip()


@pytest.mark.parametrize(
    "command",
    [
        "deltacli read ./t --where \"day = '2026-01-02' AND x > 5\" --columns 'a b,c' --limit 20",
        "deltacli vacuum $'a\\x1b b' --keep-version 1,2 it\\'s --where 'day = 3'",
        "deltacli history an'odd word that is no command of a shell",
    ],
)
def test_a_broken_command_is_the_same_command(command: str) -> None:
    lines = {width: wrap_command(command, width) for width in range(20, 100)}

    assert {command} == {as_pasted("\n".join(each)) for each in lines.values()}
    assert 1 < len(lines[40]) or command.count("'") % 2
    assert [] == [line for width in range(50, 100) for line in lines[width][:-1] if len(line) > width]


def test_a_command_within_a_sentence_that_is_too_long_has_its_own_lines() -> None:
    text = "find out why; to see the files: deltacli validate damaged --level storage; or: deltacli undelete damaged"

    assert [text] == wrap_with_commands(text, 200)
    assert [
        "find out why; to see the files:",
        "deltacli validate damaged --level storage",
        "or: deltacli undelete damaged",
    ] == wrap_with_commands(text, 60)
    assert ["  deltacli undelete damaged"] == wrap_with_commands("  deltacli undelete damaged", 9)


def test_prose_wraps_between_words_and_long_words_wrap_anywhere() -> None:
    section = Section("why", ["one two three four", "x" * 25, "a " + "y" * 20, "words (10 B) 1.5 KiB"])
    sink = io.BytesIO()

    write_sections(sink, Terminal(is_terminal=True, width=16, colour=False), [section])

    assert [
        "why  one two",
        "     three four",
        f"     {'x' * 11}",
        f"     {'x' * 11}",
        "     xxx",
        "     a",
        f"     {'y' * 11}",
        f"     {'y' * 9}",
        "     words",
        "     (10 B)",
        "     1.5 KiB",
    ] == sink.getvalue().decode().splitlines()


def test_words_that_no_line_has_room_for_break_after_a_separator(sample: Path, tmp_path: Path) -> None:
    table = shutil.copytree(sample, tmp_path / "t")
    key = "delta.dropFeatureTruncateHistory.retentionDuration"
    assert 0 == deltacli("properties", table, "set", f"{key}=interval 30 hours", "--yes").code
    sink = io.BytesIO()

    _, shown = on_terminal(60, "properties", table, "--color", "never")
    _, differing = on_terminal(60, "diff", table, "14", "--color", "never")
    _, clients = on_terminal(60, "explain", table, "--if", "add=deletionVectors", "--color", "never")
    path = f"day=2026-01-03/part-{'0' * 20}.snappy.parquet: missing"
    write_sections(sink, Terminal(True, 60, False), [Section("not done", [f"remove {path}"])])

    assert [line.split()[0] for line in shown if "istory" in line or "retentionD" in line] == [
        "delta.dropFeatureTruncateHistory.",
        "retentionDuration",
    ]
    assert "+ delta.dropFeatureTruncateHistory." in "\n".join(differing)
    assert any(line.startswith("delta-sharing ") for line in clients)
    assert [
        "not done  remove day=2026-01-03/",
        f"          {path.partition('/')[2]}",
    ] == sink.getvalue().decode().splitlines()


@pytest.mark.parametrize(
    ("line", "code", "following"),
    [
        ("log compact t --from 3 --to 5 --dry-run", 0, "log compact t --from 3 --to 5"),
        ("log crc t --dry-run", 0, "log crc t"),
        ("reach t", 0, "vacuum t --dry-run"),
        ("reach torn", 0, "validate torn --level storage"),
        ("reach t --retention 7d", 0, "vacuum t --retention 7d --dry-run"),
        ("explain t", 0, "features t"),
        ("explain t --if add=deletionVectors", 0, "features t add deletionVectors --dry-run"),
        ("explain t --if widen=trip:decimal(30,0)", 0, "widen-type t trip 'decimal(30,0)' --dry-run"),
        ("diff t 3 7", 1, "changes t --from 4 --to 7"),
        ("diff t torn --from 3", 1, "diff t torn --from 3 --rows --key COLUMN"),
        ("fleet run f.toml --yes", 1, "fleet status f.toml"),
    ],
)
def test_the_last_line_names_the_next_command(
    line: str, code: int, following: str, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("t", "torn"):
        shutil.copytree(sample, name)
    for file in Path("torn").rglob("*.parquet"):
        file.unlink()
    policy = '[policies.p]\nvalidate = { level = "storage" }\n[groups.g]\npolicy = "p"\ntables = ["torn"]\n'
    Path("f.toml").write_text(policy)

    found, lines = on_terminal(100, *line.split(), "--color", "never")

    shown = as_pasted("\n".join(lines)).splitlines()[-1].replace(" --color never", "")
    assert (code, f"next: deltacli {following}") == (found, shown)


def test_validate_ends_with_the_repairs_that_lose_nothing(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a", "b c", "d", "e"]
    for name in names:
        shutil.copytree(sample, name)
        Path(name, "_delta_log", "_last_checkpoint").write_text("{")
    Path("b c", "_delta_log", f"{7:020}.json").unlink()  # the worst comes first
    for file in Path("d").rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()

    def following(*tables: str) -> list[str]:
        given = ["validate", *tables, "--level", "storage", "--storage-option", "k=v", "--color", "never"]
        shown = as_pasted("\n".join(on_terminal(100, *given)[1])).splitlines()
        return [line.removeprefix("next: ").split("   #")[0] for line in shown if line.startswith("next: ")]

    kept = "--dry-run --storage-option k=v"
    assert [f"deltacli repair a {kept}"] == following("a")
    assert [f"deltacli repair {name} {kept}" for name in "dae"] == following("a", "d", "e")
    shutil.copytree("a", "f")
    shutil.copytree("a", "g")
    assert [f"deltacli repair d {kept}", f"deltacli repair TABLE {kept}"] == following("a", "d", "e", "f", "g")
    assert [f"deltacli repair 'b c' {kept}", f"deltacli repair a {kept}"] == following("b c", "a")


def test_a_terminal_gets_ages_colour_a_limit_and_the_next_command(sample: Path) -> None:
    code, lines = on_terminal(140, "history", sample, "--now", "2026-01-04T17:00:00Z")
    plain = [ESCAPE.sub("", line) for line in lines]

    assert 0 == code
    assert "version  committed (UTC)      age" in plain[0]
    assert "1 day ago" in plain[2]
    assert any("\x1b[31m" in line and "DELETE" in line for line in lines)
    assert as_pasted("\n".join(plain)).endswith(f"\nnext: deltacli snapshot {sample} --version 14")


def test_colour_can_be_switched_off_and_on(sample: Path) -> None:
    _, by_environment = on_terminal(80, "history", sample, NO_COLOR="1")
    _, by_switch = on_terminal(80, "history", sample, CLICOLOR="0")
    _, by_option = on_terminal(80, "history", sample, "--color", "never")
    piped = deltacli("history", sample, "--color", "always")

    assert not any("\x1b" in line for line in [*by_environment, *by_switch, *by_option])
    assert "\x1b[" in piped.out


def test_wider_terminals_show_more(sample: Path) -> None:
    _, narrow = on_terminal(80, "history", sample, "--color", "never", "-q")
    _, wide = on_terminal(160, "history", sample, "--color", "never", "-q")

    _, least = on_terminal(60, "history", sample, "--color", "never", "-q")
    _, reasons = on_terminal(60, "explain", sample, "--if", "add=deletionVectors", "--color", "never", "-q")
    _, kinds = on_terminal(60, "schema", "diff", sample, "--from", "version:3", "--color", "never", "-q")

    assert "WRITE append " in least[2]
    assert "changes" not in least[0]
    assert "unknown: deletionVectors" in " ".join(" ".join(reasons).split())
    assert kinds[2].startswith("setOption  set delta.deletedFileRetentionDuration =")
    assert "parameters" in narrow[0]
    assert "engine" not in narrow[0]
    assert "engine" in wide[0]


def test_a_pipe_gets_the_columns_of_a_screen_uncut(sample: Path) -> None:
    piped = deltacli("history", sample, COLUMNS="40")
    chosen = deltacli("history", sample, "--columns", "version,operationParameters,timestampSource")

    assert "\x1b" not in piped.out
    assert "…" not in piped.out
    assert "version committed (UTC) operation parameters files rows engine" == " ".join(
        piped.out.splitlines()[0].split()
    )
    assert "12 2026-01-03T09:00:00.000Z OPTIMIZE day = 2026-01-02 +1 -8 sample/1" in " ".join(piped.out.split())
    assert max(map(len, piped.out.splitlines())) < 130
    assert "version  operationParameters" in chosen.out
    assert '{"predicate":"[\\"(day = 2026-01-02)\\"]"}' in chosen.out
    assert "fileModificationTime" in chosen.out
    assert "ago" not in piped.out


def test_a_closed_pipe_ends_quietly(sample: Path) -> None:
    shell = f'"{sys.executable}" -m deltacli history "{sample}" --format ndjson | true; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )

    assert done.stdout.strip() in ("0", "141")
    assert "" == done.stderr


def test_control_characters_never_reach_a_terminal(sample: Path, tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(
        '{"commitInfo":{"timestamp":1,"operation":"WRITE\\u001b[2J\\u202e","userMetadata":"a\\nb"}}\n'
    )

    _, lines = on_terminal(120, "history", tmp_path / "t", "--color", "never", "-q")
    exact = deltacli("history", tmp_path / "t", "--json").document["items"][0]

    assert 3 == len(lines)
    assert "WRITE\\x1b[2J\\u202e" in lines[2]
    assert "WRITE\x1b[2J\u202e" == exact["operation"]
