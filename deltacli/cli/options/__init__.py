"""The options of commands, as annotated types of Typer, and the parsers of their values."""
