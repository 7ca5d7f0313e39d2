"""The interface of plans: what a change would do, before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltacli.changing.basis import Basis
    from deltacli.core.errors import Refused
    from deltacli.table.handle import TableHandle


class Plan(Protocol):
    """A description of what a change would do. Nothing has been done yet."""

    @property
    def basis(self) -> Basis:
        """The version that the plan was made from."""

    @property
    def is_noop(self) -> bool:
        """Return True if the table already is as requested."""

    def build_refusal(self) -> Refused | None:
        """Return the error for the reasons why this plan must not be executed; None if there are none."""

    def effects(self) -> Iterable[str]:
        """Return a line per effect, without versions and times.

        Somebody who agrees to the plan agrees to these lines: a plan that is made again behind another writer and has
        the same lines is executed without another question.
        """


PlanT = TypeVar("PlanT", bound=Plan)


class PlanWithoutRefusals:
    """Base class of plans that are always allowed, because what forbids them is raised while they are made."""

    __slots__ = ()

    def build_refusal(self) -> None:
        """Return None: there is nothing to refuse."""


class WithTable:
    """Base class of plans and outcomes that give access to their table."""

    __slots__ = ()
    basis: Basis

    @property
    def table(self) -> TableHandle:
        """The table, bound to the directory in which the change was planned."""
        return self.basis.table


class WithTableUri:
    """Base class of plans and outcomes that name their table by its URI."""

    __slots__ = ()
    basis: Basis

    @property
    def table(self) -> str:
        """The URI of the table."""
        return self.basis.table.uri
