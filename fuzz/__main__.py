"""`python3 dev.py fuzz [TARGET…] [--minutes 20]`: exit 1 where something was found."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.run import run_target
from fuzz.targets import TARGETS

FINDINGS = Path(__file__).parent / "findings"


def main(arguments: list[str]) -> int:
    """Run the named targets, or all of them, for so many minutes each."""
    parser = argparse.ArgumentParser(prog="dev.py fuzz", description="Try hostile inputs.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--minutes", type=float, default=20.0, help="for each target (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="another seed tries other inputs")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.targets if name not in TARGETS]:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    found = 0
    for name in chosen.targets or TARGETS:
        outcome = run_target(name, FINDINGS, seconds=60 * chosen.minutes, seed=chosen.seed)
        print(outcome, flush=True)
        found += outcome.findings
    if found:
        print(f"{found} findings under {FINDINGS}; again: python -m fuzz.worker TARGET --replay FILE")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
