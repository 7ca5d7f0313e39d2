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
    """Write the document of `--version --json` to stdout. It is indented on a terminal."""
    text = dumps(_make_version_document(), indent=sys.stdout.isatty()).decode()
    sys.stdout.write(f"{text}\n")


def _make_version_document() -> JsonObject:
    repository = Path(__file__).parents[2]
    return {
        "kind": "deltacli.version",
        "schemaVersion": SCHEMA_VERSION,
        "complete": True,
        "version": VERSION,
        "commit": COMMIT or find_checked_out_commit(repository / ".git"),
        "python": platform.python_version(),
        "extras": find_extras(),
        "stores": list_usable_schemes(),
    }


def find_checked_out_commit(git: Path) -> str | None:
    """Return the commit that is checked out, without running Git.

    Args:
        git: The path `.git` of a clone or of a worktree.

    Returns:
        The hash of the commit. None if there is no repository, or its files are not as expected.
    """
    try:
        commit = _read_commit(git)
    except (OSError, ValueError):
        return None
    is_hash = commit is not None and len(commit) in (40, 64) and set(commit) <= set("0123456789abcdef")
    return commit if is_hash else None


def _read_commit(git: Path) -> str | None:
    """Follow the files of a repository from `HEAD` to a commit. Raises OSError and ValueError."""
    if git.is_file():
        # In a worktree `.git` is a file: `gitdir: /home/me/clone/.git/worktrees/name`.
        git = (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head

    # A branch is a file of its own, or a line of the file `packed-refs`. Worktrees share the branches of their clone.
    reference = head.removeprefix("ref: ")
    common_directory = git
    if (git / "commondir").exists():
        common_directory = git / (git / "commondir").read_text().strip()
    if (common_directory / reference).exists():
        return (common_directory / reference).read_text().strip()
    for line in (common_directory / "packed-refs").read_text().splitlines():
        words = line.split()
        if words[1:] == [reference]:
            return words[0]
    return None
