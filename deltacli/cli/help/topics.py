"""What `deltacli help WORD` knows of words that are not commands: codes, properties, features, variables and topics.

The explanations are read from the pages of the documentation, from the exit codes of the commands, and from what the
code declares about properties and features. No text is written here but the labels.

A page has topics in three forms: a section (`TOPICS`), rows of a table whose first column is `code`, and the entries of
the glossary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from deltacli.cli.command_loading import load_command
from deltacli.cli.command_table import COMMANDS
from deltacli.cli.documentation import read_documentation
from deltacli.cli.exit_codes import read_exit_codes
from deltacli.cli.help.code_topics import TO_DO_LABEL, explain_codes
from deltacli.cli.help.markdown import find_section, parse_blocks, remove_marks
from deltacli.cli.help.property_topics import explain_features, explain_properties
from deltacli.cli.help.text import Definitions, Topic, define_stated
from deltacli.core.errors import EXIT_CODES, EXIT_FINDINGS


@dataclass(frozen=True, kw_only=True)
class DocumentedTopic:
    """A section of the documentation that is a topic of `deltacli help`.

    Attributes:
        name: The word that shows it.
        page: The page of the documentation.
        heading: The heading of the section.
        shows: What it shows, for the list of topics. Empty for that list itself.
        other_names: Further words that show it.
    """

    name: str
    page: str
    heading: str
    shows: str = ""
    other_names: tuple[str, ...] = ()


TOPICS: Sequence[DocumentedTopic] = (
    DocumentedTopic(
        name="conditions",
        page="reading.md",
        heading="Conditions",
        shows="what a condition of --where can say",
        other_names=("where",),
    ),
    DocumentedTopic(
        name="configuration",
        page="scripting.md",
        heading="Configuration file",
        shows="the configuration file, and what overrides it",
        other_names=("config",),
    ),
    DocumentedTopic(
        name="confirmation",
        page="scripting.md",
        heading="Confirmation",
        shows="which commands ask, and what they do in scripts",
    ),
    DocumentedTopic(
        name="credentials",
        page="stores.md",
        heading="Credentials",
        shows="where credentials of S3, Google Cloud Storage and Azure are found",
        other_names=("azure", "gcs", "s3"),
    ),
    DocumentedTopic(
        name="documents",
        page="scripting.md",
        heading="Documents",
        shows="JSON documents, their schemas, and what programs can rely on",
        other_names=("json", "ndjson", "schemas"),
    ),
    DocumentedTopic(
        name="durations",
        page="scripting.md",
        heading="Sizes, durations and times",
        shows="how sizes, durations and times are written",
        other_names=("sizes", "time", "times", "timestamps"),
    ),
    DocumentedTopic(
        name="environment",
        page="scripting.md",
        heading="Environment and configuration",
        shows="environment variables",
    ),
    DocumentedTopic(
        name="exit-codes",
        page="scripting.md",
        heading="Exit codes",
        shows="what each exit code means",
        other_names=("errors",),
    ),
    DocumentedTopic(
        name="formats",
        page="scripting.md",
        heading="Formats",
        shows="the formats of stdout, and which commands have them",
    ),
    DocumentedTopic(
        name="glossary",
        page="glossary.md",
        heading="Glossary",
        shows="the words of the commands, each also a word of `deltacli help`",
    ),
    DocumentedTopic(
        name="guards",
        page="vacuum.md",
        heading="Guards",
        shows="why a vacuum is refused, and what overrides it",
    ),
    DocumentedTopic(
        name="output-streams",
        page="scripting.md",
        heading="Streams",
        shows="what stdout and stderr have",
        other_names=("141",),
    ),
    DocumentedTopic(
        name="pager",
        page="scripting.md",
        heading="Pager",
        shows="when a result is shown in a pager",
    ),
    DocumentedTopic(
        name="permissions",
        page="stores.md",
        heading="Permissions",
        shows="which permissions of a store each command needs",
    ),
    DocumentedTopic(
        name="progress",
        page="scripting.md",
        heading="Progress",
        shows="what is reported while a command runs",
    ),
    DocumentedTopic(
        name="retries",
        page="stores.md",
        heading="Retries",
        shows="which requests are repeated, and for how long",
    ),
    DocumentedTopic(
        name="signals",
        page="scripting.md",
        heading="Signals",
        shows="what Ctrl-C and other signals do",
        other_names=("129", "130", "143"),
    ),
    DocumentedTopic(
        name="tasks",
        page="index.md",
        heading="First commands",
        shows="common questions, and the command to begin with",
        other_names=("commands", "examples", "start", "time-travel", "timetravel"),
    ),
    DocumentedTopic(
        name="topics",
        page="scripting.md",
        heading="Help",
        other_names=("help",),
    ),
)

PROPERTIES_OF_WORDS: Mapping[str, str] = {
    "cdf": "delta.enableChangeDataFeed",
    "tombstone": "delta.deletedFileRetentionDuration",
}
"""Word that people ask for -> the table property that explains it."""

GLOSSARY = "glossary.md"


@cache
def read_topics() -> Mapping[str, Topic]:
    """Return every topic by its word, sorted. Imports all commands, for their exit codes.

    An installation whose documentation was removed has no topics.
    """
    try:
        pages = read_documentation()
    except OSError:
        return {}
    return make_topics(pages)


def is_error_code(word: str) -> bool:
    """Return True for a code of errors, refusals or warnings that the documentation explains. Imports no command."""
    try:
        pages = read_documentation()
    except OSError:
        return False
    return word in dict(explain_codes(pages))


def make_topics(pages: Mapping[str, str]) -> dict[str, Topic]:
    """Return every topic by its word, sorted.

    Args:
        pages: The pages of the documentation by the names of their files, sorted.
    """
    topics: dict[str, Topic] = {}
    topics.update(explain_codes(pages))
    topics.update(_explain_exit_codes())
    topics.update(explain_properties())
    topics.update(explain_features(pages["properties.md"]))
    for documented in TOPICS:
        text = find_section(pages[documented.page], documented.heading)
        topics[documented.name] = Topic(documented.heading, tuple(parse_blocks(text)))

    for documented in TOPICS:
        for name in documented.other_names:
            topics[name] = topics[documented.name]
    for name, key in PROPERTIES_OF_WORDS.items():
        topics[name] = topics[key]

    for name, entry in _read_glossary(pages[GLOSSARY]):
        blocks = topics[name].blocks if name in topics else ()
        topics[name] = replace(entry, blocks=(*entry.blocks, *blocks))
    for name, row in _find_variables(topics["environment"]):
        explained = Topic(f"{name} is an environment variable.", (Definitions((row,)),))
        topics.setdefault(name, explained)
    return {name: topics[name] for name in sorted(topics)}


def _read_glossary(page: str) -> Iterator[tuple[str, Topic]]:
    """Yield the words of the glossary, those of two with a hyphen between them."""
    for term, meaning in re.findall(r"^- \*\*([^*]+)\*\*: (.+)", page, re.MULTILINE):
        yield term.replace(" ", "-"), Topic(f"{term}, in docs/{GLOSSARY}", (remove_marks(meaning),))


def _find_variables(environment: Topic) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the variables in the topic of the environment, each with its row."""
    for block in environment.blocks:
        if isinstance(block, Definitions):
            for row in block.rows:
                for name in re.findall(r"[A-Z][A-Z_]+(?:[A-Z](?!\w|…)|…)", row[0]):
                    yield name, row


def _explain_exit_codes() -> Iterator[tuple[str, Topic]]:
    """Yield what each exit code means, and the commands that can give it."""
    meanings = {name: read_exit_codes(_read_epilog(name)) for name in sorted(COMMANDS, key=str.split)}
    for number, exit_code in EXIT_CODES.items():
        commands = [command for command, codes in meanings.items() if number in codes]
        special_meanings = {
            command: meanings[command][number].partition(": ")[2]
            for command in commands
            if meanings[command][number] != exit_code.meaning
        }
        # Findings mean something else for each command, which is said below.
        is_said_below = number == EXIT_FINDINGS or special_meanings.keys() == {*commands}
        rows = [
            ("meaning", exit_code.meaning),
            (TO_DO_LABEL, exit_code.advice),
            ("commands", "" if is_said_below else list_commands(commands)),
            *((f"deltacli {command}", meaning) for command, meaning in special_meanings.items()),
        ]
        yield str(number), Topic(f"Exit code {number}", (define_stated(rows),))


def _read_epilog(name: str) -> str | None:
    """Return the part of a command's help that lists its exit codes. Imports the command."""
    command = load_command(tuple(name.split()))
    return None if command is None else command.epilog


def list_commands(commands: Sequence[str]) -> str:
    """Return commands as a text, by the others where those are fewer."""
    others = [name for name in COMMANDS if name not in commands]
    if len(others) >= len(commands):
        return ", ".join(commands)
    return f"all except {', '.join(others)}" if others else "all"
