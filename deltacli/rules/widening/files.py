"""Rules about type widening: whether data files still need the recorded changes. Spec: Type Widening."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from deltacli.core.hints import Worded, command
from deltacli.core.units import plural
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.type_changes import changed_fields
from deltacli.rules.files.data_types import is_final, match_of
from deltacli.rules.framework.base import LOST_BY_DROPPING, Area, Finding, Level
from deltacli.rules.framework.data_file_views import AllFootersView, FileSchemaView
from deltacli.rules.widening.entries import changes_of

AREA = Area("widening", Level.FOOTERS)

REMOVABLE = AREA.info(
    "typewidening.removable",
    "Type changes are recorded, but no data file needs them any more.",
    spec="Type Widening: Writer Requirements for Type Widening",
    broken="nothing: the table requires a feature from its readers that it does not need",
    repair=Worded("drop the feature: {}", partial(command, "features drop", "typeWidening")),
    loss=LOST_BY_DROPPING,
    example="delta.typeChanges of a column whose files were all rewritten since",
)
_SPELLED_ANEW = frozenset({"date", "float"})
"Types whose partition values, which are unchanged in the log, have another spelling than those of the wider type."


@AREA.check(AllFootersView, REMOVABLE)
def changes_that_nobody_needs(view: AllFootersView) -> Iterator[Finding]:
    """Report if every column with changes has its present type in all files."""
    changed = changed_fields(view.config)
    if not changed or not view.complete or not view.schemas or _keeps_old_values(view.config):
        return
    if all(_is_final(schema) for schema in view.schemas):
        files = plural(sum(schema.files for schema in view.schemas), "data file")
        names = ", ".join(named.path for named in changed)
        message = f"no type change needs to be recorded, because {files} have the present types of {names}"
        yield REMOVABLE.at(view.place._replace(key=changed[0].path), message, seen=names)


def _is_final(view: FileSchemaView) -> bool:
    return all(is_final(part) for part in match_of(view).parts if part.field.metadata.get("delta.typeChanges"))


def _keeps_old_values(config: TableConfiguration) -> bool:
    """Return True if a partition column has changes that its values in the log may need."""
    partitions = {column.name for column in config.partition_columns.values() if column is not None}
    return any(
        named.path in partitions and any(entry.from_type in _SPELLED_ANEW for entry in changes_of(named))
        for named in changed_fields(config)
    )
