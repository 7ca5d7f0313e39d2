"""The interface of plans. A plan describes the effects of a change before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltacli.changing.base_version import BaseVersion
    from deltacli.core.errors import Refused
    from deltacli.table.handle import TableHandle


class Plan(Protocol):
    """A description of the effects of a change. Making a plan changes nothing."""

    @property
    def base_version(self) -> BaseVersion:
        """The version that the plan was made from."""

    @property
    def is_noop(self) -> bool:
        """Return True if there is nothing to do, because the table already is in the requested state."""

    def build_refusal(self) -> Refused | None:
        """Return the error with all reasons not to execute this plan; None if it may be executed."""

    def effects(self) -> Iterable[str]:
        """Return one line of text per effect: `extra _symlink_format_manifest/day=1/manifest`.

        A user who agrees to the plan agrees to these lines. If another writer commits first, and the new plan has the
        same lines, it is executed without asking again. Therefore the lines contain no version numbers and no times.
        """


PlanT = TypeVar("PlanT", bound=Plan)


class PlanWithoutRefusals:
    """Base class for plans that are always allowed. Reasons against the change are raised as errors by the planning."""

    __slots__ = ()

    def build_refusal(self) -> None:
        """Return None, because the plan may be executed."""


class TableHandleMixin:
    """Base class for plans and outcomes with an attribute `table` that is a handle of the table."""

    __slots__ = ()
    base_version: BaseVersion

    @property
    def table(self) -> TableHandle:
        """The table, bound to the directory in which the change was planned."""
        return self.base_version.table


class TableUriMixin:
    """Base class for plans and outcomes with an attribute `table` that is the URI of the table."""

    __slots__ = ()
    base_version: BaseVersion

    @property
    def table(self) -> str:
        """The URI of the table."""
        return self.base_version.table.uri
