"""What `fleet check` finds besides the problems of reading: groups without tables, and paths that do not exist."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.fleet.planning.discovery import exclusion, split_pattern
from deltacli.fleet.policy_file.model import Entry, FleetFile, Group, Problem
from deltacli.fleet.policy_file.reading import read_fleet_file

_WILDCARD = re.compile(r"\[!?\]?[^]]*\]|[*?]")
_ANY_CHARACTER = "\0"
"""Stands for the special characters of a pattern: only `*` and `**` of another pattern match it."""


def check_fleet_file(path: str | Path) -> FleetFile:
    """Return a policy file with its problems.

    Groups whose tables all belong to others, and paths of this machine that do not exist, are warnings.

    Raises:
        UsageError: If the file cannot be read.
    """
    file = read_fleet_file(path)
    problems = [
        *file.problems,
        *_find_groups_without_tables(file.groups),
        *_find_missing_directories(file.groups),
    ]
    return replace(file, problems=tuple(sorted(problems, key=lambda problem: problem.line)))


def _find_missing_directories(groups: Sequence[Group]) -> Iterator[Problem]:
    """Yield a warning for each local table, and each directory to search, that does not exist."""
    for group in groups:
        for table in group.tables:
            if not _is_local(table) or "*" in table.text:
                continue
            if not os.path.isdir(table.text):
                yield _warn(group, table, _describe_missing_directory(table.text))
            elif not os.path.isdir(os.path.join(table.text, LOG_DIRECTORY)):
                yield _warn(group, table, f"{table.text} is not a Delta table: it has no {LOG_DIRECTORY}")
        for entry in (*group.globs, *group.prefixes):
            directory = split_pattern(entry.text).base if entry in group.globs else entry.text
            if _is_local(entry) and not os.path.isdir(directory):
                yield _warn(group, entry, _describe_missing_directory(directory))


def _describe_missing_directory(path: str) -> str:
    return f"{path} is not a directory" if os.path.lexists(path) else f"{path} does not exist"


def _is_local(entry: Entry) -> bool:
    return "://" not in entry.text and not entry.text.startswith("file:")


def _warn(group: Group, entry: Entry, message: str) -> Problem:
    return Problem(entry.line, f"groups.{group.name}", message, is_error=False)


def _find_groups_without_tables(groups: Sequence[Group]) -> Iterator[Problem]:
    """Yield a warning for each group of which no table is left: a table belongs to the first group that has it."""
    for position, group in enumerate(groups):
        entries = (*group.tables, *group.globs, *group.prefixes)
        owners = {_find_owner(entry, group, groups[:position]) for entry in entries}
        if not owners or None in owners:
            continue
        names = ", ".join(sorted(name for name in owners if name))
        reason = f"its tables belong to {names}, which is above it" if names else "everything is excluded"
        message = f"no table is left for this group: {reason}"
        yield Problem(group.line, f"groups.{group.name}", message, is_error=False)


def _find_owner(entry: Entry, group: Group, groups_above: Sequence[Group]) -> str | None:
    """Return the group that has every table of an entry.

    Args:
        entry: The entry.
        group: The group that names it.
        groups_above: The groups that come first.

    Returns:
        The name of a group above; "" if all tables are excluded; None if some may be left.
    """
    is_glob = entry in group.globs
    if _covers(group.exclude, entry.text, is_glob=is_glob):
        return ""
    excluded = {excluded_entry.text for excluded_entry in group.exclude}
    for other in groups_above:
        # What only the other group excludes may be left for this one.
        if not {other_entry.text for other_entry in other.exclude} <= excluded:
            continue
        plain_prefixes = [prefix for prefix in other.prefixes if not _WILDCARD.search(prefix.text)]
        if _covers((*other.globs, *plain_prefixes), entry.text, is_glob=is_glob):
            return other.name
        is_table = entry in group.tables
        if is_table and any(entry.text == table.text for table in other.tables):
            return other.name
    return None


def _covers(entries: Sequence[Entry], text: str, *, is_glob: bool) -> bool:
    """Return True if one of the directories, with all below it, has everything that a text selects.

    In doubt it is False: hidden directories are not searched, for example. Tables inside of other tables are not
    considered.
    """
    if "/." in text:
        return False
    if is_glob:
        base, segments = split_pattern(text)
        names = segments[: segments.index("**")] if "**" in segments else segments
        text = "/".join([base.rstrip("/"), *(_WILDCARD.sub(_ANY_CHARACTER, name) for name in names)])
    for entry in entries:
        # A pattern with one character or a set of them does not match all that a wildcard of the text stands for.
        if _ANY_CHARACTER in text and re.search(r"[?\[]", entry.text):
            continue
        pattern = exclusion([entry])
        if pattern is not None and pattern.fullmatch(text):
            return True
    return False
