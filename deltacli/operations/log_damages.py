"""What errors of a log mean for clients, for `explain`: facts about features say nothing of a damaged table.

Each client gets one of three answers per error, from the table of `rules/framework/engines.py`: it reads the table
nevertheless, it does not, or that is unknown. The second and the third name the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from deltacli.core.errors import command
from deltacli.core.texts import summarize_names
from deltacli.core.units import plural
from deltacli.delta.protocol.clients import Blocker, Client, ClientAccess, numbers
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from deltacli.rules.framework.base import Finding, Rule
from deltacli.rules.framework.choice import OWN_RULES
from deltacli.rules.framework.engines import MEASURED_ON, VERSIONS, Effect
from deltacli.rules.framework.repairs import Condition, Risk, command_of, repair_in_words, risk_of
from deltacli.rules.partitions.partitions import KERNEL_REFUSES
from deltacli.rules.schema.schema import DUPLICATE_COLUMN, UNKNOWN_TYPE, VOID_IN_COMPLEX
from deltacli.table.handle import TableHandle

ANSWERED_BY_TRAITS = frozenset({UNKNOWN_TYPE.id, DUPLICATE_COLUMN.id, VOID_IN_COMPLEX.id})
"""Rules about traits of a table, for which there are facts about each client."""
_ALSO_A_TRAIT = {KERNEL_REFUSES.id: "values.kernel-unreadable"}
"""Rules about some tables that have a trait -> the trait, whose facts then answer."""

_CONCERNS_READS = frozenset({Risk.UNREADABLE, Risk.ROWS_LOST, Risk.ROWS_WRONG, Risk.READERS_FAIL})
_CONCERNS_WRITES = _CONCERNS_READS | {Risk.WRITES_FAIL}
_MOST_NAMED = 3


class Damage(NamedTuple):
    """Errors of one rule with the same effect on engines.

    Attributes:
        rule: The violated rule.
        since: The first version that has such an error; None if it has no version, or an unknown one.
        effect: What engines do; None if that was not measured.
        concerns_reads: Whether readers may fail, or read other rows, where the effect is unknown.
        concerns_writes: Whether writers may fail, where the effect is unknown.
    """

    rule: Rule
    since: int | None
    effect: Effect | None
    concerns_reads: bool
    concerns_writes: bool

    def reads(self, client: Client, version: str | None) -> bool | None:
        """Return whether a client reads the table in spite of the damage; None if that is unknown."""
        if self.effect is not None and _is_measured(client, version):
            return self.effect.reads(client.name)
        return None if self.concerns_reads else True

    def writes(self, client: Client, version: str | None) -> bool | None:
        """Return whether a client appends to the table in spite of the damage; None if that is unknown."""
        if self.effect is not None and _is_measured(client, version):
            return self.effect.writes(client.name)
        return None if self.concerns_writes else True


class LogDamages(NamedTuple):
    """The errors of a log that readers of the newest version meet.

    Attributes:
        damages: One per rule and effect, in the order of the log.
        condition: What is known of the table, for the choice of a repair.
    """

    damages: tuple[Damage, ...]
    condition: Condition

    def warn(self, table: str) -> str:
        """Return what a user has to know about the answers for clients of a table; empty without damages."""
        if not self.damages:
            return ""
        rules = list(dict.fromkeys(damage.rule.id for damage in self.damages))
        return (
            f"the log has errors of {plural(len(rules), 'rule')} ({summarize_names(rules, _MOST_NAMED)}); what clients "
            f"do with some of them may be unknown, see {command('validate', table=table)}"
        )


def find_log_damages(table: TableHandle, traits: Collection[str]) -> LogDamages:
    """Check the log of a table with these traits, and return what concerns readers of its newest version.

    Raises:
        StorageFailed: If the log cannot be listed.
    """
    validation = validate_table(table, ValidateRequest(level="log", max_findings=0))
    damages: dict[tuple[str, Effect | None], Damage] = {}
    for finding in validation.errors_for_readers:
        damage = _damage_of(finding)
        key = damage.rule.id, damage.effect
        is_answered = damage.rule.id in ANSWERED_BY_TRAITS or _ALSO_A_TRAIT.get(damage.rule.id) in traits
        if is_answered or not (damage.concerns_reads or damage.concerns_writes):
            continue
        known = damages.get(key)
        if known is None or _is_older(damage.since, known.since):
            damages[key] = damage
    return LogDamages(tuple(damages.values()), validation.condition)


def _damage_of(finding: Finding) -> Damage:
    # A file that could not be read, and a check that failed, may hide any other error.
    may_be_anything = finding.rule.id in OWN_RULES
    risk = risk_of(finding)
    concerns_reads = may_be_anything or risk in _CONCERNS_READS
    concerns_writes = may_be_anything or risk in _CONCERNS_WRITES
    effect = finding.effect
    if effect is not None:
        # What measured engines do is known. The others are the question.
        concerns_reads = concerns_writes = True
    return Damage(finding.rule, finding.place.version, effect, concerns_reads, concerns_writes)


def _is_older(version: int | None, other: int | None) -> bool:
    return version is not None and (other is None or version < other)


def _is_measured(client: Client, version: str | None) -> bool:
    """Return whether the table of effects is about this version of a client; None is the newest known version."""
    measured = VERSIONS.get(client.name)
    asked = version if version is not None else client.version
    return measured is not None and asked is not None and numbers(asked) == numbers(measured)


def with_damages(found: ClientAccess, damages: Collection[Damage]) -> ClientAccess:
    """Return what a client does with a table, given what is wrong with the log as well."""
    client, version = found.client, found.version
    blockers, unknown = dict[str, Blocker](), dict[str, None]()
    reads, writes = found.reads, found.writes
    for damage in damages:
        rule = damage.rule.id
        still_reads = damage.reads(client, version)
        still_writes = damage.writes(client, version) if client.writes else True
        reads = _both(reads, still_reads)
        writes = _both(writes, still_writes)
        if still_reads is False or still_writes is False:
            known = blockers.get(rule, Blocker(rule, False, False))
            stops_reading = known.stops_reading or still_reads is False
            stops_writing = known.stops_writing or still_writes is False
            blockers[rule] = Blocker(rule, stops_reading, stops_writing)
        elif still_reads is None or still_writes is None:
            unknown[rule] = None
    if not blockers and not unknown:
        return found
    measured = f"measured with {VERSIONS[client.name]} ({MEASURED_ON})" if blockers else ""
    return found._replace(
        reads=reads,
        writes=writes,
        since=found.since if reads else None,
        blockers=(*found.blockers, *blockers.values()),
        unknown=(*found.unknown, *(rule for rule in unknown if rule not in blockers)),
        sources=tuple(dict.fromkeys((*found.sources, *filter(None, [measured])))),
    )


def _both(answer: bool | None, other: bool | None) -> bool | None:
    if answer is False or other is False:
        return False
    return None if answer is None or other is None else True


class RepairOfLog(NamedTuple):
    """How a log gets rid of a damage: a command that ends it or shows how, or words where none does."""

    rule: str
    command: str | None
    words: str


def find_repairs(found: LogDamages, stopping: Collection[str], table: str) -> Iterator[RepairOfLog]:
    """Yield a repair for each damage whose rule is among those that stop a client."""
    rules = {damage.rule.id: damage.rule for damage in found.damages if damage.rule.id in stopping}
    for rule_id, rule in rules.items():
        words = repair_in_words(rule, table, found.condition)
        yield RepairOfLog(rule_id, command_of(rule, table, found.condition), words)
