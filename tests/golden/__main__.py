"""`python -m tests.golden [--update] [CHANGE…]`: run all golden runs, or those of some changes, and show what differs
from what is kept. With `--update` it is kept from now on; read the diff like one of code. "command lines" stands for
usage errors and help.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial

from tests.golden import command_lines
from tests.golden.cases import CHANGES, READINGS
from tests.golden.places import Places
from tests.golden.recording import PYTHON, difference, places, record, record_calls, store, stored

COMMAND_LINES = "command lines"


def main(arguments: list[str]) -> int:
    """Show or keep what differs, and return 1 where something does."""
    updates, names = "--update" in arguments, [word for word in arguments if word != "--update"]
    records: dict[str, Callable[[Places], dict[str, str]]] = {
        change.name: partial(record, change=change) for change in (*CHANGES, *READINGS)
    }
    records[PYTHON] = record_calls
    if unknown := {*names} - records.keys() - {COMMAND_LINES}:
        known = ", ".join((*records, COMMAND_LINES))
        sys.stderr.write(f"no change is named {', '.join(sorted(unknown))}; there are: {known}\n")
        return 2
    differs = False
    if not names or COMMAND_LINES in names:
        differs = _compare_command_lines(updates=updates)
    changes = [name for name in names or records if name != COMMAND_LINES]
    if changes:
        with places() as made:
            for name in changes:
                runs = records[name](made)
                if updates:
                    store(name, runs)
                elif text := difference(stored(name), runs):
                    differs = True
                    sys.stdout.write(text)
    return int(differs)


def _compare_command_lines(*, updates: bool) -> bool:
    """Show or keep what differs in usage errors and help, and return whether something is shown."""
    shown = False
    if updates:
        shutil.rmtree(command_lines.STORED, ignore_errors=True)  # also what is kept of commands that are gone
    with command_lines.empty_place() as place:
        for name in command_lines.names():
            found = command_lines.record_lines(place, name)
            if updates:
                store(name, found, command_lines.STORED)
            elif text := difference(stored(name, command_lines.STORED), found):
                shown = True
                sys.stdout.write(text)
    return shown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
