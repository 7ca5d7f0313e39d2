"""Find the name that was probably meant by a misspelled one: of a column, a type, a directory or an option."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

# Shares of equal letters, as `difflib` counts them, from which on a name is offered. Names of types are short and alike
# (`int`, `date`), and paths of columns have long parts in common, so both need more than other names.
_SIMILARITY = 0.6
_TYPE_SIMILARITY = 0.75
_PATH_SIMILARITY = 0.8

_MAX_DIRECTORY_ENTRIES = 1_000

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
"""Names of types in other databases and in Arrow -> the type that holds their values."""


def nearest_name(
    name: str, known: Iterable[str], *, ignores_case: bool = False, alike: float = _SIMILARITY
) -> str | None:
    """Return the known name that is most similar to a name.

    If no name is similar enough, one with the same letters in another order is returned, such as "int" for "itn".

    Args:
        name: The name to look up. A known name is returned as it is.
        known: The names to choose from.
        ignores_case: Compare without regard to case.
        alike: The least share of equal letters, from 0 to 1. With 1, only equal names are similar.

    Returns:
        The name as it is in `known`, or None if there is no similar one.
    """
    # Later names win where keys are equal: two columns that differ in case only are both good suggestions.
    names_by_key = {candidate.lower() if ignores_case else candidate: candidate for candidate in known}
    key = name.lower() if ignores_case else name
    if not key or key in names_by_key:
        return names_by_key.get(key)

    matches = get_close_matches(key, names_by_key, 1, alike)
    if matches:
        return names_by_key[matches[0]]

    letters = sorted(key)
    for candidate_key, candidate in names_by_key.items():
        # Two letters in another order are rather another name, such as `no` and `on`.
        if len(candidate_key) > 2 and sorted(candidate_key) == letters:
            return candidate
    return None


def nearest_type(text: str, known: Iterable[str]) -> str | None:
    """Return the data type that a misspelled type, or one of another database, probably means.

    >>> nearest_type("decimla(5,2)", ["decimal"])
    'decimal(5,2)'

    Args:
        text: The type as it was written, with its parameters in parentheses.
        known: The names of all types, without parameters.

    Returns:
        The type with the parameters of `text`. None if no name is similar, or if the name is right, so that only the
        parameters can be wrong.
    """
    name, bracket, parameters = text.strip().partition("(")
    name = name.rstrip()
    name = _FOREIGN_TYPES.get(name.lower(), name)
    near = nearest_name(name, known, ignores_case=True, alike=_TYPE_SIMILARITY)
    if near is None:
        return None

    suggestion = near + bracket + parameters
    if suggestion.lower() == text.strip().lower():
        return None
    return suggestion


def nearest_path(path: Sequence[str], known: Iterable[Sequence[str]]) -> Sequence[str] | None:
    """Return the path of the column that was probably meant.

    The first of these that exists is returned: a path that differs in a letter or two; the most similar path with the
    same last name, as when the names of the structs above are missing; a path that is similar as a whole; a path whose
    last name is similar.

    Args:
        path: The names along the path, from the outermost column to the field.
        known: The paths of all columns and fields.
    """
    paths_by_text = {".".join(candidate): candidate for candidate in known}
    text = ".".join(path)
    last_name = path[-1].lower()

    # Names of columns with dots in them are joined like the parts of a path. For a suggestion that is good enough.
    namesakes = [key for key, candidate in paths_by_text.items() if candidate[-1].lower() == last_name]
    near = nearest_name(text, paths_by_text, ignores_case=True, alike=_PATH_SIMILARITY)
    near = near or nearest_name(text, namesakes, ignores_case=True, alike=0.0)
    near = near or nearest_name(text, paths_by_text, ignores_case=True)

    if near is None:
        keys_by_last_name = {candidate[-1]: key for key, candidate in paths_by_text.items()}
        near_last_name = nearest_name(last_name, keys_by_last_name, ignores_case=True)
        near = keys_by_last_name.get(near_last_name or "")
    return None if near is None else paths_by_text[near]


def nearest_directory(path: str) -> str | None:
    """Return a missing local path with its last name replaced by that of the directory that was probably meant.

    Only the first thousand entries beside it are looked at: this is for a hint, and a directory can have millions.
    """
    parent, _, name = path.rstrip("/").rpartition("/")
    if not parent:
        parent = "/" if path.startswith("/") else "."

    try:
        with os.scandir(parent) as entries:
            neighbours = [entry.name for entry in islice(entries, _MAX_DIRECTORY_ENTRIES) if entry.is_dir()]
    except (OSError, ValueError):  # ValueError: the path has a NUL character
        return None

    near = nearest_name(name, neighbours)
    if not near:
        return near
    return f"{path.rstrip('/').removesuffix(name)}{near}"
