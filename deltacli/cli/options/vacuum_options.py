"""The options of `vacuum` that are not of its request."""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.cli.options.common_options import BranchOption, DryRunOption, YesOption
from deltacli.core.request_fields import OF_DELTA, OF_PAIMON, Kind, option


@dataclass(frozen=True, eq=False, repr=False)
class VacuumOptions:
    """What the command does with the plan; of Paimon tables, which schemas it deletes."""

    files: bool = option("List every file to delete; csv and ndjson always do.", default=False)
    save_plan: str | None = option(
        "Write the plan to a Parquet file and delete nothing.", "FILE", table_format=OF_DELTA
    )
    apply: str | None = option("Execute a saved plan, or resume it.", "FILE", table_format=OF_DELTA)
    accept_copy: bool = option(
        "With --apply, accept the plan of a table elsewhere of which this one is a copy with the same past.",
        default=False,
        table_format=OF_DELTA,
    )
    explain: str | None = option("Show why one file is kept or deleted; change nothing.", "PATH", table_format=OF_DELTA)
    purge_older_ms: int | None = option(
        "Only empty the quarantine of this table: delete copies older than this, such as 30d, no file of the table.",
        "DURATION",
        Kind.DURATION,
        table_format=OF_DELTA,
    )
    schemas: bool = option(
        "Delete schema files of a Paimon table that nothing needs.", default=False, table_format=OF_PAIMON
    )
    keep_last: int | None = option(
        "Keep the last K schemas of a Paimon table, whatever their age.  [default: 10]",
        "K",
        Kind.COUNT,
        table_format=OF_PAIMON,
    )
    branch: BranchOption = None
    dry_run: DryRunOption = False
    yes: YesOption = False
