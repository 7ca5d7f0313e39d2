"""Tables with a version checksum."""

from __future__ import annotations

import json
from typing import Any

from deltacli.delta.log.segment import checksum_path
from deltacli.operations.log.crc_and_compact import compute_checksum
from tests.support.builder import TableBuilder
from tests.support.reading import open_at


def with_checksum(builder: TableBuilder, **fields: Any) -> TableBuilder:  # Any: JSON values
    """The table with the checksum of its newest version, some fields replaced; those that are None left out."""
    content = {**compute_checksum(open_at(builder.in_memory()).snapshot()), **fields}
    data = json.dumps({name: value for name, value in content.items() if value is not None})
    return builder.file(checksum_path(builder.newest), data.encode())
