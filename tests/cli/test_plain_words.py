"""Words that are plainly right are parsed without typer, to the same values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

import deltacli
from deltacli.cli.app import declared_command
from deltacli.cli.command_tree import COMMANDS
from deltacli.cli.options.declared import Declared, Parameter, parse_plainly
from deltacli.cli.typer_tree import _Command, _function_of

_LINES = 60
_TEXTS, _NUMBERS = ("abc", "", "a=b", "5.5", "x y"), ("1", "0", "77", "x", "-3", " 5", "٣")


@pytest.mark.parametrize("name", COMMANDS)
def test_both_parsers_agree(name: str) -> None:
    command, chance = declared_command(name), random.Random(3)
    found = dict[str, Any]()  # Any: values of options

    def keep(**values: Any) -> None:
        found.update(values)

    copy = Declared(keep, command.parameters, keep)
    app = typer.Typer(add_completion=False)
    app.command("one", cls=_Command)(_function_of(copy))
    parser = typer.main.get_command(app)
    compared = 0
    for _ in range(_LINES):
        words = _line(command.parameters, chance)
        values = parse_plainly(command.parameters, words)
        if values is not None:
            found.clear()
            parser.main(args=[*words], standalone_mode=False, prog_name="deltacli")

            assert [(key, type(value), value) for key, value in values.items()] == [
                (key, type(found[key]), found[key]) for key in values
            ]
            compared += 1

    assert compared


def _line(parameters: Sequence[Parameter], chance: random.Random) -> list[str]:
    named = [one for one in parameters if one.spellings]
    words = []
    required = [one for one in named if one.default is ...]
    for one in (*required, *chance.sample(named, chance.randint(0, 4))):
        name = chance.choice([part for spelling in one.spellings for part in spelling.split("/")])
        if not one.takes_value:
            words.append([name])
        else:
            text = _text(one, chance)
            words.append([name, text] if chance.random() < 0.6 else [f"{name}={text}"])
    for one in (one for one in parameters if not one.spellings):
        words += [[_text(one, chance)] for _ in range(chance.randint(0, 3) if one.is_many else 1)]
    chance.shuffle(words)
    return [word for group in words for word in group]


def _text(one: Parameter, chance: random.Random) -> str:
    if one.kind is int:
        return chance.choice(_NUMBERS)
    texts: Sequence[str] = _TEXTS if one.kind is str else [*(str(word) for word in one.kind), "none of these"]
    return chance.choice(texts)


def test_commands_do_without_typer() -> None:
    """One that raises `typer.Exit` would end with a bug: its words are parsed without typer, which catches it."""
    modules = [*(Path(deltacli.__file__).parent / "cli").glob("*/**/*.py")]

    assert [] == [str(module) for module in modules if "import typer" in module.read_text(encoding="utf-8")]
    assert len(modules) > 50
