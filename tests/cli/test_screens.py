"""Screens as a person sees them: stored, at four widths. See screen.py for how to store them anew."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.cli.output.columns import Column
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.render.data.rows import Rows, RowsResult
from deltacli.cli.render.vacuum import VacuumResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import count_cells
from deltacli.operations.vacuum.plan import VacuumOutcome
from tests.cli.pty_session import Session
from tests.cli.screen import NOW, expect_stored, marked, screen_of
from tests.cli.support import ROOT, make_sample
from tests.cli.vacuum_plans import KEPT, TOO_MUCH, TORN, make_plan
from tests.support.actions import add, commit_info, deletion_vector, domain, metadata, protocol, txn
from tests.support.builder import TableBuilder

WIDTHS = (80, 100, 120, 200)
DAY_MS = 86_400_000
NEW_YEAR_MS = 1_767_225_600_000

MAP = {"type": "map", "keyType": "string", "valueType": {"type": "struct", "fields": []}}
ENABLE = ("--enable", "--upgrade-protocol")
COMMANDS = {
    "history": ("history", "trips"),
    "history_with_counts": ("history", "trips", "--counts", "--limit", "5"),
    "snapshot": ("snapshot", "trips"),
    "snapshot_counts": ("snapshot", "trips", "--counts", "--digest"),
    "snapshot_schema": ("snapshot", "trips", "--schema"),
    "snapshot_files": ("snapshot", "trips", "--files", "--limit", "4"),
    "properties": ("properties", "trips"),
    "features": ("features", "trips"),
    "log_compact": ("log", "compact", "trips", "--from", "11", "--to", "14", "--dry-run"),
    "log_crc": ("log", "crc", "trips", "--dry-run"),
    "validate": ("validate", "damaged", "--level", "storage", "--exit-zero"),
    "undelete": ("undelete", "damaged", "--from", "trips", "--dry-run"),
    "validate_by_path": ("validate", "damaged", "trips", "--level", "storage", "--exit-zero", "--group", "path"),
    "validate_brief": ("validate", "trips", "busy", "--brief", "--exit-zero", "--max-findings", "2"),
    "hostile_validate": ("validate", "hostile", "--exit-zero", "--max-findings", "3"),
    "vacuum": ("vacuum", "trips", "--dry-run", "--files", "--retention", "36h", "--allow-retention-below", "3d"),
    "checkpoint": ("checkpoint", "trips", "--dry-run"),
    "checkpoint_verify": ("checkpoint", "trips", "--verify"),
    "log_expire": ("log", "expire", "trips", "--dry-run", "--retention", "12h", "--allow-retention-below", "30d"),
    "widen_type": ("widen-type", "trips", "ride.fare", "decimal(12,2)", *ENABLE, "--dry-run"),
    "features_add": ("features", "trips", "add", "deletionVectors", "typeWidening", "--dry-run"),
    "properties_set": (
        "properties",
        "trips",
        "set",
        "delta.appendOnly=true",
        "owner=名前 \u202e" + "x" * 90,
        "--dry-run",
    ),
    "read": ("read", "trips", "--limit", "3"),
    "read_explain": ("read", "trips", "--where", "day > '2026-01-02'", "--explain", "--limit", "3"),
    "changes": ("changes", "trips", "--from", "8", "--to", "9", "--columns", "trip,day", "--limit", "8"),
    "busy_history": ("history", "busy", "--limit", "25"),
    "hostile_history": ("history", "hostile"),
    "hostile_snapshot": ("snapshot", "hostile"),
    "hostile_schema": ("snapshot", "hostile", "--schema", "--mapping"),
    "hostile_files": ("snapshot", "hostile", "--files", "--version", "1"),
}


REFUSED = {
    "vacuum_refused": ("vacuum", "trips", "--dry-run", "--retention", "36h"),
    "log_expire_refused": ("log", "expire", "trips", "--dry-run", "--retention", "12h"),
    "widen_type_refused": ("widen-type", "trips", "ride.fare", "decimal(12,2)", "--dry-run"),
}
"""Plans that a guard refuses: exit code 4, with the plan on stdout."""


@pytest.fixture(scope="module")
def tables(sample: Path) -> Iterator[Path]:
    """A directory whose name has the same length in every run: the sample table, one with gaps and many commits, and
    one of names that are hard to show.
    """
    root = Path(f"/tmp/deltacli-screens-{os.getpid():07d}")
    shutil.copytree(sample, root / "trips")
    make_sample(root / "damaged", damaged=True)
    write_busy(root / "busy")
    write_hostile(root / "hostile")
    yield root
    shutil.rmtree(root)


def write_busy(place: Path) -> None:
    """Sixty commits over forty days, of which three are gone."""
    kinds: Sequence[tuple[str, dict[str, str], dict[str, str]]] = (
        ("WRITE", {"mode": "Append"}, {"numFiles": "4", "numOutputRows": "25000"}),
        ("MERGE", {}, {"numTargetRowsInserted": "120", "numTargetRowsUpdated": "7000", "numTargetFilesAdded": "9"}),
        ("DELETE", {"predicate": '["(day < 3)"]'}, {"numDeletedRows": "9000", "numRemovedFiles": "2"}),
        ("OPTIMIZE", {}, {"numAddedFiles": "1", "numRemovedFiles": "40"}),
        ("VACUUM END", {}, {"numDeletedFiles": "1234"}),
        ("ADD COLUMNS", {"columns": "[c]"}, {}),
    )
    builder = TableBuilder()
    for version in range(60):
        operation, parameters, metrics = kinds[version % 17 % 6]
        found = {"operationParameters": parameters, "operationMetrics": metrics}
        line = commit_info(operation, engineInfo="Apache-Spark/3.5.1 Delta-Lake/3.2.0", **found)
        first = [protocol(), metadata()] if version == 0 else []
        builder.commit(line, *first, modified_ms=NEW_YEAR_MS - DAY_MS * (60 - version) * (60 - version) // 90)
    for version in (50, 51, 57):
        del builder.files[f"_delta_log/{version:020d}.json"]
    builder.write(place)


def write_hostile(place: Path) -> None:
    """Wide characters, emoji, text from right to left, escapes, a path of 4,000 characters."""
    fields = [
        field("id", "long", nullable=False, comment="counted from 1, \x1b[31mred\x1b[0m and [bold]not bold[/bold]"),
        field("名前", "string", comment="a comment " * 12),
        field(
            "שלום עולם", {"type": "struct", "fields": [field("👨\u200d👩\u200d👧", "date"), field("e\u0301", "double")]}
        ),
        field("p", "string"),
    ]
    features = ["columnMapping", "deletionVectors", "domainMetadata", "timestampNtz", "typeWidening", "v2Checkpoint"]
    about = metadata(
        schema_string=json.dumps({"type": "struct", "fields": fields}),
        partition_columns=["p"],
        configuration={"delta.columnMapping.mode": "name", "note": "value " * 30, "[red]key[/red]": "x" * 150},
        name="日本語のテーブル",
        description="A description that is longer than a line. " * 5,
        createdTime=NEW_YEAR_MS,
    )
    files = [
        add(
            "a" * 4_000 + ".parquet",
            size=1 << 30,
            records=10,
            partition_values={"p-p": "日本"},
            modified_ms=NEW_YEAR_MS,
        ),
        add("שלום/part.parquet", size=1 << 28, records=7, partition_values={"p-p": None}, modified_ms=NEW_YEAR_MS),
        add("p/\u202e👩\x1b[2J.parquet", size=9, records=9, vector=deletion_vector(), partition_values={"p-p": "x"}),
    ]
    builder = TableBuilder()
    builder.commit(
        commit_info("CREATE TABLE", userMetadata="👩\u200d🚀 شكرا"),
        protocol(3, 7, reader_features=features, writer_features=[*features, "appendOnly", "invariants"]),
        about,
        txn("app-" + "1" * 90, 7),
        domain("delta.rowTracking", '{"rowIdHighWaterMark":9}'),
        modified_ms=NEW_YEAR_MS,
    )
    builder.commit(commit_info("WRITE\x1b[2J\u202e[red]", engineInfo="\x9b31m"), *files, modified_ms=NEW_YEAR_MS)
    for version in range(12):
        builder.commit(
            commit_info("書き込み" * 5),
            *(add(f"{version}-{n}", size=1 << (n + 9), partition_values={"p-p": str(version)}) for n in range(3)),
            modified_ms=NEW_YEAR_MS,
        )
    builder.write(place)


def field(name: str, kind: object, *, nullable: bool = True, comment: str | None = None) -> dict[str, object]:
    """A field of a schema with column mapping."""
    number = len(name) + 100
    about = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"{name}-p"}
    return {
        "name": name,
        "type": kind,
        "nullable": nullable,
        "metadata": about | ({"comment": comment} if comment else {}),
    }


@pytest.mark.parametrize("name", [*COMMANDS, *REFUSED])
def test_screens_are_as_stored(name: str, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tables)

    screens = []
    for width in WIDTHS:
        command, code = (REFUSED[name], 4) if name in REFUSED else (COMMANDS[name], 0)
        screen = screen_of(monkeypatch, *command, width=width, code=code)
        assert [] == [line for line in screen.splitlines() if count_cells(line) > width]
        screens.append(f"--- {width} columns\n{screen}\n")

    assert "\x1b" not in "".join(screens)
    expect_stored(name, "".join(screens).replace(str(tables), "/tmp/deltacli-screens-0000000"))


def test_every_part_of_a_plan_is_drawn_at_every_width() -> None:
    """A vacuum of names that are hard to show, with refusals and an outcome."""
    names = ("\x1b[2J\u202e.txt", "日本語/👩\u200d🚀.md", "n" * 300)
    kept = KEPT._replace(foreign_examples=names, nested_tables=("שלום", "t" * 300), outside_selection=9)
    refused = make_plan(kept=kept, refusals=(TOO_MUCH, TORN), selection="day < '\x1b[31m'", directories=("a",))
    refused = replace(refused, reach=refused.reach._replace(lost=((12, 13), (17, 29), (31, 40))))
    done = VacuumOutcome(
        FileTotals(2, 3 << 30), 1, 1, DeletionFailures(1, [("e\u0301/b.parquet", "denied")]), 2, 43, 44, resumed_after=1
    )
    screens = []

    for width, is_ascii in (*((width, False) for width in WIDTHS), (80, True)):
        for result in (VacuumResult(refused, None, True, True), VacuumResult(make_plan(), done, False, False)):
            sink = io.BytesIO()
            with patched_locale("C" if is_ascii else "C.UTF-8"):
                result.draw(sink, Terminal(True, width, False))
            assert [] == [line for line in sink.getvalue().decode().splitlines() if count_cells(line) > width]
            screens.append(f"--- {width} columns\n{sink.getvalue().decode()}\n")

    expect_stored("vacuum_plan", "".join(screens))


def test_rows_of_values_that_are_hard_to_show_are_drawn_at_every_width() -> None:
    kinds: dict[str, object] = {"n": "long", "名前": "string", "x\x1b[2J": "string", "m": MAP, "_change_type": "string"}
    values = [
        [1, "日本語のテーブル", "\u202eabc\x1b[31m", '{"שלום":"👩\u200d🚀"}', "insert"],
        [22, None, "v" * 4_000, None, "delete"],
        [None, "", "\n", "{}", "update_postimage"],
    ]
    columns = list(zip(*values, strict=True))
    found = pa.record_batch([pa.array(column) for column in columns], names=list(kinds))
    about = {"columns": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    screens = []

    for width, colour in (*((width, False) for width in WIDTHS), (80, True)):
        sink = io.BytesIO()
        rows = Rows("deltacli.changes", "change", "t", about, found.schema, [found], first=("_change_type",))
        RowsResult(rows, 0).draw(sink, Terminal(True, width, colour))
        screen = sink.getvalue().decode()
        assert colour or [] == [line for line in screen.splitlines() if count_cells(line) > width]
        screens.append(f"--- {width} columns\n{marked(screen)}\n")

    expect_stored("hostile_rows", "".join(screens))


@contextmanager
def patched_locale(name: str) -> Iterator[None]:
    """Run something in a locale."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", name)
        yield


def test_colours_show_the_kind_of_operation(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tables)

    screen = screen_of(monkeypatch, "history", "busy", "--limit", "12", colour="auto")

    expect_stored("history_in_colour", marked(screen))


def test_without_utf8_everything_drawn_is_ascii(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tables)

    screens = [
        screen_of(monkeypatch, *COMMANDS[name], LC_ALL="C")
        for name in ("busy_history", "hostile_snapshot", "hostile_schema", "snapshot_files", "hostile_validate")
    ]

    expect_stored("ascii", "\n".join(screens).replace(str(tables), "/tmp/deltacli-screens-0000000"))
    assert "".join(screens).isascii()


def test_a_real_terminal_shows_what_is_stored(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes through a pty, where the width comes from the terminal."""
    options = {"DELTACLI_PROGRESS": "never", "PAGER": "cat", "LANG": "C.UTF-8"}
    command = ("history", "trips", "--color", "never", "-q", "--now", NOW)

    monkeypatch.chdir(tables)
    with Session(*command, size=(100, 50), environment=options) as session:
        code, seen = session.finish()

    stored = (Path(__file__).parent / "screens" / "history.txt").read_text(encoding="utf-8")
    assert 0 == code
    assert f"--- 100 columns\n{seen}\n" in stored


FORCED = {
    "always": (("--color", "always"), {}),
    "FORCE_COLOR": ((), {"FORCE_COLOR": "1"}),
    "CLICOLOR_FORCE": ((), {"CLICOLOR_FORCE": "1", "CLICOLOR": "0", "TERM": "dumb"}),
}


@pytest.mark.parametrize("how", FORCED)
def test_forced_colour_draws_into_a_pipe_and_cuts_nothing(
    how: str, tables: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    options, environment = FORCED[how]
    drawn = piped(monkeypatch, capfdbinary, "history", tables / "busy", *options, **environment)
    files = piped(monkeypatch, capfdbinary, "snapshot", tables / "hostile", "--files", *options, **environment)

    assert "\x1b[31mDELETE" in drawn
    assert 57 == drawn.count("Apache-Spark/3.5.1")
    assert "…" not in drawn + files
    assert 4_000 <= files.count("a")


def test_the_option_and_our_own_variable_override_the_environment(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    by_option = piped(monkeypatch, capfdbinary, "history", tables / "trips", "--color", "always", NO_COLOR="1")
    by_variable = piped(monkeypatch, capfdbinary, "history", tables / "trips", NO_COLOR="1", DELTACLI_COLOR="always")
    plain = piped(monkeypatch, capfdbinary, "history", tables / "trips", FORCE_COLOR="1", DELTACLI_COLOR="never")

    assert "\x1b[" in by_option == by_variable
    assert "\x1b[" not in plain


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (("--color", "never"), {"FORCE_COLOR": "1"}),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}),
        ((), {"FORCE_COLOR": "0"}),
        (("--color", "never"), {"CLICOLOR_FORCE": "1"}),
        ((), {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}),
        ((), {"CLICOLOR_FORCE": "1", "DELTACLI_COLOR": "never"}),
        ((), {"CLICOLOR_FORCE": "0"}),
        ((), {"CLICOLOR": "1"}),
    ],
)
def test_options_that_override_forced_colour_give_the_text_of_a_pipe(
    options: tuple[str, ...],
    environment: dict[str, str],
    tables: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    plain = piped(monkeypatch, capfdbinary, "history", tables / "trips")

    assert plain == piped(monkeypatch, capfdbinary, "history", tables / "trips", *options, **environment)


def test_forced_colour_leaves_documents_and_files_alone(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    forced = {"FORCE_COLOR": "1"}
    document = piped(monkeypatch, capfdbinary, "history", tables / "trips", "--json", **forced)
    plain = piped(monkeypatch, capfdbinary, "history", tables / "trips")
    piped(monkeypatch, capfdbinary, "history", tables / "trips", "--output", str(tmp_path / "out"), **forced)

    assert 15 == len(json.loads(document)["items"])
    assert plain == (tmp_path / "out").read_text()


def piped(
    monkeypatch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[bytes], *arguments: str | Path, **environment: str
) -> str:
    """Run a command in this process with a stdout that is not a terminal, and return its output."""
    from deltacli.cli.app import run

    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "COLUMNS", "DELTACLI_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert 0 == run([*map(str, arguments), "-q"])
    return captured.readouterr()[0].decode()


def test_more_rows_than_rich_draws_are_streamed_with_the_same_columns() -> None:
    columns: list[Column[int]] = [
        Column("n", lambda row: row, align_right=True),
        Column("text", lambda row: f"{row} " + "x" * 90),
    ]
    drawn, streamed = io.BytesIO(), io.BytesIO()

    shown = write_text_table(drawn, Terminal(True, 40, False), columns, range(1_000))
    written = write_text_table(streamed, Terminal(True, 40, False), columns, range(1_001))

    lines, others = drawn.getvalue().decode().splitlines(), streamed.getvalue().decode().splitlines()
    assert shown == written == ["n", "text"]
    assert (1_000 + 2, 1_001 + 1) == (len(lines), len(others))
    assert [line.split()[:2] for line in lines[2:]] == [line.split()[:2] for line in others[1:-1]]


WITHOUT_RICH = """
import importlib, pkgutil, sys
import deltacli.cli.commands
for module in pkgutil.walk_packages(deltacli.cli.commands.__path__, "deltacli.cli.commands."):
    importlib.import_module(module.name)
from deltacli.cli.app import run
commands = "history|snapshot|snapshot --schema|snapshot --files|properties|features|validate|vacuum --dry-run"
for command in (commands + "|checkpoint --dry-run|read|changes --from 0").split("|"):
    name, *options = command.split()
    run([name, sys.argv[1], *options, "-q"])
print(*sorted(name for name in sys.modules if name.split(".")[0] == "rich"), file=sys.stderr)
"""


@pytest.mark.halved
def test_a_run_without_a_terminal_never_imports_rich(tables: Path) -> None:
    import subprocess

    command = [sys.executable, "-c", WITHOUT_RICH, str(tables / "trips")]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True, env={**os.environ, "FORCE_COLOR": ""})

    assert b"" == done.stderr.splitlines()[-1].strip()
    assert b"WRITE" in done.stdout
