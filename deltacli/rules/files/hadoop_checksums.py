"""The rule about checksum files of Hadoop, which Spark keeps beside the files that it writes to local disks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.core.units import plural
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.views import HadoopChecksumsView

AREA = Area("storage", Level.STORAGE, spec="Hadoop: checksum files")

HADOOP_CHECKSUM = AREA.error(
    "storage.hadoop-checksum",
    "A checksum file of Hadoop does not fit the file beside it.",
    broken="Hadoop readers on local paths, such as Spark, do not read the file (ChecksumException)",
    repair=LazyText("delete the checksum file: {}", partial(command, "repair")),
    loss="nothing if the file was replaced by a tool that leaves such files alone; else the proof that it is damaged",
    example="_delta_log/.00000000000000000003.json.crc, written for other bytes than 00000000000000000003.json has",
)


@AREA.check(HadoopChecksumsView, HADOOP_CHECKSUM)
def checksum_files_fit(view: HadoopChecksumsView) -> Iterator[Finding]:
    """A file of the log is compared completely, of a data file the length, the first and the last chunk."""
    for checksum in view.unfit:
        message = f"{checksum.file} does not fit its checksum file, so Spark and other Hadoop readers do not read it"
        if checksum.offset:
            message += f"; its first {plural(checksum.offset, 'byte')} fit, so it may be damaged"
        yield HADOOP_CHECKSUM.at(Place(checksum.path), message)
