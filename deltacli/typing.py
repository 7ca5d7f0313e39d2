"""Names for values whose libraries have no types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any
"""A value of a JSON document: an object, array, string, number, boolean or null."""

JsonObject = Mapping[str, Any]
"""An object of a JSON document."""

ArrowArray = Any
"""An array or chunked array of pyarrow."""

ArrowField = Any
ArrowScalar = Any
ArrowSchema = Any
ArrowTable = Any
ArrowType = Any
RecordBatch = Any
