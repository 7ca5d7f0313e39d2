"""Names of shares, schemas, tables and recipients. Spec: Delta Sharing, Names."""

from __future__ import annotations

import unicodedata

LONGEST = 255


def fault_in_name(name: str, *, may_have_dots: bool = False) -> str | None:
    """Return why a name is refused, or None for a valid one. Only names of shares may contain dots.

    `.` and `..` are refused because clients and proxies remove them from URLs.
    """
    if not name:
        return "it is empty"
    if len(name) > LONGEST:
        return f"it has {len(name):,} characters, and at most {LONGEST} are allowed"
    if name in (".", ".."):
        return "URLs cannot contain it"
    for character in name:
        if character in " /":
            return f"it contains {'a space' if character == ' ' else repr(character)}"
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"it contains the control character U+{ord(character):04X}"
        if character == "." and not may_have_dots:
            return "it contains a dot, which only names of shares may have"
    return None
