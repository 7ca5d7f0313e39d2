"""Simulates: see `running.py`."""

from __future__ import annotations

import sys

from tools.safety_mutants import turn_off

if "--without" in sys.argv[:-1]:  # also in the processes of a pool, before they import the product
    turn_off(sys.argv[sys.argv.index("--without") + 1])

if __name__ == "__main__":
    from tests.simulation.running import main

    sys.exit(main(sys.argv[1:]))
