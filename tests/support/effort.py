"""How hard the property tests try: `HYPOTHESIS_PROFILE` multiplies the number of examples of every one of them."""

from __future__ import annotations

import importlib
import os
import pkgutil

from hypothesis import HealthCheck, settings

_FACTORS = {"deep": 25, "more": 4}


def forgive_slowness() -> None:
    """Make it the default of every property test that what is slow on a loaded machine is no failure."""
    settings.register_profile("slow machines", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("slow machines")


def import_the_whole_product() -> None:
    """Let one seed be the same examples in every run: hypothesis draws constants from the source of what happens to be
    imported, and which worker imports what by then is chance.
    """
    import deltacli

    for module in pkgutil.walk_packages(deltacli.__path__, "deltacli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def examples(count: int) -> settings:
    """Settings of a property test that usually tries `count` examples."""
    factor = _FACTORS.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 1)
    # Building a table draws a lot of data.
    return settings(
        max_examples=count * factor,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
