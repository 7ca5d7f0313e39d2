"""What was written to a directory of Parquet files, in every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.sections import Section
from deltacli.cli.results import Document, Emit, Outcome
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.read.output import WrittenDirectory

_COLUMNS = ("path", "rows", "sizeBytes")


class DirectoryResult(Outcome):
    """The files of a directory. `about` is the version, or the range of versions, that they were read from."""

    def __init__(self, table: str, content: str, about: Mapping[str, int], written: WrittenDirectory) -> None:
        files = [{"path": file.name, "rows": file.rows, "sizeBytes": file.size_bytes} for file in written.files]
        fields = {
            "content": content,
            **about,
            "directory": written.uri,
            "rows": written.rows,
            "sizeBytes": written.size_bytes,
            "files": files,
        }
        super().__init__("output", table, fields, lambda: _sections(table, about, written), files, _COLUMNS)
        self._was_cut = written.was_cut

    def document(self) -> Document:
        return Document({**super().document().fields, "complete": not self._was_cut})

    def lines(self, emit: Emit) -> bool:
        return super().lines(emit) and not self._was_cut


def _sections(table: str, about: Mapping[str, int], written: WrittenDirectory) -> Sequence[Section]:
    versions = " to ".join(map(str, about.values()))
    files, rows = plural(len(written.files), "file"), plural(written.rows, "row")
    return [
        Section("table", [table]),
        Section("version" if len(about) == 1 else "versions", [versions]),
        Section("directory", [written.uri]),
        Section("written", [f"{files}, {rows}, {format_size(written.size_bytes)}"]),
    ]
