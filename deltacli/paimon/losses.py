"""What a conversion of a schema changes: of which column, and whether values or rules are lost by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deltacli.core.typing import Json


class ConversionLoss(NamedTuple):
    """One thing that the other format does not have. `is_lost` is False where every value still fits, as in a wider
    type.
    """

    column: str
    what: str
    before: str
    after: str
    reason: str
    is_lost: bool = True

    @property
    def sentence(self) -> str:
        """The loss in words: `price: TIME(3) -> string: Delta has no time of day`."""
        place = f"{self.column}: " if self.column else ""
        arrow = f"{self.what} {self.before}" + (f" -> {self.after}" if self.after else " is left out")
        return f"{place}{arrow}: {self.reason}"

    def as_json(self) -> dict[str, Json]:
        """Return the loss as in documents."""
        found = {"column": self.column, "what": self.what, "from": self.before, "to": self.after}
        return {name: value for name, value in found.items() if value} | {"reason": self.reason, "lost": self.is_lost}


Report = Callable[[ConversionLoss], None]
