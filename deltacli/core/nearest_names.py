"""Find the known name that a misspelled name probably means, for `did you mean`.

All functions use the similarity of `difflib`: twice the number of matching letters, divided by the length of both names
together. `qunatity` and `quantity` have a similarity of 0.875, `id` and `name` one of 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

_NAME_CUTOFF = 0.6
"""The default of `difflib`."""

_TYPE_CUTOFF = 0.75
"""Names of types are short and similar to each other: `int` and `tinyint` have a similarity of 0.6."""

_PATH_CUTOFF = 0.8
"""Fields of the same struct have similar paths: `address.city` and `address.zip` have a similarity of 0.78."""

_MIN_ANAGRAM_LENGTH = 3
"""Two letters in the other order are probably another name, such as `no` and `on`."""

_MAX_DIRECTORY_ENTRIES = 1_000
"""Directory entries that are compared. A directory can have millions, and the suggestion is only part of a message."""

_FOREIGN_TYPES = {
    **dict.fromkeys(("clob", "json", "nvarchar", "str", "text", "uuid"), "string"),
    **dict.fromkeys(("blob", "bytea", "bytes", "varbinary"), "binary"),
    **dict.fromkeys(("int64", "uint32"), "bigint"),
    **dict.fromkeys(("int32", "mediumint"), "int"),
    "datetime": "timestamp",
    "float64": "double",
    "int16": "smallint",
    "int8": "tinyint",
    "number": "decimal",
}
"""Types of other databases and of Arrow -> the Delta type that can store all their values."""


def nearest_name(
    name: str, known: Iterable[str], *, ignores_case: bool = False, cutoff: float = _NAME_CUTOFF
) -> str | None:
    """Return the known name that is most similar to a name.

    Anagrams are suggested even if their similarity is below the cutoff, such as `int` for `itn`.

    Args:
        name: The name to look up. A known name is returned unchanged.
        known: The known names.
        ignores_case: Whether to compare names without regard to case.
        cutoff: The lowest similarity of a suggestion, from 0 to 1. With 1, only equal names and anagrams are returned.

    Returns:
        The known name, in its own case. None if no known name is similar enough.
    """
    # Known names that differ only in case have the same key. Either is a good suggestion: the last one is used.
    names_by_key = {candidate.lower() if ignores_case else candidate: candidate for candidate in known}
    key = name.lower() if ignores_case else name
    if not key or key in names_by_key:
        return names_by_key.get(key)

    matches = get_close_matches(key, names_by_key, 1, cutoff)
    if matches:
        return names_by_key[matches[0]]

    letters = sorted(key)
    for candidate_key, candidate in names_by_key.items():
        if len(candidate_key) >= _MIN_ANAGRAM_LENGTH and sorted(candidate_key) == letters:
            return candidate
    return None


def nearest_type(text: str, known: Iterable[str]) -> str | None:
    """Return the data type that a misspelled type, or a type of another database, probably means.

    >>> nearest_type("decimla(5,2)", ["decimal"])
    'decimal(5,2)'

    Args:
        text: The type as the user wrote it, with its parameters in parentheses.
        known: The names of all types, without parameters.

    Returns:
        The type with the parameters of `text`. None if no known name is similar enough. None also if the name of the
        type is correct: then the parameters are wrong, and another name is no help.
    """
    name, bracket, parameters = text.strip().partition("(")
    name = name.rstrip()
    name = _FOREIGN_TYPES.get(name.lower(), name)
    nearest = nearest_name(name, known, ignores_case=True, cutoff=_TYPE_CUTOFF)
    if nearest is None:
        return None

    suggestion = nearest + bracket + parameters
    if suggestion.lower() == text.strip().lower():
        return None
    return suggestion


def nearest_path(path: Sequence[str], known: Iterable[Sequence[str]]) -> Sequence[str] | None:
    """Return the path of the column or nested field that a wrong path probably means.

    Each of these is tried in turn:

    1. a path that differs by a letter or two: `adress.city` for `address.city`;
    2. a field of the same name in another struct: `city` for `address.city`;
    3. a path with the usual similarity of names;
    4. a field with a similar name in any struct: `ctiy` for `address.city`.

    Args:
        path: The names of the path, from the top-level column to the field.
        known: The paths of all columns and nested fields.
    """
    # A column name may contain a dot. Joining paths by dots makes some paths equal, which suggestions can tolerate.
    paths_by_text = {".".join(candidate): candidate for candidate in known}
    text = ".".join(path)
    field_name = path[-1].lower()
    paths_with_same_field = [key for key, candidate in paths_by_text.items() if candidate[-1].lower() == field_name]

    nearest = nearest_name(text, paths_by_text, ignores_case=True, cutoff=_PATH_CUTOFF)
    if not nearest:
        # All of these have the right field name, so the most similar of them is suggested, however low its similarity.
        nearest = nearest_name(text, paths_with_same_field, ignores_case=True, cutoff=0.0)
    if not nearest:
        nearest = nearest_name(text, paths_by_text, ignores_case=True)

    if nearest is None:
        paths_by_field_name = {candidate[-1]: key for key, candidate in paths_by_text.items()}
        nearest_field_name = nearest_name(field_name, paths_by_field_name, ignores_case=True)
        nearest = paths_by_field_name.get(nearest_field_name or "")
    return None if nearest is None else paths_by_text[nearest]


def nearest_directory(path: str) -> str | None:
    """Return the local directory that a missing path probably means: `lake/trips` for `lake/trps`.

    Only the last name of the path is corrected, by comparing it with the directories in its parent directory.
    """
    parent, _, name = path.rstrip("/").rpartition("/")
    if not parent:
        parent = "/" if path.startswith("/") else "."

    try:
        with os.scandir(parent) as entries:
            siblings = [entry.name for entry in islice(entries, _MAX_DIRECTORY_ENTRIES) if entry.is_dir()]
    except (OSError, ValueError):  # ValueError: the path contains a NUL character
        return None

    nearest = nearest_name(name, siblings)
    if nearest is None:
        return None
    return f"{path.rstrip('/').removesuffix(name)}{nearest}"
