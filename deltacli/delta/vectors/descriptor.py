"""Deletion vector descriptors. Spec: Deletion Vectors; Deletion Vector Descriptor Schema (derived fields)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.typing import Json

if TYPE_CHECKING:
    import pyarrow


class DescriptorFault(NamedTuple):
    """The fault of a descriptor that does not name a vector: a rule id, and the message."""

    code: str
    text: str


def fault_of(descriptor: object) -> DescriptorFault | None:
    """Return the fault of a raw descriptor that prevents an id, or None."""
    if not isinstance(descriptor, dict):
        return DescriptorFault("action.wrong-type", "deletionVector has the wrong type")
    for name in ("storageType", "pathOrInlineDv"):
        value = descriptor.get(name)
        if value is None:
            return DescriptorFault("action.missing-required", f"deletionVector.{name} is missing")
        if not isinstance(value, str):
            return DescriptorFault("action.wrong-type", f"deletionVector.{name} has the wrong type")
    if not isinstance(descriptor.get("offset"), int | None):
        return DescriptorFault("action.wrong-type", "deletionVector.offset has the wrong type")
    return None


def unique_id(descriptor: dict[str, Json] | None) -> str:
    """Return the id that is part of a logical file's key; empty without a vector. `offset: 0` and no offset are two
    ids.
    """
    if not descriptor:
        return ""
    offset = descriptor.get("offset")
    name = f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}"
    return name if offset is None else f"{name}@{offset}"


def no_vector_ids(count: int) -> pyarrow.Array:
    """Return the ids of `count` files without a vector."""
    import pyarrow

    return pyarrow.repeat(_empty_text(), count)


@lru_cache(maxsize=1)
def _empty_text() -> Any:  # Any: pyarrow has no types
    import pyarrow

    return pyarrow.scalar("")


def unique_id_column(descriptors: pyarrow.StructArray) -> pyarrow.Array:
    """Return `unique_id` for a column of descriptors: struct array in, string array out, `""` if there is none."""
    import pyarrow

    if descriptors.null_count == len(descriptors):
        return no_vector_ids(len(descriptors))
    kind, place = (
        pc.cast(pc.struct_field(descriptors, [part]), pyarrow.string()) for part in ("storageType", "pathOrInlineDv")
    )
    name = pc.binary_join_element_wise(kind, place, "")
    suffix = pyarrow.scalar("")
    if descriptors.type.get_field_index("offset") >= 0:
        offset = pc.cast(pc.struct_field(descriptors, ["offset"]), pyarrow.string())
        suffix = pc.coalesce(pc.binary_join_element_wise("@", offset, ""), pyarrow.scalar(""))
    return pc.coalesce(pc.binary_join_element_wise(name, suffix, ""), pyarrow.scalar(""))
