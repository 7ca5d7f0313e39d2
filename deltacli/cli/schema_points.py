"""Opening the schema of a table at a point that the user named, for tables of either format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from deltacli.cli.options.chosen_version import note_findings, parse_moment_of
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import given, on_its_format
from deltacli.errors import NotATable, UsageError

if TYPE_CHECKING:
    from deltacli.operations.paimon.snapshot import PaimonSnapshot
    from deltacli.operations.schemas.described import DescribedSchema
    from deltacli.operations.table.version import Snapshot
    from deltacli.storage import Storage

_KINDS = ("version", "schema", "snapshot", "tag", "branch")


class SchemaPoint(NamedTuple):
    """A point of a table; None means not named. `version` and `timestamp` are of Delta, the others of Paimon."""

    version: int | None = None
    timestamp: str | None = None
    schema_id: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    branch: str | None = None
    is_text: bool = False
    """The point was given in one word, such as `schema:3`."""

    def open(self, run: Run, table: str) -> Snapshot | PaimonSnapshot:
        """Return the table at the point. Raises UsageError for points that exclude each other or of another format."""
        at_ms = parse_moment_of(self.version, self.timestamp)
        if sum(one is not None for one in (self.schema_id, self.snapshot_id, self.tag)) > 1:
            raise UsageError("--schema-id, --snapshot-id and --tag exclude each other")

        def of_delta(storage: Storage) -> Snapshot | PaimonSnapshot:
            found = run.table_of(storage).snapshot(version=self.version, timestamp_ms=at_ms)
            note_findings(run, found, at_ms)
            return found

        def of_paimon(storage: Storage) -> Snapshot | PaimonSnapshot:
            from deltacli.operations.paimon.snapshot import Point, read_paimon_snapshot

            point = Point(self.branch or "main", self.schema_id, self.snapshot_id, self.tag)
            return read_paimon_snapshot(storage, run.engine, point)

        return on_its_format(
            run,
            table,
            delta=of_delta,
            paimon=of_paimon,
            of_delta=self._given("version", "timestamp"),
            of_paimon=self._given("schema_id", "snapshot_id", "tag", "branch"),
        )

    def _given(self, *names: str) -> Mapping[str, bool]:
        """Return which parts were given, spelled as on the command line."""
        found = {name: getattr(self, name) for name in names}
        if self.is_text:
            return {f"{name.removesuffix('_id')}:": value is not None for name, value in found.items()}
        return given(**found)

    def describe(self, run: Run, table: str) -> DescribedSchema:
        """Return the schema at the point, or that in a file, in the columns of Paimon."""
        from deltacli.operations.paimon.snapshot import PaimonSnapshot
        from deltacli.operations.schemas.described import describe_delta, describe_paimon

        try:
            found = self.open(run, table)
        except NotATable as fault:
            if fault.code != "table.path-is-file":
                raise
            return self._of_file(run, table)
        return describe_paimon(found) if isinstance(found, PaimonSnapshot) else describe_delta(found)

    def _of_file(self, run: Run, path: str) -> DescribedSchema:
        from deltacli.operations.schemas.described import describe_file

        if self != SchemaPoint():
            raise UsageError(f"{path} is a file, which has no versions", code="usage.point")
        directory, slash, name = path.rpartition("/")
        return describe_file(run.open_other((directory or slash) if slash else "."), name)


def parse_point(text: str | None, option: str) -> SchemaPoint:
    """Return the point in `version:3`, `schema:3`, `snapshot:7`, `tag:T`, `branch:B`, or `branch:B,schema:3`.

    Raises UsageError.
    """
    if text is None:
        return SchemaPoint()
    found: dict[str, str] = {}
    for part in text.split(","):
        kind, colon, value = part.strip().partition(":")
        if kind not in _KINDS or not colon or not value or kind in found:
            raise _no_point(option, text)
        found[kind] = value
    numbers = {kind: _number(found[kind], option, text) for kind in _KINDS[:3] if kind in found}
    return SchemaPoint(
        numbers.get("version"),
        None,
        numbers.get("schema"),
        numbers.get("snapshot"),
        found.get("tag"),
        found.get("branch"),
        is_text=True,
    )


def _number(value: str, option: str, text: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) < 1 << 63):
        raise _no_point(option, text)
    return int(value)


def _no_point(option: str, text: str) -> UsageError:
    return UsageError(
        f"{option} {text!r} is not a point of a table",
        code="usage.point",
        facts={"expected": "version:N of a Delta table; schema:N, snapshot:N, tag:T or branch:B of a Paimon table"},
    )
