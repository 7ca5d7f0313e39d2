"""Files of a log outside the table that may not be opened: reported once, as an error where the table cannot be opened
without them.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.log.place import Place
from deltacli.delta.log.segment import LogListing
from deltacli.delta.paths.path_decoding import decode
from deltacli.delta.rules.framework.base import Finding
from deltacli.errors import PathExternal
from deltacli.hints import command
from deltacli.operations.validate.findings import FILE_OUTSIDE
from deltacli.units import plural


class RefusedLogFiles:
    """The refused files of the log of a table at a URI; `refused` has the refusals by name."""

    def __init__(self, uri: str) -> None:
        self._table = decode(uri.removeprefix("file://")) if uri.startswith("file://") else uri
        self.refused: dict[str, PathExternal] = {}

    def not_checked(self) -> Iterator[str]:
        """Yield one sentence about all of them."""
        if self.refused:
            yield f"{self._files}: not opened without {self._command}"

    def findings(self, listing: LogListing, *, is_rebuilt: bool) -> Iterator[Finding]:
        """Yield the finding for a table whose newest version needs one of them; `is_rebuilt`: the version was
        rebuilt.
        """
        if not self.refused or not (self._are_needed(listing) if is_rebuilt else self._hold_actions(listing)):
            return
        first, refusal = next(iter(self.refused.items()))
        rule = FILE_OUTSIDE._replace(fix=FILE_OUTSIDE.fix._replace(repair=f"if you trust the table: {self._command}"))
        message = f"the newest version cannot be read without {self._files}, which was not opened"
        yield rule.at(Place(f"{LOG_DIRECTORY}/{first}"), message, seen=refusal.facts.get("leads to"))

    def _are_needed(self, listing: LogListing) -> bool:
        """Return whether a commit after the newest checkpoint was refused, or a file of each form of that
        checkpoint.
        """
        newest = max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)
        forms = [checkpoint.files for checkpoint in listing.checkpoints if checkpoint.version == newest]
        commits = (file.name for version, file in listing.commits.items() if version > newest)
        return any(name in self.refused for name in commits) or (
            bool(forms) and all(any(file.name in self.refused for file in files) for files in forms)
        )

    def _hold_actions(self, listing: LogListing) -> bool:
        """Return whether a commit or a checkpoint was refused, so that an older start has to be used."""
        checkpoints = (file.name for checkpoint in listing.checkpoints for file in checkpoint.files)
        commits = (file.name for file in listing.commits.values())
        return not self.refused.keys().isdisjoint([*checkpoints, *commits])

    @property
    def _files(self) -> str:
        count = len(self.refused)
        which = "which lies" if count == 1 else f"the first {next(iter(self.refused))}, which lie"
        name = next(iter(self.refused)) if count == 1 else plural(count, "file")
        return f"{name} of the log, {which} outside the table"

    @property
    def _command(self) -> str:
        prefix = next(iter(self.refused.values())).prefix or "PREFIX"
        return command("validate", table=self._table, allow_external=[prefix])
