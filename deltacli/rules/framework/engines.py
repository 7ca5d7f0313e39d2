"""What engines do with a table that violates a rule: which refuse it, and which return other rows.

The verdict of `validate`, the messages of findings and the answers of `explain` come from this table. Every row was
measured: each engine read a table with this damage alone, and appended to it. What was not measured has no row, and
its effect on an engine is unknown.

A rule may have several rows, one per kind of damage, where engines treat these differently. The check that reports a
finding names their `cases`:

    path.not-encoded, case "other"    Spark and Kernel for Java refuse    p=a b/part-0.parquet
    path.not-encoded, case "hash"     Spark and deltalake refuse          p=a#b/part-0.parquet
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import NamedTuple

VERSIONS: Mapping[str, str] = {
    "spark": "4.4.0",
    "kernel": "4.4.0",
    "deltalake": "1.6.6",
    "duckdb": "1.5.5",
    "polars": "2.1.0",
    "chdb": "4.4.0",
}
"""Engine, as `explain --client` calls it -> the version that was measured."""
MEASURED_ON = "2026-11-30"

NAMES: Mapping[str, str] = {
    "spark": "Spark",
    "kernel": "Delta Kernel for Java",
    "deltalake": "deltalake",
    "duckdb": "DuckDB",
    "polars": "polars",
    "chdb": "chDB",
}
"""Engine -> its name in sentences."""

ALL = tuple(VERSIONS)
RUST = ("deltalake", "duckdb", "polars", "chdb")
"""The engines that stand on Delta Kernel for Rust."""
KERNELS = ("kernel", *RUST)


class Effect(NamedTuple):
    """What engines do with a table that has a kind of damage.

    Engines that are in none of the groups read the right rows and append.

    Attributes:
        refuse: Engines that cannot read the newest version. They do not append either, unless they are in `append`.
        misread: Engines that return other rows, or null where there is a value.
        append: Engines that append although they refuse to read or misread.
        read_only: Engines that read the right rows and do not append.
        unknown: Engines whose answer depends on more than the rule can see.
    """

    refuse: tuple[str, ...] = ()
    misread: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def stops_readers(self) -> bool:
        """Whether an engine refuses the table or returns other rows."""
        return bool(self.refuse or self.misread)

    def reads(self, engine: str) -> bool | None:
        """Return whether an engine reads the right rows; None if that is unknown."""
        if engine not in VERSIONS or engine in self.unknown:
            return None
        return engine not in self.refuse and engine not in self.misread

    def writes(self, engine: str) -> bool | None:
        """Return whether an engine appends; None if that is unknown."""
        if engine in self.read_only:
            return False
        return True if engine in self.append else self.reads(engine)

    @property
    def sentence(self) -> str:
        """What the engines do, in words; empty if all of them read the table, or none does, as the rule then says."""
        parts = []
        if self.refuse and self.refuse != ALL:
            parts.append(f"{enumerate_engines(self.refuse)} {'refuses' if len(self.refuse) == 1 else 'refuse'} it")
        if self.misread:
            verb = "reads" if len(self.misread) == 1 else "read"
            parts.append(f"{enumerate_engines(self.misread)} {verb} other values")
        return "; ".join(parts)

    def as_json(self) -> dict[str, list[str]]:
        """Return the engines as in documents."""
        return {"refuse": list(self.refuse), "misread": list(self.misread), "unknown": list(self.unknown)}


_NONE = Effect()
"""All engines that were measured read the table and append to it."""

_WITHOUT_FIELD_OF_ADD = Effect(refuse=KERNELS, append=("duckdb", "chdb"))
_OF_PROTOCOL_LISTS = Effect(refuse=("spark", *RUST))

EFFECTS: Mapping[str, Mapping[str, Effect]] = {
    "path.not-encoded": {
        "hash": Effect(refuse=("spark", "deltalake"), append=("spark", "deltalake")),
        "question mark": Effect(refuse=("spark", "kernel", "deltalake"), append=("spark", "deltalake")),
        "backslash": Effect(refuse=("spark", "kernel", "deltalake"), append=("deltalake",)),
        "control character": Effect(refuse=("spark", "kernel", "deltalake", "polars"), append=("deltalake", "polars")),
        "other": Effect(refuse=("spark", "kernel")),
        "letter": _NONE,
        "removed": _NONE,
    },
    "path.bad-encoding": {
        "stray": Effect(refuse=("spark", "kernel", "duckdb", "chdb"), append=("duckdb", "chdb")),
        "not UTF-8": Effect(refuse=ALL, append=("spark", *RUST)),
        "removed stray": Effect(refuse=("spark", "kernel")),
        "removed not UTF-8": _NONE,
    },
    "path.colon": {
        "segment": Effect(refuse=("spark", "kernel")),
        "scheme": Effect(refuse=("spark", "kernel", "deltalake"), append=("deltalake",)),
        "removed scheme": Effect(refuse=("spark",)),
    },
    "path.not-normalised": {
        "dot": Effect(refuse=("polars",), append=("polars",)),
        "parent": Effect(refuse=("duckdb", "polars", "chdb"), append=("duckdb", "polars", "chdb")),
        "slashes": Effect(refuse=("deltalake",), append=("deltalake",)),
        "removed": _NONE,
    },
    "path.absolute-inside-root": {
        "plain": Effect(refuse=("polars",), append=("polars",)),
        "file": Effect(refuse=("duckdb", "polars", "chdb"), append=("duckdb", "polars", "chdb")),
    },
    "path.escapes-root": {"": Effect(refuse=("polars", "chdb"), append=("polars", "chdb")), "removed": _NONE},
    "log.gap": {"": Effect(refuse=ALL), "directory": Effect(refuse=("spark", "kernel"), read_only=RUST)},
    "log.name-mistaken": {"": Effect(refuse=("kernel",))},
    "log.name-not-padded": {"": Effect(refuse=("spark", "kernel")), "covered": Effect(refuse=("kernel",))},
    "log.version-too-large": {"beyond 64 bits": Effect(refuse=("spark", "kernel"))},
    "log.checkpoint-commit-missing": {
        "newest": Effect(refuse=("spark", "kernel"), read_only=("deltalake", "polars")),
        "first": Effect(refuse=("kernel",)),
    },
    "checkpoint.without-commit": {"": Effect(refuse=("spark", "kernel"), read_only=("deltalake", "polars"))},
    "checkpoint.unreadable": {
        # It depends on the damaged part.
        "": Effect(
            refuse=("kernel", "duckdb", "chdb"), append=("duckdb", "chdb"), unknown=("spark", "deltalake", "polars")
        ),
    },
    # DuckDB and its kin fail in about half of their starts: which form they take depends on the listing.
    "checkpoint.several-forms": {"": Effect(refuse=("duckdb",), unknown=("deltalake", "polars", "chdb"))},
    "hint.checkpoint-missing": {"": Effect(refuse=RUST)},
    "hint.ahead-of-log": {"": Effect(refuse=RUST)},
    "hint.schema-wrong": {"": Effect(refuse=("spark",))},
    "hint.bad-json": {"": _NONE},
    "hint.missing-field": {"": _NONE},
    "hint.size-wrong": {"": _NONE},
    "hint.parts-on-classic": {"": _NONE},
    "hint.checksum-bad": {"": _NONE},
    "crc.without-commit": {"ahead": Effect(refuse=("kernel", "deltalake", "polars"))},
    "crc.num-files": {"": _NONE},
    "crc.table-size": {"": _NONE},
    "commit.crlf-or-blank": {"blank": Effect(refuse=("kernel",)), "ends": _NONE},
    "commit.line-not-object": {
        "empty": _NONE,
        "several": _NONE,
        "add and remove": Effect(misread=("kernel",)),
        "protocol or metaData": Effect(refuse=("spark",)),
        "array": Effect(refuse=KERNELS),
        "no object": Effect(refuse=ALL),
    },
    "commit.pretty-printed": {
        "": Effect(refuse=("spark", "kernel")),
        "several on a line": Effect(misread=("spark", "kernel")),
        # They apply the remove, as Spark and Kernel for Java do not.
        "remove after another": Effect(misread=RUST),
    },
    "commit.not-utf8": {
        "mark": Effect(refuse=KERNELS),
        "bytes": Effect(refuse=("spark", *RUST), unknown=("kernel",)),
    },
    "commit.bad-json": {"": Effect(refuse=ALL), "too long": _NONE},
    "commit.number-not-finite": {"": Effect(refuse=KERNELS)},
    "commit.lone-surrogate": {"": Effect(refuse=RUST)},
    "commitinfo.not-object": {"": Effect(refuse=("spark",))},
    "action.number-spelling": {"": Effect(refuse=("spark", "kernel"))},
    "action.negative-size": {
        "": Effect(
            refuse=("kernel", "deltalake", "polars"), misread=("spark",), append=("spark", "deltalake", "polars")
        )
    },
    "action.missing-required": {
        "add.size": Effect(refuse=KERNELS, misread=("spark",), append=("duckdb", "chdb")),
        "add.modificationTime": _WITHOUT_FIELD_OF_ADD,
        "add.dataChange": _WITHOUT_FIELD_OF_ADD,
        "add.partitionValues": _WITHOUT_FIELD_OF_ADD,
        "metaData.format": Effect(refuse=ALL),
        "metaData.format.options": Effect(refuse=("spark", *RUST)),
        "metaData.format.provider": Effect(refuse=KERNELS),
        "metaData.schemaString": Effect(refuse=ALL),
        "metaData.partitionColumns": Effect(refuse=ALL),
        "metaData.configuration": Effect(refuse=ALL),
        "metaData.id": Effect(refuse=ALL),
        "protocol.minWriterVersion": Effect(refuse=KERNELS),
    },
    "protocol.missing": {"": Effect(refuse=ALL)},
    "protocol.reader-features-missing": {"": _OF_PROTOCOL_LISTS},
    "protocol.writer-features-missing": {"": _OF_PROTOCOL_LISTS},
    "protocol.features-on-legacy": {"": _OF_PROTOCOL_LISTS},
    "protocol.reader3-needs-writer7": {"": _OF_PROTOCOL_LISTS},
    "protocol.writer-feature-in-reader": {"": _OF_PROTOCOL_LISTS},
    "protocol.reader-only-feature": {"": Effect(refuse=RUST)},
    "protocol.rw-feature-not-in-reader": {"": Effect(refuse=RUST)},
    "mapping.mode-without-protocol": {"": Effect(refuse=("spark", "kernel"))},
    "mapping.mode-invalid": {"": Effect(refuse=("spark", "kernel"))},
    "metadata.format-not-parquet": {"": _NONE},
    "metadata.partition-column-unknown": {"": Effect(refuse=("spark", *RUST), unknown=("kernel",))},
    "schema.bad-json": {"": Effect(refuse=ALL)},
    "schema.no-columns": {"": Effect(refuse=("spark", *RUST))},
    "partition.unparsable": {"": Effect(refuse=KERNELS, misread=("spark",), append=("duckdb", "chdb"))},
    "partition.key-missing": {"": Effect(refuse=("kernel",), misread=("spark", *RUST), append=("spark", *RUST))},
    "partition.key-case": {"": Effect(refuse=("kernel", "deltalake", "polars"), misread=("spark", "duckdb", "chdb"))},
    "partition.key-extra": {"": Effect(refuse=("deltalake", "polars"))},
    "partition.kernel-unreadable": {
        "spelling": Effect(refuse=KERNELS, append=("duckdb", "chdb")),
        "empty": Effect(refuse=("kernel",)),
    },
    "stats.bad-json": {"": Effect(refuse=("deltalake",), append=("deltalake",))},
    "typewidening.change-not-allowed": {"preview": Effect(refuse=("spark", "kernel"))},
}
"""Rule -> case -> its effect. The case is empty where all findings of a rule have the same effect."""


def effect_of(rule_id: str, cases: Collection[str] = ()) -> Effect | None:
    """Return what engines do with a finding of a rule that has these cases; None if that was not measured."""
    return _effect_of(rule_id, tuple(cases) or ("",))


@cache
def _effect_of(rule_id: str, cases: tuple[str, ...]) -> Effect | None:
    by_case = EFFECTS.get(rule_id, {})
    effects = [by_case[case] for case in cases if case in by_case]
    if not effects or len(effects) < len(cases):
        return None
    refuse = {engine for effect in effects for engine in effect.refuse}
    misread = {engine for effect in effects for engine in effect.misread} - refuse
    stopped = {engine for engine in ALL for effect in effects if effect.writes(engine) is False}
    append = {engine for effect in effects for engine in effect.append} - stopped
    read_only = {engine for effect in effects for engine in effect.read_only} - refuse - misread
    unknown = {engine for effect in effects for engine in effect.unknown} - refuse - misread
    return Effect(*map(_in_order, (refuse, misread, append, read_only, unknown)))


def engines_stopped_by(rule_ids: Collection[str]) -> tuple[str, ...]:
    """Return the engines that refuse or misread a table with a damage of one of these rules, in any of its cases."""
    effects = [effect for rule_id in rule_ids for effect in EFFECTS.get(rule_id, {}).values()]
    return _in_order({engine for effect in effects for engine in (*effect.refuse, *effect.misread)})


def _in_order(engines: Collection[str]) -> tuple[str, ...]:
    return tuple(engine for engine in ALL if engine in engines)


def enumerate_engines(engines: Collection[str]) -> str:
    """Return the names of engines as part of a sentence."""
    *names, last = [NAMES[engine] for engine in engines]
    return f"{', '.join(names)} and {last}" if names else last
