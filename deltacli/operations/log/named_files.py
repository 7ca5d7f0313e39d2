"""Files named by the commits of a log: adds, removes and change data, in columns. Spec: Actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.errors import CommitCorrupt
from deltacli.hints import command
from deltacli.operations.table.replay import read_contents
from deltacli.work.commits.file_references import FileReferences, NamedFiles, commit_actions
from deltacli.work.commits.reading import is_large

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle

_ROWS_HELD = 65_536


def named_files(
    table: TableHandle, listing: LogListing, faults: list[CommitCorrupt], metadata: list[Action]
) -> Iterator[FileReferences]:
    """Yield the files named by the commits of the log, newest first; unreadable commits are added to `faults`."""
    commits = [listing.commits[version] for version in sorted(listing.commits)]
    sound = [file for file in commits if file.size_bytes]
    for empty in (file for file in commits if not file.size_bytes):
        faults.append(_empty(empty))
    held = NamedFiles()
    contents = read_contents(table.storage, table.engine, sound, table.progress)
    for file, content in contents:
        try:
            yield from held.take(commit_actions(table.storage, file, content), file)
        except CommitCorrupt as fault:
            faults.append(fault)
        if len(held) >= _ROWS_HELD or is_large(file):
            yield from held.flush()
    yield from held.flush()
    metadata.extend(held.metadata)


def _empty(file: LogFile) -> CommitCorrupt:
    return CommitCorrupt(
        f"commit {file.version} is empty, which indicates an interrupted write; repair it first",
        code="commit.empty",
        facts={"file": file.name},
        hint=command("validate"),
    )
