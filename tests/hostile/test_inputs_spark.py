"""No value of an option of Spark's data source raises anything but an error of deltacli, whose text begins with its
code: Spark shows the text alone.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterator, Mapping

import pytest

from deltacli.spark.source_options import BATCH, STREAM, WRITE, batch_options, stream_options, write_options
from deltacli.spark.source_plans import BatchPlan, ChangesPlan, open_source, searchable_faults
from deltacli.spark.table_log import TableLog
from tests.cli.support import make_sample
from tests.hostile.inputs import LONGEST, VALUES
from tests.support.effort import is_soaking

EACH = 5
Options = Mapping[str, str]


def _batch(options: Options) -> object:
    chosen = batch_options(options)
    return (ChangesPlan if chosen.read_change_feed else BatchPlan)(chosen)


def _stream(options: Options) -> object:
    chosen = stream_options(options, "4.3.0")
    return TableLog(open_source(chosen), chosen).columns


def _write(options: Options) -> object:
    return open_source(write_options(options, is_stream="txnVersion" not in options))


USES: Mapping[str, tuple[Callable[[Options], object], tuple[str, ...], Options]] = {
    "read": (_batch, tuple(BATCH), {}),
    "changes": (_batch, tuple(BATCH), {"readChangeFeed": "true", "startingVersion": "1"}),
    "readStream": (_stream, tuple(STREAM), {}),
    "write": (_write, tuple(WRITE), {}),
}
"""What reads options, their names, and others that are given."""
STORE = ("path", "storage.region", "storage.unheard_of", "unheard_of")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_sample(tmp_path_factory.mktemp("spark") / "tbl"))


@pytest.mark.parametrize("use", USES)
def test_no_value_of_an_option_is_a_bug(use: str, sample: str) -> None:
    read, names, others = USES[use]

    wrong = [
        f"{option}, {name}: {fault}"
        for option in (*names, *STORE)
        for name in _chosen(use + option)
        for fault in _faults(read, {"path": sample, **others, option: VALUES[name]})
    ]

    assert "" == "\n".join(wrong)


def _chosen(of: str) -> list[str]:
    names = [name for name in VALUES if name not in LONGEST]
    return names if is_soaking() else random.Random(zlib.crc32(of.encode())).sample(names, EACH)


def _faults(read: Callable[[Options], object], options: Options) -> Iterator[str]:
    try:
        with searchable_faults(options["path"]):
            read(options)
    except RuntimeError as fault:
        if re.match(r"\[[a-z.-]+\] ", str(fault)) is None:
            yield repr(fault)[:300]
    except Exception as fault:  # noqa: BLE001  (the sentence that this test proves)
        yield repr(fault)[:300]
