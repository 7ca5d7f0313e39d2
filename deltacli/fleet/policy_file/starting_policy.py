"""The policy file that `fleet init` writes: what deletes is a comment, and the tables that were found are listed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import orjson

from deltacli.core.errors import UsageError, command, parameter
from deltacli.storage.secrets import mask_secrets

_MOST_NAMES = 50
"""Tables that the file lists."""

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


def make_starting_policy(directory: str, file: str, tables: Sequence[str], schema: str | None = None) -> str:
    """Return the text of a policy file.

    Args:
        directory: The directory that was searched, as a path or URI.
        file: The path of the policy file, whose directory relative paths belong to.
        tables: The tables that were found, as paths or URIs.
        schema: The name of the file of the JSON Schema beside it, for editors. None: there is none.
    """
    home = os.path.dirname(os.path.abspath(file))
    names = [_name_in_file(table, home) for table in tables]
    group = _name_in_file(directory, home)
    return _FILE.format(
        schema="" if schema is None else f"#:schema ./{schema}\n",
        groups="\n".join(_make_group(group, names)),
        example=_quote(_clean_for_comment(names[0])),
        plan=command("fleet plan"),
        status=command("fleet status"),
        yes=parameter("fleet run.yes"),
    )


def _make_group(directory: str, names: Sequence[str]) -> list[str]:
    """Return the lines of the group of all tables in a directory, with a comment that lists the first of them."""
    listed = [f"#   {_clean_for_comment(name)}" for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        listed.append(f"#   and {len(names) - _MOST_NAMES:,} more")
    last_name = directory.rstrip("/").rpartition("/")[2]
    group = re.sub(r"[^A-Za-z0-9_-]+", "_", last_name).strip("_-") or "tables"
    return [
        "# Every table at and below these directories, also new ones. Found now:",
        *listed,
        f"[groups.{group}]",
        'policy = "standard"',
        f"prefixes = [{_quote(directory)}]",
        "# exclude = []",
        "",
    ]


def _name_in_file(name: str, home: str) -> str:
    """Return a URI as it is, and a path relative to the directory of the file if it is at or below it."""
    if "://" in name or name.startswith("file:"):
        return name
    path = os.path.normpath(os.path.abspath(name))
    relative_path = os.path.relpath(path, home)
    if relative_path.startswith(".."):
        return path
    # A tilde at the beginning would be taken for a home directory.
    return f"./{relative_path}" if relative_path.startswith("~") else relative_path


def _quote(text: str) -> str:
    """Return a string of TOML, as JSON writes it.

    Raises:
        UsageError: If the text is not UTF-8.
    """
    try:
        return orjson.dumps(text).decode()
    except TypeError:
        raise UsageError(f"{text} is not UTF-8, so a policy file cannot name it", code="fleet.config") from None


def _clean_for_comment(text: str) -> str:
    """Return a text without secrets, and without characters that would end a comment or are not allowed in one."""
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "?", mask_secrets(text))
