"""Make the topics of `deltacli help WORD` from the documentation, the properties and the table features.

A topic is a title and blocks: a paragraph, `["text"]`; names with their meanings, `[["name", "meaning"], …]`; or the
lines of an example, `{"code": […]}`. No text is written here but the labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

from deltacli.cli.exit_codes import read_exit_codes
from deltacli.cli.help_topics import listed
from deltacli.core.errors import EXIT_CODES, EXIT_FINDINGS
from deltacli.core.typing import Json
from deltacli.delta.protocol.features import CATALOG_FEATURES, FEATURES, OF_UNREAD_TYPES, Feature, stable_name
from deltacli.delta.protocol.known_properties import CHOICES, MEANINGS, NUMBERS, PATTERNS, known_keys, property_kind
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from tools.command_tree import read_commands

DOCS = Path(__file__).resolve().parent.parent / "docs"

SECTIONS: Mapping[str, tuple[str, str]] = {
    "conditions": ("reading.md", "Conditions"),
    "configuration": ("scripting.md", "Configuration file"),
    "confirmation": ("scripting.md", "Confirmation"),
    "credentials": ("stores.md", "Credentials"),
    "documents": ("scripting.md", "Documents"),
    "durations": ("scripting.md", "Sizes, durations and times"),
    "environment": ("scripting.md", "Environment and configuration"),
    "exit-codes": ("scripting.md", "Exit codes"),
    "formats": ("scripting.md", "Formats"),
    "glossary": ("glossary.md", "Glossary"),
    "guards": ("vacuum.md", "Guards"),
    "output-streams": ("scripting.md", "Streams"),
    "pager": ("scripting.md", "Pager"),
    "permissions": ("stores.md", "Permissions"),
    "progress": ("scripting.md", "Progress"),
    "retries": ("stores.md", "Retries"),
    "signals": ("scripting.md", "Signals"),
    "tasks": ("index.md", "First commands"),
    "topics": ("scripting.md", "Help"),
}
"""Topic -> the page and the section that it shows."""

SHOWN: Mapping[str, str] = {
    "conditions": "what a condition of --where can say",
    "configuration": "the configuration file, and what overrides it",
    "confirmation": "which commands ask, and what they do in scripts",
    "credentials": "where credentials of S3, Google Cloud Storage and Azure are found",
    "documents": "JSON documents, their schemas, and what programs can rely on",
    "durations": "how sizes, durations and times are written",
    "environment": "environment variables",
    "exit-codes": "what each exit code means",
    "formats": "the formats of stdout, and which commands have them",
    "glossary": "the words of the commands, each also a word of `deltacli help`",
    "guards": "why a vacuum is refused, and what overrides it",
    "output-streams": "what stdout and stderr have",
    "pager": "when a result is shown in a pager",
    "permissions": "which permissions of a store each command needs",
    "progress": "what is reported while a command runs",
    "retries": "which requests are repeated, and for how long",
    "signals": "what Ctrl-C and other signals do",
    "tasks": "common questions, and the command to begin with",
}
"""Topic -> what it shows, for the list of topics."""

OTHER_NAMES: Mapping[str, str] = {
    "129": "signals",
    "130": "signals",
    "141": "output-streams",
    "143": "signals",
    "azure": "credentials",
    "commands": "tasks",
    "cdf": "delta.enableChangeDataFeed",
    "config": "configuration",
    "gcs": "credentials",
    "errors": "exit-codes",
    "examples": "tasks",
    "help": "topics",
    "json": "documents",
    "ndjson": "documents",
    "s3": "credentials",
    "schemas": "documents",
    "sizes": "durations",
    "start": "tasks",
    "time": "durations",
    "tombstone": "delta.deletedFileRetentionDuration",
    "time-travel": "tasks",
    "times": "durations",
    "timestamps": "durations",
    "timetravel": "tasks",
    "where": "conditions",
}
"""Other names of topics."""

GLOSSARY = "glossary.md"
ERRORS, TO_DO_LABEL = "errors.md", "what to do"
"""The page of the codes of errors, and its column of what to do about each and about each family, such as `alter.*`."""

_ORDER = {"exit code": 0, TO_DO_LABEL: 2, "in Spark": 3}
"""Label -> its place among those of a code, 1 for others."""

_CODE = re.compile(r"[a-z][a-z-]*(?:\.[a-z][a-z0-9-]*)?")
_BLOCKS = re.compile(
    r"^```[^\n]*\n(.*?)^```|^(<!--[^\n]*)|((?:^[|][^\n]*\n?)+)|((?:^(?![|]|```|<!--)[^\n]+\n?)+)", re.M | re.S
)


def render_help_topics(pages: Mapping[str, str]) -> str:
    """Return every topic as JSON, one a line; `pages` are those that are generated at the same time, by name."""
    read = {page.name: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))} | dict(pages)
    topics = dict(chain(_codes(read), _exit_codes(), _properties(), _features(read["properties.md"]), _sections(read)))
    for name, meant in OTHER_NAMES.items():
        topics[name] = topics[meant]
    for name, topic in _glossary(read[GLOSSARY]):
        topics[name] = topic if name not in topics else topic | {"blocks": [*topic["blocks"], *topics[name]["blocks"]]}
    for name, row in _variables(topics["environment"]["blocks"]):
        topics.setdefault(name, {"title": f"{name} is an environment variable.", "blocks": [[row]]})
    lines = (f"{json.dumps(name)}: {json.dumps(topics[name], ensure_ascii=False)}" for name in sorted(topics))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _glossary(page: str) -> Iterator[tuple[str, Any]]:
    """Yield the words of the glossary, those of two with a hyphen between them."""
    for term, meaning in re.findall(r"^- \*\*([^*]+)\*\*: (.+)", page, re.M):
        yield term.replace(" ", "-"), {"title": f"{term}, in docs/{GLOSSARY}", "blocks": [_plain(meaning)]}


def _variables(blocks: Iterable[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the variables in the blocks of the environment, each with its row."""
    for row in chain.from_iterable(block for block in blocks if isinstance(block, list)):
        for name in re.findall(r"[A-Z][A-Z_]+(?:[A-Z](?!\w|…)|…)", row[0]):
            yield name, row


def topic_rows() -> list[str]:
    """Return the table of topics, with the other names of each."""
    others = {
        name: ", ".join(f"`{other}`" for other, meant in OTHER_NAMES.items() if meant == name) for name in SECTIONS
    }
    rows = [f"| `{name}` | {text}{f' (also {others[name]})' if others[name] else ''} |" for name, text in SHOWN.items()]
    return ["| topic | shows |", "|---|---|", *rows]


def _section(page: str, heading: str) -> str:
    """Return the text of a section of a page, up to the next heading of its level."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{2,3}} |\Z)", page, re.M | re.S)
    if found is None:
        raise SystemExit(f"error: no section {heading!r} for tools/help_topics.py")
    return found[2]


def _sections(pages: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
    for name, (page, heading) in SECTIONS.items():
        yield name, {"title": heading, "blocks": _blocks(_section(pages[page], heading))}


def _blocks(text: str) -> list[Json]:
    blocks: list[Json] = []
    for code, comment, table, prose in _BLOCKS.findall(text):
        if comment:
            continue
        if table:
            heading, *rows = _rows(table)
            blocks.append([[first, _labelled(heading[1:], others)] for first, *others in rows])
        elif prose:
            blocks += [_plain(" ".join(item.split())) for item in re.split(r"\n(?=- )", prose)]
        else:
            blocks.append({"code": [line for line in code.splitlines() if line.strip() and line[:4] != "# ->"]})
    return blocks


def _labelled(heading: list[str], cells: list[str]) -> str:
    """Return the cells of a row, one a line, each behind the heading of its column; a single one is alone."""
    if len(heading) == 1:
        return cells[0]
    return "\n".join(f"{label}: {cell}" for label, cell in zip(heading, cells, strict=True) if cell)


def _rows(table: str) -> list[list[str]]:
    """Return the cells of the table in a text of Markdown, its heading first."""
    lines = [line.strip().strip("|") for line in table.splitlines() if line.startswith("|")]
    cells = [[_plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    return [cells[0], *cells[2:]]


def _plain(text: str) -> str:
    """Return a text of Markdown without its marks."""
    text = re.sub(r"<a id=[^>]*></a>|\[([^]]+)\]\([^)]*\)", r"\1", text).replace("\\|", "|")
    text = re.sub(r"(?<![\w.*`])\*([A-Za-z][A-Za-z ]*)\*(?![\w*`])", r"\1", text)
    return re.sub(r"`([^`]+)`|\*\*([^*]+)\*\*", r"\1\2", text)


def _codes(pages: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
    """Yield what the pages say about the codes of errors, refusals and warnings, most detailed last. What to do about
    a rule is what the rule says. A page about Spark has a case, where the page of errors has what to do in general.
    """
    rules = {*CATALOGUE.rules, *PAIMON_CATALOGUE.rules}
    rows = (
        (codes, dict(zip(heading, cells, strict=True))) for heading, codes, *cells in _rows_about_codes(pages[ERRORS])
    )
    general = {code: row[TO_DO_LABEL] for codes, row in rows for code in codes if row.get(TO_DO_LABEL)}
    found: dict[str, list[list[str]]] = {}
    for page, text in pages.items():
        for heading, codes, *cells in _rows_about_codes(text):
            for code in filter(_CODE.fullmatch, codes):
                is_case = page.startswith("spark-") and code in general
                labels = ("in Spark" if is_case and label == TO_DO_LABEL else label for label in heading)
                entries = found.setdefault(code, [])
                entries += [pair for pair in map(_pair, labels, cells) if pair not in entries and pair[1]]
    families = sorted((code for code in general if "*" in code), key=len, reverse=True)
    for code, entries in found.items():
        entries[:] = [pair for pair in entries if pair[0] not in (TO_DO_LABEL, "in Spark") or code not in rules]
        if code not in rules and not any(label == TO_DO_LABEL for label, _ in entries):
            family = next((one for one in families if fnmatchcase(code, one)), None)
            exits = re.findall(r"\d+", dict(entries).get("exit code", ""))
            if family:
                entries.append([TO_DO_LABEL, general[family]])
            elif exits:
                entries.append([TO_DO_LABEL, EXIT_CODES[int(exits[0])].advice])
        entries.sort(key=lambda pair: _ORDER.get(pair[0], 1))
        yield code, {"title": f"{code} is a code of errors, refusals or warnings.", "blocks": [entries]}


def _rows_about_codes(page: str) -> Iterator[tuple[Any, ...]]:
    """Yield of each row of the tables of codes: the headings of its cells, its codes, and the cells behind them."""
    for table in re.findall(r"^\| code \|.*\n(?:^\|.*\n)+", page, re.M):
        heading, *rows = _rows(table)
        for first, *cells in rows:
            yield (heading[1:], re.split(r", | and ", first), *cells)


def _pair(label: str, text: str) -> list[str]:
    return ["exit code" if label == "exit" else label, re.sub(r"; see [^;]*\.md$| \(list\)$", "", text)]


def exit_code_rows() -> list[str]:
    """Return the table of exit codes."""
    rows = [f"| {code.number} | {code.meaning} | {code.advice} |" for code in EXIT_CODES.values()]
    signals = "signal N (130: interrupted, 141: the reader closed the pipe, 143: terminated)"
    return [
        "| code | meaning | what to do |",
        "|---|---|---|",
        *rows,
        f"| 128+N | {signals} | see `deltacli help signals` |",
    ]


def _exit_codes() -> Iterator[tuple[str, Json]]:
    """Yield what each exit code means, and the commands that can give it."""
    meanings = {command.name: read_exit_codes(command.epilog) for command in read_commands()}
    for code, exit_code in EXIT_CODES.items():
        having = [command for command, codes in meanings.items() if code in codes]
        own = {
            command: meanings[command][code].partition(": ")[2]
            for command in having
            if meanings[command][code] != exit_code.meaning
        }
        commands = "" if code == EXIT_FINDINGS or own.keys() == {*having} else listed(having)
        pairs = [["meaning", exit_code.meaning], ["what to do", exit_code.advice], ["commands", commands]]
        pairs += [[f"deltacli {command}", meaning] for command, meaning in own.items()]
        yield f"{code}", {"title": f"Exit code {code}", "blocks": [_filled(pairs)]}


def _properties() -> Iterator[tuple[str, Json]]:
    for key in known_keys():
        meaning, default = MEANINGS.get(key, ("", None))
        activates = [name for name, feature in FEATURES.items() if feature.enabled_by == key]
        pairs = [
            ["meaning", meaning],
            ["value", _values(key)],
            ["default", default or ""],
            ["enables", ", ".join(activates)],
        ]
        examples = [f"deltacli properties ./tbl get {key}"]
        yield key, {"title": f"{key} is a table property.", "blocks": [_filled(pairs), {"code": examples}]}


def _values(key: str) -> str:
    if key in CHOICES:
        return " or ".join(CHOICES[key])
    if key in PATTERNS:
        return PATTERNS[key][1]
    if key in NUMBERS:
        return f"an integer, {NUMBERS[key].lowest:,} or more"
    kind = property_kind(key)
    return "" if kind is None else f"{kind}"


def _features(page: str) -> Iterator[tuple[str, Json]]:
    described = {name: cells for name, *cells in _rows(_section(page, "What the features are"))}
    dropped = {
        name: cells[0] for names, *cells in _rows(_section(page, "Dropping a feature")) for name in names.split(", ")
    }
    for name, feature in FEATURES.items():
        what, commands = described.get(name, ("", ""))
        drop = f"deltacli features TABLE drop {name}: {dropped[name]}" if len(dropped.get(name, "")) > 1 else ""
        pairs = [["what it is", what], *_of_feature(feature), ["commands", commands], ["drop it", drop]]
        yield name, {"title": f"{name} is a table feature.", "blocks": [_filled(pairs)]}


def _of_feature(feature: Feature) -> list[list[str]]:
    legacy = feature.legacy
    implied = f"reader {legacy.reader}, writer {legacy.writer}" if legacy else ""
    obstacle = feature.obstacle
    stable = stable_name(feature.name)
    way_out = (obstacle.way_out or _way_to_add(FEATURES[stable])) if obstacle else ""
    return [
        ["kind", f"{feature.kind}"],
        ["deltacli", " and ".join(_does(feature))],
        ["enabled by", f"{feature.enabled_by}=true" if feature.enabled_by else feature.used_by or ""],
        ["requires", ", ".join(feature.requires)],
        ["excludes", ", ".join(feature.excludes)],
        ["implied by", f"protocol versions {implied}" if implied else ""],
        ["cannot be added alone", obstacle.reason.format(stable=stable) if obstacle else ""],
        ["instead", way_out],
    ]


def _way_to_add(feature: Feature) -> str:
    way_out = feature.obstacle.way_out if feature.obstacle else None
    return way_out or f"deltacli features TABLE add {feature.name}"


def _does(feature: Feature) -> Iterator[str]:
    if feature.name in OF_UNREAD_TYPES:
        yield "reads tables that have it, except columns of its types,"
    else:
        yield "reads tables that have it" if feature.is_readable else "cannot read tables that have it"
    commits = feature.is_writable and feature.name not in CATALOG_FEATURES
    yield "changes them" if commits else "does not change them"


def _filled(pairs: list[list[str]]) -> list[list[str]]:
    return [pair for pair in pairs if pair[1]]
