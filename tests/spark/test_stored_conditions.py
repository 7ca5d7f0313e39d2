"""Spark evaluates the SQL that tables keep, and so do we: where we give an answer it is Spark's, whatever its settings.

Without ANSI and with it, in UTC; in another zone where an answer does not say that it assumes UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.schema.types import PrimitiveType
from deltacli.work.rows.compiled_conditions import Condition, Unchecked, compile_condition, compile_expression
from deltacli.work.rows.duckdb_evaluation import NotEvaluated
from tests.support.effort import InTurn, is_soaking
from tests.support.random_expressions import Maker
from tests.support.spark import ask_spark, need_spark
from tests.support.stored_expressions import EXPRESSIONS
from tests.support.stored_rows import ROWS, SCHEMA, rows

SCRIPT = "evaluate_with_pyspark.py"
SEED, RANDOM = 20, 300 if is_soaking() else 100


@dataclass
class Outcome:
    """What became of expressions: rows evaluated, rows that raised, texts not taken, and what we got wrong."""

    faults: list[str] = field(default_factory=list)
    evaluated: int = 0
    raised: int = 0
    unchecked: dict[str, str] = field(default_factory=dict)


def compared(groups: Sequence[Sequence[str]], tmp_path: Path) -> list[Outcome]:
    """Hold our answers against those of one session, and of a second one with other settings; an outcome a group."""
    python = need_spark()
    place, values = tmp_path / "rows.parquet", tmp_path / "values"
    pq.write_table(rows(), place)
    outcomes = [Outcome() for _ in groups]
    grouped = zip(groups, outcomes, strict=True)
    taken = [(text, outcome) for texts, outcome in grouped for text in texts if is_taken(text, outcome)]
    texts = [text for text, _ in taken]
    answers = ask_spark(python, {"rows": str(place), "values": str(values), "expressions": texts}, SCRIPT)
    found = pq.read_table(values)
    checks: list[dict[str, Any]] = []  # Any: as the script takes them
    for number, ((text, outcome), answer) in enumerate(zip(taken, answers, strict=True)):
        if answer["fault"] is not None:
            outcome.faults.append(f"{text}: Spark does not take it: {answer['fault']}")
        elif isinstance(answer["type"], str) and answer["type"] != "void":
            ids, assumes_utc = prove(text, answer["type"], found, f"v{number}", outcome)
            if ids:
                checks.append({"number": number, "text": text, "ids": ids, "assumes_utc": assumes_utc})
    answers = ask_spark(python, {"values": str(values), "checks": checks}, SCRIPT)
    for check, answer in zip(checks, answers, strict=True):
        _, outcome = taken[check["number"]]
        if answer["ansi"]:
            outcome.faults.append(f"{check['text']}: under ANSI: {answer['ansi']}")
        if answer["zone"] and not check["assumes_utc"]:
            outcome.faults.append(f"{check['text']}: in another zone: {answer['zone']}")
    return outcomes


def is_taken(text: str, outcome: Outcome) -> bool:
    """Whether we evaluate an expression, of whatever type."""
    compiled = compile_condition(f"({text}) IS NULL", SCHEMA)
    if isinstance(compiled, Unchecked):
        outcome.unchecked[text] = compiled.reason
    return not isinstance(compiled, Unchecked)


def prove(text: str, kind: str, found: pa.Table, name: str, outcome: Outcome) -> tuple[list[int], bool]:
    """Hold our answers against Spark's values; the ids of the rows that have one, and whether they assume UTC."""
    compiled = compile_expression(text, SCHEMA, PrimitiveType(kind))
    condition = compile_condition(text, SCHEMA) if kind == "boolean" else compiled
    if isinstance(compiled, Unchecked) or isinstance(condition, Unchecked):
        outcome.unchecked[text] = compiled.reason if isinstance(compiled, Unchecked) else "only the condition"
        return [], False
    ids = []
    for row, differs, violates in evaluated(compiled, condition, found, name):
        if differs is None:
            outcome.raised += 1
            continue
        value = found[name][row].as_py()
        ids.append(found["id"][row].as_py())
        if differs or (violates is not None and violates is not (value is not True)):
            outcome.faults.append(f"{text}: {value!r} in Spark; {compiled.translation.sql} of row {row}")
    outcome.evaluated += len(ids)
    return ids, compiled.assumes_utc and condition.assumes_utc


def evaluated(
    compiled: Any, condition: Any, found: pa.Table, name: str
) -> Iterator[tuple[int, bool | None, bool | None]]:
    """For each row whether the value differs and whether it is a violation; None if unknown."""
    batch = found.combine_chunks().to_batches()[0]
    is_condition = isinstance(condition, Condition)

    def ask(low: int, high: int) -> Iterator[tuple[int, bool | None, bool | None]]:
        part = batch.slice(low, high - low)
        try:
            differs = compiled.differences(part, name).to_pylist()
            violates = condition.violations(part).to_pylist() if is_condition else [None] * (high - low)
        except NotEvaluated:
            if high - low == 1:
                yield low, None, None
                return
            middle = (low + high) // 2
            yield from ask(low, middle)
            yield from ask(middle, high)
            return
        yield from zip(range(low, high), differs, violates, strict=True)

    yield from ask(0, batch.num_rows)


@pytest.mark.long
def test_evaluated_expressions_equal_those_of_spark(tmp_path: Path, in_turn: InTurn) -> None:
    """Chosen and random ones, in the same sessions: a session takes longer to start than to answer."""
    chosen = in_turn(EXPRESSIONS)
    outcome, by_chance = compared([chosen, Maker(seed=SEED).texts(RANDOM)], tmp_path)

    assert [] == outcome.faults
    assert len(outcome.unchecked) < len(chosen) / 4, outcome.unchecked
    assert outcome.evaluated > len(chosen) * ROWS / 2
    assert outcome.raised < outcome.evaluated / 10
    assert [] == by_chance.faults, f"{RANDOM} expressions with seed {SEED}; 300: DELTACLI_EFFORT=soak"
    assert by_chance.evaluated > RANDOM * ROWS / 3
