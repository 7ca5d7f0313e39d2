"""Attributes and patterns that are made when they are first used: a command uses few of those that it loads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, AnyStr, cast

# -- attributes that are computed on first use, without a lock ---------------------------------------------------------

if TYPE_CHECKING:
    import functools

    cached_property = functools.cached_property
else:

    class cached_property:  # noqa: N801  (as in `functools`)
        """Computes an attribute on first use and stores it in the instance, as that of the standard library does.

        That of Python 3.11 holds one lock per class meanwhile, so that two tables wait for each other while the store
        of one answers. Here threads that come at once compute the attribute each, and all get the value stored first.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self._name not in values:
                values.setdefault(self._name, self._compute(instance))
            return values[self._name]


# -- regular expressions that are compiled when they are first used ----------------------------------------------------


class _Pattern:
    """Stands for a pattern. What is used of it becomes an attribute, so further calls cost what they usually do."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # Any: a method or an attribute of a pattern
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
