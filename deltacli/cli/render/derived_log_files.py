"""The results of `log crc` and `log compact`, which write log files that are derived from commits.

`log crc` writes or compares the checksum file of a version, `N.crc`. `log compact` combines consecutive commits in one
file, `X.Y.compacted.json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.output.columns import make_item_columns
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section
from deltacli.core.documents import dumps
from deltacli.core.units import format_count, format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.log.crc_and_compact import ChecksumReport, Compaction

_MAX_VALUE_LENGTH = 60
"""The number of characters of a field's JSON text that people see. A field can contain the whole schema."""

_CHECKSUM_COLUMNS = make_item_columns(("version", "path", "status", "differences"))
"""The columns of a checksum file. Each one is a field of the JSON document."""

_COMPACTION_COLUMNS = make_item_columns(("path", "sizeBytes"))
"""The columns of a log compaction. Each one is a field of the JSON document."""


def make_checksum_result(uri: str, report: ChecksumReport) -> SingleResult:
    """Return a checksum file that was written or compared with the log as the result of `log crc`."""
    content = report.as_json()
    return SingleResult(
        "log-crc", uri, content, lambda: _make_checksum_sections(uri, report), [content], _CHECKSUM_COLUMNS
    )


def _make_checksum_sections(uri: str, report: ChecksumReport) -> list[Section]:
    descriptions = {"missing": "would be written", "agrees": "exists and matches the log"}
    status = descriptions.get(report.status, report.status.value)
    differences = [
        f"{field} is {_shorten_json(file_value)}, expected from the log: {_shorten_json(log_value)}"
        for field, file_value, log_value in report.differences
    ]
    return [
        Section("table", [uri]),
        Section("version", [str(report.version)]),
        Section("checksum", [f"{report.path} {status}"]),
        Section("differences", differences),
        Section("fields", [", ".join(report.fields)]),
    ]


def _shorten_json(value: object) -> str:
    return dumps(value).decode()[:_MAX_VALUE_LENGTH]


def make_compaction_result(uri: str, compaction: Compaction) -> SingleResult:
    """Return a log compaction that was written, or would be, as the result of `log compact`."""
    content = compaction.as_json()
    return SingleResult(
        "log-compact", uri, content, lambda: _make_compaction_sections(uri, compaction), [content], _COMPACTION_COLUMNS
    )


def _make_compaction_sections(uri: str, compaction: Compaction) -> list[Section]:
    commits = plural(compaction.last - compaction.first + 1, "commit")
    action_counts = [f"{format_count(count)} {kind}" for kind, count in sorted(compaction.actions.items())]
    return [
        Section("table", [uri]),
        Section("compaction", [f"{compaction.path}, {_describe_compaction_status(compaction)}"]),
        Section("stands for", [f"{commits}, {format_size(compaction.commit_bytes)}"]),
        Section("size", [format_size(compaction.size_bytes)]),
        Section("actions", [", ".join(action_counts)]),
    ]


def _describe_compaction_status(compaction: Compaction) -> str:
    if compaction.dry_run:
        return "would be written"
    # An existing compaction is never replaced, so `skipped` means that the file was there already.
    return "already exists" if compaction.skipped else "written"
