"""The rules that `validate` checks, according to `--select`, `--ignore`, `--level` and the format of the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltacli.api.validation import RequestedValidation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.findings import LevelChoice
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.rule_selection import require_known_rules
from deltacli.cli.shared_options import TableFormat
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import UsageError
from deltacli.rules.framework.base import CATALOGUE, Rule
from deltacli.rules.framework.choice import RuleChoice

_MAX_NAMES = 5
"""How many rules an error names."""


def choose_rules(run: CommandContext, request: RequestedValidation, levels: Sequence[str]) -> list[Rule]:
    """Return the rules that are selected, not ignored, and checked at one of the levels.

    Args:
        run: The run of the command.
        request: The values of `--select`, `--ignore` and `--level`.
        levels: The levels whose rules are returned, such as `log`.

    Raises:
        UsageError: If a selected rule does not exist, or no rule is left.
    """
    known_rules = _get_known_rules(run, request)
    try:
        require_known_rules(run, "validate", list(known_rules), request.select, request.ignore)
    except UsageError as error:
        _add_level_to_suggestion(error, known_rules, request, levels)
        raise

    rules = _filter_rules(known_rules, request, levels)
    if not rules:
        raise _make_no_rule_error(_filter_rules(known_rules, request, list(LevelChoice)), request.level)
    return rules


def _get_known_rules(run: CommandContext, request: RequestedValidation) -> Mapping[str, Rule]:
    """Return the rules by id: those for Delta tables, and those for Paimon tables if the options refer to them.

    `--select` may name a rule of either format, because the formats of the tables are not known yet.
    """
    ignores_paimon_rule = any(pattern.startswith("paimon") for pattern in request.ignore)
    needs_paimon_rules = bool(request.select) or ignores_paimon_rule
    if run.table_format is not TableFormat.PAIMON and not needs_paimon_rules:
        return CATALOGUE.rules

    from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

    if run.table_format is TableFormat.PAIMON:
        return PAIMON_CATALOGUE.rules
    return {**CATALOGUE.rules, **PAIMON_CATALOGUE.rules}


def _filter_rules(known_rules: Mapping[str, Rule], request: RequestedValidation, levels: Sequence[str]) -> list[Rule]:
    choices = [RuleChoice(level, request.select, request.ignore) for level in levels]
    return [rule for rule in known_rules.values() if any(choice.takes(rule) for choice in choices)]


def _add_level_to_suggestion(
    error: UsageError, known_rules: Mapping[str, Rule], request: RequestedValidation, levels: Sequence[str]
) -> None:
    """Complete the error for a misspelled rule if the suggested rule is checked at another level only.

    The hint then corrects the rule and the level together.
    """
    suggested_rule = known_rules.get(error.suggestion or "")
    if suggested_rule is None or suggested_rule.level in levels:
        return

    words = list(invocation.arguments)
    for position, word in enumerate(words):
        if word in request.select and word not in known_rules:
            words[position] = suggested_rule.id
    error.reason += f" It is checked at --level {suggested_rule.level}"
    error.suggestion = None
    error.hint = repeat_command_with(words, "--level", suggested_rule.level)


def _make_no_rule_error(rules_at_other_levels: Sequence[Rule], level: str) -> UsageError:
    message = f"no rule is left to check at --level {level}"
    if not rules_at_other_levels:
        return UsageError(message, code="usage.rule")
    return UsageError(
        message,
        code="usage.rule",
        facts={"at other levels": ", ".join(rule.id for rule in rules_at_other_levels[:_MAX_NAMES])},
        hint=repeat_command_with(invocation.arguments, "--level", rules_at_other_levels[0].level),
    )
