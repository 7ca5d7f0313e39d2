"""`python -m tests.golden [--update] [CHANGE…]`: run all golden runs, or those of some changes, and show what differs
from what is kept. With `--update` it is kept from now on; read the diff like one of code.
"""

from __future__ import annotations

import sys

from tests.golden.cases import CHANGES
from tests.golden.recording import difference, places, record, store, stored


def main(arguments: list[str]) -> int:
    """Show or keep what differs, and return 1 where something does."""
    updates, names = "--update" in arguments, [word for word in arguments if word != "--update"]
    unknown = {*names} - {change.name for change in CHANGES}
    if unknown:
        sys.stderr.write(f"no change is named {', '.join(sorted(unknown))}; there are: ")
        sys.stderr.write(f"{', '.join(change.name for change in CHANGES)}\n")
        return 2
    differs = False
    with places() as made:
        for change in CHANGES:
            if names and change.name not in names:
                continue
            runs = record(made, change)
            if updates:
                store(change, runs)
            elif text := difference(stored(change), runs):
                differs = True
                sys.stdout.write(text)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
