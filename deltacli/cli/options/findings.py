"""Options of commands that check something against rules: which rules, which findings count, what is shown."""

from __future__ import annotations

from deltacli.errors import UsageError
from deltacli.request_fields import Kind, Option

DEFAULT_MOST = 100

SELECT = Option("Check only these rules: globs over rule ids. Repeatable.", "A,B,…", Kind.PATTERNS)
IGNORE = Option("Skip these rules: globs over rule ids. Repeatable.", "A,B,…", Kind.PATTERNS)
FAIL_ON = Option("Lowest severity that causes exit code 1.", "error|warning|info", shows_default=True)
BASELINE = Option("Accept the findings listed in this file.", "FILE")
WRITE_BASELINE = Option("Write the current findings to a file for --baseline, and exit 0.", "FILE")
MAX_FINDINGS = Option("Findings shown per rule and table; 0 shows all.", "N", shows_default=True)
EXIT_ZERO = Option("Exit 0 even if there are findings.")
BRIEF = Option("Show one line per finding, without values and fixes.")


def require_limit(findings: int) -> None:
    """Raise UsageError for a negative limit of shown findings."""
    if findings < 0:
        raise UsageError(f"--max-findings {findings} is negative", facts={"expected": "0 (all) or more"})
