"""The run of a command: open tables, execute changes, and write results and notes.

Start with `context.py`: the `CommandContext` is what every command gets. `changing.py` shows a plan, asks, and executes
it, and `many.py` does that for several tables. `stores.py` opens paths, URIs, shared tables and tables of a catalog.
"""
