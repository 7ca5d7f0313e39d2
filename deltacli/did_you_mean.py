"""The nearest name for a misspelt one: what every "did you mean" of a message suggests."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.6


def nearest_name(name: str, known: Iterable[str], *, ignores_case: bool = False, alike: float = _ALIKE) -> str | None:
    """Return the known name that is most like a name, None where none is; `alike` is a share, 1 for equal names."""
    from difflib import get_close_matches

    by_spelling = {candidate.lower() if ignores_case else candidate: candidate for candidate in known}
    found = get_close_matches(name.lower() if ignores_case else name, by_spelling, 1, alike)
    return by_spelling[found[0]] if found else None
