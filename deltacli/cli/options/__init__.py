"""The options of commands: shared ones, configuration, and those of single commands."""
