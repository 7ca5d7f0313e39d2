"""The same targets guided by coverage, where atheris is installed (`python3 dev.py fuzz --guided TARGET`)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from fuzz.targets import load


def main(arguments: list[str]) -> None:
    """Run libFuzzer on one target; all further arguments are libFuzzer's own."""
    import atheris

    with atheris.instrument_imports(include=["deltacli"]):
        target = load(arguments[1])

    with tempfile.TemporaryDirectory(prefix="deltacli-corpus-") as corpus:
        for number, seed in enumerate(target.seeds):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup([arguments[0], *arguments[2:], corpus], target.test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
