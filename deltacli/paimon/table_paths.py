"""The names of the files of a Paimon table: `schema/schema-3`, `branch/branch-b/snapshot/snapshot-7`."""

from __future__ import annotations

import re

MAIN_BRANCH = "main"
SCHEMA_DIRECTORY = "schema"
SNAPSHOT_DIRECTORY = "snapshot"
CHANGELOG_DIRECTORY = "changelog"
TAG_DIRECTORY = "tag"
MANIFEST_DIRECTORY = "manifest"
BRANCH_DIRECTORY = "branch"

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"
CHANGELOG_PREFIX = "changelog-"
TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"

MAX_NUMBER = (1 << 63) - 1
"""The greatest number of a schema or snapshot."""

_NUMBER = re.compile(r"[0-9]{1,19}")


def branch_root(branch: str) -> str:
    """Return the directory of a branch, with a slash at its end; '' for the main branch."""
    return "" if branch == MAIN_BRANCH else f"{BRANCH_DIRECTORY}/{BRANCH_PREFIX}{branch}/"


def schema_path(schema_id: int, branch: str = MAIN_BRANCH) -> str:
    """Return the path of a schema file."""
    return f"{branch_root(branch)}{SCHEMA_DIRECTORY}/{SCHEMA_PREFIX}{schema_id}"


def number_of(name: str, prefix: str) -> int | None:
    """Return the number in a file name, such as 3 in `schema-3`; None for another name, also `schema-03`."""
    digits = name.removeprefix(prefix)
    if digits == name or not _NUMBER.fullmatch(digits) or digits != str(int(digits)):
        return None
    return int(digits) if int(digits) <= MAX_NUMBER else None
