"""Regular expressions that are compiled when they are first used: a command uses few of those that it imports."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


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
