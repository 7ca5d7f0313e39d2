"""Damages of a log that engines read, but not alike, by the rules of `validate` that report them.

Where the protocol does not say what such a log means, deltacli reads it as Delta for Spark does, unless that would lose
rows that the log names. A version knows which of these decisions it depends on (`Snapshot.problems`), so that whoever
reads or copies its rows can say so:

    damage                                     deltacli             Spark       Rust kernel    Java kernel
    an add and a remove on one line            the add              the add     the add        both
    several objects on one line                all, but no remove   the first   all            the first
                                                 after another one
    one commit adds and removes one file       live                 the last    the first      removed
    one commit adds one file in two ways       the last             the last    the first      the first
    one commit has two protocols or metaData   the last             the last    the first      the first
    a checkpoint has one live file twice       once                 once        twice          twice
    a key of a partition value differs from
      its column in letter case                the value            null        refuses        refuses

Spec: Actions; Action Reconciliation; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.core.typing import Json

SEVERAL_ACTIONS = "commit.line-not-object"
SEVERAL_OBJECTS = "commit.pretty-printed"
ADDED_AND_REMOVED = "action.add-remove-same-key"
ADDED_TWICE = "action.duplicate-path"
TWO_PROTOCOLS = "commit.duplicate-protocol"
TWO_METADATA = "commit.duplicate-metadata"
REPEATED_IN_CHECKPOINT = "checkpoint.duplicate-key"
KEY_IN_OTHER_CASE = "partition.key-case"

DECISIONS: Mapping[str, str] = {
    SEVERAL_ACTIONS: "a commit has a line with several actions; all were used, but no remove beside an add",
    SEVERAL_OBJECTS: "a commit has several objects on a line; all were used, but no remove after another object",
    ADDED_AND_REMOVED: "a commit adds and removes the same file; it counts as live, for some engines as removed",
    ADDED_TWICE: "a commit adds the same file in two ways; the last add was used, some engines use the first",
    TWO_PROTOCOLS: "a commit has two protocol actions; the last one was used, some engines use the first",
    TWO_METADATA: "a commit has two metaData actions; the last one was used, some engines use the first",
    REPEATED_IN_CHECKPOINT: "the checkpoint has a live file twice; it is read once, some engines read it twice",
    KEY_IN_OTHER_CASE: "a partition column has another letter case in the log; its value is read, Spark returns null",
}
"""Rules of `validate` for such damages -> what was decided, in words."""


RULES_SETTLED_BY_CHECKPOINT = (
    ADDED_AND_REMOVED,
    ADDED_TWICE,
    SEVERAL_ACTIONS,
    SEVERAL_OBJECTS,
    TWO_METADATA,
    TWO_PROTOCOLS,
)
"""Damages of commits, of which a checkpoint would make the reading of deltacli that of all engines."""


class _SingleKind(NamedTuple):
    """A kind of action that a commit has at most once, and the rule that reports a second one."""

    kind: str
    rule: str


_SINGLE_KINDS = (_SingleKind("protocol", TWO_PROTOCOLS), _SingleKind("metaData", TWO_METADATA))


def find_repeated_kinds(actions: Sequence[tuple[str, Json]]) -> Iterator[str]:
    """Yield the rules that a commit breaks by two protocols or two metaData that are not the same.

    Args:
        actions: The kinds of the actions of the commit, each with the action. Those of files may be left out.
    """
    for single in _SINGLE_KINDS:
        contents = [action for kind, action in actions if kind == single.kind]
        if any(content != contents[0] for content in contents[1:]):
            yield single.rule
