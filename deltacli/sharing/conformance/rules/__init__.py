"""The rules of `share test` by area; each module has an area and the checks of its rules."""
