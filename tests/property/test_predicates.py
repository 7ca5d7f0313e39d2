"""Predicates keep what a model keeps, and leave nothing unread that it would keep, whoever wrote the statistics."""

from __future__ import annotations

import io
from random import Random

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.arrow.parquet import read_footer_bytes
from deltacli.delta.predicate import Predicate, parse_predicate
from deltacli.delta.predicate.prune import prune_files
from deltacli.delta.predicate.row_groups import PredicateLeaf, kept_row_groups
from tests.delta.predicate.support import adds_of, config_of
from tests.support.effort import examples
from tests.support.predicates import Leaf, Maker, Row, array_of, batch_of
from tests.support.predicates import Predicate as Modelled
from tests.support.written_stats import is_partitionable, parquet_file, partition_text, stats_text

PREDICATES = 25
SEEDS = st.integers(0, 1 << 48)


def check_matches(seed: int) -> None:
    maker = Maker(Random(seed))
    schema = maker.schema({})
    rows: list[Row] = [maker.row() for _ in range(maker.random.randint(0, 12))]
    batch = batch_of(maker, rows)

    for _ in range(PREDICATES):
        predicate = maker.predicate(rows)
        found = parse_predicate(predicate.sql, schema).matches(batch)

        assert [predicate.truth(row) is True for row in rows] == found.to_pylist(), predicate.sql


@given(SEEDS)
@examples(20)
def test_a_predicate_keeps_what_the_model_keeps(seed: int) -> None:
    check_matches(seed)


@pytest.mark.soak
@given(SEEDS)
@settings(examples(20), max_examples=400)
def test_ten_thousand_predicates_keep_what_the_model_keeps(seed: int) -> None:
    check_matches(seed)


def check_files(seed: int) -> None:
    maker = Maker(Random(seed))
    physical = {name: f"col-{name}" for leaf in maker.leaves for name in leaf.path} if maker.chance(0.3) else {}
    schema = maker.schema(physical)
    plain = [leaf for leaf in maker.leaves if len(leaf.path) == 1 and is_partitionable(leaf.type_name)]
    partitions = maker.random.sample(plain, maker.random.randint(0, min(len(plain), 2)))
    others = [leaf for leaf in maker.leaves if leaf not in partitions]
    files = [file_rows(maker, partitions) for _ in range(maker.random.randint(1, 4))]
    adds = adds_of(
        [stats_text(maker, rows, others, physical) for rows in files],
        [
            {
                physical.get(leaf.path[0], leaf.path[0]): partition_text(maker, leaf.type_name, rows[0][leaf.path])
                for leaf in partitions
                if maker.chance(0.95)
            }
            for rows in files
        ],
    )
    config = config_of(schema, [leaf.path[0] for leaf in partitions], is_mapped=bool(physical))
    stored = [parquet_file(maker, rows, others) for rows in files if others]

    pool = [row for rows in files for row in rows]
    for _ in range(PREDICATES):
        predicate = maker.predicate(pool)
        parsed = parse_predicate(predicate.sql, schema)
        found = prune_files(adds, parsed, config)

        for rows, is_kept, by_partition in zip(
            files, found.kept.to_pylist(), found.by_partition.to_pylist(), strict=True
        ):
            if any(predicate.truth(row) for row in rows):
                assert is_kept, predicate.sql
            assert not (is_kept and by_partition)
        for rows, (data, leaves) in zip(files, stored, strict=False):
            constants = {leaf.path: constant_leaf(leaf, rows[0]) for leaf in partitions}
            check_row_groups(predicate, parsed, rows, data, {**leaves, **constants})


def constant_leaf(leaf: Leaf, row: Row) -> PredicateLeaf:
    value = array_of(leaf.type_name, [row[leaf.path]])[0]
    return PredicateLeaf(None, None, constant=value)


def check_row_groups(
    predicate: Modelled, parsed: Predicate, rows: list[Row], data: bytes, leaves: dict[tuple[str, ...], PredicateLeaf]
) -> None:
    metadata = pa.parquet.read_metadata(io.BytesIO(data))
    found = kept_row_groups(parsed, metadata, leaves, read_footer_bytes(io.BytesIO(data)))
    start = 0
    for group in range(metadata.num_row_groups):
        end = start + metadata.row_group(group).num_rows
        if any(predicate.truth(row) for row in rows[start:end]):
            assert group in found, predicate.sql
        start = end


def file_rows(maker: Maker, partitions: list[Leaf]) -> list[Row]:
    """Rows of one file: near to each other, and equal in the partition columns."""
    first = maker.row()
    rows = [first]
    for _ in range(maker.random.randint(0, 7)):
        row = maker.row()
        if row[("s",)] == first[("s",)]:
            row |= {path: value for path, value in first.items() if maker.chance(0.6)}
        rows.append({**row, **{leaf.path: first[leaf.path] for leaf in partitions}})
    return list(rows)


@given(SEEDS)
@examples(20)
def test_no_file_and_no_row_group_with_a_row_to_keep_is_left_out(seed: int) -> None:
    check_files(seed)


@pytest.mark.soak
@given(SEEDS)
@settings(examples(20), max_examples=250)
def test_nothing_is_left_out_for_minutes(seed: int) -> None:
    check_files(seed)
