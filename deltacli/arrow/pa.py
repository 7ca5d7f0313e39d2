"""The names of `pyarrow`, which is imported when one of them is first used: a command calls few of the functions that
would need it, in few of the modules that it loads.
"""

from __future__ import annotations

from deltacli.arrow.compute import names_of_pyarrow

__getattr__ = names_of_pyarrow(globals())
