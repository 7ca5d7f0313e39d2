"""Listings of stores that sort names by UTF-16 come in the order of their bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltacli.storage.objects.calls import ListedObject, sort_by_bytes

NAMES = st.lists(st.text(st.sampled_from("a~é\ud7ff\ue000Ａ😀\U0010ffff"), max_size=4), unique=True)


@given(NAMES)
def test_names_in_the_order_of_utf_16_come_in_that_of_their_bytes(names: list[str]) -> None:
    listed = [ListedObject(name, 0, 0) for name in sorted(names, key=lambda name: name.encode("utf-16-be"))]

    assert sorted(names, key=str.encode) == [entry.key for entry in sort_by_bytes(listed)]
