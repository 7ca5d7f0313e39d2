"""The run of a command: its stores and tables, the change that it makes, what it writes."""
