"""The run of a command: the settled values of the options that all commands share.

With `-v` their calls are a line on stderr per endpoint.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

from deltacli.cli.command_tree import path_of
from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import CatalogChoice, catalog_profile_of, place_of_catalog
from deltacli.cli.options.tables import DEFAULT_ROWS
from deltacli.cli.output.destination import open_destination
from deltacli.cli.output.formats import MARKDOWN, PARQUET, TABLE, Content, Format
from deltacli.cli.output.results import Result
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.shared_options import TableFormat
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.library_messages import capture_logging
from deltacli.cli.terminal.signals import before_exit, is_interrupted
from deltacli.cli.terminal.stderr import close_live_line, write_json_message, write_message
from deltacli.cli.terminal.suggested_commands import (
    add_context_options,
    repeat_command_with,
    repeat_command_without_cluster,
    repeat_command_without_limit,
    spell_tables_as_typed,
)
from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError, PaimonTable, Refused, UsageError, quote_table
from deltacli.core.long_steps import LongStepAdvisor
from deltacli.core.machine import Clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.texts import cut_middle, summarize_names
from deltacli.core.times import format_timestamp
from deltacli.core.units import format_size, plural
from deltacli.delta.log.disputed_readings import DECISIONS, KEY_IN_OTHER_CASE
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, ReadStorage, Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET, PathKind
from deltacli.storage.optional_interfaces import (
    StoreOfVersions,
    StoreWithBounds,
    is_bound_to_this_process,
    require_writable,
)
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import Written
    from deltacli.cli.render.fleet.check import FleetListing
    from deltacli.core.typing import Json
    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.storage.retry import Retry
    from deltacli.storage.tally import HostTally
    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import ArrowRows
    from deltacli.table.version import Snapshot
    from deltacli.table.version_from_checksum import VersionFromChecksum

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.catalogs.unity.unity import UnityCatalog
    from deltacli.changing.file_totals import FileTotals
    from deltacli.cli.output.sections import Section
    from deltacli.engine.base import Engine
    from deltacli.engine.spark.engine import SparkSettings
    from deltacli.storage.location import StoreLocation
    from deltacli.table.handle import TableHandle

    Handled = TypeVar("Handled", bound=TableHandle)

    class Part(Protocol):
        """One table of several, as a run on it sees that."""

        name: str
        result: Result | None
        pending: Any  # Any: what is left to be done
        shows_details: bool
        following: list[str]

        def head(self, run: CommandContext, sink: BinaryIO) -> None:
            """Write the heading above a result."""

        def state_plan(self, amount: FileTotals | None, *, is_noop: bool) -> None:
            """Keep what is planned, for the row of the table."""

        def state_outcome(self, files: int, size_bytes: int | None) -> None:
            """Keep how many files it was done with, for the row of the table."""


_NEXT, _NOTE = "next: ", "note: "
CATALOG = "uc://"
"""How addresses of tables in a catalog begin."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommandContext:
    """The settled values of the shared options of one invocation."""

    format: Format
    output: str | None
    clock: Clock
    storage_options: Mapping[str, str]
    terminal: Terminal
    quiet: bool
    verbosity: int
    table_format: TableFormat | None = None
    """The format of tables if it was given, else it is detected."""
    access: str = "auto"
    """How shared tables are read."""
    progress: Progress = SILENT
    progress_is_asked_for: bool = False
    log_is_json: bool = False
    is_paged: bool = True
    retry_budget_ms: int | None = None
    allow_external: tuple[str, ...] = ()
    part: Part | None = None
    """The table of several that this run is about."""
    directory: str | None = None
    """Where `--output` names a directory: rows are written there as Parquet, and the result says what was written."""
    colours_notes: bool = False
    """Notes go to a terminal that shows colour."""
    can_use_cluster: bool = False
    """The command may run on a cluster."""
    cluster: SparkSettings | None = None
    """The cluster that does the work; None: this process."""
    catalog: CatalogChoice | None = None
    """The catalog of tables `uc://…`; None: that of the environment."""
    confirmed: list[Result] = field(default_factory=list)
    """The plan that the user read on this screen and agreed to."""
    _written: list[Result] = field(default_factory=list)
    """The last result."""
    _stores: list[Stores] = field(default_factory=list)
    """All that were made. The first one is that of the run."""
    _engines: list[Engine] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        """Return the engine of this run, the same one for all of its operations. Raises what opening it raises."""
        if not self._engines:
            self._engines.append(self._open_engine())
            before_exit.append(self._engines[0].abandon)
        return self._engines[0]

    def _open_engine(self) -> Engine:
        if self.cluster is not None:
            from deltacli.engine.spark.engine import open_engine

            return open_engine(self.cluster, self.progress)
        from deltacli.engine.base import EmbeddedEngine

        return EmbeddedEngine()

    def close(self) -> None:
        """Release the engine, such as a session of a cluster. With `-v`, report the calls to object stores."""
        while self._engines:
            engine = self._engines.pop()
            before_exit.remove(engine.abandon)
            engine.close()
        if self.verbosity and not self.quiet:
            for host in merged(host for stores in self._stores for host in stores.tallies):
                if self.log_is_json:
                    write_json_message(dumps(document_of(host)))
                else:
                    write_message(text_of(host))

    @property
    def allowed(self) -> AllowedPrefixes:
        """Return the prefixes below which files outside a table may be opened. Raises UsageError."""
        if not self.allow_external:
            return NO_PREFIXES
        from deltacli.work.task import read_prefixes

        return read_prefixes(self.allow_external)

    @property
    def is_on_screen(self) -> bool:
        return self.terminal.is_terminal and self.format is TABLE

    def write(self, result: Result) -> None:
        """Write a result in the run's format to its destination; of a confirmed plan only what has become of it."""
        invocation.is_reporting = invocation.has_agreed
        self._written[:] = [result]
        if self.part is not None:
            self.part.result = result
            if self.format not in (TABLE, MARKDOWN) or not self.part.shows_details:
                return  # a row in the overview of all tables, or a document among others
        with self.sink() as sink:
            if self.part is not None:
                self.part.head(self, sink)
            if new := self._new_sections(result):
                write_sections(sink, self.terminal, new)
            else:
                self.format.write(sink, result, self.terminal)
        self._say_where(result.rows_written())

    def _say_where(self, rows: int | None) -> None:
        """Name the file that was written where a user watches, who would see nothing at all."""
        if self.quiet or self.output is None or not sys.stderr.isatty() or not os.path.isfile(self.output):
            return
        size = format_size(os.path.getsize(self.output))
        counted = "" if rows is None else f"{plural(rows, 'row')} ({size}) to "
        said = f"wrote {counted}{self.output}" if counted else f"wrote {self.output} ({size})"
        if self.log_is_json and not self.format.errors_are_json:
            self.note(said)
        else:
            write_message(said)  # plain text, as progress is, also where the file is JSON

    def confirm(self) -> None:
        if self.is_on_screen:
            self.confirmed[:] = self._written

    def _new_sections(self, result: Result) -> list[Section]:
        if not self.confirmed or result.has_requested_rows or type(self.confirmed[0]) is not type(result):
            return []  # the rows of a list are in no section
        shown = [(section.label, list(section.lines)) for section in self.confirmed[0].sections(self.terminal)]
        filled = [section for section in result.sections(self.terminal) if section.lines]
        others = [section for section in filled if (section.label, list(section.lines)) not in shown]
        known = [lines for _, lines in shown]
        return [section for section in others if list(section.lines) not in known] or others

    def say_next(self, command: str, *, also_in_pipe: bool = False) -> None:
        """Name the next command below a result on a terminal, or wherever notes go."""
        if self.part is not None and not also_in_pipe:
            self.part.following.append(command)
        elif self.is_on_screen or also_in_pipe:
            self.note(f"next: {command}")

    def note(self, text: str) -> None:
        """Write a note to stderr, as a JSON object where errors are JSON; `-q` suppresses it. One that begins with
        `next: ` is a command, which keeps the files that this one names.
        """
        if self.quiet or _is_spoiled(text):
            return
        if self.part is not None and text.startswith(_NOTE):
            text = f"{_NOTE}{self.part.name}: {text.removeprefix(_NOTE)}"
        if text.startswith(_NEXT):
            text = _NEXT + add_context_options(text.removeprefix(_NEXT), invocation.arguments)
        if self.log_is_json:
            write_json_message(dumps({"type": "note", "message": text.removeprefix(_NOTE)}))
            return
        text = escape_control(cut_middle(spell_tables_as_typed(text, invocation.arguments)))
        if self.colours_notes and text.startswith(_NEXT):
            write_message(text, lambda shown: self.terminal._replace(colour=True).paint(shown, Style.NEXT))
        else:
            write_message(text)

    def open(self, table: str, *, writes: bool = False) -> Storage:
        """Open the store of a table, which the command `writes` to or only reads.

        Raises UsageError, also where the table's format is ambiguous and was not given, or was given as Paimon, and
        NoAtomicCreate where a command writes to a read-only store, before any request is sent.
        """
        if self.table_format is TableFormat.PAIMON:
            raise PaimonTable("this command works on Delta tables only", code="usage.table-format")
        return self.open_either(table, writes=writes)

    def open_either(self, table: str, *, writes: bool = False) -> Storage:
        """Open the store of a table of either format. Raises what `open` raises."""
        from deltacli.table.table_directories import require_one_format

        storage = self.open_other(table, writes=writes)
        if self.table_format is None:
            require_one_format(storage)
        return storage

    def open_table(self, table: str, *, writes: bool = False) -> Table:
        return self.table_of(self.open(table, writes=writes))

    def table_of(self, storage: Storage, name: str | None = None) -> Table:
        """Return the table in an open store with the settings of this run; `name` is how errors call it."""
        from deltacli.api.table import Table

        return self.handle_of(storage, Table, name=name)

    def handle_of(self, storage: Storage, kind: type[Handled], **own: Any) -> Handled:  # Any: parameters of the class
        """Return a handle of the table in an open store, like `table_of`."""
        return kind(
            storage,
            engine=self.engine,
            clock=self.clock,
            progress=self.progress_of(storage),
            open_other=self.open_other,
            allowed=self.allowed,
            location=self.location_of(storage) if self.engine.may_repeat else None,
            **own,
        )

    def progress_of(self, storage: ReadStorage) -> Progress:
        """Return the progress of an operation on a store; it names the cluster engine where this process takes long."""
        if self.quiet or not self.can_use_cluster or self.engine.may_repeat:
            return self.progress
        return LongStepAdvisor(self.progress, self._suggest_cluster, is_remote=storage.capabilities.parallel_reads > 1)

    def _suggest_cluster(self, why: str) -> None:
        self.note(f"note: {why}; on a Spark cluster: {repeat_command_with(invocation.arguments, '--engine', 'spark')}")

    def location_of(self, storage: ReadStorage) -> StoreLocation | None:
        """Return where other processes find the store of a table; None for a shared one, which by its directory gives
        them credentials itself. Raises UsageError for tables of a catalog, whose credentials stay in this process.
        """
        from deltacli.storage.location import StoreLocation

        if isinstance(storage, StoreOfVersions | StoreWithBounds):
            return None
        if is_bound_to_this_process(storage):
            raise UsageError(
                "--engine spark does not work on tables of a catalog: its credentials and commits stay in this process",
                code="cluster.catalog",
                hint=repeat_command_without_cluster(invocation.arguments),
            )
        budget = None if self.retry_budget_ms is None else self.retry_budget_ms / 1_000
        return StoreLocation.of(storage.uri, self.storage_options, self.allowed, budget)

    def open_other(self, uri: str, *, writes: bool = False) -> Storage:
        if not self._stores:
            self.make_stores()
        return self._stores[0].open(uri, writes=writes)

    def open_catalog(self) -> UnityCatalog:
        """Return the catalog of tables `uc://…`. Raises UsageError where none is configured."""
        if not self._stores:
            self.make_stores()
        return self._stores[0].open_catalog()

    def expand_in_catalog(self, pattern: str) -> list[str]:
        """Return the addresses of tables that match a pattern. Raises UsageError, and what a catalog raises."""
        from deltacli.catalogs.unity.unity import addresses_matching

        return addresses_matching(self.open_catalog(), pattern)

    def throttled(self, calls_per_second: float | None) -> CommandContext:
        """Return this run with stores limited to a rate, if one is given; its tables show no progress."""
        stores = self.make_stores(calls_per_second)
        stores.policy()  # made before threads ask for it: all share one rate
        return replace(self, progress=SILENT, can_use_cluster=False, _stores=[stores])

    def make_stores(self, calls_per_second: float | None = None) -> Stores:
        """Return what opens stores with the options of this run, with a policy of retries of its own."""
        note = None if self.quiet else self.note
        given = (self.storage_options, self.allowed, self.retry_budget_ms, note, calls_per_second)
        self._stores.append(Stores(*given, access=self.access, catalog=self.catalog))
        return self._stores[-1]

    def sink(self, *, content: Format | None = None) -> AbstractContextManager[BinaryIO]:
        """Open the destination of the result: a file, a pipe, or a terminal with a pager; `content`: its format."""
        if self.terminal.is_terminal:
            from deltacli.cli.terminal.pager import open_paged_stream

            shown = content or self.format
            return open_destination(None, open_paged_stream(shown.escaping, is_paged=self.is_paged and shown.is_paged))
        if not self.progress_is_asked_for and self.output in (None, "-") and _is_pipe(sys.stdout):
            close_live_line()  # the reader of the pipe may draw on the same terminal
        return open_destination(self.output)


def _is_spoiled(text: str) -> bool:
    """Return True for a command to paste whose secrets would be masked in the output."""
    return text.startswith(_NEXT) and without_secrets(text) != text


def _is_pipe(stream: Any) -> bool:  # Any: a standard stream or a test's replacement
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


# -- opening the stores of a run ---------------------------------------------------------------------------------------

_READING = frozenset(
    {
        *((name,) for name in ("changes", "features", "history", "properties", "reach", "read", "snapshot")),
        ("validate",),
        ("doctor", "table"),
        *(("share", name) for name in ("changes", "head", "pull", "schema")),
    }
)
"""Commands that read shared tables, or say themselves why they cannot. Others write to them, or plan to."""
_METADATA_ONLY = ("share", "schema")
_PREFERRED: Mapping[tuple[str, ...], str] = {("history",): "dir", ("share", "pull"): "url"}
"""How shared tables are read that are offered in both ways."""


def _only_reading(name: str, words: Sequence[str], uri: str, *, writes: bool) -> UsageError | None:
    """Return the error for a command that does not change the shared table and yet does not work on it; None for
    others. `words`: how the command was typed.
    """
    from deltacli.cli.command_loading import has_option

    hint = f"deltacli {'share schema' if name.startswith('schema ') else 'snapshot'} {quote_table(uri)}"
    if name in ("copy", "clone") and uri in words[1:2]:
        hint = f"deltacli share pull {quote_table(uri)} --to DIRECTORY --as delta"
        return UsageError(f"{name} does not read shared tables", code="share.read-only", hint=hint)
    if name in ("repair", "undelete") and (("--from", uri) in pairwise(words) or f"--from={uri}" in words):
        name, hint = f"{name} --from", f"deltacli {name} --help"
    elif name == "checkpoint" and "--verify" in words:
        name = "checkpoint --verify"
    elif writes or (has_option(tuple(name.split()), "--dry-run") and name != "log backup"):
        return None
    return UsageError(f"{name} does not work on shared tables", code="share.read-only", hint=hint)


class Stores:
    """Opens stores with the options of a run.

    `allowed`: prefixes that links of a local directory may point to, besides the directory itself. `retry_budget_ms`
    None: the default. `note` is called with messages about delays.
    `calls_per_second`: the maximum rate of requests to each host. `access`: how shared tables are read.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        allowed: AllowedPrefixes,
        retry_budget_ms: int | None = None,
        note: Callable[[str], None] | None = None,
        calls_per_second: float | None = None,
        *,
        access: str = "auto",
        catalog: CatalogChoice | None = None,
    ) -> None:
        self._options, self._allowed, self._note = options, allowed, note
        self._access, self._catalog = access, catalog
        self._retry_budget_ms, self._calls_per_second = retry_budget_ms, calls_per_second
        self._policy: Retry | None = None
        self._noted = set[str]()
        self._opened_catalog: UnityCatalog | None = None

    def open(self, uri: str, *, writes: bool = False) -> Storage:
        """Open a store that the command `writes` or only reads. Raises UsageError and NoAtomicCreate at once."""
        if uri[: len(CATALOG)].lower() == CATALOG:
            self.note_needless_access("a table that is not shared")
            return self._open_in_catalog(uri, writes=writes)
        if "#" in uri and (share := self._open_share(uri, writes=writes)) is not None:
            return share
        self.note_needless_access("a table that is not shared")
        if "://" not in uri or uri.lower().startswith("file:"):
            storage = open_storage(uri, self._options, self._allowed)
            is_elsewhere = any("://" in word and not word.lower().startswith("file:") for word in invocation.arguments)
            if not is_elsewhere:
                self._note_needless("--storage-option", "a table on a disk")
        else:
            capture_logging()
            storage = open_storage(uri, self._options, self._allowed, retry=self.policy())
        if writes:
            require_writable(storage)
        return storage

    def note_needless_access(self, what: str) -> None:
        """Say once that the way to read shared tables was given for something else."""
        path = path_of(invocation.arguments)
        is_shared = path in _READING and path != _METADATA_ONLY and any("#" in word for word in invocation.arguments)
        if not is_shared:
            self._note_needless("--access", what)

    def _note_needless(self, option: str, what: str) -> None:
        is_given = any(word.partition("=")[0] == option for word in invocation.arguments)
        if self._note is not None and is_given and option not in self._noted:
            self._noted.add(option)
            self._note(f"note: {option} has no effect on {what}")

    def _open_in_catalog(self, uri: str, *, writes: bool) -> Storage:
        from deltacli.catalogs.unity.addresses import parse_table
        from deltacli.catalogs.unity.unity import open_in_catalog

        parse_table(uri)  # what is wrong with it is said before the configuration is read
        capture_logging()
        note = self._note
        storage = open_in_catalog(
            self.open_catalog(),
            uri,
            options=self._options,
            retry=self.policy(),
            writes=writes,
            note=None if note is None else lambda text: note(f"{_NOTE}{text}"),
        )
        invocation.opens_in_catalog(storage.uri, uri)
        return storage

    def open_catalog(self) -> UnityCatalog:
        """Return the catalog of the run. Raises UsageError where none is configured."""
        from deltacli.catalogs.unity.unity import open_catalog

        if self._opened_catalog is None:
            source = None if self._catalog is None else place_of_catalog(self._catalog)
            self._opened_catalog = open_catalog(catalog_profile_of(self._catalog), self.policy(), source=source)
        return self._opened_catalog

    def _open_share(self, uri: str, *, writes: bool) -> Storage | None:
        """Open a shared table; None where the name is not the address of one."""
        from deltacli.sharing.client.addresses import parse_address

        address = parse_address(uri)
        if address is None:
            return None
        from deltacli.sharing.client.addresses import AccessChoice
        from deltacli.sharing.client.faults import read_only
        from deltacli.sharing.client.share_storage import open_address, open_share

        path = path_of(invocation.arguments)
        if writes or path not in _READING:
            refused = _only_reading(" ".join(path), invocation.arguments, uri, writes=writes)
            raise refused or read_only(uri)
        capture_logging()
        if path == _METADATA_ONLY:
            self.note_needless_access("a command that reads metadata only")
            return open_address(address, retry=self.policy(), note=self._note)
        return open_share(
            uri,
            access=self._access,
            preferred=AccessChoice(_PREFERRED.get(path, "auto")),
            options=self._options,
            retry=self.policy(),
            note=self._note,
        )

    @property
    def tallies(self) -> list[HostTally]:
        """Return the calls to object stores so far, by endpoint."""
        return [] if self._policy is None else [*self._policy.tally.hosts]

    def policy(self) -> Retry:
        """Return the retry policy that all stores of the run share."""
        from deltacli.storage.retry import Retry, ThrottledRetry

        if self._policy is None:
            given = self._retry_budget_ms
            seconds = RETRY_BUDGET.total_seconds() if given is None else given / 1_000
            chosen: dict[str, Any] = {  # Any: options of a policy
                "is_explicit": given is not None,
                "note": self._note,
                "is_stopping": is_interrupted,
            }
            if self._calls_per_second is None:
                self._policy = Retry(seconds, **chosen)
            else:
                self._policy = ThrottledRetry(seconds, self._calls_per_second, **chosen)
        return self._policy


def text_of(host: HostTally) -> str:
    """Return the calls to one endpoint for people."""
    from deltacli.storage.tally import Call

    calls = ", ".join(f"{host.calls[call]:,} {call}" for call in Call if host.calls[call]) or "none"
    moved = f"{format_size(host.bytes_read)} read, {format_size(host.bytes_written)} written"
    text = f"calls to {host.host}: {calls}; {moved}"
    if host.prices is None or host.price_usd is None:
        return text
    return f"{text}; estimated price {_dollars(host.price_usd)} ({host.prices.source})"


def document_of(host: HostTally) -> dict[str, Json]:
    """Return the calls to one endpoint for programs."""
    from deltacli.storage.tally import Call

    return {
        "type": "calls",
        "endpoint": host.host,
        "calls": {str(call): host.calls[call] for call in Call},
        "bytesRead": host.bytes_read,
        "bytesWritten": host.bytes_written,
        "estimatedPriceUsd": None if host.price_usd is None else round(host.price_usd, 6),
        "priceSource": None if host.prices is None else host.prices.source,
    }


def _dollars(price_usd: float) -> str:
    return f"${price_usd:,.2f}" if price_usd >= 1 else f"${price_usd:.6f}".rstrip("0").removesuffix(".")


def merged(hosts: Iterable[HostTally]) -> list[HostTally]:
    """Return the calls by endpoint, by name, where several policies of a run sent some to the same one."""
    from deltacli.storage.tally import HostTally

    found: dict[str, HostTally] = {}
    for host in hosts:
        whole = found.setdefault(host.host, HostTally(host.host, host.prices))
        whole.calls += host.calls
        whole.bytes_read += host.bytes_read
        whole.bytes_written += host.bytes_written
    return [found[name] for name in sorted(found)]


# -- commands that list rows -------------------------------------------------------------------------------------------

_NAMED = 5

EXPLAINED: Mapping[str, str] = {
    "action.missing-required": "the metaData has no schemaString; read as an empty schema",
    "catalog.unpublished-possible": "a catalog manages this table; newer commits may exist there",
    "checkpoint.multipart-incomplete": "a multi-part checkpoint lacks parts; not used",
    "checkpoint.no-metadata": "a checkpoint has no metaData or two; an older start was used, or the last metaData",
    "checkpoint.no-protocol": "a checkpoint has no protocol or two; an older start was used, or the last protocol",
    "checkpoint.unreadable": "a checkpoint cannot be read; an older start was used",
    "checkpoint.zero-length": "a checkpoint file is empty; not used",
    "commit.empty": "a commit before the checkpoint is empty; it was not needed",
    "compaction.beyond-log": "a log compaction covers versions after the newest commit, which seem to be lost",
    "crc.without-commit": "a version checksum is of a version after the newest commit; commits seem to be lost",
    "hint.ahead-of-log": "_last_checkpoint names a version after the newest commit; commits seem to be lost",
    "hint.bad-json": "_last_checkpoint cannot be read; the log was listed instead",
    "hint.checkpoint-missing": "_last_checkpoint names a missing checkpoint; the log was listed instead",
    "hint.checksum-bad": "_last_checkpoint has a wrong checksum; the log was listed instead",
    "hint.missing-field": "_last_checkpoint names no version; the log was listed instead",
    "ict.missing": "the commit has no in-commit timestamp; the file's time is shown",
    "log.checkpoint-commit-missing": "the commit file of this version is missing; it was rebuilt from its checkpoint",
    "log.name-not-padded": "a log file's version is not 20 digits; not read",
    "sidecar.missing": "a checkpoint names a missing sidecar; an older start was used",
    **DECISIONS,
}


def settle_limit(run: CommandContext, wanted: int | None) -> int:
    """Return the number of rows to show, 0 for all: as requested, else the default of the place. Raises UsageError."""
    if wanted is not None:
        if wanted < 0:
            raise UsageError(f"--limit {wanted} is negative", facts={"expected": "0 (all) or more"})
        return wanted
    return DEFAULT_ROWS if run.is_on_screen and run.directory is None else 0


def require_file(run: CommandContext) -> None:
    """Raise UsageError where Parquet would be written neither to a file nor to a directory."""
    if run.format is PARQUET and (run.output is None or run.terminal.is_terminal):
        raise UsageError(
            "--format parquet requires --output FILE or --output DIR/",
            code="usage.output",
            hint=repeat_command_with(invocation.arguments, "--output", "rows.parquet"),
        )


def judge_left_out(run: CommandContext, rows: ArrowRows) -> None:
    """Note which columns are left out because of their types. Raises Refused where they would be missing in a file."""
    from deltacli.delta.schema.to_arrow import note_of

    if not rows.left_out:
        return
    if run.output is not None or run.directory is not None:
        require_all_columns(rows)
    run.note(f"note: {note_of(rows.left_out)}")


def note_misnamed_columns(run: CommandContext, fields: Sequence[MisnamedField], table: str) -> None:
    """Note which columns were null because files have them under their logical names.

    Args:
        run: The run that shows the notes.
        fields: The columns and nested fields, once the rows were read.
        table: The address of the table, for the next command.
    """
    from deltacli.core.errors import command
    from deltacli.delta.schema.misnamed_fields import MISNAMED

    for misnamed in fields:
        run.note(f"note: {MISNAMED}: a file {misnamed.description}; it is null in the rows of that file")
    if fields:
        run.note(f"to see which files: {command('validate', table=table, level='footers')}")


def note_padded_columns(run: CommandContext, rows: ArrowRows) -> None:
    """Note which columns Spark shows, and compares, with blanks that files do not have.

    Args:
        run: The run that shows the notes.
        rows: The rows that are read. Columns of a condition count, too.
    """
    from deltacli.delta.schema.types import declared_type, is_padded

    padded = [column for column in rows.read_spec.columns if is_padded(column)]
    if padded:
        names = ", ".join(f"{column.name} ({declared_type(column) or 'char'})" for column in padded)
        run.note(f"note: Spark pads char(n) with blanks; values are shown and compared as files store them: {names}")


def note_rows(run: CommandContext, rows: ArrowRows, table: str, noted: Collection[str] = ()) -> None:
    """Note what was decided about rows that engines read differently, once the rows were read.

    Args:
        run: The run that shows the notes.
        rows: The rows. Columns of a condition count, too.
        table: The address of the table, for the next command.
        noted: The problems that were noted before.
    """
    note_misnamed_columns(run, rows.misnamed, table)
    note_padded_columns(run, rows)
    _note_partition_values(run, rows, table)
    note_problems(run, [rule for rule in rows.disputed if rule not in noted])


def note_disputed(run: CommandContext, *snapshots: Snapshot) -> None:
    """Note what was decided about damages of versions that engines read differently."""
    for decision in dict.fromkeys(decision for snapshot in snapshots for decision in snapshot.decisions):
        run.note(f"note: {decision}")


def note_problems(run: CommandContext, problems: Iterable[str]) -> None:
    """Note problems that were worked around."""
    for problem in problems:
        run.note(f"note: {problem}: {EXPLAINED[problem]}")


def _note_partition_values(run: CommandContext, rows: ArrowRows, table: str) -> None:
    """Note partition columns of which the log has an empty text, or the name in another letter case."""
    from deltacli.core.errors import command

    for column in rows.empty_texts:
        run.note(f"note: partition column {column} is an empty text in the log, which is null; Spark returns the text")
    for column in rows.respelled_keys:
        run.note(f"note: {KEY_IN_OTHER_CASE}: {DECISIONS[KEY_IN_OTHER_CASE]}: {column}")
    found = {"partition.empty-*": rows.empty_texts, KEY_IN_OTHER_CASE: rows.respelled_keys}
    select = [rules for rules, columns in found.items() if columns]
    if select:
        run.note(f"to see which files: {command('validate', table=table, select=select)}")


def require_all_columns(rows: ArrowRows) -> None:
    """Raise Refused where columns are left out because of their types, with the command that names the others."""
    try:
        rows.require_all_columns()
    except Refused as refused:
        names = ",".join(column.name for column in rows.columns)
        refused.hint = repeat_command_with(invocation.arguments, "--columns", names)
        raise


def write_directory(
    run: CommandContext,
    table: str,
    content: str,
    versions: Mapping[str, int],
    write: Callable[[str], WrittenDirectory],
    limit: int,
) -> None:
    """Write rows to the directory of `--output`, and show what was written. `limit`: as in `CommandContext.limit`."""
    from deltacli.cli.render.data.rows import DirectoryResult

    assert run.directory is not None
    written = write(run.directory)
    invocation.outputs = *invocation.outputs, (without_secrets(run.directory), lambda: True)
    run.write(DirectoryResult(table, content, versions, written))
    if written.was_cut:
        run.note(f"wrote the first {limit:,} rows; to write all: {repeat_command_without_limit(invocation.arguments)}")


def note_what_is_missing(run: CommandContext, written: Written, limit: int) -> None:
    """Report rows left out by the limit, and values cut and columns left out for lack of room."""
    if written.left_out or written.cuts_values:
        again = repeat_command_with(invocation.arguments, "--format", "ndjson")
        if written.left_out:
            shown = summarize_names(list(written.left_out), _NAMED)
            cut = ", and values are cut" if written.cuts_values else ""
            run.note(f"no room for {shown}{cut}; select columns with --columns, or show all: {again}")
        else:
            run.note(f"values are cut; to show them whole: {again}")
    if written.was_cut:
        said = "" if run.is_on_screen else f"showing the first {limit:,}; "  # the screen ends with the number
        run.note(f"{said}to show all: {repeat_command_without_limit(invocation.arguments)}")


def note_the_cut(run: CommandContext, rows: int, most: int) -> None:
    """Note how many rows a limit leaves out: none if it is 0, nor in formats of findings."""
    if most and rows > most and run.format.content is not Content.FINDINGS:
        run.note(
            f"showing {most:,} of {rows:,} rows; to show all: {repeat_command_without_limit(invocation.arguments)}"
        )


def note_left_out(run: CommandContext, result: FleetListing[Any], *, may_repeat: bool = True) -> None:
    """Note what a limit leaves out, in tables, rows or items. `may_repeat`: the command shows the same once more."""
    if result.drawn_screen is None:
        rows = result.items if run.format.errors_are_json else result.rows
        note_the_cut(run, len(rows), result.most)
        return
    said, how = result.left_out()
    if said or (how and may_repeat):
        run.note("; ".join(filter(None, (said, f"{how}: {repeat_command_without_limit(invocation.arguments)}"))))


def note_catalog(run: CommandContext, *found: Snapshot, name: str = "") -> None:
    """Note of versions that were read by path that their catalog may have newer ones. `name`: of one of many tables."""
    problem = "catalog.unpublished-possible"
    if any(problem in one.problems for one in found):
        run.note(f"note: {name + ': ' if name else ''}{problem}: {EXPLAINED[problem]}")


def note_staged(run: CommandContext, table: TableHandle, name: str = "") -> None:
    """Note the same of a table of which no version was read, where its log has staged commits."""
    from deltacli.table.handle import managed_store
    from deltacli.table.rebuild import read_snapshot

    storage = table.storage
    if isinstance(storage, StoreOfVersions) or managed_store(storage) is not None:
        return
    with suppress(DeltacliError):
        if storage.kind_of("_delta_log/_staged_commits") is PathKind.DIRECTORY:
            note_catalog(run, read_snapshot(table), name=name)


def note_findings(run: CommandContext, found: Snapshot | VersionFromChecksum, at_ms: int | None) -> None:
    """Note which problems were worked around, and that a time is later than the newest version."""
    for problem in found.problems:
        files = ", ".join(name for name, rule in found.set_aside.items() if rule == problem)
        run.note(f"note: {problem}: {EXPLAINED[problem]}{f' ({files})' if files else ''}")
    is_newest = found.version == found.newest_version and not isinstance(found.table.storage, StoreOfVersions)
    if at_ms is not None and is_newest and found.time is not None and at_ms > found.time.timestamp_ms:
        run.note(f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}")
