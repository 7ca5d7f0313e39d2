"""What a table states about the engines that open it.

Paimon 2 has types, formats and options that make a table unreadable for Paimon 1.x. deltacli refuses to add them unless
it is told that no engine of the table is that old: by an option of the command, or by an option of the table. Paimon
ignores options that it does not know, so the option does not disturb any engine.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.core.errors import UsageError, parameter

MIN_PAIMON_OPTION = "deltacli.min-paimon"
"""Option of a table: the oldest major version of Paimon among its engines."""

MIN_PAIMON_VALUES = ("1", "2")
OLDEST_VERSION = int(MIN_PAIMON_VALUES[0])


def read_min_paimon(options: Mapping[str, str]) -> int:
    """Return the oldest major version of Paimon among the engines of a table, 1 if the table does not state it.

    A value that is not a version is read as the oldest one, which has the most to protect.
    """
    value = options.get(MIN_PAIMON_OPTION, "").strip()
    return int(value) if value in MIN_PAIMON_VALUES else OLDEST_VERSION


def require_paimon_version(version: object, name: str) -> None:
    """Raise UsageError for a value that is neither None nor a major version of Paimon.

    Args:
        version: The value.
        name: The parameter, as `errors.parameter` takes it.
    """
    if version is None or (type(version) is int and str(version) in MIN_PAIMON_VALUES):
        return
    expected = " or ".join(MIN_PAIMON_VALUES)
    raise UsageError(f"{parameter(name)} is {version!r} (expected: {expected})")
