"""What the changes of the Python API return and raise: the plan of a dry run, the outcome, and the refusal."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from deltacli import open_paimon, open_table
from deltacli.core.errors import DeltacliError, PythonSyntax, use_hint_syntax
from deltacli.core.machine import fixed_clock
from tests.golden import places
from tests.golden.places import Build
from tests.golden.running import NOW_NS, disk


class Call(NamedTuple):
    """A change by the Python API, and the same method called so that it is refused."""

    place: Build
    change: str
    refused: str | None = None
    before: tuple[str, ...] = ()


CALLS = (
    Call(places.sample, "table.alter([{'change': 'add', 'column': 'tax', 'type': 'int'}])",
         "table.alter([{'change': 'rename', 'column': 'trip', 'name': 'id'}])"),
    Call(places.sample, "table.widen_type(('ride.fare', 'decimal(20,2)'), enable=True, upgrade_protocol=True)",
         "table.widen_type(('ride.fare', 'decimal(20,2)'))"),
    Call(places.sample, "table.set_properties({'owner': 'ops'})", "table.set_properties({'delta.nosuchKey': '1'})"),
    Call(places.sample, "table.unset_properties(['delta.deletedFileRetentionDuration'])"),
    Call(places.sample, "table.add_features(['deletionVectors'])", "other.add_features(['appendOnly'])"),
    Call(places.vectors, "table.drop_features('deletionVectors')", "table.drop_features('v2Checkpoint')"),
    Call(places.sample, "table.restore(version=8)", "other.restore(version=0)"),
    Call(places.sample, "table.optimize()", "other.optimize()"),
    Call(places.sample, "table.stats(read='rows', all=True)", "other.stats()"),
    Call(places.lost, "table.undelete(sources=['copy'])", "table.undelete()"),
    Call(places.damaged, "table.repair(sources=['copy'])", "table.repair(quarantine='tbl/kept')"),
    Call(places.damaged, "table.undo_repair(backup)", "table.undo_repair('copy')",
         before=("repair tbl --from copy --yes",)),
    Call(places.garbage, "table.vacuum(max_delete='100%')", "table.vacuum()"),
    Call(places.garbage, "table.purge_quarantine('kept', older_ms=864_000_000)",
         before=("vacuum tbl --max-delete 100% --quarantine kept --yes --now 2026-01-20T12:00:00Z",)),
    Call(places.sample, "table.expire_log()", "table.expire_log(retention_ms=43_200_000)"),
    Call(places.sample, "table.backup_log('backup')", "table.backup_log('other')"),
    Call(places.sample, "lost.restore_log('backup')", "other.restore_log('backup')", before=("log backup tbl backup",)),
    Call(places.sample, "table.compact_log(11, 14)", "table.compact_log(11, 99)"),
    Call(places.sample, "table.write_checksum()", "other.write_checksum()"),
    Call(places.sample, "table.checkpoint()", "table.checkpoint(layout='v2')"),
    Call(places.paimon, "paimon.alter([{'action': 'addColumn', 'fieldNames': ['tax'], 'dataType': 'INT'}])",
         "paimon.alter([{'action': 'dropColumn', 'fieldNames': ['id']}])"),
    Call(places.paimon, "paimon.widen_type(('price', 'DECIMAL(20, 2)'))", "paimon.widen_type(('price', 'INT'))"),
    Call(places.paimon, "paimon.vacuum(keep_last=2)", "paimon.vacuum(retention_ms=1)"),
)  # fmt: skip


def calls() -> Iterator[tuple[str, Call]]:
    """Yield each line of Python that is run."""
    for call in CALLS:
        for line in (call.change, call.refused):
            if line is not None:
                yield line.removesuffix(")") + ("" if line.endswith("()") else ", ") + "dry_run=True)", call
                yield line, call


def call_in(place: Path, line: str) -> str:
    """Run a line of Python in a directory, and return what it returned or raised as text."""
    with chdir(place), disk(), use_hint_syntax(PythonSyntax()):
        clock = fixed_clock(NOW_NS // 1_000_000)
        known: dict[str, Any] = {name: open_table(name, clock=clock) for name in ("other", "lost")}  # Any: tables
        known |= {"table": open_table("tbl", clock=clock), "paimon": open_paimon("paimon", clock=clock)}
        known["backup"] = next(iter(Path("tbl/_deltacli_backup").glob("*")), Path()).as_posix()
        try:
            found = json.dumps(described(eval(line, known)), indent=1, ensure_ascii=False)
        except DeltacliError as error:
            kinds = " < ".join(kind.__name__ for kind in type(error).__mro__[:-3])
            found = f"raises {kinds}: {error.code}, exit {error.exit_code}\n{error.message}\n"
            found += "".join(f"  {name}: {fact}\n" for name, fact in error.facts.items()) + f"hint: {error.hint}"
    return f"{found}\n"


def described(value: object) -> Any:  # Any: JSON values
    """Return a result as JSON: its document where it has one, else its public fields."""
    name = type(value).__name__
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Mapping():
            return {str(key): described(one) for key, one in value.items()}
    document = getattr(value, "as_json", None)
    if document is not None:
        options = {"dry_run": True} if "dry_run" in inspect.signature(document).parameters else {}
        return {"type": name, **described(document(**options))}
    names = [field.name for field in fields(value)] if is_dataclass(value) else getattr(value, "_fields", ())
    if names:
        return {"type": name, **{field: described(getattr(value, field)) for field in names if field[0] != "_"}}
    return [described(one) for one in value] if isinstance(value, Sequence | set | frozenset) else f"<{name}>"
