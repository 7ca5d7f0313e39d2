"""The order in which Java writes the options of a table: that of its hash maps, so that our files have Java's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_LOAD = 0.75
_SMALLEST = 16


class HashOrder:
    """A map of strings that is iterated like Java's HashMap with the same history of copies and insertions."""

    def __init__(self, items: Mapping[str, str]) -> None:
        self._items: dict[str, str] = {}
        self._buckets = _buckets_of_copy(len(items))
        self._items = {key: items[key] for key in self._ordered(items)}

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def get(self, key: str) -> str | None:
        """Return a value, None without the key."""
        return self._items.get(key)

    def put(self, key: str, value: str) -> None:
        """Set a value; a new key is the last one of its bucket."""
        is_new = key not in self._items
        self._items[key] = value
        if is_new:
            while len(self._items) > _LOAD * self._buckets:
                self._buckets *= 2
            self._items = {name: self._items[name] for name in self._ordered(self._items)}

    def remove(self, key: str) -> str | None:
        """Remove a key and return its value, None without the key."""
        return self._items.pop(key, None)

    def as_dict(self) -> dict[str, str]:
        """Return the items in their order."""
        return dict(self._items)

    def copy(self) -> HashOrder:
        """Return a copy as Java makes it, which can have another order."""
        return HashOrder(self._items)

    def _ordered(self, keys: Iterable[str]) -> list[str]:
        return sorted(keys, key=lambda key: _spread(key) & (self._buckets - 1))


def _buckets_of_copy(count: int) -> int:
    """Return the number of buckets of the copy of a map: the smallest power of two that its items do not overload."""
    if count == 0:
        return _SMALLEST
    least = int(count / _LOAD + 1)
    return 1 << (least - 1).bit_length()


def _spread(text: str) -> int:
    """Return the hash of a string, with its upper half mixed into its lower one."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for place in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[place : place + 2])) & 0xFFFFFFFF
    return found ^ (found >> 16)
