"""The command line: argv in, stdout and an exit code out. Only this package knows typer and touches the terminal."""
