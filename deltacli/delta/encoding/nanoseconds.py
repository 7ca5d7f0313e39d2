"""Timestamps in nanoseconds, truncated to microseconds."""

from __future__ import annotations

from typing import Any

from deltacli.arrow import compute as pc

_FIRST = -(1 << 63) + 1_000
"""From here on no microsecond begins before the first nanosecond of 64 bits."""


def to_microseconds(numbers: Any) -> Any:  # Any: Arrow arrays of int64
    """Return nanoseconds as the microseconds that contain them, also before 1970, where a cast would return the next
    one.
    """
    import pyarrow as pa

    least = pc.min_max(numbers).as_py()["min"]
    if least is None or least >= _FIRST:
        # 30 ns per row; the division below takes 100.
        cut = pc.floor_temporal(numbers.view(pa.timestamp("ns")), unit="microsecond")
        return pc.cast(cut, pa.timestamp("us")).view(pa.int64())
    whole = pc.divide(numbers, 1_000)
    is_later = pc.less(pc.subtract(numbers, pc.multiply(whole, 1_000)), 0)
    return pc.subtract(whole, pc.cast(is_later, pa.int64()))
