"""Hints for columns that are nested: they name the whole path, in the command that was typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltacli.core.errors import nearest_path
from tests.cli.support import deltacli
from tests.support.altering import fields_of

COLUMNS = (
    "id bigint, tip int, ride struct<city: string, fare: float, place: struct<zip: int>>, "
    "m map<string, struct<deep: int>>"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a table of nested columns."""
    home = tmp_path_factory.mktemp("nested")
    metadata = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields_of(COLUMNS)}),
        "partitionColumns": [],
        "configuration": {},
    }
    (home / "n" / "_delta_log").mkdir(parents=True)
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (home / "n" / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return home


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("read n --columns ride.city --limit 3", "read n --columns ride --limit 3"),
        ("read n --columns id,city", "read n --columns id,ride"),
        ("changes n --from 0 --columns city", "changes n --from 0 --columns ride"),
        ("read n --where city='x'", "read n --where \"ride.city='x'\""),
        ("alter n drop ride.cty --yes", "alter n drop ride.city --dry-run"),
        ("alter n rename fare price --upgrade-protocol", "alter n rename ride.fare price --upgrade-protocol"),
        ("alter n add place.x int --dry-run", "alter n add ride.place.x int --dry-run"),
        ("alter n move tip after:idd --dry-run", "alter n move tip after:id --dry-run"),
        ("widen-type n fare double --dry-run --enable", "widen-type n ride.fare double --dry-run --enable"),
        ("widen-type n deep long --dry-run", "widen-type n m.value.deep long --dry-run"),
        ("optimize n --zorder id,city --dry-run", "optimize n --zorder id,ride.city --dry-run"),
        ("explain n --if widen=ride.far:double", "explain n --if widen=ride.fare:double"),
    ],
)
def test_a_hint_names_the_whole_path(line: str, hint: str, home: Path) -> None:
    done = deltacli(*line.split(), cwd=home)

    assert (2, f"hint: deltacli {hint}") == (done.code, done.err.splitlines()[-1])


@pytest.mark.parametrize(
    ("path", "near"),
    [
        (("ride", "cty"), ("ride", "city")),
        (("rid",), ("ride",)),
        (("CITY",), ("ride", "city")),
        (("town", "city"), ("ride", "city")),
        (("zipp",), ("ride", "to", "zip")),
        (("amount",), None),
    ],
)
def test_the_nearest_path(path: tuple[str, ...], near: tuple[str, ...] | None) -> None:
    known = [("id",), ("ride",), ("ride", "city"), ("ride", "to"), ("ride", "to", "zip"), ("m", "value", "city")]

    assert near == nearest_path(path, known)
