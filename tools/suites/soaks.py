"""The suites of `python3 dev.py soak`, which take hours: which tests they are, and how often they run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Soak:
    """A suite that is run by hand: file patterns, a mark expression, and passes. Each pass has its own seed."""

    patterns: tuple[str, ...]
    marks: str
    passes: int = 1


SOAKS = {
    "races": Soak(
        (
            "tests/operations/**/test_*_races.py",
            "tests/operations/**/test_*_killed.py",
            "tests/operations/**/test_*_faults.py",
            "tests/operations/vacuum/test_quarantine.py",
            "tests/paimon/test_*_races.py",
            "tests/storage/test_writing.py",
        ),
        "soak or not soak",
        passes=4,
    ),
    "contention": Soak(
        ("tests/operations/test_file_contention.py", "tests/operations/alter/test_writers.py"), "soak or not soak"
    ),
    "accidents": Soak(("tests/operations/recover/test_accidents.py",), "soak or not soak"),
    "repair": Soak(("tests/operations/repair",), "soak or not soak"),
    "matrix": Soak(("tests/corpus", "tests/differential", "tests/operations/test_log_*.py"), "soak or matrix"),
    "quartered": Soak(("tests",), "quartered or halved"),
    "turns": Soak(("tests",), "in_turn"),
    "long": Soak(("tests",), "long"),
    "sampled": Soak(("tests",), "sampled"),
    "property": Soak(
        (
            *("tests/property", "tests/spark", "tests/operations/test_operations_together.py"),
            *("tests/operations/test_append.py", "tests/operations/vacuum/test_saved_plan.py"),
            "tests/docs/test_schemas.py",
        ),
        "soak or not soak",
    ),
    "inputs": Soak(("tests/hostile/test_inputs*.py",), "soak or not soak"),
    "load": Soak(("tests/hostile", "tests/operations/test_load.py"), "soak"),
    "clouds": Soak(
        (
            "tests/operations/test_cloud*.py",
            "tests/storage/test_*[!d].py",
            "tests/cli/test_*secrets.py",
            "tests/cli/test_cloud*.py",
        ),
        "soak or not soak",
    ),
    "listing": Soak(("tests/storage/test_listing_load.py",), "soak"),  # alone: it measures times
    "share": Soak(("tests/sharing/test_load.py",), "soak or not soak"),  # alone: it measures times
    "sharing": Soak(("tests/sharing/[a-z]*/", "tests/sharing/test_client*.py"), "soak or not soak"),
    "fleet": Soak(("tests/fleet",), "soak or not soak"),
}
