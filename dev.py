#!/usr/bin/env python3
"""Work on deltacli from a fresh clone, with nothing but Python 3.11 and pip.

  python3 dev.py demo       set up, make a sample table in ./demo, show its history and its state
  python3 dev.py test       set up and run the tests            (arguments go to pytest)
  python3 dev.py check      format, lint, types, layers, generated files
  python3 dev.py generate   write completions, manual pages, the command reference and schemas of lines anew
  python3 dev.py long       the suites that take minutes
  python3 dev.py soak       the suites that take hours           ([NAME…]: races, matrix, property, load, fuzz)
  python3 dev.py fuzz       hostile inputs                      ([TARGET…] [--minutes 20]; --guided TARGET: by coverage)
  python3 dev.py lock       resolve requirements/*.txt anew

Environments are kept in .venv and .venv-* and rebuilt when requirements/ changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent
BIN = "Scripts" if os.name == "nt" else "bin"
DEV, PEERS, FUZZ, SPARK = (ROOT / name for name in (".venv", ".venv-peers", ".venv-fuzz", ".venv-spark"))
SPARK_READER = {"DELTACLI_SPARK_PYTHON": str(SPARK / BIN / "python")}


def main(arguments: list[str]) -> int:
    """Run one task and return its exit code."""
    tasks = {"demo": demo, "test": test, "check": check, "generate": generate, "long": run_long}
    tasks |= {"soak": soak, "fuzz": fuzz, "lock": lock}
    if not arguments or arguments[0] not in tasks:
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    os.chdir(ROOT)
    return tasks[arguments[0]](arguments[1:])


def demo(_: list[str]) -> int:
    """The main job on a table of our own."""
    set_up(DEV, "dev")
    table = Path("demo") / "trips"
    run(DEV, "python", "examples/make_sample.py", str(table))
    for command in (["history", str(table), "--limit", "8"], ["snapshot", str(table)]):
        print(f"\n$ deltacli {' '.join(command)}", flush=True)
        code = run(DEV, "deltacli", *command)
        if code:
            return code
    print(f"\nTry it yourself: {DEV.name}/{BIN}/deltacli --help")
    return 0


def test(arguments: list[str]) -> int:
    """The suite, on both cores, with other engines as oracles."""
    set_up(DEV, "dev")
    set_up(PEERS, "peers")
    return run_pytest([], arguments, place=memory_disk())


def run_long(arguments: list[str]) -> int:
    """The tests marked `long`, with Spark as a reader, and one in twenty cases of those marked `matrix`. On the disk:
    nothing else tries its locks, renames and syncs.
    """
    set_up(DEV, "dev")
    set_up(PEERS, "peers")
    set_up(SPARK, "spark")
    return run_pytest(["-m", "(long or matrix) and not soak"], arguments, place=None, **SPARK_READER)


@dataclass(frozen=True)
class Soak:
    """A suite that is run by hand: patterns of files, an expression of marks, passes with a seed of their own each."""

    patterns: tuple[str, ...]
    marks: str
    passes: int = 1


SOAKS = {
    "races": Soak(
        (
            "tests/operations/**/test_*_races.py",
            "tests/operations/**/test_*_killed.py",
            "tests/operations/**/test_*_faults.py",
            "tests/storage/test_writing.py",
        ),
        "soak or not soak",
        passes=4,
    ),
    "matrix": Soak(("tests/corpus", "tests/differential", "tests/operations/test_log_*.py"), "soak or matrix"),
    "property": Soak(("tests/property",), "soak or not soak"),
    "load": Soak(("tests/hostile",), "soak"),
}
FUZZ_MINUTES = 20


def soak(arguments: list[str]) -> int:
    """The suites named, or all of them, one after the other; what each took is printed at the end."""
    names = arguments or [*SOAKS, "fuzz"]
    unknown = sorted(set(names) - {*SOAKS, "fuzz"})
    if unknown:
        sys.exit(f"error: no suite named {', '.join(unknown)} (expected: {', '.join([*SOAKS, 'fuzz'])})")
    set_up(DEV, "dev")
    set_up(PEERS, "peers")
    set_up(SPARK, "spark")
    codes, report = [], []
    for name in names:
        began = time.monotonic()
        codes += [fuzz(["--minutes", str(FUZZ_MINUTES)])] if name == "fuzz" else soak_tests(SOAKS[name])
        report.append(f"{name:<10} {(time.monotonic() - began) / 60:6.1f} min")
    print("\n".join(report))
    return next((code for code in codes if code), 0)


def soak_tests(suite: Soak) -> list[int]:
    """Exit codes of the passes of a suite."""
    files = [str(path.relative_to(ROOT)) for pattern in suite.patterns for path in sorted(ROOT.glob(pattern))]
    return [
        run_pytest(
            ["-m", suite.marks, *files],
            [f"--hypothesis-seed={number + 2}", f"--randomly-seed={number + 2}"],
            place=None,
            DELTACLI_EFFORT="soak",
            **SPARK_READER,
        )
        for number in range(suite.passes)
    ]


def run_pytest(chosen: list[str], arguments: list[str], *, place: str | None, **environment: str) -> int:
    """Run tests on both cores, their files in `place`; those of a red run stay there until the next."""
    files = tempfile.mkdtemp(prefix=f"{files_prefix()}{os.getpid()}-", dir=place)
    environment |= {"TMPDIR": files, "DELTACLI_PEER_PYTHON": str(PEERS / BIN / "python")}
    code = run(DEV, "python", "-m", "pytest", "-n", "auto", *chosen, *seed(arguments), **environment)
    if code:
        print(f"files of the tests that failed: {files}")
    else:
        shutil.rmtree(files, ignore_errors=True)
    return code


def files_prefix() -> str:
    """How the names of our directories begin: with the space in which their process has its number, where there is one;
    containers may share their memory.
    """
    try:
        return f"deltacli-tests-{os.stat('/proc/self/ns/pid').st_ino}-"
    except OSError:
        return "deltacli-tests-"


def memory_disk() -> str | None:
    """Where files lie in memory, cleared of what earlier runs left there. None where there is no such place, programs
    can't be run from it, or less than 2 GiB are free. On a disk each of thousands of files is waited for.
    """
    place = Path("/dev/shm")
    if not sys.platform.startswith("linux") or not os.access(place, os.W_OK):
        return None
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        return None
    for left in place.glob(f"{files_prefix()}*"):
        process = left.name.removeprefix(files_prefix()).split("-")[0]
        with contextlib.suppress(OSError):
            if left.lstat().st_uid == os.getuid() and not Path("/proc", process).exists():
                shutil.rmtree(left, ignore_errors=True)
    return str(place) if shutil.disk_usage(place).free >= 2 << 30 else None


def seed(arguments: list[str]) -> list[str]:
    """Let the gate try the same examples each time; `--hypothesis-seed=N` tries others."""
    given = any(argument.startswith("--hypothesis-seed") for argument in arguments)
    return arguments if given else ["--hypothesis-seed=1", *arguments]


def check(_: list[str]) -> int:
    """Everything that is not a test; all of it runs, the first failure decides."""
    set_up(DEV, "dev")
    steps = (
        ("ruff", "format", "--check", "."),
        ("ruff", "check", "."),
        ("mypy",),
        ("lint-imports", "--no-logo"),
        ("python", "-m", "tools.check_rooms"),
        ("python", "-m", "tools.generate", "--check"),
    )
    codes = []
    for step in steps:
        print(f"$ {' '.join(step)}", flush=True)
        codes.append(run(DEV, *step))
    return next((code for code in codes if code), 0)


def generate(_: list[str]) -> int:
    """Files that are made from the code."""
    set_up(DEV, "dev")
    return run(DEV, "python", "-m", "tools.generate")


def fuzz(arguments: list[str]) -> int:
    """Every target for some minutes; `--guided TARGET` hands one to libFuzzer, all further arguments with it."""
    if arguments[:1] == ["--guided"]:
        set_up(FUZZ, "fuzz")
        os.makedirs("fuzz/findings", exist_ok=True)
        options = ("-artifact_prefix=fuzz/findings/", "-max_len=65536", "-timeout=20", "-rss_limit_mb=3000")
        return run(FUZZ, "python", "-m", "fuzz.guided", *arguments[1:], *options, PYTHONPATH=str(ROOT))
    set_up(DEV, "dev")
    return run(DEV, "python", "-m", "fuzz", *arguments)


def lock(_: list[str]) -> int:
    """Resolve the locked environments: by name, version and hash, with no address in them."""
    set_up(DEV, "dev")
    command = ("uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--generate-hashes")
    for name in ("dev", "peers", "fuzz", "spark"):
        target = f"requirements/{name}.txt"
        sources = [] if name in ("peers", "spark") else ["pyproject.toml"]
        groups = ("--group", "dev", "--group", "fuzz") if name == "fuzz" else ("--group", name)
        options = ("--no-emit-index-url", "--no-header", "--no-annotate", "--upgrade", "-o", target)
        code = run(DEV, *command, *sources, *groups, *options)
        if code:
            return code
    return 0


def set_up(home: Path, name: str) -> None:
    """Make an environment from its lock file unless it is there; compile it, so that start-up is what users get."""
    wanted = (ROOT / "requirements" / f"{name}.txt").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    stamp, digest = home / "locked", hashlib.sha256(wanted).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"setting up {home.name} …", flush=True)
        venv.EnvBuilder(with_pip=True, clear=True).create(home)
        must(home, "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile", "uv")
        must(home, "uv", "pip", "install", "-q", "--require-hashes", "-r", f"requirements/{name}.txt")
        if name == "dev":
            must(home, "uv", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-e", ".")
        must(home, "python", "-m", "compileall", "-q", "-j", "0", str(home / "lib"))
        stamp.write_text(digest)
    if name == "dev":
        must(home, "python", "-m", "compileall", "-q", "deltacli")


def run(home: Path, program: str, *arguments: str, **environment: str) -> int:
    """Run a program of an environment and return its exit code."""
    settings = {**os.environ, "VIRTUAL_ENV": str(home), **environment}
    settings.pop("PYTHONHOME", None)
    return subprocess.run([str(home / BIN / program), *arguments], env=settings, check=False).returncode


def must(home: Path, program: str, *arguments: str) -> None:
    """Run a program that has to succeed."""
    code = run(home, program, *arguments)
    if code:
        sys.exit(f"error: {program} {' '.join(arguments)} ended with {code}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
