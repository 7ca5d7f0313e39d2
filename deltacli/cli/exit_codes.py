"""The exit codes of a command, as its help lists them.

The codes and what they mean in general stand in `core/errors.py`. A command declares which of them it
has, and what a code means for it where that is special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from deltacli.core.errors import (
    EXIT_BUG,
    EXIT_CODES,
    EXIT_FINDINGS,
    EXIT_OK,
    ConflictLost,
    OutcomeUnknown,
    PartlyDone,
    Refused,
    StorageFailed,
    Unreadable,
    UsageError,
)

_HEADING = "Exit codes:"


def exit_codes(
    *,
    findings: str | None = None,
    unreadable: bool | str = False,
    refused: bool | str = False,
    partly: bool | str = False,
    conflict: bool = False,
    storage: bool = False,
    unknown: bool = False,
) -> str:
    """Return the part of a command's help that lists its exit codes, for the `epilog` of the command.

    Every command can end with 0, 2 and 70. For each of the others, True means that the command has it with
    its general meaning, and a text says what it means for this command.

    Args:
        findings: When the command ends with 1 although it succeeded; None if it never does.
        unreadable: Whether it reads something that may be absent, damaged or too new (3).
        refused: Whether a guard may refuse what it was asked to do (4).
        partly: Whether it may end with a part of the work done (5).
        conflict: Whether other writers may win (6).
        storage: Whether it uses a store, a server or a cluster (7).
        unknown: Whether it commits, so that the fate of the commit may be unknown (8).
    """
    declared: dict[int, bool | str | None] = {
        EXIT_OK: True,
        EXIT_FINDINGS: findings,
        UsageError.exit_code: True,
        Unreadable.exit_code: unreadable,
        Refused.exit_code: refused,
        PartlyDone.exit_code: partly,
        ConflictLost.exit_code: conflict,
        StorageFailed.exit_code: storage,
        OutcomeUnknown.exit_code: unknown,
        EXIT_BUG: True,
    }
    lines = [f"  {code:<3} {_describe(code, meaning)}" for code, meaning in declared.items() if meaning]
    return "\n".join(["\b", _HEADING, *lines])


def _describe(code: int, meaning: bool | str | None) -> str:
    general = EXIT_CODES[code].meaning
    if not isinstance(meaning, str):
        return general
    name_of_code = general.partition(":")[0].partition(",")[0]
    return f"{name_of_code}: {meaning}"


def read_exit_codes(epilog: str | None) -> Mapping[int, str]:
    """Return the exit codes that the help of a command lists, with their meanings."""
    rows = re.findall(r"^ *(\d+) +(.*)", epilog or "", re.MULTILINE)
    return {int(code): meaning for code, meaning in rows}
