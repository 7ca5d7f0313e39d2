"""The types of parameters, read from the annotations of the functions that declare them.

The place where Typer stores the type of a parameter differs between its versions, and Typer does not store it at all
if the parameter has a parser of ours. The annotations are the same in all versions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

from deltacli.cli.vendored_click import Command, Parameter


def get_parameter_name(parameter: Parameter) -> str:
    """Return the name of the Python parameter. Click allows parameters without a name; Typer always sets one."""
    assert parameter.name is not None
    return parameter.name


def get_value_type(command: Command, parameter: Parameter) -> type:
    """Return the type of a parameter: of a single value if the option is repeatable, and str if none is declared."""
    name = get_parameter_name(parameter)
    for declaration in getattr(command, "declarations", (command.callback,)):
        hints = {} if declaration is None else _read_type_hints(declaration)
        if name in hints:
            return _without_none_and_list(hints[name])
    return str


@cache
def _read_type_hints(declaration: Callable[..., object]) -> Mapping[str, object]:
    """Return the annotations of a function by parameter. Cached: evaluating those of all commands takes a second."""
    return get_type_hints(inspect.unwrap(declaration))


def _without_none_and_list(hint: object) -> type:
    if isinstance(hint, UnionType):
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is not None:
        hint = get_args(hint)[0]
    assert isinstance(hint, type)
    return hint


def is_whole_number(command: Command, parameter: Parameter) -> bool:
    """Return whether the user types a whole number. A duration such as `7d` becomes a number only when it is parsed."""
    return get_value_type(command, parameter) is int and getattr(parameter, "metavar", None) != "DURATION"


def get_choices(command: Command, parameter: Parameter) -> tuple[str, ...]:
    """Return the values that a parameter accepts. Empty if it accepts any text."""
    kind = get_value_type(command, parameter)
    if not issubclass(kind, StrEnum):
        return ()
    words = tuple(str(word) for word in kind)
    if words:
        return words
    # The formats of `--format` differ between commands, so its type is a StrEnum without members.
    metavar: str = getattr(parameter, "metavar", None) or ""
    return tuple(metavar.split("|"))


def takes_value(parameter: Parameter) -> bool:
    """Return whether a parameter is an option with a value."""
    is_flag = getattr(parameter, "is_flag", False) or getattr(parameter, "count", False)
    return parameter.param_type_name == "option" and not is_flag
