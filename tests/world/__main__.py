"""Plays cells and prints those that are wrong: `python -m tests.world [CHANGE …]`; `--update` writes `wrong.txt`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.world.cells import all_cells, played
from tests.world.wrong import Wrong, write_wrong


def main(names: list[str], *, updates: bool) -> None:
    """Play the cells of these changes, or of all."""
    begun, wrong = time.process_time(), Wrong()
    cells = [cell for cell in all_cells() if not names or cell.change in names]
    with tempfile.TemporaryDirectory() as directory:
        for number, cell in enumerate(cells):
            with pytest.MonkeyPatch.context() as patch:
                try:
                    problems = played(cell, Path(directory) / str(number), patch)
                except Exception as fault:  # noqa: BLE001  (of the suite: the others are played nevertheless)
                    problems = [f"cannot be played: {fault!r}"]
            if problems:
                wrong[cell] = problems[0]
                sys.stdout.write(f"{cell}: {'; '.join(problems)}\n")
                sys.stdout.flush()
    counts = Counter((cell.change, cell.moment) for cell in wrong)
    for (change, moment), count in sorted(counts.items()):
        sys.stdout.write(f"{change:40} {moment:10} {count:4}\n")
    sys.stdout.write(f"{len(cells)} cells, {len(wrong)} wrong, {time.process_time() - begun:.0f} s\n")
    if updates:
        write_wrong(wrong, {cell.change for cell in cells})


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if word != "--update"], updates="--update" in sys.argv)
