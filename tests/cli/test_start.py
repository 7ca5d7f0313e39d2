"""What a command imports, compiles and builds before it works: the start of the process is most of a short command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from deltacli.core.made_once import imported_when_used
from tests.support.builder import TableBuilder
from tests.support.checksums import with_checksum


class Start(NamedTuple):
    """Numbers of modules, patterns compiled and data classes built, ours only."""

    modules: int
    patterns: int
    dataclasses: int


MOST = {
    "history": Start(modules=61, patterns=4, dataclasses=12),
    "snapshot": Start(modules=81, patterns=4, dataclasses=17),
    "snapshot --from-checksum": Start(modules=71, patterns=4, dataclasses=14),
    "validate": Start(modules=149, patterns=25, dataclasses=43),
    "vacuum --dry-run": Start(modules=112, patterns=10, dataclasses=28),
    # It checks the log as `validate` does, before it says that a client reads the table.
    "explain": Start(modules=156, patterns=20, dataclasses=45),
    "optimize --dry-run --min-size 10": Start(modules=144, patterns=19, dataclasses=60),
    "restore --version 5 --dry-run": Start(modules=133, patterns=22, dataclasses=71),
    "repair --dry-run --level log": Start(modules=255, patterns=22, dataclasses=148),
    "reach": Start(modules=132, patterns=14, dataclasses=53),
    "undelete --dry-run --from .": Start(modules=134, patterns=9, dataclasses=72),
}
"""Command -> what it may need: a little more than it does. Lower a number with the code; think before raising one."""

COUNTING = """
import collections, json, re._compiler, sys
from deltacli.core import made_once

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

for module, name in ((re._compiler, "compile"), (made_once, "dataclass")):
    counted(module, name)
from deltacli.core.made_once import skip_optional_packages
skip_optional_packages()
from deltacli.cli.app import run
code = run(sys.argv[1:])
own = sum(name.partition(".")[0] == "deltacli" for name in sys.modules)
assert not {"_hashlib", "_ssl"} & {*sys.modules}, "OpenSSL was loaded"
found = [own, counts["compile"], counts["dataclass"]]
sys.stderr.write(json.dumps([code, *found]))
"""


@pytest.mark.parametrize("command", MOST)
def test_a_command_starts_with_few_modules_patterns_and_classes(command: str, tmp_path: Path) -> None:
    name, *options = command.split()
    builder = TableBuilder().commits(10)
    table = str((with_checksum(builder) if "--from-checksum" in options else builder).write(tmp_path))
    for version in range(10):
        (tmp_path / f"part-{version:05d}.parquet").write_bytes(bytes(100))
    counting = [sys.executable, "-c", COUNTING, name, table, *options]

    done = subprocess.run(counting, capture_output=True, text=True, check=True)
    code, *found = json.loads(done.stderr.splitlines()[-1])

    counts = zip(Start._fields, found, MOST[command], strict=True)
    assert (0, {}) == (code, {field: (count, most) for field, count, most in counts if count > most})


def test_a_command_checks_a_hint_without_openssl_and_repeats_its_words_without_difflib(tmp_path: Path) -> None:
    table = str(TableBuilder().commits(10).checkpoint(5).hint(5, checksum="right").write(tmp_path))
    asking = f"{COUNTING}\nsys.stderr.write('difflib' if 'difflib' in sys.modules else 'none')"

    done = subprocess.run(
        [sys.executable, "-c", asking, "vacuum", table, "--dry-run"], capture_output=True, text=True, check=True
    )

    assert done.stderr.endswith("]none")


STANDING_IN = """
import sys
import deltacli.__main__ as command_line

def leave(code):
    from deltacli.core.made_once import ImportedWhenUsed
    holders = sorted(
        {name.partition(".")[0] for name, module in sys.modules.items() for value in vars(module or sys).values()
         if isinstance(value, ImportedWhenUsed)}
    )
    unwanted = {"difflib", "inspect", "platform", "shutil", "socket", "typer"} & {*sys.modules}
    sys.stderr.write(" ".join([str(code), *holders, "|", *sorted(unwanted)]))

command_line._leave = leave
command_line.main()
"""


@pytest.mark.parametrize(
    ("command", "holders"),
    [
        ("history", "dataclasses urllib uuid"),
        ("snapshot --from-checksum", "dataclasses urllib uuid"),
        ("snapshot", "dataclasses pyarrow urllib uuid"),
    ],
)
def test_a_start_does_not_import_what_libraries_rarely_use(command: str, holders: str, tmp_path: Path) -> None:
    table = str(with_checksum(TableBuilder().commits(2)).write(tmp_path))
    name, *options = command.split()

    standing_in = [sys.executable, "-c", STANDING_IN, name, table, *options]
    done = subprocess.run(standing_in, capture_output=True, text=True, check=True)

    # Only these modules have stand-ins, and were seen to use no more of them than functions while they are imported.
    assert f"0 {holders} |" == done.stderr.splitlines()[-1].strip()


def test_a_command_starts_beside_any_version_of_the_packages_that_pyarrow_prefers(tmp_path: Path) -> None:
    """Cloudpickle 2.1, for example, reads a constant of `pickle`, which the stand-in cannot give."""
    (tmp_path / "cloudpickle.py").write_text("import pickle\nassert pickle.HIGHEST_PROTOCOL >= 5\n")
    table = str(TableBuilder().commits(2).write(tmp_path))

    words = [sys.executable, "-m", "deltacli", "snapshot", table, "--files", "-q"]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_a_stand_in_becomes_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import colorsys

    monkeypatch.setattr("deltacli.core.made_once.active_count", lambda: 1)  # whatever earlier tests have left
    monkeypatch.delitem(sys.modules, "colorsys")
    with imported_when_used("colorsys"):
        import colorsys as later
        from colorsys import rgb_to_hls

        assert "ImportedWhenUsed" == type(sys.modules["colorsys"]).__name__

    assert "colorsys" not in sys.modules
    assert colorsys.rgb_to_hls(0.1, 0.2, 0.3) == rgb_to_hls(0.1, 0.2, 0.3)
    assert colorsys.ONE_THIRD == later.ONE_THIRD


def test_a_module_can_call_a_stand_in_while_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As modules do that ask `platform` for the kind of Python."""
    (tmp_path / "asks_at_import.py").write_text("import colorsys\nvalue = colorsys.rgb_to_hls(0.1, 0.2, 0.3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("deltacli.core.made_once.active_count", lambda: 1)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    with imported_when_used("colorsys"):
        asked = import_module("asks_at_import")

    import colorsys

    assert colorsys.rgb_to_hls(0.1, 0.2, 0.3) == asked.value
