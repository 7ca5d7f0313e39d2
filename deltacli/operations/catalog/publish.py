"""`catalog publish`: ratified commits copied into the log, in order, and reported to the catalog.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deltacli.catalogs.publishing import publish, require_publishable
from deltacli.catalogs.ratified import staged_path
from deltacli.changing.basis import Act, Basis
from deltacli.changing.plan import Whole
from deltacli.core.errors import NOTHING_CHANGED, Refused
from deltacli.core.units import plural, short_repr
from deltacli.operations.catalog.status import require_managed

if TYPE_CHECKING:
    from deltacli.changing.change import Gate
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class ToPublish(NamedTuple):
    """A commit that the catalog holds; `is_there`: a copy with the same content is published already."""

    version: int
    path: str
    size_bytes: int
    age_ms: int
    is_there: bool


@short_repr("items", "latest_published", "refusal")
@dataclass(frozen=True, repr=False)
class PublishPlan:
    """What would be published, oldest first. Nothing has been done."""

    basis: Basis
    items: tuple[ToPublish, ...]
    latest_published: int
    """The newest version that the catalog knows to be published."""
    refusal: Refused | None = None

    @property
    def is_noop(self) -> bool:
        """True where the catalog holds no commit."""
        return not self.items

    def objection(self) -> Refused | None:
        """Return why nothing can be published."""
        return self.refusal

    def effects(self) -> Iterator[str]:
        """Yield the versions that are published."""
        yield from (f"version {one.version} is published" for one in self.items)


@short_repr("published", "latest_published")
@dataclass(repr=False)
class PublishOutcome(Whole):
    """What was published, or would be by a plan that was not executed."""

    plan: PublishPlan
    published: tuple[int, ...] = ()
    reported: int | None = None

    @property
    def latest_published(self) -> int:
        """The newest version that the catalog knows to be published."""
        return self.plan.latest_published if self.reported is None else self.reported

    def so_far(self) -> str:
        """Return what was published."""
        return f"{plural(len(self.published), 'version')} published"

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the document `deltacli.catalog-publish`, without the envelope."""
        versions = [one.version for one in self.plan.items] if dry_run else list(self.published)
        return {"published": versions, "latestPublished": self.latest_published, "dryRun": dry_run}


@dataclass(frozen=True)
class Publish:
    """The publication of every commit that the catalog holds."""

    act: ClassVar[Act] = Act.DERIVE

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PublishPlan:  # noqa: ARG002  (asks the catalog)
        """Ask the catalog, and look at every commit. Raises UsageError where no catalog manages the table, and what the
        catalog and the store raise; that a commit cannot be published is part of the plan.
        """
        managed = require_managed(table)
        view, now_ms = managed.log.reload(), table.clock()
        items, refusal = list[ToPublish](), None
        for version, commit in sorted(view.commits.items()):
            is_there = False
            if refusal is None:
                try:
                    is_there = require_publishable(managed.inner, commit, is_first=not items)
                except Refused as fault:
                    refusal = Refused(
                        fault.reason, said_first=NOTHING_CHANGED, code=fault.code, facts=fault.facts, hint=fault.hint
                    )
            age_ms = max(now_ms - commit.timestamp_ms, 0)
            items.append(ToPublish(version, staged_path(commit), commit.size_bytes, age_ms, is_there))
        return PublishPlan(Basis(table, view.latest, now_ms), tuple(items), view.published, refusal)

    def outcome(self, plan: PublishPlan) -> PublishOutcome:
        """Return that nothing was published yet."""
        return PublishOutcome(plan)

    def execute(self, gate: Gate[PublishPlan, PublishOutcome]) -> None:
        """Publish what the catalog holds by now, and report it. Raises what `publish` raises."""
        managed, published = require_managed(gate.table), list[int]()
        try:
            gate.outcome.reported = publish(managed.log, managed.inner, published=published).reported
        finally:
            gate.has_begun, gate.outcome.published = bool(published), tuple(published)
