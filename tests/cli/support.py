"""Running the real command line."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from deltacli.core.errors import TABLE_PLACEHOLDER
from tests.support.forked_commands import Order, exit_code, program_text, send
from tests.support.waiting import in_time

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """stdout, with a blank between two words."""
        return " ".join(self.out.split())

    @property
    def document(self) -> Any:  # Any: JSON
        return json.loads(self.out)

    @property
    def error(self) -> Any:  # Any: JSON
        return json.loads(self.err.splitlines()[-1])


def deltacli(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Result:
    """Run the command line in a process of its own, stdout and stderr through pipes.

    On Linux that is a fork of one that has imported the product, which takes a quarter of the time, unless that one is
    busy or variables that concern the start of Python are others.
    """
    settings = _inherited() | {"PYTHONPATH": str(ROOT), **environment}
    result = _ran([str(argument) for argument in arguments], cwd, settings)
    assert TABLE_PLACEHOLDER not in result.out + result.err, f"a hint without the name of its table: {result.err}"
    return result


def _ran(words: Sequence[str], cwd: Path | None, settings: Mapping[str, str]) -> Result:
    if not sys.platform.startswith("linux") or not _forking.acquire(blocking=False):
        return _started(words, cwd, settings)
    try:
        forks = _forks()
        if _of_the_start(settings) != forks.of_the_start:
            return _started(words, cwd, settings)
        return forks.run(words, cwd or Path.cwd(), settings)
    finally:
        _forking.release()


def check_words(words: Sequence[str]) -> None:
    """Parse the words of a command as its command line does."""
    from deltacli.cli.command_loading import load_command
    from deltacli.cli.command_tree import get_command_path

    path = get_command_path(words)
    command = load_command(path)
    assert command is not None, words
    command.make_context(path[-1], [*words[len(path) :]])


def write_program(path: Path) -> None:
    """Write a program named deltacli for shells. Where `deltacli` runs a fork, it does so, too."""
    text = f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -m deltacli \"$@\"\n"
    path.parent.mkdir(exist_ok=True)
    path.write_text(program_text(_forks().name) if sys.platform.startswith("linux") else text)
    path.chmod(0o755)


_CHOSEN_HERE = {"ARROW_DEFAULT_MEMORY_POOL"} - os.environ.keys()
"""What a run of the command line in this process leaves in its environment. With it, no command would be a fork."""


def _inherited() -> dict[str, str]:
    """Return the environment of commands, without the settings of deltacli."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("DELTACLI_") and name not in _CHOSEN_HERE
    }


def _started(words: Sequence[str], cwd: Path | None, settings: Mapping[str, str]) -> Result:
    command = [sys.executable, "-m", "deltacli", *words]
    done = subprocess.run(command, capture_output=True, cwd=cwd, env=settings, check=False)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def start_with(settings: Mapping[str, str]) -> list[str]:
    """Return the words that start the command line with these settings, to which its arguments are added. Where
    `deltacli` runs a fork, it does so, too.
    """
    kept = {name: value for name, value in settings.items() if name not in _CHOSEN_HERE}
    if sys.platform.startswith("linux") and _of_the_start(kept) == _forks().of_the_start:
        return [sys.executable, "-IS", "-c", program_text(_forks().name)]
    return [sys.executable, "-m", "deltacli"]


def _of_the_start(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what Python and Arrow read when they start."""
    read = ("PYTHON", "LC_", "LANG", "ARROW_", "MALLOC_", "LD_")
    return {name: value for name, value in settings.items() if name.startswith(read)}


_forking = Lock()


class _Forks:
    """A process that imported the product, and forks for each command. It ends with this one, whose socket it reads."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        self.name = f"\0deltacli-{os.getpid()}-{secrets.token_hex(4)}"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.name)
        listener.listen()
        settings = _inherited() | {"PYTHONPATH": str(ROOT)}
        self.of_the_start = _of_the_start(settings)
        inherited = [theirs.fileno(), listener.fileno()]
        with theirs, listener:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked_commands", *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                env=settings,
                pass_fds=inherited,
            )

    def run(self, words: Sequence[str], cwd: Path, settings: Mapping[str, str]) -> Result:
        """Run the command line in a fork."""
        os.umask(umask := os.umask(0))
        (out, to_out), (err, to_err) = os.pipe(), os.pipe()
        try:
            send(self._channel, Order(words, str(cwd), settings, umask), to_out, to_err)
        finally:
            os.close(to_out)
            os.close(to_err)
        with (
            in_time(self._process, f"the end of deltacli {' '.join(words)}", 300),
            open(out, "rb") as output,
            open(err, "rb") as errors,
            ThreadPoolExecutor(1) as pool,
        ):
            said = pool.submit(errors.read)
            text = output.read().decode()
            return Result(exit_code(self._channel), text, said.result().decode())


_forks = cache(_Forks)


def make_sample(root: Path, *, damaged: bool = False) -> Path:
    """Make the sample table of examples/ in `root` and return it: a copy, which takes a seventh of the time."""
    return Path(shutil.copytree(_sample(damaged=damaged), root, dirs_exist_ok=True))


_place = cache(partial(TemporaryDirectory, prefix="deltacli-sample-"))


@cache
def _sample(*, damaged: bool) -> Path:
    root = Path(_place().name, "damaged" if damaged else "tbl")
    spec = importlib.util.spec_from_file_location("make_sample", ROOT / "examples" / "make_sample.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(root)
    if damaged:
        module.damage(root)
    return root
