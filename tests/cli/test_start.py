"""What a command imports, compiles and builds before it works: the start of the process is most of a short command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.builder import TableBuilder


class Start(NamedTuple):
    """Numbers of modules, patterns compiled, and dataclasses and named tuples built, ours only."""

    modules: int
    patterns: int
    dataclasses: int
    tuples: int


MOST = {
    "history": Start(modules=77, patterns=5, dataclasses=11, tuples=28),
    "snapshot": Start(modules=126, patterns=5, dataclasses=17, tuples=58),
    "validate": Start(modules=213, patterns=22, dataclasses=39, tuples=102),
    "vacuum --dry-run": Start(modules=168, patterns=9, dataclasses=22, tuples=90),
}
"""Command -> what it may need: a little more than it does. Lower a number with the code; think before raising one."""

COUNTING = """
import collections, dataclasses, json, re._compiler, sys

counts = collections.Counter()

def counted(module, name):
    counted_function = getattr(module, name)
    def count(*arguments, **settings):
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] in ("re", "typing"):
            frame = frame.f_back
        counts[name] += frame.f_globals["__name__"].startswith("deltacli")
        return counted_function(*arguments, **settings)
    setattr(module, name, count)

for module, name in ((re._compiler, "compile"), (dataclasses, "dataclass"), (collections, "namedtuple")):
    counted(module, name)
from deltacli.arrow.startup import skip_optional_packages
skip_optional_packages()
from deltacli.cli.app import run
code = run(sys.argv[1:])
own = sum(name.partition(".")[0] == "deltacli" for name in sys.modules)
assert "_hashlib" not in sys.modules, "OpenSSL was loaded"
found = [own, counts["compile"], counts["dataclass"], counts["namedtuple"]]
sys.stderr.write(json.dumps([code, *found]))
"""


@pytest.mark.parametrize("command", MOST)
def test_a_command_starts_with_few_modules_patterns_and_classes(command: str, tmp_path: Path) -> None:
    name, *options = command.split()
    table = str(TableBuilder().commits(10).write(tmp_path))
    for version in range(10):
        (tmp_path / f"part-{version:05d}.parquet").write_bytes(bytes(100))
    counting = [sys.executable, "-c", COUNTING, name, table, *options]

    done = subprocess.run(counting, capture_output=True, text=True, check=True)
    code, *found = json.loads(done.stderr.splitlines()[-1])

    counts = zip(Start._fields, found, MOST[command], strict=True)
    assert (0, {}) == (code, {field: (count, most) for field, count, most in counts if count > most})
