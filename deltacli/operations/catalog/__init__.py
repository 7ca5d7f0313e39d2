"""Tables that a catalog manages: where log and catalog stand, what was staged, and publication."""
