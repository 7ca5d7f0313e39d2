"""Opening the schema of a table at a point that the user named, for tables of either format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.options.chosen_version import parse_moment_of
from deltacli.cli.options.common_options import (
    BranchOption,
    SchemaIdOption,
    SnapshotIdOption,
    TagOption,
    TimestampOption,
    VersionOption,
)
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import Answer, Handle, ask, require_one_point
from deltacli.cli.terminal.shell import again_with
from deltacli.errors import NotATable, UsageError
from deltacli.request_fields import OF_DELTA, OF_PAIMON

if TYPE_CHECKING:
    from deltacli.operations.schemas.described import DescribedSchema

KINDS = ("version", "schema", "snapshot", "tag", "branch")


@dataclass(frozen=True)
class SchemaPoint:
    """A point whose schema is shown, compared or converted; None means not named. `is_text`: it was given in one word,
    such as `schema:3`.
    """

    version: VersionOption = None
    timestamp: TimestampOption = None
    schema_id: SchemaIdOption = None
    snapshot_id: SnapshotIdOption = None
    tag: TagOption = None
    branch: BranchOption = None
    is_text: bool = False

    def open(self, run: Run, table: str, use: Callable[[Handle], Answer]) -> Answer:
        """Return what `use` makes of the table. Raises UsageError for points that exclude each other or of another
        format.
        """
        parse_moment_of(self.version, self.timestamp)
        require_one_point(self.schema_id, self.snapshot_id, self.tag)
        kinds = {"version:": self.version, "schema:": self.schema_id, "snapshot:": self.snapshot_id, "tag:": self.tag}
        named = {kind: value for kind, value in {**kinds, "branch:": self.branch}.items() if value is not None}
        given = {kind: OF_DELTA if kind == "version:" else OF_PAIMON for kind in named} if self.is_text else None
        return ask(run, table, use, given=given)

    def describe(self, run: Run, table: str) -> DescribedSchema:
        """Return the schema at the point, or that in a file, in the columns of Paimon."""
        try:
            return self.open(run, table, lambda opened: opened.described(**vars(self)))
        except NotATable as fault:
            if fault.code != "table.path-is-file":
                raise
            return self._of_file(run, table)

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
        if kind not in KINDS or not colon or not value or kind in found:
            raise _no_point(option, text)
        found[kind] = value
    numbers = {kind: _number(found[kind], option, text) for kind in KINDS[:3] if kind in found}
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
        hint=again_with(invocation.arguments, option, f"version:{text}") if text.isdecimal() else None,
    )
