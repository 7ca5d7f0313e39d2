"""The JSON documents and the lines of NDJSON of each command, and their fields, according to the JSON Schemas.

The title of the schema of a document begins with the commands that write it, for example
`deltacli vacuum --format json`. Lines of NDJSON have schemas of their own. Most lines are parts of a document. A line
of `WHOLE_LINES` is a whole document.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from deltacli.cli.command_tree import get_command_path, list_commands_below
from deltacli.cli.documentation import read_schemas
from deltacli.core.typing import JsonObject

ANY_FIELD = "*"
"""Stands for fields that the schema does not name: the object may contain any field."""

_TITLE_OF_LINES = "an NDJSON line"


class WholeLine(NamedTuple):
    """A line of NDJSON that contains a whole document.

    Attributes:
        line: The type of the line.
        document: The kind of the document without `deltacli.`, and its variant, such as `alter.delta`.
        meaning: The content of the line, for the title of its schema.
    """

    line: str
    document: str
    meaning: str


WHOLE_LINES: Sequence[WholeLine] = (
    WholeLine(line="copy", document="copy", meaning="what was copied to another place, or how it differs"),
    WholeLine(line="log-backup", document="log-backup", meaning="what was copied"),
    WholeLine(line="log-restore", document="log-restore", meaning="what was put back, or would be"),
    WholeLine(line="log-crc", document="log-crc", meaning="a checksum file, written or compared"),
    WholeLine(line="log-compact", document="log-compact", meaning="a log compaction"),
    WholeLine(line="log-expire", document="log-expire", meaning="what was deleted, or would be"),
    WholeLine(line="clone", document="clone", meaning="a shallow clone, planned or made"),
    WholeLine(line="undelete", document="undelete", meaning="what was brought back, or would be"),
    WholeLine(line="vacuum", document="vacuum", meaning="what a vacuum deleted, or would"),
    WholeLine(line="vacuum-explain", document="vacuum-explain", meaning="why a file stays or goes"),
    WholeLine(line="vacuum-purge", document="vacuum-purge", meaning="what was deleted of a quarantine, or would be"),
    WholeLine(line="checkpoint", document="checkpoint", meaning="a checkpoint, written or not due"),
    WholeLine(line="row-count", document="row-count", meaning="how many rows there are"),
    WholeLine(line="scan", document="scan-files", meaning="how much a scan reads and passes over"),
    WholeLine(line="output", document="output", meaning="what was written to a directory"),
    WholeLine(line="paimon-state", document="snapshot.paimon", meaning="a Paimon table at a point"),
    WholeLine(
        line="schema-conversion", document="schema-convert", meaning="a schema in another form, and what is lost"
    ),
    WholeLine(
        line="schema-vacuum",
        document="vacuum.paimon",
        meaning="which schemas of a Paimon table were deleted, or would be",
    ),
    WholeLine(line="alter", document="alter.paimon", meaning="a new version of the schema of a Paimon table"),
    WholeLine(
        line="alteration", document="alter.delta", meaning="changes of columns or of what describes a Delta table"
    ),
    WholeLine(line="restore", document="restore", meaning="what a restore brought back, or would"),
    WholeLine(line="convert", document="convert", meaning="a table made of Parquet files, or what stands against it"),
    WholeLine(line="manifest", document="manifest", meaning="which manifests were written, or differ"),
    WholeLine(line="optimize", document="optimize", meaning="what was rewritten, or would be"),
    WholeLine(line="stats", document="stats", meaning="which statistics were committed, or would be"),
    WholeLine(line="diff", document="diff", meaning="what differs between two versions"),
    WholeLine(line="reach", document="reach", meaning="which versions can be read"),
    WholeLine(line="catalog-status", document="catalog-status", meaning="how far a catalog and the log of a table are"),
    WholeLine(line="catalog-publish", document="catalog-publish", meaning="which commits were published, or would be"),
    WholeLine(line="streams", document="streams", meaning="the queries of Spark that read tables"),
    WholeLine(line="explain", document="explain", meaning="which clients read and write a table"),
    WholeLine(line="repair-undo", document="repair-undo", meaning="what a repair replaced, put back"),
    WholeLine(line="widen-type", document="widen-type", meaning="wider types, planned or committed"),
    WholeLine(line="share-pull", document="share-pull", meaning="what a pull did, or would do"),
)

_NOT_A_LINE: Sequence[tuple[str, str]] = (
    ("alter.*", "change"),
    ("history.paimon", "change"),
    ("widen-type*", "change"),
    ("restore", "schema-change"),
    ("vacuum-explain", "commit"),
    ("share-test", "summary"),
)
"""Patterns of documents, each with a part that is not a line, although a line has the same name."""

_SHARED_DOCUMENTS: Mapping[str, Sequence[str]] = {
    "schema show": ("schema", "schema.paimon"),
    "share changes": ("changes", "output"),
    "share head": ("read", "output"),
    "share schema": ("schema",),
}
"""Maps a command to documents that are named after another command."""

_FURTHER_LINES: Mapping[str, Sequence[str]] = {"features": ("feature-drop",)}
"""Maps a document to lines that have neither the name of a part nor that of the document."""

_LINES_OF_ONE_STREAM: Sequence[Collection[str]] = (("add", "remove"), ("schema-version", "paimon-snapshot"))
"""Types of lines that occur in the same results. A template may use the fields of all of them."""


@dataclass(frozen=True, slots=True)
class DescribedDocument:
    """A JSON document that a command writes.

    Attributes:
        kind: The value of its field `kind`.
        title: The title of its schema. It contains the command and its options.
        schema: The file name of its schema.
        lines: The types of the lines that `--format ndjson` writes instead.
    """

    kind: str
    title: str
    schema: str
    lines: Sequence[str]


@cache
def read_documents() -> Mapping[str, Sequence[DescribedDocument]]:
    """Return the documents of commands, by the name of the command. Commands without documents are omitted."""
    lines = _read_line_schemas()
    documents: dict[str, list[DescribedDocument]] = {}
    for file_name, schema in read_schemas().items():
        kind = schema.get("properties", {}).get("kind", {}).get("const", "")
        title = schema["title"]
        if kind.startswith("deltacli.") and title.startswith("deltacli "):
            name = file_name.removeprefix("deltacli.")
            types = _find_lines(name, kind.removeprefix("deltacli."), schema, lines.keys())
            document = DescribedDocument(kind=kind, title=title, schema=f"{file_name}.json", lines=types)
            for command in _find_commands(name, title):
                documents.setdefault(command, []).append(document)
    return documents


def _find_lines(document: str, kind: str, schema: JsonObject, lines: Collection[str]) -> Sequence[str]:
    """Return the types of the lines for a document: those of its parts, then those at the end of the list."""
    excluded = {part for pattern, part in _NOT_A_LINE if fnmatchcase(document, pattern)}
    parts = sorted(part for part in schema.get("$defs", ()) if part in lines and part not in excluded)
    last = [whole.line for whole in WHOLE_LINES if whole.document == document] or [kind]
    return (*parts, *_FURTHER_LINES.get(document, ()), *(line for line in last if line in lines), "end")


def _find_commands(document: str, title: str) -> Sequence[str]:
    """Return the commands in the title of a document, sorted. A title may contain several commands, and groups."""
    commands = {command for command, documents in _SHARED_DOCUMENTS.items() if document in documents}
    names = re.split(" --| …", title.removeprefix("deltacli "))[0]
    for name in re.split(", | or ", names):
        commands.update(list_commands_below(get_command_path(name.split())))
    return sorted(commands)


def find_item_lines(command: str) -> Sequence[str]:
    """Return the types of the lines that are items of a command's results, sorted."""
    lines = {line for document in read_documents().get(command, ()) for line in document.lines}
    return sorted(line for line in lines if find_fields(line))


@cache
def find_fields(line: str) -> Sequence[str]:
    """Return the fields of a type of lines, sorted. The names of nested fields contain dots: `stats.numRecords`.

    Lines that occur in the same results have the fields of each other.

    Args:
        line: The type of the line.

    Returns:
        The fields. `ANY_FIELD` is one of them if an object may contain any field. Empty for unknown lines, and for
        lines at the end of a list.
    """
    schema = _read_line_schemas().get(line)
    if schema is None or _ends_list(line, schema):
        return ()
    streams = [types for types in _LINES_OF_ONE_STREAM if line in types]
    lines = streams[0] if streams else (line,)
    fields: set[str] = set()
    for name in lines:
        part = _read_line_schemas()[name]
        fields.update(_walk_fields(part, part, prefix=""))
    return sorted(fields)


def is_known_line(line: str) -> bool:
    """Return whether a type of lines has a schema."""
    return line in _read_line_schemas()


@cache
def _read_line_schemas() -> Mapping[str, JsonObject]:
    """Return the schemas of lines by the type of the line."""
    schemas = read_schemas().values()
    lines = [schema for schema in schemas if str(schema.get("title")).startswith(_TITLE_OF_LINES)]
    return {schema["properties"]["type"]["const"]: schema for schema in lines}


def _ends_list(line: str, schema: JsonObject) -> bool:
    """Return whether a line follows the items of a document."""
    if ", after " in schema["title"] or "what follows" in schema["title"]:
        return True
    documents = [read_schemas()[f"deltacli.{whole.document}"] for whole in WHOLE_LINES if whole.line == line]
    return any("items" in document["properties"] for document in documents)


def _walk_fields(schema: JsonObject, line: JsonObject, *, prefix: str, seen: Sequence[str] = ()) -> Iterator[str]:
    """Yield the fields of a part of a schema, including nested fields.

    Args:
        schema: The part.
        line: The schema of the line. It contains the definitions to which `$ref` refers.
        prefix: The names of the enclosing fields, each followed by a dot.
        seen: The references that have been followed. A recursive definition is followed once.
    """
    reference = schema.get("$ref")
    if reference is not None:
        if reference not in seen:
            definition = line["$defs"][reference.rpartition("/")[2]]
            yield from _walk_fields(definition, line, prefix=prefix, seen=(*seen, reference))
        return

    alternatives = (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ()))
    for alternative in alternatives:
        yield from _walk_fields({"additionalProperties": False, **alternative}, line, prefix=prefix, seen=seen)

    states_no_type = not {"const", "enum", "oneOf", "anyOf", "allOf"} & schema.keys()
    types = schema.get("type", ["object"] if states_no_type else [])
    if "object" in types and schema.get("additionalProperties", True) is not False:
        yield f"{prefix}{ANY_FIELD}"
    for name, inner in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from _walk_fields(inner, line, prefix=f"{prefix}{name}.", seen=seen)
