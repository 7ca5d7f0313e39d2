"""Asking another engine about many tables in one process of its own; a crash costs one answer, not the run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "differential" / "peers"
ENVIRONMENT_VARIABLE = "DELTACLI_PEER_PYTHON"
_SECONDS = 300


@dataclass(frozen=True)
class Task:
    """One version of one table; `version=None` is the newest as the peer sees it."""

    table: str
    path: str
    version: int | None


@dataclass(frozen=True)
class PeerFile:
    """A live file as the peer sees it; None where it does not say."""

    path: str
    size_bytes: int | None
    records: int | None


@dataclass(frozen=True)
class PeerAnswer:
    """Live files, or why there are none: the peer's words, or the way its process ended."""

    task: Task
    files: tuple[PeerFile, ...] | None
    refusal: str | None = None
    crash: str | None = None


@dataclass(frozen=True)
class PeerRows:
    """All rows of a version as the peer reads them, in an Arrow file; or why there are none."""

    task: Task
    place: Path | None
    refusal: str | None = None


def peer_python() -> str | None:
    """The interpreter of the environment that holds the peers; None where none is named or it does not exist."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return named if named and Path(named).exists() else None


@cache
def has_peer(python: str, module: str) -> bool:
    """True if the environment has the peer."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    return done.returncode == 0


def ask(python: str, script: str, tasks: list[Task]) -> list[PeerAnswer]:
    """Answer every task, in order."""
    answers: list[PeerAnswer] = []
    while len(answers) < len(tasks):
        remaining = tasks[len(answers) :]
        lines, end = _run(python, script, remaining)
        answers += [_answer(task, line) for task, line in zip(remaining, lines, strict=False)]
        if len(lines) < len(remaining):
            answers.append(PeerAnswer(remaining[len(lines)], None, crash=end))
    return answers


def ask_for_rows(python: str, script: str, tasks: list[Task], directory: Path) -> list[PeerRows]:
    """Answer every task, in order; the rows go into files of a directory."""
    answers: list[PeerRows] = []
    while len(answers) < len(tasks):
        remaining = tasks[len(answers) :]
        places = [directory / f"{len(answers) + number}.arrow" for number in range(len(remaining))]
        lines, end = _run(python, script, remaining, places)
        for task, place, line in zip(remaining, places, lines, strict=False):
            refusal = line.get("refused")
            answers.append(PeerRows(task, None if refusal else place, refusal))
        if len(lines) < len(remaining):
            answers.append(PeerRows(remaining[len(lines)], None, refusal=f"crashed: {end}"))
    return answers


def _run(
    python: str, script: str, tasks: list[Task], places: Sequence[Path] = ()
) -> tuple[list[dict[str, Any]], str]:  # Any: JSON values
    """The whole lines a peer answered before it ended, and how it ended."""
    questions = [{"table": task.table, "path": task.path, "version": task.version} for task in tasks]
    for question, place in zip(questions, places, strict=False):
        question["to"] = str(place)
    text = "".join(json.dumps(question) + "\n" for question in questions)
    try:
        done = subprocess.run(
            [python, str(SCRIPTS / script)],
            input=text.encode(),
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        output, end = done.stdout, f"exit {done.returncode}: {done.stderr[-200:].decode(errors='replace')}"
    except subprocess.TimeoutExpired as slow:
        output, end = slow.stdout or b"", f"no answer in {_SECONDS} seconds"
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")], end


def _answer(task: Task, line: dict[str, Any]) -> PeerAnswer:
    assert (task.table, task.version) == (line["table"], line["version"])
    if "refused" in line:
        return PeerAnswer(task, None, refusal=line["refused"])
    return PeerAnswer(task, tuple(PeerFile(*row) for row in line["files"]))
