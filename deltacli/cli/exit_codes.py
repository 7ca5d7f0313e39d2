"""The exit codes of a command, as its help lists them.

`core/errors.py` defines the codes and their general meanings. A command declares the codes that it uses, and the
meaning of a code if it is more specific for this command.
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
    """Return the section of a command's help that lists its exit codes. It is the `epilog` of the command.

    Every command can end with 0, 2 and 70. The arguments add other codes. True means that the command uses the code
    with its general meaning, and a text is its meaning for this command.

    Args:
        findings: When the command ends with 1 although it succeeded. None: never.
        unreadable: Whether it reads something that may be missing, damaged or too new (3).
        refused: Whether it may be refused because it would be dangerous (4).
        partly: Whether it may be done partly (5).
        conflict: Whether it may lose against concurrent writers (6).
        storage: Whether it uses a store, a server or a cluster (7).
        unknown: Whether it commits, so that the outcome of the commit may be unknown (8).
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
    general_meaning = EXIT_CODES[code].meaning
    if not isinstance(meaning, str):
        return general_meaning
    code_name = general_meaning.partition(":")[0].partition(",")[0]
    return f"{code_name}: {meaning}"


def read_exit_codes(epilog: str | None) -> Mapping[int, str]:
    """Return the exit codes that the help of a command lists, with their meanings."""
    rows = re.findall(r"^ *(\d+) +(.*)", epilog or "", re.MULTILINE)
    return {int(code): meaning for code, meaning in rows}
