"""Steps for checksum files of Hadoop that do not fit their files: they are moved to the backup.

A tool that replaces a file and knows nothing of Hadoop leaves the checksum file of the bytes before. Then the file is
right, and Spark reads it again once the checksum file is gone. But a file that was cut off or damaged does not fit
either, and then its checksum file is right. What else is known of a file decides:

* Checkpoints, version checksums and other files that repeat what the commits say are compared with them by other
  rules.
* A commit or a data file is believed unless its beginning fits: another file differs from the first bytes on, because
  commits begin with a time and an id, while a file that was cut off begins as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.core.units import plural
from deltacli.delta.data_files import MANIFESTS
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind, parse_log_path
from deltacli.operations.repair.plan import NotNeededError, Planned, Run, Step, Unrepaired, left
from deltacli.operations.validate.inspect_checksums import find_unfit_checksum
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.repairs import StepKind

if TYPE_CHECKING:
    from deltacli.rules.framework.views import UnfitChecksum
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle

_PRIMARY_KINDS = (LogFileKind.COMMIT, LogFileKind.UNPADDED, LogFileKind.OTHER)
"""Files of the log that nothing else determines."""


@dataclass(frozen=True)
class RemoveChecksums:
    """Moves checksum files to the backup, unless they fit by now."""

    paths: tuple[str, ...]
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        if len(self.paths) == 1:
            return f"move {self.paths[0]} to the backup"
        return f"move {plural(len(self.paths), 'checksum file')} of Hadoop to the backup"

    def run(self, run: Run) -> None:
        storage = run.table.storage
        unfit = [path for path in self.paths if compare_checksum(storage, path) is not None]
        if not unfit:
            raise NotNeededError("the checksum files fit, or are gone, since the plan")
        run.move(unfit)


def plan_hadoop_checksums(table: TableHandle, findings: Sequence[Finding]) -> Planned:
    """Return the step for the checksum files whose files are believed; one change removes all of them."""
    removable = list[Finding]()
    unrepaired = list[Unrepaired]()
    for finding in findings:
        unfit = compare_checksum(table.storage, finding.place.path)
        if unfit is not None and unfit.offset > 0 and not is_derived(unfit.file):
            reason = f"{unfit.file} may be damaged, because its beginning fits; compare it with a copy of the table"
            unrepaired.append(left(finding, reason))
        else:
            removable.append(finding)
    if not removable:
        return Planned(unrepaired=unrepaired)

    change = RemoveChecksums(tuple(finding.place.path for finding in removable))
    steps = [Step(finding.rule.id, finding.place, StepKind.QUARANTINE, 0, change.name) for finding in removable]
    return Planned(steps, [change], unrepaired)


def compare_checksum(storage: ReadStorage, checksum: str) -> UnfitChecksum | None:
    """Return what is wrong with a checksum file; None if it fits its file, or if one of them is gone."""
    return find_unfit_checksum(storage, checksum, is_whole=checksum.startswith(f"{LOG_DIRECTORY}/"))


def is_derived(path: str) -> bool:
    """Return whether a file only repeats what commits say, so that it can be written again from them."""
    if path.startswith((f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/", f"{MANIFESTS}/")):
        return True
    directory, _, name = path.rpartition("/")
    return directory == LOG_DIRECTORY and parse_log_path(name).kind not in _PRIMARY_KINDS
