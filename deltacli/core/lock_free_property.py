"""A `cached_property` without a lock. That of Python 3.11 has one, which all instances of a class share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property as cached_property  # noqa: PLC0414, TID251 (to type checkers it is that one)
else:

    class cached_property:  # noqa: N801 (the name of the standard library's, which it replaces)
        """Computes an attribute on its first use and stores it in the instance.

        The property of the standard library holds one lock per class in Python 3.11 while it computes. Two tables would
        wait for each other while the store of one of them answers. Here, threads that need the attribute at the same
        time compute it once each, and all of them get the value that was stored first.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            attributes = instance.__dict__
            if self._name not in attributes:
                # `setdefault` is atomic: the first value wins, also beside other threads.
                attributes.setdefault(self._name, self._compute(instance))
            return attributes[self._name]
