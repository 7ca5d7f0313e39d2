"""`fleet check`: what a valid file says and cannot mean, such as a group without any table left for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.fleet.planning.discovery import exclusion, split_pattern
from deltacli.fleet.policy_file.model import Entry, FleetFile, Group, Problem
from deltacli.fleet.policy_file.reading import read_fleet_file

_SPECIAL = re.compile(r"\[!?\]?[^]]*\]|[*?]")
_ANY = "\0"
"""Stands for the special characters of a pattern: only `*` and `**` of another pattern match it."""


def check_fleet_file(path: str | Path) -> FleetFile:
    """Return a policy file with its problems, and warnings about groups whose tables all belong to others, and about
    paths of this machine that do not exist. Raises UsageError where the file cannot be read.
    """
    file = read_fleet_file(path)
    found = [*file.problems, *_shadowed(file.groups), *_missing(file.groups)]
    return replace(file, problems=tuple(sorted(found, key=lambda problem: problem.line)))


def _missing(groups: Sequence[Group]) -> Iterator[Problem]:
    """Yield a warning for each local table, and each directory to search, that does not exist."""
    for group in groups:
        for entry in [entry for entry in group.tables if _is_local(entry) and "*" not in entry.text]:
            if not os.path.isdir(entry.text):
                yield _warning(group, entry, _absent(entry.text))
            elif not os.path.isdir(os.path.join(entry.text, LOG_DIRECTORY)):
                yield _warning(group, entry, f"{entry.text} is not a Delta table: it has no {LOG_DIRECTORY}")
        for entry in [entry for entry in (*group.globs, *group.prefixes) if _is_local(entry)]:
            base = split_pattern(entry.text).base if entry in group.globs else entry.text
            if not os.path.isdir(base):
                yield _warning(group, entry, _absent(base))


def _absent(place: str) -> str:
    return f"{place} is not a directory" if os.path.lexists(place) else f"{place} does not exist"


def _is_local(entry: Entry) -> bool:
    return "://" not in entry.text and not entry.text.startswith("file:")


def _warning(group: Group, entry: Entry, message: str) -> Problem:
    return Problem(entry.line, f"groups.{group.name}", message, is_error=False)


def _shadowed(groups: Sequence[Group]) -> Iterator[Problem]:
    """Yield a warning for each group of which no table is left."""
    for number, group in enumerate(groups):
        entries = (*group.tables, *group.globs, *group.prefixes)
        takers = {_taker(entry, group, groups[:number]) for entry in entries}
        if takers and None not in takers:
            names = ", ".join(sorted(name for name in takers if name))
            reason = f"its tables belong to {names}, which is above it" if names else "everything is excluded"
            message = f"no table is left for this group: {reason}"
            yield Problem(group.line, f"groups.{group.name}", message, is_error=False)


def _taker(entry: Entry, group: Group, above: Sequence[Group]) -> str | None:
    """Return the group above that has every table of an entry; "" if all are excluded, None if some may be left."""
    is_glob = entry in group.globs
    if _covers(group.exclude, entry.text, is_glob=is_glob):
        return ""
    excluded = {one.text for one in group.exclude}
    for other in above:
        if {one.text for one in other.exclude} <= excluded and (
            _covers((*other.globs, *_plain(other.prefixes)), entry.text, is_glob=is_glob)
            or (entry in group.tables and any(entry.text == one.text for one in other.tables))
        ):
            return other.name
    return None


def _plain(prefixes: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in prefixes if not _SPECIAL.search(entry.text)]


def _covers(entries: Sequence[Entry], text: str, *, is_glob: bool) -> bool:
    """Return True if one of the directories, with all below it, has everything that a text selects. In doubt False:
    hidden directories are not searched, for example. Tables inside of other tables are not considered.
    """
    if "/." in text:
        return False
    if is_glob:
        base, segments = split_pattern(text)
        names = segments[: segments.index("**")] if "**" in segments else segments
        text = "/".join([base.rstrip("/"), *(_SPECIAL.sub(_ANY, name) for name in names)])
    usable = [entry for entry in entries if _ANY not in text or not re.search(r"[?\[]", entry.text)]
    return any(found.fullmatch(text) for entry in usable if (found := exclusion([entry])) is not None)
