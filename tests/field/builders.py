"""Tables that public reports describe, as their builders make them: each once per run of the tests."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.cli.support import write_program
from tests.support.material import FIELD
from tests.support.peers import peer_python

_OF_PEERS = "deltalake"


def build(name: str, place: Path) -> Path:
    """Run the builder whose name begins with a number, and return the directory of its tables. None of them is built
    for a builder that needs another engine where none is installed.
    """
    (script,) = FIELD.require().glob(f"{name}_*.py")
    place.mkdir()
    if f"import {_OF_PEERS}" in (text := script.read_text("utf-8")) or f"from {_OF_PEERS}" in text:
        if (python := peer_python()) is not None:
            subprocess.run([python, str(script), str(place)], check=True, capture_output=True)
        return place
    with _settled(script, place):
        runpy.run_path(str(script), run_name="__main__")
    return place


def output_of(name: str, place: Path) -> str:
    """Return what a builder prints that runs the command line of this environment."""
    (script,) = FIELD.require().glob(f"{name}_*.py")
    place.mkdir()
    write_program(place.with_name("bin") / "deltacli")
    path = f"{place.with_name('bin')}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, str(script), str(place)], check=True, capture_output=True, env={**os.environ, "PATH": path}
    )
    return done.stdout.decode() + done.stderr.decode()


@contextlib.contextmanager
def _settled(script: Path, place: Path) -> Iterator[None]:
    """Give a script its argument, and the command line of this environment."""
    arguments, path = sys.argv, os.environ["PATH"]
    sys.argv = [str(script), str(place)]
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.argv, os.environ["PATH"] = arguments, path


def lines_of(rows: pa.Table, names: list[str]) -> list[str]:
    """Return rows as texts, sorted: the values of the columns, joined by bars."""
    columns = [_texts(rows.column(name)) for name in names]
    return sorted("|".join(line) for line in zip(*columns, strict=True))


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        return [str(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.timestamp("us"))
    return [value.as_py() or "" for value in pc.fill_null(column.cast(pa.string()), "None")]
