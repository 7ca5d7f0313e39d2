"""The command tree as a table, the options of every command, and how the words of a command line select from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import ModuleType
from typing import Any

from deltacli.cli.invocation import ASK_FOR_HELP, ASK_FOR_VERSION, AT
from deltacli.core.request_fields import Option, option, spellings_of

# -- the options that every command has besides `--format` -------------------------------------------------------------


class ColourChoice(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class ProgressChoice(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"
    JSON = "json"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TableFormat(StrEnum):
    DELTA = "delta"
    PAIMON = "paimon"


class AccessMode(StrEnum):
    AUTO = "auto"
    URL = "url"
    DIR = "dir"


OUTPUT_OF_ROWS = Option(
    "Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … "
    "chooses the format.",
    "FILE|DIR/",
)
"""`--output` of the commands that also write directories."""
OUTPUT_OF_ONE_FORMAT = Option("Write the result to this file, atomically, instead of to stdout.", "FILE")
"""`--output` of the commands that have one format."""


@dataclass(frozen=True)
class GlobalOptions:
    """The shared options as on the command line, in the order of the help. Each command declares `--format` and
    `--json` with its own formats.
    """

    output_format: StrEnum | None = None
    as_json: bool = False
    output: str | None = option(
        "Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.", "FILE"
    )
    template: str | None = option(
        "Write a line for each item of ndjson; {FIELD} is one of its fields, \\t a tab.", "'TEXT {FIELD}'"
    )
    run_in: str | None = option(
        "Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.",
        "DIR",
        spelled=AT,
    )
    now: str | None = option("Time to use as the current time, for reproducible runs.", "T")
    storage_option: list[str] | None = option(
        "Option of the store; K=@FILE reads the value from a file. Repeatable.", "K=V"
    )
    retry_budget: str | None = option(
        "Time limit for retries of a request to a store; 0s disables them.  [default: 60s]", "DURATION"
    )
    allow_external: list[str] | None = option(
        "Allow opening files below this path or URI outside the table. Repeatable.", "PREFIX"
    )
    table_format: TableFormat | None = option("Format of the table, instead of detecting it.", "delta|paimon")
    access: AccessMode | None = option(
        "Read a shared table by URLs of its files, or in its directory with temporary credentials.  [default: auto]",
        "auto|url|dir",
    )
    config: str | None = option("TOML file with defaults for these options.", "FILE")
    profile_name: str | None = option(
        "Use [profile.NAME] of that file, whose keys override the others of the file.", "NAME"
    )
    catalog_profile: str | None = option("Use [catalog.NAME] of that file for tables uc://….", "NAME")
    colour: ColourChoice | None = option(
        "Use of colour on stdout.  [default: auto]", "auto|always|never", spelled="--color"
    )
    progress: ProgressChoice | None = option(
        "Progress on stderr; auto: on a terminal.  [default: auto]", "auto|always|never|json"
    )
    log_format: LogFormat | None = option(
        "Format of notes and errors on stderr; default: json with --format json or ndjson, else text.", "text|json"
    )
    no_pager: bool = option("Do not show a long result in a pager.", default=False)
    quiet: bool = option("Suppress notes and progress on stderr.", default=False, spelled="-q --quiet")
    verbose: int = option(
        "Write more details to stderr; -vv adds tracebacks.", default=0, spelled="-v --verbose", is_counted=True
    )


TAKES_VALUE: Mapping[str, bool] = {
    "--format": True,
    "--json": False,
    "-vv": False,
    **{
        name: one.default is None
        for one in fields(GlobalOptions)
        if one.metadata
        for name in spellings_of(one.name, one.metadata["option"])
    },
}
"""Shared options that are also accepted before the command."""


# -- the command tree as a table ---------------------------------------------------------------------------------------

Path = tuple[str, ...]
"""The words that lead to a command, or to a group of commands; the root has none."""

COMMANDS: Mapping[str, str] = {
    "alter": "deltacli.cli.commands.alter",
    "catalog ls": "deltacli.cli.commands.catalog.tables",
    "catalog publish": "deltacli.cli.commands.catalog.tables",
    "catalog staged": "deltacli.cli.commands.catalog.tables",
    "catalog status": "deltacli.cli.commands.catalog.tables",
    "changes": "deltacli.cli.commands.read_and_changes",
    "checkpoint": "deltacli.cli.commands.checkpoint",
    "clone": "deltacli.cli.commands.elsewhere.clone",
    "completion": "deltacli.cli.commands.completion",
    "convert": "deltacli.cli.commands.elsewhere.convert",
    "copy": "deltacli.cli.commands.elsewhere.copy",
    "diff": "deltacli.cli.commands.diff",
    "doctor access": "deltacli.cli.commands.doctor.access_and_storage",
    "doctor storage": "deltacli.cli.commands.doctor.access_and_storage",
    "doctor table": "deltacli.cli.commands.doctor.table",
    "explain": "deltacli.cli.commands.explain",
    "features": "deltacli.cli.commands.properties_and_features",
    "fleet check": "deltacli.cli.commands.fleet.policy_file",
    "fleet init": "deltacli.cli.commands.fleet.policy_file",
    "fleet plan": "deltacli.cli.commands.fleet.plan",
    "fleet run": "deltacli.cli.commands.fleet.run",
    "fleet status": "deltacli.cli.commands.fleet.status",
    "history": "deltacli.cli.commands.history",
    "log backup": "deltacli.cli.commands.log.backup_and_restore",
    "log cat": "deltacli.cli.commands.log.cat",
    "log compact": "deltacli.cli.commands.log.crc_and_compact",
    "log crc": "deltacli.cli.commands.log.crc_and_compact",
    "log expire": "deltacli.cli.commands.log.expire",
    "log restore": "deltacli.cli.commands.log.backup_and_restore",
    "manifest": "deltacli.cli.commands.elsewhere.manifest",
    "optimize": "deltacli.cli.commands.optimize",
    "properties": "deltacli.cli.commands.properties_and_features",
    "reach": "deltacli.cli.commands.reach",
    "read": "deltacli.cli.commands.read_and_changes",
    "repair": "deltacli.cli.commands.repair",
    "restore": "deltacli.cli.commands.restore",
    "schema convert": "deltacli.cli.commands.schema",
    "schema diff": "deltacli.cli.commands.schema",
    "schema show": "deltacli.cli.commands.schema",
    "share changes": "deltacli.cli.commands.share.head_and_changes",
    "share check": "deltacli.cli.commands.share.configuration",
    "share head": "deltacli.cli.commands.share.head_and_changes",
    "share init": "deltacli.cli.commands.share.configuration",
    "share key rotate": "deltacli.cli.commands.share.configuration",
    "share ls": "deltacli.cli.commands.share.profile",
    "share profile check": "deltacli.cli.commands.share.profile",
    "share profile show": "deltacli.cli.commands.share.profile",
    "share pull": "deltacli.cli.commands.share.pull",
    "share recipient add": "deltacli.cli.commands.share.recipient",
    "share recipient grant": "deltacli.cli.commands.share.recipient",
    "share recipient list": "deltacli.cli.commands.share.recipient",
    "share recipient remove": "deltacli.cli.commands.share.recipient",
    "share recipient revoke": "deltacli.cli.commands.share.recipient",
    "share schema": "deltacli.cli.commands.share.profile",
    "share serve": "deltacli.cli.commands.share.serve",
    "share test": "deltacli.cli.commands.share.test",
    "share token create": "deltacli.cli.commands.share.token",
    "share token list": "deltacli.cli.commands.share.token",
    "share token revoke": "deltacli.cli.commands.share.token",
    "share token rotate": "deltacli.cli.commands.share.token",
    "snapshot": "deltacli.cli.commands.snapshot",
    "spark package": "deltacli.cli.commands.spark.package",
    "stats": "deltacli.cli.commands.stats",
    "streams": "deltacli.cli.commands.streams",
    "undelete": "deltacli.cli.commands.undelete",
    "vacuum": "deltacli.cli.commands.vacuum",
    "validate": "deltacli.cli.commands.validate",
    "widen-type": "deltacli.cli.commands.widen_type",
}
"""Command -> the module that holds a function named by all its words, EXIT_CODES, and FORMATS where they are its own,
as `setting` reads them.

Only the modules of the selected commands are imported. A command of a group is `GROUP COMMAND`.
"""

HEADINGS: Mapping[str, str] = {
    "Look and check": "history snapshot read changes diff reach explain schema validate streams doctor",
    "Change and maintain": "alter widen-type properties features optimize stats checkpoint vacuum log",
    "Undo": "restore undelete repair",
    "Elsewhere": "copy clone convert manifest",
    "Many tables, shares, programs": "fleet catalog share spark completion",
}
"""Heading of the help of the program -> its commands and groups, in this order."""

_LOG = """Maintain the log of a table.

\b
Examples:
  deltacli log cat ./tbl 12                   # print actions of version 12
  deltacli log backup ./tbl ./safe            # copy the log, or update it
  deltacli log restore ./tbl ./safe           # restore lost log files
  deltacli log expire ./tbl --dry-run         # list files to delete
  deltacli log crc ./tbl                      # write or check a checksum
  deltacli log compact ./tbl --from 1 --to 9  # merge commits into a file
"""

_CATALOG = """List the tables of Unity Catalog, and maintain those it manages.

\b
Examples:
  deltacli catalog ls uc://prod.sales              # list its tables
  deltacli catalog status uc://prod.sales.orders   # compare log and catalog
  deltacli catalog staged uc://prod.sales.orders   # list its staged commits
  deltacli catalog publish uc://prod.sales.orders  # copy them into its log
"""

_DOCTOR = """Diagnose a table, its store, and access to it.

\b
Examples:
  deltacli doctor table ./tbl             # advice with numbers
  deltacli doctor access s3://bucket/tbl  # identity and permissions
  deltacli doctor storage s3://bucket/tbl --dry-run  # list the probes
  deltacli doctor storage s3://bucket/tbl --yes      # probe its guarantees
"""

_FLEET = """Maintain many tables by a policy file.

\b
Examples:
  deltacli fleet init ./lake           # write a policy file for its tables
  deltacli fleet check fleet.toml      # check the policy file
  deltacli fleet plan fleet.toml       # show what is due, and why
  deltacli fleet run fleet.toml --yes  # do it
  deltacli fleet status fleet.toml     # show alerts and trends
"""

_SCHEMA = """Show, compare and convert the schemas of Delta and Paimon tables.

\b
Examples:
  deltacli schema show ./tbl                       # draw the schema
  deltacli schema diff ./tbl --from version:3      # compare with version 3
  deltacli schema diff ./tbl ./paimon_tbl          # compare two tables
  deltacli schema convert ./paimon_tbl --to delta  # write it for Delta
"""

_SPARK = """Prepare a Spark cluster for --engine spark.

\b
Examples:
  deltacli spark package --to .  # write the archive for --py-files
"""

_SHARE = """Share tables with Delta Sharing clients, and read what others share.

\b
Examples:
  deltacli share ls acme.share                        # list shared tables
  deltacli share head acme.share#sales.main.orders    # show a few rows
  deltacli share pull acme.share#sales.main.orders --to orders
  deltacli share serve ./tbl                          # try it on this machine
  deltacli share init ./lake                          # write shares.yaml
  deltacli share check                                # check shares.yaml
  deltacli share recipient add acme --grant lake      # add a recipient
  deltacli share token create acme --profile a.share  # write a profile
  deltacli share test a.share                         # check any server
"""

_RECIPIENT = """Manage who may read shared tables.

\b
Examples:
  deltacli share recipient add acme --grant sales  # add a recipient
  deltacli share recipient list                    # list all of them
  deltacli share recipient grant acme sales/eu     # grant a schema
"""

_TOKEN = """Manage the bearer tokens of recipients.

\b
Examples:
  deltacli share token create acme --profile a.share  # write a profile
  deltacli share token rotate acme --overlap 24h      # replace tokens
  deltacli share token revoke acme t1a2b3c4d          # end one now
"""

_KEY = """Manage the key that signs page tokens and file URLs.

\b
Examples:
  deltacli share key rotate --yes                   # replace it
  deltacli share key rotate --overlap 0s --dry-run  # show the end of old keys
"""

_PROFILE = """Inspect profile files, without showing their tokens.

\b
Examples:
  deltacli share profile show a.share   # show endpoint and expiry
  deltacli share profile check a.share  # exit 1 if something is wrong
"""

GROUPS: Mapping[str, str] = {
    "catalog": _CATALOG,
    "doctor": _DOCTOR,
    "fleet": _FLEET,
    "log": _LOG,
    "schema": _SCHEMA,
    "share": _SHARE,
    "share key": _KEY,
    "share profile": _PROFILE,
    "share recipient": _RECIPIENT,
    "share token": _TOKEN,
    "spark": _SPARK,
}
"""Group of commands -> its help. A group stands behind the one that it is in."""

FINDINGS: Mapping[str, str] = {
    "alter": "with --check: a change is due",
    "catalog status": "the log and the catalog differ",
    "checkpoint": "with --verify: a checkpoint differs from the log, or is unreadable",
    "copy": "with --check: the target differs from the source",
    "diff": "the two versions or tables differ",
    "doctor access": "a permission is missing",
    "doctor storage": "the store does not guarantee what deltacli relies on",
    "doctor table": "with --check: there is advice",
    "fleet check": "the policy file has errors",
    "fleet plan": "with --exit-code: a step is due",
    "fleet run": "everything due was done; a table has findings or an alert",
    "fleet status": "a table has an alert",
    "log crc": "the checksum differs from the state, or is unreadable",
    "manifest": "with --check: a manifest differs from the newest version",
    "optimize": "with --check: there is something to do",
    "repair": "errors are left that repair cannot fix; never with --dry-run",
    "restore": "with --check: the table differs from that version",
    "schema diff": "the schemas differ",
    "share check": "recipients cannot read something that is shared",
    "share profile check": "the profile has a problem",
    "share test": "a finding has the severity of --fail-on, or a higher one",
    "stats": "with --check: statistics are missing or wrong",
    "streams": "a query is dead; with --fail-on at-risk: one is not ok",
    "validate": "a finding has the severity of --fail-on, or a higher one",
    "widen-type": "with --check: a change is due",
}
"""Command -> when it exits with 1. The others never do."""

EXITS: Mapping[int, Mapping[str, str]] = {
    1: FINDINGS,
    3: {"validate": "nothing at a path, or a table that cannot be checked"},
    4: {
        "fleet init": "the file exists; --force replaces it",
        "fleet run": "--resume, and the newest run is still active",
        "fleet status": "--serve-metrics for others, without --allow-remote",
        "share init": "the file exists; --force replaces it",
    },
    5: {
        "catalog publish": "some commits are copied, or not reported; run it again",
        "copy": "an error or the time budget ended it; run it again",
        "features": "drop: some of its commits are made; run it again",
        "fleet init": "the file is written; a directory could not be read",
        "fleet plan": "a table or a directory could not be read, or a step planned",
        "fleet run": "a step was refused, failed or not started",
        "fleet status": "the newest run was interrupted; fleet run --resume",
        "log expire": "some log files could not be deleted; run it again",
        "manifest": "some manifests were not written; run it again",
        "optimize": "files that cannot be read are left; repair them first",
        "repair": "a step failed or was refused; the others are made",
        "restore": "committed, but files are gone or could not be checked",
        "share init": "the file is written; a directory could not be read",
        "share test": "a limit ended the test early, without findings",
        "stats": "files that cannot be read have none; repair them first",
        "undelete": "some files are in no source; name more with --from",
        "vacuum": "some files could not be deleted; run it again",
    },
}
"""Exit code -> the command for which it means something of its own, and what."""

FORMER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "log expire": {"--keep-versions": "--keep-version"},
    "share head": {"--rows": "--limit"},
}
"""Command -> former names of its options, which work but are not shown, and the names of today."""

_PATHS = tuple(tuple(name.split()) for name in COMMANDS)

_OF_SHARED_TABLES = frozenset({("share", "changes"), ("share", "head"), ("share", "pull"), ("share", "schema")})
WITHOUT_TABLE = frozenset(
    {
        ("catalog", "ls"),
        ("completion",),
        ("spark", "package"),
        *(path for path in _PATHS if path[0] in ("fleet", "share")),
    }
    - _OF_SHARED_TABLES
    - {("fleet", "init"), ("share", "init")}
)
"""Commands whose first argument is not a table, nor a directory of tables."""

HERE = "."
"""The table of the commands `TABLE_OR_HERE` where none is given."""
TABLE_OR_HERE = frozenset(
    {("doctor", "table"), *((name,) for name in ("explain", "history", "reach", "snapshot", "validate"))}
)
"""Commands of which TABLE may be left out: they change nothing."""


def setting(module: ModuleType, name: str, command: str, default: Any = None) -> Any:
    """Return a setting of a command, which its module has for all of its commands, or by their last words."""
    found = getattr(module, name, default)
    return found.get(command.rpartition(" ")[2], default) if isinstance(found, dict) else found


def is_command(path: Path) -> bool:
    return path in _PATHS


def leads_on(path: Path) -> bool:
    """Return True for a command and for the beginning of a path to one."""
    return any(known[: len(path)] == path for known in _PATHS)


def below(path: Path) -> list[str]:
    """Return the commands at and below a place of the tree."""
    return [name for name, known in zip(COMMANDS, _PATHS, strict=True) if known[: len(path)] == path]


def path_of(arguments: Sequence[str]) -> Path:
    """Return the leading words that name a command or a group."""
    path: Path = ()
    for word in arguments:
        if is_command(path) or not leads_on((*path, word)):
            break
        path = (*path, word)
    return path


def path_in(arguments: Iterable[str]) -> Path:
    """Return the words that name a command or a group, also with options between them."""
    path: Path = ()
    for word in arguments:
        if not is_command(path) and leads_on((*path, word)):
            path = (*path, word)
    return path


def move_shared_options(argv: Sequence[str]) -> list[str]:
    """Move shared options before the command or its group behind it, because they are accepted in both places."""
    moved: list[str] = []
    joined: list[str] = []
    path: Path = ()
    position = 0
    while position < len(argv) and not is_command(path):
        word = argv[position]
        name = word.split("=", 1)[0]
        if leads_on((*path, word)):
            path = (*path, word)
            position += 1
        elif name in TAKES_VALUE:
            taken = 2 if TAKES_VALUE[name] and "=" not in word else 1
            moved += argv[position : position + taken]
            joined.append("=".join(argv[position : position + taken]))
            position += taken
        elif moved and word == "help":  # the help of a command has no use for them, the list of rules has
            asked = argv[position + 1 :]
            return [word, *asked, *([] if leads_on(tuple(asked)) else joined)]
        elif moved and not path and word in ASK_FOR_VERSION:
            return [word, *(one for one in joined if one in ("--json", "--format=json"))]
        elif moved and word in ASK_FOR_HELP:
            return [*path, word]
        else:  # an unknown word or option: the error is about it, not about the options before it
            return [*path, *argv[position:], *([] if argv[-1] in ASK_FOR_HELP else moved)]
    if position == len(argv) and moved and not is_command(path):
        return list(path) or ["--help"]  # options of all commands, and no command
    return [*path, *moved, *argv[position:]] if is_command(path) else list(argv)


def with_current_options(arguments: Sequence[str]) -> Sequence[str]:
    """Return a command line with former names of options replaced by those of today."""
    former = FORMER_OPTIONS.get(" ".join(path_of(arguments)))
    if former is None:
        return arguments
    split = [word.partition("=") for word in arguments]
    return [former.get(name, name) + equals + value for name, equals, value in split]


def first_argument(arguments: Sequence[str], valued: Iterable[str]) -> str | None:
    """Return the first word after the command that is neither an option nor the value of a `valued` option."""
    takes_value, skip, only_arguments = set(valued), False, False
    for word in arguments[len(path_of(arguments)) :]:
        if skip:
            skip = False
        elif word == "--" and not only_arguments:
            only_arguments = True
        elif only_arguments or not word.startswith("-"):
            return word
        else:
            skip = word in takes_value
    return None
