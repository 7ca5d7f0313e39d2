"""`--select`, `--ignore` and `--list-rules` of the commands that check tables and servers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError, nearest_name, quote_word

if TYPE_CHECKING:
    from deltacli.rules.framework.base import Rule

_MIN_SIMILARITY = 0.8
"""How similar a rule has to be to a misspelled one, from 0 to 1, to be suggested."""


def require_known_rules(
    run: CommandContext, command: str, rule_ids: Collection[str], select: Sequence[str], ignore: Sequence[str]
) -> None:
    """Require that each pattern of `--select` matches a rule.

    A pattern of `--ignore` without a match is only noted: the rule may exist in another version of deltacli.

    Args:
        run: The run of the command.
        command: The command, such as `validate`.
        rule_ids: The ids of the rules that the command knows, such as `log.gap`.
        select: The patterns of `--select`, such as `checkpoint.*`.
        ignore: The patterns of `--ignore`.

    Raises:
        UsageError: If a pattern of `--select` matches no rule.
    """
    for pattern in select:
        if not _matches_rule(pattern, rule_ids):
            raise _make_unknown_rule_error(command, pattern, rule_ids)
    for pattern in ignore:
        if not _matches_rule(pattern, rule_ids):
            run.note(f"note: --ignore {quote_word(pattern)} matches no rule of this version")


def list_rules(run: CommandContext, rules: Sequence[Rule], table_format: str) -> None:
    """Write the rules instead of findings.

    Raises:
        UsageError: If the format of the run is one for findings only, such as SARIF.
    """
    from deltacli.cli.render.validate.rules import RulesResult, require_list_format

    require_list_format(run.format)
    run.write(RulesResult(rules, table_format))


def _matches_rule(pattern: str, rule_ids: Collection[str]) -> bool:
    return any(fnmatchcase(rule_id, pattern) for rule_id in rule_ids)


def _make_unknown_rule_error(command: str, pattern: str, rule_ids: Collection[str]) -> UsageError:
    """Return the error for a pattern without a match. It suggests an area, a similar rule, or help on an error code."""
    from deltacli.cli.help.topics import is_error_code

    is_area = any(rule_id.startswith(f"{pattern}.") for rule_id in rule_ids)
    suggestion = f"{pattern}.*" if is_area else nearest_name(pattern, rule_ids, cutoff=_MIN_SIMILARITY)
    hint = f"deltacli {command} --list-rules"
    if suggestion is None and is_error_code(pattern):
        hint = f"deltacli help {pattern}"
    return UsageError(
        f"no rule matches {pattern!r}",
        code="usage.rule",
        facts={} if suggestion else {"error codes": "deltacli help CODE"},
        hint=hint,
    ).suggest(pattern, suggestion, is_quoted=True)
