"""Only errors of deltacli leave `deltacli.spark`, whatever a table has and whatever an argument is: their classes are
counted.
"""

from __future__ import annotations

import inspect
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltacli.spark
from deltacli.core.errors import DeltacliError
from tests.cli.support import make_sample
from tests.hostile.inputs import LONGEST, VALUES
from tests.support.effort import is_soaking
from tests.support.paimon_builder import PaimonBuilder

EACH = 3
FUNCTIONS = (
    *("read_table", "plan_table", "read_changes", "diff", "history", "detail", "files", "tombstones", "findings"),
    *("vacuum_plan", "fleet_facts", "maintain", "register_tables", "read_share"),
)
MANY = ("history", "detail", "files", "tombstones", "findings", "vacuum_plan")
"""Functions of many tables."""
OTHERS: dict[str, Any] = {"from_version": 1, "key": ["trip"], "policy": "absent.toml"}  # Any: arguments
ODD: tuple[Any, ...] = (None, -1, 2**63, 1.5, float("nan"), [], ["\ud800"], {}, {"a": 1}, object())


class IsReachedError(Exception):
    """Spark is asked for something: what deltacli does before that raised nothing."""


class Session:
    """A session that ends whatever is asked of it."""

    version = "4.0.1"

    def createDataFrame(self, *_: object, **__: object) -> None:
        """Be reached."""
        raise IsReachedError("createDataFrame")

    def __getattr__(self, name: str) -> object:
        raise IsReachedError(name)


def _tables(root: Path) -> Iterator[str]:
    sample = make_sample(root / "sample")
    yield str(sample)
    yield str(root / "absent")
    (root / "empty").mkdir()
    yield str(root / "empty")
    PaimonBuilder(root / "paimon").schema()
    yield str(root / "paimon")
    for name, text in (("cut", '{"metaData":'), ("odd", '{"protocol":7}\n'), ("nonsense", "\0\ud800")):
        damaged = make_sample(root / name)
        log = damaged / "_delta_log"
        (log / f"{14:020d}.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        yield str(damaged)


def _called(function: str, where: Any, options: dict[str, Any]) -> None:  # Any: arguments
    called: Callable[..., Any] = getattr(deltacli.spark, function)
    names = [*inspect.signature(called).parameters]
    needed = {name: value for name, value in OTHERS.items() if name in names[2:]}
    given = [where] if function in MANY else {"t": where} if function == "register_tables" else where
    called(Session(), given, **{**needed, **options})


def test_only_errors_of_deltacli_leave(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    wrong: list[str] = []

    def play(function: str, where: Any, options: dict[str, Any]) -> None:  # Any: arguments
        try:
            _called(function, where, options)
        except (DeltacliError, IsReachedError) as fault:
            found[type(fault).__name__] += 1
        except Exception as fault:  # noqa: BLE001  (the sentence that this test proves)
            if isinstance(fault, ModuleNotFoundError) and fault.name == "pyspark":
                return  # Spark is reached
            wrong.append(f"{function}({where!r:.60}, {options!r:.80}): {fault!r:.200}")

    tables = [*_tables(tmp_path)]
    texts = [text for name, text in VALUES.items() if name not in LONGEST]
    for function in FUNCTIONS:
        for table in tables:
            play(function, table, {})
        for value in ODD:
            play(function, value, {})
        draw = random.Random(zlib.crc32(function.encode()))
        for parameter in [*inspect.signature(getattr(deltacli.spark, function)).parameters][2:]:
            values = [*ODD, *texts]
            for value in values if is_soaking() else draw.sample(values, EACH):
                play(function, tables[0], {parameter: value})

    assert "" == "\n".join(wrong)
    assert {"UsageError", "NotATable", "CommitCorrupt"} <= found.keys()
    assert len(found) >= 5


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_functions_are_public(function: str) -> None:
    assert function in deltacli.spark.__all__
