"""`deltacli share profile show|check`."""

from __future__ import annotations

from pathlib import Path

from deltacli.cli.invocation import Exit
from deltacli.cli.options.declared import ProfileArgument
from deltacli.cli.running.run import Run
from deltacli.core.errors import EXIT_FINDINGS

EXIT_CODES = (0, 1, 2, 7, 70)


def share_profile_show(run: Run, profile: ProfileArgument) -> None:
    """Show the endpoint and the expiry of a profile file, and never its secrets.

    \b
    Examples:
      deltacli share profile show acme.share
      deltacli share profile show acme.share --json
    """
    from deltacli.cli.render.sharing import profile_result
    from deltacli.sharing.configuration.secrets import problems_of, read_profile

    found = read_profile(Path(profile))
    run.write(profile_result(found, problems_of(found, run.clock()), run.clock()))


def share_profile_check(run: Run, profile: ProfileArgument) -> None:
    """Check a profile file: form, checksum of the token, expiry, permissions.

    \b
    Does not connect to the server. Exits with 1 if a problem is found, also if the
    token expires within 7 days.

    \b
    Examples:
      deltacli share profile check acme.share
      deltacli share profile check acme.share -q || echo "ask for a new profile"
    """
    from deltacli.cli.render.sharing import profile_result
    from deltacli.sharing.configuration.secrets import problems_of, read_profile

    found = read_profile(Path(profile))
    problems = problems_of(found, run.clock())
    run.write(profile_result(found, problems, run.clock()))
    if problems:
        raise Exit(EXIT_FINDINGS)
