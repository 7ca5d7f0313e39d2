"""Generate docs/rules.md: every rule of `validate`, by area."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module

from deltacli.cli.render.validate.report import LEVEL_NAMES
from deltacli.delta.rules.framework.base import Area, Rule
from deltacli.delta.rules.framework.catalogue import AREAS, catalogue

_HEAD = """\
# Rules

What `deltacli validate` checks. Generated from the catalogue; `deltacli validate --list-rules` prints the same list.

An **error** violates a MUST, loses or duplicates rows, or makes some engine fail; a **warning** violates a SHOULD, or
engines disagree about it; an **info** is an observation. `--level` is the least one that checks the rule. The old draft
is the one that `--profile draft` asks for; a rule without a paragraph there is not checked with it.
"""


def render_rules_page() -> str:
    """Return the page in Markdown."""
    areas: list[Area] = [import_module(f"deltacli.delta.rules.{name}").AREA for name in AREAS]
    rules = list(catalogue().rules.values())
    severities = Counter(rule.severity.value for rule in rules)
    levels = Counter(LEVEL_NAMES[rule.level] for rule in rules)
    lines = [_HEAD, f"{len(rules)} rules: {_counted(severities)}; by level: {_counted(levels)}.", ""]
    lines += [f"- [{area.name}](#{_anchor(area.name)}): {len(area.rules)}" for area in areas if area.rules]
    for area in areas:
        if area.rules:
            lines += ["", f"## {area.name}"]
            lines += [line for rule in area.rules for line in _rule(rule)]
    return "\n".join([*lines, ""])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def _rule(rule: Rule) -> list[str]:
    rows = [
        ("severity", f"{rule.severity}, level `{LEVEL_NAMES[rule.level]}`"),
        ("old draft", _text(rule.seed) or "not covered"),
        ("current text", _text(rule.spec)),
        ("broken", _text(rule.fix.broken)),
        ("repair", _text(rule.fix.repair)),
        ("lost by the repair", _text(rule.fix.loss)),
        ("example", _code(rule.example) if rule.example else ""),
    ]
    table = [f"| {name} | {text} |" for name, text in rows if text]
    return ["", f"### `{rule.id}`", "", _text(rule.checks), "", "| | |", "|---|---|", *table]


def _text(text: str) -> str:
    """Return a text for a table cell, in which only code is markup."""
    escaped = text.replace("|", "\\|").replace("\n", " ")
    parts = re.split(r"(`[^`]*`)", escaped)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts)


def _code(text: str) -> str:
    """Return a text as code, enclosed in more backticks than it contains, with bars escaped for table cells."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    shown = text.replace("|", "\\|").replace("\n", " ")
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"
