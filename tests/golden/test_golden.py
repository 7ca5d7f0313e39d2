"""Every change of a table says and does what it said and did: see `python -m tests.golden`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import command_lines, recording
from tests.golden.cases import CHANGES, READINGS, Change, cases_of
from tests.golden.places import Places
from tests.golden.python_api import calls
from tests.support.effort import sampled

SAMPLE = {"dry run; terminal 80", "done; json", "refused; pipe", "no; terminal 80"}
"""The runs of each change in every test run."""
SHOWN = {"done; json", "done; terminal 80"}
"""The runs of what changes nothing."""
COMMANDS = (*CHANGES, *READINGS)


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with recording.places() as places:
        yield places


@pytest.mark.parametrize("change", COMMANDS, ids=lambda change: change.name)
def test_a_sample_of_golden_runs_is_as_it_was(change: Change, places: Places) -> None:
    sample = SHOWN if change in READINGS else SAMPLE
    chosen = [case for case in cases_of(change) if case.title in sample]
    kept = recording.stored(change.name)

    found = recording.record(places, change, chosen)

    # What happened to the files is told with the first form of a way, which may not be in the sample.
    expected = {title: recording.without_files(kept[title]) for title in found}
    assert "" == recording.difference(expected, {title: recording.without_files(found[title]) for title in found})


@pytest.mark.long
@pytest.mark.parametrize("change", COMMANDS, ids=lambda change: change.name)
def test_golden_runs_are_as_they_were(change: Change, places: Places) -> None:
    assert "" == recording.difference(recording.stored(change.name), recording.record(places, change))


@pytest.mark.long
def test_the_python_api_returns_and_raises_what_it_did(places: Places) -> None:
    assert "" == recording.difference(recording.stored(recording.PYTHON), recording.record_calls(places))


def test_every_golden_run_is_kept() -> None:
    kept = {change.name: list(recording.stored(change.name)) for change in COMMANDS}
    lines = list(recording.stored(recording.PYTHON))

    assert {change.name: [case.title for case in cases_of(change)] for change in COMMANDS} == kept
    assert [line for line, _ in calls()] == lines
    assert (1_710, 88) == (sum(map(len, kept.values())), len(lines))
    assert {*map(recording.stored_in, (*kept, recording.PYTHON))} == {*recording.STORED.iterdir()}


@pytest.fixture(scope="module")
def empty_place() -> Iterator[Path]:
    with command_lines.empty_place() as place:
        yield place


@pytest.mark.parametrize("name", command_lines.names())
def test_a_sample_of_usage_errors_and_help_is_as_it_was(name: str, empty_place: Path) -> None:
    kept = recording.stored(name, command_lines.STORED)
    lines = sampled(list(kept), 4)

    found = command_lines.record_lines(empty_place, name, lines)

    assert "" == recording.difference({line: kept[line] for line in lines}, found)
    assert [] == [*empty_place.iterdir()]


@pytest.mark.long
@pytest.mark.parametrize("name", command_lines.names())
def test_usage_errors_and_help_are_as_they_were(name: str, empty_place: Path) -> None:
    kept = recording.stored(name, command_lines.STORED)

    assert "" == recording.difference(kept, command_lines.record_lines(empty_place, name))


def test_every_command_line_is_kept() -> None:
    names = command_lines.names()

    kept = {name: list(recording.stored(name, command_lines.STORED)) for name in names}

    assert {name: command_lines.lines_of(name) for name in names} == kept
    assert {recording.stored_in(name, command_lines.STORED) for name in names} == {*command_lines.STORED.iterdir()}
