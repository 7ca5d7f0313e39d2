"""`python -m tests.support.killed_commits`: commits of files in processes that are killed at a storage call.

Each line on stdin names a table, the call, and how it dies there. The signal that ended it is written to stdout.
"""

from __future__ import annotations

import os
import sys

from deltacli.storage import LocalStorage
from tests.support.actions import add
from tests.support.committing import run
from tests.support.faulty import Fault, FaultyStorage
from tests.support.file_commits import restore

TARGET = {(f"new-{number}", ""): add(f"new-{number}", records=1)["add"] for number in range(3)}
"""The files that the commit leaves."""


def main() -> None:
    for line in sys.stdin:
        place, at, fault = line.split()
        process = os.fork()  # no threads run yet: they would be missing in the child
        if process == 0:
            run(FaultyStorage(LocalStorage(place), int(at), Fault[fault]), restore(TARGET))
            os._exit(0)
        sys.stdout.write(f"{os.WTERMSIG(os.waitpid(process, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
