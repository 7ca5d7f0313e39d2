"""Names of columns and fields as engines compare them. Spec: Schema Serialization Format."""

from __future__ import annotations

from collections.abc import Sequence


def places_of(name: str, names: Sequence[str | None]) -> list[int]:
    """Where a name stands among others (None: none of these): exactly as it is where it does, in whatever case if not.

    Lower case, not case folding: `straße` and `strasse` are two names.
    """
    exact = [index for index, known in enumerate(names) if known == name]
    if exact:
        return exact
    lowered = name.lower()
    return [index for index, known in enumerate(names) if known is not None and known.lower() == lowered]
