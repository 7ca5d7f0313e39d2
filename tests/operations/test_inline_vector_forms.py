"""Texts of inline vectors: the reader, the rules, the checks of vectors and a repair agree on which are valid."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable
from deltacli.operations.repair.repair import plan_repair
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from tests.support.repairing import request
from tests.support.rows import parquet_bytes, schema_of, table_of
from tests.support.small_vectors import Z85, inline, roaring64, z85

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
DATA = roaring64([3])


def short(data: bytes) -> str:
    """The text as a library of the Rust kernel writes it: the last one to three bytes in a group that `#` begins."""
    whole, left = data[: len(data) // 4 * 4], data[len(data) // 4 * 4 :]
    number, digits = int.from_bytes(left, "big"), []
    for _ in range(len(left) + 1):
        number, digit = divmod(number, 85)
        digits.append(Z85[digit])
    return z85(whole) + "#" * (4 - len(left)) + "".join(reversed(digits))


@pytest.mark.parametrize(
    ("text", "size", "is_valid"),
    [
        pytest.param(z85(DATA), 34, True, id="filled-up"),
        pytest.param(z85(DATA), 36, True, id="filled-up-and-counted-so"),
        pytest.param(short(DATA), 34, True, id="two-bytes"),
        pytest.param(short(DATA), 36, True, id="two-bytes-counted-as-four"),
        pytest.param(short(DATA + bytes(1)), 34, True, id="three-bytes"),
        pytest.param(short(DATA + bytes(3)), 34, True, id="one-byte"),
        pytest.param(short(DATA)[:-3] + "zzz", 34, False, id="beyond-two-bytes"),
        pytest.param(short(DATA).replace("##", "%%"), 34, False, id="beyond-32-bits"),
        pytest.param("##000" + short(DATA)[5:], 34, False, id="short-first-group"),
        pytest.param(short(DATA)[:-1], 34, False, id="incomplete"),
        pytest.param("", 0, False, id="empty"),
    ],
)
def test_the_text_of_an_inline_vector_is_valid_for_all_or_none(
    text: str, size: int, is_valid: bool, tmp_path: Path
) -> None:
    vector = inline([3]) | {"pathOrInlineDv": text, "sizeInBytes": size}
    table_of({"a.parquet": parquet_bytes(ROWS)}, schema_of(ROWS), vectors={"a.parquet": vector}).write(tmp_path)
    table = open_table(tmp_path)

    found = {one.rule.id for one in validate_table(table, ValidateRequest(level="data")).findings}
    steps = plan_repair(table, request()).steps

    with nullcontext() if is_valid else pytest.raises(DataUnreadable, match="its text is not Z85"):
        rows = [row["id"] for batch in table.snapshot().scan() for row in batch.to_pylist()]
        assert [0, 1, 2, 4, 5, 6, 7, 8, 9] == rows
    assert (set() if is_valid else {"dv.bad-z85"}) == found & {"dv.bad-z85", "dv.size-mismatch", "dv.magic"}
    assert is_valid == (not [step for step in steps if step.rule == "dv.bad-z85"])
