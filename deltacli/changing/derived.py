"""Files of the log that follow from its commits, such as checkpoints: where they may be written, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltacli.changing.basis import Basis, require_unchanged
from deltacli.core.errors import ProtocolUnsupported, Unreadable
from deltacli.delta.protocol.features import require_derivable as require_files_of_log
from deltacli.storage import Created, Creation
from deltacli.table.find_log import Log
from deltacli.table.rebuild import rebuild

if TYPE_CHECKING:
    from deltacli.changing.change import Gate
    from deltacli.table.version import Snapshot


def require_derivable(snapshot: Snapshot) -> None:
    """Raise Refused where the protocol of a version, or of the newest one, does not allow writing files of the log.

    A newest version that is damaged forbids nothing.
    """
    require_files_of_log(snapshot.protocol, snapshot.version)
    newest = snapshot.listing.newest_version
    if newest > snapshot.version:
        try:
            now = rebuild(snapshot.table, Log(snapshot.listing), newest)
        except ProtocolUnsupported:
            raise
        except Unreadable:
            return
        require_files_of_log(now.protocol, newest)


@contextmanager
def in_flight(path: str) -> Iterator[None]:
    """Add a note to an interruption: the file may have been written."""
    try:
        yield
    except Exception:
        raise
    except BaseException as interruption:
        interruption.add_note(f"{path} may have been written")
        raise


@contextmanager
def deriving(basis: Basis, path: str) -> Iterator[None]:
    """Write a file for the commit that a basis stands on. Raises as `require_unchanged` before anything is written."""
    require_unchanged(basis)
    with in_flight(path):
        yield


def put_derived(gate: Gate[Any, Any], path: str, data: bytes) -> Creation:  # Any: every plan
    """Create a file for the commit that its plan stands on. Raises what `require_unchanged` and the store raise."""
    with deriving(gate.plan.basis, path):
        made = gate.store.put_if_absent(path, data)
    gate.has_begun = made == Created()
    return made
