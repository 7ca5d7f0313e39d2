"""The rows that a new NOT NULL or CHECK constraint is about: partition values and statistics first, then data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import Refusal
from deltacli.core.hints import command
from deltacli.core.units import plural
from deltacli.delta.clustering.clustering_columns import clustering_action
from deltacli.delta.evolution.draft import names_of
from deltacli.delta.evolution.evolve import Evolution
from deltacli.delta.evolution.requests import AddConstraint, SetClustering, SetNotNull
from deltacli.delta.sql.stored import StoredKind
from deltacli.delta.vectors import unique_id
from deltacli.table.demands import FIELDS, Demand, DemandCheck, FoundRows, demands_of
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    import pyarrow

_FIELDS = (*FIELDS, "partitionValues")


def new_demands_of(evolution: Evolution) -> list[Demand]:
    """Return what the changes demand of rows that were written before."""
    columns, constraints = set(), set()
    for effect in evolution.due:
        match effect.change:
            case SetNotNull():
                columns.add(".".join(names_of(evolution.after.finder.find(str(effect.column)))))
            case AddConstraint(name, _):
                constraints.add(name.strip().lower())
    if not columns and not constraints:
        return []
    return [one for one in demands_of(evolution.after.config) if _is_of(one, columns, constraints)]


def _is_of(demand: Demand, columns: set[str], constraints: set[str]) -> bool:
    if isinstance(demand.owner, str):
        return demand.owner in columns
    return demand.owner.kind is StoredKind.CONSTRAINT and demand.owner.name in constraints


def asks_about_rows(evolution: Evolution) -> bool:
    """Return True if the commit depends on what all files have: rows that keep new demands, statistics of columns."""
    clusters = any(isinstance(effect.change, SetClustering) and effect.after for effect in evolution.due)
    return clusters or bool(new_demands_of(evolution))


class RowsInQuestion:
    """Checks the live files of a table, each once: after the commit of another writer only its files are new."""

    def __init__(self) -> None:
        self._asked: tuple[list[Demand], object] = ([], None)
        self._checked: set[int] = set()

    def checked(self, snapshot: Snapshot, evolution: Evolution) -> Evolution:
        """Return the evolution with the reasons that rows give against it. Raises StorageFailed."""
        if evolution.refusals or evolution.is_noop or not asks_about_rows(evolution):
            return evolution
        without = _WithoutStatistics(evolution)
        demands = new_demands_of(evolution)
        # By another schema a name can stand for another column: one that was dropped and added again.
        asked = (demands, evolution.before.metadata["schemaString"])
        if asked != self._asked:
            self._asked, self._checked = asked, set()
        table = snapshot.table
        check = DemandCheck(table, evolution.after.config, demands)
        with table.progress.step("checking rows", unit="files") as step:
            for adds in snapshot.file_actions.map_actions("add", lambda adds: adds, fields=_FIELDS):
                fresh = self._fresh(adds)
                if fresh.num_rows:
                    without.take(fresh)
                    check.take(fresh)
                step.advance(adds.num_rows)
        refusals = (*without.refusals(), *_refusals(check))
        if refusals:
            self._checked = set()
        return replace(evolution, refusals=refusals)

    def _fresh(self, adds: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the files that were not checked, and remember them. A new vector leaves fewer rows, but it may have
        replaced another one.
        """
        import pyarrow as pa

        paths, vectors = adds.column("path").to_pylist(), adds.column("deletionVector").to_pylist()
        keys = [hash((path, vector and unique_id(vector))) for path, vector in zip(paths, vectors, strict=True)]
        mask = [key not in self._checked for key in keys]
        self._checked.update(keys)
        return adds if all(mask) else pc.filter(adds, pa.array(mask, pa.bool_()))


class _WithoutStatistics:
    """Counts files without statistics of the columns that the table is to be clustered by, which all must have."""

    def __init__(self, evolution: Evolution) -> None:
        before, after = evolution.before.clustering, evolution.after.clustering
        self._config = evolution.after.config
        self._clustering = str(clustering_action(after)["configuration"]) if after != before and after else None
        self._files: list[str] = []

    def take(self, adds: pyarrow.RecordBatch) -> None:
        if self._clustering is None:
            return
        from deltacli.rules.framework.views import FilesView
        from deltacli.rules.statistics.clustering import clustering_columns_without_statistics

        versions = [0] * adds.num_rows
        view = FilesView(adds, self._config, versions, versions, clustering=self._clustering)
        self._files += [str(one.place.key) for one in clustering_columns_without_statistics(view)]

    def refusals(self) -> Iterator[Refusal]:
        if self._files:
            files = plural(len(set(self._files)), "file")
            message = f"{files} have no statistics of a clustering column, first {self._files[0]}"
            way_out = command("optimize", zorder="COLUMN") or "rewrite them first"
            yield Refusal("alter.clustering-statistics", message, way_out)


def _refusals(check: DemandCheck) -> Iterator[Refusal]:
    for demand, found in check.found.items():
        if found.files:
            yield _violated(demand, found)
        if found.unjudged:
            files = plural(len(found.unjudged), "file")
            message = f"{files} may violate {demand}, first {found.unjudged[0]}: {found.reason}"
            yield Refusal("alter.rows-unknown", message, "let an engine make the change, which checks the rows")


def _violated(demand: Demand, found: FoundRows) -> Refusal:
    noun = "null" if isinstance(demand.owner, str) else "row"
    rows = f"{noun}s" if found.rows is None else plural(found.rows, noun)
    verb = "violates" if found.rows == 1 else "violate"
    example = "" if found.first is None else f": {found.first}"
    files = plural(len(found.files), "file")
    message = f"{rows} in {files} {verb} {demand}, first in {found.files[0]}{example}"
    return Refusal("alter.rows-violate", message, "change or delete these rows first")
