"""Baselines: files with findings that are accepted, read by `--baseline` and written by `--write-baseline`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import open_destination, require_file_outside_tables
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with
from deltacli.core.errors import UsageError, nearest_name, quote_table
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport
    from deltacli.rules.framework.base import Finding
    from deltacli.rules.framework.baseline import Baseline

_MIN_SIMILARITY = 0.8
"""How similar a file name has to be to a misspelled one, from 0 to 1, to be suggested."""


def write_or_check_baseline(
    run: CommandContext,
    report: ValidationReport,
    findings: Sequence[tuple[str, Finding]],
    new_baseline: str | None,
    old_baseline: str | None,
) -> None:
    """Write the baseline of `--write-baseline`, or note that the baseline of `--baseline` is out of date.

    Args:
        run: The run of the command.
        report: The result of the check. If a table could not be checked, no baseline is written: its findings would be
            missing.
        findings: The findings to accept, each with the name of its table in the baseline.
        new_baseline: The file of `--write-baseline`.
        old_baseline: The file of `--baseline`.
    """
    from deltacli.rules.framework.baseline import write_baseline

    if new_baseline is not None and report.failures:
        run.note(f"note: {new_baseline} was not written: not every table could be checked")
    elif new_baseline is not None:
        with open_destination(new_baseline) as sink:
            sink.write(write_baseline(findings))
        run.note(f"note: {plural(len(findings), 'finding')} written; accept with --baseline {new_baseline}")
    elif report.stale:
        update = repeat_command_with(invocation.arguments, "--write-baseline", old_baseline or "")
        run.note(f"note: {plural(report.stale, 'accepted finding')} no longer found; to update the baseline: {update}")


def require_baseline_target(name: str) -> None:
    """Require that `--write-baseline` names a file that may be written.

    Raises:
        UsageError: If the file is inside a table, or exists and is not a baseline.
    """
    from deltacli.rules.framework.baseline import is_baseline, suggest_baseline_name

    require_file_outside_tables(name, "--write-baseline")
    if not os.path.isfile(name) or os.path.getsize(name) == 0:
        return
    with open(name, "rb") as file:
        if not is_baseline(file.read()):
            raise UsageError(
                f"--write-baseline {name} would replace a file that is not a baseline",
                code="usage.baseline",
                hint=repeat_command_with(invocation.arguments, "--write-baseline", suggest_baseline_name(name)),
            )


def read_baseline_file(name: str) -> Baseline:
    """Read the accepted findings from a file.

    Raises:
        UsageError: If the file cannot be read, or is not a baseline.
    """
    from deltacli.rules.framework.baseline import read_baseline

    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(
            f"the baseline {name} cannot be read: {(error.strerror or str(error)).lower()}",
            code="usage.baseline",
            facts={"to accept all findings": _build_write_command(name, invocation.arguments)},
            hint=_suggest_file(name, invocation.arguments),
        ) from error
    return read_baseline(data, name)


def _suggest_file(name: str, arguments: Sequence[str]) -> str:
    """Return the command line with a file of a similar name; a listing of the directory if there is none."""
    directory, file_name = os.path.split(name)
    try:
        other_names = [entry for entry in os.listdir(directory or ".") if entry != file_name]
    except OSError:
        return f"ls {quote_table('.')}"
    similar_name = nearest_name(file_name, other_names, cutoff=_MIN_SIMILARITY)
    if similar_name is None:
        return f"ls {quote_table(directory or '.')}"

    suggested_file = os.path.join(directory, similar_name)
    words = [word.replace(name, suggested_file) if word in (name, f"--baseline={name}") else word for word in arguments]
    return repeat_command(words)


def _build_write_command(name: str, arguments: Sequence[str]) -> str:
    """Return the command line that writes the baseline which the current one reads.

    `--baseline` becomes `--write-baseline`. If the command line contains both options, `--baseline` is removed.
    """
    if not any(word.startswith("--write-baseline") for word in arguments):
        words = [word.replace("--", "--write-", 1) if word.startswith("--baseline") else word for word in arguments]
        return repeat_command(words)

    words = []
    for previous_word, word in pairwise(["", *arguments]):
        is_option = word in ("--baseline", f"--baseline={name}")
        is_value = previous_word == "--baseline"
        if not is_option and not is_value:
            words.append(word)
    return repeat_command(words)
