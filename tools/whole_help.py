"""Make the document of `deltacli help all --format json`: every command, option, exit code, document and error code."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from deltacli import __version__
from deltacli.cli.command_loading import load_command
from deltacli.cli.command_table import HEADINGS
from deltacli.cli.command_tree import below, path_of
from deltacli.cli.exit_codes import read_exit_codes
from deltacli.cli.help_page import names_in
from deltacli.cli.help_sections import OptionHeading
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.errors import EXIT_CODES
from deltacli.core.typing import Json
from deltacli.operations.doctor.storage import READING
from deltacli.operations.doctor.storage import commands as permissions
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from tools.command_tree import Argument, Command, Option
from tools.environment import variables_of
from tools.help_topics import TO_DO_LABEL
from tools.schemas import HOME, WHOLE

DOCUMENT = "deltacli.help-all"

_WRITES_FILES = frozenset(
    {
        *("copy", "fleet init", "log backup", "share init", "share key rotate", "spark package"),
        *("share recipient add", "share recipient grant", "share recipient remove", "share recipient revoke"),
        *("share token create", "share token revoke", "share token rotate"),
    }
)
"""Commands that write files other than those of a table, such as a configuration, also without `--output`."""
_CONSENT = ("--dry-run", "--check", "--yes", "--save-plan", "--apply")
_MODES = {("fleet run", "--yes"): "yes-to-delete"}
"""Command and option of consent -> its name in the document, where the option agrees to a part of what is done."""


def render_whole_help(
    root: Command, pages: Mapping[str, Any], topics: Mapping[str, Any], environment: Mapping[str, str]
) -> str:
    """Return the document, a line per command; `pages` are those of `--help` and `topics` those of `deltacli help`."""
    commands = [command for command in root.walk() if command.path and not command.children]
    writers = _writers_of_tables(command.name for command in commands)
    documents = _documents()
    lists: dict[str, list[Json]] = {
        "exitCodes": [
            {"code": code.number, "meaning": code.meaning, "toDo": code.advice} for code in EXIT_CODES.values()
        ],
        "globalOptions": [
            _option(one, _names(pages[""]), environment) for one in commands[0].options if _is_global(one)
        ],
        "commands": [
            _command(one, _names(pages[one.name]), environment)
            | {
                "changes": "table" if one.name in writers else "files" if one.name in _WRITES_FILES else None,
                "documents": documents.get(one.name, []),
            }
            for one in commands
        ],
        "errors": [*_errors(topics)],
        "environment": [{"name": name, "meaning": text.replace("`", "")} for name, text in environment.items()],
    }
    head = {"kind": DOCUMENT, "schemaVersion": SCHEMA_VERSION, "complete": True, "version": __version__}
    blocks = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for name, items in lists.items():
        lines = ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in items)
        blocks.append(f' "{name}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _names(page: Mapping[str, Any]) -> set[str]:
    """Return the names of the options that are common on a page."""
    return {name for spelled, _ in page["common"] for name in names_in(spelled)}


def _is_global(option: Option) -> bool:
    return option.section == OptionHeading.GLOBAL


def _writers_of_tables(commands: Iterable[str]) -> set[str]:
    """Return the commands that change a table: those that need more than to read it, and those that run or copy."""
    named = {name for row in permissions() if {*row.needs} - {*READING} for name in row.names.split(", ")}
    return {*commands} & {*named, "copy", "fleet run", "share pull"}


def _command(command: Command, common: set[str], environment: Collection[str]) -> dict[str, Json]:
    spellings = {name for option in command.options for name in option.spellings}
    heading = next(heading for heading, names in HEADINGS.items() if command.path[0] in names.split())
    text, _, examples = command.help.partition("Examples:\n")
    shown, _, details = examples.partition("\n\n")
    formats: Any = getattr(load_command(command.path), "formats", ())  # Any: an enumeration
    return {
        "name": command.name,
        "heading": heading,
        "summary": command.summary,
        "description": "\n\n".join(part.strip("\n") for part in (*text.split("\n\n")[1:], details) if part.strip()),
        "examples": [line.strip() for line in shown.splitlines() if line.strip()],
        "consent": [_MODES.get((command.name, one), one.removeprefix("--")) for one in _CONSENT if one in spellings],
        "arguments": [_argument(one) for one in command.arguments],
        "options": [_option(one, common, environment) for one in command.options if not _is_global(one)],
        "formats": [*formats],
        "exitCodes": [{"code": code, "meaning": meaning} for code, meaning in read_exit_codes(command.epilog).items()],
    }


def _option(option: Option, common: set[str], environment: Collection[str]) -> dict[str, Json]:
    name = next((one for one in option.spellings if one.startswith("--")), option.spellings[0])
    return {
        "name": name,
        "aliases": [one for one in option.spellings if one != name],
        "group": option.section.lower(),
        "common": not common.isdisjoint(option.spellings),
        "type": _type(option),
        "value": option.value.name if option.value else None,
        "choices": [*option.value.choices] if option.value else [],
        "default": option.default,
        "required": option.required,
        "repeatable": option.repeatable,
        "env": next((variable for variable in sorted(variables_of(option)) if variable in environment), None),
        "secret": "@FILE" in option.help,
        "help": option.help,
    }


_TYPES = {
    "DURATION": "duration",
    "DURATION|never": "duration",
    "SIZE": "size",
    "T": "time",
    "N%": "share",
    "N%|SIZE": "share or size",
    "N/s": "rate",
    "A,B,…": "list",
    "A,B-C,…": "list",
    "CONDITION": "condition",
    "K=V": "pair",
    "URL": "url",
}
"""Name of a value -> its type, where the shells that complete it do not tell it from other texts."""


def _type(option: Option) -> str:
    if option.value is None:
        return "count" if option.repeatable else "flag"
    return "integer" if option.is_integer else _TYPES.get(option.value.name, option.value.kind)


def _argument(argument: Argument) -> dict[str, Json]:
    return {
        "name": argument.value.name,
        "required": argument.required,
        "repeatable": argument.repeatable,
        "choices": [*argument.value.choices],
        "help": argument.help,
    }


def _documents() -> dict[str, list[Json]]:
    """Return the documents of each command by the titles of their schemas, with the types of their NDJSON lines."""
    schemas = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(HOME.glob("*.json"))}
    lines = {name for name, schema in schemas.items() if schema["title"].startswith("an NDJSON line")}
    found: dict[str, list[Json]] = {}
    for name, schema in schemas.items():
        kind = schema.get("properties", {}).get("kind", {}).get("const", "")
        document, title = name.removeprefix("deltacli."), schema["title"]
        if not (kind.startswith("deltacli.") and title.startswith("deltacli ")):
            continue
        parts = lines & {*schema.get("$defs", ())} - {part for of, part in _PARTS_ONLY if fnmatchcase(document, of)}
        last = [line for line, whole, _ in WHOLE if whole == document] or [kind.removeprefix("deltacli.")]
        types = [*sorted(parts), *_OTHER_LINES.get(document, ()), *(line for line in last if line in lines), "end"]
        entry = {"kind": kind, "title": title, "schema": f"{name}.json", "lines": types}
        of_commands = re.split(" --| …", title.removeprefix("deltacli "))[0]
        named = {one for words in re.split(", | or ", of_commands) for one in below(path_of(words.split()))}
        for command in sorted(named | {name for name, others in _SAME.items() if document in others}):
            found.setdefault(command, []).append(entry)
    return found


_PARTS_ONLY = (
    *(("alter.*", "change"), ("history.paimon", "change"), ("widen-type*", "change")),
    *(("restore", "schema-change"), ("vacuum-explain", "commit"), ("share-test", "summary")),
)
"""Patterns of documents, and parts of them that are no lines although lines have their names."""
_SAME = {
    "schema show": ("schema", "schema.paimon"),
    "share changes": ("changes", "output"),
    "share head": ("read", "output"),
    "share schema": ("schema",),
}
"""Command -> the documents that it has in common with the command that they are named after."""
_OTHER_LINES = {"features": ("feature-drop",)}
"""Document -> lines that are named neither after a part nor after the document."""


def _errors(topics: Mapping[str, Any]) -> Iterator[Json]:
    """Yield each code of errors and refusals with its exit codes, what happened, and what to do."""
    for code, topic in topics.items():
        if "is a code of" not in topic["title"]:
            continue
        said = dict(topic["blocks"][0])
        if exits := re.findall(r"\b\d+\b", said.get("exit code", "")):
            rule = CATALOGUE.rules.get(code) or PAIMON_CATALOGUE.rules.get(code)
            way_out = said.get(TO_DO_LABEL) or (rule.fix.repair_of("TABLE") if rule else "")
            yield {
                "code": code,
                "exit": [int(one) for one in exits],
                "meaning": said.get("what happened", ""),
                "wayOut": way_out or EXIT_CODES[int(exits[0])].advice,
            }
