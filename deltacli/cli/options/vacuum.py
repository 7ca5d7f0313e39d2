"""Options of vacuum: the allowed combinations, and the request made of the planning options."""

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
        help="Age up to which files are kept.  [default: delta.deletedFileRetentionDuration, else 7d]",
        show_default=False,
    ),
]
AllowBelow = Annotated[
    str | None,
    typer.Option(
        "--allow-retention-below",
        metavar="168h",
        help="Allow a shorter retention than the table's; repeat the table's value.",
        show_default=False,
    ),
]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        metavar="full|lite",
        help="Source of candidates: full lists the table, lite reads removed files from commits.  [default: full]",
        show_default=False,
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", metavar="P", help="Delete only below this directory of the table.", show_default=False),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="COND",
        help="Delete only in partitions that match: \"date < '2026-01-01'\".",
        show_default=False,
    ),
]
KeepVersion = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-version",
        metavar="A,B-C,…",
        help="Versions to keep fully readable, whatever their age. Repeatable.",
        show_default=False,
    ),
]
ProtectFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--protect-from",
        metavar="OTHER",
        help="Keep files that another table (a shallow clone) references. Repeatable.",
        show_default=False,
    ),
]
Inventory = Annotated[
    str | None,
    typer.Option(
        "--inventory",
        metavar="FILE",
        help="List of files to use instead of a listing: S3 Inventory (manifest.json), Parquet, CSV.",
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
    bool, typer.Option("--include-foreign", help="Also delete unrecognized files that are older than the retention.")
]
SkipNested = Annotated[
    bool,
    typer.Option("--skip-nested-tables", help="Skip directories that are tables of their own instead of refusing."),
]
NoLogEntries = Annotated[bool, typer.Option("--no-log-entries", help="Do not commit VACUUM START and VACUUM END.")]
Schemas = Annotated[bool, typer.Option("--schemas", help="Delete schema files of a Paimon table that nothing needs.")]
KeepLast = Annotated[
    int | None,
    typer.Option(
        "--keep-last",
        metavar="K",
        min=1,
        help="Keep the last K schemas of a Paimon table, whatever their age.  [default: 10]",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", min=1, help="Number of threads that delete.", show_default=False)
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate", metavar="N/s", help="Maximum files to delete per second, such as 500/s.", show_default=False
    ),
]
Files = Annotated[bool, typer.Option("--files", help="List every file to delete; csv and ndjson always do.")]
SavePlan = Annotated[
    str | None,
    typer.Option(
        "--save-plan", metavar="FILE", help="Write the plan to a Parquet file and delete nothing.", show_default=False
    ),
]
Apply = Annotated[
    str | None,
    typer.Option("--apply", metavar="FILE", help="Execute a saved plan, or resume it.", show_default=False),
]
Explain = Annotated[
    str | None,
    typer.Option(
        "--explain", metavar="PATH", help="Show why one file is kept or deleted; change nothing.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """The planning options as on the command line; None, false and empty mean not given."""

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
        """Return the spellings of the given options, in order."""
        names = (field.name for field in fields(self) if getattr(self, field.name) not in (None, False, ()))
        return [f"--{name.replace('_', '-')}" for name in names]

    def given_for_data(self) -> list[str]:
        """Return the spellings of the given options that apply to data files only."""
        return [option for option in self.given() if option not in ("--retention", "--allow-retention-below")]

    def request(self) -> VacuumRequest:
        """Return the request for a plan. Raises UsageError for invalid values and combinations."""
        from deltacli.operations.vacuum.request import DEFAULT_MAX_DELETE, make_request

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
            max_delete=DEFAULT_MAX_DELETE.text if self.max_delete is None else self.max_delete,
            include_foreign=self.include_foreign,
            skip_nested_tables=self.skip_nested_tables,
        )


def require_one_errand(options: PlanningOptions, *, save: str | None, apply: str | None, explain: str | None) -> None:
    """Raise UsageError for options that exclude each other."""
    errands = {"--save-plan": save, "--apply": apply, "--explain": explain}
    asked = [name for name, value in errands.items() if value is not None]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other")
    for name in asked:
        if not errands[name]:
            raise UsageError(f"{name} is empty")
    if apply is not None and (given := options.given()):
        raise UsageError(
            f"--apply executes a saved plan and takes no options for planning: {', '.join(given)}",
            facts={"instead": "make another plan with these options and --save-plan FILE"},
        )


def parse_rate(text: str) -> float:
    """Return a rate such as `500/s` in files per second. Raises UsageError."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"--rate {text} is not a rate", facts={"expected": "files per second, such as 500/s or 0.5/s"})
    return float(found[1])
