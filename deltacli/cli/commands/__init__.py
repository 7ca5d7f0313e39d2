"""The commands, one module each.

A command is a function of Typer. It parses its options, calls one method of the Python API (`deltacli.api`), or of
`sharing` or `fleet`, and writes the result. Its docstring is its help text. `cli/command_table.py` lists the commands.

Renderers and everything else that imports pyarrow or optional packages are imported inside functions. So the help of a
command and its usage errors do not wait for them.
"""
