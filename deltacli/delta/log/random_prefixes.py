"""Directories with random names, which engines use instead of those of partitions.

With column mapping, or the property `delta.randomizeFilePrefixes`, the reference implementation puts each new file into
a directory of a few random letters and digits. This includes change data, which is not below `_change_data` then.
"""

from __future__ import annotations

import re
import string

from deltacli.delta.log.state import TableConfiguration, is_true, parse_integer_property

LETTERS = string.ascii_letters + string.digits
_DEFAULT_LENGTH, _LONGEST = 2, 32


def uses_random_prefixes(config: TableConfiguration) -> bool:
    """Return whether writers put new files into directories with random names."""
    return config.mapping_mode != "none" or is_true(config.properties, "delta.randomizeFilePrefixes")


def prefix_length(config: TableConfiguration) -> int:
    """Return the number of characters of such a name."""
    length = parse_integer_property(config.properties, "delta.randomPrefixLength") or _DEFAULT_LENGTH
    return min(max(length, 1), _LONGEST)


def has_random_prefix(path: str, config: TableConfiguration) -> bool:
    """Return whether a file is where a writer of a table with random prefixes puts it."""
    if not uses_random_prefixes(config):
        return False
    return re.fullmatch(rf"[A-Za-z0-9]{{{prefix_length(config)}}}/[^/]+", path) is not None
