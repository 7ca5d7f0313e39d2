"""Read the groups of a policy file: which tables have which policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from deltacli.core.typing import Toml
from deltacli.fleet.policy_file.file_context import FileContext
from deltacli.fleet.policy_file.keys import GROUP_KEYS
from deltacli.fleet.policy_file.model import CopyPolicy, Entry, Group, Policy
from deltacli.fleet.policy_file.toml_lines import KeyPath

_AFTER_DIRECTORY = re.compile(r"/?[^/]*[*?\[].*")
"""What follows the directory of a pattern."""

_NO_POLICY = Policy("", {})
"""The policy of a group whose policy is missing or unknown, which is an error."""


def read_groups(
    context: FileContext, table: Mapping[str, Toml], policies: Mapping[str, Policy], excluded: Sequence[Entry]
) -> list[Group]:
    """Return the groups of the table `groups`.

    Args:
        context: The file.
        table: The content of all groups.
        policies: The policies by name.
        excluded: What no group has, besides what it excludes itself.
    """
    replicas = list(_find_replicas(policies.values()))
    groups = []
    for name, content in table.items():
        if isinstance(content, dict):
            groups.append(_read_group(context, name, content, policies, excluded, replicas))
        else:
            context.add_error(("groups", name), "is not a table", "a table with policy and globs")
    return groups


def _find_replicas(policies: Iterable[Policy]) -> Iterator[Entry]:
    """Yield a pattern for the replicas that each policy makes. No group has them."""
    for policy in policies:
        copy = policy.steps.get("copy")
        if isinstance(copy, CopyPolicy):
            yield Entry(copy.targets, policy.line)


def _read_group(
    context: FileContext,
    name: str,
    content: Mapping[str, Toml],
    policies: Mapping[str, Policy],
    excluded: Sequence[Entry],
    replicas: Sequence[Entry],
) -> Group:
    """Return a group. A group with an error is incomplete: the file is not used then."""
    at: KeyPath = ("groups", name)
    values = context.read_values(at, content, GROUP_KEYS)
    policy = values.get("policy")
    if "policy" not in content:
        context.add_error(at, "the group has no policy", 'policy = "NAME"')
    elif policy is not None and policy not in policies:
        context.add_undefined((*at, "policy"), "policy", policy, policies)

    globs = context.read_entries(values, at, "globs")
    prefixes = context.read_entries(values, at, "prefixes")
    tables = (*context.read_entries(values, at, "tables"), *_read_lists(context, at, values))
    if not {"globs", "prefixes", "tables", "lists"} & content.keys():
        context.add_error(at, "the group has no tables", "globs, prefixes, tables or lists")
    _require_no_replicas(context, at, (*globs, *prefixes, *tables), replicas)
    return Group(
        name=name,
        policy=policies.get(policy or "", _NO_POLICY),
        globs=globs,
        prefixes=prefixes,
        tables=tables,
        exclude=(*context.read_entries(values, at, "exclude"), *excluded, *replicas),
        line=context.find_line(at),
    )


def _require_no_replicas(
    context: FileContext, at: KeyPath, entries: Sequence[Entry], replicas: Sequence[Entry]
) -> None:
    """Note targets of copies that match the tables of a group: replicas are left out, so nothing would be left."""
    for replica in replicas:
        if any(_matches_every_table(replica.text, entry.text) for entry in entries):
            context.add_error(
                at,
                f"line {replica.line}: the target of copy matches its tables, and replicas are in no group",
                "a target beside the tables, or one that the group does not name",
            )


def _matches_every_table(replicas: str, entry: str) -> bool:
    """Return True if the pattern of all replicas matches every table of an entry of a group."""
    directory, _, pattern = replicas.partition("*")
    if pattern not in ("", "*") or not directory.endswith("/"):
        return False
    directory_of_entry = _AFTER_DIRECTORY.split(entry)[0]
    return f"{directory_of_entry}/".startswith(directory)


def _read_lists(context: FileContext, at: KeyPath, values: Mapping[str, Toml]) -> Iterator[Entry]:
    """Yield the tables in the files that a group names under `lists`, one a line. `#` begins a comment."""
    for position, text in enumerate(values.get("lists", ())):
        key = (*at, "lists", position)
        try:
            lines = Path(context.resolve_place(text)).read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            context.add_error(key, f"{text} cannot be read: {(error.strerror or str(error)).lower()}")
            continue
        except UnicodeDecodeError:
            context.add_error(key, f"{text} cannot be read: it is not UTF-8")
            continue
        for line in lines:
            name = line.strip()
            if name and not name.startswith("#"):
                yield Entry(context.resolve_place(name), context.find_line(key))
