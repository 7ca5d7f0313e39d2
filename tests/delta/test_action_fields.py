"""The declaration of the fields of actions."""

from __future__ import annotations

import subprocess
import sys

ONE_MORE_FIELD = """
from deltacli.delta.log.actions import FIELDS, Field, FieldType
FIELDS["add"]["newField"] = Field(FieldType.LONG)  # before anything is derived

from deltacli.delta.checkpoint.comparison import comparable_adds, compare
from deltacli.delta.checkpoint.content import Columns, checkpoint_schema
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.checkpoints.columns import _known_columns
from deltacli.rules.log.commit_lines import faults_of, unknown_fields
from deltacli.rules.log.compactions import _ADD_FIELDS

add = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True, "newField": 7}
one, other = (build_action_batch([{**add, "newField": value}], action_schemas().add, "x") for value in (7, 8))
(difference,) = compare(comparable_adds(one), comparable_adds(other), TableConfiguration()).different
print(
    one.column("newField").to_pylist(),
    (difference.field, difference.seen, difference.expected),
    checkpoint_schema(Columns(), kinds=["add"]).field("add").type.field("newField").type,
    _known_columns()["add"]["newField"].words,
    [fault.name for fault in faults_of("add", {**add, "newField": "7"})],
    unknown_fields("add", add),
    "newField" in _ADD_FIELDS,
)
"""


def test_a_new_optional_field_of_add_is_one_line() -> None:
    run = subprocess.run([sys.executable, "-c", ONE_MORE_FIELD], capture_output=True, text=True, check=True)

    assert run.stdout == "[7] ('newField', 7, 8) int64 int64 ['newField'] [] True\n"
