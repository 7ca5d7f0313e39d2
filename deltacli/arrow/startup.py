"""Packages that pyarrow looks for and that a command does without."""

from __future__ import annotations

import sys
from importlib.util import find_spec

_LEFT_OUT = ("numpy", "dateutil", "pytz")


def skip_optional_packages() -> None:
    """Keep pyarrow from searching for packages that it can do without; for the command line, not for the library.

    It searches whenever it converts Python values to an array or a scalar, again on each call where they are missing:
    100 µs per call instead of 24. Where numpy and pandas are installed, importing them would take longer than the
    command.
    """
    for name in _LEFT_OUT:
        if name == "numpy" or find_spec(name) is None:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None: an import fails at once
    sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    """Fails the import of pandas. A None in `sys.modules` would not do: pyarrow takes it for pandas itself when it
    converts the first timestamp with a time zone.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
