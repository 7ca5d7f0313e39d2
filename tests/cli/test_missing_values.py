"""An option without its value, and names of other programs in the place of a value."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support import deltacli


@pytest.fixture
def place(sample: Path, tmp_path: Path) -> Path:
    """A directory with a copy of the table."""
    shutil.copytree(sample, tmp_path / "trips")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("repair trips --quarantine --dry-run --yes", "--dry-run", "repair trips --quarantine DIRECTORY --dry-run"),
        ("vacuum trips --save-plan --yes", "--yes", "vacuum trips --save-plan FILE --dry-run"),
        ("history trips --output --no-pager", "--no-pager", "history trips --output FILE --no-pager"),
        ("validate trips --write-baseline -q", "-q", "validate trips --write-baseline FILE -q"),
        ("read trips --where --limit 3", "--limit", "read trips --where CONDITION --limit 3"),
        ("history trips --output -- x", "--", "history trips --output FILE -- x"),
        ("share serve trips -c --unknown", "--unknown", "share serve trips -c FILE --unknown"),
    ],
)
def test_an_option_is_never_the_value_of_the_one_before_it(line: str, said: str, hint: str, place: Path) -> None:
    before = {*place.rglob("*")}

    result = deltacli(*line.split(), cwd=place)

    assert (2, "", before) == (result.code, result.out, {*place.rglob("*")})
    assert result.err.splitlines()[0].endswith(f" needs a value, but an option follows: {said}")
    assert f"hint: deltacli {hint}" == result.err.splitlines()[-1]


def test_a_value_with_a_dash_is_joined_by_an_equals_sign_and_numbers_are_values(place: Path) -> None:
    refused = deltacli("history", "trips", "--output", "--x", cwd=place)
    joined = deltacli("history", "trips", "--output=--x", cwd=place)
    number = deltacli("history", "trips", "--limit", "-5", cwd=place)

    assert "for such a value  --output=--x" in refused.err
    assert (0, True) == (joined.code, (place / "--x").is_file())
    assert number.err.startswith("error: --limit -5 is negative")


def test_an_option_at_the_end_without_its_value(place: Path) -> None:
    text, choice = (deltacli("history", "trips", option, cwd=place) for option in ("--output", "--color"))

    assert ["error: --output needs a value", "hint: deltacli history trips --output FILE"] == text.err.splitlines()
    assert "expected  auto, always, never" in choice.err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("snapshot trips --output json", "snapshot trips --format json"),
        ("snapshot trips --output=yaml -q", "snapshot trips -q --format json"),
        ("read trips --format jsonl", "read trips --format ndjson"),
        ("history trips --format JSON", "history trips --format json"),
        ("vacuum trips -y", "vacuum trips --yes"),
        ("restore trips --version 3 --force", "restore trips --version 3 --yes"),
        ("history trips --debug", "history trips --verbose"),
        ("history trips --silent", "history trips --quiet"),
        ("validate trips --rule log.gap", "validate trips --select log.gap"),
        ("validate trips --exclude log.gap", "validate trips --ignore log.gap"),
        ("versions trips", "history trips"),
        ("count trips", "read trips --count"),
        ("cdf trips", "changes trips --from 0"),
        ("fix trips", "repair trips --dry-run"),
        ("export trips", "read trips"),
    ],
)
def test_the_words_of_other_programs_are_answered_with_the_command(line: str, hint: str, place: Path) -> None:
    result = deltacli(*line.split(), cwd=place)

    assert (2, f"hint: deltacli {hint}") == (result.code, result.err.splitlines()[-1])
    assert ["trips"] == [one.name for one in place.iterdir()]


def test_a_table_format_that_is_wrong_is_answered_with_the_command_without_it(tmp_path: Path) -> None:
    (tmp_path / "p" / "schema").mkdir(parents=True)
    (tmp_path / "p" / "schema" / "schema-0").write_text("{}")

    both = deltacli("history", "p", "--table-format", "delta", cwd=tmp_path)
    of_delta = deltacli("read", "p", "--table-format", "delta", cwd=tmp_path)

    assert "error: --table-format delta: this is a Paimon table, without a _delta_log" in both.err
    assert "hint: deltacli history p" == both.err.splitlines()[-1]
    assert "hint: deltacli snapshot p" == of_delta.err.splitlines()[-1]
