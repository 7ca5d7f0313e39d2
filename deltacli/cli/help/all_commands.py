"""`deltacli help all`: every command on a line, or as JSON with options, exit codes, documents and codes of errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from deltacli.cli.changing_commands import find_change
from deltacli.cli.command_loading import load_command
from deltacli.cli.command_table import COMMANDS, HEADINGS
from deltacli.cli.described_commands import DescribedArgument, DescribedCommand, DescribedOption, describe_commands
from deltacli.cli.documents_of_commands import read_documents
from deltacli.cli.exit_codes import read_exit_codes
from deltacli.cli.help.code_topics import TO_DO_LABEL
from deltacli.cli.help.option_index import read_pages
from deltacli.cli.help.pages import names_in
from deltacli.cli.help.sections import OptionHeading
from deltacli.cli.help.text import Definitions, Topic
from deltacli.cli.help.topics import read_topics
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.errors import EXIT_CODES, UsageError
from deltacli.core.release import VERSION
from deltacli.core.typing import Json, JsonObject
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

_DOCUMENT = "deltacli.help-all"

_CONSENT = ("--dry-run", "--check", "--yes", "--save-plan", "--apply")
_NAMES_OF_CONSENT = {("fleet run", "--yes"): "yes-to-delete"}
"""Command and option of consent -> its name in the document, where the option agrees to a part of what is done."""

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


def write_all_commands(words: Sequence[str]) -> None:
    """Write every command on a line of its own, or the document about all of them.

    Args:
        words: The words of the command line, whose `--format` and `--json` say which.

    Raises:
        UsageError: For another format.
    """
    formats = _find_formats(words)
    if not formats <= {"json", "table"}:
        raise UsageError(
            "help all has two formats", facts={"expected": "table, json"}, hint="deltacli help all --format json"
        )
    sys.stdout.write(describe_all_commands() if "json" in formats else _list_all_commands())
    sys.stdout.flush()


def _find_formats(words: Sequence[str]) -> set[str]:
    """Return the formats that a command line names, by `--format json`, `--format=json` or `--json`."""
    separate = [following for word, following in pairwise([*words, ""]) if word == "--format"]
    formats = {*separate[-1:]}
    formats |= {word.partition("=")[2] for word in words if word.startswith("--format=")}
    if "--json" in words or "json" in words:
        formats.add("json")
    return formats


def _list_all_commands() -> str:
    """Return the commands with their summaries, as lines."""
    column = max(map(len, COMMANDS)) + 2
    names = sorted(COMMANDS, key=str.split)
    return "".join(f"{name:{column}}{COMMANDS[name].summary}\n" for name in names)


def describe_all_commands() -> str:
    """Return the document, with a line for each command, option of all commands, code and variable."""
    commands = describe_commands()
    environment = _read_environment()
    global_options = [option for option in commands[0].options if _is_global(option)]
    common_names = _find_common_names("")
    lists: dict[str, list[Json]] = {
        "exitCodes": [
            {"code": code.number, "meaning": code.meaning, "toDo": code.advice} for code in EXIT_CODES.values()
        ],
        "globalOptions": [_describe_option(option, common_names, environment) for option in global_options],
        "commands": [_describe_command(command, environment) for command in commands],
        "errors": [*_describe_errors()],
        "environment": [{"name": name, "meaning": text} for name, text in environment.items()],
    }
    head = {"kind": _DOCUMENT, "schemaVersion": SCHEMA_VERSION, "complete": True, "version": VERSION}
    blocks = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for name, items in lists.items():
        lines = ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in items)
        blocks.append(f' "{name}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _read_environment() -> Mapping[str, str]:
    """Return each environment variable with its meaning, from the topic about them."""
    topic = read_topics().get("environment", Topic("", ()))
    tables = [block for block in topic.blocks if isinstance(block, Definitions)]
    return dict(row for table in tables for row in table.rows)


def _find_common_names(command: str) -> set[str]:
    """Return the names of the options that are common on the page of a command; "": of the program."""
    common = read_pages()[command].common or ()
    return {name for spelled, _text in common for name in names_in(spelled)}


def _is_global(option: DescribedOption) -> bool:
    return option.section == OptionHeading.GLOBAL


def _describe_command(command: DescribedCommand, environment: Collection[str]) -> JsonObject:
    """Return a command without the options that all commands share."""
    spellings = {name for option in command.options for name in option.spellings}
    common_names = _find_common_names(command.name)
    text, _, examples = command.help.partition("Examples:\n")
    example_lines, _, details = examples.partition("\n\n")
    paragraphs = (*text.split("\n\n")[1:], details)
    documents = read_documents().get(command.name, ())
    return {
        "name": command.name,
        "heading": next(heading for heading, names in HEADINGS.items() if command.path[0] in names.split()),
        "summary": command.summary,
        "description": "\n\n".join(paragraph.strip("\n") for paragraph in paragraphs if paragraph.strip()),
        "examples": [line.strip() for line in example_lines.splitlines() if line.strip()],
        "consent": [_name_consent(command, option) for option in _CONSENT if option in spellings],
        "arguments": [_describe_argument(argument) for argument in command.arguments],
        "options": [
            _describe_option(option, common_names, environment) for option in command.options if not _is_global(option)
        ],
        "formats": [*getattr(load_command(command.path), "formats", ())],
        "exitCodes": [{"code": code, "meaning": meaning} for code, meaning in read_exit_codes(command.epilog).items()],
        "changes": find_change(command.name),
        "documents": [
            {
                "kind": document.kind,
                "title": document.title,
                "schema": document.schema,
                "lines": [*document.lines],
            }
            for document in documents
        ],
    }


def _name_consent(command: DescribedCommand, option: str) -> str:
    return _NAMES_OF_CONSENT.get((command.name, option), option.removeprefix("--"))


def _describe_option(option: DescribedOption, common_names: Collection[str], environment: Collection[str]) -> Json:
    """Return an option.

    Args:
        option: The option.
        common_names: The names of the options that are common on the page of the command.
        environment: The environment variables that there are.
    """
    long_names = [name for name in option.spellings if name.startswith("--")]
    name = long_names[0] if long_names else option.spellings[0]
    variables = sorted(find_variables(option) & {*environment})
    return {
        "name": name,
        "aliases": [spelling for spelling in option.spellings if spelling != name],
        "group": option.section.lower(),
        "common": not {*common_names}.isdisjoint(option.spellings),
        "type": _find_type(option),
        "value": option.value.name if option.value else None,
        "choices": [*option.value.choices] if option.value else [],
        "default": option.default,
        "required": option.required,
        "repeatable": option.repeatable,
        "env": variables[0] if variables else None,
        "secret": "@FILE" in option.help,
        "help": option.help,
    }


def find_variables(option: DescribedOption) -> set[str]:
    """Return the variables that may have the default of an option: the declared one, and the one named after it.

    Not all of them are read. `-c, --config` of `share` is another file than the global `--config`, which has no short
    name, and `--profile` alone is that of a share or of Paimon.
    """
    variables = {option.variable} if option.variable else set()
    if option.spellings[:1] == ("-c",) or option.spellings == ("--profile",):
        return variables
    for name in option.spellings:
        if name.startswith("--"):
            word = "profile" if name == "--profile-name" else name.removeprefix("--")
            variables.add(f"DELTACLI_{word.upper().replace('-', '_')}")
    return variables


def _find_type(option: DescribedOption) -> str:
    if option.value is None:
        return "count" if option.repeatable else "flag"
    return "integer" if option.is_integer else _TYPES.get(option.value.name, option.value.kind)


def _describe_argument(argument: DescribedArgument) -> Json:
    return {
        "name": argument.value.name,
        "required": argument.required,
        "repeatable": argument.repeatable,
        "choices": [*argument.value.choices],
        "help": argument.help,
    }


def _describe_errors() -> Iterator[Json]:
    """Yield each code of errors and refusals with its exit codes, what happened, and what to do."""
    for code, topic in read_topics().items():
        (definitions, *_others) = topic.blocks
        if not topic.is_code or not isinstance(definitions, Definitions):
            continue
        entries = dict(definitions.rows)
        exit_codes = [int(number) for number in re.findall(r"\b\d+\b", entries.get("exit code", ""))]
        if exit_codes:
            rule = CATALOGUE.rules.get(code) or PAIMON_CATALOGUE.rules.get(code)
            way_out = entries.get(TO_DO_LABEL) or (rule.fix.repair_of("TABLE") if rule else "")
            yield {
                "code": code,
                "exit": exit_codes,
                "meaning": entries.get("what happened", ""),
                "wayOut": way_out or EXIT_CODES[exit_codes[0]].advice,
            }
