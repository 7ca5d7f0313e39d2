"""A schema as a drawn tree: names, types, nullability, partition columns, comments and column mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from deltacli.cli.render.column_mapping import mapping_of
from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.terminal.term import Style
from deltacli.delta.schema.types import StructField, simple_name, walk

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot


def schema_drawing(canvas: Canvas, snapshot: Snapshot, *, with_mapping: bool) -> Tree:
    """Return the schema of a snapshot as a tree, with ids and physical names where `with_mapping`."""
    partitions = set(snapshot.metadata.partition_columns)
    root = Tree(canvas.text("root", Style.HEADING), guide_style=str(Style.FRAME))
    path = [root]
    for depth, field in walk(snapshot.schema):
        is_partition = depth == 0 and field.name in partitions
        text = _field(canvas, field, is_partition=is_partition, with_mapping=with_mapping)
        path[depth + 1 :] = [path[depth].add(text)]
    return root


def _field(canvas: Canvas, field: StructField, *, is_partition: bool, with_mapping: bool) -> Text:
    comment, mapping = field.metadata.get("comment"), mapping_of(field) if with_mapping else None
    return canvas.joined(
        [
            (field.name, Style.HEADING),
            ": ",
            (simple_name(field.data_type), Style.TYPE),
            "" if field.nullable else (" not null", Style.WARNING),
            ("  (partition)", Style.GOOD) if is_partition else "",
            (f"  [{mapping}]", Style.QUIET) if mapping is not None else "",
            (f"  -- {comment}", Style.QUIET) if comment else "",
        ]
    )
