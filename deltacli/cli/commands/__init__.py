"""One file per command: parse, call the operation, render."""
