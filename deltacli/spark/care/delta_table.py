"""A table of a Spark session with its maintenance as methods, named like the class of delta-spark, what is due for one
table at the end of a job, and the progress of that as one line that updates.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

from deltacli.api.table import Table, open_table
from deltacli.core.errors import DeltacliError, Refused, UsageError, command
from deltacli.core.machine import Clock, fixed_clock, system_clock
from deltacli.core.progress import SILENT
from deltacli.core.units import format_count
from deltacli.spark.care import facts
from deltacli.spark.executor_rows import engine_of
from deltacli.spark.parquet_scan import require_session
from deltacli.spark.table_plan import read_table
from deltacli.storage import open_storage
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_arguments import require_path_text, require_timestamp_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from deltacli.fleet.policy_file.model import FleetFile, Group
    from deltacli.fleet.running.run import FleetReport
    from deltacli.operations.change.alter import AlterationOutcome
    from deltacli.operations.change.stats import StatsOutcome
    from deltacli.operations.change.widen_type import WideningOutcome
    from deltacli.operations.checkpoint.checkpoint import CheckpointResult
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.repair.repair import RepairOutcome
    from deltacli.operations.restore.restore import RestoreOutcome
    from deltacli.operations.vacuum.plan import VacuumResult
    from deltacli.operations.validate.validate import Validation

Outcome = TypeVar("Outcome")
_SECONDS = 0.5
"""Seconds before a step is shown, and between two updates."""


class Shown(Generic[Outcome]):
    """The result of an operation, with its attributes, and `show`, which prints what the command prints."""

    def __init__(self, result: Outcome, name: str) -> None:
        self.result, self._name = result, name

    def __getattr__(self, attribute: str) -> Any:  # Any: of the result
        return getattr(self.result, attribute)

    def __repr__(self) -> str:
        return repr(self.result)

    def show(self) -> None:
        from deltacli.cli.render.notebook_text import shown

        print(shown(self.result, self._name), end="")


class DeltaTable:
    """A Delta table at a path, of a classic session or of Spark Connect; `forPath` makes one.

    Methods that change the table take the parameters of `deltacli.Table`, commit as it does and raise what it raises.
    The steps of large tables run on the executors of the session.
    """

    def __init__(self, spark: SparkSession, table: Table, options: Mapping[str, Any]) -> None:
        self._spark, self._table, self._options = spark, table, options

    @classmethod
    def forPath(
        cls,
        spark: SparkSession,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        allow_external: Sequence[str] = (),
        now: datetime | None = None,
        progress: bool | None = None,
    ) -> DeltaTable:
        """Return the table at a path or URI, without reading anything yet.

        The arguments are those of `open_table`; `now` replaces the clock. `progress` shows a line on stderr while work
        goes on (default: in notebooks). Raises UsageError for a session or a path that cannot be used.
        """
        require_session(spark)
        options: dict[str, Any] = {"storage_options": storage_options, "allow_external": allow_external}
        is_wanted = hasattr(builtins, "get_ipython") if progress is None else progress
        listener = LineProgress(sys.stderr) if is_wanted else SILENT
        table = open_table(path, engine=engine_of(spark), clock=_clock(now), progress=listener, **options)
        return cls(spark, table, options)

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,  # noqa: N803  (as in delta-spark)
        identifier: str,
        partitionSchema: str | StructType | None = None,  # noqa: N803
    ) -> DeltaTable:
        """Turn Parquet files into a Delta table at once, and return it; ``parquet.`/path` `` names their directory, and
        `partitionSchema` its partition columns with their types, as text or as a StructType. Raises as `Table.convert`
        does, and UsageError for a table of the catalog. A directory that is a table already is returned.
        """
        found = re.fullmatch(r"parquet\.`(.+)`", identifier, re.DOTALL | re.IGNORECASE)
        if found is None:
            raise UsageError(f"{identifier!r} is not a directory", facts={"expected": "parquet.`/path`"})
        table = cls.forPath(sparkSession, found[1].replace("``", "`"))
        given = partitionSchema
        if given is not None and not isinstance(given, str):
            given = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in given.fields)
        try:
            table._table.convert(partition=given)
        except Refused as refused:
            if refused.code != "convert.is-table":
                raise
        return table

    def __repr__(self) -> str:
        return f"DeltaTable({mask_secrets(self._table.uri)!r})"

    def toDF(self, *, version: int | None = None, timestamp: datetime | date | None = None) -> DataFrame:
        """Return the rows of the newest version, of `version`, or of the newest one until `timestamp`."""
        return read_table(self._spark, self._table.uri, version=version, timestamp=timestamp, **self._options)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the newest `limit` commits as a frame, newest first (None: all)."""
        frame = facts.history(self._spark, self._table.uri, limit=limit or 0, storage_options=self._store)
        return frame.orderBy(frame["version"].desc())

    def detail(self) -> DataFrame:
        """Return one row about the newest version: protocol, properties, rows, files, bytes, checkpoint."""
        return facts.detail(self._spark, self._table.uri, storage_options=self._store)

    def vacuum(self, **request: Any) -> Shown[VacuumResult]:  # Any: the fields of the request, here and below
        """Delete, at once, the files that no retained version needs; `dry_run=True` returns the plan.

        The parameters are those of `Table.vacuum`.
        """
        return self._shown(self._table.vacuum(**request))

    def checkpoint(self, **request: Any) -> Shown[CheckpointResult]:
        """Write a checkpoint. The parameters are those of `Table.checkpoint`."""
        return self._shown(self._table.checkpoint(**request))

    def validate(self, **request: Any) -> Shown[Validation]:
        """Check the table against the rules of a level. The parameters are those of `Table.validate`."""
        return self._shown(self._table.validate(**request))

    def widenType(self, *changes: tuple[str, str], **request: Any) -> Shown[WideningOutcome]:
        """Widen the types of columns in one commit. The parameters are those of `Table.widen_type`."""
        return self._shown(self._table.widen_type(*changes, **request))

    def optimize(self, **request: Any) -> Shown[OptimizeOutcome]:
        """Compact small files and purge deleted rows at once; `dry_run=True` returns the plan.

        The parameters are those of `Table.optimize`.
        """
        return self._shown(self._table.optimize(**request))

    def stats(self, **request: Any) -> Shown[StatsOutcome]:
        """Compute the statistics of files without rewriting them. The parameters are those of `Table.stats`."""
        return self._shown(self._table.stats(**request))

    def restore(self, **request: Any) -> Shown[RestoreOutcome]:
        """Bring the table back to an earlier version at once; `dry_run=True` returns the plan.

        The parameters are those of `Table.restore`.
        """
        return self._shown(self._table.restore(**request))

    def repair(self, **request: Any) -> Shown[RepairOutcome]:
        """Repair at once what `validate` finds; `dry_run=True` returns the plan.

        The parameters are those of `Table.repair`.
        """
        return self._shown(self._table.repair(**request))

    def alter(self, changes: Sequence[Any], **request: Any) -> Shown[AlterationOutcome]:
        """Make changes of the schema in one commit. The parameters are those of `Table.alter`."""
        return self._shown(self._table.alter(changes, **request))

    def clone(
        self,
        target: str,
        isShallow: bool,  # noqa: N803  (as in delta-spark, here and below)
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the newest version at once, and return the clone. A shallow one shares the files of the table and is
        made as by `Table.clone`, any other by `Table.copy`, whose errors are raised; a target that exists is never
        replaced, and properties are set afterwards: both are UsageErrors.
        """
        return self._cloned(target, None, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone a version at once, as `clone` does."""
        return self._cloned(target, version, isShallow, replace, properties)

    def cloneAtTimestamp(
        self,
        timestamp: datetime | date,
        target: str,
        isShallow: bool,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the newest version until a time at once, as `clone` does."""
        version = self._table.snapshot(timestamp=timestamp).version
        return self._cloned(target, version, isShallow, replace, properties)

    def _cloned(
        self, target: str, version: int | None, is_shallow: bool, replaces: bool, properties: Mapping[str, str] | None
    ) -> DeltaTable:
        for name, given in (("replace", replaces), ("properties", properties)):
            if given:
                raise UsageError(f"{name} is not supported: name a new directory, and set properties afterwards")
        if is_shallow:
            self._table.clone(target, version=version)
        elif version is None:
            self._table.copy(target, newest=True)
        else:
            self._table.copy(target, versions=f"{version}-{version}")
        allowed = [*self._options["allow_external"], *([self._table.uri] if is_shallow else ())]
        return DeltaTable.forPath(self._spark, target, storage_options=self._store, allow_external=allowed)

    def generate(self, mode: str) -> None:
        """Write the manifests of the newest version at once; `mode` is `symlink_format_manifest`. Raises as
        `Table.manifest` does, and UsageError for another mode.
        """
        if mode.lower() != "symlink_format_manifest":
            raise UsageError(f"unknown mode {mode!r}", facts={"expected": "symlink_format_manifest"})
        self._table.manifest()

    @property
    def _store(self) -> Mapping[str, str] | None:
        found: Mapping[str, str] | None = self._options["storage_options"]
        return found

    def _shown(self, result: Outcome) -> Shown[Outcome]:
        return Shown(result, self._table.name or self._table.uri)


class Maintenance:
    """What `maintain` did: the `report` of its steps, None after an `error`."""

    def __init__(self, report: FleetReport | None, error: DeltacliError | None) -> None:
        self.report, self.error = report, error

    @property
    def steps(self) -> tuple[tuple[str, str, str], ...]:
        """Return each due step: its kind, the state it ended in, and a message."""
        tables = self.report.tables if self.report is not None else ()
        return tuple((one.step.kind, one.outcome.state, one.outcome.message) for table in tables for one in table.steps)

    @property
    def is_done(self) -> bool:
        """Return True if every due step was carried out."""
        return self.report is not None and self.report.exit_code == 0

    def __repr__(self) -> str:
        return f"Maintenance(steps={self.steps!r}, error={None if self.error is None else self.error.message!r})"

    def show(self) -> None:
        """Print what was done, as `deltacli fleet run` does, or the error."""
        from deltacli.cli.render.notebook_text import shown

        if self.report is not None:
            print(shown(self.report, ""), end="")
        elif self.error is not None:
            print(f"error: {mask_secrets(self.error.message)}")


def maintain(
    spark: SparkSession,
    path: str | os.PathLike[str],
    policy: str | os.PathLike[str],
    *,
    time_budget: timedelta | None = None,
    yes: bool = False,
    raises: bool = False,
    state: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> Maintenance:
    """Do what is due for one table by a policy file of `deltacli fleet`, at the end of a job.

    The policy is that of the first group that includes the table. No step is started after `time_budget`, nor one that
    is expected to end later. `yes` allows steps that delete, where their policy has consent. `state` is the directory
    of the journal (default: that of the policy file), which `fleet run` may share: a table that another run works on is
    left to it. The job does not fail: an error is part of the result, unless `raises` is set.

    Raises UsageError for a session that cannot be used, and with `raises` whatever a run raises.
    """
    require_session(spark)
    try:
        return Maintenance(_maintained(spark, path, policy, time_budget, yes, state, storage_options, now), None)
    except DeltacliError as fault:
        if raises:
            raise
        return Maintenance(None, fault)


def _maintained(
    spark: SparkSession,
    path: str | os.PathLike[str],
    policy: str | os.PathLike[str],
    time_budget: timedelta | None,
    yes: bool,
    state: str | os.PathLike[str] | None,
    storage_options: Mapping[str, str] | None,
    now: datetime | None,
) -> FleetReport:
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.policy_file.requests import FleetRunRequest
    from deltacli.fleet.running.run import FleetSession
    from deltacli.fleet.running.steps import FleetCluster

    file = require_fleet_file(require_path_text(policy, "the policy file"))
    clock = _clock(now)
    engine = engine_of(spark)
    table = open_table(path, storage_options=storage_options)
    name = str(path) if "://" in str(path) else str(Path(path).absolute())

    def opened(of: str) -> Table:
        return open_table(of, storage_options=storage_options, engine=engine, clock=clock)

    session = FleetSession(
        _only(file, _group_of(file, name, table), name),
        partial(open_storage, options=storage_options),
        opened,
        engine,
        clock,
        FleetRunRequest(
            state=None if state is None else require_path_text(state, "state"),
            jobs=1,
            time_budget_ms=None if time_budget is None else time_budget // timedelta(milliseconds=1),
            yes=yes,
        ),
        FleetCluster(engine, lambda of: opened(of).stores, lambda _: True, clock, 1),
        is_part=True,
    )
    return session.run()


def _group_of(file: FleetFile, name: str, table: Table) -> Group:
    """Return the first group of a policy file that includes a table. Raises UsageError where none does."""
    from deltacli.fleet.planning.discovery import exclusion, identity_of

    names = {name, table.uri, identity_of(table.storage, "")}
    for group in file.groups:
        excluded = exclusion(group.exclude)
        if excluded is not None and any(map(excluded.fullmatch, names)):
            continue
        if names & {_plain(entry.text) for entry in group.tables}:
            return group
        included = exclusion((*group.globs, *group.prefixes))
        if included is not None and any(map(included.fullmatch, names)):
            return group
    raise UsageError(
        f"no group of {file.path} includes {mask_secrets(name)}",
        code="fleet.group",
        facts={"groups": ", ".join(group.name for group in file.groups)},
        hint=command("fleet check", file.path),
    )


def _plain(text: str) -> str:
    return text if "://" in text else str(Path(text).absolute())


def _only(file: FleetFile, group: Group, name: str) -> FleetFile:
    """Return a policy file whose only group has only one table."""
    from deltacli.fleet.policy_file.model import Entry

    one = replace(group, globs=(), prefixes=(), exclude=(), tables=(Entry(name, group.line),))
    return replace(file, groups=(one,))


def _clock(now: datetime | None) -> Clock:
    return system_clock if now is None else fixed_clock(require_timestamp_ms(now, "now"))


def register_tables(
    spark: SparkSession,
    tables: Mapping[str, str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Make the newest versions of tables known to the session as temporary views: a name and a path or URI each.

    A view stays at its version until it is registered again. Raises what `read_table` raises.
    """
    frames = {name: read_table(spark, path, storage_options=storage_options) for name, path in tables.items()}
    for name, frame in frames.items():  # all or none: an error comes before the first view
        frame.createOrReplaceTempView(name)


class LineProgress:
    """Writes the innermost step to a stream, and clears the line when the outermost ends. Thread-safe."""

    def __init__(self, stream: TextIO, ticks: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._ticks = stream, ticks
        self._lock = Lock()
        self._steps: list[_LineStep] = []
        self._shown = 0.0
        self._width = 0

    @contextmanager
    def step(self, what: str, *, unit: str, total: int | None = None) -> Iterator[_LineStep]:
        """Start a step; it is shown once it has taken half a second."""
        started = _LineStep(self, what, unit, total)
        with self._lock:
            if not self._steps:
                self._shown = self._ticks()
            self._steps.append(started)
        try:
            yield started
        finally:
            with self._lock:
                self._steps.remove(started)
                if not self._steps:
                    self._write("")

    def update(self) -> None:
        """Show the newest step, if the line is old enough."""
        with self._lock:
            if self._steps and self._ticks() - self._shown >= _SECONDS:
                self._shown = self._ticks()
                self._write(self._steps[-1].text)

    def _write(self, text: str) -> None:
        if text or self._width:
            self._stream.write(f"\r{text.ljust(self._width)}" + ("" if text else "\r"))
            self._stream.flush()
        self._width = len(text)


class _LineStep:
    def __init__(self, progress: LineProgress, what: str, unit: str, total: int | None) -> None:
        self._progress, self._what, self._unit, self._total = progress, what, unit, total
        self._done = 0

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        self._progress.update()

    @property
    def text(self) -> str:
        """Return the step in words: `reading rows: 12 of 40 files (30 %)`."""
        done = format_count(self._done)
        if not self._total:
            return f"{self._what}: {done} {self._unit}"
        share = 100 * self._done // self._total
        return f"{self._what}: {done} of {format_count(self._total)} {self._unit} ({share} %)"
