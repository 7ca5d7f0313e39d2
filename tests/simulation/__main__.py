"""Simulates: see `running.py`."""

from __future__ import annotations

import sys

from tests.simulation.running import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
