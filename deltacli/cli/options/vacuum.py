"""The options of a vacuum: what may be said together, and the request that those for planning come to."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.options.chosen_version import parse_versions
from deltacli.errors import UsageError
from deltacli.operations.vacuum.plan import Mode
from deltacli.units import parse_duration

if TYPE_CHECKING:
    from deltacli.operations.vacuum.request import VacuumRequest

_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/s")


Retention = Annotated[
    str | None,
    typer.Option(
        "--retention",
        metavar="7d",
        help="Keep files of this age.  [default: delta.deletedFileRetentionDuration, else 7d]",
        show_default=False,
    ),
]
AllowBelow = Annotated[
    str | None,
    typer.Option(
        "--allow-retention-below",
        metavar="168h",
        help="Names the table's own retention, to keep less than that.",
        show_default=False,
    ),
]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        metavar="full|lite",
        help="full lists the table; lite takes what commits removed.  [default: full]",
        show_default=False,
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", metavar="P", help="Only below this directory of the table.", show_default=False),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="COND",
        help="Only in partitions of which this is true: \"date < '2026-01-01'\".",
        show_default=False,
    ),
]
KeepVersion = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-version",
        metavar="A,B-C,…",
        help="Versions that must stay whole, whatever their age. Repeatable.",
        show_default=False,
    ),
]
ProtectFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--protect-from",
        metavar="OTHER",
        help="Keep what another table (a shallow clone) needs of this one. Repeatable.",
        show_default=False,
    ),
]
Inventory = Annotated[
    str | None,
    typer.Option(
        "--inventory",
        metavar="FILE",
        help="Take the list of files from here: S3 Inventory (manifest.json), Parquet, CSV.",
        show_default=False,
    ),
]
MaxDelete = Annotated[
    str | None,
    typer.Option(
        "--max-delete",
        metavar="20%|10GiB",
        help="Refuse to delete more than this share of the table, or more bytes.  [default: 50%]",
        show_default=False,
    ),
]
IncludeForeign = Annotated[
    bool, typer.Option("--include-foreign", help="Delete files of unknown kinds, too, once they are old enough.")
]
SkipNested = Annotated[
    bool, typer.Option("--skip-nested-tables", help="Go on where directories hold tables of their own.")
]
NoLogEntries = Annotated[bool, typer.Option("--no-log-entries", help="Commit neither VACUUM START nor VACUUM END.")]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", min=1, help="Delete with so many threads.", show_default=False)
]
Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="N/s", help="Delete at most so many files a second: 500/s.", show_default=False),
]
Files = Annotated[bool, typer.Option("--files", help="List every file that goes; csv and ndjson do so anyway.")]
SavePlan = Annotated[
    str | None,
    typer.Option("--save-plan", metavar="FILE", help="Only plan, and write the plan as Parquet.", show_default=False),
]
Apply = Annotated[
    str | None,
    typer.Option("--apply", metavar="FILE", help="Execute a saved plan, or go on with it.", show_default=False),
]
Explain = Annotated[
    str | None,
    typer.Option(
        "--explain", metavar="PATH", help="Say why one file is kept or goes; change nothing.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """What of a plan was asked for, as on the command line; None, false and empty: not given."""

    retention: str | None = None
    allow_retention_below: str | None = None
    mode: Mode | None = None
    prefix: str | None = None
    where: str | None = None
    keep_version: tuple[str, ...] = ()
    protect_from: tuple[str, ...] = ()
    inventory: str | None = None
    max_delete: str | None = None
    include_foreign: bool = False
    skip_nested_tables: bool = False

    def given(self) -> list[str]:
        """The spellings of the options that were given, in order."""
        names = (field.name for field in fields(self) if getattr(self, field.name) not in (None, False, ()))
        return [f"--{name.replace('_', '-')}" for name in names]

    def request(self) -> VacuumRequest:
        """What is to be planned. Raises UsageError for values that are none, and for what contradicts itself."""
        from deltacli.operations.vacuum.request import DEFAULT_LIMIT, make_request

        texts = [("--where", self.where), ("--inventory", self.inventory)]
        for option, value in [*texts, *(("--protect-from", uri) for uri in self.protect_from)]:
            if value is not None and not value.strip():
                raise UsageError(f"{option} is empty")
        below = self.allow_retention_below
        return make_request(
            retention_ms=None if self.retention is None else parse_duration(self.retention, "--retention"),
            allowed_below_ms=None if below is None else parse_duration(below, "--allow-retention-below"),
            mode=self.mode or Mode.FULL,
            prefix=self.prefix,
            where=self.where,
            keep_versions=parse_versions(",".join(self.keep_version), "--keep-version") if self.keep_version else (),
            protect_from=self.protect_from,
            inventory=self.inventory,
            max_delete=DEFAULT_LIMIT.text if self.max_delete is None else self.max_delete,
            include_foreign=self.include_foreign,
            skip_nested_tables=self.skip_nested_tables,
        )


def require_one_errand(options: PlanningOptions, *, save: str | None, apply: str | None, explain: str | None) -> None:
    """Raise UsageError where a command line asks for two different things."""
    errands = {"--save-plan": save, "--apply": apply, "--explain": explain}
    asked = [name for name, value in errands.items() if value is not None]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other")
    for name in asked:
        if not errands[name]:
            raise UsageError(f"{name} is an empty name")
    if apply is not None and (given := options.given()):
        raise UsageError(
            f"--apply executes a plan as it was made, so it takes no option for planning: {', '.join(given)}",
            facts={"instead": "make another plan: --save-plan FILE, with these options"},
        )


def parse_rate(text: str) -> float:
    """Return files a second: `500/s`. Raises UsageError."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"--rate {text} is no rate", facts={"expected": "files a second, as in 500/s or 0.5/s"})
    return float(found[1])
