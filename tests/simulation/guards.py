"""The guards of the product, to be taken out one at a time: a history must then go wrong, within some seeds.

`python -m tests.simulation --without GUARD` looks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from deltacli.changing.commit import _Sender
from deltacli.changing.proofs import Alone
from deltacli.delta.log import conflicts
from deltacli.operations.recover.proving import Reach
from deltacli.storage.outcomes import Created

Patches = Mapping[str, object]


@dataclass(frozen=True)
class Guard:
    """What to put in place of names of the product, and what to look at."""

    what: str
    patches: Patches
    commands: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    chain: tuple[str, ...] = field(default=())


def _nothing(*_: object, **__: object) -> None:
    """Look at nothing."""


def _yes(*_: object, **__: object) -> bool:
    return True


def _no(*_: object, **__: object) -> bool:
    return False


def _itself(self: Any, *_: object) -> Any:  # Any: a handle
    return self


def _all_are_proven(*arguments: Any) -> Any:  # Any: those of `_reach`
    offer = arguments[4]
    return Reach(max((file.path.version for file in offer.values()), default=-1), Alone())


def _none_is_needed(_: object, paths: Any) -> Any:  # Any: arrays
    import pyarrow as pa

    return pa.repeat(pa.scalar(False), len(paths))


def _obstacles(*kinds: str) -> Patches:
    known: Mapping[str, Any] = conflicts._OBSTACLES
    return {"deltacli.delta.log.conflicts._OBSTACLES": {**known, **dict.fromkeys(kinds, conflicts._never)}}


_VACUUM = "deltacli.operations.vacuum"


def _with_strangers(sender: Any, request: Any, version: int) -> Any:  # Any: of the product
    lost, newest = _WINNERS(sender, request, version)
    winners = tuple(one._replace(txn_id=None) for one in lost.winners)
    return lost._replace(winners=winners), newest


def _created() -> object:
    return Created()


_WINNERS = _Sender._winners
FINDS: Mapping[str, int] = {"A1": 9, "A2": 19, "A3": 14, "A4": 2, "A5": 5, "A6": 38, "A10": 129, "needed": 38}
"""Guards, and the first seed of their theme that goes wrong without them."""


_COMMIT = "deltacli.changing.commit"
_PAST: Patches = {f"{_COMMIT}.require_past": _nothing, f"{_COMMIT}.require_listed": _nothing}
_PROVEN: Patches = {
    "deltacli.operations.recover.proving._reach": _all_are_proven,
    "deltacli.operations.recover.proving.still_holds": _yes,
}
_VACUUMS = ("vacuum", "vacuum-lite", "vacuum-saved")
_REWRITES = ("rewrite", "roll-back")

GUARDS: Mapping[str, Guard] = {
    "A1": Guard(
        "a vacuum does not compare the past of its plan",
        {
            f"{_VACUUM}.rechecking.require_same": _nothing,
            f"{_VACUUM}.rechecking._LogTail._require_last": _nothing,
            **_PAST,
        },
        _VACUUMS,
        _REWRITES,
    ),
    "A2": Guard(
        "a change is not bound to its directory",
        {"deltacli.table.handle.TableHandle.held": _itself},
        ("optimize", "vacuum"),
        ("switch-link", "rename"),
    ),
    "A3": Guard(
        "undo does not prove that the log can do without the file",
        {"deltacli.operations.repair.backup._require_rebuilt": _nothing},
        chain=("checkpoint", "cut-checkpoint", "repair", "checksum", "expire", "undo"),
    ),
    "A4": Guard(
        "every commit of a copy is believed: above the newest one",
        _PROVEN,
        ("undelete",),
        ("lose-file", "fork"),
    ),
    "A5": Guard(
        "every commit of a copy is believed: in a gap",
        _PROVEN,
        ("undelete", "repair"),
        ("lose-commit", "lose-file"),
    ),
    "A6": Guard(
        "restore looks at its files once",
        {
            "deltacli.operations.restore.restore._Attempts._has_waited": False,
            "deltacli.operations.restore.restore._has_vacuum": _no,
        },
        ("restore", "vacuum"),
    ),
    "A10": Guard(
        "the version that a commit follows is not looked at again",
        {**_PAST, "deltacli.changing.change.look_again": _nothing},
        ("optimize", "restore"),
        _REWRITES,
    ),
    "require_past": Guard(
        "the commit before is not looked at", {f"{_COMMIT}.require_past": _nothing}, ("optimize", "alter"), _REWRITES
    ),
    "require_clock": Guard(
        "a clock that is behind is not noticed",
        {"deltacli.changing.change.require_clock": _nothing, f"{_VACUUM}.rechecking.require_clock": _nothing},
        ("vacuum", "restore", "optimize"),
    ),
    "needed": Guard(
        "a vacuum does not read newer commits",
        {f"{_VACUUM}.rechecking.NewerCommits.needed": _none_is_needed},
        ("vacuum", "restore"),
    ),
    "retention": Guard(
        "a vacuum knows no retention", {f"{_VACUUM}.plan_context.deleted_file_retention_ms": lambda _: 0}, ("vacuum",)
    ),
    "require_there": Guard(
        "new files are not looked at before the commit",
        {"deltacli.changing.new_files.NewFiles.require_there": _yes},
        ("optimize",),
        ("lose-file",),
    ),
    "require_unchanged": Guard(
        "files that follow from commits are written whatever became of these",
        {
            "deltacli.changing.derived.require_unchanged": _nothing,
            "deltacli.operations.checkpoint.checkpoint.require_unchanged": _nothing,
            "deltacli.changing.change.look_again": _nothing,
        },
        ("checkpoint", "compact"),
        _REWRITES,
    ),
    "unproven": Guard(
        "an expiry is not proven",
        {"deltacli.operations.log.expire.unproven": _nothing},
        ("expire", "checkpoint"),
    ),
    "newer_commit": Guard(
        "undo does not look for newer commits",
        {"deltacli.operations.repair.backup._require_no_commit": _nothing},
        chain=("checkpoint", "cut-checkpoint", "repair", "append", "undo"),
    ),
    "log_restore": Guard(
        "a restore of the log does not compare the log",
        {"deltacli.operations.log.log_restore._require_same": _nothing},
        chain=("backup", "append", "lose-commit", "log-restore"),
    ),
    "still_holds": Guard(
        "what proved the commits of a copy is not looked at again",
        {"deltacli.operations.recover.proving.still_holds": _yes},
        ("undelete",),
        ("lose-commit", "rewrite", "copy-anew"),
    ),
    "obstacles": Guard(
        "a commit follows whatever winners removed", _obstacles("remove"), ("optimize", "zorder", "restore")
    ),
    "metadata": Guard(
        "a commit follows whatever winners altered",
        _obstacles("metaData", "protocol"),
        ("alter", "properties", "widen"),
    ),
    "additions": Guard("a restore follows whatever winners added", _obstacles("add"), ("restore", "restore-where")),
    "vacuum_wins": Guard(
        "a restore follows a vacuum",
        {
            **_obstacles("commitInfo"),
            "deltacli.operations.restore.restore._Attempts._has_waited": False,
        },
        ("restore", "vacuum"),
    ),
    "txn_id": Guard(
        "a lost answer is not looked up",
        {f"{_COMMIT}._Sender._winners": _with_strangers},
        ("alter", "properties", "optimize"),
    ),
    "existed": Guard(
        "a version that existed counts as created",
        {"tests.simulation.store.Existed": _created},
        ("optimize", "alter", "restore"),
    ),
}


@contextmanager
def without(name: str) -> Iterator[Guard]:
    """Take a guard out."""
    guard = GUARDS[name]
    patches = [mock.patch(target, replacement) for target, replacement in guard.patches.items()]
    for patch in patches:
        patch.start()
    try:
        yield guard
    finally:
        for patch in patches:
            patch.stop()
