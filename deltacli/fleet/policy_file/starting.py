"""The policy file that `fleet init` writes: what deletes is a comment, and the tables that were found are listed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import orjson

from deltacli.core.errors import UsageError
from deltacli.core.hints import command, parameter
from deltacli.storage.secrets import without_secrets

_MOST_NAMES = 50

_FILE = """\
# Policy file of deltacli. What each key means: docs/fleet.md.
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


def starting_policy(directory: str, file: str, tables: Sequence[str]) -> str:
    """Return a policy file for the tables found at and below a directory. `tables` are paths or URIs, as found."""
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
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "?", without_secrets(text))
