"""Every format of every command writes its result: a third of the formats in each run, all of them in the soak."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from deltacli.cli.described_commands import DescribedCommand, describe_commands
from deltacli.core.errors import EXIT_BUG
from tests.cli.test_pasted import PAGES, is_endless, places, prepare, run
from tests.docs.test_schemas import SCHEMAS, faults, line_faults
from tests.support.effort import InTurn

__all__ = ["places"]  # a fixture

CHOSEN_ANYHOW = ("--format", "--json", "--output")


def formats(command: DescribedCommand) -> tuple[str, ...]:
    """Return the formats that the help of a command names."""
    values = (option.value for option in command.options if "--format" in option.spellings)
    return next((value.choices for value in values if value), ())


COMMANDS = {command.name: found for command in describe_commands() if (found := formats(command))}


def example_of(name: str) -> list[str]:
    """Return the first example of a command that ends by itself and chooses no format."""
    found = (words for words in PAGES[name] if " ".join(words).startswith(name) and not is_endless(words))
    return next(words for words in found if not any(word.startswith(CHOSEN_ANYHOW) for word in words))


def faults_in(out: str, form: str) -> list[str]:
    """Return what violates the schemas in a result, of the formats that have them."""
    if form == "json" and out:
        document = json.loads(out)
        of_paimon = f"{document['kind']}.paimon"
        is_paimon = document.get("tableFormat") == "paimon" and of_paimon in SCHEMAS
        return faults(document, of_paimon if is_paimon else document["kind"])
    lines = [json.loads(line) for line in out.splitlines()] if form == "ndjson" else []
    return [fault for line in lines for fault in line_faults(line, is_cut=True)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_format_of_every_command_is_written(name: str, places: Path, tmp_path: Path, in_turn: InTurn) -> None:
    place = tmp_path / "place"
    shutil.copytree(places, place)
    prepare(name, place)
    if name == "fleet status":
        run(place, "fleet", "run", "fleet.toml", "--yes")
    problems = []
    for form in in_turn(COMMANDS[name]):
        words = [*example_of(name), "--format", form, *(["--output", f"out.{form}"] if form == "parquet" else [])]
        result = run(place, *words)
        if result.code == EXIT_BUG:
            problems.append(f"{shlex.join(words)}: {result.err}")
        problems += [f"{shlex.join(words)}: {fault}" for fault in faults_in(result.out, form)]

    assert [] == problems
