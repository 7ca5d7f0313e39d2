"""The sections of a command's help: below which heading an option stands, and which options are common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


class OptionHeading(StrEnum):
    """The headings above options, in the order of the help."""

    SELECTION = "Selection"
    EXECUTION = "Execution"
    OUTPUT = "Output"
    SAFETY = "Safety"
    GLOBAL = "Global"


OPTIONS_BY_HEADING: Mapping[OptionHeading, str] = {
    OptionHeading.SELECTION: """
        --version --versions --newest --timestamp --from --to --rows --key --where --actions --checkpoint --retention
        --mode --prefix --client --if --target-size --min-size --min-files --zorder --cluster --purge --purge-ratio
        --max-bytes --partition --like --exclude --missing --checkpoints --tables --restart-point
        --branch --schema-id --snapshot-id --tag --schemas
        --inventory --include-foreign --level --sample --select --ignore --profile --baseline --list-rules --verify
        --comment --default --position --nullable --not-null --keep-nullability --with-options --drop --none
        --apply --undo --explain --full -c --grant --all --refs --no-refs --max-tables --only --resume
        --profile-of --time-zone --partition-value
    """,
    OptionHeading.EXECUTION: """
        --engine --master --remote --spark-conf --layout --parts --rows-per-file --v2-top --stats --if-behind --threads
        --rate --no-log-entries --commit-metadata --enable --upgrade-protocol --max-requests --time-budget --pause
        --no-credentials --probe-scope
        --truncate-history --replica --deep --expires --overlap
        --state --jobs --read --temp-dir --prices --no-listing --from-checksum
        --host --port --admin-port --workers --behind-proxy
    """,
    OptionHeading.OUTPUT: """
        --columns --row-ids --limit --count --as --counts --ddl --pretty
        --files --tombstones --schema --mapping --digest --brief --group --max-findings
        --fail-on --exit-zero --exit-code --write-baseline --trend --save-plan --save-plans --details --metrics --html
        --pages --write-pages --serve-metrics
        --format --json --template --output
    """,
    OptionHeading.SAFETY: """
        --dry-run --yes --check --check-files --force --replace --allow-retention-below --max-delete --keep-version
        --protect-from --skip-nested-tables --keep-last --quarantine --purge-older --trust-listing --steal-leases
        --allow-removals --allow-remote --accept-commits --accept-copy --accept-loss --accept-empty-commits
        --allow-lossy --allow-in-use
        --max-missing --unprotected --keep-external --accept-unknowable --protect-streams --ignore-streams-older
        --allow-stream-loss --min-paimon
    """,
    OptionHeading.GLOBAL: """
        -C --now --storage-option --retry-budget --allow-external --table-format --access --config --profile-name
        --catalog-profile --color --progress --log-format --no-pager --quiet --verbose --help -V
    """,
}
"""OptionHeading -> its options, mostly by their long names; -V is the --version of the program."""

COMMON_OPTIONS = frozenset(
    {
        *(
            "--version",
            "--timestamp",
            "--from",
            "--to",
            "--columns",
            "--limit",
            "--select",
            "--level",
            "--retention",
            "--check",
        ),
        *("--dry-run", "--yes", "--max-delete", "--format", "--json", "--config", "-C", "-q", "-v", "-V", "--help"),
    }
)
"""Options that are common for every command that has them; others are where an example of the command uses them."""

FIRST_OPTIONS = [
    "--version",
    "--timestamp",
    "--from",
    "--to",
    "--retention",
    "--level",
    "--select",
    "--where",
    "--dry-run",
    "--check",
    "--yes",
]
LAST_OPTIONS = ["--schemas", "--branch"]
"""Common options that are shown before, and behind, the others."""

_SECTION_OF = {option: section for section, options in OPTIONS_BY_HEADING.items() for option in options.split()}


def section_of(spellings: Iterable[str], text: str) -> OptionHeading | None:
    """Return the section of an option, None where it has none. By its help `text`, one that writes a file is output,
    also where another command reads a file by the same name, and one that takes something from a file is selection.
    """
    if text.startswith("Write the ") and " file" in text:
        return OptionHeading.OUTPUT
    if text.startswith("Take the ") and " file" in text:
        return OptionHeading.SELECTION
    return next((_SECTION_OF[name] for name in spellings if name in _SECTION_OF), None)
