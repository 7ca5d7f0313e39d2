"""Times on the command line: `--timestamp`, `--now`, `--from` and `--to` accept the same texts."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.cli.terminal.shell import again_with
from deltacli.errors import UsageError
from deltacli.units import corrected_timestamp, parse_timestamp


def parse_moment(option: str, text: str, arguments: Sequence[str]) -> int:
    """Return the value of an option as epoch milliseconds.

    Raises UsageError, which names the option; where the text is one step away from a time, the hint is the same command
    line with the corrected value.
    """
    try:
        return parse_timestamp(text)
    except UsageError as fault:
        corrected = corrected_timestamp(text)
        raise UsageError(
            f"{option}: {fault.message}",
            code=fault.code,
            facts=fault.facts,
            hint=None if corrected is None else again_with(arguments, option, corrected),
        ) from None
