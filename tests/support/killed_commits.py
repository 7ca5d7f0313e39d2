"""`python -m tests.support.killed_commits commit|optimize`: runs in processes that are killed at a storage call.

Each line on stdin names a table, the call, and how it dies there. The signal that ended it is written to stdout.
"""

from __future__ import annotations

import os
import sys

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import LocalStorage, Storage
from tests.support.actions import add
from tests.support.committing import run
from tests.support.faulty import Fault, FaultyStorage
from tests.support.file_commits import restore
from tests.support.reading import open_at

TARGET = {(f"new-{number}", ""): add(f"new-{number}", records=1)["add"] for number in range(3)}
"""The files that the commit leaves."""


def restore_files(storage: Storage) -> None:
    """Commit the files of the target."""
    run(storage, restore(TARGET))


def optimize(storage: Storage) -> None:
    """Compact small files, in one thread: the order of the calls is that of a run that is not killed."""
    open_at(storage, engine=EmbeddedEngine(threads=1)).optimize()


RUNS = {"commit": restore_files, "optimize": optimize}


def main(what: str) -> None:
    for line in sys.stdin:
        place, at, fault = line.split()
        process = os.fork()  # no threads run yet: they would be missing in the child
        if process == 0:
            RUNS[what](FaultyStorage(LocalStorage(place), int(at), Fault[fault]))
            os._exit(0)
        sys.stdout.write(f"{os.WTERMSIG(os.waitpid(process, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
