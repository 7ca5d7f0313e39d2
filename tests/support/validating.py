"""`validate` on a store, with the fields of the request as arguments."""

from __future__ import annotations

from typing import Any

from deltacli.engine.base import Engine
from deltacli.operations.paimon.validate import validate_paimon_table
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import Validation
from deltacli.operations.validate.validate import validate_table as validate_handle
from deltacli.rules.paimon.catalogue import Profile
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, Storage
from deltacli.table.handle import TableHandle


def validate_table(
    storage: Storage,
    engine: Engine,
    *,
    now_ms: int,
    allowed: AllowedPrefixes = NO_PREFIXES,
    **fields: Any,  # Any: fields of the request
) -> Validation:
    """Check a Delta table at a time."""
    table = TableHandle(storage, engine=engine, clock=lambda: now_ms, allowed=allowed)
    return validate_handle(table, ValidateRequest(**fields))


def validate_paimon(
    storage: Storage,
    engine: Engine,
    *,
    profile: Profile = Profile.JAVA,
    **fields: Any,  # Any: fields of the request
) -> Validation:
    """Check a Paimon table."""
    return validate_paimon_table(TableHandle(storage, engine=engine), ValidateRequest(**fields), profile=profile)
