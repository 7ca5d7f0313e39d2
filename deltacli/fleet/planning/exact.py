"""The exact plans of destructive steps, as `vacuum --dry-run` and `log expire --dry-run` make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.fleet.policy_file.model import ExpirePolicy, Policy, VacuumPolicy

if TYPE_CHECKING:
    from deltacli.operations.log.expire import ExpiryPlan
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.vacuum.plan import VacuumPlan


def plan_vacuum_step(table: TableHandle, policy: Policy) -> VacuumPlan:
    """Return the plan of a vacuum with the settings of a policy. Raises what `plan_vacuum` raises."""
    from deltacli.operations.vacuum.full_plan import plan_vacuum
    from deltacli.operations.vacuum.request import VacuumRequest

    settings = policy.steps["vacuum"]
    assert isinstance(settings, VacuumPolicy)
    request = VacuumRequest(
        retention_ms=settings.retention,
        allow_retention_below_ms=settings.allow_retention_below,
        mode=settings.mode,
        max_delete=settings.max_delete,
        protect_from=settings.protect_from,
    )
    return plan_vacuum(table, request)


def plan_expiry_step(table: TableHandle, policy: Policy) -> ExpiryPlan:
    """Return the plan of a log expiry with the settings of a policy. Raises what `plan_expiry` raises."""
    from deltacli.operations.log.expire import ExpiryRequest, plan_expiry

    settings = policy.steps["log-expire"]
    assert isinstance(settings, ExpirePolicy)
    return plan_expiry(table, ExpiryRequest(settings.retention, (), settings.allow_retention_below))
