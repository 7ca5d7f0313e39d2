"""Checks that arguments are of the kinds that the signature of a method declares, for all of the Python API."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from inspect import Parameter, signature
from numbers import Real
from reprlib import Repr
from typing import NamedTuple

from deltacli.errors import UsageError

_shortened = Repr()
_shortened.maxstring = _shortened.maxother = 60


class _Kind(NamedTuple):
    """What an argument must be: a check, in words, and a kind of which all elements must be."""

    is_met: Callable[[object], bool]
    expected: str
    of_elements: str | None = None


def wrong_kind(value: object, name: str, expected: str, *, code: str = UsageError.code) -> UsageError:
    """Return the error for an argument that is not what its parameter expects."""
    facts = {"expected": expected, "type": type(value).__name__}
    return UsageError(f"{name} is {_shortened.repr(value)}, expected {expected}", code=code, facts=facts)


def is_integer(value: object) -> bool:
    """Return whether a value is an integer, also one of another library, and not True or False."""
    try:
        return not isinstance(value, bool) and operator.index(value) is not None  # type: ignore[arg-type]
    except TypeError:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, int) or type(value).__name__ == "bool_"  # that of numpy


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_text, value))


_CHANGES = _Kind(_is_list, "a list of changes")
_KINDS: Mapping[str, _Kind] = {
    "bool": _Kind(_is_flag, "True or False"),
    "float": _Kind(_is_number, "a number"),
    "int": _Kind(is_integer, "an integer"),
    "str": _Kind(_is_text, "a string"),
    "str | int": _Kind(lambda value: _is_text(value) or is_integer(value), "a string or an integer"),
    "tuple[str, str]": _Kind(_is_pair, "a pair of strings, such as ('column', 'type')"),
    "Iterable[Change | JsonObject]": _CHANGES,
    "Iterable[SchemaChange | JsonObject]": _CHANGES,
    "Mapping[str, str]": _Kind(
        lambda value: isinstance(value, Mapping), "a dictionary of strings, such as {'key': 'value'}", "str"
    ),
    "Sequence[int]": _Kind(_is_list, "a list of integers, such as [1, 2]", "int"),
    "Sequence[str]": _Kind(_is_list, "a list of strings, such as ['a', 'b']", "str"),
    "TableHandle": _Kind(lambda value: hasattr(value, "storage"), "a table of `open_table`"),
}
"""Annotation, without None -> what an argument must be. Others are not checked here."""


def require_kinds(method: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
    """Raise UsageError, with the name of the parameter, for an argument of a method that is of another kind."""
    parameters, position = _parameters(method), 0
    for value in arguments:
        if position == len(parameters):
            return  # too many, which the call itself raises
        parameter = parameters[position]
        if parameter.kind is not Parameter.VAR_POSITIONAL:
            position += 1
        _require(value, parameter.name, parameter.annotation)
    by_name = {parameter.name: parameter for parameter in parameters}
    for name, value in options.items():
        if name in by_name:
            _require(value, name, by_name[name].annotation)


@cache
def _parameters(method: Callable[..., object]) -> tuple[Parameter, ...]:
    """Return the parameters of a method behind the first one."""
    return tuple(signature(method).parameters.values())[1:]


def _require(value: object, name: str, annotation: object) -> None:
    wanted = str(annotation).removesuffix(" | None")
    kind = _KINDS.get(wanted)
    if kind is None or (value is None and annotation != wanted):
        return
    if not kind.is_met(value):
        raise wrong_kind(value, name, kind.expected)
    if kind.of_elements is None:
        return
    if isinstance(value, Mapping):
        for key, element in value.items():
            _require(key, f"a key of {name}", kind.of_elements)
            _require(element, f"{name}[{key!r}]", kind.of_elements)
    elif isinstance(value, list | tuple):
        for place, element in enumerate(value):
            _require(element, f"{name}[{place}]", kind.of_elements)
