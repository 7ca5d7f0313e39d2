"""A short `repr` for results and plans.

The `repr` of a data class shows all attributes. Those of a plan can be Arrow tables with a million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from datetime import datetime
from typing import TypeVar

Class = TypeVar("Class")

_LONGEST_TEXT = 60


def short_repr(*shown: str) -> Callable[[type[Class]], type[Class]]:
    """Return a class decorator that limits `repr` to selected attributes.

    The `repr` shows the length of collections instead of their items, and omits attributes that are None or False:

        @short_repr("version", "files=plan.files")
        class Outcome: ...

        Outcome(version=3, files=12)

    Args:
        shown: Paths of attributes, such as `version` or `plan.files`. `NAME=PATH` shows the value as `NAME`.
    """

    def decorate(decorated: type[Class]) -> type[Class]:
        def build_repr(self: Class) -> str:
            return f"{decorated.__name__}({', '.join(_format_attributes(self, shown))})"

        decorated.__repr__ = build_repr  # type: ignore[assignment]
        return decorated

    return decorate


def _format_attributes(instance: object, shown: tuple[str, ...]) -> Iterator[str]:
    """Yield `name=value` for each attribute to show, unless it is None or False."""
    for specification in shown:
        name, _, path = specification.rpartition("=")
        value: object = instance
        for attribute in path.split("."):
            value = getattr(value, attribute, None)

        if value is not None and value is not False:
            last_attribute = path.rpartition(".")[2]
            yield f"{name or last_attribute}={_format_value(value)}"


def _format_value(value: object) -> str:
    """Return the beginning of a text, the length of a collection, or the `repr` of another value."""
    if isinstance(value, str):
        text = repr(str(value))
        return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 4]}...'"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return str(len(value)) if isinstance(value, Sized) else repr(value)
