"""The difference of two schemas as a result."""

from __future__ import annotations

from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import envelope
from deltacli.cli.render.paimon.history import is_told
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style
from deltacli.operations.schemas.diff import SchemaDiff, field_of, shown
from deltacli.paimon.casts import Loss
from deltacli.paimon.schema_changes import Change

_STYLES = {Loss.LOSSLESS: Style.PLAIN, Loss.LOSSY: Style.CHANGE, Loss.REFUSED: Style.PROBLEM}


def diff_result(found: SchemaDiff) -> Listing[Change]:
    """Return the changes as a list."""
    has_class = found.matched_by == "id" and found.after.table_format == "paimon"
    columns: list[Column[Change]] = [
        Column("kind", lambda change: change.kind.value, priority=3),
        Column("field", field_of, on_screen=False),
        Column("change", shown, priority=1, folds=True),
        Column("from", lambda change: change.before, on_screen=False),
        Column("to", lambda change: change.after, on_screen=False),
    ]
    if has_class:
        columns += [
            Column("class", lambda change: change.loss.value, style=lambda change: _STYLES[change.loss], priority=2),
            Column("reason", lambda change: change.reason or None, priority=4, folds=True),
        ]
    content = envelope(
        "deltacli.schema-diff", found.before.table, complete=True, table_format=found.before.table_format
    )
    content |= {name: value for name, value in found.as_json().items() if name != "changes"}
    items = [found.change_json(change) for change in found.changes]
    rows = [change for change in found.changes if is_told(change, found.changes)]
    return Listing(content, "schema-change", items, columns, rows, items_name="changes")
