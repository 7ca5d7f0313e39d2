"""Prevent pyarrow from importing numpy and pandas, for a faster start of the command line.

pyarrow imports these optional packages when it first converts a Python value to an array or a scalar. With them,
`deltacli snapshot` takes 0.67 s instead of 0.11 s. If they are not installed, pyarrow searches for them in each
conversion, which takes 100 µs instead of 24 µs. deltacli does not use the features that require them.

Only the command line calls this module. The Python API does not change the imports of the program that uses it.
"""

from __future__ import annotations

import sys

_PACKAGES = ("numpy", "dateutil", "pytz")


def leave_out_optional_packages() -> None:
    """Make imports of pyarrow's optional packages fail in this process, unless they have already been imported."""
    for name in _PACKAGES:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # with None, `import` raises ModuleNotFoundError
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)


def allow_optional_packages(*names: str) -> None:
    """Undo `leave_out_optional_packages`, before a library is imported that requires the packages.

    Args:
        names: The packages to allow. All optional packages, including pandas, if no name is passed.
    """
    for name in names or _PACKAGES:
        if sys.modules.get(name, True) is None:
            del sys.modules[name]
    if not names and _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """A finder that makes imports of pandas fail.

    An entry None in `sys.modules` is not sufficient for pandas: pyarrow uses that None as the module when it converts
    the first timestamp with a time zone.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
