"""Keep pyarrow from importing numpy and pandas, which it does not need for what deltacli asks of it.

pyarrow looks for optional packages whenever it converts Python values into an array or a scalar. Where they are
installed, the first conversion imports them: `deltacli snapshot` then takes 0.67 s instead of 0.11 s. Where they are
missing, the search is repeated for each conversion: 100 µs per call instead of 24 µs.

Only the command line does this. The library leaves the imports of the program that uses it alone.
"""

from __future__ import annotations

import sys

_PACKAGES = ("numpy", "dateutil", "pytz")


def leave_out_optional_packages() -> None:
    """Make the import of pyarrow's optional packages fail in this process, if they are not imported yet."""
    for name in _PACKAGES:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None makes the import fail at once
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)


def allow_optional_packages(*names: str) -> None:
    """Undo `leave_out_optional_packages` for these packages, or for all of them, before a library that needs them."""
    for name in names or _PACKAGES:
        if sys.modules.get(name, True) is None:
            del sys.modules[name]
    if not names and _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """A finder that makes the import of pandas fail.

    None in `sys.modules` is not enough: pyarrow takes it for the module when it converts the first timestamp with a
    time zone.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
