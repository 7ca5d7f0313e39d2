"""`deltacli share check`."""

EXIT_CODES = (0,)


def check(run: "Run") -> None: ...
