"""What the plan says of streams and shares, and what streams and the sharing server then do."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.core.errors import Refused
from deltacli.sharing.protocol.parameters import Capabilities, ResponseFormat, WireError, find_needs
from deltacli.spark.table_log import require_same_columns
from tests.support.altering import MAPPED, Altering, add, change, drop, rename, table_of

PARQUET = Capabilities(formats=(ResponseFormat.PARQUET,), reader_features=frozenset())
COLUMNS = "a int, s struct<x: int, y: int>, c int not null, p string, xs array<struct<b: int>>, m map<string, int>"

CHANGES: list[tuple[str, dict[str, Any], str | None, bool]] = [
    # what, the change, what streams and recipients see, whether recipients of the parquet format lose access
    ("rename", rename("a", "b"), "column a is now b", True),
    ("rename in a struct", rename("s.x", "z"), "column s.x is now z", True),
    (
        "rename a partition",
        rename("p", "q"),
        "column p is now q",
        True,
    ),
    ("drop", drop("a"), "column a is dropped", False),
    ("drop in a struct", drop("s.x"), "column s.x is dropped", False),
    ("add", add("n", "int"), "column n is new", True),
    ("add a timestamp", add("n", "timestamp_ntz"), "column n is new", True),
    ("add in an array", add("xs.element.`b c`", "int"), "column xs.element.`b c` is new", True),
    ("type in a map", change("type", "m.value", type="bigint"), "column m.value has another type", True),
    ("type", change("type", "a", type="bigint"), "column a has another type", True),
    ("move", change("move", "a", position="last"), None, False),
    ("move in a struct", change("move", "s.x", position="last"), None, False),
    ("comment", change("comment", "a", comment="c"), None, False),
    ("nullable", change("nullable", "c"), None, False),
    ("not-null", change("not-null", "a"), None, False),
    ("default", change("default", "a", default="5"), None, False),
    ("constraint", change("add-constraint", name="k", expression="a > 0"), None, False),
    ("table-comment", change("table-comment", comment="c"), None, False),
]


@pytest.mark.parametrize(("what", "asked", "seen", "loses"), CHANGES, ids=[one[0] for one in CHANGES])
def test_the_plan_says_what_streams_and_shares_see(
    what: str, asked: dict[str, Any], seen: str | None, loses: bool
) -> None:
    table = Altering(table_of(COLUMNS, partitions=["p"], features=["columnMapping", "invariants"]))
    assert "ok" == table.make(MAPPED)
    before = table.table.snapshot().config

    done = table.table.alter([asked], enable=True, upgrade_protocol=True)
    after = table.table.snapshot().config

    told: dict[str, list[str]] = {"alter.streams": [], "alter.shares": []}
    for caution in done.evolution.cautions:
        told.setdefault(caution.code, []).append(caution.message)
    assert ([] if seen is None else [seen]) == [text.split(": ")[1] for text in told["alter.streams"]], what
    assert (seen is not None) + loses == len(told["alter.shares"])
    assert loses == any("parquet format" in text for text in told["alter.shares"])
    if seen is None:
        require_same_columns(before, after, 1)
    else:
        with pytest.raises(Refused, match=seen):
            require_same_columns(before, after, 1)
    assert ResponseFormat.PARQUET is find_needs(before, has_vectors=False).choose(PARQUET, "t")
    if loses:
        with pytest.raises(WireError):
            find_needs(after, has_vectors=False).choose(PARQUET, "t")
    else:
        assert ResponseFormat.PARQUET is find_needs(after, has_vectors=False).choose(PARQUET, "t")


def test_a_mapping_alone_is_not_seen() -> None:
    table = Altering(table_of(COLUMNS))

    done = table.table.alter([MAPPED], upgrade_protocol=True)

    assert [] == [caution for caution in done.evolution.cautions if caution.code in ("alter.streams", "alter.shares")]
    assert ResponseFormat.PARQUET is find_needs(table.table.snapshot().config, has_vectors=False).choose(PARQUET, "t")


def test_the_plan_names_partitions_that_duckdb_reads_wrong() -> None:
    """Measured: those behind a column with another name in files are null, or have the values of others."""
    table = Altering(table_of("a int, b int, p string, q string", partitions=["p", "q"], features=["columnMapping"]))
    assert "ok" == table.make(MAPPED)

    def warned(*changes: dict[str, Any]) -> list[str]:
        done = table.table.alter(list(changes), dry_run=True)
        return [one.message for one in done.evolution.cautions if one.code == "alter.reader-partitions"]

    assert [] == warned(rename("a", "n")) == warned(rename("p", "n")) == warned(drop("b"))
    assert ["p, q"] == [
        text.partition("partition columns ")[2].partition(", because")[0] for text in warned(rename("b", "n"))
    ]
    assert 1 == len(warned(add("n", "int", position="before:q")))
    moved = [change("move", "q", position="first"), change("move", "p", position="first")]
    assert [] == warned(rename("b", "n"), *moved)
    assert 1 == len(warned(rename("b", "n"), moved[1]))
