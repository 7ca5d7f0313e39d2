"""Names in an inventory that are percent-encoded, although those of files in a table are not.

An inventory may list `p=a%20b/f.parquet` for the file `p=a b/f.parquet`. Both can be names of files, so the text does
not tell which one is meant. Only the store knows: the literal name does not exist, and the decoded one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from deltacli.core.errors import Refusal
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.paths.lookalikes import decodings_of
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.storage import ReadStorage

_ENCODED = "%[0-9A-Fa-f]{2}|[+]"
_ASKED_FOR = 1_000
"""How many names the store is asked for: an inventory is encoded as a whole."""


def find_encoded_names(storage: ReadStorage, paths: ArrowArray) -> Iterator[Refusal]:
    """Yield a refusal if candidates of an inventory do not exist, but do so under their decoded names.

    Args:
        storage: The store of the table.
        paths: The paths of the candidates, as bytes.
    """
    suspicious = pc.filter(paths, pc.match_substring_regex(paths, pattern=_ENCODED)).slice(0, _ASKED_FOR)
    names = [decode_path_bytes(path) for path in suspicious.to_pylist()]
    absent = _missing(storage, names)
    decoded = {name: decodings_of(name) for name in absent}
    candidates = [name for decodings in decoded.values() for name in decodings]
    existing = set(candidates) - set(_missing(storage, candidates))

    meant = {name: found for name, decodings in decoded.items() if (found := existing.intersection(decodings))}
    if meant:
        name, found = next(iter(meant.items()))
        yield Refusal(
            "vacuum.inventory",
            f"the inventory has encoded names: {plural(len(meant), 'file')} to delete would not be found; the first is "
            f"{name}, which does not exist, but {min(found)} does",
            facts={"way out": "write the names of the files as they are into the inventory, or list the table"},
        )


def _missing(storage: ReadStorage, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    sizes, _ = storage.stat_many(names)
    return [name for name, size in zip(names, sizes, strict=True) if size < 0]
