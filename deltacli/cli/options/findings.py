"""Options of commands that check something by rules: `validate` and `share test`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.options.values import make_choice_parser, parse_whole_number
from deltacli.core.errors import UsageError
from deltacli.rules.framework.base import Severity

DEFAULT_MAX_FINDINGS = 100


class LevelChoice(StrEnum):
    """The parts of a table that are checked. Each level includes those before it."""

    LOG = "log"
    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"


SelectOption = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="A,B,…", help="Check only these rules: globs over rule ids. Repeatable."),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="A,B,…", help="Skip these rules: globs over rule ids. Repeatable."),
]
FailOnOption = Annotated[
    Severity,
    typer.Option(
        "--fail-on",
        metavar="error|warning|info",
        parser=make_choice_parser(Severity),
        help="Lowest severity for exit code 1.  [default: error]",
    ),
]
BaselineOption = Annotated[
    str | None, typer.Option("--baseline", metavar="FILE", help="Accept the findings listed in this file.")
]
WriteBaselineOption = Annotated[
    str | None,
    typer.Option(
        "--write-baseline",
        metavar="FILE",
        help="Write the current findings to a file for --baseline, and exit 0.",
    ),
]
MaxFindingsOption = Annotated[
    int,
    typer.Option(
        "--max-findings",
        metavar="N",
        parser=parse_whole_number,
        help=f"Findings shown per rule and table; 0 shows all.  [default: {DEFAULT_MAX_FINDINGS}]",
    ),
]
ExitZeroOption = Annotated[bool, typer.Option("--exit-zero", help="Exit 0 even if there are findings.")]
BriefOption = Annotated[
    bool, typer.Option("--brief", help="Show findings without values and fixes; one per line in a pipe.")
]


def require_max_findings(max_findings: int) -> None:
    """Require that `--max-findings` is not negative. 0 shows all findings. Raises UsageError."""
    if max_findings < 0:
        raise UsageError(f"--max-findings {max_findings} is negative", facts={"expected": "0 (all) or more"})
