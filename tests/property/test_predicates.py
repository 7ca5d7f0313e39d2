"""Predicates keep what a model keeps, and leave nothing unread that it would keep, whoever wrote the statistics."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.predicate import parse_predicate
from tests.support.effort import examples
from tests.support.predicates import Maker, batch_of

PREDICATES = 25
SEEDS = st.integers(0, 1 << 48)


def check_matches(seed: int) -> None:
    maker = Maker(Random(seed))
    schema = maker.schema({})
    rows = [maker.row() for _ in range(maker.random.randint(0, 12))]
    batch = batch_of(maker, rows)

    for _ in range(PREDICATES):
        predicate = maker.predicate(rows)
        found = parse_predicate(predicate.sql, schema).matches(batch)

        assert [predicate.truth(row) is True for row in rows] == found.to_pylist(), predicate.sql


@given(SEEDS)
@examples(40)
def test_a_predicate_keeps_what_the_model_keeps(seed: int) -> None:
    check_matches(seed)


@pytest.mark.long
@given(SEEDS)
@settings(examples(40), max_examples=400)
def test_ten_thousand_predicates_keep_what_the_model_keeps(seed: int) -> None:
    check_matches(seed)
