"""What is run: the changes, the ways in which each may go, and the forms in which the result is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.golden import places
from tests.golden.places import Build
from tests.golden.running import CTRL_C


@dataclass(frozen=True, slots=True)
class Change:
    """A command that changes a table. `words` make the change, `refused` are refused by a guard although somebody
    agrees, and with `nothing` there is nothing to do. None: there is no such command.

    `asks`: there is a question. `checks`: there is `--check`. `has_plan`: there is `--dry-run`. `is_variant`: there is
    another change of this command, and fewer forms are run. `act`: after which act on the disk it is interrupted, 0:
    never. The commands of `before` are run first, those of `before_nothing` where there is nothing to do.
    """

    name: str
    place: Build
    words: str
    refused: str | None = None
    nothing: str | None = None
    before: tuple[str, ...] = ()
    before_nothing: tuple[str, ...] = ()
    asks: bool = True
    checks: bool = False
    has_plan: bool = True
    is_variant: bool = False
    act: int = 1


class Form(NamedTuple):
    """How a result is shown: the options of a format, and the width of the terminal that shows it."""

    words: tuple[str, ...] = ()
    width: int | None = None
    colour: bool = False


FORMS: Mapping[str, Form] = {
    "pipe": Form(),
    "json": Form(("--json",)),
    "ndjson": Form(("--format", "ndjson")),
    "csv": Form(("--format", "csv")),
    "markdown": Form(("--format", "markdown")),
    "terminal 80": Form(width=80),
    "terminal 160": Form(width=160, colour=True),
}
MAIN = ("pipe", "json", "terminal 80")


class Way(NamedTuple):
    """How a run goes. `line`: which words of the change are run. `answer` is what somebody types. `needs`: attributes
    of changes for which there is this way. `is_agreed`: with `--yes`. `of_variant`: the forms for a variant.
    """

    line: str = "words"
    more: tuple[str, ...] = ()
    answer: str | None = None
    is_interrupted: bool = False
    forms: tuple[str, ...] = MAIN
    of_variant: tuple[str, ...] = MAIN
    needs: tuple[str, ...] = ()
    is_agreed: bool = False


ALL = tuple(FORMS)
MOST = ("pipe", "json", "ndjson", "csv", "markdown", "terminal 80")
WAYS: Mapping[str, Way] = {
    "dry run": Way(more=("--dry-run",), forms=ALL, needs=("has_plan",)),
    "check": Way(more=("--check",), forms=("pipe", "json", "csv", "terminal 80"), needs=("checks",)),
    "done": Way(forms=ALL, is_agreed=True),
    "yes": Way(answer="y", of_variant=("terminal 80",), needs=("asks",)),
    "no": Way(answer="n", of_variant=("terminal 80",), needs=("asks",)),
    "no terminal": Way(of_variant=("pipe",), needs=("asks",)),
    "interrupted at the question": Way(answer=CTRL_C, of_variant=("terminal 80",), needs=("asks",)),
    "interrupted after an act": Way(is_interrupted=True, needs=("act",), is_agreed=True),
    "refused": Way(line="refused", forms=MOST, is_agreed=True),
    "dry run, refused": Way(line="refused", more=("--dry-run",), of_variant=("json",), needs=("has_plan",)),
    "check, refused": Way(line="refused", more=("--check",), of_variant=("pipe",), needs=("checks",)),
    "nothing to do": Way(line="nothing", forms=MOST, is_agreed=True),
    "dry run, nothing to do": Way(line="nothing", more=("--dry-run",), of_variant=("json",), needs=("has_plan",)),
    "check, nothing to do": Way(line="nothing", more=("--check",), of_variant=("pipe",), needs=("checks",)),
}

UPGRADE = "--upgrade-protocol"
CHANGES = (
    Change(
        "alter", places.sample, "alter tbl add tax 'decimal(10, 2)' --position after:trip --commit-metadata ticket=7",
        refused="alter tbl mapping name",
        nothing="alter tbl comment trip 'counted from 1'",
        checks=True,
    ),
    Change(
        "alter mapping", places.sample, f"alter tbl mapping name {UPGRADE}",
        refused="alter tbl rename trip id",
        nothing="alter tbl mapping name",
        before_nothing=(f"alter tbl mapping name {UPGRADE} --yes",),
        checks=True, is_variant=True,
    ),
    Change(
        "alter drop", places.sample, "alter tbl drop ride.city",
        refused="alter tbl drop day",
        before=(f"alter tbl mapping name {UPGRADE} --yes",),
        checks=True, is_variant=True,
    ),
    Change(
        "alter constraint", places.sample, f"alter tbl constraint add positive 'trip > 0' {UPGRADE}",
        refused=f"alter tbl constraint add small 'trip < 100' {UPGRADE}",
        nothing="alter tbl constraint add positive 'trip > 0'",
        before_nothing=(f"alter tbl constraint add positive 'trip > 0' {UPGRADE} --yes",),
        checks=True, is_variant=True,
    ),
    Change(
        "alter apply", places.sample, "alter tbl --apply changes.json",
        nothing="alter tbl --apply changes.json",
        before_nothing=("alter tbl --apply changes.json --yes",),
        checks=True, is_variant=True,
    ),
    Change(
        "alter paimon", places.paimon, "alter paimon add tax 'DECIMAL(10, 2)' --position after:id",
        refused="alter paimon type price INT",
        nothing="alter paimon comment name --drop",
        checks=True,
    ),
    Change(
        "alter paimon options", places.paimon, "alter paimon set snapshot.time-retained=2h",
        refused="alter paimon set bucket=-1",
        nothing="alter paimon set bucket=2",
        checks=True, is_variant=True,
    ),
    Change(
        "manifest", places.sample, "manifest tbl",
        nothing="manifest tbl",
        before_nothing=("manifest tbl --yes",),
        checks=True,
    ),
    Change(
        "convert", places.files, "convert files",
        refused="convert tbl",
    ),
    Change(
        "widen-type", places.sample, f"widen-type tbl ride.fare 'decimal(20,2)' --enable {UPGRADE}",
        refused="widen-type tbl ride.fare 'decimal(20,2)'",
        nothing="widen-type tbl ride.fare 'decimal(8,2)'",
        checks=True,
    ),
    Change(
        "widen-type paimon", places.paimon, "widen-type paimon price 'DECIMAL(20, 2)'",
        refused="widen-type paimon price INT",
        nothing="widen-type paimon price 'DECIMAL(10, 2)'",
        checks=True, is_variant=True,
    ),
    Change(
        "properties set", places.sample, "properties tbl set delta.checkpointInterval=20 owner=ops",
        refused="properties tbl set delta.nosuchKey=1",
        nothing="properties tbl set owner=ops",
        before_nothing=("properties tbl set owner=ops --yes",),
    ),
    Change(
        "properties unset", places.sample, "properties tbl unset delta.deletedFileRetentionDuration",
        refused="properties tbl unset delta.columnMapping.mode",
        nothing="properties tbl unset owner",
        before=(f"alter tbl mapping name {UPGRADE} --yes",),
        is_variant=True,
    ),
    Change(
        "features add", places.sample, "features tbl add deletionVectors typeWidening",
        refused="features other add appendOnly",
        nothing="features tbl add appendOnly",
    ),
    Change(
        "features drop", places.vectors, "features tbl drop deletionVectors",
        refused="features tbl drop v2Checkpoint",
        act=5,
    ),
    Change(
        "features drop history", places.vectors, "features tbl drop deletionVectors --truncate-history",
        is_variant=True, act=3,
    ),
    Change(
        "features drop unused", places.unused, "features tbl drop v2Checkpoint",
        refused="features tbl drop appendOnly",
        is_variant=True,
    ),
    Change(
        "restore", places.sample, "restore tbl --version 8",
        refused="restore other --version 0",
        nothing="restore tbl --version 14",
        checks=True,
    ),
    Change(
        "restore where", places.sample, "restore tbl --version 8 --where \"day = '2026-01-02'\"",
        refused="restore tbl --version 8 --where \"trip = 3\"",
        nothing="restore tbl --version 14 --where \"day = '2026-01-02'\"",
        checks=True, is_variant=True,
    ),
    Change(
        "restore from", places.lost, "restore tbl --version 8 --from copy",
        refused="restore tbl --version 8",
        checks=True, is_variant=True,
    ),
    Change(
        "optimize", places.sample, "optimize tbl",
        refused="optimize other",
        nothing="optimize tbl --min-files 99",
        checks=True, act=2,
    ),
    Change(
        "stats", places.sample, "stats tbl --all --read rows --where \"day = '2026-01-02'\"",
        refused="stats other",
        nothing="stats tbl",
        checks=True,
    ),
    Change(
        "optimize purge", places.vectors, "optimize tbl --purge",
        nothing="optimize tbl --purge",
        before_nothing=("optimize tbl --purge --yes",),
        checks=True, is_variant=True,
    ),
    Change(
        "optimize zorder", places.sample, "optimize tbl --zorder trip",
        nothing="optimize tbl --zorder trip",
        before_nothing=("optimize tbl --zorder trip --yes",),
        checks=True, is_variant=True,
    ),
    Change(
        "undelete", places.lost, "undelete tbl --from copy",
        refused="undelete tbl",
        nothing="undelete copy --from tbl",
    ),
    Change(
        "undelete partly", places.partly, "undelete tbl --from copy",
        is_variant=True,
    ),
    Change(
        "repair", places.damaged, "repair tbl --from copy",
        refused="repair tbl --from copy --quarantine tbl/kept",
        nothing="repair copy",
    ),
    Change(
        "repair accept-loss", places.broken, "repair tbl --accept-loss --max-missing 50% --quarantine kept",
        refused="repair tbl --accept-loss --max-missing 1%",
        is_variant=True,
    ),
    Change(
        "repair undo", places.damaged, "repair tbl --undo backups/*/repair-*",
        before=("repair tbl --from copy --quarantine backups --yes",),
        is_variant=True,
    ),
    Change(
        "repair save-plan", places.damaged, "repair tbl --from copy --save-plan plan.json",
        asks=False, has_plan=False, is_variant=True, act=0,
    ),
    Change(
        "repair apply", places.damaged, "repair tbl --apply plan.json",
        refused="repair copy --apply plan.json",
        nothing="repair tbl --apply plan.json",
        before=("repair tbl --from copy --save-plan plan.json",),
        before_nothing=("repair tbl --from copy --save-plan plan.json", "repair tbl --apply plan.json --yes"),
        is_variant=True,
    ),
    Change(
        "vacuum", places.garbage, "vacuum tbl --max-delete 100% --files",
        refused="vacuum tbl",
        nothing="vacuum tbl --max-delete 100%",
        before_nothing=("vacuum tbl --max-delete 100% --yes",),
        act=3,
    ),
    Change(
        "vacuum lite", places.sample, "vacuum tbl --mode lite",
        refused="vacuum tbl --mode lite --retention 1h",
        nothing="vacuum tbl --mode lite --retention 90d",
        is_variant=True, act=3,
    ),
    Change(
        "vacuum quarantine", places.garbage, "vacuum tbl --max-delete 100% --quarantine kept",
        refused="vacuum tbl --quarantine tbl/kept",
        is_variant=True, act=16,
    ),
    Change(
        "vacuum save-plan", places.garbage, "vacuum tbl --max-delete 100% --save-plan plan.parquet",
        refused="vacuum tbl --save-plan plan.parquet",
        asks=False, has_plan=False, is_variant=True, act=0,
    ),
    Change(
        "vacuum apply", places.garbage, "vacuum tbl --apply plan.parquet",
        refused="vacuum other --apply plan.parquet",
        nothing="vacuum tbl --apply plan.parquet",
        before=("vacuum tbl --max-delete 100% --save-plan plan.parquet",),
        before_nothing=(
            "vacuum tbl --max-delete 100% --save-plan plan.parquet", "vacuum tbl --apply plan.parquet --yes",
        ),
        is_variant=True, act=3,
    ),
    Change(
        "vacuum purge-older", places.garbage, "vacuum tbl --quarantine kept --purge-older 10d",
        nothing="vacuum tbl --quarantine kept --purge-older 30d",
        before=("vacuum tbl --max-delete 100% --quarantine kept --yes --now 2026-01-20T12:00:00Z",),
        before_nothing=("vacuum tbl --max-delete 100% --quarantine kept --yes --now 2026-01-20T12:00:00Z",),
        is_variant=True,
    ),
    Change(
        "vacuum schemas", places.paimon, "vacuum paimon --schemas --files --keep-last 2",
        nothing="vacuum paimon --schemas --keep-last 99",
        act=2,
    ),
    Change(
        "log expire", places.sample, "log expire tbl",
        refused="log expire tbl --retention 12h",
        nothing="log expire tbl --retention 90d",
        act=2,
    ),
    Change("log backup", places.sample, "log backup tbl backup", refused="log backup tbl other", asks=False, act=2),
    Change(
        "log restore", places.sample, "log restore lost backup",
        refused="log restore other backup",
        nothing="log restore tbl backup",
        before=("log backup tbl backup",),
        before_nothing=("log backup tbl backup",),
        act=2,
    ),
    Change(
        "log compact", places.sample, "log compact tbl --from 11 --to 14",
        refused="log compact tbl --from 11 --to 99",
        nothing="log compact tbl --from 11 --to 14",
        before_nothing=("log compact tbl --from 11 --to 14",),
        asks=False,
    ),
    Change(
        "log crc", places.sample, "log crc tbl",
        refused="log crc other",
        nothing="log crc tbl",
        before_nothing=("log crc tbl",),
        asks=False,
    ),
    Change(
        "checkpoint", places.sample, "checkpoint tbl",
        refused="checkpoint tbl --layout v2",
        nothing="checkpoint tbl --if-behind 50",
        asks=False,
    ),
    Change(
        "share pull", places.shared, "share pull p.share#Sales.Main.t --to local",
        refused="share pull p.share#Sales.Main.t --to tbl",
        nothing="share pull p.share#Sales.Main.t --to local",
        before_nothing=("share pull p.share#Sales.Main.t --to local",),
        asks=False,
    ),
    Change("doctor storage", places.sample, "doctor storage tbl", refused="doctor storage gone"),
    Change("fleet run", places.lake, "fleet run fleet.toml --yes --jobs 1", asks=False, has_plan=False),
    Change("fleet plan", places.lake, "fleet plan fleet.toml --details", asks=False, has_plan=False, act=0),
)  # fmt: skip

READINGS = tuple(
    Change(name, place, words, asks=False, has_plan=False, act=0)
    for name, place, words in (
        ("history", places.sample, "history tbl"),
        ("history with counts", places.garbage, "history tbl --limit 0 --counts"),
        ("history of Paimon", places.paimon, "history paimon"),
        ("snapshot", places.sample, "snapshot tbl --schema"),
        ("snapshot of damages", places.damaged, "snapshot tbl"),
        ("snapshot of files", places.vectors, "snapshot tbl --files"),
        ("snapshot of an unknown feature", places.sample, "snapshot other"),
        ("snapshot of Paimon", places.paimon, "snapshot paimon"),
        ("read", places.sample, "read tbl --where \"day = '2026-01-02'\" --limit 3"),
        ("read with vectors", places.vectors, "read tbl --count"),
        ("read a lost file", places.lost, "read tbl"),
        ("changes", places.sample, "changes tbl --from 1 --limit 4"),
        ("diff", places.sample, "diff tbl 1 4"),
        ("diff of a copy", places.lost, "diff tbl copy --rows --key trip"),
        ("reach", places.lost, "reach tbl --retention 7d"),
        ("streams", places.streamed, "streams tbl --checkpoints chk/*"),
        ("explain", places.sample, "explain other"),
        ("explain a change", places.sample, "explain tbl --if add=deletionVectors"),
        ("schema show", places.sample, "schema show tbl"),
        ("schema diff", places.paimon, "schema diff paimon --from schema:0"),
        ("schema convert", places.paimon, "schema convert paimon --to delta --yes"),
        ("validate", places.sample, "validate tbl other"),
        ("validate details", places.sample, "validate tbl other -v"),
        ("validate damages", places.damaged, "validate tbl --level data"),
        ("validate Paimon", places.paimon, "validate paimon"),
        ("doctor table", places.vectors, "doctor table tbl"),
        ("properties", places.vectors, "properties tbl"),
        ("features", places.unused, "features tbl"),
        ("log cat", places.vectors, "log cat tbl 1"),
        ("fleet status", places.lake, "fleet status fleet.toml"),
        ("share ls", places.shared, "share ls p.share"),
        ("share head", places.shared, "share head p.share#Sales.Main.t"),
    )
)
"""What commands show that change nothing. The way in which they go is named done."""


class Case(NamedTuple):
    """One run."""

    change: Change
    way: str
    form: str

    @property
    def title(self) -> str:
        return f"{self.way}; {self.form}"

    @property
    def command(self) -> str:
        """The command line, as it is typed."""
        way, form = WAYS[self.way], FORMS[self.form]
        agreed = ("--yes",) if way.is_agreed and self.change.asks else ()
        return " ".join((getattr(self.change, way.line), *way.more, *agreed, *form.words))

    @property
    def before(self) -> tuple[str, ...]:
        is_for_nothing = WAYS[self.way].line == "nothing"
        return self.change.before_nothing if is_for_nothing else self.change.before


def cases_of(change: Change) -> Iterator[Case]:
    """Yield the runs of a change."""
    for name, way in WAYS.items():
        if getattr(change, way.line) is None or not all(getattr(change, need) for need in way.needs):
            continue
        for form in way.of_variant if change.is_variant else way.forms:
            yield Case(change, name, form)
