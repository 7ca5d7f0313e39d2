"""The table of engines: it agrees with the catalogue, and with the facts about clients."""

from __future__ import annotations

import pytest

from deltacli.delta.log.segment import Place
from deltacli.delta.protocol.clients import numbers
from deltacli.rules.framework.base import CATALOGUE, Severity
from deltacli.rules.framework.engines import ALL, EFFECTS, RUST, VERSIONS, Effect, effect_of, engines_stopped_by
from deltacli.rules.framework.repairs import Risk, risk_of
from deltacli.table.known_clients import read_known_clients

VALID_BY_THE_PROTOCOL = {"partition.kernel-unreadable", "path.absolute-inside-root"}
"""Rules whose findings are errors in some cases, or warnings, although engines refuse the table."""

STOPPING = [(rule, case) for rule, cases in EFFECTS.items() for case, effect in cases.items() if effect.stops_readers]


def test_each_row_is_about_a_rule_and_about_versions_of_known_clients() -> None:
    clients = {client.name: client.version for client in read_known_clients()}

    assert [] == sorted(set(EFFECTS) - set(CATALOGUE.rules))
    assert {name: numbers(version) for name, version in VERSIONS.items()} == {
        name: numbers(version) for name, version in clients.items() if version and name in VERSIONS
    }


@pytest.mark.parametrize(("rule", "case"), STOPPING)
def test_what_makes_an_engine_refuse_the_table_is_an_error_that_names_it(rule: str, case: str) -> None:
    finding = CATALOGUE.rules[rule].at(Place(""), "what is wrong", cases=(case,) if case else ())
    effect = finding.effect
    assert effect is not None

    if rule not in VALID_BY_THE_PROTOCOL:
        assert finding.severity is Severity.ERROR
        assert list(Risk).index(risk_of(finding) or Risk.PAST_WRONG) <= list(Risk).index(Risk.READERS_FAIL)
    assert effect.refuse == ALL or len(finding.message) > len("what is wrong")
    assert finding.as_json()["engines"]["refuse"] == list(effect.refuse)


def test_several_kinds_of_damage_stop_the_engines_of_all() -> None:
    both = effect_of("path.not-encoded", ("hash", "control character"))

    assert both == Effect(refuse=("spark", "kernel", "deltalake", "polars"), append=("deltalake", "polars"))
    assert effect_of("path.not-encoded", ("hash", "a case without a row")) is None
    assert RUST == engines_stopped_by(["hint.checkpoint-missing", "hint.size-wrong"])


def test_a_damage_that_every_engine_reads_keeps_no_version_from_being_read() -> None:
    rule = CATALOGUE.rules["metadata.format-not-parquet"]

    assert risk_of(rule.at(Place(""), "orc")) is None


def test_effects_were_measured_with_commits_and_say_nothing_of_log_compactions() -> None:
    rule = CATALOGUE.rules["commit.bad-json"]
    compaction = Place("_delta_log/00000000000000000001.00000000000000000002.compacted.json")

    assert rule.at(Place("_delta_log/00000000000000000001.json"), "junk").effect is not None
    assert rule.at(compaction, "junk").effect is None
