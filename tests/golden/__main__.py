"""`python -m tests.golden [--update] [CHANGE…]`: run all golden runs, or those of some changes, and show what differs
from what is kept. With `--update` it is kept from now on; read the diff like one of code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from tests.golden.cases import CHANGES, READINGS
from tests.golden.places import Places
from tests.golden.recording import PYTHON, difference, places, record, record_calls, store, stored


def main(arguments: list[str]) -> int:
    """Show or keep what differs, and return 1 where something does."""
    updates, names = "--update" in arguments, [word for word in arguments if word != "--update"]
    records: dict[str, Callable[[Places], dict[str, str]]] = {
        change.name: partial(record, change=change) for change in (*CHANGES, *READINGS)
    }
    records[PYTHON] = record_calls
    if unknown := {*names} - records.keys():
        sys.stderr.write(f"no change is named {', '.join(sorted(unknown))}; there are: {', '.join(records)}\n")
        return 2
    differs = False
    with places() as made:
        for name in names or records:
            runs = records[name](made)
            if updates:
                store(name, runs)
            elif text := difference(stored(name), runs):
                differs = True
                sys.stdout.write(text)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
