"""Scripts that run in the environment of another engine: they import nothing of deltacli and answer in JSON
lines.
"""
