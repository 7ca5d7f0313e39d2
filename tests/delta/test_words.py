"""Counts, articles and verbs in sentences, at both extremes."""

from __future__ import annotations

import pytest

from deltacli.core.texts import add_article
from deltacli.core.units import count_with_verb


@pytest.mark.parametrize(
    ("count", "verb", "words"),
    [
        (0, "have", "0 files have"),
        (1, "have", "1 file has"),
        (2, "are", "2 files are"),
        (1, "are", "1 file is"),
        (1, "were", "1 file was"),
        (1_000_000, "need", "1,000,000 files need"),
    ],
)
def test_a_verb_agrees_with_its_count(count: int, verb: str, words: str) -> None:
    assert words == count_with_verb(count, "file", verb)


@pytest.mark.parametrize("noun", ["Iceberg", "int", "array", "add", "integer", "Iceberg table"])
def test_a_vowel_has_the_longer_article(noun: str) -> None:
    assert f"an {noun}" == add_article(noun)


@pytest.mark.parametrize("noun", ["Delta", "Hudi", "Paimon", "uuid", "long", "struct", "3", "é", ""])
def test_other_nouns_have_the_shorter_one(noun: str) -> None:
    assert f"a {noun}" == add_article(noun)
