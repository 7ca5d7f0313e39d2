"""The table of commands and groups: where each command is, and what the help of its group says about it.

A command's module is imported when the command is named on the command line. The help of the program and of a group
reads this table, so that it imports no command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class SharedTableSupport(Enum):
    """The ways in which a command reads tables of a Delta Sharing server, such as `acme.share#sales.main.orders`.

    Attributes:
        NONE: The command does not support shared tables.
        METADATA_ONLY: The command reads the protocol and the schema, but no files.
        ANY_ACCESS: The command reads files by URLs or in the table's directory, whichever the server prefers.
        PREFERS_DIRECTORY: As `ANY_ACCESS`, but in the directory if the server offers both.
        PREFERS_URLS: As `ANY_ACCESS`, but by URLs if the server offers both.
    """

    NONE = auto()
    METADATA_ONLY = auto()
    ANY_ACCESS = auto()
    PREFERS_DIRECTORY = auto()
    PREFERS_URLS = auto()

    @property
    def reads_files(self) -> bool:
        """True if the command reads files of shared tables, so that `--access` has an effect."""
        return self not in (SharedTableSupport.NONE, SharedTableSupport.METADATA_ONLY)


@dataclass(frozen=True)
class CommandEntry:
    """A command that is not imported yet.

    Attributes:
        module: The module that defines the command. Its `app` registers the command under the last word of its name.
        summary: The first sentence of the command's help.
        shared_tables: How the command reads shared tables. A command with any value but `NONE` may still refuse a
            shared table itself, for instance `properties` if it is asked to set one.
    """

    module: str
    summary: str
    shared_tables: SharedTableSupport = SharedTableSupport.NONE


COMMANDS: Mapping[str, CommandEntry] = {
    "alter": CommandEntry(
        module="deltacli.cli.commands.alter",
        summary="Change the columns of a table, or what describes it, in one commit.",
    ),
    "catalog ls": CommandEntry(
        module="deltacli.cli.commands.catalog.tables",
        summary="List the tables of a catalog or of a schema, or the catalogs.",
    ),
    "catalog publish": CommandEntry(
        module="deltacli.cli.commands.catalog.tables",
        summary="Copy ratified commits into the log, in order, and report them.",
    ),
    "catalog staged": CommandEntry(
        module="deltacli.cli.commands.catalog.tables",
        summary="List the staged commits of a table, and the outcome of each.",
    ),
    "catalog status": CommandEntry(
        module="deltacli.cli.commands.catalog.tables",
        summary="Show the newest versions in catalog and log, and what differs.",
    ),
    "changes": CommandEntry(
        module="deltacli.cli.commands.read_and_changes",
        summary="Read how the rows of a table changed between two versions.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "checkpoint": CommandEntry(
        module="deltacli.cli.commands.checkpoint",
        summary="Write a checkpoint, so that readers have fewer commits to read.",
    ),
    "clone": CommandEntry(
        module="deltacli.cli.commands.elsewhere.clone",
        summary="Create a table that shares the data files of another one.",
    ),
    "completion": CommandEntry(
        module="deltacli.cli.commands.completion", summary="Print the completion script of a shell."
    ),
    "convert": CommandEntry(
        module="deltacli.cli.commands.elsewhere.convert",
        summary="Turn Parquet files into a Delta table, in place and in one commit.",
    ),
    "copy": CommandEntry(
        module="deltacli.cli.commands.elsewhere.copy", summary="Copy a table to another place, and verify the copy."
    ),
    "diff": CommandEntry(
        module="deltacli.cli.commands.diff",
        summary="Show what differs between two versions, or between two tables; exit 1 if something does.",
    ),
    "doctor access": CommandEntry(
        module="deltacli.cli.commands.doctor.access_and_storage",
        summary="Show the identity that a store sees, and the permissions that are missing.",
    ),
    "doctor storage": CommandEntry(
        module="deltacli.cli.commands.doctor.access_and_storage",
        summary="Probe what the store of a table guarantees, on scratch files.",
    ),
    "doctor table": CommandEntry(
        module="deltacli.cli.commands.doctor.table",
        summary="Give advice on a table, with its numbers before and after.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "explain": CommandEntry(
        module="deltacli.cli.commands.explain",
        summary="Show which clients read and write a table, and what stops the others.",
    ),
    "features": CommandEntry(
        module="deltacli.cli.commands.properties_and_features",
        summary="Show the table features of a table, add some to its protocol, or drop one.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "fleet check": CommandEntry(
        module="deltacli.cli.commands.fleet.policy_file", summary="Check a policy file, without opening any table."
    ),
    "fleet init": CommandEntry(
        module="deltacli.cli.commands.fleet.policy_file",
        summary="Write a policy file for the tables at and below a directory.",
    ),
    "fleet plan": CommandEntry(
        module="deltacli.cli.commands.fleet.plan", summary="Show what is due for the tables of a policy file, and why."
    ),
    "fleet run": CommandEntry(
        module="deltacli.cli.commands.fleet.run", summary="Do what is due for the tables of a policy file."
    ),
    "fleet status": CommandEntry(
        module="deltacli.cli.commands.fleet.status",
        summary="Show the alerts of each table, the worst first, and trends.",
    ),
    "history": CommandEntry(
        module="deltacli.cli.commands.history",
        summary="Show who changed a table, when and how, newest first.",
        shared_tables=SharedTableSupport.PREFERS_DIRECTORY,
    ),
    "log backup": CommandEntry(
        module="deltacli.cli.commands.log.backup_and_restore",
        summary="Copy the log of a table, and keep the copy up to date.",
    ),
    "log cat": CommandEntry(
        module="deltacli.cli.commands.log.cat", summary="Write the raw actions of a version, one per line."
    ),
    "log compact": CommandEntry(
        module="deltacli.cli.commands.log.crc_and_compact",
        summary="Write a log compaction: one file for the commits X to Y.",
    ),
    "log crc": CommandEntry(
        module="deltacli.cli.commands.log.crc_and_compact",
        summary="Write a missing version checksum, or compare an existing one.",
    ),
    "log expire": CommandEntry(
        module="deltacli.cli.commands.log.expire", summary="Delete log files that no kept version needs."
    ),
    "log restore": CommandEntry(
        module="deltacli.cli.commands.log.backup_and_restore",
        summary="Restore files that a backup has and the log of a table lacks.",
    ),
    "manifest": CommandEntry(
        module="deltacli.cli.commands.elsewhere.manifest",
        summary="Write the lists of files that Athena, Redshift and Presto read.",
    ),
    "optimize": CommandEntry(
        module="deltacli.cli.commands.optimize",
        summary="Compact small files, sort rows, and purge deleted rows. The rows stay the same.",
    ),
    "properties": CommandEntry(
        module="deltacli.cli.commands.properties_and_features",
        summary="Show the properties of a table, set some or unset some.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "reach": CommandEntry(
        module="deltacli.cli.commands.reach",
        summary="Show which versions can be read, by what, and until when.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "read": CommandEntry(
        module="deltacli.cli.commands.read_and_changes",
        summary="Read the rows of a table at a version.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "repair": CommandEntry(
        module="deltacli.cli.commands.repair",
        summary="Repair what validate finds: recover first, rebuild next, remove last.",
    ),
    "restore": CommandEntry(
        module="deltacli.cli.commands.restore", summary="Bring a table back to an earlier version, in one commit."
    ),
    "schema convert": CommandEntry(
        module="deltacli.cli.commands.schema",
        summary="Write the schema of a table or file in the form of another format.",
    ),
    "schema diff": CommandEntry(
        module="deltacli.cli.commands.schema",
        summary="Show what changes from one schema to another; exit 1 if something does.",
    ),
    "schema show": CommandEntry(
        module="deltacli.cli.commands.schema", summary="Show the schema of a Delta or Paimon table as a tree."
    ),
    "share changes": CommandEntry(
        module="deltacli.cli.commands.share.head_and_changes",
        summary="Read how the rows of a shared table changed between two versions.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "share check": CommandEntry(
        module="deltacli.cli.commands.share.configuration",
        summary="Check a sharing configuration by opening every shared table.",
    ),
    "share head": CommandEntry(
        module="deltacli.cli.commands.share.head_and_changes",
        summary="Show a few rows of a shared table.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "share init": CommandEntry(
        module="deltacli.cli.commands.share.configuration",
        summary="Write the configuration of a server that shares the tables at and below directories.",
    ),
    "share key rotate": CommandEntry(
        module="deltacli.cli.commands.share.configuration",
        summary="Replace the key that signs page tokens and file URLs.",
    ),
    "share ls": CommandEntry(
        module="deltacli.cli.commands.share.profile",
        summary="List the shares, schemas and tables that a profile gives access to.",
    ),
    "share profile check": CommandEntry(
        module="deltacli.cli.commands.share.profile",
        summary="Check a profile file: form, checksum of the token, expiry, permissions.",
    ),
    "share profile show": CommandEntry(
        module="deltacli.cli.commands.share.profile",
        summary="Show the endpoint and the expiry of a profile file, and never its secrets.",
    ),
    "share pull": CommandEntry(
        module="deltacli.cli.commands.share.pull",
        summary="Copy a shared table into a local one, or its rows into files, verified.",
        shared_tables=SharedTableSupport.PREFERS_URLS,
    ),
    "share recipient add": CommandEntry(module="deltacli.cli.commands.share.recipient", summary="Add a recipient."),
    "share recipient grant": CommandEntry(
        module="deltacli.cli.commands.share.recipient", summary="Grant shares, schemas or tables to a recipient."
    ),
    "share recipient list": CommandEntry(
        module="deltacli.cli.commands.share.recipient", summary="List recipients with their grants."
    ),
    "share recipient remove": CommandEntry(
        module="deltacli.cli.commands.share.recipient", summary="Remove a recipient with its tokens and grants."
    ),
    "share recipient revoke": CommandEntry(
        module="deltacli.cli.commands.share.recipient", summary="Revoke grants of a recipient."
    ),
    "share schema": CommandEntry(
        module="deltacli.cli.commands.share.profile",
        summary="Show the schema of a shared table, as a tree.",
        shared_tables=SharedTableSupport.METADATA_ONLY,
    ),
    "share serve": CommandEntry(
        module="deltacli.cli.commands.share.serve", summary="Serve tables to Delta Sharing clients."
    ),
    "share test": CommandEntry(
        module="deltacli.cli.commands.share.test",
        summary="Check a Delta Sharing or OpenSharing server against the text of the protocol.",
    ),
    "share token create": CommandEntry(
        module="deltacli.cli.commands.share.token", summary="Create a token for a recipient, and show it once."
    ),
    "share token list": CommandEntry(
        module="deltacli.cli.commands.share.token", summary="List tokens by their ids, with their state and expiry."
    ),
    "share token revoke": CommandEntry(
        module="deltacli.cli.commands.share.token", summary="Revoke tokens of a recipient."
    ),
    "share token rotate": CommandEntry(
        module="deltacli.cli.commands.share.token", summary="Replace the tokens of a recipient by a new one."
    ),
    "snapshot": CommandEntry(
        module="deltacli.cli.commands.snapshot",
        summary="Show the state of a table at a version.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "spark package": CommandEntry(
        module="deltacli.cli.commands.spark.package",
        summary="Write the archive that executors import deltacli from, and print its path.",
    ),
    "stats": CommandEntry(
        module="deltacli.cli.commands.stats", summary="Compute the statistics of files without rewriting them."
    ),
    "streams": CommandEntry(
        module="deltacli.cli.commands.streams",
        summary="Show which Spark queries can continue, and what they still need.",
    ),
    "undelete": CommandEntry(module="deltacli.cli.commands.undelete", summary="Bring deleted files of a table back."),
    "vacuum": CommandEntry(
        module="deltacli.cli.commands.vacuum", summary="Delete files that no retained version needs."
    ),
    "validate": CommandEntry(
        module="deltacli.cli.commands.validate",
        summary="Check tables against the rules of the protocol.",
        shared_tables=SharedTableSupport.ANY_ACCESS,
    ),
    "widen-type": CommandEntry(
        module="deltacli.cli.commands.widen_type",
        summary="Give columns wider types without rewriting data, in one commit.",
    ),
}
"""Command -> its entry. A command of a group is `GROUP COMMAND`."""

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

HELP = """Inspect, check and maintain Delta and Paimon tables, without a JVM.

\b
Examples:
  deltacli history ./tbl                # show who changed it, when and how
  deltacli snapshot ./tbl               # show its current state
  deltacli snapshot ./tbl --version 3   # show its state at version 3
  deltacli read ./tbl --limit 5         # read five of its rows
  deltacli changes ./tbl --from 3       # show row changes since version 3
  deltacli checkpoint ./tbl             # write a checkpoint of its log
  deltacli vacuum ./tbl --dry-run       # list files that can be deleted
  deltacli restore ./tbl --version 3    # go back to version 3
  deltacli validate ./tbl               # check it against the protocol
  deltacli log cat ./tbl 3              # print the actions of version 3
"""
"""The help of the program."""
