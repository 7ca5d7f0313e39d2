"""The policy file that `fleet init` writes, and its JSON Schema: what deletes is a comment, and the tables that were
found are listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from deltacli.core.errors import UsageError, command, parameter
from deltacli.core.typing import Json
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.fleet.planning.discovery import exclusion, split_pattern
from deltacli.fleet.policy_file import model
from deltacli.fleet.policy_file.keys import GROUP_KEYS, POLICY_KEYS, SECTION_KEYS, TOP_KEYS, WEBHOOK_KEYS, Key
from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.storage.secrets import mask_secrets

# -- the policy file that `fleet init` writes --------------------------------------------------------------------------

_MOST_NAMES = 50

_FILE = """\
{schema}# Policy file of deltacli. What each key means: docs/fleet.md.
# Relative paths belong to the directory of this file.

# A policy has a table per step. Steps run when they are due; `{plan}` shows which.
[policies.standard]
checkpoint = {{ commits = 50 }}                # when the log is 50 commits behind the last checkpoint
validate = {{ every = "7d", level = "storage" }}   # log: commits and checkpoints; storage: also one listing
# Rewrites small files of tables in which at least so many are small; the old files stay until vacuum deletes them.
# optimize = {{ every = "1d", small-files = "30%", max-bytes = "100GiB", window = "22:00-06:00" }}
# These steps delete files. They need consent = true here, and {yes} on the command line.
# vacuum = {{ every = "7d", max-delete = "20%", consent = true }}
# log-expire = {{ every = "1d", consent = true }}

# Thresholds: `{status}` shows what exceeds them.
[policies.standard.alerts]
# An alert for warnings of the validation, too; its errors are alerts without it.
# failed-rules = 1
# These stay exceeded until the files are compacted, or the table has enough commits for a checkpoint.
# small-files = "50%"
# checkpoint-age = "7d"

{groups}
# Tables of their own policy. A table belongs to the first group that it matches, so put this above the others.
# [policies.critical]
# inherits = "standard"
# validate = {{ every = "1d", level = "footers" }}
# [groups.critical]
# policy = "critical"
# tables = [{example}]
"""


def starting_policy(directory: str, file: str, tables: Sequence[str], schema: str | None = None) -> str:
    """Return a policy file for tables, paths or URIs as found. `schema` is the name of the file for editors."""
    home = os.path.dirname(os.path.abspath(file))
    named = [_entry(table, home) for table in tables]
    shown = [f"#   {_commented(name)}" for name in named[:_MOST_NAMES]]
    if len(named) > _MOST_NAMES:
        shown.append(f"#   and {len(named) - _MOST_NAMES:,} more")
    place = _entry(directory, home)
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", place.rstrip("/").rpartition("/")[2]).strip("_-") or "tables"
    group = [
        "# Every table at and below these directories, also new ones. Found now:",
        *shown,
        f"[groups.{name}]",
        'policy = "standard"',
        f"prefixes = [{_quoted(place)}]",
        "# exclude = []",
        "",
    ]
    return _FILE.format(
        schema="" if schema is None else f"#:schema ./{schema}\n",
        groups="\n".join(group),
        example=_quoted(_commented(named[0])),
        plan=command("fleet plan"),
        status=command("fleet status"),
        yes=parameter("fleet run.yes"),
    )


def _entry(name: str, home: str) -> str:
    """Return a URI as it is, and a path relative to the directory of the file if it is at or below it."""
    if "://" in name or name.startswith("file:"):
        return name
    whole = os.path.normpath(os.path.abspath(name))
    below = os.path.relpath(whole, home)
    if below.startswith(".."):
        return whole
    return f"./{below}" if below.startswith("~") else below  # else a home directory


def _quoted(text: str) -> str:
    """Return a string of TOML, as JSON writes it. Raises UsageError for text that is not UTF-8."""
    try:
        return orjson.dumps(text).decode()
    except TypeError:
        raise UsageError(f"{text} is not UTF-8, so a policy file cannot name it", code="fleet.config") from None


def _commented(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "?", mask_secrets(text))


# -- the JSON Schema of the file, for editors --------------------------------------------------------------------------

Schema = dict[str, Json]


def fleet_file_schema() -> Schema:
    """Return the JSON Schema of the content of a policy file, in the draft that editors know."""
    sections = {name: {"anyOf": [{"const": False}, _table(step_keys)]} for name, step_keys in SECTION_KEYS.items()}
    policy = _table(POLICY_KEYS)
    policy["properties"] |= sections
    group = _table(GROUP_KEYS) | {
        "required": ["policy"],
        "anyOf": [{"required": [name]} for name in ("globs", "prefixes", "tables", "lists")],
    }
    top = _table(TOP_KEYS)
    top["properties"] |= {
        "webhook": _table(WEBHOOK_KEYS) | {"required": ["url"]},
        "policies": {"type": "object", "additionalProperties": policy},
        "groups": {"type": "object", "minProperties": 1, "additionalProperties": group},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "fleet.toml, the policy file of many tables",
        "$comment": "generated from the keys of the file, do not edit",
        **top,
        "required": ["groups"],
    }


def _table(table_keys: Iterable[Key]) -> Schema:
    properties = {key.name: _value(key) for key in table_keys}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _value(key: Key) -> Schema:
    schema: Schema = {"enum": list(key.choices)} if key.choices else dict(key.kind.json_schema)
    default = "" if key.default is None else f" Default: {key.default}."
    return {"description": f"{key.meaning}{default}", **schema}


# -- `fleet check` -----------------------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"\[!?\]?[^]]*\]|[*?]")
_ANY = "\0"
"""Stands for the special characters of a pattern: only `*` and `**` of another pattern match it."""


def check_fleet_file(path: str | Path) -> model.FleetFile:
    """Return a policy file with its problems, and warnings about groups whose tables all belong to others, and about
    paths of this machine that do not exist. Raises UsageError where the file cannot be read.
    """
    file = read_fleet_file(path)
    found = [*file.problems, *_shadowed(file.groups), *_missing(file.groups)]
    return replace(file, problems=tuple(sorted(found, key=lambda problem: problem.line)))


def _missing(groups: Sequence[model.Group]) -> Iterator[model.Problem]:
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


def _is_local(entry: model.Entry) -> bool:
    return "://" not in entry.text and not entry.text.startswith("file:")


def _warning(group: model.Group, entry: model.Entry, message: str) -> model.Problem:
    return model.Problem(entry.line, f"groups.{group.name}", message, is_error=False)


def _shadowed(groups: Sequence[model.Group]) -> Iterator[model.Problem]:
    """Yield a warning for each group of which no table is left."""
    for number, group in enumerate(groups):
        entries = (*group.tables, *group.globs, *group.prefixes)
        takers = {_taker(entry, group, groups[:number]) for entry in entries}
        if takers and None not in takers:
            names = ", ".join(sorted(name for name in takers if name))
            reason = f"its tables belong to {names}, which is above it" if names else "everything is excluded"
            message = f"no table is left for this group: {reason}"
            yield model.Problem(group.line, f"groups.{group.name}", message, is_error=False)


def _taker(entry: model.Entry, group: model.Group, above: Sequence[model.Group]) -> str | None:
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


def _plain(prefixes: Sequence[model.Entry]) -> list[model.Entry]:
    return [entry for entry in prefixes if not _SPECIAL.search(entry.text)]


def _covers(entries: Sequence[model.Entry], text: str, *, is_glob: bool) -> bool:
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
