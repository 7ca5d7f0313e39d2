"""A `cached_property` without a lock.

`functools.cached_property` of Python 3.11 has a lock that all instances of a class share. Python 3.12 has removed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property as cached_property  # noqa: PLC0414, TID251 (the type that checkers know)
else:

    class cached_property:  # noqa: N801 (the name in the standard library)
        """Computes an attribute when it is first read, and stores the value in the instance.

        With the shared lock of Python 3.11, reading an attribute of one table would wait until the store of another
        table has responded. Without a lock, threads that read the attribute at the same time may compute it several
        times. All of them get the value that was stored first.
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
                # `setdefault` is atomic, so all threads get the first stored value.
                attributes.setdefault(self._name, self._compute(instance))
            return attributes[self._name]
