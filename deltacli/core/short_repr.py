"""The `repr` of results and plans: one short line, where that of a dataclass writes out every file of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from datetime import datetime
from typing import TypeVar

Class = TypeVar("Class")
_LONGEST = 60


def short_repr(*shown: str) -> Callable[[type[Class]], type[Class]]:
    """Return a decorator that limits the `repr` of a class to the attributes at the dotted paths `shown`.

    `name=path` shows an attribute by another name. Collections are shown by their number of items; None and False are
    left out.
    """

    def decorate(decorated: type[Class]) -> type[Class]:
        def in_short(self: Class) -> str:
            return f"{decorated.__name__}({', '.join(_shown(self, shown))})"

        decorated.__repr__ = in_short  # type: ignore[assignment]
        return decorated

    return decorate


def _shown(whole: object, paths: tuple[str, ...]) -> Iterator[str]:
    for named in paths:
        name, _, path = named.rpartition("=")
        value: object = whole
        for attribute in path.split("."):
            value = getattr(value, attribute, None)
        if value is not None and value is not False:
            yield f"{name or path.rpartition('.')[2]}={_brief(value)}"


def _brief(value: object) -> str:
    if isinstance(value, str):
        text = repr(str(value))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...'"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return str(len(value)) if isinstance(value, Sized) else repr(value)
