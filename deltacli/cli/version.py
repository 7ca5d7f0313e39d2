"""`deltacli --version --json`: the version, its commit, Python, the installed extras and the usable stores."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from deltacli.core.documents import SCHEMA_VERSION, dumps
from deltacli.core.installation import find_extras
from deltacli.core.release import COMMIT, VERSION
from deltacli.core.typing import JsonObject
from deltacli.storage import list_usable_schemes


def write_version() -> None:
    text = dumps(_version_document(), indent=sys.stdout.isatty()).decode()
    sys.stdout.write(f"{text}\n")


def _version_document() -> JsonObject:
    clone = Path(__file__).parents[2]
    return {
        "kind": "deltacli.version",
        "schemaVersion": SCHEMA_VERSION,
        "complete": True,
        "version": VERSION,
        "commit": COMMIT or commit_of(clone / ".git"),
        "python": platform.python_version(),
        "extras": find_extras(),
        "stores": list_usable_schemes(),
    }


def commit_of(git: Path) -> str | None:
    """Return the commit that is checked out, from the files of `.git`; None if that is not a clone's, or in doubt."""
    try:
        found = _checked_out(git)
    except (OSError, ValueError):
        return None
    return found if found and len(found) in (40, 64) and not set(found) - set("0123456789abcdef") else None


def _checked_out(git: Path) -> str | None:
    if git.is_file():  # of a worktree
        git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    name, shared = head.removeprefix("ref: "), git / "commondir"
    home = git / shared.read_text().strip() if shared.exists() else git
    if (home / name).exists():
        return (home / name).read_text().strip()
    packed = (line.split() for line in (home / "packed-refs").read_text().splitlines())
    return next((words[0] for words in packed if words[1:] == [name]), None)
