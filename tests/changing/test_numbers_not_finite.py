"""No commit of ours has NaN or Infinity in its schema, also where the table has them already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import Refused
from deltacli.delta.evolution.requests import SetComment
from tests.support.actions import commit_info, metadata, protocol
from tests.support.builder import LOG, TableBuilder

CODE = "commit.number-not-finite"


def _schema(share: float) -> str:
    inner = {"name": "inner", "type": "long", "nullable": True, "metadata": {"ml": {"shares": [0.5, share]}}}
    outer = {"name": "outer", "type": {"type": "struct", "fields": [inner]}, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [outer]})


@pytest.fixture(params=[float("nan"), float("-inf")], ids=["NaN", "-Infinity"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table whose version 1 has a schema with a number that JSON does not have; that of version 0 is valid."""
    builder = TableBuilder().commit(commit_info(), protocol(1, 2), metadata(schemaString=_schema(0.25)))
    return builder.commit(commit_info(), metadata(schemaString=_schema(request.param))).write(tmp_path / "t")


def test_a_commit_that_would_repeat_such_a_schema_is_refused_with_its_column(root: Path) -> None:
    table = open_table(str(root))

    for change in (
        lambda: table.plan_set_properties({"owner": "ops"}),
        lambda: table.set_properties({"owner": "ops"}),
        lambda: table.alter([SetComment("outer", "x")]),
    ):
        with pytest.raises(Refused) as refused:
            change()
        assert CODE == refused.value.code
        assert "outer.inner" in refused.value.message
        assert "metadata.ml.shares" in refused.value.message

    assert 2 == len(list((root / LOG).glob("*.json")))


def test_a_commit_without_a_schema_and_one_that_repairs_it_are_made(root: Path) -> None:
    table = open_table(str(root))

    table.add_features(["deletionVectors"])
    table.restore(version=0)
    table.set_properties({"owner": "ops"})

    assert not [one for one in (root / LOG).glob("*[234].json") if b"NaN" in one.read_bytes()]


def test_a_table_with_such_a_schema_can_be_copied(root: Path, tmp_path: Path) -> None:
    """The copy has the commits of its source, so that the commit with an id of its own adds no fault."""
    open_table(str(root)).copy(str(tmp_path / "copy"))

    copied = open_table(str(tmp_path / "copy")).snapshot()
    assert 2 == copied.version
    assert open_table(str(root)).snapshot().metadata.schema_string == copied.metadata.schema_string


def test_a_text_and_a_number_beyond_all_floats_are_json(tmp_path: Path) -> None:
    schema = _schema(0.25).replace("0.25", '"NaN", 1e999')
    builder = TableBuilder().commit(commit_info(), protocol(1, 2), metadata(schemaString=schema))
    root = builder.write(tmp_path / "t")

    open_table(str(root)).set_properties({"owner": "ops"})

    assert 2 == len(list((root / LOG).glob("*.json")))
