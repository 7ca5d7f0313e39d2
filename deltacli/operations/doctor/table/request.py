"""The request for an examination of a table."""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.operations.doctor.table.prices import PriceTable
from deltacli.request_fields import Kind, option


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """What is examined. `prices`: those of the store (None: the built-in ones, where there are any). Without `listing`
    the files of the table are not listed, so nothing is known of unreferenced ones.
    """

    prices: PriceTable | None = None
    listing: bool = option(
        "Do not list the files of the table: no advice on unreferenced files.", kind=Kind.OPPOSITE, default=True
    )
