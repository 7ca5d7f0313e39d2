"""A profile file, without its secrets."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.cli.render.columns import Column
from deltacli.cli.render.sections import Section
from deltacli.cli.render.sharing.recipients import share_fields
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style
from deltacli.sharing.configuration.profiles import Problem, Profile
from deltacli.typing import JsonObject
from deltacli.units import format_age, format_moment


def profile_result(profile: Profile, problems: Sequence[Problem], now_ms: int) -> Listing[JsonObject]:
    """Return a profile and its problems. CSV has a line for each problem."""
    items = [{"code": one.code, "severity": _severity(one), "message": one.message} for one in problems]
    names = ("code", "severity", "message")
    columns: list[Column[JsonObject]] = [Column(name, lambda one, name=name: one[name]) for name in names]  # type: ignore[misc]
    fields = share_fields("share-profile") | profile.as_json()
    content = profile.as_json()
    last = {"type": "share-profile", "credentialsType": content.pop("type"), **content}
    sections = [*_sections(profile, now_ms), *_problem_sections(problems)]
    return Listing(
        fields,
        "profile-problem",
        items,
        columns,
        items,
        items_name="problems",
        last=last,
        said=lambda _: sections,
        lists=False,
    )


def _sections(profile: Profile, now_ms: int) -> list[Section]:
    content, expires_ms = profile.as_json(), profile.expires_ms
    expires = "never" if profile.expiration is None else "not a time"
    if expires_ms is not None:
        expires = f"{format_moment(expires_ms)} UTC, {format_age(expires_ms, now_ms)}"
    return [
        Section("profile", [str(profile.path)]),
        Section("version", [str(content["shareCredentialsVersion"])]),
        Section("endpoint", [str(content["endpoint"])]),
        Section("type", [profile.kind]),
        Section("secrets", [", ".join(content["secrets"]) or "none"]),
        Section("expires", [expires]),
        Section("readable by", ["other users, too" if profile.is_readable_by_others else "its owner"]),
    ]


def _problem_sections(problems: Sequence[Problem]) -> list[Section]:
    if not problems:
        return []
    return [Section("problems", [f"{_severity(one)}: {one.message}" for one in problems], Style.PROBLEM, is_cut=False)]


def _severity(problem: Problem) -> str:
    return "error" if problem.is_error else "warning"
