"""The sections of a command's help, and which option is shown in which."""

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


_OPTIONS: Mapping[OptionHeading, str] = {
    OptionHeading.SELECTION: """
        --version --timestamp --from --to --rows --key --where --actions --checkpoint --retention --mode --prefix
        --client --if --target-size --min-size --min-files --zorder --cluster --purge --purge-ratio --max-bytes
        --branch --schema-id --snapshot-id --tag --schemas
        --inventory --include-foreign --level --sample --select --ignore --profile --baseline --list-rules --verify
        --comment --default --position --nullable --not-null --keep-nullability --with-options --drop --none
        --apply --undo --explain --full -c --grant --all --refs --no-refs --max-tables --only --resume
    """,
    OptionHeading.EXECUTION: """
        --engine --master --remote --spark-conf --layout --parts --rows-per-file --v2-top --stats --if-behind --threads
        --rate --no-log-entries --commit-metadata --enable --upgrade-protocol --max-requests --time-budget --pause
        --truncate-history --expires --overlap
        --state --jobs --temp-dir --prices --no-listing
        --host --port --admin-port --workers --behind-proxy
    """,
    OptionHeading.OUTPUT: """
        --columns --limit --count --as --counts --ddl --pretty
        --files --tombstones --schema --mapping --digest --brief --group --max-findings
        --fail-on --exit-zero --exit-code --write-baseline --trend --save-plan --save-plans --details --metrics --html
        --pages --write-pages --serve-metrics
        --format --json --output
    """,
    OptionHeading.SAFETY: """
        --dry-run --yes --check --check-files --force --replace --allow-retention-below --max-delete --keep-version
        --protect-from --skip-nested-tables --keep-last --quarantine --purge-older --trust-listing --steal-leases
        --allow-removals --allow-remote --accept-commits --accept-copy --accept-loss --allow-lossy --allow-in-use
        --max-missing
    """,
    OptionHeading.GLOBAL: """
        --now --storage-option --retry-budget --allow-external --table-format --config --color --progress --log-format
        --no-pager --quiet --verbose --help -V
    """,
}
"""OptionHeading -> its options, mostly by their long names; -V is the --version of the program."""

_SECTION_OF = {option: section for section, options in _OPTIONS.items() for option in options.split()}


def section_of(spellings: Iterable[str], text: str) -> OptionHeading | None:
    """Return the section of an option, None where it has none. By its help `text`, one that writes a file is output,
    also where another command reads a file by the same name.
    """
    if text.startswith("Write the ") and " file" in text:
        return OptionHeading.OUTPUT
    return next((_SECTION_OF[name] for name in spellings if name in _SECTION_OF), None)
