"""Options of commands that check something against rules: which rules, which findings count, what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from deltacli.errors import UsageError

DEFAULT_MOST = 100


class FailOn(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="A,B,…", help="Check only these rules: globs over rule ids. Repeatable.", show_default=False
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="A,B,…", help="Skip these rules: globs over rule ids. Repeatable.", show_default=False
    ),
]
FailOnOption = Annotated[
    FailOn, typer.Option("--fail-on", metavar="error|warning|info", help="Lowest severity that causes exit code 1.")
]
BaselineOption = Annotated[
    str | None,
    typer.Option("--baseline", metavar="FILE", help="Accept the findings listed in this file.", show_default=False),
]
WriteBaselineOption = Annotated[
    str | None,
    typer.Option(
        "--write-baseline",
        metavar="FILE",
        help="Write the current findings to a file for --baseline, and exit 0.",
        show_default=False,
    ),
]
MaxFindingsOption = Annotated[
    int, typer.Option("--max-findings", metavar="N", help="Findings shown per rule and table; 0 shows all.")
]
ExitZeroOption = Annotated[bool, typer.Option("--exit-zero", help="Exit 0 even if there are findings.")]
BriefOption = Annotated[bool, typer.Option("--brief", help="Show one line per finding, without values and fixes.")]
ListRulesOption = Annotated[bool, typer.Option("--list-rules", help="List the rules instead; takes no TABLE.")]


def most_findings(findings: int) -> int:
    """Return the limit of shown findings. Raises UsageError for a negative one."""
    if findings < 0:
        raise UsageError(f"--max-findings {findings} is negative", facts={"expected": "0 (all) or more"})
    return findings


def split_patterns(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return the globs of a repeatable option whose values are separated by commas."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
