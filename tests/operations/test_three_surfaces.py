"""A parameter of an operation is declared up to four times: in its request, as a parameter of a method, as an option of
a command, and as a key of a policy file. They agree, except for what is listed here with its reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, NamedTuple

from deltacli.api.table import Table
from deltacli.cli.command_loading import load_command
from deltacli.delta.checkpoint.layout import TopFile
from deltacli.fleet.policy_file.keys import ALERT_KEYS, STEP_KEYS, TOP_KEYS, WEBHOOK_KEYS, Key
from deltacli.fleet.policy_file.model import STEP_TYPES, AlertPolicy, RunSettings, Webhook
from deltacli.operations.change.alter import AlterationRequest
from deltacli.operations.change.convert import ConvertRequest
from deltacli.operations.change.stats import ReadFrom, StatsRequest
from deltacli.operations.change.widen_type import WidenRequest
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, LayoutChoice, StatsForm
from deltacli.operations.copy.request import CopyLevel, CopyRequest
from deltacli.operations.diff import DiffRequest
from deltacli.operations.doctor.advice import DoctorRequest
from deltacli.operations.explain import ExplainRequest
from deltacli.operations.log.expire import ExpiryRequest
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.reach import ReachRequest
from deltacli.operations.recover.plan import UndeleteRequest
from deltacli.operations.repair.plan import RepairRequest
from deltacli.operations.restore.restore import RestoreRequest
from deltacli.operations.streams.streams import StreamsRequest
from deltacli.operations.vacuum.plan import Mode, VacuumRequest
from deltacli.operations.validate.findings import LevelChoice, ValidateRequest
from deltacli.table.scan_requests import ChangesRequest, HistoryRequest, ScanRequest
from deltacli.table.version import Snapshot


class Operation(NamedTuple):
    """An operation on a Delta table, as each surface calls it."""

    method: str
    request: type[Any]
    command: str
    step: str | None = None
    owner: type[Any] = Table


OPERATIONS = {
    operation.method: operation
    for operation in (
        Operation("history", HistoryRequest, "history"),
        Operation("scan", ScanRequest, "read", owner=Snapshot),
        Operation("changes", ChangesRequest, "changes"),
        Operation("validate", ValidateRequest, "validate", step="validate"),
        Operation("alter", AlterationRequest, "alter"),
        Operation("widen_type", WidenRequest, "widen-type"),
        Operation("vacuum", VacuumRequest, "vacuum", step="vacuum"),
        Operation("optimize", OptimizeRequest, "optimize", step="optimize"),
        Operation("stats", StatsRequest, "stats"),
        Operation("diff", DiffRequest, "diff"),
        Operation("reach", ReachRequest, "reach"),
        Operation("streams", StreamsRequest, "streams"),
        Operation("explain", ExplainRequest, "explain"),
        Operation("doctor", DoctorRequest, "doctor table"),
        Operation("checkpoint", CheckpointRequest, "checkpoint"),
        Operation("expire_log", ExpiryRequest, "log expire", step="log-expire"),
        Operation("convert", ConvertRequest, "convert"),
        Operation("copy", CopyRequest, "copy", step="copy"),
        Operation("undelete", UndeleteRequest, "undelete"),
        Operation("restore", RestoreRequest, "restore"),
        Operation("repair", RepairRequest, "repair"),
    )
}

ONLY_IN_METHODS: Mapping[tuple[str, str], str] = {
    ("validate", "on_finding"): "a function, which is not part of what is requested",
    ("widen_type", "dry_run"): "the request is the same for a plan and for the change",
}
"""Parameters of methods that are not fields of the request, each with the reason."""

ONLY_IN_ONE_OF_BOTH: Mapping[tuple[str, str], str] = {
    ("copy", "target"): "the store is open already, for reading or for writing",
    ("copy", "check"): "a comparison is not a change",
    ("copy", "dry_run"): "the request is the same for a plan and for the change",
    ("expire_log", "is_verified"): "an execution verifies it in any case",
    ("stats", "examines"): "what a plan is asked for by `--check`",
    ("widen_type", "dry_run"): "the request is the same for a plan and for the change",
    ("widen_type", "with_impact"): "for people who decide on the plan",
}
"""Parameters of a method or of the one that prepares its change, but not of both, each with the reason."""

WORDS: Mapping[tuple[str, str], type[Enum]] = {
    ("checkpoint", "layout"): LayoutChoice,
    ("checkpoint", "stats"): StatsForm,
    ("checkpoint", "v2_top"): TopFile,
    ("copy", "level"): CopyLevel,
    ("repair", "level"): LevelChoice,
    ("stats", "read"): ReadFrom,
    ("vacuum", "mode"): Mode,
    ("validate", "level"): LevelChoice,
}
"""Fields of requests that have one of several words."""

_RANGE = "the command takes a version or a time in one option"
_ENDS = {
    **dict.fromkeys(("from_version", "from_timestamp", "from_timestamp_ms"), ("--from", _RANGE)),
    **dict.fromkeys(("to_version", "to_timestamp", "to_timestamp_ms"), ("--to", _RANGE)),
}
_SINGULAR = "the option is repeated, one value each time"
_ARGUMENT = "an argument of the command, not an option"
OTHER_OPTIONS: Mapping[str, Mapping[str, tuple[str | None, str]]] = {
    "history": _ENDS,
    "changes": _ENDS,
    "diff": {**_ENDS, "other": (None, _ARGUMENT)},
    "validate": {"on_finding": (None, "findings are written as they are made")},
    "alter": {"changes": (None, _ARGUMENT)},
    "widen_type": {"changes": (None, _ARGUMENT)},
    "vacuum": {
        "keep_versions": ("--keep-version", _SINGULAR),
        "log_entries": ("--no-log-entries", "a flag says what is not the default"),
    },
    "explain": {"clients": ("--client", _SINGULAR), "changes": ("--if", "it reads like the question")},
    "doctor": {"listing": ("--no-listing", "a flag says what is not the default")},
    "expire_log": {"keep_versions": ("--keep-version", _SINGULAR)},
    "copy": {"target": (None, _ARGUMENT)},
    "undelete": {"sources": ("--from", "shorter, and the same word in three commands")},
    "restore": {"sources": ("--from", "shorter, and the same word in three commands")},
    "repair": {
        "sources": ("--from", "shorter, and the same word in three commands"),
        "partition_values": ("--partition-value", _SINGULAR),
    },
}
"""Method -> parameter -> its option where that is not spelled like it (None: there is none), with the reason."""

ONLY_IN_POLICIES: Mapping[str, str] = {
    "every": "when the step is due",
    "consent": "a policy agrees to a deletion in advance",
    "small_files": "when the step is due",
    "window": "when the step is due",
    "baselines": "accepted findings are a matter of the command and the step, not of the table",
    "fail_on": "the result of a step, not of a validation",
    "to": "a pattern for the targets of all tables",
}
"""Settings of steps that are not parameters of a method, each with the reason."""


def parameters_of(operation: Operation, method: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of a method by name, without `self`."""
    by_name = dict(inspect.signature(getattr(operation.owner, method)).parameters)
    del by_name["self"]
    return by_name


def default_of(field: Field[Any]) -> object:
    """Return the default of a field as a method has it: words are texts. Without one, it is that of a parameter."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    if default is MISSING:
        return inspect.Parameter.empty
    return default.value if isinstance(default, Enum) else default


def declared_parameters(operation: Operation) -> dict[str, tuple[str, object]]:
    """Return type and default of the fields of a request, as its method should have them."""
    declared = {field.name: (str(field.type), default_of(field)) for field in fields(operation.request)}
    if operation.method == "widen_type":
        declared["changes"] = ("tuple[str, str]", inspect.Parameter.empty)  # each pair is an argument of its own
    return declared


def test_a_method_has_the_fields_of_its_request_in_order_with_types_and_defaults() -> None:
    differing = {}
    for name, operation in OPERATIONS.items():
        declared = declared_parameters(operation)
        parameters = {
            parameter.name: (parameter.annotation, parameter.default)
            for parameter in parameters_of(operation, name).values()
            if (name, parameter.name) not in ONLY_IN_METHODS
        }
        if [*declared.items()] != [*parameters.items()]:
            differing[name] = {*declared.items()} ^ {*parameters.items()}

    assert {} == differing


def test_a_method_that_plans_takes_what_the_change_takes_but_for_a_dry_run() -> None:
    differing = []
    for name, operation in OPERATIONS.items():
        if hasattr(operation.owner, f"plan_{name}"):
            change = parameters_of(operation, name)
            del change["dry_run"]
            if [*change.values()] != [*parameters_of(operation, f"plan_{name}").values()]:
                differing.append(name)

    assert [] == differing


def test_a_method_that_prepares_takes_what_the_change_takes() -> None:
    differing = {}
    for name, operation in OPERATIONS.items():
        if hasattr(operation.owner, f"prepare_{name}"):
            change = {**parameters_of(operation, name)}
            prepared = {**parameters_of(operation, f"prepare_{name}")}
            difference = {
                parameter
                for parameter in change.keys() | prepared.keys()
                if (name, parameter) not in ONLY_IN_ONE_OF_BOTH
                and _type_and_default(change.get(parameter)) != _type_and_default(prepared.get(parameter))
            }
            if difference:
                differing[name] = difference

    assert {} == differing


def _type_and_default(parameter: inspect.Parameter | None) -> tuple[object, object] | None:
    """Return what two declarations of a parameter have in common, in any order and form of passing it."""
    return None if parameter is None else (parameter.annotation, parameter.default)


def test_the_words_of_an_option_are_those_of_the_request() -> None:
    differing = {}
    for name, operation in OPERATIONS.items():
        options = options_of(operation.command)
        for field in fields(operation.request):
            option = options.get(spelling_by_rule(field.name))
            words = WORDS.get((name, field.name))
            if option is not None and words is not None and [*words] != option.metavar.split("|"):
                differing[name, field.name] = option.metavar

    assert {} == differing


def test_every_change_whose_request_is_known_is_compared() -> None:
    prepared = {name.removeprefix("prepare_") for name in dir(Table) if name.startswith("prepare_")}
    without_request = {
        *("add_features", "backup_log", "clone", "compact_log", "drop_features", "manifest", "publish_catalog"),
        *("purge_quarantine", "restore_log", "saved_repair", "saved_vacuum", "set_properties", "undo_repair"),
        *("unset_properties", "write_checksum"),
    }

    assert prepared - without_request <= OPERATIONS.keys()


def options_of(command: str) -> dict[str, Any]:  # Any: parameters of Typer's own click
    """Return the options of a command by their spellings, read from the tree that Typer makes."""
    loaded: Any = load_command(tuple(command.split()))  # Any: as above
    return {spelling: parameter for parameter in loaded.params for spelling in parameter.opts}


def test_a_parameter_of_a_method_is_an_option_of_its_command() -> None:
    missing = []
    for name, operation in OPERATIONS.items():
        options = options_of(operation.command)
        others = OTHER_OPTIONS.get(name, {})
        for parameter in parameters_of(operation, name):
            spelling, _reason = others.get(parameter, (spelling_by_rule(parameter), ""))
            if spelling is not None and spelling not in options:
                missing.append((name, parameter, spelling))

    assert [] == missing


def test_the_default_of_an_option_is_that_of_the_parameter() -> None:
    """
    None and False stand for an option that is not given.
    """
    differing = []
    for name, operation in OPERATIONS.items():
        options = options_of(operation.command)
        for parameter in parameters_of(operation, name).values():
            option = options.get(spelling_by_rule(parameter.name))
            default = None if option is None else option.default
            if default not in (None, False, (), [], parameter.default):
                differing.append((name, parameter.name, default, parameter.default))

    assert [] == differing


def spelling_by_rule(parameter: str) -> str:
    """Return the option of a parameter that is spelled like it."""
    return f"--{parameter.removesuffix('_ms').replace('_', '-')}"


SECTIONS: Mapping[str, tuple[tuple[Key, ...], type[Any]]] = {
    **{step: (keys, STEP_TYPES[step]) for step, keys in STEP_KEYS.items()},
    "alerts": (ALERT_KEYS, AlertPolicy),
    "webhook": (WEBHOOK_KEYS, Webhook),
    "top": (tuple(key for key in TOP_KEYS if key.name != "exclude"), RunSettings),
}
"""Table of the policy file -> its keys, and the class of its settings."""


def test_a_key_of_a_policy_is_a_setting_and_states_its_default() -> None:
    differing = []
    for section, (keys, settings) in SECTIONS.items():
        by_name = {field.name: field for field in fields(settings)}
        for key in keys:
            default = shown_default(key, default_of(by_name[key.field_name]))
            if key.default != default:
                differing.append((section, key.name, key.default, default))

    assert [] == differing


def shown_default(key: Key, default: object) -> str | None:
    """Return how a policy file shows a default; None where a key has no value without one."""
    if default in (None, (), "", inspect.Parameter.empty):
        return None
    return str(key.show(default))


def shared_settings() -> Iterator[tuple[Operation, Key]]:
    """Yield each key of a step that its method has, too, with the operation."""
    for operation in OPERATIONS.values():
        if operation.step is not None:
            for key in STEP_KEYS[operation.step]:
                if key.field_name not in ONLY_IN_POLICIES:
                    yield operation, key


def test_a_setting_of_a_step_has_the_default_of_the_parameter_of_its_method() -> None:
    differing = []
    for operation, key in shared_settings():
        parameter = parameters_of(operation, operation.method).get(key.field_name)
        (setting,) = [field for field in fields(STEP_TYPES[str(operation.step)]) if field.name == key.field_name]
        if parameter is None or parameter.default != default_of(setting):
            differing.append((operation.method, key.name))

    assert [] == differing


def test_every_exception_is_still_one() -> None:
    names = {key.field_name for keys in STEP_KEYS.values() for key in keys}
    parameters = {(name, parameter) for name in OPERATIONS for parameter in parameters_of(OPERATIONS[name], name)}

    assert ONLY_IN_POLICIES.keys() <= names
    assert ONLY_IN_METHODS.keys() <= parameters
    for name, others in OTHER_OPTIONS.items():
        assert {(name, parameter) for parameter in others} <= parameters
        assert all(spelling_by_rule(parameter) != spelling for parameter, (spelling, _reason) in others.items())
