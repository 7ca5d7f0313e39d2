"""Files of change data: their footers, and at level `data` the type of change of each row.

Missing files are reported from the listing. Spec: Add CDC File; Change Data Files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from deltacli.delta.footers.schema import FileSchema, read_schema
from deltacli.delta.log.log_path import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.rules.framework.file_views import (
    MISSING,
    VANISHED,
    ChangedVersionView,
    ChangeFileView,
    ChangeTypes,
    FileFault,
    FileFaultView,
)
from deltacli.delta.rules.framework.views import LocatedAction
from deltacli.engine.base import Engine
from deltacli.errors import PathExternal
from deltacli.memory_limit import stop_if_exhausted
from deltacli.operations.read.file_selection import FileSelection
from deltacli.operations.validate.findings import Collector
from deltacli.operations.validate.table_context import TableContext
from deltacli.progress import Progress
from deltacli.units import plural
from deltacli.work.change_facts import ChangeFacts, ReadChanges

_VIEWS = (ChangeFileView, ChangedVersionView, FileFaultView)
_NEAR_FILES_A_PIECE, _FAR_FILES_A_PIECE = 64, 8
"""As for the footers of data files, but with rows: files of changes are mostly small."""
_MOST_SCHEMAS = 256
_NO_SCHEMA = FileFault("data.not-parquet", "its schema cannot be read")


@dataclass
class ChangeInspector:
    """Reads files of change data and passes their content to the checks."""

    table: TableContext
    engine: Engine
    collector: Collector
    with_rows: bool

    def __post_init__(self) -> None:
        self._schemas: dict[bytes, FileSchema | None] = {}
        self._listed = self.table.listed()
        self._unreached = 0

    def run(
        self,
        changes: Sequence[tuple[LocatedAction, int]],
        rows_added: Mapping[int, int],
        selection: FileSelection,
        progress: Progress,
    ) -> Iterator[str]:
        """Read the files, which are in the order of versions; yields what is not checked, and why."""
        named = [(placed, version) for placed, version in changes if isinstance(placed.action.get("path"), str)]
        if not named or not any(map(self.collector.looks_at, _VIEWS)):
            return
        if selection.predicate is not None:
            yield f"{plural(len(named), 'file')} of change data: a condition applies to the rows of the newest version"
            return
        chosen = named
        if selection.share < 1:
            chosen = [named[place] for place in selection.sample([placed.action["path"] for placed, _ in named])]
            left = f"{len(named) - len(chosen):,} of {plural(len(named), 'file')}"
            yield f"{left} of change data, which a sample leaves out"
        of_version = Counter(version for _, version in named)
        with progress.step("reading change data", unit="files", total=len(chosen)) as step:
            facts = zip(chosen, self._read(chosen), strict=True)
            for version, group in groupby(facts, key=lambda one: one[0][1]):
                types = []
                for (placed, _), fact in group:
                    types.append(self._show(placed, version, fact))
                    step.advance(1)
                known = [each for each in types if each is not None]
                if len(known) == of_version[version]:
                    place = Place(f"{LOG_DIRECTORY}/{commit_name(version)}", None, version)
                    self.collector.look(ChangedVersionView(place, version, _sum(known), rows_added.get(version)), place)
        if self._unreached:
            yield f"{plural(self._unreached, 'file')} of change data that could not be read"

    def _read(self, changes: Sequence[tuple[LocatedAction, int]]) -> Iterator[ChangeFacts]:
        each = _NEAR_FILES_A_PIECE if self.table.is_near else _FAR_FILES_A_PIECE
        paths = (placed.action["path"] for placed, _ in changes)
        pieces = (tuple(map(self._listed.find, part)) for part in iter(lambda: tuple(islice(paths, each)), ()))
        for part in self.engine.spread(ReadChanges(self.with_rows), pieces, self.table.stores, weigh=len):
            yield from part

    def _show(self, placed: LocatedAction, version: int, facts: ChangeFacts) -> ChangeTypes | None:
        """Pass one file to the checks, with its types of changes, where known."""
        place = Place(f"{LOG_DIRECTORY}/{commit_name(version)}", placed.line, version, placed.action["path"])
        schema = self._schema(facts.footer.schema) if facts.footer is not None and facts.fault is None else None
        fault = facts.fault if facts.footer is None or facts.fault is not None or schema is not None else _NO_SCHEMA
        if fault is not None and fault.code == PathExternal.code:
            self.table.files.refuse(placed.action["path"])
        elif fault is not None and fault.code == MISSING:  # one that the listing lacks is reported by its rule
            self._unreached += self._listed.judged(fault, place.key).code == VANISHED
        elif fault is not None:
            self._unreached += self.collector.look_at_fault(place, fault)
        if facts.footer is None or schema is None:
            return None
        self.collector.look(ChangeFileView(place, version, schema, facts.footer.rows, facts.types), place)
        return facts.types

    def _schema(self, key: bytes) -> FileSchema | None:
        import pyarrow

        if key not in self._schemas:
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            try:
                self._schemas[key] = read_schema(key)
            except (pyarrow.ArrowException, OSError, ValueError) as fault:
                stop_if_exhausted(fault)
                self._schemas[key] = None
        return self._schemas[key]


def _sum(types: Sequence[ChangeTypes]) -> ChangeTypes:
    counts: Counter[str] = Counter()
    for each in types:
        counts.update(each.counts)
    return ChangeTypes(counts, sum(each.bad for each in types))
