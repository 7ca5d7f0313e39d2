"""Hints of the Python API, with the table's name where the command line would insert it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from deltacli.errors import DeltacliError
from deltacli.hints import TABLE, spelling

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Named(Protocol):
    """An object with the table as its caller wrote it; None: the caller inserts the name."""

    @property
    def name(self) -> str | None: ...


Self = TypeVar("Self", bound=Named)


def named(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Return the method with errors whose hints name the table."""

    @wraps(method)
    def call(self: Self, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return method(self, *arguments, **options)
        except DeltacliError as fault:
            name_table(fault, self.name)
            raise

    return call


def named_items(items: Iterator[Item], name: str | None) -> Iterator[Item]:
    """Yield the items; errors have hints that name the table."""
    try:
        yield from items
    except DeltacliError as fault:
        name_table(fault, name)
        raise


def name_table(fault: DeltacliError, name: str | None) -> None:
    """Insert the table into the hint of an error, and set the error's table where it has none."""
    if name is None:
        return
    fault.table = fault.table or name
    if fault.hint is not None:
        fault.hint = spelling().fill(fault.hint, name)
    for key, value in fault.facts.items():
        if TABLE in value:  # a command
            fault.facts[key] = spelling().fill(value, name)
