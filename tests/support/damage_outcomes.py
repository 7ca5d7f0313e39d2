"""What tools answer about damaged tables, compared with the healthy one: right, wrong, or refused, and whether a hint
came with it.

Other engines are asked in their own environment, deltacli by its command line in this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from deltacli.cli.app import run
from tests.support.damaged_tables import FIRST_IDENTITY, LAST, TABLE_DAMAGES, DamagedTable, Row, TableDamage, tables
from tests.support.peers import ROOT, SCRIPTS

Json = Any  # Any: JSON values
CONDITION = f"id >= {FIRST_IDENTITY}"
PEERS = {"deltalake": "corruptions_with_deltalake.py", "duckdb": "corruptions_with_duckdb.py"}
OURS = {
    "history": ("history", "--limit", "0"),
    "snapshot": ("snapshot", "--counts"),
    "read": ("read", "--limit", "0", "--columns", "id,name,p"),
    "filtered": ("read", "--limit", "0", "--columns", "id,name,p", "--where", CONDITION),
}
_WEIGHTS = ("error", "warning", "info")
LEVELS = ("log", "storage", "footers", "data")
_CLOCK = ("--now", "2026-01-10")
_SECONDS = 300


class Verdict(StrEnum):
    """What an answer is worth. Wrong is also one that lacks what the damage destroyed, and says nothing of it."""

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "error"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer: what is wrong with it or, refused, whether the message names the damaged file; `notice` is what was
    said beside it.
    """

    verdict: Verdict
    detail: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """The rules that the first level of `validate` with any finding tells, each with its severity: those of the damaged
    file first, then by weight.
    """

    level: str
    rules: tuple[tuple[str, str], ...]


Outcomes = dict[str, Outcome]


def write_tables(root: Path) -> None:
    """Write the healthy table and the damaged ones below a directory, each under its name."""
    for name, table in tables():
        table.write(root / name)


def judge(question: str, value: Json, notice: str) -> Outcome:
    """Compare an answer with that of the healthy table."""
    wrong = _JUDGES[question](value)
    return Outcome(Verdict.WRONG if wrong else Verdict.RIGHT, wrong, notice)


def _judge_rows(expected: list[Row], value: Json) -> str:
    """What is wrong with rows; a row is known by its `id`."""
    healthy, found = {row[0]: row for row in expected}, {row[0]: tuple(row) for row in value}
    lost, invented = len(healthy.keys() - found.keys()), len(value) - len(healthy.keys() & found.keys())
    changed = [identity for identity in healthy.keys() & found.keys() if healthy[identity] != found[identity]]
    parts = [
        f"{lost} of {len(healthy)} rows are lost" if lost else "",
        f"{invented} rows too many" if invented else "",
        f"{len(changed)} rows with another partition value, {_values(found[one][2] for one in changed)}"
        if changed
        else "",
    ]
    return ", ".join(filter(None, parts))


def _values(values: Any) -> str:  # Any: an iterator of texts and nulls
    return " and ".join(sorted({"null" if value is None else f"'{value}'" for value in values}))


def _judge_versions(value: Json) -> str:
    lost = LAST + 1 - len(set(value) & set(range(LAST + 1)))
    return f"{lost} of {LAST + 1} versions not shown" if lost else ""


_ROWS = DamagedTable().healthy_rows()
_CHOSEN = [row for row in _ROWS if row[0] >= FIRST_IDENTITY]
_JUDGES: dict[str, Callable[[Json], str]] = {
    "open": lambda value: "" if value == LAST else f"version {value} for {LAST}",
    "read": lambda value: _judge_rows(_ROWS, value),
    "filtered": lambda value: _judge_rows(_CHOSEN, value),
    "count": lambda value: "" if value == len(_ROWS) else f"{value} for {len(_ROWS)} rows",
    "snapshot": lambda value: "" if value == len(_ROWS) else f"{value} for {len(_ROWS)} rows",
    "history": _judge_versions,
    "repair": lambda value: f"{len(value)} files of the healthy table" if value else "",
}


# -- other engines ------------------------------------------------------------------------------------------------


def ask_peer(python: str, peer: str, root: Path) -> Json:
    """What a peer answers about each table below `root`: `{"version": …, "answers": {damage: {question: outcome}}}`."""
    names = ["healthy", *(damage.name for damage in TABLE_DAMAGES)]
    tasks = "".join(json.dumps({"path": str(root / name), "condition": CONDITION}) + "\n" for name in names)
    done = subprocess.run(
        [python, str(SCRIPTS / PEERS[peer])],
        input=tasks.encode(),
        capture_output=True,
        check=False,
        timeout=_SECONDS,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if len(lines) != len(names):
        raise RuntimeError(f"{peer} ended at {names[len(lines)]}: {done.stderr[-500:].decode(errors='replace')}")
    for question, answer in lines[0]["answers"].items():
        if answer.get("refused") or judge(question, answer["value"], "").verdict != Verdict.RIGHT:
            raise RuntimeError(f"{peer} can't {question} the healthy table: {answer}")
    answers = {
        damage.name: {
            question: asdict(_of_peer(damage, question, answer)) for question, answer in line["answers"].items()
        }
        for damage, line in zip(TABLE_DAMAGES, lines[1:], strict=True)
    }
    return {"version": lines[0]["version"], "answers": answers}


def _of_peer(damage: TableDamage, question: str, answer: Json) -> Outcome:
    if "refused" in answer:
        return Outcome(Verdict.REFUSED, "names the file" if _name(damage) in answer["refused"] else "")
    if question == "repair":
        return Outcome(Verdict.RIGHT, f"would remove {len(answer['value'])} file" if answer["value"] else "0 problems")
    return judge(question, answer["value"], answer.get("said", ""))


def _name(damage: TableDamage) -> str:
    return damage.file.rpartition("/")[2]


def outcomes_of(answers: Mapping[str, Json]) -> Outcomes:
    """Outcomes out of their JSON."""
    return {
        question: Outcome(Verdict(answer["verdict"]), answer["detail"], answer["notice"])
        for question, answer in answers.items()
    }


# -- deltacli -----------------------------------------------------------------------------------------------------


def ask_deltacli(root: Path) -> Outcomes:
    """What the commands that read answer about a table."""
    return {question: _ask_command(question, words, root) for question, words in OURS.items()}


def _ask_command(question: str, words: tuple[str, ...], root: Path) -> Outcome:
    code, out, err = _run(words[0], str(root), *words[1:], "--json", *_CLOCK)
    if code:
        return Outcome(Verdict.REFUSED, f"`{err[-1]['code']}`")
    document = json.loads(out)
    notices = [line["message"].partition(":")[0] for line in err if line["type"] == "note"]
    match question:
        case "history":
            notices += ["log.gap"] if document["gaps"] else []
            notices += [item["problem"] for item in document["items"] if item.get("problem")]
            value: Json = [item["version"] for item in document["items"]]
        case "snapshot":
            value = document["files"]["rows"]
            if value is None:
                return Outcome(Verdict.WRONG, "no number of rows", "`filesWithoutRecords`")
        case _:
            value = [[row["id"], row["name"], row["p"]] for row in document["items"]]
    return judge(question, value, ", ".join(f"`{notice}`" for notice in notices))


def ask_validate(root: Path, damage: TableDamage) -> Told | None:
    """What the lowest level of `validate` that finds anything says; None where none does."""
    for level in LEVELS:
        _, out, _ = _run("validate", str(root), "--level", level, "--json", *_CLOCK)
        findings = json.loads(out)["tables"][0]["findings"]
        findings.sort(key=lambda found: (not _is_at(found["location"], damage), _WEIGHTS.index(found["severity"])))
        if findings:
            return Told(level, tuple({found["rule"]: found["severity"] for found in findings}.items()))
    return None


def _is_at(location: Json, damage: TableDamage) -> bool:
    return damage.file in (location["path"], location.get("key"))


def _run(*arguments: str) -> tuple[int, bytes, list[Json]]:
    """Run a command line; return its exit code, what it wrote, and the lines on stderr."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
        out.flush()
        err.flush()
    said: list[bytes] = err.buffer.getvalue().splitlines()
    return code, out.buffer.getvalue(), [json.loads(line) for line in said]
