"""Serve tables to another process: `python -m tests.sharing.client.serve PLACE NAME=PATH …`.

It prints the path of a profile, and serves until its input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.sharing.client.serving import proxied
from tests.sharing.served import shared


def main(place: str, *tables: str) -> None:
    found = [shared(Path(path), name) for name, _, path in (table.partition("=") for table in tables)]
    with proxied(Path(place), *found) as proxy:
        sys.stdout.write(f"{proxy.profile}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
