"""Which files of a commit a stream delivers, and where it refuses: as delta-spark means its options.

Only rows that are added can be delivered. So a commit that changes or deletes rows is refused, unless an option says
what to do with it. Files that were rewritten without a change of data, as by `optimize`, are neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.replay import file_key
from deltacli.errors import Refused
from deltacli.spark.streams.options import StreamOptions


def delivered_adds(
    adds: Sequence[Action], removes: Sequence[Action], options: StreamOptions, version: int, source: str
) -> list[Action]:
    """Return the adds whose files are delivered, of the actions of a commit that change data.

    `ignoreDeletes`: a commit that only removes files delivers nothing. `ignoreChanges`: so does it, and of other
    commits all added files are delivered, including the unchanged rows in them. `skipChangeCommits`: a commit with any
    remove delivers nothing. Raises Refused (`stream.deletes`, `stream.changes`).
    """
    if not removes:
        return _last_of_each(adds, source)
    if options.skip_change_commits:
        return []
    if adds and not options.ignore_changes:
        raise Refused(
            f"version {version} changes rows: it removes files and adds others, and a stream only delivers new rows",
            code="stream.changes",
            facts={"version": str(version), "removed": str(removes[0].get("path"))},
            hint='.option("skipChangeCommits", "true")   # or read the changes: .option("readChangeFeed", "true")',
        )
    if not adds and not (options.ignore_changes or options.ignore_deletes):
        raise Refused(
            f"version {version} deletes rows, and a stream only delivers new rows",
            code="stream.deletes",
            facts={"version": str(version), "removed": str(removes[0].get("path"))},
            hint='.option("ignoreDeletes", "true")   # or read the changes: .option("readChangeFeed", "true")',
        )
    return _last_of_each(adds, source)


def _last_of_each(adds: Iterable[Action], source: str) -> list[Action]:
    """Return the adds in the order of the commit; of two of one file the last."""
    found: dict[str, Action] = {}
    for add in adds:
        key = file_key(add, source)
        found.pop(key, None)
        found[key] = add
    return list(found.values())
