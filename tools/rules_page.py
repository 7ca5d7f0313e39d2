"""Generate the pages of rules: docs/rules.md and two like it list them, and docs/rules/ has the details of each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from deltacli.rules.framework.base import CATALOGUE, Area, Rule
from deltacli.rules.framework.repairs import get_repair_row
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from deltacli.rules.paimon.table_options import CHECKS as OPTION_CHECKS
from deltacli.sharing.conformance.run import areas as conformance_areas

OUTCOMES = Path(__file__).resolve().parent.parent / "tests" / "operations" / "repair" / "outcomes.json"
"""What became of each corruption that the tests make of a rule with steps: rule -> corruption -> outcome."""

_HEAD = """\
# Rules

What `deltacli validate` checks, by what you want to know. Each rule links to its details: what breaks, how to repair
it, what the repair loses, and an example. `deltacli help RULE` shows the same in a terminal, and
`deltacli validate --list-rules` lists all.

An **error** violates a MUST, loses or duplicates rows, or makes some engine fail; a **warning** violates a SHOULD, or
engines disagree about it; an **info** is an observation. The level is the least `--level` that checks the rule.
"""


_PAIMON_HEAD = """\
# Rules for Paimon tables

What `deltacli validate` checks on a Paimon table. Each rule links to its details, which `deltacli help RULE` shows as
well; `deltacli validate --list-rules --table-format paimon` lists all.

An **error** makes Paimon refuse the table or read wrong rows; a **warning** is something that readers disagree about;
an **info** is an observation. All rules are checked at every `--level`.
"""


_DETAILS_HEAD = """\
# {title}

What each rule reports, what breaks, how to repair it and what the repair loses. [{name}](../{page}) lists all rules.
"""

_REPAIR = """
The row `deltacli repair` has the [steps](../repair.md) that it takes, and the results on the damaged tables of the
tests.
"""


_SHARE_HEAD = """\
# Conformance suite for Delta Sharing and OpenSharing servers

`deltacli share test` is a conformance suite: it checks any server of Delta Sharing or OpenSharing, whoever wrote it,
against the text of the protocol. Each deviation is a finding that names the paragraph it breaks. The suite is open
source, and sees a server as a recipient does: all that it needs is a profile file. [The rules](#rules) are listed at
the end of this page.

## For authors of servers

Share a few tables with one recipient, and run the suite against the endpoint in CI:

```sh
pip install "deltacli[share-client]"
deltacli share test acme.share --level data --format junit --output share.xml
deltacli share test acme.share --profile-of opensharing
deltacli share test acme.share#sales.eu.orders --probe-scope
deltacli share test https://share.example.com/api --profile acme.share --format sarif --output share.sarif
```

**A pass** is exit code 0 with `"complete": true` in the document: no finding of severity error, and no limit that ended
the test early. It holds for the version of deltacli, the profile (`--profile-of`), the level, and the rules that are
listed as checked, of the tables that were tested. A rule that the server has nothing for is listed as not checked, with
the reason; it did not pass. A full pass is one per rule: the tables need the features under
[What is not checked](#what-is-not-checked), one of them offered by directory, and a server that answers asynchronously.

**Citing a result**: name the version, the profile, the level, and the rules that were not checked, as in "passes
`deltacli share test` 0.2.0 for the profile opensharing at level data; not checked: share.credential-sas". The ids of
rules keep their meaning once released. Each rule has an anchor on this page, such as `#sharedir-scope` for
`share.dir-scope`.

**Known deviations** are accepted by `--write-baseline known.json`, then `--baseline known.json`: only new ones fail.

The profile `delta-sharing`, the default, is the protocol of delta-io/delta-sharing with access by directory, temporary
credentials, asynchronous queries and share metadata, as of August 2026. The profile `opensharing` adds the rules on the
routes that OpenSharing has beside it: [tables](#opensharing-tables) and [other assets](#opensharing-assets).

The address is a profile, a table in it, or the URL of the server with `--profile`. The token is sent to the endpoint of
the profile only, over https or to an address of this machine, and never with the URL of a file. Redirects are not
followed.

## What is sent

Requests that only read, one at a time: about 30 about the server and 80 per table. `--max-requests` (2,000),
`--max-tables` (10), `--time-budget` and `--pause` limit them. A server that answers 429 or 503 with Retry-After is
given that time. A server that answers asynchronously is polled for at most 75 seconds per query.

Some requests are wrong on purpose: names that do not exist, damaged parameters and bodies, one request without a token
and one with a made-up one. The log of the server will show them.

- `--level api` sends requests to the API only.
- `--level footers`, the default, also fetches the last 64 KiB of up to 3 files per table, without the token.
- `--level data` also fetches those files whole, up to 64 MiB each, and compares their rows with their statistics.

Of a table that is offered by directory at most 4 credentials are asked for successfully; `--no-credentials` asks for
none. They are kept in memory, and no finding has one. From level `footers` on the log and the ends of up to 3 files are
read with them, by the same reader as every other table, below the location only; level `data` also compares the rows of
small tables with those behind the URLs. Credentials for a location outside the table are asked for, and have to be
refused. The store itself is asked for something outside, the listing of the parent and of a sibling, only with
`--probe-scope`. `--storage-option` gives the region or the endpoint of a store that is not that of the cloud.

A hint is compared with the answer without hints: a file that must have a matching row, by its partition values or by
the exact bounds of its statistics, must be in the answer.

## What is not checked

A rule passes only where something was compared. A server without a table that has deletion vectors, history or a change
data feed cannot show that it gets them right: these rules are listed as not checked, per table, with the reason
(`notChecked`, and `skipped` in JUnit and JSON). To check a server as a whole, test tables that have these features: a
partitioned one, one with deletion vectors, one with column mapping, one with a change data feed, each of several files
and versions; one that is offered by directory only, and one on Azure for the rule on SAS tokens.

## Formats, severities, exit codes

`--format`, `--select`, `--ignore`, `--fail-on`, `--baseline`, `--write-baseline`, `--max-findings` and `--exit-zero`
are those of [validate](validate.md). The document is [deltacli.share-test](schemas/deltacli.share-test.json); a suite
is the server or one table.

| exit | meaning |
|---|---|
| 0 | no finding reaches `--fail-on` |
| 1 | a finding does |
| 2 | the profile cannot be used, or the server refuses its token |
| 3 | there is no such server or no such table |
| 5 | no finding, and a limit on requests or time ended the test early |
| 7 | the server cannot be reached |

An **error** loses rows, shows them to others, or makes clients fail; a **warning** is something that only some clients
notice; an **info** is a remark. `deltacli share test --list-rules` prints the list below.

## Rules
"""


class Question(NamedTuple):
    """What an operator wants to know of a table: the name of its page of details, and the areas of rules about it."""

    title: str
    page: str
    areas: str


QUESTIONS = (
    Question("Can every version be read?", "versions", "log_files commit_lines actions history commit_times"),
    Question(
        "Do checkpoints and checksums agree with the log?", "checkpoints", "checkpoints hint checksums compactions"
    ),
    Question("Which clients can read and write it?", "protocol", "protocol metadata properties clustering iceberg"),
    Question("Do all engines see the same columns?", "columns", "schema mapping widening partitions expressions"),
    Question("Are all data files there and whole?", "files", "paths storage data_files deletion_vectors"),
    Question("Can queries skip the wrong files?", "statistics", "statistics"),
    Question("Are change feeds and row ids right?", "changes", "change_data row_tracking"),
)
"""In the order of docs/rules.md. Each area of the catalogue is in one of them."""

_TITLES = {
    "actions": "Actions of commits",
    "change_data": "Change data",
    "commit_lines": "Lines of commits",
    "commit_times": "Times of commits",
    "data_files": "Data files",
    "deletion_vectors": "Deletion vectors",
    "expressions": "Constraints, generated and identity columns",
    "hint": "The hint `_last_checkpoint`",
    "log_files": "Files of the log",
    "mapping": "Column mapping",
    "partitions": "Partition values",
    "row_tracking": "Row tracking",
    "storage": "The listing of the store",
    "widening": "Wider types",
}
"""Area -> its heading, if it is not its name."""


def render_rules_pages() -> dict[str, str]:
    """Return each page of rules in Markdown, by its path below docs/."""
    areas = {area.name: area for area in CATALOGUE.areas()}
    asked = [(question, [areas.pop(name) for name in question.areas.split()]) for question in QUESTIONS]
    if areas:
        raise SystemExit(f"error: tools/rules_page.py has no question for the rules about {', '.join(areas)}")
    pages = {
        f"rules/{question.page}.md": _details(question.title, ("Rules", "rules.md"), of, note=_REPAIR)
        for question, of in asked
    }
    demands: dict[str, list[str]] = {}
    for check in OPTION_CHECKS:
        demands.setdefault(check.rule.id, []).extend(check.sentences)
    paimon, share = PAIMON_CATALOGUE.areas(), conformance_areas()
    of_paimon, of_share = (
        ("Rules for Paimon tables", "paimon-rules.md"),
        ("The conformance suite", "sharing-conformance.md"),
    )
    return {
        "rules.md": _index(_HEAD, asked),
        **pages,
        "paimon-rules.md": _index(_PAIMON_HEAD, [(Question("", "paimon", ""), paimon)]),
        "rules/paimon.md": _details("Rules for Paimon tables, in detail", of_paimon, paimon, demands=demands),
        "sharing-conformance.md": _index(_SHARE_HEAD, [(Question("", "sharing", ""), share)]),
        "rules/sharing.md": _details("Rules of the conformance suite, in detail", of_share, share),
    }


def repair_outcomes() -> list[str]:
    """Return the sentence of docs/repair.md on what became of the corruptions that the tests make."""
    outcomes = _outcomes()
    every = [outcome for found in outcomes.values() for outcome in found]
    return [f"Tried without a source on {len(every)} corruptions of {len(outcomes)} rules: {_tried(every)}."]


@cache
def _outcomes() -> dict[str, list[str]]:
    return {rule: [*found.values()] for rule, found in json.loads(OUTCOMES.read_text(encoding="utf-8")).items()}


def _repair_of(rule: str) -> str:
    """Return the steps of `repair` for a rule, with what became of its corruptions, or why it has none."""
    row = get_repair_row(rule)
    if not row.steps:
        return f"no step: {row.reason}"
    lost = "; gives up the rows of the file, if no source has it" if row.loses else ""
    return (
        f"{', '.join(row.steps)}{lost}; tests of it without a source: {_tried(_outcomes().get(rule, ())) or 'others'}"
    )


def _tried(outcomes: Sequence[str]) -> str:
    """Return how many of the outcomes are of each kind, which is what stands before the colon."""
    counted = Counter(outcome.partition(":")[0] for outcome in outcomes)
    return ", ".join(f"{count} {kind}" for kind, count in counted.most_common())


_ROWS_HEAD = ("| rule | what it reports | severity | level |", "|---|---|---|---|")


def _index(head: str, asked: Sequence[tuple[Question, Sequence[Area]]]) -> str:
    """Return the page that lists rules. Each row has the id that the rule had as a heading of this page."""
    rules = [rule for _, areas in asked for area in areas for rule in area.rules]
    counts = (Counter(rule.severity.value for rule in rules), Counter(rule.level.value for rule in rules))
    levels = f"; by level: {_counted(counts[1])}" if len(counts[1]) > 1 else ""
    lines = [head, f"{len(rules)} rules: {_counted(counts[0])}{levels}.", ""]
    links = {question.title: ", ".join(map(_link_to, areas)) for question, areas in asked}
    if len(asked) == 1:
        lines += [f"Rules about: {', '.join(links.values())}."]
    else:
        rows = (f"| [{title}](#{_anchor(title)}) | {about} |" for title, about in links.items())
        lines += ["| you want to know | rules about |", "|---|---|", *rows]
    for question, areas in asked:
        lines += ["", f"## {question.title}"] if question.title else []
        for area in areas:
            lines += ["", f"{'###' if question.title else '##'} {_title(area)}", "", *_ROWS_HEAD]
            lines += [_row(rule, question.page) for rule in area.rules]
    return "\n".join([*lines, ""])


def _link_to(area: Area) -> str:
    """Return a link to the heading of an area, with the id that the heading had when it was the name of the area."""
    title = _title(area)
    former = f'<a id="{area.name}"></a>' if area.name in _TITLES else ""
    return f"{former}[{title}](#{_anchor(title)})"


def _row(rule: Rule, page: str) -> str:
    anchor = _anchor(rule.id)
    link = f'<a id="{anchor}"></a>[`{rule.id}`](rules/{page}.md#{anchor})'
    return f"| {link} | {_text(rule.checks)} | {rule.severity} | {rule.level} |"


def _details(
    title: str,
    back: tuple[str, str],
    areas: Sequence[Area],
    *,
    note: str = "",
    demands: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Return the page with the details of rules. `back` is the page that lists them, and `demands` are what single
    rules demand, by rule.
    """
    lines = [_DETAILS_HEAD.format(title=title, name=back[0], page=back[1]) + note]
    for area in areas:
        lines += [f"## {_title(area)}"]
        for rule in area.rules:
            lines += [*_rule(rule), *_listed(demands.get(rule.id, ()))]
        lines += [""]
    return "\n".join(lines)


def _title(area: Area) -> str:
    return _TITLES.get(area.name, area.name[0].upper() + area.name[1:])


def _listed(sentences: Sequence[str]) -> list[str]:
    return ["", *(f"- {_text(sentence)}" for sentence in sentences)] if len(sentences) > 1 else []


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _anchor(title: str) -> str:
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def _rule(rule: Rule) -> list[str]:
    rows = [
        ("severity", f"{rule.severity}, level `{rule.level}`"),
        ("specification", _text(rule.spec)),
        ("broken", _text(rule.fix.broken)),
        ("repair", _text(rule.fix.repair)),
        *([] if rule.id.startswith("share.") else [("lost by the repair", _text(rule.fix.loss))]),
        *([("`deltacli repair`", _text(_repair_of(rule.id)))] if rule.id in CATALOGUE.rules else []),
        ("example", _code(rule.example) if rule.example else ""),
    ]
    head, *table = [f"| {name} | {text} |" for name, text in rows if text]
    return ["", f"### `{rule.id}`", "", _text(rule.checks), "", head, "|---|---|", *table]


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
