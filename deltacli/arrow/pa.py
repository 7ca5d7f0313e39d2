"""The names of `pyarrow`, which is imported when one of them is first used: a command calls few of the functions that
would need it, in few of the modules that it loads.
"""

from __future__ import annotations

from typing import Any  # pyarrow has no types


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import pyarrow

    found = globals()[name] = getattr(pyarrow, name)
    return found
