"""Small things that a person reads on a terminal: said once, in one word, with a unit and a command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deltacli import open_table
from tests.cli.pty_session import Session
from tests.cli.screen import as_pasted
from tests.cli.support import make_sample

QUIET = {"DELTACLI_PROGRESS": "never"}


def seen_on_terminal(*arguments: str | Path, columns: int = 120) -> str:
    with Session(*arguments, "--no-pager", "--color", "never", environment=QUIET, size=(columns, 90)) as session:
        return session.finish()[1]


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("said") / "trips")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("said") / "damaged", damaged=True)


def test_a_guard_is_named_once(trips: Path) -> None:
    seen = seen_on_terminal("vacuum", trips, "--retention", "1h", "--dry-run")

    assert 1 == seen.count("vacuum.retention")
    assert re.search("guard +vacuum.retention", seen)


def test_an_unreadable_file_is_explained_once(damaged: Path, tmp_path: Path) -> None:
    table = make_sample(tmp_path / "t", damaged=True)

    seen = " ".join(seen_on_terminal("optimize", table, "--yes").split())

    assert 1 == seen.count("is cut short")


def test_permissions_have_one_word(trips: Path) -> None:
    seen = seen_on_terminal("doctor", "access", trips)

    assert "allowed" not in seen
    assert "granted" in seen.partition("commands ")[2]


def test_small_files_are_explained_where_they_are_counted(trips: Path) -> None:
    assert "below 64 MiB, which optimize merges" in seen_on_terminal("doctor", "table", trips)
    assert "below 16 MiB, 1.6 KiB on average, and take longer to open than to read" in " ".join(
        seen_on_terminal("snapshot", trips, columns=200).split()
    )


def test_small_files_that_optimize_leaves_are_not_said_to_be_merged(tmp_path: Path) -> None:
    table = make_sample(tmp_path / "t")
    open_table(table).optimize()

    seen = " ".join(seen_on_terminal("doctor", "table", table, columns=160).split())

    assert "below 64 MiB, none of which optimize can merge" in seen


def test_sizes_that_differ_have_units(damaged: Path) -> None:
    words = " ".join(seen_on_terminal("validate", damaged, "--level", "storage").split())

    assert "seen 700 B expected 1,366 B" in words


def test_doctor_ends_with_the_command_of_its_first_advice(trips: Path) -> None:
    lines = [line.strip() for line in seen_on_terminal("doctor", "table", trips).strip().splitlines()]

    assert f"next: {next(line for line in lines if line.startswith('deltacli '))}" == lines[-1]


def test_remarks_are_followed_by_no_change(trips: Path) -> None:
    seen = seen_on_terminal("validate", trips, "--ignore", "log.mtime-order")

    assert "infos" in seen
    assert f"next: deltacli history {trips}" == seen.strip().splitlines()[-1]


def test_a_column_without_values_and_a_name_that_is_cut_are_not_shown(trips: Path) -> None:
    assert "needed by" not in seen_on_terminal("features", trips, "add", "deletionVectors", "--dry-run")
    assert "names that begin with _deltacli-doctor-" in seen_on_terminal("doctor", "storage", trips, "--dry-run")


def test_a_hint_of_two_commands_folds(tmp_path: Path) -> None:
    table = make_sample(tmp_path / "t")
    for lost in ("00000000000000000010.checkpoint.parquet", "00000000000000000012.json"):
        (table / "_delta_log" / lost).unlink()
    hint = as_pasted(seen_on_terminal("snapshot", table, columns=60).partition("hint:")[2]).split("\n")

    assert f"deltacli undelete {table} --from COPY" in " ".join(hint)
    assert not [line for line in hint if "   #" in line]
    assert any(line.strip().startswith("or bring the files back:") for line in hint)
